#include "gpu/exact/recursion.hpp"

#include <algorithm>

#include "gpu/exact/pieces.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;
using namespace pieces;

// Tokens of a piece of a longer node; floats of the nodes in work.
constexpr int64_t slab = 1024;

// Level with halves of m tokens: the nodes that reach into their second half, cut into slabs of `size` tokens.
struct Level {
    int64_t m, nodes, slabs = 1, size;
    Level(int64_t length, int64_t N) : m(length), nodes((N + length - 1) / (2 * length)), size(length) {
        for (; size > slab && size % 2 == 0; size /= 2) slabs *= 2;
    }
    int64_t floats(const CausalArgs& a) const {
        return slabs * (size * (a.r + std::max(a.r, a.d)) + int64_t{a.r} * a.d);
    }  // of a node
};

struct Plan {
    int64_t leaf, batch_heads, padded, floats;  // tokens of a leaf; at a time; tokens in leaves; of the nodes in work
    float *O, *work;
    void* products;
    std::size_t bytes;

    Plan(const CausalArgs& a, void* workspace) {
        leaf = block_of(a), padded = (a.N + leaf - 1) / leaf * leaf;
        int64_t largest = leaf * (a.r + a.r + 2 * a.d + leaf);
        for (int64_t m = leaf; m < a.N; m *= 2) largest = std::max(largest, Level(m, a.N).floats(a));
        batch_heads = std::clamp<int64_t>(2 * max_floats / (padded * a.d + largest), 1,
                                          std::min<int64_t>(a.B * a.H, max_batch_heads));
        floats = std::max(batch_heads * largest, std::min(max_floats, batch_heads * padded * (2 * (a.r + a.d) + leaf)));
        Carve carve(workspace);
        O = carve.floats(batch_heads * padded * a.d);
        work = carve.floats(floats + 4 * 64);
        products = carve.bytes(blas_workspace);
        bytes = carve.end() + slack;
    }
};

}  // namespace

std::size_t recursion_workspace(const CausalArgs& a) {
    check_causal("recursion", a);
    return empty(a) ? 0 : Plan(a, nullptr).bytes;
}

void recursion(const CausalArgs& a, cudaStream_t stream) {
    check_workspace("recursion", a, recursion_workspace(a));
    if (a.state) fail("state: the method \"recursion\" carries no state");
    if (empty(a)) return;
    const Plan p(a, a.workspace.data);
    const cublasHandle_t handle = blas(stream, p.products);
    const bool decays = a.gamma != nullptr, tf32 = rounds(a);
    const int64_t r = a.r, d = a.d, leaf = p.leaf;
    for (int64_t first = 0; first < a.B * a.H; first += p.batch_heads) {
        const BatchHeads l = batch_heads_of(a, first, std::min(p.batch_heads, a.B * a.H - first));
        const auto in_groups = [&](int64_t nodes, int64_t floats, auto&& f) {
            const int64_t group = std::max<int64_t>(std::min(p.floats / floats, max_products) / l.count, 1);
            for (int64_t i = 0; i < nodes; i += group) f(i, std::min(group, nodes - i));
        };
        in_groups(p.padded / leaf, leaf * (2 * r + 2 * d + leaf), [&](int64_t i, int64_t nodes) {
            const Cut c{i * leaf, leaf, nodes, 1, leaf};
            const int64_t n = l.count * nodes;
            Carve carve(p.work);
            float *q = carve.floats(n * leaf * r), *k = carve.floats(n * leaf * r), *v = carve.floats(n * leaf * d);
            float *S = carve.floats(n * leaf * leaf), *O = carve.floats(n * leaf * d);
            pack(a, a.q, a.q_stride, a.r, l, c, Weight::none, 0, q, stream);
            pack(a, a.k, a.k_stride, a.r, l, c, Weight::none, 0, k, stream);
            pack(a, a.v, a.v_stride, a.d, l, c, Weight::none, 0, v, stream);
            multiply(handle, tf32, leaf, leaf, r, {q, r, leaf * r}, {k, r, leaf * r, true}, 0, S, leaf, leaf * leaf, n);
            mask(l, nodes, leaf, tf32, S, stream);
            multiply(handle, tf32, leaf, d, leaf, {S, leaf, leaf * leaf}, {v, d, leaf * d}, 0, O, d, leaf * d, n);
            place(a, l, c, O, false, p.padded, p.O, stream);
        });
        for (int64_t m = leaf; m < a.N; m *= 2) {
            const Level level(m, a.N);
            in_groups(level.nodes, level.floats(a), [&](int64_t i, int64_t nodes) {
                const Cut one{2 * m * i, 2 * m, nodes, level.slabs, level.size},
                    two{2 * m * i + m, 2 * m, nodes, level.slabs, level.size};
                const int64_t n = l.count * one.pieces(), s = level.size;
                Carve carve(p.work);
                float *qk = carve.floats(n * s * r), *vo = carve.floats(n * s * std::max(r, d)),
                      *D = carve.floats(n * r * d);
                pack(a, a.k, a.k_stride, a.r, l, one, decays ? Weight::falling : Weight::none, 1, qk, stream);
                pack(a, a.v, a.v_stride, a.d, l, one, Weight::none, 0, vo, stream);
                multiply(handle, tf32, r, d, s, {qk, r, s * r, true}, {vo, d, s * d}, 0, D, d, r * d, n);
                if (level.slabs > 1 || tf32) sum_slabs(l, one, r * d, tf32, D, stream);
                pack(a, a.q, a.q_stride, a.r, l, two, decays ? Weight::rising : Weight::none, 0, qk, stream);
                multiply(handle, tf32, s, d, r, {qk, r, s * r}, {D, d, r * d}, 0, vo, d, s * d, n);
                place(a, l, two, vo, true, p.padded, p.O, stream);
            });
        }
        unpack(a, l, {0, p.padded, 1, 1, p.padded}, p.O, nullptr, stream);
    }
}

}  // namespace causeway::gpu
