#include "gpu/exact/block_based.hpp"

#include "gpu/exact/blocks.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;
using namespace pieces;

struct Plan : Blocks {
    float *D, *U;
    void* products;
    std::size_t bytes;

    Plan(const CausalArgs& a, Carve carve) : Blocks(a, int64_t{a.r} * a.d, 0, carve) {
        D = carve.floats(lines * blocks * a.r * a.d), U = carve.floats(a.state ? 0 : lines * a.r * a.d);
        products = carve.bytes(blas_workspace);
        bytes = carve.end() + slack;
    }
};

}  // namespace

std::size_t block_based_workspace(const CausalArgs& a) {
    check_causal("block_based", a);
    return empty(a) ? 0 : Plan(a, Carve(nullptr)).bytes;
}

void block_based(const CausalArgs& a, cudaStream_t stream) {
    check_workspace("block_based", a, block_based_workspace(a));
    if (empty(a)) return;
    const Plan p(a, Carve(a.workspace.data));
    const cublasHandle_t handle = blas(stream, p.products);
    const bool decays = a.gamma != nullptr, tf32 = rounds(a);
    const int64_t size = p.size, r = a.r, d = a.d;
    in_groups(a, p.lines, p.U, stream, [&](const Lines& l, float* U) {
        for (int64_t i = 0; i < p.all; i += p.blocks) {
            const Cut c = p.from(i);
            const int64_t n = l.count * c.nodes;
            pack(a, a.k, a.k_stride, a.r, l, c, Weight::none, 0, p.k, stream);
            pack(a, a.v, a.v_stride, a.d, l, c, decays ? Weight::falling : Weight::none, 0, p.v, stream);
            multiply(handle, tf32, r, d, size, {p.k, r, size * r, true}, {p.v, d, size * d}, 0, p.D, d, r * d, n);
            scan_blocks(a, l, c.nodes, size, i, tf32, p.D, U, stream);
            if (decays) pack(a, a.v, a.v_stride, a.d, l, c, Weight::none, 0, p.v, stream);
            pack(a, a.q, a.q_stride, a.r, l, c, Weight::none, 0, p.q, stream);
            p.own_terms(a, l, c, handle, tf32, stream);
            if (decays) pack(a, a.q, a.q_stride, a.r, l, c, Weight::rising, 1, p.q, stream);
            multiply(handle, tf32, size, d, r, {p.q, r, size * r}, {p.D, d, r * d}, 1, p.O, d, size * d, n);
            unpack(a, l, c, p.O, stream);
        }
    });
}

}  // namespace causeway::gpu
