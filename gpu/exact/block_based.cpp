#include "gpu/exact/block_based.hpp"

#include <algorithm>

#include "gpu/exact/pieces.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;
using namespace pieces;

struct Plan {
    int64_t size, all;      // tokens of a block; blocks
    int64_t lines, blocks;  // at a time
    float *q, *k, *v, *S, *O, *D, *U;
    void* products;
    std::size_t bytes;

    Plan(const CausalArgs& a, void* workspace) {
        size = block_of(a), all = (a.N + size - 1) / size;
        const int64_t each = size * (2 * a.r + 2 * a.d + size) + int64_t{a.r} * a.d;
        lines = std::min<int64_t>({a.B * a.H, most_lines, std::max<int64_t>(most_floats / each, 1)});
        blocks = std::clamp<int64_t>(std::min(most_floats / each, most_products) / lines, 1, all);
        const int64_t n = lines * blocks;
        Carve carve(workspace);
        q = carve.floats(n * size * a.r), k = carve.floats(n * size * a.r), v = carve.floats(n * size * a.d);
        S = carve.floats(n * size * size), O = carve.floats(n * size * a.d), D = carve.floats(n * a.r * a.d);
        U = carve.floats(a.state ? 0 : lines * a.r * a.d);
        products = carve.bytes(blas_workspace);
        bytes = carve.end() + slack;
    }
};

}  // namespace

std::size_t block_based_workspace(const CausalArgs& a) {
    check_causal("block_based", a);
    return empty(a) ? 0 : Plan(a, nullptr).bytes;
}

void block_based(const CausalArgs& a, cudaStream_t stream) {
    check_workspace("block_based", a, block_based_workspace(a));
    if (empty(a)) return;
    const Plan p(a, a.workspace.data);
    const cublasHandle_t handle = blas(stream, p.products);
    const bool decays = a.gamma != nullptr, tf32 = rounds(a);
    const int64_t size = p.size, r = a.r, d = a.d;
    in_groups(a, p.lines, p.U, stream, [&](const Lines& l, float* U) {
        for (int64_t i = 0; i < p.all; i += p.blocks) {
            const Cut c{i * size, size, std::min(p.blocks, p.all - i), 1, size};
            const int64_t n = l.count * c.nodes;
            pack(a, a.k, a.k_stride, a.r, l, c, Weight::none, 0, p.k, stream);
            pack(a, a.v, a.v_stride, a.d, l, c, decays ? Weight::falling : Weight::none, 0, p.v, stream);
            multiply(handle, tf32, r, d, size, {p.k, r, size * r, true}, {p.v, d, size * d}, 0, p.D, d, r * d, n);
            scan_blocks(a, l, c.nodes, size, i, tf32, p.D, U, stream);
            if (decays) pack(a, a.v, a.v_stride, a.d, l, c, Weight::none, 0, p.v, stream);
            pack(a, a.q, a.q_stride, a.r, l, c, Weight::none, 0, p.q, stream);
            multiply(handle, tf32, size, size, r, {p.q, r, size * r}, {p.k, r, size * r, true}, 0, p.S, size, size * size, n);
            mask(l, c.nodes, size, tf32, p.S, stream);
            multiply(handle, tf32, size, d, size, {p.S, size, size * size}, {p.v, d, size * d}, 0, p.O, d, size * d, n);
            if (decays) pack(a, a.q, a.q_stride, a.r, l, c, Weight::rising, 1, p.q, stream);
            multiply(handle, tf32, size, d, r, {p.q, r, size * r}, {p.D, d, r * d}, 1, p.O, d, size * d, n);
            unpack(a, l, c, p.O, stream);
        }
    });
}

}  // namespace causeway::gpu
