#include "gpu/gradient/lightning.hpp"

#include "core/gradient/causal_linear_attention_grad.hpp"
#include "tests/gpu/linear_problems.hpp"

using namespace causeway;
using namespace causeway::test;
using gpu::CausalArgs;

namespace {

struct Problem {
    GpuCase c;
    Tensor q, k, v, dO;

    explicit Problem(const GpuCase& problem, unsigned seed = 1)
        : c(problem),
          q(normal_inputs(c, c.r, 1, 4 * seed)),
          k(normal_inputs(c, c.r, 1, 4 * seed + 1)),
          v(normal_inputs(c, c.d, 1, 4 * seed + 2)),
          dO(normal_inputs(c, c.d, 1, 4 * seed + 3)) {}

    struct Gradient {
        Tensor dq, dk, dv;
    };
    Gradient run() const {
        const gpu::Stream stream;
        const Laid Q(c, q), K(c, k), V(c, v), D(c, dO), dQ(c, c.r), dK(c, c.r), dV(c, c.d);
        CausalArgs a;
        a.q = Q.memory.data(), a.k = K.memory.data(), a.v = V.memory.data();
        a.type = Q.memory.type(), a.B = c.B, a.H = c.H, a.N = c.N, a.r = static_cast<int>(c.r),
        a.d = static_cast<int>(c.d);
        a.q_stride = a.k_stride = strides_of(c, c.r), a.v_stride = a.o_stride = strides_of(c, c.d);
        a.gamma = c.gamma.empty() ? nullptr : c.gamma.data();
        a.precision = c.precision, a.splits = c.splits;
        const gpu::Buffer workspace(gpu::lightning_grad_workspace(a));
        if (workspace.bytes() > 0)
            gpu::check(cudaMemsetAsync(workspace.data(), 0xFF, workspace.bytes(), stream), "poisoning the workspace");
        a.workspace = {workspace.data(), workspace.bytes()};
        settle();
        gpu::lightning_grad(a, D.memory.data(), dQ.memory.data(), dK.memory.data(), dV.memory.data(), stream);
        return {dQ.read(stream), dK.read(stream), dV.read(stream)};
    }
};

void check(const GpuCase& c, unsigned seed = 1) {
    INFO(c << " seed " << seed);
    const Problem p(c, seed);
    const auto wide = [](const Tensor& x) { return x.to(DType::f64); };
    const CausalGradient expected =
        causal_linear_attention_grad(wide(p.q), wide(p.k), wide(p.v), wide(p.dO), options_of(c));
    const Problem::Gradient got = p.run();
    CHECK(relative_error(got.dq, expected.dB, own_terms(p.dO, p.v, p.k)) <= allowed(c));
    CHECK(relative_error(got.dk, expected.dC, own_terms(p.v, p.dO, p.q)) <= allowed(c));
    CHECK(relative_error(got.dv, expected.dV, own_terms(p.k, p.q, p.dO)) <= allowed(c));
}

const DType types[] = {DType::bf16, DType::f16, DType::f32};

}  // namespace

TEST_CASE("gradient of lightning-attention-2 on the GPU: any length and decay", "[gpu][lightning][gradient]") {
    if (!on_gpu()) return;
    unsigned seed = 0;
    for (const DType type : types) {
        for (const Index N : {1, 2, 17, 63, 64, 65, 97, 400}) {
            check({type, 1, 1, N, 64, 64}, ++seed);
            check({type, 2, 3, N, 64, 64, {0.9, 1.0, 1e-4}}, ++seed);
        }
        check({type, 1, 2, 500, 128, 128, {0.99, 0.5}}, ++seed);
    }
}

TEST_CASE("gradient of lightning-attention-2 on the GPU: any widths, strides and cuts", "[gpu][lightning][gradient]") {
    if (!on_gpu()) return;
    const std::pair<Index, Index> shapes[] = {{64, 128}, {128, 64}, {96, 80}, {8, 16}, {3, 5}, {130, 40}};
    for (const DType type : types) {
        for (const auto& [r, d] : shapes) {
            check({type, 2, 3, 65, r, d, {0.99, 1.0, 0.2}});
            check({type, 2, 3, 150, r, d, {0.99, 1.0, 0.2}, true, 8, 5});
        }
        for (const int splits : {1, 2, 3, 7}) check({type, 2, 2, 300, 64, 64, {0.999, 1.0}, true, 0, splits});
        // States handed on from split to split.
        for (const int splits : {2, 3, 4})
            check({type, 1, 5, 500, 128, 128, {0.9, 1.0, 0.5, 0.99, 1e-4}, false, 0, splits});
        check({type, 1, 1, 1500, 64, 64, {}, false, 0, 23});
    }
}

