// The kernel for Hopper, and its launch.
#include <algorithm>

#include "gpu/gated/delta.hpp"
#include "gpu/gated/delta/forgets.cuh"
#include "gpu/gated/delta/kernel.cuh"
#include "gpu/gated/delta/scan.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/tensor_map.hpp"

namespace causeway::gpu::gated_delta {

namespace {

template <class E, int R, int D, bool delta>
void run(const GatedArgs& a, const Plan& p, cudaStream_t stream) {
    const auto map = [&](const void* data, std::int64_t heads, int width, Strides s) {
        return tensor_map(data, a.type, a.B, s.head == 0 ? 1 : heads, a.N, width, s, 64, chunk);
    };
    const std::int64_t heads = a.H * a.group;
    const Maps maps = {map(a.q, heads, a.dk, a.q_stride), map(a.k, a.H, a.dk, a.k_stride),
                       map(a.v, a.H, a.dv, a.v_stride), map(a.o, heads, a.dv, a.o_stride)};
    Work work{};
    work.chunks = p.bound.back(), work.splits = static_cast<uint32_t>(p.splits()),
    work.column_blocks = static_cast<uint32_t>(p.column_blocks);
    work.heads = static_cast<uint32_t>(heads), work.group = static_cast<uint32_t>(a.group);
    work.N = a.N, work.dk = a.dk, work.dv = a.dv, work.scale = a.scale;
    work.g = a.gates ? a.g : nullptr, work.beta = a.beta;
    work.initial = work.final = a.state;
    work.q = a.q, work.k = a.k, work.v = a.v, work.o = a.o;
    work.q_stride = a.q_stride, work.k_stride = a.k_stride, work.v_stride = a.v_stride, work.o_stride = a.o_stride;
    std::copy(p.bound.begin(), p.bound.end(), work.bound);
    const Scratch scratch = scratch_of(a, p);
    work.A = scratch.A, work.B = scratch.B, work.transfers = scratch.transfers;
    work.finer = static_cast<uint32_t>(p.finer), work.columns = static_cast<uint32_t>(p.columns);
    work.rows = static_cast<uint32_t>(p.rows), work.state_heads = static_cast<uint32_t>(p.state_heads);
    work.identity_blocks = static_cast<uint32_t>(p.identity_blocks);
    if (scratch.state) {
        const std::size_t bytes = static_cast<std::size_t>(p.state_heads * a.dk * a.dv) * sizeof(float);
        check(cudaMemcpyAsync(scratch.state, a.state, bytes, cudaMemcpyDeviceToDevice, stream), "copying the state");
        work.initial = scratch.state;
    }
    const auto walk = [&](std::int64_t blocks, bool after) {
        launch(delta_rule<E, R, D, delta>, "launching delta_rule", static_cast<unsigned>(blocks), threads<D>,
               shared_bytes<R, D>, 1, after, stream, maps, work);
    };
    if (p.parts() > 0) {
        if (work.transfers)
            launch(delta_forgets, "launching delta_forgets", static_cast<unsigned>(p.state_heads), forgets_threads, 0,
                   1, false, stream, work);
        work.making = true;
        walk(p.state_heads * p.parts() * (p.column_blocks + p.identity_blocks), work.transfers != nullptr);
        if (p.parts() > 1) {
            const std::int64_t blocks = p.state_heads * ((a.dv + scan_columns - 1) / scan_columns);
            launch(delta_scan<R, delta>, "launching delta_scan", static_cast<unsigned>(blocks), scan_threads,
                   sizeof(ScanShared<R>), 1, true, stream, work);
        }
        work.making = false;
    }
    walk(p.batch_heads * p.column_blocks * p.splits(), p.parts() > 0);
}

template <class E, bool delta>
void run(const GatedArgs& a, const Plan& p, cudaStream_t stream) {
    if (a.dk <= 64 && p.columns == 64) return run<E, 64, 64, delta>(a, p, stream);
    if (a.dk <= 64) return run<E, 64, 128, delta>(a, p, stream);
    if (p.columns == 64) return run<E, 128, 64, delta>(a, p, stream);
    return run<E, 128, 128, delta>(a, p, stream);
}

template <class E>
void run(const GatedArgs& a, const Plan& p, cudaStream_t stream) {
    if (!a.beta) return run<E, false>(a, p, stream);
    return run<E, true>(a, p, stream);
}

}  // namespace

void run_hopper(const GatedArgs& a, const Plan& p, cudaStream_t stream) {
    if (a.type == Type::Float16) return run<__half>(a, p, stream);
    run<__nv_bfloat16>(a, p, stream);
}

}  // namespace causeway::gpu::gated_delta
