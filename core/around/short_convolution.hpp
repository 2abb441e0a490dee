// A short causal convolution of every channel by itself, with what it keeps of the tokens before: ONNX's
// CausalConvWithState, fla's ShortConvolution, mamba's causal_conv1d.
#pragma once

#include <optional>
#include <vector>

#include "core/calls/around.hpp"
#include "core/kit/packed.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway {

struct ConvolutionResult {
    Tensor y;      // shape and type of x
    Tensor state;  // [b, taps - 1, channels], the last inputs; Float32, for Float64 inputs Float64
};

// y_t = f(bias + Σ_i w_i x_(t - taps + 1 + i)) for each channel, i from 0 to taps - 1: the last weight is that of the
// token itself. x [b, N, channels] or [N, channels], weight [channels, taps], bias [channels]; f is x or silu. state
// [b, taps - 1, channels] holds the inputs before the first token, zeros where it is not given; two parts of a text
// with the state handed over have the bits of one call. cu_seqlens packs n sequences into b = 1, each with a state of
// its own and the bits of a call with it alone. Float16 and BFloat16 are computed in Float32. O(b·N·channels·taps)
// time. Throws Error naming the argument, OutOfMemory, Interrupted, Timeout.
ConvolutionResult short_convolution(const Tensor& x, const Tensor& weight, const ConvolutionOptions& = {});

struct ConvolutionGradient {
    Tensor dx, dweight;           // shapes and types of x and weight
    std::optional<Tensor> dbias;  // where a bias was given, likewise
    Tensor dstate;                // of the state before the first token, [b, taps - 1, channels], as the state returned
};

// The gradient of <y, dy> + <final state, dstate>; no dstate: zeros. Sums over tokens are made in Float64, in an order
// that does not depend on the number of threads.
ConvolutionGradient short_convolution_grad(const Tensor& x, const Tensor& weight, const Tensor& dy,
                                           const ConvolutionOptions& = {}, const std::optional<Tensor>& dstate = {});

namespace around {

// The sizes of a call; one sequence a batch entry where nothing is packed. Looks at shapes and types alone.
struct ConvolutionSizes {
    DType compute;
    Index batch, N, channels, taps;
    bool silu;
    std::vector<kit::Span> sequences;  // rows of x

    Shape state_shape() const { return {static_cast<Index>(sequences.size()), taps - 1, channels}; }
};
ConvolutionSizes check_convolution(const Tensor& x, const Tensor& weight, const ConvolutionOptions&);

// The convolution of rows, checked and contiguous: `sequences` of them stand one after the other.
template <class T>
struct Convolution {
    Index channels = 0, taps = 0;
    bool silu = false;
    const T* weight = nullptr;  // [channels, taps]
    const T* bias = nullptr;    // [channels], or null
    std::vector<kit::Span> sequences;

    // From x [rows, channels] and the inputs before each sequence, window [sequences, taps - 1, channels], to y.
    void run(const T* x, const T* window, T* y) const;
    // The window becomes that before the tokens which follow.
    void keep(const T* x, T* window) const;
};

extern template struct Convolution<float>;
extern template struct Convolution<double>;

}  // namespace around
}  // namespace causeway
