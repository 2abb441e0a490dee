// What the kernels of this folder are told, and what goes between them. README.md has the letters.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "gpu/gated/arguments.hpp"

namespace causeway::gpu::gated_heads {

constexpr int C = 64;            // tokens of a chunk
constexpr int columns = 64;      // of v that a thread block of a sweep has
constexpr int rows = 128;        // of a state, as kernels hold it
constexpr int in_gradients = 3;  // states of 64 columns of a chunk that lie in its gradients: S in dq and dk, E in dv

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

// W, P and U of each chunk, 64 rows of 64 columns, lie where no gradient has been written yet. Without the delta rule U
// is v, and there are no W and P.
struct Maps {
    CUtensorMap q, k, v, dO, dq, dk, dv, W, P, U, dq_sum, dk_sum;
};

// How the sums of dq and dk over heads are made: by clusters of thread blocks of finishing; in memory, where those of
// two heads are added to zeros in whatever order (x + y = y + x), which a sweep has written; or at the end.
enum class HeadSums { none, by_cluster, in_memory, at_the_end };

// Chunks [first, first + chunks) of every split. The splits of a head lie one behind the other and have `split_chunks`
// chunks each, those behind the last token empty; they are counted through all heads.
struct Part {
    gated::Call call;
    gated::Operand dq, dk, dv;
    gated::Operand dq_sum, dk_sum;  // over the heads of a batch entry, where they share a head of q and of k
    HeadSums over_heads;
    int first, chunks, split_chunks, splits;
    int blocks;                                   // of columns: 1 or 2
    int q_step, k_step, v_step, dO_step, U_step;  // 0 where all heads share one, which TMA then sees, else 1
    int W_column, P_column;                       // where they begin in their maps
    unsigned char* gates;                         // [splits, split_chunks]
    unsigned char *S, *E;                         // of the part: [splits, chunks, blocks]; S null: see below
    // S and last_chunks null: the sweep keeps the states before parts alone.
    // Not null: states lie in the gradients of their own chunks, 64 columns of S in dq and 64 in dk, 64 of E in dv, and
    // E has the others, [splits, chunks]. Those of a chunk that the last token is in are here,
    // [heads, in_gradients].
    unsigned char* last_chunks;
    // The states before chunks `every`, 2 `every` ... of a split, where parts begin: [.., splits, blocks, raw_words].
    // null: each lies in dv, in the two chunks before the part, or states are kept of all chunks.
    std::uint32_t* boundaries;
    int every;
    const float* dstate_in;  // with respect to the state after the last chunk; null: zeros
    float* dstate_out;       // before the first one; null: dropped
    float* between;          // from launch to launch, of the state and then of E
    // Of heads with several splits: the state behind each and the gradient of the state before each, [splits, dk, dv],
    // and the matrix A of each as a map of the state, [splits, R, R], R = map_rows().
    float *S_behind, *E_before, *A;
    float* after;  // the state after the last chunk; null: dropped
    float* dg;
    float* dbeta;
    std::int64_t gate_step;  // from head to head of g, beta, dg and dbeta, in tokens
    int* not_finite;         // becomes 1 where a state or its gradient is not finite
    // The kernel runs beside the one before it, of which it needs nothing; it does not end before that one has ended.
    bool beside;

    __device__ __forceinline__ unsigned char* of_last_chunk(std::int64_t bh, int which) const {
        return last_chunks + (bh * in_gradients + which) * state_bytes;
    }
    // Whether the last token lies in the chunk that begins with this one, and not at its end.
    __device__ __forceinline__ bool is_cut(int token) const { return token < call.N && token + C > call.N; }
    __host__ __device__ bool ends_splits() const { return first + chunks == split_chunks; }
    __host__ __device__ std::int64_t all_splits() const { return call.all_heads * splits; }
    __host__ __device__ int map_rows() const { return call.dk > columns ? 2 * columns : columns; }
};

// Which head and which tokens a split has.
struct Split {
    std::int64_t index, bh;
    int first_chunk, b, h;
    bool is_first, is_last;  // of its head
    // n counts thread blocks at most, so that 32 bits are enough, whose division is short.
    __device__ __forceinline__ Split(const Part& p, unsigned n) : Split(p, n, n / p.splits, n % p.splits) {}
    // The first token of chunk c of the launch.
    __device__ __forceinline__ int token(int c) const { return (first_chunk + c) * C; }
    __device__ __forceinline__ unsigned char* gates(const Part& p, int c) const {
        return p.gates + (index * p.split_chunks + p.first + c) * gates_bytes;
    }

private:
    __device__ __forceinline__ Split(const Part& p, unsigned n, unsigned head, unsigned in_head)
        : index(n),
          bh(head),
          first_chunk(static_cast<int>(in_head) * p.split_chunks + p.first),
          b(static_cast<int>(head) / p.call.heads),
          h(static_cast<int>(head) % p.call.heads),
          is_first(in_head == 0),
          is_last(static_cast<int>(in_head) == p.splits - 1) {}
};

// Without the delta rule, where states and their gradients are sums of outer products:
enum class Sum {
    forward,       // S of all chunks; where p.S is null, those before parts alone are kept
    forward_map,   // the state behind a split, alone, and A
    backward,      // E of the chunks of a part, the last one first
    backward_map,  // the gradient of the state before a split, alone
    again,         // S of the chunks of a part, from the state before it
};

void launch_gates(const Part& p, cudaStream_t stream);  // without the delta rule, instead of launch_prepare
void launch_prepare(const Maps& maps, const Part& p, cudaStream_t stream);
// Splits as maps of the state, whole walks that start from zeros where nothing is given: S_behind and A; E_before.
void launch_forward_maps(const Maps& maps, const Part& p, cudaStream_t stream);
void launch_backward_maps(const Maps& maps, const Part& p, cudaStream_t stream);
// Then those of the whole head: a scan over S ↦ A S + B forwards and E ↦ Aᵀ E + B backwards.
void launch_scan(const Part& p, cudaStream_t stream);
void launch_forward(const Maps& maps, const Part& p, cudaStream_t stream);
void launch_again(const Maps& maps, const Part& p, cudaStream_t stream);
void launch_backward(const Maps& maps, const Part& p, cudaStream_t stream);
void launch_states(Sum sum, const Maps& maps, const Part& p, cudaStream_t stream);
void launch_finish(const Maps& maps, const Part& p, cudaStream_t stream);
void launch_finish_linear(const Maps& maps, const Part& p, cudaStream_t stream);  // without the delta rule
// The sums over heads, of all tokens; unless they are made at the end, only if not_finite says that dq and dk are
// others now.
void launch_add(const Part& p, cudaStream_t stream);

}  // namespace causeway::gpu::gated_heads
