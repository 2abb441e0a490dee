#include "gpu/exact/hybrid.hpp"

#include <algorithm>

#include "gpu/exact/pieces.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;
using namespace pieces;

struct Plan {
    int64_t size, all;      // tokens of a block; blocks
    int64_t lines, blocks;  // at a time
    float *q, *k, *v, *A, *Y, *carried, *C;
    void* products;
    std::size_t bytes;

    Plan(const CausalArgs& a, void* workspace) {
        size = block_of(a), all = (a.N + size - 1) / size;
        const int64_t each = size * (2 * a.r + 2 * a.d + size), state = int64_t{a.r} * a.d;
        lines = std::min<int64_t>({a.B * a.H, most_lines, std::max<int64_t>(most_floats / (each + 2 * state), 1)});
        blocks = std::clamp<int64_t>(std::min(most_floats / each, most_products) / lines, 1, all);
        const int64_t n = lines * blocks;
        Carve carve(workspace);
        q = carve.floats(n * size * a.r), k = carve.floats(n * size * a.r), v = carve.floats(n * size * a.d);
        A = carve.floats(n * size * size), Y = carve.floats(n * size * a.d);
        carried = carve.floats(lines * state), C = carve.floats(a.state ? 0 : lines * state);
        products = carve.bytes(blas_workspace);
        bytes = carve.end() + slack;
    }
};

}  // namespace

std::size_t hybrid_workspace(const CausalArgs& a) {
    check_causal("hybrid", a);
    return empty(a) ? 0 : Plan(a, nullptr).bytes;
}

void hybrid(const CausalArgs& a, cudaStream_t stream) {
    check_workspace("hybrid", a, hybrid_workspace(a));
    if (empty(a)) return;
    const Plan p(a, a.workspace.data);
    const cublasHandle_t handle = blas(stream, p.products);
    const bool decays = a.gamma != nullptr, tf32 = rounds(a);
    const int64_t size = p.size, r = a.r, d = a.d;
    in_groups(a, p.lines, p.C, stream, [&](const Lines& l, float* C) {
        for (int64_t i = 0; i < p.all; i += p.blocks) {
            const Cut c{i * size, size, std::min(p.blocks, p.all - i), 1, size};
            const int64_t n = l.count * c.nodes, next = c.nodes * size;  // blocks of all lines; rows from one line to the next
            pack(a, a.q, a.q_stride, a.r, l, c, Weight::none, 0, p.q, stream);
            pack(a, a.k, a.k_stride, a.r, l, c, Weight::none, 0, p.k, stream);
            pack(a, a.v, a.v_stride, a.d, l, c, Weight::none, 0, p.v, stream);
            multiply(handle, tf32, size, size, r, {p.q, r, size * r}, {p.k, r, size * r, true}, 0, p.A, size, size * size, n);
            mask(l, c.nodes, size, tf32, p.A, stream);
            multiply(handle, tf32, size, d, size, {p.A, size, size * size}, {p.v, d, size * d}, 0, p.Y, d, size * d, n);
            if (decays) {
                pack(a, a.q, a.q_stride, a.r, l, c, Weight::rising, 1, p.q, stream);
                pack(a, a.v, a.v_stride, a.d, l, c, Weight::falling, 0, p.v, stream);
            }
            for (int64_t b = 0; b < c.nodes; ++b) {
                const int64_t row = b * size;
                hand_over(a, l, size, i + b, tf32, C, p.carried, stream);
                multiply(handle, tf32, size, d, r, {p.q + row * r, r, next * r}, {p.carried, d, r * d}, 1, p.Y + row * d, d, next * d, l.count);
                multiply(handle, tf32, r, d, size, {p.k + row * r, r, next * r, true}, {p.v + row * d, d, next * d}, 1, C, d, r * d, l.count);
            }
            unpack(a, l, c, p.Y, stream);
        }
    });
}

}  // namespace causeway::gpu
