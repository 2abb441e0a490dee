#include "core/gated/registry.hpp"

#include "core/calls/linear_attention.hpp"
#include "core/gated/chunkwise.hpp"
#include "core/gated/forms.hpp"
#include "core/gated/recurrent.hpp"
#include "core/kit/spread.hpp"

namespace causeway::gated {
namespace {

// f(head) for every head; counts belong to one thread.
template <class T, class F>
void each(const Problem<T>& p, F&& f) {
    if constexpr (std::is_same_v<T, Counted>) each_head_in_turn(p, f);
    else each_head(p, f);
}

template <class T>
void run_recurrent(const Problem<T>& p) {
    each(p, [](const auto& h) { recurrent(h); });
}

template <class T>
void run_parallel(const Problem<T>& p) {
    each(p, [](const auto& h) { parallel(h); });
}

void count_chunkwise(const Problem<Counted>& p) {
    each_head_in_turn(p, [&](const auto& h) { chunkwise(h, p.chunk); });
}

}  // namespace

const Registry<Rule>& updates() {
    static const auto& list = *new Registry<Rule>(
        "update",
        {{"linear", Update::linear, "Katharopoulos et al. 2020; gates", "S ← S + k vᵀ,  o = scale · Sᵀ q",
          "Every token adds to the state and nothing is taken out: linear attention without a gate.",
          "Where all tokens count alike, however old; the cheapest of the four."},
         {"gated", Update::gated, "gates; Yang et al. 2023 (GLA)", "S ← diag(e^g) S + k vᵀ,  o = scale · Sᵀ q",
          "The state fades before every token: g <= 0 is the log decay of a head, log_decay [b, h, N], or of each of "
          "its key channels, log_decay [b, h, N, d_k].",
          "Where what is old should be forgotten, by how much depending on the token. A decay that is the same for "
          "all tokens is the option decay of causal_linear_attention."},
         {"delta", Update::delta, "Schlag et al. 2021; Yang et al. 2024", "S ← S + β k (v - Sᵀ k)ᵀ,  o = scale · Sᵀ q",
          "What the state holds under the key k moves towards v by the writing strength β, beta [b, h, N], so a key "
          "that is assigned again is overwritten. Keys are meant to have length 1, β lies between 0 and 2.",
          "Where a key may get a new value and the old one must go. Nothing fades by itself."},
         {"gated_delta", Update::gated_delta, "Yang, Kautz, Hatamizadeh 2025; gates",
          "S ← diag(e^g) S,  S ← S + β k (v - Sᵀ k)ᵀ,  o = scale · Sᵀ q",
          "The gate, then the delta rule on what it left: log_decay [b, h, N] or [b, h, N, d_k], and beta [b, h, N].",
          "Where the state must both forget as a whole and replace what stands under one key; the dearest of the "
          "four."}});
    return list;
}

const Registry<Mode>& modes() {
    static const auto& list = *new Registry<Mode>(
        "mode",
        {{"recurrent", "the definition; gates, \"Putting them together\"; Yang et al. 2024, eq. 10",
          "Token after token: the update, then the query reads the state.",
          "To compare with, for very short sequences, and to count by opcount; linear_attention_step goes on from a "
          "state one token at a time.",
          "O(N d_k d_v)", "d_v", false, run_recurrent<float>, run_recurrent<double>, run_recurrent<Counted>},
         {"chunkwise", "gates; Yang et al. 2024, §3",
          "Chunks of C tokens: products of matrices within a chunk, a state carried between chunks. With a delta rule "
          "a chunk solves a triangular system of C equations (the WY form).",
          "For everything longer than a chunk; it is the default. chunk = C gives the length.",
          "O(N (d_k d_v + C (d_k + d_v)))", "C (d_k + d_v) + C²", true, run_chunkwise<float>, run_chunkwise<double>,
          count_chunkwise},
         {"parallel", "gates, C = n_seq", "The sequence as one chunk: all scores at once, no state until the end.",
          "To compare with; time and memory grow with N².", "O(N² (d_k + d_v))", "N²", false, run_parallel<float>,
          run_parallel<double>, run_parallel<Counted>}});
    return list;
}

}  // namespace causeway::gated

std::vector<std::string> causeway::calls::linear_updates() { return gated::updates().names(); }
std::vector<std::string> causeway::calls::linear_modes() { return gated::modes().names(); }
