#include "gpu/exact/hybrid.hpp"

#include "gpu/exact/blocks.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;
using namespace pieces;

struct Plan : Blocks {
    float *carried, *C;
    void* products;
    std::size_t bytes;

    Plan(const CausalArgs& a, Carve carve) : Blocks(a, 0, 2 * int64_t{a.r} * a.d, carve) {
        carried = carve.floats(lines * a.r * a.d), C = carve.floats(a.state ? 0 : lines * a.r * a.d);
        products = carve.bytes(blas_workspace);
        bytes = carve.end() + slack;
    }
};

}  // namespace

std::size_t hybrid_workspace(const CausalArgs& a) {
    check_causal("hybrid", a);
    return empty(a) ? 0 : Plan(a, Carve(nullptr)).bytes;
}

void hybrid(const CausalArgs& a, cudaStream_t stream) {
    check_workspace("hybrid", a, hybrid_workspace(a));
    if (empty(a)) return;
    const Plan p(a, Carve(a.workspace.data));
    const cublasHandle_t handle = blas(stream, p.products);
    const bool decays = a.gamma != nullptr, tf32 = rounds(a);
    const int64_t size = p.size, r = a.r, d = a.d;
    in_groups(a, p.lines, p.C, stream, [&](const Lines& l, float* C) {
        for (int64_t i = 0; i < p.all; i += p.blocks) {
            const Cut c = p.from(i);
            const int64_t next = c.nodes * size;  // rows from one line to the next
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
                multiply(handle, tf32, r, d, size, {p.k + row * r, r, next * r, true}, {p.v + row * d, d, next * d}, 1,
                         C, d, r * d, l.count);
            }
            unpack(a, l, c, p.O, stream);
        }
    });
}

}  // namespace causeway::gpu
