// The kernels for Hopper, and their launches: the only file compiled for sm_90a.
#include <algorithm>
#include <type_traits>

#include "gpu/base/launch.hpp"
#include "gpu/base/tensor_map.hpp"
#include "gpu/exact/lightning.cuh"
#include "gpu/exact/lightning_x3.cuh"

namespace causeway::gpu::la {

namespace {

Work work_of(const CausalArgs& a, const Plan& p) {
    Work work{};
    work.chunks = static_cast<uint32_t>((a.N + chunk - 1) / chunk);
    work.heads = static_cast<uint32_t>(a.H);
    work.parts = static_cast<uint32_t>(p.parts);
    work.scanned = p.scan;
    work.states = static_cast<float*>(a.workspace.data);
    work.read_once = work.write = ptx::evict_first;
    work.read_twice = ptx::evict_normal;
    std::copy(p.bound.begin(), p.bound.end(), work.bound);
    std::copy(p.head.begin(), p.head.end(), work.head);
    return work;
}

// Tensor maps of boxes of 128 bytes; a cluster's blocks share the tokens of q and k.
Maps maps_of(const CausalArgs& a, int cluster) {
    const auto map = [&](const void* data, int width, Strides s, int tokens) {
        return tensor_map(data, a.type, a.B, a.H, a.N, width, s, 128 / bytes_of(a.type), tokens);
    };
    return {map(a.q, a.r, a.q_stride, chunk / cluster), map(a.k, a.r, a.k_stride, chunk / cluster), map(a.v, a.d, a.v_stride, chunk),
            map(a.o, a.d, a.o_stride, chunk)};
}

template <class E, int R, int D>
void run(const CausalArgs& a, const Plan& p, cudaStream_t stream) {
    constexpr int cluster = D / 64;
    const Maps maps = maps_of(a, cluster);
    const Work work = work_of(a, p);
    const auto blocks = static_cast<unsigned>(cluster * p.stretches);
    const char *state_name = "launching la_state", *output_name = "launching la_output";
    if (p.parts > 0) {
        if constexpr (std::is_same_v<E, float>) {
            launch(la_split<R, cluster, true>, state_name, blocks * p.parts, 512, SplitLayout<R>::bytes, cluster, false, stream, maps, work);
        } else {
            launch(la_state<E, R, D>, state_name, p.stretches * p.parts, 128 * (1 + D / 64), Layout<R, D, false>::bytes, 1, false, stream,
                   cluster > 1 ? maps_of(a, 1) : maps, work);
        }
        if (p.scan) launch(la_scan<R * D>, "launching la_scan", dim3(R * D / 256, static_cast<unsigned>(a.B * a.H)), 256, 0, 1, true, stream, work, p.stretches);
    }
    if constexpr (std::is_same_v<E, float>) {
        launch(la_split<R, cluster, false>, output_name, blocks, 512, SplitLayout<R>::bytes, cluster, p.parts > 0, stream, maps, work);
    } else {
        launch(la_output<E, R, cluster>, output_name, blocks, 384, Layout<R, 64, true>::bytes, cluster, p.parts > 0, stream, maps, work);
    }
}

template <class E>
void run(const CausalArgs& a, const Plan& p, cudaStream_t stream) {
    if (a.r <= 64 && a.d <= 64) return run<E, 64, 64>(a, p, stream);
    if (a.r <= 64) return run<E, 64, 128>(a, p, stream);
    if (a.d <= 64) return run<E, 128, 64>(a, p, stream);
    return run<E, 128, 128>(a, p, stream);
}

}  // namespace

void run_hopper(const CausalArgs& a, const Plan& p, cudaStream_t stream) {
    if (a.type == Type::Float32) run<float>(a, p, stream);
    else if (a.type == Type::BFloat16) run<__nv_bfloat16>(a, p, stream);
    else run<__half>(a, p, stream);
}

}  // namespace causeway::gpu::la
