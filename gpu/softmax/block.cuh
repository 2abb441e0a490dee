// Which rows and keys a block of the portable kernels has. Blocks with most keys come first: with a causal mask those
// of the last rows.
#pragma once

#include "gpu/softmax/rows.cuh"

namespace causeway::gpu::softmax {

template <class E, int BM>
struct Block {
    int32_t row0, split;
    BatchHead<E> bh;

    __device__ explicit Block(const Params& c)
        : row0(0), split(0), bh(c, static_cast<int32_t>(blockIdx.x % c.batch_heads)) {
        const uint32_t rest = blockIdx.x / c.batch_heads, tiles = (c.rows + BM - 1) / BM;
        split = static_cast<int32_t>(rest % c.splits);
        row0 = static_cast<int32_t>(tiles - 1 - rest / c.splits) * BM;
    }
    // Keys [first, last) of the block; every row sees those before `full`.
    struct Keys {
        int32_t first, last, full;
    };
    __device__ Keys keys() const {
        const Params& c = bh.c;
        const int32_t first = split * c.split_keys;
        const int64_t last = min(int64_t{first} + c.split_keys, int64_t{bh.limit(min(row0 + BM, c.rows) - 1)});
        return {first, static_cast<int32_t>(last), bh.limit(row0)};
    }
    // Where the output of a row begins: that of the call, or with splits the split's own, in Float32.
    __device__ float* partial(int32_t row) const { return bh.c.partial + bh.partial_row(split, row) * bh.c.dv; }
};

}  // namespace causeway::gpu::softmax
