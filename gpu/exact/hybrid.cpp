#include "gpu/exact/hybrid.hpp"

#include "gpu/exact/blocks.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;
using namespace pieces;

struct Plan : Blocks {
    float* carried;  // the state before a block, rounded as the product takes it

    Plan(const CausalArgs& a, Carve carve) : Blocks(a, 0, 2 * int64_t{a.r} * a.d, carve) {
        carried = carve.floats(batch_heads * a.r * a.d);
        finish(a, carve);
    }
};

}  // namespace

std::size_t hybrid_workspace(const CausalArgs& a) { return workspace_of<Plan>("hybrid", a); }

void hybrid(const CausalArgs& a, cudaStream_t stream) {
    const bool decays = a.gamma != nullptr, tf32 = rounds(a);
    const int64_t r = a.r, d = a.d;
    each_cut<Plan>("hybrid", a, stream,
                   [&](const Plan& p, cublasHandle_t handle, const BatchHeads& l, float* C, const Cut& c, int64_t i) {
                       const int64_t size = p.size, next = c.nodes * size;  // rows from one batch-head to the next
                       pack(a, a.q, a.q_stride, a.r, l, c, Weight::none, 0, p.q, stream);
                       pack(a, a.k, a.k_stride, a.r, l, c, Weight::none, 0, p.k, stream);
                       pack(a, a.v, a.v_stride, a.d, l, c, Weight::none, 0, p.v, stream);
                       p.own_terms(a, l, c, handle, tf32, stream);
                       if (decays) {
                           pack(a, a.q, a.q_stride, a.r, l, c, Weight::rising, 1, p.q, stream);
                           pack(a, a.v, a.v_stride, a.d, l, c, Weight::falling, 0, p.v, stream);
                       }
                       for (int64_t b = 0; b < c.nodes; ++b) {
                           const int64_t row = b * size;
                           hand_over(a, l, size, i + b, tf32, C, p.carried, stream);
                           multiply(handle, tf32, size, d, r, {p.q + row * r, r, next * r}, {p.carried, d, r * d}, 1,
                                    p.O + row * d, d, next * d, l.count);
                           multiply(handle, tf32, r, d, size, {p.k + row * r, r, next * r, true},
                                    {p.v + row * d, d, next * d}, 1, C, d, r * d, l.count);
                       }
                   });
}

}  // namespace causeway::gpu
