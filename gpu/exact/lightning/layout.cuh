// Shared memory of the kernels for 16-bit elements, and their pipelines over it.
#pragma once

#include <cstddef>

#include "gpu/exact/lightning/work.cuh"
#include "gpu/kit/limits.hpp"
#include "gpu/kit/pipeline.cuh"
#include "gpu/kit/swizzle.cuh"

namespace causeway::gpu::la {

// How many stages of such a size fit beside `rest` bytes, no more than `max_stages`. One swizzle atom goes to the
// rounding of the base, one to barriers and other small things behind the tiles.
constexpr uint32_t fitting_stages(std::size_t stage, std::size_t rest, std::size_t max_stages) {
    const std::size_t fitting = (limits::max_shared_bytes - rest - 2 * limits::swizzle_atom) / stage;
    return static_cast<uint32_t>(fitting < max_stages ? fitting : max_stages);
}
// What a kernel asks for, its base being rounded up to a swizzle atom.
template <class Shared>
constexpr uint32_t shared_bytes() {
    constexpr std::size_t bytes = sizeof(Shared) + limits::swizzle_atom;
    static_assert(bytes <= limits::max_shared_bytes);
    return static_cast<uint32_t>(bytes);
}

// ---- la_state ----

// k and v of a chunk, R and D columns.
template <int R, int D>
struct StateStage {
    Tile k[R / 64], v[D / 64];
};

template <int R, int D>
struct StateShared {
    using Stage = StateStage<R, D>;
    static constexpr uint32_t stages = fitting_stages(sizeof(Stage), 0, 6);

    Stage stage[stages];
    PipelineBarriers<stages> barriers;
};

template <class Shared>
using StagePipeline =
    Pipeline<Shared::stages, sizeof(typename Shared::Stage), offsetof(Shared, stage), offsetof(Shared, barriers)>;

// ---- la_output ----

// q and k of a chunk, and the 64 columns of v that this block owns.
template <int R>
struct OutputStage {
    Tile q[R / 64], k[R / 64], v;
};

template <int R>
struct OutputShared {
    using Stage = OutputStage<R>;
    static constexpr uint32_t score_tiles = 3, output_tiles = 2;
    static constexpr std::size_t kept_bytes = 64 * 64 * sizeof(float);
    static constexpr uint32_t stages =
        fitting_stages(sizeof(Stage), (score_tiles + output_tiles) * sizeof(Tile) + kept_bytes, 6);

    Stage stage[stages];
    Tile scores[score_tiles];
    Tile outputs[output_tiles];
    float kept[64 * 64];  // by Recompute
    PipelineBarriers<stages> barriers;
    PipelineBarriers<score_tiles> score_barriers;
    uint32_t nonfinite[score_tiles];  // whether the values that a score tile will be multiplied by have NaN or Inf
};

template <class Shared>
using ScorePipeline =
    Pipeline<Shared::score_tiles, sizeof(Tile), offsetof(Shared, scores), offsetof(Shared, score_barriers)>;

}  // namespace causeway::gpu::la
