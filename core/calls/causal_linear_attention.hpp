// The options of causal_linear_attention and of its gradient.
#pragma once

#include "core/calls/sequences.hpp"
#include "core/calls/sharding.hpp"

namespace causeway {
namespace calls {

// What each member means is said once, by its option in causal_linear_attention() below.
template <class Tensor>
struct CausalOptions {
    using TensorType = Tensor;

    std::string method = "auto";
    std::vector<double> decay;  // none: 1; one for all heads; or one per head
    bool normalize = false;
    std::optional<Index> block;
    double scale = 1;
    std::optional<Tensor> state;  // Float32, for Float64 inputs Float64
    bool return_state = false;
    std::vector<Index> cu_seqlens;
    std::vector<Index> state_indices;  // counted from 0; in the shell from 1
    bool inplace = false;
    Index checkpoint_every = 0;
    std::string deterministic;  // "run", "alone", "prefix" or none of them
    Precision precision = default_precision;
};

// The call as the shell makes it, where it may be spread over several workers.
template <class Tensor>
struct CausalCallOptions : CausalOptions<Tensor>, Sharding {};

// The gradient as the shell calls it: it can also be told not to return that of the decay.
template <class Tensor>
struct CausalGradOptions : CausalOptions<Tensor>, Sharding {
    bool ddecay = true;
};

// "auto", then the names of the registry, beside which it is defined (core/exact/registry.cpp).
std::vector<std::string> causal_methods();

inline constexpr const char* one_chunk_length = "the chunks of the gradient have one length";

// Options that the call and its gradient share.
template <class S>
std::vector<Option<S>> of_both_causal_calls() {
    return {
        {.name = "decay",
         .member = &S::decay,
         .text = "γ in (0, 1]: M[i,j] = γ^(i-j)",
         .type = "a number, or one per head",
         .standard = "1",
         .example = "decay = retnet_decay(2)"},
        {.name = "normalize",
         .member = &S::normalize,
         .text = "whether row i is divided by the row sum of the masked B Cᵀ"},
        {.name = "scale", .member = &S::scale, .text = "factor on B Cᵀ", .example = "scale = 1 / math.sqrt(8)"},
        {.name = "state",
         .member = &S::state,
         .text = "the state to start from, [b, h, r, d], with normalize [b, h, r, d + 1], for methods that carry one",
         .standard = "zeros",
         .example = "method = \"fleet\", state = zeros(1, 2, 8, 8)"},
        cu_seqlens_option<S>(
            "where packed sequences begin and end: n + 1 offsets from 0 to N, with batch 1; states are "
            "then [n, h, r, d]"),
        state_indices_option<S>("the slots of a pool of states that the sequences have, one each, counted from 1; the "
                                "state is then the pool, [slots, h, r, d]",
                                "method = \"fleet\", state = zeros(4, 2, 8, 8), "
                                "state_indices = {3}"),
        deterministic_option<S>(
            "\"run\": the same bits in every run; \"alone\": a packed sequence has those of a call on it alone; "
            "\"prefix\": outputs up to a token do not depend on later tokens, on N and on the batch, for methods that "
            "keep that; with any of them \"auto\" is lightning-attention-2",
            "what the method keeps; \"auto\" may be another method in another run"),
        {.name = "precision",
         .member = &S::precision,
         .text = "of products of Float32 tensors on a GPU",
         .choices = precisions,
         .cpu = Effect::none},
        device_option<S>(),
        layout_option<S>(),
    };
}

template <class Tensor>
const Call<CausalCallOptions<Tensor>>& causal_linear_attention() {
    using S = CausalCallOptions<Tensor>;
    static const auto& call = *new Call<S>{
        "causal_linear_attention",
        {{"B", "q"}, {"C", "k"}, {"V", "v"}},
        joined<S>({{.name = "method",
                    .member = &S::method,
                    .text = "how it is computed; \"auto\" is the fastest one measured on this machine, on a GPU "
                            "lightning-attention-2",
                    .choices = causal_methods,
                    .listed_by = "methods()",
                    .example = "method = \"fleet\""},
                   {.name = "block",
                    .member = &S::block,
                    .text = "block, tile or base-case length, where the method has one; on a GPU a method made for one "
                            "block refuses others, and \"auto\" with a block that is not lightning-attention-2's is "
                            "block-based",
                    .standard = "the method's",
                    .min = 1,
                    .example = "method = \"block-based\", block = 32"},
                   inplace_option<S>("method = \"fleet\", state = zeros(1, 2, 8, 8), inplace = true"),
                   checkpoint_every_option<S>("method = \"fleet\", checkpoint_every = 32"),
                   {.name = "return_state",
                    .member = &S::return_state,
                    .text = "whether the state after the last token is returned as a second value",
                    .example = "method = \"fleet\", return_state = true"}},
                  joined<S>(of_both_causal_calls<S>(), joined<S>(sharding_options<S>(), {state_exchange_option<S>()}))),
        text_inputs};
    return call;
}

template <class Tensor>
const Call<CausalGradOptions<Tensor>>& causal_linear_attention_grad() {
    using S = CausalGradOptions<Tensor>;
    static const auto& call = *new Call<S>{
        "causal_linear_attention_grad",
        {{"B", "q"}, {"C", "k"}, {"V", "v"}, {"dO"}},
        joined<S>({{.name = "method",
                    .member = &S::method,
                    .text = "checked only: the gradient is that of the same function, whatever computed it",
                    .choices = causal_methods,
                    .listed_by = "methods()"},
                   {.name = "block",
                    .member = &S::block,
                    .text = "chunk length",
                    .standard = "64",
                    .min = 1,
                    .gpu = Effect::refused,
                    .why = one_chunk_length,
                    .example = "block = 32"},
                   {.name = "ddecay",
                    .member = &S::ddecay,
                    .text = "whether the gradient of the decay is wanted too, where one is given",
                    .example = "decay = 0.9, ddecay = false"}},
                  joined<S>(of_both_causal_calls<S>(), joined<S>(sharding_options<S>(), {grad_exchange_option<S>()}))),
        gradient_inputs()};
    return call;
}

}  // namespace calls

using CausalOptions = calls::CausalOptions<Tensor>;

}  // namespace causeway
