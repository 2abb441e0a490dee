#include "gpu/exact/inner_product.hpp"

#include <algorithm>

#include "gpu/exact/pieces.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;
using namespace pieces;

// Rows of all heads together: a product of so many by d columns fills a large GPU.
constexpr int64_t all_rows = 32768, min_rows = 128, widest = 1024;

struct Plan {
    int64_t batch_heads, rows, columns;  // at a time
    float *q, *k, *v, *S, *O;
    void* products;
    std::size_t bytes;

    Plan(const CausalArgs& a, void* workspace) {
        batch_heads = std::min<int64_t>(a.B * a.H, all_rows / min_rows);
        rows = std::min(all_rows / batch_heads / min_rows * min_rows, a.N), columns = std::min(widest, a.N);
        Carve carve(workspace);
        q = carve.floats(batch_heads * rows * a.r), k = carve.floats(batch_heads * columns * a.r),
        v = carve.floats(batch_heads * columns * a.d);
        S = carve.floats(batch_heads * rows * columns), O = carve.floats(batch_heads * rows * a.d);
        products = carve.bytes(blas_workspace);
        bytes = carve.end() + slack;
    }
};

}  // namespace

std::size_t inner_product_workspace(const CausalArgs& a) {
    check_causal("inner_product", a);
    return empty(a) ? 0 : Plan(a, nullptr).bytes;
}

void inner_product(const CausalArgs& a, cudaStream_t stream) {
    check_workspace("inner_product", a, inner_product_workspace(a));
    if (a.state) fail("state: the method \"inner-product\" carries no state");
    if (empty(a)) return;
    const Plan p(a, a.workspace.data);
    const cublasHandle_t handle = blas(stream, p.products);
    const bool tf32 = rounds(a);
    const int64_t r = a.r, d = a.d;
    for (int64_t first = 0; first < a.B * a.H; first += p.batch_heads) {
        const BatchHeads l = batch_heads_of(a, first, std::min(p.batch_heads, a.B * a.H - first));
        for (int64_t i = 0; i < a.N; i += p.rows) {
            const int64_t m = std::min(p.rows, a.N - i);
            const Cut rows{i, m, 1, 1, m};
            pack(a, a.q, a.q_stride, a.r, l, rows, Weight::none, 0, p.q, stream);
            for (int64_t j = 0; j < i + m; j += p.columns) {
                const int64_t n = std::min(p.columns, i + m - j);
                const Cut columns{j, n, 1, 1, n};
                pack(a, a.k, a.k_stride, a.r, l, columns, Weight::none, 0, p.k, stream);
                pack(a, a.v, a.v_stride, a.d, l, columns, Weight::none, 0, p.v, stream);
                multiply(handle, tf32, m, n, r, {p.q, r, m * r}, {p.k, r, n * r, true}, 0, p.S, n, m * n, l.count);
                if (a.gamma || tf32 || j + n > i) mask_part(l, m, n, i - j, tf32, p.S, stream);
                multiply(handle, tf32, m, d, n, {p.S, n, m * n}, {p.v, d, n * d}, j > 0 ? 1 : 0, p.O, d, m * d,
                         l.count);
            }
            unpack(a, l, rows, p.O, nullptr, stream);
        }
    }
}

}  // namespace causeway::gpu
