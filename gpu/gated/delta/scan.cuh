// The states between the parts of a sequence, from the maps of the parts: a scan over S ↦ A S + B in Float32.
#pragma once

#include "gpu/gated/delta/affine.cuh"
#include "gpu/gated/delta/work.cuh"
#include "gpu/kit/limits.hpp"
#include "gpu/kit/ptx.cuh"
#include "gpu/kit/warp.cuh"

namespace causeway::gpu::gated_delta {

// R: columns of A, 64 or 128.
template <int R>
struct ScanShared {
    AffineShared<R> map;
    float sums[scan_threads / 32];
};

// The product of a head's gates in a part, of which all threads of the block get the same.
template <bool packed>
__device__ __forceinline__ float gates_of(const Sequence<packed>& sequence, uint32_t kv_bh, uint32_t part,
                                          float* sums) {
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
// before part 0. A thread block has 16 columns of a head's states, a thread a row of 8 of them; without the delta rule
// A is a number.
template <int R, bool delta, bool packed>
__global__ __launch_bounds__(scan_threads) void delta_scan(const __grid_constant__ Work work) {
    extern __shared__ __align__(16) unsigned char raw[];
    auto& s = *reinterpret_cast<ScanShared<R>*>(raw);
    ptx::griddepcontrol_launch_dependents();
    ptx::griddepcontrol_wait();
    const uint32_t blocks = (static_cast<uint32_t>(work.dv) + scan_columns - 1) / scan_columns,
                   kv_bh = (packed ? blockIdx.x % work.walk_blocks : blockIdx.x) / blocks;
    const Sequence<packed> sequence{work};
    if (!sequence.takes_maps(kv_bh) || (packed && sequence.parts() < 2)) return;
    const int row = static_cast<int>(threadIdx.x) % scan_rows,
              own = static_cast<int>(threadIdx.x) / scan_rows * thread_columns,
              first = static_cast<int>(blockIdx.x % blocks) * scan_columns + own;
    const bool real = row < work.dk;
    const auto load = [&](uint32_t part) { load_matrix(s.map, part % 2, sequence.A_of(part, kv_bh), work.dk); };
    float x[thread_columns];
    const auto each_of = [&](auto* state, auto&& f) {
        auto* const at = state + int64_t{row} * work.dv + first;
#pragma unroll
        for (int c = 0; c < thread_columns; ++c)
            if (real && first + c < work.dv) f(x[c], at[c]);
    };
    const auto each = [&](uint32_t part, auto&& f) { each_of(sequence.B_of(part, kv_bh), f); };
    const auto take = [](float& e, float b) { e = b; };
#pragma unroll
    for (float& e : x) e = 0;
    const uint32_t begin = work.first_maps ? 0 : 1;
    if (!work.first_maps) each(0, take);
    else if (work.initial) each_of(work.initial + sequence.state_at(kv_bh), take);
    if constexpr (delta) load(begin);
    for (uint32_t part = begin; part < sequence.parts(); ++part) {
        if constexpr (delta) {
            apply_matrix(x, s.map, part, sequence.parts(), row, own, load);
        } else {
            const float a = gates_of(sequence, kv_bh, part, s.sums);
#pragma unroll
            for (float& e : x) e *= a;
        }
        each(part, [](float& e, float& b) { b = e += b; });
    }
}

}  // namespace causeway::gpu::gated_delta
