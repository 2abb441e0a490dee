// Where the tiles of one chunk that the gradient keeps lie.
#pragma once

#include "gpu/gated/channels/part.hpp"
#include "gpu/kit/ptx.cuh"

namespace causeway::gpu::channels {

struct KeptChunk {
    unsigned char* rows[2];  // row 0, and row C
    int64_t token[2];        // bytes from a row to the next one
    int row_bits;

    // chunks: of the part, for each batch-head bh, which is head h of batch entry b.
    __device__ __forceinline__ KeptChunk(const KeptTiles& x, int64_t bh, int64_t b, int64_t h, int64_t chunk,
                                         int64_t chunks)
        : row_bits(x.row_bits) {
        if (chunk >= x.whole) {
            unsigned char* const start = x.apart + (bh * (chunks - x.whole) + chunk - x.whole) * x.bytes;
            rows[0] = start, rows[1] = start + (C << row_bits);
            token[0] = token[1] = int64_t{1} << row_bits;
            return;
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const KeptTiles::Rows& from = x.rows[i];
            token[i] = from.token;
            rows[i] = from.first + b * from.batch + h * from.head + chunk * C * from.token;
        }
    }
    // The byte at `offset` of the matrix.
    __device__ __forceinline__ unsigned char* at(uint32_t offset) const {
        const uint32_t row = offset >> row_bits;
        const bool second = row >= C;
        return (second ? rows[1] : rows[0]) + row % C * (second ? token[1] : token[0]) +
               (offset & ((1u << row_bits) - 1));
    }
};

// One tile of each chunk of a batch-head, as many bytes of each matrix from byte `first` on.
struct KeptColumn {
    unsigned char *rows, *apart;      // of chunk 0, and of chunk `whole`
    int64_t token, step, apart_step;  // bytes from a row, and from a chunk to the next one
    uint32_t bytes, row;              // of a tile, and of it one behind the other
    int whole;

    __device__ __forceinline__ KeptColumn(const KeptTiles& x, int64_t bh, int64_t b, int64_t h, int chunks,
                                          uint32_t first, uint32_t bytes)
        : bytes(bytes), whole(x.whole) {
        const KeptChunk start(x, bh, b, h, 0, chunks);
        const bool second = first >> x.row_bits >= C;
        rows = start.at(first), token = second ? start.token[1] : start.token[0], step = C * token;
        row = token == int64_t{1} << x.row_bits ? bytes : 1u << x.row_bits;
        apart = x.apart + bh * (chunks - x.whole) * x.bytes + first, apart_step = x.bytes;
    }
    // Starts to store the tile of a chunk from shared memory, by a whole warp.
    __device__ __forceinline__ void record(int chunk, uint32_t from, int lane) const {
        if (chunk >= whole) {
            if (lane == 0) ptx::bulk_store(apart + (chunk - whole) * apart_step, from, bytes);
        } else {
            unsigned char* const to = rows + chunk * step;
            for (uint32_t i = static_cast<uint32_t>(lane), at = i * row; at < bytes; i += 32, at = i * row)
                ptx::bulk_store(to + i * token, from + at, row);
        }
        ptx::tma_store_commit();
    }
};

}  // namespace causeway::gpu::channels
