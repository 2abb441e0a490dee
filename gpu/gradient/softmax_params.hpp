// What the kernels of the gradient of softmax attention are told.
#pragma once

#include "gpu/softmax/params.hpp"

namespace causeway::gpu::softmax {

constexpr const char* gradient_name = "flash_attention_grad";

// The sums of a head's queries lie at so many, a multiple of this, whatever N: whole tiles can be read.
constexpr std::int64_t sums_tile = 128;

// The call of the forward pass, and what the gradient has beside it.
struct Gradient {
    Params c;
    const void* dO;
    void *dq, *dk, *dv;
    float* lse2;  // [bh, head of the group, padded query], in units of log 2; +Inf for one that sees nothing or is not
    float* D;     // [bh, head of the group, padded query]; 0 for a query that is not
    std::int64_t padded;
    float scale;
    std::int32_t aligned_dO, aligned_o;  // rows of whole 16-byte pieces: of dO, of o too
};

}  // namespace causeway::gpu::softmax
