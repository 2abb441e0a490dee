// What the two kernels of this folder are told, and what goes between them. README.md has the letters.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/gated/arguments.hpp"

namespace causeway::gpu::channels {

constexpr int C = 64;           // tokens of a chunk
constexpr int blocks = C / 16;  // sub-blocks of 16 tokens in it
constexpr int sweep_columns = 32;

#ifdef __CUDACC__
#define CAUSEWAY_HOST_DEVICE __host__ __device__
#else
#define CAUSEWAY_HOST_DEVICE
#endif

inline int padded_rows(int dk) { return dk <= 64 ? 64 : 128; }
inline int padded_columns(int dv) { return (dv + sweep_columns - 1) / sweep_columns * sweep_columns; }

// Bytes of a row of n elements of 16 bits of a matrix in shared memory: an odd multiple of 16, so that eight rows read
// at one column meet in different banks.
CAUSEWAY_HOST_DEVICE constexpr std::uint32_t pitch_of(int n) { return static_cast<std::uint32_t>(n) * 2 + 16; }

// Tiles lie in memory as in shared memory, and travel as they are, in the swizzles that TMA and wgmma know: rows of 64
// elements of 16 bits in that of 128 bytes, of 32 in that of 64 (gpu/kit/swizzle.cuh). A tile of 128 columns has C rows
// and is two of 64, one behind the other. Bytes before an element, and of a tile.
template <int columns>
CAUSEWAY_HOST_DEVICE constexpr std::uint32_t tile_at(int row, int column) {
    constexpr int width = columns < 64 ? columns : 64;
    const int turn = width < 64 ? row / 2 % 4 : row % 8;
    return static_cast<std::uint32_t>(column / width * C * width * 2 + row * width * 2 +
                                      ((column % width / 8) ^ turn) * 16 + column % 8 * 2);
}
CAUSEWAY_HOST_DEVICE constexpr std::uint32_t tile_bytes(int rows, int columns) {
    return static_cast<std::uint32_t>(rows * columns) * 2;
}

// The tiles that the keys of a chunk give: Kw, with the delta rule W, and `last`; and those of a head of queries: Qe,
// A. Offsets and sizes in bytes.
struct KeyTiles {
    std::uint32_t W_at, last_at, bytes;
    CAUSEWAY_HOST_DEVICE constexpr KeyTiles(int DK, bool delta)
        : W_at(tile_bytes(C, DK)),
          last_at(W_at + (delta ? W_at : 0)),
          bytes(last_at + static_cast<std::uint32_t>(DK) * 4) {}
};
struct QueryTiles {
    std::uint32_t A_at, bytes;
    CAUSEWAY_HOST_DEVICE constexpr explicit QueryTiles(int DK)
        : A_at(tile_bytes(C, DK)), bytes(A_at + tile_bytes(C, C)) {}
};
constexpr std::uint32_t value_bytes = tile_bytes(C, sweep_columns);  // U0 or V of 32 columns
constexpr std::uint32_t inverse_bytes = tile_bytes(C, C);

// Where the gradient keeps a matrix of each chunk of a part until it has read it, as tiles of 32 columns one behind the
// other: in rows of gradients that are written later, of which a chunk has C in each of two, and that of a chunk from
// `whole` on, for which there are not as many rows, in memory apart.
struct KeptTiles {
    struct Rows {
        unsigned char* first;             // of the part's first token, in the first batch-head
        std::int64_t batch, head, token;  // strides in bytes
    };
    Rows rows[2];
    int row_bits;  // a row has 2^row_bits bytes
    int whole;
    unsigned char* apart;  // [batch-head, chunks - whole] matrices
    std::uint32_t bytes;   // of a matrix; 0: nothing is kept
};

// Tokens [first, first + tokens) of every head, and the tiles between the kernels, one after the other for each head
// and chunk (and head of queries, and 32 columns of v). Without heads of queries (call.group = 0) only the state goes
// on.
struct Part {
    gated::Call call;
    std::int64_t first, tokens;
    int chunks, DK, DV;
    unsigned char *keys, *queries, *values;  // values: null where V is read as it is, or not at all
    const float* state_in;                   // [all heads, dk, dv], heads state_in_step floats apart; null: zeros
    float* state_out;                        // likewise; null: dropped
    std::int64_t state_in_step, state_out_step;
    // What the gradient asks for; null in the forward pass.
    KeptTiles states, updates;  // the state before each chunk; with the delta rule U
    unsigned char* inverse;     // (I + diag(β) M)⁻¹
    bool least_betas;           // β of 0 become least_beta, so that U has what their gradients are made of
    bool tiles_free;            // the kernel before, which may still run, reads of all tiles `inverse` alone
    int* not_finite;            // becomes 1 where a state is not finite, and no block goes token by token
};

// Whether gates, or the projection that they are made of, may be read as pairs of elements.
inline bool has_pairs(const gated::Call& call) {
    const void* const gates = call.projection.a ? call.projection.a : call.g;
    return call.dk % 2 == 0 && (call.gates <= 1 || reinterpret_cast<std::uintptr_t>(gates) % 8 == 0);
}

// after: it may begin before the kernel before it in the stream has ended, which works on another part (the sweep, in
// the gradient also what finishes chunks): what it reads was there before both.
void launch_prepare(const Part& p, cudaStream_t stream, bool after = false);
void launch_sweep(const Part& p, cudaStream_t stream);

}  // namespace causeway::gpu::channels
