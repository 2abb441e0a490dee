// The options of what stands around linear attention in the layers of models: short convolutions, norms, gates.
#pragma once

#include "core/calls/sequences.hpp"

namespace causeway {
namespace calls {

// What each member means is said once, by its option in the calls below.
template <class Tensor>
struct ConvolutionOptions {
    using TensorType = Tensor;

    std::optional<Tensor> bias, state;
    std::string activation = "none";
    std::vector<Index> cu_seqlens;
};

template <class Tensor>
struct LengthOptions {
    using TensorType = Tensor;

    double eps = 1e-6;
};

template <class Tensor>
struct NormOptions {
    using TensorType = Tensor;

    std::optional<Tensor> weight, gate;
    std::string activation = "silu";
    double eps = 1e-6;
};

template <class Tensor>
struct DecayGateOptions {
    using TensorType = Tensor;

    std::optional<Tensor> dt_bias;
    std::optional<double> lower_bound;
};

inline std::vector<std::string> convolution_activations() { return {"none", "silu"}; }
inline std::vector<std::string> gate_activations() { return {"silu", "sigmoid"}; }

template <class Tensor>
const Call<ConvolutionOptions<Tensor>>& short_convolution() {
    using S = ConvolutionOptions<Tensor>;
    static const auto& call =
        *new Call<S>{"short_convolution",
                     {{"x"}, {"weight"}},
                     {{.name = "bias",
                       .member = &S::bias,
                       .text = "added to every sum, [channels]",
                       .standard = "zeros",
                       .example = "bias = ones(8)"},
                      {.name = "state",
                       .member = &S::state,
                       .text = "the inputs before the first token, [b, taps - 1, channels]",
                       .standard = "zeros",
                       .example = "state = zeros(1, 3, 8)"},
                      {.name = "activation",
                       .member = &S::activation,
                       .text = "what each sum goes through",
                       .choices = convolution_activations},
                      cu_seqlens_option<S>(
                          "where packed sequences begin and end: n + 1 offsets from 0 to N, with batch 1; states are "
                          "then [n, taps - 1, channels]"),
                      device_option<S>()},
                     "x, weight = randn(1, 100, 8), randn(8, 4)"};
    return call;
}

template <class S>
Option<S> eps_option(const char* text) {
    return {.name = "eps", .member = &S::eps, .text = text, .example = "eps = 1e-5"};
}

template <class Tensor>
const Call<LengthOptions<Tensor>>& l2norm() {
    using S = LengthOptions<Tensor>;
    static const auto& call = *new Call<S>{"l2norm",
                                           {{"x"}},
                                           {eps_option<S>("added to the sum of squares"), device_option<S>()},
                                           "x = randn(1, 2, 100, 8)"};
    return call;
}

template <class Tensor>
const Call<NormOptions<Tensor>>& rms_norm() {
    using S = NormOptions<Tensor>;
    static const auto& call = *new Call<S>{"rms_norm",
                                           {{"x"}},
                                           {{.name = "weight",
                                             .member = &S::weight,
                                             .text = "a factor for each number of a row, [width]",
                                             .standard = "ones",
                                             .example = "weight = rand(8)"},
                                            {.name = "gate",
                                             .member = &S::gate,
                                             .text = "a gate for each number of x, with the shape of x",
                                             .standard = "none",
                                             .example = "gate = x"},
                                            {.name = "activation",
                                             .member = &S::activation,
                                             .text = "what the gate goes through before it multiplies",
                                             .choices = gate_activations},
                                            eps_option<S>("added to the mean of squares"),
                                            device_option<S>()},
                                           "x = randn(1, 2, 100, 8)"};
    return call;
}

template <class Tensor>
const Call<DecayGateOptions<Tensor>>& decay_gate() {
    using S = DecayGateOptions<Tensor>;
    static const auto& call =
        *new Call<S>{"decay_gate",
                     {{"a"}, {"A_log"}},
                     {{.name = "dt_bias",
                       .member = &S::dt_bias,
                       .text = "added to a, [h], or where a has channels [h, d_k]",
                       .standard = "zeros",
                       .example = "dt_bias = zeros(2)"},
                      {.name = "lower_bound",
                       .member = &S::lower_bound,
                       .text = "L < 0: g = L sigmoid(e^A_log (a + dt_bias)), which no gate goes below",
                       .standard = "none",
                       .example = "lower_bound = -5"},
                      device_option<S>()},
                     "a, A_log = randn(1, 2, 100), randn(2)"};
    return call;
}

}  // namespace calls

using ConvolutionOptions = calls::ConvolutionOptions<Tensor>;
using LengthOptions = calls::LengthOptions<Tensor>;
using NormOptions = calls::NormOptions<Tensor>;
using DecayGateOptions = calls::DecayGateOptions<Tensor>;

}  // namespace causeway
