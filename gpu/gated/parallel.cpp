#include "gpu/gated/parallel.hpp"

#include <algorithm>

#include "gpu/exact/pieces.hpp"
#include "gpu/gated/arguments.hpp"
#include "gpu/gated/pairs.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;
using namespace pieces;
using gated::Decay, gated::GateSum, gated::Rows, gated::solved_rows;

constexpr const char* name = "gated_parallel";
constexpr int64_t most_rows = 256,
                  most_scalars = int64_t{1}
                                 << 27;  // of scores at a time; of the heads in work, where it is more than one

void check_args(const GatedArgs& a) {
    gated::check(a, name);
    if (a.gates > 1) fail(name, ": a gate for each of ", a.gates, " channels, expected at most one a head");
}

struct Plan {
    int64_t lines, rows;  // at a time
    float *q, *k, *U, *S, *X;
    GateSum* sums;
    void* products;
    std::size_t bytes;

    Plan(const GatedArgs& a, void* workspace) {
        rows = std::min(most_rows, a.N);
        const int64_t gates = a.gates > 0 ? static_cast<int64_t>(sizeof(GateSum) / sizeof(float)) : 0;
        const int64_t each = a.N * (a.dk + a.dv + gates + rows) + rows * (a.dk + a.dv);
        lines = std::clamp<int64_t>(most_scalars / each, 1, std::min<int64_t>(a.B * a.H, max_batch_heads));
        Carve carve(workspace);
        q = carve.floats(lines * rows * a.dk), k = carve.floats(lines * a.N * a.dk),
        U = carve.floats(lines * a.N * a.dv);
        S = carve.floats(lines * rows * a.N), X = carve.floats(lines * rows * a.dv);
        sums = reinterpret_cast<GateSum*>(carve.floats(lines * a.N * gates));
        products = carve.bytes(blas_workspace);
        bytes = carve.end() + slack;
    }
};

// q, k, v and o of one of the queries that share keys, for what packs and unpacks them.
CausalArgs packed(const GatedArgs& a, int query) {
    CausalArgs c;
    const auto of_query = [&](const void* x, Strides s) {
        return static_cast<const char*>(x) + query * s.head * bytes_of(a.type);
    };
    const auto shared = [&](Strides s) { return Strides{s.batch, s.head * a.group, s.token}; };
    c.q = of_query(a.q, a.q_stride), c.q_stride = shared(a.q_stride);
    c.o = const_cast<char*>(of_query(a.o, a.o_stride)), c.o_stride = shared(a.o_stride);
    c.type = a.type, c.B = a.B, c.H = a.H, c.N = a.N, c.r = a.dk, c.d = a.dv;
    c.precision = Precision::exact;
    return c;
}

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
    for (int64_t first = 0; first < a.B * a.H; first += p.lines) {
        const CausalArgs all = packed(a, 0);
        const BatchHeads l = batch_heads_of(all, first, std::min(p.lines, a.B * a.H - first));
        const Cut whole{0, N, 1, 1, N};
        pack(all, a.k, a.k_stride, a.dk, l, whole, Weight::none, 0, p.k, stream);
        pack(all, a.v, a.v_stride, a.dv, l, whole, Weight::none, 0, p.U, stream);
        if (sums) gated::sum_gates(a.g + first * N, l.count, N, p.sums, stream);
        float* const state = a.state ? a.state + first * dk * dv : nullptr;
        // X = (e ⊙ x) S_0 + (Λ ⊙ x K[:n]ᵀ) U[:n] for the rows x of the tokens [i, i + m).
        const auto read = [&](Matrices x, int64_t i, int64_t m, int64_t n) {
            if (state) {
                multiply(handle, false, m, dv, dk, x, {state, dv, dk * dv}, 0, p.X, dv, m * dv, l.count);
                gated::weigh(sums, N, {p.X, l.count, m * dv, i, m, dv}, Decay::up_to, 1, stream);
            } else if (n == 0) {
                check(cudaMemsetAsync(p.X, 0, static_cast<std::size_t>(l.count * m * dv) * sizeof(float), stream),
                      "clearing what the state holds");
            }
            if (n == 0) return;
            multiply(handle, false, m, n, dk, x, {p.k, dk, N * dk, true}, 0, p.S, n, m * n, l.count);
            gated::gate_scores(sums, l.count, N, i, m, n, p.S, stream);
            multiply(handle, false, m, dv, n, {p.S, n, m * n}, {p.U, dv, N * dv}, state ? 1 : 0, p.X, dv, m * dv,
                     l.count);
        };
        for (int64_t i = 0; a.beta && i < N; i += solved_rows) {
            const int64_t m = std::min(solved_rows, N - i);
            const Matrices keys{p.k + i * dk, dk, N * dk};
            read(keys, i, m, i);
            multiply(handle, false, m, m, dk, keys, {keys.data, dk, N * dk, true}, 0, p.S, m, m * m, l.count);
            gated::gate_scores(sums ? sums + i : nullptr, l.count, N, 0, m, m, p.S, stream);
            gated::substitute(p.S, p.X, a.beta + first * N, l.count, N, i, m, a.dv, p.U, stream);
        }
        for (int query = 0; query < a.group; ++query) {
            const CausalArgs c = packed(a, query);
            for (int64_t i = 0; i < N; i += p.rows) {
                const int64_t m = std::min(p.rows, N - i);
                const Cut rows{i, m, 1, 1, m};
                pack(c, c.q, c.q_stride, a.dk, l, rows, Weight::none, 0, p.q, stream);
                gated::weigh(nullptr, N, {p.q, l.count, m * dk, i, m, dk}, Decay::none, a.scale, stream);
                read({p.q, dk, m * dk}, i, m, i + m);
                unpack(c, l, rows, p.X, stream);
            }
        }
        if (!state) continue;
        gated::weigh(sums, N, {state, l.count, dk * dv, N - 1, 1, dk * dv}, Decay::up_to, 1, stream);
        gated::weigh(sums, N, {p.k, l.count, N * dk, 0, N, dk}, Decay::after, 1, stream);
        multiply(handle, false, dk, dv, N, {p.k, dk, N * dk, true}, {p.U, dv, N * dv}, 1, state, dv, dk * dv, l.count);
    }
}

}  // namespace causeway::gpu
