// The kernels for Hopper, and their launches: the only file compiled for sm_90a.
#include <algorithm>
#include <type_traits>

#include "gpu/exact/lightning/bf16x3/kernel.cuh"
#include "gpu/exact/lightning/output_kernel.cuh"
#include "gpu/exact/lightning/state_kernels.cuh"
#include "gpu/kit/element.cuh"
#include "gpu/kit/launch.hpp"
#include "gpu/kit/tensor_map.hpp"

namespace causeway::gpu::la {

namespace {

// W is Work, or Bf16x3Work for Float32.
template <class W>
W work_of(const Call& call, const Plan& p) {
    const CausalArgs& a = call.any();
    W work{};
    work.chunks = static_cast<uint32_t>((a.N + chunk - 1) / chunk);
    work.heads = static_cast<uint32_t>(a.H);
    work.batch_heads = static_cast<uint32_t>(a.B * a.H);
    work.reversed = call.reversed;
    work.splits = static_cast<uint32_t>(p.splits);
    work.parts = static_cast<uint32_t>(p.parts);
    work.scanned = p.scan;
    work.states = static_cast<float*>(call.workspace.data);
    if (a.state) {
        work.initial = a.state;
        work.initial_batch = call.state_batch;
        work.last = work.states + static_cast<int64_t>(p.states()) * padded(a.r) * padded(a.d);
    }
    work.r = a.r, work.d = a.d;
    // Problems that share tensors read them at about the same time.
    work.read_once = call.count > 1 ? ptx::evict_normal : ptx::evict_first;
    work.write = ptx::evict_first;
    work.read_twice = ptx::evict_normal;
    std::copy(p.bound.begin(), p.bound.end(), work.bound);
    std::copy(p.head.begin(), p.head.end(), work.head);
    if constexpr (std::is_same_v<W, Bf16x3Work>) {
        static_assert(max_splits <= 256, "order is of bytes");
        work.task = p.task;
        std::copy(p.followed.begin(), p.followed.end(), work.followed);
        std::copy(p.order.begin(), p.order.end(), work.order);
    }
    return work;
}

// Tensor maps of boxes of 128 bytes; a cluster's blocks share the tokens of q and k.
template <bool bidirectional>
Maps<bidirectional> maps_of(const Call& call, int cluster) {
    Maps<bidirectional> maps;
    for (int i = 0; i < call.count; ++i) {
        const CausalArgs& a = call.problem[static_cast<std::size_t>(i)];
        const auto map = [&](const void* data, int width, Strides s, int tokens) {
            return tensor_map(data, a.type, a.B, a.H, a.N, width, s, 128 / bytes_of(a.type), tokens);
        };
        maps.of[i] = {map(a.q, a.r, a.q_stride, chunk / cluster), map(a.k, a.r, a.k_stride, chunk / cluster),
                      map(a.v, a.d, a.v_stride, chunk), map(a.o, a.d, a.o_stride, chunk)};
    }
    return maps;
}

template <class E, int R, int D, bool bidirectional>
void run(const Call& call, const Plan& p, cudaStream_t stream) {
    constexpr int cluster = std::is_same_v<E, float> ? 1 : D / 64;
    const CausalArgs& a = call.any();
    const Maps<bidirectional> maps = maps_of<bidirectional>(call, cluster);
    using W = std::conditional_t<std::is_same_v<E, float>, Bf16x3Work, Work>;
    const W work = work_of<W>(call, p);
    const auto blocks = static_cast<unsigned>(cluster * p.splits);
    const auto scan = [&] {
        const dim3 grid(R * D / 256, static_cast<unsigned>(call.count) * work.batch_heads);
        if (p.scan) launch(la_scan<R * D, W>, "launching la_scan", grid, 256, 0, 1, true, stream, work);
    };
    const bool after = p.states() > 0;
    if constexpr (std::is_same_v<E, float>) {
        using Shared = Bf16x3Shared<R, D, false>;
        constexpr unsigned threads = Bf16x3Block<R, D, false, bidirectional>::threads;
        if (after) {
            launch(la_bf16x3<R, D, true, bidirectional>, "launching la_bf16x3 for states",
                   static_cast<unsigned>(p.tasks), threads, shared_bytes<Bf16x3Shared<R, D, true>>(), 1, false, stream,
                   maps, work);
            scan();
        }
        launch(la_bf16x3<R, D, false, bidirectional>, "launching la_bf16x3", blocks, threads, shared_bytes<Shared>(), 1,
               after, stream, maps, work);
    } else {
        if (after) {
            launch(la_state<E, R, D, bidirectional>, "launching la_state", p.splits * p.parts, 128 * (1 + D / 64),
                   shared_bytes<StateShared<R, D>>(), 1, false, stream,
                   cluster > 1 ? maps_of<bidirectional>(call, 1) : maps, work);
            scan();
        }
        launch(la_output<E, R, cluster, bidirectional>, "launching la_output", blocks, 384,
               shared_bytes<OutputShared<R>>(), cluster, after, stream, maps, work);
    }
    if (!bidirectional && a.state) {
        const dim3 grid(work.batch_heads, static_cast<unsigned>((a.r + 15) / 16));
        launch(la_finish<E>, "launching la_finish", grid, 256, 0, 1, false, stream, work, static_cast<const E*>(a.k),
               static_cast<const E*>(a.v), a.k_stride, a.v_stride, a.N, D / 64, R, a.state);
    }
}

template <class E, int R, int D>
void run(const Call& call, const Plan& p, cudaStream_t stream) {
    if (call.count == 1 && call.reversed == 0) run<E, R, D, false>(call, p, stream);
    else run<E, R, D, true>(call, p, stream);
}

template <class E>
void run(const Call& call, const Plan& p, cudaStream_t stream) {
    const bool wide_r = call.any().r > 64, wide_d = call.any().d > 64;
    if (!wide_r && !wide_d) return run<E, 64, 64>(call, p, stream);
    if (!wide_r) return run<E, 64, 128>(call, p, stream);
    if (!wide_d) return run<E, 128, 64>(call, p, stream);
    return run<E, 128, 128>(call, p, stream);
}

}  // namespace

void run_hopper(const Call& call, const Plan& p, cudaStream_t stream) {
    visit(call.any().type, [&](auto zero) { run<decltype(zero)>(call, p, stream); });
}

}  // namespace causeway::gpu::la