TEST_CASE("gradient of lightning-attention-2 on the GPU: more heads than a launch has decays for",
          "[gpu][lightning][gradient]") {
    if (!on_gpu()) return;
    std::vector<double> gamma;
    for (int h = 0; h < 300; ++h) gamma.push_back(1 - 0.9 * h / 300.0);
    check({DType::bf16, 2, 300, 3, 16, 16, gamma});
    check({DType::f32, 1, 300, 3, 3, 5, gamma});
}

TEST_CASE("gradient of lightning-attention-2 on the GPU: NaN reaches only what depends on it",
          "[gpu][lightning][gradient]") {
    if (!on_gpu()) return;
    for (const DType type : types) {
        for (const Index width : {64, 40}) {
            const GpuCase c{type, 1, 1, 150, width, width, {0.9}, false, width == 40 ? 3 : 0, 2};
            const Problem clean(c, 5);
            const Problem::Gradient expected = clean.run();
            for (const Index token : {3, 64, 149}) {
                for (const double bad :
                     {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
                    // A key reaches dQ of its own and later tokens, dV of its own, and no dK; dO reaches dQ of its own
                    // token, dK and dV of earlier ones.
                    for (const bool of_output : {false, true}) {
                        INFO(c << " token " << token << (of_output ? " of dO is " : " of k is ") << bad);
                        Problem p(c, 5);
                        Tensor& x = of_output ? p.dO : p.k;
                        x = x.copy();
                        x.set(token * width + 7, bad);
                        const Problem::Gradient got = p.run();
                        const auto off = [&](const Tensor& a, const Tensor& b, Index i) {
                            return !(std::abs(a.get(i) - b.get(i)) <= 100 * allowed(c));
                        };
                        Index changed = 0;
                        for (Index i = 0; i < got.dq.size(); ++i) {
                            const Index t = i / width;
                            if (of_output ? t != token : t < token) changed += off(got.dq, expected.dq, i);
                            if (!of_output || t > token) changed += off(got.dk, expected.dk, i);
                            if (of_output ? t > token : t != token) changed += off(got.dv, expected.dv, i);
                        }
                        CHECK(changed == 0);
                    }
                }
            }
        }
    }
}

TEST_CASE("gradient of lightning-attention-2 on the GPU: no tokens, bad arguments", "[gpu][lightning][gradient]") {
    if (!on_gpu()) return;
    CHECK(Problem(GpuCase{DType::bf16, 2, 3, 0}).run().dq.size() == 0);
    CausalArgs a;
    a.N = 5, a.r = 300, a.d = 8;
    CHECK_THROWS_WITH(gpu::lightning_grad(a, nullptr, nullptr, nullptr, nullptr, nullptr),
                      contains_text("r and d are 300 and 8"));
    a.r = 8;
    float state = 0;
    a.state = &state;
    CHECK_THROWS_WITH(gpu::lightning_grad(a, nullptr, nullptr, nullptr, nullptr, nullptr),
                      contains_text("a state was given"));
}

// A few launches of every kernel, for compute-sanitizer, which takes long.
TEST_CASE("gradient of lightning-attention-2 on the GPU, small: 16 bits", "[gpu][lightning][gradient][small]") {
    if (!on_gpu()) return;
    check({DType::bf16, 1, 2, 200, 128, 128, {0.9, 1.0}, false, 0, 3});
    check({DType::f16, 1, 2, 150, 64, 128, {0.9, 1.0}, false, 0, 2});
}
TEST_CASE("gradient of lightning-attention-2 on the GPU, small: Float32", "[gpu][lightning][gradient][small]") {
    if (!on_gpu()) return;
    check({DType::f32, 1, 2, 200, 128, 128, {0.9, 1.0}, false, 0, 3});
    check({DType::f32, 1, 2, 100, 5, 3, {0.9, 1.0}});
}
