// The gradients of q, k, u, w and a, from the sums over 32 columns of v each.
#include "gpu/gated/fma.cuh"
#include "gpu/gradient/general_recurrent/part.hpp"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::general {

namespace {

constexpr int add_threads = 64;

// One block: one token of one head.
__global__ __launch_bounds__(add_threads) void general_add_columns(const __grid_constant__ Backward p,
                                                                   const __grid_constant__ GeneralGradArgs to,
                                                                   int vectors, int wide) {
    const Call& call = p.call;
    const std::int64_t bh = blockIdx.x / p.tokens, own = blockIdx.x % p.tokens, t = p.first + own;
    const auto sum = [&](int vector, int channel) {
        float x = 0.0f;
        for (int i = 0; i < wide; ++i)
            x += p.sums[(((i * call.all_heads + bh) * p.tokens + own) * vectors + vector) * call.dk + channel];
        return x;
    };
    for (int c = threadIdx.x; c < call.dk; c += add_threads) {
        int vector = 0;
        for (; vector < call.group; ++vector)
            to.dq[((bh * call.group + vector) * to.rows + t) * call.dk + c] = sum(vector, c);
        const std::int64_t row = (bh * to.rows + t) * call.dk + c;
        to.dk[row] = sum(vector++, c);
        if (to.dw) to.dw[row] = sum(vector++, c), to.du[row] = sum(vector++, c);
        if (call.gates > 1 || (call.gates == 1 && call.dk == 1)) to.da[row] = sum(vector, c);
    }
    if (call.gates != 1 || call.dk == 1 || threadIdx.x >= 32) return;
    float x = 0.0f;
    for (int c = threadIdx.x; c < call.dk; c += 32) x += sum(vectors - 1, c);
    x = gated::sum32(x);
    if (threadIdx.x == 0) to.da[bh * to.rows + t] = x;
}

}  // namespace

void launch_add_columns(const Backward& p, const GeneralGradArgs& to, cudaStream_t stream) {
    launch(general_add_columns, "launching general_add_columns",
           dim3(static_cast<unsigned>(p.call.all_heads * p.tokens)), add_threads, 0, 1, false, stream, p, to,
           p.vectors(), p.wide());
}

}  // namespace causeway::gpu::general
