// What becomes of logits: the next token, and what a model says about a known one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace causeway::gpu::models {

// ids[i] = the place of the largest of row i of logits [n, words], the first of equals; -1 where one is NaN. Where
// `position` is not null, *position grows by one.
void choose_likeliest(const float* logits, std::int64_t n, std::int64_t words, std::int32_t* ids,
                      std::int32_t* position, cudaStream_t stream);

// Of row i and the token ids[i]: the logarithm of its probability, and the place of the largest as above.
struct Judged {
    float log_probability;
    std::int32_t likeliest;
};
void judge(const float* logits, std::int64_t n, std::int64_t words, const std::int32_t* ids, Judged* out,
           cudaStream_t stream);

// *to = value.
void set_number(std::int32_t* to, std::int32_t value, cudaStream_t stream);

}  // namespace causeway::gpu::models
