// The states between the parts of a sequence, from the maps of the parts: a scan over S ↦ A S + B in Float32.
#pragma once

#include "gpu/gated/delta/affine.cuh"
#include "gpu/gated/delta/work.cuh"
#include "gpu/kit/limits.hpp"
#include "gpu/kit/ptx.cuh"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu::gated_delta {

// R: columns of A, 64 or 128; columns: of the state.
template <int R, int columns>
struct ScanShared {
    AffineShared<R, columns> map;
    float sums[scan_threads / 32];
};

// The product of a head's gates in a part, of which all threads of the block get the same.
template <Walks walks>
__device__ __forceinline__ float gates_of(const Sequence<walks>& sequence, uint32_t kv_bh, uint32_t part, float* sums) {
    const float* const g = sequence.g_of(kv_bh);
    if (!g) return 1;
    const int64_t last = min(int64_t{sequence.part_bound(part + 1)} * chunk, sequence.tokens());
    float sum = 0;
    for (int64_t t = int64_t{sequence.part_bound(part)} * chunk + threadIdx.x; t < last; t += scan_threads)
        sum += fmaxf(g[t] * limits::log2_e, -limits::zero_gate_bits);
    sum = sum_of_warp(sum);
    __syncthreads();  // before the sums of the part before are overwritten
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    float all = 0;
    for (int i = 0; i < scan_threads / 32; ++i) all += sums[i];
    return exp2f(all);
}

// B of part i becomes the state behind it: S_i = A_i S_{i-1} + B_i, from S_0 = B_0 or, with first_maps, from `initial`
// before part 0. A thread block has some columns of a head's states; without the delta rule A is a number.
template <int R, int columns, bool delta, bool packed>
__global__ __launch_bounds__(scan_threads) void delta_scan(const __grid_constant__ Told<packed> work) {
    extern __shared__ __align__(16) unsigned char raw[];
    auto& s = *reinterpret_cast<ScanShared<R, columns>*>(raw);
    ptx::griddepcontrol_launch_dependents();
    if constexpr (packed) take_walk(work);
    ptx::griddepcontrol_wait();
    if constexpr (packed) await_walk(work);
    const uint32_t blocks = (static_cast<uint32_t>(work.dv) + columns - 1) / columns,
                   kv_bh = (packed ? blockIdx.x % work.walk_blocks : blockIdx.x) / blocks;
    const Sequence<packed ? Walks::own : Walks::none> sequence{work};
    if (!sequence.takes_maps(kv_bh) || (packed && sequence.parts() < 2)) return;
    const ScanColumns<R, columns> own;
    const int first = static_cast<int>(blockIdx.x % blocks) * columns;
    const auto load = [&](uint32_t part) { load_matrix(s.map, part % 2, sequence.A_of(part, kv_bh), work.dk); };
    typename ScanColumns<R, columns>::Values x{}, b{};
    // f(element of x or b, the same element of a state in memory), for those that a state has.
    const auto each_of = [&](auto* state, auto& values, auto&& f) {
        own.each(values, [&](float& e, int row, int column) {
            if (row < work.dk && first + column < work.dv) f(e, state[int64_t{row} * work.dv + first + column]);
        });
    };
    const auto take = [](float& e, float in_memory) { e = in_memory; };
    const uint32_t begin = work.first_maps ? 0 : 1;
    if (!work.first_maps) each_of(sequence.B_of(0, kv_bh), x, take);
    else if (work.initial) each_of(work.initial + sequence.state_at(kv_bh), x, take);
    if constexpr (delta) load(begin);
    for (uint32_t part = begin; part < sequence.parts(); ++part) {
        float* const B = sequence.B_of(part, kv_bh);
        each_of(B, b, take);  // on its way while A is multiplied by
        if constexpr (delta) {
            apply_matrix(x, s.map, own, part, sequence.parts(), load);
        } else {
            const float a = gates_of(sequence, kv_bh, part, s.sums);
            own.each(x, [&](float& e, int, int) { e *= a; });
        }
        own.add(x, b);
        each_of(B, x, [](float e, float& in_memory) { in_memory = e; });
    }
}

}  // namespace causeway::gpu::gated_delta
