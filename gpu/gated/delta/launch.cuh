// The launches of delta_hopper: of one sequence a batch entry (launch_hopper.cu), and of packed sequences
// (launch_packed_hopper.cu).
#pragma once

#include <algorithm>

#include "gpu/base/device.hpp"
#include "gpu/gated/delta/forgets.cuh"
#include "gpu/gated/delta/kernel.cuh"
#include "gpu/gated/delta/scan.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/tensor_map.hpp"

namespace causeway::gpu::gated_delta {

inline Maps maps_of(const GatedArgs& a) {
    const auto map = [&](const void* data, std::int64_t heads, int width, Strides s) {
        return tensor_map(data, a.type, a.B, s.head == 0 ? 1 : heads, a.N, width, s, 64, chunk);
    };
    const std::int64_t heads = a.H * a.group;
    return {map(a.q, heads, a.dk, a.q_stride), map(a.k, a.H, a.dk, a.k_stride), map(a.v, a.H, a.dv, a.v_stride),
            map(a.o, heads, a.dv, a.o_stride)};
}

// All but how sequences are cut.
inline Work work_of(const GatedArgs& a, const Blocks& p, const Scratch& scratch) {
    Work work{};
    work.column_blocks = static_cast<uint32_t>(p.column_blocks);
    work.heads = static_cast<uint32_t>(a.H * a.group), work.group = static_cast<uint32_t>(a.group);
    work.N = a.N, work.dk = a.dk, work.dv = a.dv, work.scale = a.scale, work.length_eps = a.length_eps;
    work.g = a.gates ? a.g : nullptr, work.beta = a.beta;
    work.initial = work.final = a.state;
    work.q = a.q, work.k = a.k, work.v = a.v, work.o = a.o;
    work.q_stride = a.q_stride, work.k_stride = a.k_stride, work.v_stride = a.v_stride, work.o_stride = a.o_stride;
    work.A = scratch.A, work.B = scratch.B, work.transfers = scratch.transfers, work.starts = scratch.starts;
    work.columns = static_cast<uint32_t>(p.columns), work.rows = static_cast<uint32_t>(p.rows);
    work.state_heads = static_cast<uint32_t>(p.state_heads);
    work.identity_blocks = static_cast<uint32_t>(p.identity_blocks);
    return work;
}

// Makes `initial` a copy of the states, where there is room for one.
inline void copy_states(Work& work, const GatedArgs& a, const Blocks& p, const Group& group, const Scratch& scratch,
                        cudaStream_t stream) {
    if (!scratch.state) return;
    const std::size_t bytes = static_cast<std::size_t>(group.sequences * p.state_heads * a.dk * a.dv) * sizeof(float);
    check(cudaMemcpyAsync(scratch.state, work.final, bytes, cudaMemcpyDeviceToDevice, stream), "copying the state");
    work.initial = scratch.state;
}

// Which kernels of a group are launched.
struct Launched {
    bool maps = true, scan = true, outputs = true;
};

// The kernels of a group, one after the other. In steps each is launched by a call of its own, and none starts before
// what is queued before it has ended.
template <class E, int R, int D, bool delta, bool packed, bool lengths>
void launch_group(const Maps& maps, Told<packed> work, const Blocks& p, const Group& group, cudaStream_t stream,
                  Launched which = {}) {
    const Walk* const walks = work.walks;  // the list, if it is in memory
    // n walks from the list's place `at` on, each with `blocks` thread blocks.
    const auto grid = [&](std::int64_t at, std::int64_t n, std::int64_t blocks) {
        if constexpr (packed) {
            work.walks = walks ? walks + at : nullptr, work.first_walk = static_cast<uint32_t>(at);
            work.walk_blocks = static_cast<uint32_t>(blocks);
        }
        return static_cast<unsigned>(n * blocks);
    };
    const auto walk = [&](unsigned blocks, bool after) {
        launch(delta_rule<E, R, D, delta, packed, lengths>, "launching delta_rule", blocks, threads<D>,
               shared_bytes<R, D>, 1, after, stream, maps, work);
    };
    const std::int64_t cut_at = group.outputs + group.maps(), scanned = work.first_maps ? 0 : group.cut,
                       output_blocks = p.batch_heads * p.column_blocks, others = group.outputs - group.leads;
    if (which.maps && group.parts > 0) {
        if (work.transfers) {
            const unsigned blocks = grid(cut_at, group.cut, p.state_heads);
            launch(delta_forgets<packed>, "launching delta_forgets", blocks, forgets_threads, 0, 1, false, stream,
                   work);
        }
        work.making = true;
        const std::int64_t map_blocks = p.state_heads * (p.column_blocks + p.identity_blocks);
        if constexpr (packed) {
            const std::int64_t most = group.leads > 0 ? std::max(map_blocks, output_blocks) : map_blocks;
            walk(grid(others, group.leads + group.maps(), most), work.transfers != nullptr);
        } else {
            work.lead_blocks = static_cast<uint32_t>(group.leads * output_blocks);
            walk(work.lead_blocks + grid(0, group.maps(), map_blocks), work.transfers != nullptr);
            work.lead_blocks = 0;
        }
        work.making = false;
    }
    if (which.scan && group.parts > scanned) {
        const int by = scan_columns(group.cut * p.state_heads, work.dv, R, device().multiprocessors);
        with_scan_columns<R>(by, [&]<int columns>() {
            const unsigned blocks = grid(cut_at, group.cut, p.state_heads * ((work.dv + columns - 1) / columns));
            launch(delta_scan<R, columns, delta, packed>, "launching delta_scan", blocks, scan_threads,
                   sizeof(ScanShared<R, columns>), 1, which.maps, stream, work);
        });
    }
    if (which.outputs) walk(grid(0, others, output_blocks), walks || (which.maps && group.parts > 0));
}

// f<E, R, D, delta, lengths>() of a call: its element type and sizes as constants.
template <class F>
void with_sizes(const GatedArgs& a, const Blocks& p, F&& f) {
    const auto by_rule = [&]<class E, bool delta, bool lengths>() {
        if (a.dk <= 64 && p.columns == 64) return f.template operator()<E, 64, 64, delta, lengths>();
        if (a.dk <= 64) return f.template operator()<E, 64, 128, delta, lengths>();
        if (p.columns == 64) return f.template operator()<E, 128, 64, delta, lengths>();
        return f.template operator()<E, 128, 128, delta, lengths>();
    };
    const auto by_lengths = [&]<class E, bool delta>() {
        if (a.length_eps > 0) by_rule.template operator()<E, delta, true>();
        else by_rule.template operator()<E, delta, false>();
    };
    const auto by_type = [&]<class E>() {
        if (a.beta) by_lengths.template operator()<E, true>();
        else by_lengths.template operator()<E, false>();
    };
    if (a.type == Type::Float16) by_type.template operator()<__half>();
    else by_type.template operator()<__nv_bfloat16>();
}

}  // namespace causeway::gpu::gated_delta
