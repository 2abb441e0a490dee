// short_convolution of core for tensors on the GPU (core/around/short_convolution.hpp).
#pragma once

#include <optional>

#include "core/calls/around.hpp"
#include "gpu/tensor/tensor.hpp"

namespace causeway::gpu {

// The options that core/calls/around.hpp describes, and the stream that everything is queued on.
struct ConvolutionOptions : calls::ConvolutionOptions<Tensor> {
    cudaStream_t stream = nullptr;
};

struct ConvolutionResult {
    Tensor y;      // shape and type of x
    Tensor state;  // Float32 [b, taps - 1, channels], the last inputs
};

// Float32, Float16 or BFloat16, sums in Float32. A packed sequence has the bits of a call with it alone, and two parts
// of a text with the state handed over those of one call. Returns when everything is queued; a CUDA graph keeps which
// packed sequences there are. Throws Error naming the argument, OutOfMemory.
ConvolutionResult short_convolution(const Tensor& x, const Tensor& weight, const ConvolutionOptions& = {});

struct ConvolutionGradient {
    Tensor dx, dweight;           // shapes and types of x and weight
    std::optional<Tensor> dbias;  // where a bias was given, likewise
    Tensor dstate;                // Float32, of the state before the first token
};

// The gradient of <y, dy> + <final state, dstate>; no dstate: zeros. Sums over tokens are made in Float64, in an order
// that the number of tokens alone decides.
ConvolutionGradient short_convolution_grad(const Tensor& x, const Tensor& weight, const Tensor& dy,
                                           const ConvolutionOptions& = {}, const std::optional<Tensor>& dstate = {});

namespace around {

// Rows of x as sequences that stand one after the other.
struct Texts {
    const std::int64_t* offsets;  // [count + 1], on the device; null: each has N rows
    std::int64_t count, N, rows;
};

struct ConvolutionArgs {
    Texts texts;
    const void* x;
    Type type;
    const float *weight, *bias, *window;  // [channels, taps]; [channels] or null; [count, taps - 1, channels]
    std::int64_t channels, taps;
    bool silu;
    std::int64_t x_row;  // elements from one row of x to the next
};

void convolve(const ConvolutionArgs&, void* y, cudaStream_t);
// The inputs before the tokens that follow.
void keep_inputs(const ConvolutionArgs&, float* window, cudaStream_t);

// slope [rows, channels] = dy f'(z), with z the sums before f.
void convolution_slopes(const ConvolutionArgs&, const void* dy, float* slope, cudaStream_t);
// dx [rows, channels] in the type of x and dwindow as window, of slopes and dlast as window.
void convolution_inputs(const ConvolutionArgs&, const float* slope, const float* dlast, void* dx, float* dwindow,
                        cudaStream_t);
// sums [parts, channels·taps + channels]: of the weights as weight has them, and behind them of the bias.
void convolution_weights(const ConvolutionArgs&, const float* slope, double* sums, cudaStream_t);

}  // namespace around
}  // namespace causeway::gpu
