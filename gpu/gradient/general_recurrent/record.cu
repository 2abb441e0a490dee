// Forwards without outputs, for the states on the way.
#include "gpu/gated/general/token.cuh"
#include "gpu/gradient/general_recurrent/part.hpp"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::general {

namespace {

// One block: 32 columns of the state of one head.
template <int DK, Gates gates, bool erases>
__global__ __launch_bounds__(grad_threads) void general_record(const __grid_constant__ Record p) {
    const Call& call = p.call;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rg = lane % 16, cg = lane / 16;
    const int wide = (call.dv + grad_columns - 1) / grad_columns;
    const int64_t bh = blockIdx.x / wide, elements = int64_t{call.dk} * call.dv;
    const int column = static_cast<int>(blockIdx.x % wide) * grad_columns + warp * 8 + cg * 4;
    const bool quads = call.dv % 4 == 0;
    const Heads heads = heads_of(call, bh / call.heads, bh % call.heads);

    float S[DK / 16][4];
    load_state<DK>(S, p.from + bh * elements, call.dk, call.dv, rg, column, quads);
    Token<DK, gates, erases> next;
    next.load(call, heads, p.first, rg, column);
    const int64_t last = (p.tokens - 1) / p.every * p.every;  // of the tokens that a state is wanted before
    for (int64_t t = 0, place = 0, left = 0;; ++t, --left) {
        if (left == 0) {
            store_state<DK>(p.to + (place++ * call.all_heads + bh) * elements, S, call.dk, call.dv, rg, column, quads);
            left = p.every;
        }
        if (t == last) return;
        const Token<DK, gates, erases> now = next;
        if (t + 1 < last) next.load(call, heads, p.first + t + 1, rg, column);
        advance(S, now, call);
    }
}

}  // namespace

void launch_record(const Record& p, cudaStream_t stream) {
    const int64_t blocks = p.call.all_heads * ((p.call.dv + grad_columns - 1) / grad_columns);
    with_kinds(p.call, [&]<int DK, Gates gates, bool erases>() {
        launch(general_record<DK, gates, erases>, "launching general_record", dim3(static_cast<unsigned>(blocks)),
               grad_threads, 0, 1, false, stream, p);
    });
}

}  // namespace causeway::gpu::general
