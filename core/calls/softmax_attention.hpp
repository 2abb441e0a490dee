// The options of softmax_attention, of its gradient, and of the energy it is the gradient of.
//
// One rule for the option causal of all calls that have it: the queries are the last positions of the keys. A call of
// queries and keys of one text is causal by default (softmax_attention, its gradient, the energy); a call of a query
// against a cache, which holds nothing later, sees all keys by default (tree_decode, ring_decode: decode.hpp).
#pragma once

#include "core/calls/sequences.hpp"
#include "core/calls/sharding.hpp"

namespace causeway {
namespace calls {

// What each member means is said once, by its option in softmax_attention() below.
template <class Tensor>
struct SoftmaxOptions {
    using TensorType = Tensor;

    bool causal = true;
    std::string method = "flash";
    std::optional<double> scale;
    std::vector<Index> cu_seqlens;
};

// The call of the shell: the C++ function always returns the log-sum-exp, the shell only when asked to.
template <class Tensor>
struct SoftmaxCallOptions : SoftmaxOptions<Tensor>, Sharding {
    bool return_lse = false;
};

// The gradient as the shell calls it: what the forward pass returned is an argument of the C++ function, and two
// options here.
template <class Tensor>
struct SoftmaxGradOptions : SoftmaxOptions<Tensor>, Sharding {
    std::optional<Tensor> O, lse;
};

struct EnergyOptions {
    using TensorType = Tensor;

    bool causal = true;
    std::optional<double> scale;
};

// The names of the registry, beside which it is defined (core/softmax/registry.cpp).
std::vector<std::string> softmax_methods();

inline constexpr const char* root_of_width = "1/sqrt(d)";

// Of calls with queries and keys of one text.
template <class S>
Option<S> causal_option() {
    return {.name = "causal",
            .member = &S::causal,
            .text =
                "true: the N queries are the last N of the M positions, and each sees the keys up to its own "
                "(N <= M); false: it sees all, which is the default of a query against a cache (tree_decode)"};
}

template <class S>
Option<S> score_scale_option() {
    return {.name = "scale",
            .member = &S::scale,
            .text = "factor on q kᵀ",
            .standard = root_of_width,
            .example = "scale = 0.5"};
}

// Options that the call and its gradient share.
template <class S>
std::vector<Option<S>> of_both_softmax_calls() {
    return {
        causal_option<S>(),
        {.name = "method",
         .member = &S::method,
         .text = "\"flash\" is an online softmax over tiles, never a matrix of scores; \"standard\" the definition, "
                 "one row of scores at a time",
         .choices = softmax_methods,
         .cpu_choice = "standard"},
        score_scale_option<S>(),
        cu_seqlens_option<S>(
            "where packed sequences begin and end: n + 1 offsets from 0 to N, with batch 1, of q and of "
            "k alike"),
        device_option<S>(),
        layout_option<S>(),
    };
}

template <class Tensor>
const Call<SoftmaxCallOptions<Tensor>>& softmax_attention() {
    using S = SoftmaxCallOptions<Tensor>;
    static const auto& call = *new Call<S>{
        "softmax_attention",
        {{"q"}, {"k"}, {"v"}},
        joined<S>(joined<S>(of_both_softmax_calls<S>(),
                            {{.name = "return_lse",
                              .member = &S::return_lse,
                              .text = "whether the log-sum-exp of the scaled scores of every query is returned too, "
                                      "[b, h_q, N], Float32 (Float64 for Float64 inputs)"}}),
                  joined<S>(sharding_options<S>(), {ring_exchange_option<S>()})),
        text_inputs};
    return call;
}

template <class Tensor>
const Call<SoftmaxGradOptions<Tensor>>& softmax_attention_grad() {
    using S = SoftmaxGradOptions<Tensor>;
    static const auto& call =
        *new Call<S>{"softmax_attention_grad",
                     {{"q"}, {"k"}, {"v"}, {"dO"}},
                     joined<S>(joined<S>(of_both_softmax_calls<S>(),
                                         {{.name = "O",
                                           .member = &S::O,
                                           .text = "the output that softmax_attention returned with return_lse = true",
                                           .standard = "the forward pass is run again",
                                           .example = "O = O, lse = lse"},
                                          {.name = "lse",
                                           .member = &S::lse,
                                           .text = "the log-sum-exp that it returned; both or neither",
                                           .standard = "the forward pass is run again",
                                           .example = "O = O, lse = lse"}}),
                               joined<S>(sharding_options<S>(), {ring_exchange_option<S>()})),
                     gradient_inputs() + "\nO, lse = softmax_attention(q, k, v, {return_lse = true})"};
    return call;
}

inline Call<EnergyOptions> energy_call(const char* name, const std::string& inputs) {
    using S = EnergyOptions;
    return {name,
            {{"q"}, {"k"}, {"v"}, {"zeta"}},
            {causal_option<S>(), score_scale_option<S>(), device_option<S>(true), layout_option<S>(true)},
            inputs};
}

inline std::string energy_inputs() { return std::string(text_inputs) + "\nzeta = zeros(1, 2, 100, 8)"; }

inline const Call<EnergyOptions>& energy() {
    static const auto& call = *new Call<EnergyOptions>(energy_call("energy", energy_inputs()));
    return call;
}

inline const Call<EnergyOptions>& energy_grad() {
    static const auto& call = *new Call<EnergyOptions>(energy_call("energy_grad", energy_inputs()));
    return call;
}

inline const Call<EnergyOptions>& energy_hessian() {
    static const auto& call = *new Call<EnergyOptions>(
        energy_call("energy_hessian", std::string(query_inputs) + "\nzeta = zeros(1, 2, 1, 8)"));
    return call;
}

}  // namespace calls

using SoftmaxOptions = calls::SoftmaxOptions<Tensor>;
using EnergyOptions = calls::EnergyOptions;

}  // namespace causeway
