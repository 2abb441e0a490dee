#include "gpu/exact/block_based.hpp"

#include "gpu/exact/blocks.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;
using namespace pieces;

struct Plan : Blocks {
    float* D;  // what each block adds to the state, then the state before each

    Plan(const CausalArgs& a, Carve carve) : Blocks(a, int64_t{a.r} * a.d, 0, carve) {
        D = carve.floats(batch_heads * blocks * a.r * a.d);
        finish(a, carve);
    }
};

}  // namespace

std::size_t block_based_workspace(const CausalArgs& a) { return workspace_of<Plan>("block_based", a); }

void block_based(const CausalArgs& a, cudaStream_t stream) {
    const bool decays = a.gamma != nullptr, tf32 = rounds(a);
    const int64_t r = a.r, d = a.d;
    each_cut<Plan>(
        "block_based", a, stream,
        [&](const Plan& p, cublasHandle_t handle, const BatchHeads& l, float* U, const Cut& c, int64_t i) {
            const int64_t n = l.count * c.nodes, size = p.size;
            pack(a, a.k, a.k_stride, a.r, l, c, Weight::none, 0, p.k, stream);
            pack(a, a.v, a.v_stride, a.d, l, c, decays ? Weight::falling : Weight::none, 0, p.v, stream);
            multiply(handle, tf32, r, d, size, {p.k, r, size * r, true}, {p.v, d, size * d}, 0, p.D, d, r * d, n);
            scan_blocks(a, l, c.nodes, size, i, tf32, p.D, U, stream);
            if (decays) pack(a, a.v, a.v_stride, a.d, l, c, Weight::none, 0, p.v, stream);
            pack(a, a.q, a.q_stride, a.r, l, c, Weight::none, 0, p.q, stream);
            p.own_terms(a, l, c, handle, tf32, stream);
            if (decays) pack(a, a.q, a.q_stride, a.r, l, c, Weight::rising, 1, p.q, stream);
            multiply(handle, tf32, size, d, r, {p.q, r, size * r}, {p.D, d, r * d}, 1, p.O, d, size * d, n);
        });
}

}  // namespace causeway::gpu
