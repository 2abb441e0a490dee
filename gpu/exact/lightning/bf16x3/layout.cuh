// Shared memory of la_bf16x3, and its pipelines.
#pragma once

#include "gpu/exact/lightning/layout.cuh"
#include "gpu/exact/lightning/mask.cuh"

namespace causeway::gpu::la {

// 64 tokens by 64 columns: as Float32 two tiles of 32 columns, as BFloat16 a tile of hi and a tile of lo.
struct TilePair {
    Tile tile[2];
};

// The barriers of a pipeline whose stages are converted between the load and the use: full when the load has come,
// ready when it is hi and lo, empty when it has been used.
template <uint32_t stages>
struct ConvertBarriers {
    PipelineBarriers<stages> load;
    uint64_t ready[stages];
};

// With `stores_states` the kernel needs no q and no scores.
template <int R, int D, bool stores_states>
struct Bf16x3Shared {
    static constexpr int groups = D / 64;  // warpgroups that own 64 columns of the state each
    static constexpr uint32_t stages = fitting_stages((R / 64 + groups) * sizeof(TilePair), 0, 4), score_tiles = 0;

    TilePair k[stages][R / 64];
    TilePair v[groups][stages];
    ConvertBarriers<stages> k_barriers;
    PipelineBarriers<stages> v_barriers[groups];
};
template <int R, int D>
struct Bf16x3Shared<R, D, false> {
    static constexpr int groups = D / 64;
    static constexpr uint32_t score_tiles = 2;
    static constexpr uint32_t stages =
        fitting_stages((2 * R / 64 + groups) * sizeof(TilePair), score_tiles * sizeof(TilePair), 4);

    TilePair k[stages][R / 64];
    TilePair v[groups][stages];
    TilePair q[stages][R / 64];
    TilePair scores[score_tiles];  // halves of 32 keys, of each the hi and the lo
    ConvertBarriers<stages> q_barriers, k_barriers;
    PipelineBarriers<stages> v_barriers[groups];
    PipelineBarriers<score_tiles> score_barriers;
};

// Half a score tile, as hi and as lo.
constexpr uint32_t half_pair = 2 * half_tile;

// A pipeline of q or k.
template <uint32_t stages, uint32_t stage_bytes, uint32_t data, uint32_t barriers>
struct ConvertPipeline : Pipeline<stages, stage_bytes, data, barriers> {
    using State = PipelineState<stages>;
    __device__ __forceinline__ uint32_t ready(const State& s) const {
        return this->base + barriers + sizeof(PipelineBarriers<stages>) + s.stage * 8;
    }
    __device__ __forceinline__ void init(uint32_t converters, uint32_t consumers) const {
        Pipeline<stages, stage_bytes, data, barriers>::init(1, consumers);
        for (uint32_t i = 0; i < stages; ++i) ptx::mbarrier_init(ready({i, 0}), converters);
    }
    __device__ __forceinline__ void wait_ready(const State& s) const { ptx::mbarrier_wait(ready(s), s.phase); }
};

template <class Shared>
using QPipeline =
    ConvertPipeline<Shared::stages, sizeof(Shared::q[0]), offsetof(Shared, q), offsetof(Shared, q_barriers)>;
template <class Shared>
using KPipeline =
    ConvertPipeline<Shared::stages, sizeof(Shared::k[0]), offsetof(Shared, k), offsetof(Shared, k_barriers)>;
// Of the first 64 columns; those of the next lie behind it.
template <class Shared>
using VPipeline = Pipeline<Shared::stages, sizeof(TilePair), offsetof(Shared, v), offsetof(Shared, v_barriers)>;
template <class Shared>
using Bf16x3ScorePipeline =
    Pipeline<Shared::score_tiles, sizeof(TilePair), offsetof(Shared, scores), offsetof(Shared, score_barriers)>;

}  // namespace causeway::gpu::la
