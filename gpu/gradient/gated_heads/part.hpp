// What the kernels of this folder are told, and what goes between them. README.md has the letters.
#pragma once

#include <cuda.h>

#include "gpu/gated/arguments.hpp"

namespace causeway::gpu::gated_heads {

constexpr int C = 64;        // tokens of a chunk
constexpr int columns = 64;  // of v that a thread block of a sweep has
constexpr int rows = 128;    // of a state, as kernels hold it

// Bytes of a chunk between the kernels; what lies there is as in shared memory, in tiles of rows of 128 bytes.
constexpr std::int64_t gates_bytes = 4 * C * 4;           // G, from_start, to_end and beta of gated_delta::ChunkGates
constexpr std::int64_t state_bytes = rows * columns * 2;  // S or E, of one block of columns
// Floats of a state of one block of columns between launches, in the order of the threads' registers; and words of two
// BFloat16.
constexpr std::int64_t raw_floats = rows * columns;
constexpr std::int64_t raw_words = raw_floats / 2;

// Named barriers (gpu/kit/barriers.hpp).
enum Heads : std::uint32_t {
    heads_free = 1,     // what was recorded of the chunk before has left shared memory
    heads_written = 2,  // what is recorded of this one lies there
    heads_half = 3      // + i, of finishing: warpgroup i has read a tile, and written it
};

// W, P and U of each chunk, 64 rows of 64 columns, lie where no gradient has been written yet.
struct Maps {
    CUtensorMap q, k, v, dO, dq, dk, dv, W, P, U;
};

// Chunks [first, first + chunks) of every head.
struct Part {
    gated::Call call;
    gated::Operand dv;
    int first, chunks, all_chunks;
    int blocks;                           // of columns: 1 or 2
    int q_step, k_step, v_step, dO_step;  // 0 where all heads share one, which TMA then sees, else 1
    int W_column, P_column;               // where they begin in their maps
    unsigned char* gates;                 // [all heads, all chunks]
    unsigned char *S, *E;                 // of the part: [all heads, chunks, blocks]; S null: the sweep keeps none
    // The states before chunks `every`, 2 `every` ..., where parts begin: [.., all heads, blocks, raw_words].
    std::uint32_t* boundaries;
    int every;
    const float* dstate_in;  // with respect to the state after the last chunk; null: zeros
    float* dstate_out;       // before the first one; null: dropped
    float* between;          // from launch to launch, of the state and then of E
    float* dg;
    float* dbeta;
    int* not_finite;  // becomes 1 where a state or its gradient is not finite
    // The kernel runs beside the one before it, of which it needs nothing; it does not end before that one has ended.
    bool beside;

    __host__ __device__ bool is_last() const { return first + chunks == all_chunks; }
};

void launch_prepare(const Maps& maps, const Part& p, cudaStream_t stream);
void launch_forward(const Maps& maps, const Part& p, cudaStream_t stream);
void launch_again(const Maps& maps, const Part& p, cudaStream_t stream);
void launch_backward(const Maps& maps, const Part& p, cudaStream_t stream);
void launch_finish(const Maps& maps, const Part& p, cudaStream_t stream);

}  // namespace causeway::gpu::gated_heads
