// What ranks that hand states on compute with gates and maps.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/kit/layout.hpp"

namespace causeway::gpu::sharded {

// Gates [states, N, columns] of a head's tokens.
struct GateRows {
    const float* g;
    std::int64_t states, N;
    int columns;
};

// A head counts as one that forgets where its last gates leave less than 2^-forgotten_bits: more than it takes not to
// be seen beside a state of the same size (core/sharded/handed.hpp; in 16 bits what kernels leave out of a part
// themselves), as what tokens make may be that much smaller than the state before them. Where it is smaller still,
// find_differing says so.
constexpr float forgotten_bits(Type type) { return type == Type::Float32 ? 40.0f : 24.0f; }

// The first or the last tokens of a part.
enum class From { start, end };

// Of every state the first or last tokens whose gates together leave less than 2^-bits of what was before them, in
// every column: a multiple of 256 and at most `most`, or -1 where it would take more. reach [states].
void find_reach(const GateRows& gates, From from, float bits, std::int64_t most, std::int32_t* reach,
                cudaStream_t stream);

// A [states][columns]: the product of the gates of all tokens.
void multiply_gates(const GateRows& gates, float* A, cudaStream_t stream);

// x [states][n][n] <- the unit matrix.
void make_unit(float* x, std::int64_t states, int n, cudaStream_t stream);

// differs [states] <- 1 where S is not `handed`, both [states][rows][columns], else left as it is: where an element of
// it is not finite, or is farther away than `share` of the largest number in its column, and unless A mixes rows, in
// its row.
void find_differing(std::int64_t states, int rows, int columns, bool mixes, float share, const float* S,
                    const float* handed, std::int32_t* differs, cudaStream_t stream);

// out [states][rows][columns] <- A S + B, transposed: Aᵀ S + B; B null: zeros. out may be S, but for A of rows². A has
// `carry` numbers a state: none (1), 1, `rows` (a diagonal) or rows².
void apply_maps(std::int64_t states, int rows, int columns, std::int64_t carry, bool transposed, const float* A,
                const float* B, const float* S, float* out, cudaStream_t stream);

}  // namespace causeway::gpu::sharded
