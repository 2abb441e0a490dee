// The launch of flash attention for Hopper: the only file of the folder compiled for sm_90a.
#include "gpu/kit/launch.hpp"
#include "gpu/kit/tensor_map.hpp"
#include "gpu/softmax/flash.hpp"
#include "gpu/softmax/flash_hopper.cuh"

namespace causeway::gpu::softmax {

namespace {

template <class E, int D>
void run(const SoftmaxArgs& a, cudaStream_t stream) {
    using T = HopperTile<D>;
    const Call c = call_of(a, 1, T::BN);
    const int64_t heads = a.H * a.group;
    const auto map = [&](const void* data, int64_t H, int64_t N, Strides s, int tokens) {
        return tensor_map(data, a.type, a.B, H, N, D, s, 64, tokens);
    };
    const HopperMaps maps{map(a.q, heads, a.N, a.q_stride, T::BM), map(a.k, a.H, a.M, a.k_stride, T::BN),
                          map(a.v, a.H, a.M, a.v_stride, T::BN), map(a.o, heads, a.N, a.o_stride, 64)};
    const int64_t blocks = a.B * heads * ((a.N + T::BM - 1) / T::BM);
    if (blocks >= int64_t{1} << 31) fail("flash_attention: ", blocks, " blocks, expected below 2^31");
    launch(flash_hopper<E, D>, "launching flash_hopper", dim3(static_cast<unsigned>(blocks)), T::threads, T::bytes, 1,
           false, stream, maps, c);
}

template <class E>
void run(const SoftmaxArgs& a, cudaStream_t stream) {
    if (a.d == 64) run<E, 64>(a, stream);
    else run<E, 128>(a, stream);
}

}  // namespace

void flash_on_hopper(const SoftmaxArgs& a, cudaStream_t stream) {
    if (a.type == Type::BFloat16) run<__nv_bfloat16>(a, stream);
    else run<__half>(a, stream);
}

}  // namespace causeway::gpu::softmax
