// What the two kernels of this folder are told, and the tiles that go between them. README.md has the letters.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/gated/general/arguments.hpp"

#ifdef __CUDACC__
#define CAUSEWAY_HOST_DEVICE __host__ __device__
#else
#define CAUSEWAY_HOST_DEVICE
#endif

namespace causeway::gpu::general {

constexpr int C = 16;  // tokens of a chunk

// Rows of a state as kernels have them.
inline int padded_rows(int dk) { return dk <= 64 ? 64 : dk <= 128 ? 128 : 256; }

// The tiles of one chunk of one head, offsets in bytes: Ŵ and Ũ where something is taken out, K̂, `last` (in Float32),
// and for each head of queries Q̂ and Â. Rows of DK elements, of C in Â, zeros behind dk and behind the last token: in
// Float32, or `narrow` in BFloat16 for tensor cores.
struct Tiles {
    int u, k, last, queries, query, bytes;  // query: from one head of queries to the next

    CAUSEWAY_HOST_DEVICE constexpr Tiles(int DK, bool narrow, bool erases, int group)
        : u(C * DK * (narrow ? 2 : 4)),
          k(erases ? 2 * u : 0),
          last(k + u),
          queries(last + DK * 4),
          query(u + C * C * (narrow ? 2 : 4)),
          bytes(queries + group * query) {}
};

// Bytes before an element of a narrow tile of rows of DK: pieces of 16 bytes change places, so that eight rows read at
// one column meet in different banks.
template <int DK>
CAUSEWAY_HOST_DEVICE constexpr int narrow_at(int row, int channel) {
    return row * DK * 2 + ((channel / 8) ^ (row % 8)) * 16 + channel % 8 * 2;
}

// Tiles lie chunk after chunk, those of all heads together.
struct Part {
    Call call;
    Tokens tokens;
    unsigned char* tiles;
    bool narrow;
    int columns;  // of v that a thread block of the narrow sweep has: 32 or 64
};

// Whether tensor cores take the call: BFloat16, keys of at most 128 channels, and few enough queries on a head.
bool is_narrow(const Call& call);

void launch_prepare(const Part& p, cudaStream_t stream);
void launch_sweep(const Part& p, cudaStream_t stream);         // of tiles in Float32
void launch_narrow_sweep(const Part& p, cudaStream_t stream);  // of narrow ones

}  // namespace causeway::gpu::general
