// From logits to the next token.
#pragma once

#include <cstdint>

#include "core/base/memory.hpp"

namespace causeway::model {

struct GenerateOptions;

// ln Σ e^(x_i), largest first taken out; NaN where one is NaN. O(n).
double log_sum_exp(const float* x, Index n);

// Place of the largest, the first of equals. O(n). Throws Error for a NaN: then the model has no next token.
Index likeliest(const float* logits, Index n);

// The token of temperature, top_k and top_p for a number u that is uniform in [0, 1): of softmax(logits / temperature)
// the k likeliest, of these the fewest that have top_p of their probability together. O(n log n).
Index sample(const float* logits, Index n, const GenerateOptions&, double u);

// Throws Error for options that are none.
void check(const GenerateOptions&);

}  // namespace causeway::model
