// The kernels for Hopper, and their launches: the only file compiled for sm_90a.
#include <algorithm>
#include <type_traits>

#include "gpu/base/error.hpp"
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
    work.end_parts = static_cast<uint32_t>(call.end_parts);
    work.states = static_cast<float*>(call.workspace.data);
    if (a.state) {
        work.initial = a.state;
        work.initial_batch = call.state_batch;
        work.last = work.states + (p.states() + call.end_parts * a.B * a.H) * padded(a.r) * padded(a.d);
    }
    if (p.handed) work.handed = reinterpret_cast<uint32_t*>(work.states + p.splits * padded(a.r) * padded(a.d));
    work.r = a.r, work.d = a.d;
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

// The kernels of a call, each queued by its function.
template <class E, int R, int D, bool bidirectional>
class Kernels {
    static constexpr bool bf16x3 = std::is_same_v<E, float>;
    static constexpr int cluster = bf16x3 ? 1 : D / 64;
    using W = std::conditional_t<bf16x3, Bf16x3Work, Work>;

public:
    Kernels(const Call& call, const Plan& p, cudaStream_t stream)
        : call_(call), p_(p), work_(work_of<W>(call, p)), stream_(stream) {}

    // States inside the splits, and those for the ends of batch-heads.
    void states() const {
        if constexpr (bf16x3)
            launch(la_bf16x3<R, D, true, bidirectional>, "launching la_bf16x3 for states",
                   static_cast<unsigned>(p_.tasks), Bf16x3Block<R, D, false, bidirectional>::threads,
                   shared_bytes<Bf16x3Shared<R, D, true>>(), 1, false, stream_, maps_of<bidirectional>(call_, 1),
                   work_);
        else
            launch(la_state<E, R, D, bidirectional>, "launching la_state",
                   static_cast<unsigned>(p_.splits * p_.parts) + work_.end_parts * work_.batch_heads,
                   128 * (1 + D / 64), shared_bytes<StateShared<R, D>>(), 1, false, stream_,
                   maps_of<bidirectional>(call_, 1), work_);
        if (p_.scan) launch(la_scan<R * D, W>, "launching la_scan", elements(), 256, 0, 1, true, stream_, work_);
    }
    void ends(float* after) const {
        launch(la_ends<R, D>, "launching la_ends", elements(), 256, 0, 1, false, stream_, work_, after);
    }
    // beside_states: begins while states() still runs.
    void outputs(bool beside_states) const {
        const auto blocks = static_cast<unsigned>(cluster * p_.splits);
        if (work_.handed)
            check(cudaMemsetAsync(work_.handed, 0, blocks * sizeof(uint32_t), stream_), "clearing what is handed on");
        if constexpr (bf16x3)
            launch(la_bf16x3<R, D, false, bidirectional>, "launching la_bf16x3", blocks,
                   Bf16x3Block<R, D, false, bidirectional>::threads, shared_bytes<Bf16x3Shared<R, D, false>>(), 1,
                   beside_states, stream_, maps_of<bidirectional>(call_, 1), work_);
        else
            launch(la_output<E, R, cluster, bidirectional>, "launching la_output", blocks, 384,
                   shared_bytes<OutputShared<R>>(), cluster, beside_states, stream_,
                   maps_of<bidirectional>(call_, cluster), work_);
    }
    void finish() const {
        const CausalArgs& a = call_.any();
        const dim3 grid(work_.batch_heads, static_cast<unsigned>((a.r + 15) / 16));
        launch(la_finish<E>, "launching la_finish", grid, 256, 0, 1, false, stream_, work_, static_cast<const E*>(a.k),
               static_cast<const E*>(a.v), a.k_stride, a.v_stride, a.N, D / 64, R, a.state);
    }

private:
    dim3 elements() const { return dim3(R * D / 256, static_cast<unsigned>(call_.count) * work_.batch_heads); }

    const Call& call_;
    const Plan& p_;
    W work_;
    cudaStream_t stream_;
};

template <class E, int R, int D, bool bidirectional>
void run(const Call& call, const Plan& p, cudaStream_t stream) {
    const Kernels<E, R, D, bidirectional> kernels(call, p, stream);
    const bool states = p.stores_states();
    if (states) kernels.states();
    kernels.outputs(states);
    if (!bidirectional && call.any().state) kernels.finish();
}

// f(a constant of r, one of d), as the kernels know them.
template <class F>
void with_widths(const Call& call, const F& f) {
    constexpr std::integral_constant<int, 64> narrow;
    constexpr std::integral_constant<int, 128> wide;
    const bool wide_r = call.any().r > 64, wide_d = call.any().d > 64;
    if (!wide_r && !wide_d) return f(narrow, narrow);
    if (!wide_r) return f(narrow, wide);
    if (!wide_d) return f(wide, narrow);
    return f(wide, wide);
}

// f(Kernels), of the call's 16-bit elements, one problem forward in time.
template <class F>
void with_kernels(const Call& call, const Plan& p, cudaStream_t stream, const F& f) {
    with_widths(call, [&](auto r, auto d) {
        if (call.any().type == Type::BFloat16) f(Kernels<__nv_bfloat16, r(), d(), false>(call, p, stream));
        else f(Kernels<__half, r(), d(), false>(call, p, stream));
    });
}

}  // namespace

void run_hopper(const Call& call, const Plan& p, cudaStream_t stream) {
    visit(call.any().type, [&](auto zero) {
        with_widths(call, [&](auto r, auto d) {
            using E = decltype(zero);
            if (call.count == 1 && call.reversed == 0) run<E, r(), d(), false>(call, p, stream);
            else run<E, r(), d(), true>(call, p, stream);
        });
    });
}

void run_hopper_states(const Call& call, const Plan& p, float* after, cudaStream_t stream) {
    with_kernels(call, p, stream, [&](const auto& kernels) {
        if (p.stores_states() || call.end_parts > 0) kernels.states();
        if (after) kernels.ends(after);
    });
}

void run_hopper_outputs(const Call& call, const Plan& p, cudaStream_t stream) {
    with_kernels(call, p, stream, [&](const auto& kernels) {
        kernels.outputs(false);
        if (call.any().state) kernels.finish();
    });
}

}  // namespace causeway::gpu::la
