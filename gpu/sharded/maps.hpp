// What ranks that hand states on compute with gates and maps.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace causeway::gpu::sharded {

// Gates [states, N, columns] of a head's tokens.
struct GateRows {
    const float* g;
    std::int64_t states, N;
    int columns;
};

// Of every state the first tokens whose gates together leave less than 2^-24 of what was before them, in every column:
// a multiple of 256 and at most `most`, or -1 where it would take more. reach [states].
void find_reach(const GateRows& gates, std::int64_t most, std::int32_t* reach, cudaStream_t stream);

// A [states][columns]: the product of the gates of all tokens.
void multiply_gates(const GateRows& gates, float* A, cudaStream_t stream);

// x [states][n][n] <- the unit matrix.
void make_unit(float* x, std::int64_t states, int n, cudaStream_t stream);

// out [states][rows][columns] <- A S + B; A has `carry` numbers a state: none (1), 1, `rows` (a diagonal) or rows².
void apply_maps(std::int64_t states, int rows, int columns, std::int64_t carry, const float* A, const float* B,
                const float* S, float* out, cudaStream_t stream);

}  // namespace causeway::gpu::sharded
