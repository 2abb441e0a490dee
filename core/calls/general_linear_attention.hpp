// The options of general_linear_attention, of some tokens of it, and of its gradient.
#pragma once

#include "core/calls/linear_attention.hpp"

namespace causeway {
namespace calls {

// What each member means is said once, by its option in general_linear_attention() below.
template <class Tensor>
struct GeneralOptions {
    using TensorType = Tensor;

    std::optional<Tensor> a;
    std::optional<Tensor> u, w;
    std::string mode = "chunkwise";
    Index chunk = 24;
    double scale = 1;
    std::optional<Tensor> state;
    std::vector<Index> cu_seqlens;
    std::vector<Index> state_indices;  // counted from 0; in the shell from 1
    bool inplace = false;
    Index checkpoint_every = 0;
    std::string deterministic = "prefix";
};

// As the shell calls them: see LinearStepOptions and LinearGradOptions.
template <class Tensor>
struct GeneralStepOptions : GeneralOptions<Tensor> {
    bool keep_states = false;
};
template <class Tensor>
struct GeneralGradOptions : GeneralOptions<Tensor> {
    std::optional<Tensor> dstate;
};

// Options that whole sequences, steps and gradients share.
template <class S>
std::vector<Option<S>> of_all_general_calls() {
    return {
        {.name = "a",
         .member = &S::a,
         .text = "what the state is multiplied by before the token: [b, h, N], or a factor for each row of it, "
                 "[b, h, N, d_k]; any numbers, 0 forgets; fewer heads may each serve some",
         .standard = "1",
         .example = "a = rand(1, 2, 100, 8)"},
        {.name = "u",
         .member = &S::u,
         .text = "[b, h, N, d_k]: along it is taken out what w reads; given with w",
         .standard = "none",
         .example = "u = k / 8, w = k"},
        {.name = "w",
         .member = &S::w,
         .text = "[b, h, N, d_k]: reads the state before the token, Sᵀw; given with u",
         .standard = "none",
         .example = "u = k / 8, w = k"},
        {.name = "scale", .member = &S::scale, .text = "factor on q", .example = "scale = 1 / math.sqrt(8)"},
        state_indices_option<S>("the slots of a pool of states that the sequences have, one each, counted from 1; the "
                                "state is then the pool, [slots, h, d_k, d_v]",
                                "state = zeros(4, 2, 8, 8), state_indices = {3}"),
        device_option<S>(),
        layout_option<S>(),
    };
}

// Options that whole sequences and gradients share.
template <class S>
std::vector<Option<S>> of_general_sequences(const char* mode) {
    return {
        {.name = "mode", .member = &S::mode, .text = mode, .choices = linear_modes},
        {.name = "chunk", .member = &S::chunk, .text = "tokens in a chunk", .min = 1, .example = "chunk = 16"},
        {.name = "state",
         .member = &S::state,
         .text = "the state to start from, [b, h, d_k, d_v]",
         .standard = "zeros",
         .example = "state = zeros(1, 2, 8, 8)"},
        {.name = "cu_seqlens",
         .member = &S::cu_seqlens,
         .text = "where packed sequences begin and end: n + 1 offsets from 0 to N, with batch 1; states are then "
                 "[n, h, d_k, d_v]",
         .standard = "one sequence",
         .example = "cu_seqlens = {0, 30, 100}"},
    };
}

// Options of whole sequences: where their states go, which are kept, and what holds of the bits.
template <class S>
std::vector<Option<S>> of_general_states() {
    return {
        inplace_option<S>("state = zeros(1, 2, 8, 8), inplace = true"),
        checkpoint_every_option<S>("checkpoint_every = 32"),
        deterministic_option<S>("\"run\": the same bits in every run; \"alone\": a packed sequence has those of a "
                                "call on it alone; \"prefix\": outputs up to a token do not depend on later tokens, "
                                "on N and on the batch; every mode keeps all",
                                nullptr),
    };
}

template <class Tensor>
const Call<GeneralOptions<Tensor>>& general_linear_attention() {
    using S = GeneralOptions<Tensor>;
    static const auto& call =
        *new Call<S>{"general_linear_attention",
                     {{"q"}, {"k"}, {"v"}},
                     joined<S>(of_all_general_calls<S>(),
                               joined<S>(of_general_sequences<S>("the definition, chunks, or the text as one chunk: "
                                                                 "O(N), O(N) and O(N²) time"),
                                         of_general_states<S>())),
                     text_inputs};
    return call;
}

template <class Tensor>
const Call<GeneralStepOptions<Tensor>>& general_linear_attention_step() {
    using S = GeneralStepOptions<Tensor>;
    static const auto& call = *new Call<S>{"general_linear_attention_step",
                                           {{"q"}, {"k"}, {"v"}, {"state"}},
                                           joined<S>(of_all_general_calls<S>(), of_steps<S>()),
                                           step_inputs};
    return call;
}

template <class Tensor>
const Call<GeneralGradOptions<Tensor>>& general_linear_attention_grad() {
    using S = GeneralGradOptions<Tensor>;
    static const auto& call = *new Call<S>{
        "general_linear_attention_grad",
        {{"q"}, {"k"}, {"v"}, {"dO"}},
        joined<S>(joined<S>(of_all_general_calls<S>(),
                            of_general_sequences<S>("what is stored: every state, a state per chunk, or "
                                                    "every state again")),
                  {{.name = "dstate",
                    .member = &S::dstate,
                    .text = "what arrives at the final state, [b, h, d_k, d_v]",
                    .standard = "zeros",
                    .example = "dstate = ones(1, 2, 8, 8)"}}),
        "q, k, v, dO = randn(1, 2, 100, 8), randn(1, 2, 100, 8), randn(1, 2, 100, 8), randn(1, 2, 100, 8)"};
    return call;
}

}  // namespace calls

using GeneralOptions = calls::GeneralOptions<Tensor>;

}  // namespace causeway
