#include "gpu/gated/parallel.hpp"

#include <algorithm>

#include "gpu/base/blas.hpp"
#include "gpu/base/error.hpp"
#include "gpu/gated/arguments.hpp"
#include "gpu/gated/pairs.hpp"
#include "gpu/kit/carve.hpp"
#include "gpu/kit/rows.hpp"

namespace causeway::gpu {

namespace {

using gated::Decay, gated::GateSum, gated::Rows, gated::solved_rows;
using std::int64_t;

constexpr const char* name = "gated_parallel";
// Rows of scores, and batch-heads, that are worked on at a time; of the latter as many as together have so many
// scalars, but at least one.
constexpr int64_t max_rows = 256, max_batch_heads = 256, max_scalars = int64_t{1} << 27;

void check_args(const GatedArgs& a) {
    gated::check(a, name);
    if (a.gates > 1) fail(name, ": a gate for each of ", a.gates, " channels, expected at most one a head");
}

struct Plan {
    int64_t batch_heads, rows;  // at a time
    float *q, *k, *U, *S, *X;
    GateSum* sums;
    void* products;
    std::size_t bytes;

    Plan(const GatedArgs& a, void* workspace) {
        rows = std::min(max_rows, a.N);
        const int64_t gates = a.gates > 0 ? static_cast<int64_t>(sizeof(GateSum) / sizeof(float)) : 0;
        const int64_t each = a.N * (a.dk + a.dv + gates + rows) + rows * (a.dk + a.dv);
        batch_heads = std::clamp<int64_t>(max_scalars / each, 1, std::min<int64_t>(a.B * a.H, max_batch_heads));
        Carve carve(workspace);
        q = carve.floats(batch_heads * rows * a.dk), k = carve.floats(batch_heads * a.N * a.dk),
        U = carve.floats(batch_heads * a.N * a.dv);
        S = carve.floats(batch_heads * rows * a.N), X = carve.floats(batch_heads * rows * a.dv);
        sums = reinterpret_cast<GateSum*>(carve.floats(batch_heads * a.N * gates));
        products = carve.bytes(blas_workspace);
        bytes = carve.end() + Carve::slack;
    }
};

// Of the heads of q and o, of which group share one of k and v, the query-th of every group: where its elements begin,
// and its strides.
int64_t offset_of(const GatedArgs& a, Strides s, int query) { return query * s.head * bytes_of(a.type); }
Strides of_one_query(const GatedArgs& a, Strides s) { return {s.batch, s.head * a.group, s.token}; }

}  // namespace

std::size_t gated_parallel_workspace(const GatedArgs& a) {
    check_args(a);
    return a.B * a.H * a.N == 0 ? 0 : Plan(a, nullptr).bytes;
}

void gated_parallel(const GatedArgs& a, cudaStream_t stream) {
    gated::check_workspace(a.workspace, gated_parallel_workspace(a), name);
    if (a.B * a.H * a.N == 0) return;
    const Plan p(a, a.workspace.data);
    const cublasHandle_t handle = blas(stream, p.products);
    const int64_t N = a.N, dk = a.dk, dv = a.dv;
    const GateSum* const sums = a.gates > 0 ? p.sums : nullptr;
    for (int64_t first = 0; first < a.B * a.H; first += p.batch_heads) {
        const int64_t count = std::min(p.batch_heads, a.B * a.H - first);
        gather_rows(a.k, a.type, a.k_stride, {a.H, first, count, 0, N, a.dk}, p.k, stream);
        gather_rows(a.v, a.type, a.v_stride, {a.H, first, count, 0, N, a.dv}, p.U, stream);
        if (sums) gated::sum_gates(a.g + first * N, count, N, p.sums, stream);
        float* const state = a.state ? a.state + first * dk * dv : nullptr;
        // X = (e ⊙ x) S_0 + (Λ ⊙ x K[:n]ᵀ) U[:n] for the rows x of the tokens [i, i + m).
        const auto read = [&](Matrices x, int64_t i, int64_t m, int64_t n) {
            if (state) {
                multiply(handle, false, m, dv, dk, x, {state, dv, dk * dv}, 0, p.X, dv, m * dv, count);
                gated::weigh(sums, N, {p.X, count, m * dv, i, m, dv}, Decay::up_to, 1, stream);
            } else if (n == 0) {
                check(cudaMemsetAsync(p.X, 0, static_cast<std::size_t>(count * m * dv) * sizeof(float), stream),
                      "clearing what the state holds");
            }
            if (n == 0) return;
            multiply(handle, false, m, n, dk, x, {p.k, dk, N * dk, true}, 0, p.S, n, m * n, count);
            gated::gate_scores(sums, count, N, i, m, n, p.S, stream);
            multiply(handle, false, m, dv, n, {p.S, n, m * n}, {p.U, dv, N * dv}, state ? 1 : 0, p.X, dv, m * dv,
                     count);
        };
        for (int64_t i = 0; a.beta && i < N; i += solved_rows) {
            const int64_t m = std::min(solved_rows, N - i);
            const Matrices keys{p.k + i * dk, dk, N * dk};
            read(keys, i, m, i);
            multiply(handle, false, m, m, dk, keys, {keys.data, dk, N * dk, true}, 0, p.S, m, m * m, count);
            gated::gate_scores(sums ? sums + i : nullptr, count, N, 0, m, m, p.S, stream);
            gated::substitute(p.S, p.X, a.beta + first * N, count, N, i, m, a.dv, p.U, stream);
        }
        for (int query = 0; query < a.group; ++query) {
            const char* const q = static_cast<const char*>(a.q) + offset_of(a, a.q_stride, query);
            char* const o = static_cast<char*>(a.o) + offset_of(a, a.o_stride, query);
            for (int64_t i = 0; i < N; i += p.rows) {
                const int64_t m = std::min(p.rows, N - i);
                gather_rows(q, a.type, of_one_query(a, a.q_stride), {a.H, first, count, i, m, a.dk}, p.q, stream);
                gated::weigh(nullptr, N, {p.q, count, m * dk, i, m, dk}, Decay::none, a.scale, stream);
                read({p.q, dk, m * dk}, i, m, i + m);
                gated::scatter_outputs({p.X, p.q, p.k, p.U, state, sums, N, a.dk, a.dv}, o, a.type,
                                       of_one_query(a, a.o_stride), {a.H, first, count, i, m, a.dv}, stream);
            }
        }
        if (!state) continue;
        gated::weigh(sums, N, {state, count, dk * dv, N - 1, 1, dk * dv}, Decay::up_to, 1, stream);
        gated::weigh(sums, N, {p.k, count, N * dk, 0, N, dk}, Decay::after, 1, stream);
        multiply(handle, false, dk, dv, N, {p.k, dk, N * dk, true}, {p.U, dv, N * dv}, 1, state, dv, dk * dv, count);
    }
}

}  // namespace causeway::gpu
