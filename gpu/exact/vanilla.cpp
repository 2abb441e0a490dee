#include "gpu/exact/vanilla.hpp"

#include <algorithm>

#include "gpu/exact/pieces.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;
using namespace pieces;

struct Plan {
    int64_t batch_heads;  // at a time
    float *q, *k, *v, *A, *O;
    void* products;
    std::size_t bytes;

    Plan(const CausalArgs& a, void* workspace) {
        batch_heads = std::clamp<int64_t>(max_floats / (a.N * (2 * a.r + 2 * a.d + a.N)), 1,
                                          std::min<int64_t>(a.B * a.H, max_batch_heads));
        Carve carve(workspace);
        q = carve.floats(batch_heads * a.N * a.r), k = carve.floats(batch_heads * a.N * a.r),
        v = carve.floats(batch_heads * a.N * a.d);
        A = carve.floats(batch_heads * a.N * a.N), O = carve.floats(batch_heads * a.N * a.d);
        products = carve.bytes(blas_workspace);
        bytes = carve.end() + slack;
    }
};

}  // namespace

std::size_t vanilla_workspace(const CausalArgs& a) {
    check_causal("vanilla", a);
    if (a.N > int64_t{1} << 28)
        fail("vanilla: ", a.N, " tokens, expected at most 2^28: the masked matrix has N² elements");
    return empty(a) ? 0 : Plan(a, nullptr).bytes;
}

void vanilla(const CausalArgs& a, cudaStream_t stream) {
    check_workspace("vanilla", a, vanilla_workspace(a));
    if (a.state) fail("state: the method \"vanilla\" carries no state");
    if (empty(a)) return;
    const Plan p(a, a.workspace.data);
    const cublasHandle_t handle = blas(stream, p.products);
    const bool tf32 = rounds(a);
    const int64_t N = a.N, r = a.r, d = a.d;
    const Cut whole{0, N, 1, 1, N};
    for (int64_t first = 0; first < a.B * a.H; first += p.batch_heads) {
        const BatchHeads l = batch_heads_of(a, first, std::min(p.batch_heads, a.B * a.H - first));
        pack(a, a.q, a.q_stride, a.r, l, whole, Weight::none, 0, p.q, stream);
        pack(a, a.k, a.k_stride, a.r, l, whole, Weight::none, 0, p.k, stream);
        pack(a, a.v, a.v_stride, a.d, l, whole, Weight::none, 0, p.v, stream);
        multiply(handle, tf32, N, N, r, {p.q, r, N * r}, {p.k, r, N * r, true}, 0, p.A, N, N * N, l.count);
        mask(l, 1, N, tf32, p.A, stream);
        multiply(handle, tf32, N, d, N, {p.A, N, N * N}, {p.v, d, N * d}, 0, p.O, d, N * d, l.count);
        unpack(a, l, whole, p.O, nullptr, stream);
    }
}

}  // namespace causeway::gpu
