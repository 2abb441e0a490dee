// What a model is worth on a text, and what replacing its attention costs.
#pragma once

#include "core/lowrank/error.hpp"
#include "core/model/model.hpp"

namespace causeway::model {

// How well every token of a text but the first is predicted from those before it.
struct Prediction {
    double bits = 0;   // Σ −log₂ p(token)
    Index tokens = 0;  // predicted ones
    Index right = 0;   // of them, those that were the likeliest
    double per_token() const { return bits / static_cast<double>(tokens); }
    double accuracy() const { return static_cast<double>(right) / static_cast<double>(tokens); }
    double per_byte(Index bytes) const { return bits / static_cast<double>(bytes); }
};
// Throws Error for fewer than two tokens. Memory of one chunk of logits, whatever the length.
Prediction predict(const Model&, const Ids& ids, const RunOptions& = {});

// Bits per byte of a text: `bytes` are those of all its tokens but the first.
double bits_per_byte(const Model&, const Ids& ids, Index bytes, const RunOptions& = {});

// How likely a continuation of a prompt is.
struct Choice {
    double log_probability = 0;  // natural, of all its tokens
    double per_token = 0;        // that divided by their number: normalised by length
    Index tokens = 0;
    bool greedy = false;  // whether each of its tokens is the likeliest
};
// One for each choice; the prompt runs once. Throws Error for an empty prompt or choice.
std::vector<Choice> score(const Model&, const Ids& prompt, const std::vector<Ids>& choices, const RunOptions& = {});
// The same where the beginning of the prompt has already run, which several prompts may share; `prompt` is the rest.
// `begun` stays as it is. The numbers are those of the whole prompt where the model runs_in_parts().
std::vector<Choice> score(const Session& begun, const Ids& prompt, const std::vector<Ids>& choices,
                          const RunOptions& = {});

// What a factorisation makes of the attention of one layer on a text: errors of its scores exp(scale q kᵀ), masked and
// not, beside the bound of claim A2, and of the attention's output.
struct LayerError {
    Index layer = 0;  // from 1
    std::string with;
    LowRankError scores;  // of all heads as one block-diagonal matrix, with the errors of the output
    double output = 0;    // |õ − o|_F / |o|_F of the replaced attention, as the layer computes it
};
// For a factorisation in place of layers of softmax attention (none named: all), each with the inputs it has in the
// model without replacements; lowrank_error's `tolerance` is that of operator norms. O(N²) a head. Progress is told in
// layers. Throws Error for a layer without scores and a name that is no factorisation.
std::vector<LayerError> swap_errors(const Model&, const Ids& ids, const std::vector<Index>& layers,
                                    const std::string& with, const SwapOptions& = {}, double tolerance = 1e-3,
                                    const RunOptions& = {});

// What replacing the attention of some layers by a factorisation costs the whole model on a text.
struct SwapReport {
    std::vector<LayerError> layers;
    Prediction before, after;  // of the model without any replacement, and with these
};
SwapReport swap_report(const Model&, const Ids& ids, const std::vector<Index>& layers, const std::string& with,
                       const SwapOptions& = {}, double tolerance = 1e-3, const RunOptions& = {});

}  // namespace causeway::model
