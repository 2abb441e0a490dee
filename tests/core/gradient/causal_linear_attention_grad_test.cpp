// Gradients of causal linear attention: against central differences, against the N×N form differentiated by hand, and
// the identities that the quotient obeys.
#include "core/base/parallel.hpp"
#include "tests/core/gradient/problems.hpp"
#include "tests/threads.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

struct CausalInputs {
    Tensor B, C, V, dO;
    CausalOptions options;
};

CausalInputs causal_inputs(const Case& c, bool state) {
    const Inputs in = inputs(c, DType::f64);
    CausalInputs out{in.B, in.C, in.V, random_tensor(in.V.shape(), c.seed + 1000), {}};
    out.options.decay = c.decay;
    out.options.normalize = c.normalize;
    if (state) {
        out.options.state = random_tensor({c.batch, c.heads, c.r, c.d + (c.normalize ? 1 : 0)}, c.seed + 2000);
        // Denominators stay positive.
        for (Index i = 0; i < out.options.state->size(); ++i)
            out.options.state->set(i, std::abs(out.options.state->get(i)));
    }
    return out;
}

CausalGradient gradient_of(const CausalInputs& x, Index block = 64) {
    CausalOptions o = x.options;
    o.block = block;
    return causal_linear_attention_grad(x.B, x.C, x.V, x.dO, o);
}

CausalInputs to(const CausalInputs& x, DType type) {
    CausalInputs out{x.B.to(type), x.C.to(type), x.V.to(type), x.dO.to(type), x.options};
    if (out.options.state) out.options.state = out.options.state->to(type == DType::f64 ? DType::f64 : DType::f32);
    return out;
}

// From the forward pass alone; γ = 1 has no room above, so it is left out where it is given.
CausalGradient differences(CausalInputs& x) {
    CausalOptions& o = x.options;
    o.method = "row-based";
    const auto f = [&] { return inner(causal_linear_attention(x.B, x.C, x.V, o).O, x.dO); };
    CausalGradient out{central_differences(x.B, f), central_differences(x.C, f), central_differences(x.V, f), {}, {}};
    for (double& gamma : o.decay) {
        constexpr double h = 1e-6;
        const double before = std::exchange(gamma, gamma + h), above = f();
        gamma = before - h;
        out.ddecay.push_back((above - f()) / (2 * h));
        gamma = before;
    }
    if (o.state) out.dstate = central_differences(*o.state, f);
    return out;
}

}  // namespace

TEST_CASE("gradients of causal linear attention are those of central differences", "[gradient]") {
    const std::vector<std::vector<double>> decays{{}, {0.8}, {0.9, 0.5}};
    unsigned seed = 1;
    for (const auto& decay : decays) {
        for (bool normalize : {false, true}) {
            for (bool state : {false, true}) {
                const Case c{2, 2, 13, 3, 4, decay, normalize, ++seed};
                CAPTURE(c, state);
                CausalInputs x = causal_inputs(c, state);
                x.options.scale = 0.7;
                const CausalGradient want = differences(x);
                const Poison poison;
                for (Index block : {4, 5, 13, 100}) {
                    CAPTURE(block);
                    CHECK(difference(gradient_of(x, block), want, 1e-7) == "");
                }
            }
        }
    }
}

// Y = A V / D or A V with every sum written out: dA_ij = dO_i · (v_j - y_i) / D_i, or dO_i · v_j; A_ij = γ^(i-j) b_i ·
// c_j.
TEST_CASE("gradients of causal linear attention are those of the quadratic form", "[gradient]") {
    for (bool normalize : {false, true}) {
        for (double gamma : {1.0, 0.9}) {
            const Case c{1, 1, 33, 4, 3, {gamma}, normalize, 7};
            CAPTURE(c);
            const CausalInputs x = causal_inputs(c, false);
            CausalGradient want{Tensor::zeros(DType::f64, x.B.shape()),
                                Tensor::zeros(DType::f64, x.C.shape()),
                                Tensor::zeros(DType::f64, x.V.shape()),
                                {0},
                                {}};
            const auto add = [](Tensor A, Index flat, double value) { A.set(flat, A.get(flat) + value); };
            for (Index i = 0; i < c.N; ++i) {
                std::vector<double> A, y(static_cast<std::size_t>(c.d), 0.0);
                double D = 0;
                for (Index j = 0; j <= i; ++j) {
                    double a = 0;
                    for (Index e = 0; e < c.r; ++e) a += x.B.get(i * c.r + e) * x.C.get(j * c.r + e);
                    A.push_back(a * std::pow(gamma, double(i - j)));
                    D += A.back();
                    for (Index k = 0; k < c.d; ++k) y[static_cast<std::size_t>(k)] += A.back() * x.V.get(j * c.d + k);
                }
                if (!normalize) D = 1;
                for (Index j = 0; j <= i; ++j) {
                    const double power = std::pow(gamma, double(i - j));
                    double dA = 0;
                    for (Index k = 0; k < c.d; ++k) {
                        const double g = x.dO.get(i * c.d + k);
                        dA += g * (x.V.get(j * c.d + k) - (normalize ? y[static_cast<std::size_t>(k)] / D : 0)) / D;
                        add(want.dV, j * c.d + k, A[static_cast<std::size_t>(j)] * g / D);
                    }
                    for (Index e = 0; e < c.r; ++e) {
                        add(want.dB, i * c.r + e, dA * power * x.C.get(j * c.r + e));
                        add(want.dC, j * c.r + e, dA * power * x.B.get(i * c.r + e));
                    }
                    want.ddecay[0] += dA * A[static_cast<std::size_t>(j)] * double(i - j) / gamma;
                }
            }
            CHECK(difference(gradient_of(x, 8), want, 1e-12) == "");
        }
    }
}

// The quotient does not change when a query is made longer, nor when all keys are (claims G8, G9; no EPS).
TEST_CASE("normalised: queries and keys have no gradient along themselves", "[gradient]") {
    for (const std::vector<double>& decay : {std::vector<double>{}, std::vector<double>{0.95}}) {
        const Case c{1, 2, 70, 4, 5, decay, true, 8};
        CAPTURE(c);
        const CausalInputs x = causal_inputs(c, false);
        const CausalGradient g = gradient_of(x, 16);
        for (Index h = 0; h < c.heads; ++h) {
            double keys = 0, size = 0;
            for (Index t = h * c.N; t < (h + 1) * c.N; ++t) {
                double query = 0, terms = 0;
                for (Index e = t * c.r; e < (t + 1) * c.r; ++e) {
                    query += x.B.get(e) * g.dB.get(e);
                    terms += std::abs(x.B.get(e) * g.dB.get(e));
                    keys += x.C.get(e) * g.dC.get(e);
                    size += std::abs(x.C.get(e) * g.dC.get(e));
                }
                CAPTURE(h, t);
                CHECK(std::abs(query) <= 1e-12 * terms + 1e-14);
            }
            CHECK(std::abs(keys) <= 1e-13 * size);
            CHECK(size > 1e-2);
        }
    }
}

TEST_CASE("gradients of causal linear attention do not depend on the block", "[gradient]") {
    const Poison poison;
    for (Index N : {1, 2, 17, 63, 64, 65, 97}) {
        for (bool normalize : {false, true}) {
            const Case c{1, 2, N, 5, 3, {0.97, 0.6}, normalize, static_cast<unsigned>(N)};
            CAPTURE(c);
            const CausalInputs x = causal_inputs(c, true);
            const CausalGradient want = gradient_of(x, 1);
            for (Index block : {7, 32, 64}) CHECK(difference(gradient_of(x, block), want, 1e-12) == "");
        }
    }
}

TEST_CASE("gradients of causal linear attention in Float32 of 2048 tokens agree with Float64", "[gradient]") {
    for (double gamma : {1.0, 1 - std::ldexp(1.0, -12), 0.99}) {
        for (bool normalize : {false, true}) {
            // The gradient of one γ is a sum of 2048 terms that may cancel; those of four heads do not all do so.
            const Case c{1, 4, 2048, 8, 6, {gamma, gamma, gamma, gamma}, normalize, 9};
            CAPTURE(c);
            const CausalInputs x = causal_inputs(c, true);
            CHECK(difference(gradient_of(to(x, DType::f32)), gradient_of(x), 1e-4) == "");
        }
    }
}

TEST_CASE("one decay for all heads has the sum of their gradients, and every method the same", "[gradient]") {
    const Case c{2, 3, 40, 4, 3, {0.9}, false, 10};
    CausalInputs x = causal_inputs(c, false);
    const CausalGradient one = gradient_of(x, 16);
    x.options.decay = {0.9, 0.9, 0.9};
    x.options.method = "fleet";
    const CausalGradient each = gradient_of(x, 16);
    REQUIRE(one.ddecay.size() == 1);
    REQUIRE(each.ddecay.size() == 3);
    CHECK(one.ddecay[0] == Approx(each.ddecay[0] + each.ddecay[1] + each.ddecay[2]).epsilon(1e-12));
    CHECK(same_bits(one.dC, each.dC));
    CHECK(!one.dstate);
    x.options.decay.clear();
    CHECK(gradient_of(x).ddecay.empty());
}

TEST_CASE("gradients of causal linear attention do not depend on the number of threads", "[gradient]") {
    for (bool normalize : {false, true}) {
        const Case c{2, 3, 150, 9, 7, {0.95}, normalize, 11};
        const CausalInputs x = to(causal_inputs(c, true), DType::f32);
        const int before = threads();
        set_threads(1);
        const CausalGradient one = gradient_of(x, 32);
        set_threads(5);
        const CausalGradient five = gradient_of(x, 32);
        set_threads(before);
        CHECK(difference_in_bits(five, one) == "");
    }
}

TEST_CASE("gradients of causal linear attention take no quadratic memory", "[gradient]") {
    const Index N = 4096, r = 24, d = 32;
    for (const auto& [normalize, n] : {std::pair{false, 1}, {true, 1}, {false, 3}, {true, 3}}) {
        CAPTURE(normalize, n);
        const Threads before_test(n);
        const CausalInputs x = to(causal_inputs({1, 1, N, r, d, {0.99}, normalize, 12}, false), DType::f32);
        memory::reset_peak();
        const std::size_t before = memory::current();
        const CausalGradient got = gradient_of(x);
        const std::size_t extra = memory::peak() - before;
        const Index states = N / 64 * r * (d + 1), gates = 2 * N, wide = normalize ? 3 * N * (d + 1) : 0;
        // One head on several threads: the states twice, v, dO and dv once more, and operands for each.
        const Index at_once = n == 1 ? 0 : states + 3 * N * (d + 1);
        CHECK(extra <= got.dB.bytes() + got.dC.bytes() + got.dV.bytes() +
                           static_cast<std::size_t>(states + gates + wide + at_once) * sizeof(float) +
                           (static_cast<std::size_t>(3 * n) << 17));
    }
}

TEST_CASE("gradients of causal linear attention have the types and shapes of the inputs", "[gradient]") {
    for (DType type : {DType::f16, DType::bf16}) {
        CAPTURE(name(type));
        const Case c{1, 2, 20, 4, 3, {0.9}, false, 13};
        const CausalInputs x = to(causal_inputs(c, true), type);
        const CausalGradient got = gradient_of(x, 8);
        CHECK(got.dB.dtype() == type);
        CHECK(got.dC.dtype() == type);
        CHECK(got.dV.dtype() == type);
        CHECK(got.dstate->dtype() == DType::f32);
        CHECK(difference(got, gradient_of(to(x, DType::f64)), type == DType::f16 ? 2e-3 : 2e-2) == "");
    }
    const Tensor B = random_tensor({7, 2}, 1), C = random_tensor({7, 2}, 2), V = random_tensor({7, 3}, 3),
                 dO = random_tensor({7, 3}, 4);
    const CausalGradient flat = causal_linear_attention_grad(B, C, V, dO);
    const CausalGradient four = causal_linear_attention_grad(B.reshape({1, 1, 7, 2}), C.reshape({1, 1, 7, 2}),
                                                             V.reshape({1, 1, 7, 3}), dO.reshape({1, 1, 7, 3}));
    CHECK(flat.dB.shape() == Shape{7, 2});
    CHECK(same_bits(flat.dV.reshape({1, 1, 7, 3}), four.dV));
    const Tensor none = Tensor::zeros(DType::f32, {1, 2, 0, 3});
    CHECK(causal_linear_attention_grad(none, none, none, none).dB.shape() == Shape{1, 2, 0, 3});
}

TEST_CASE("causal_linear_attention_grad names what does not fit", "[gradient][errors]") {
    const Tensor x = Tensor::full(DType::f32, {1, 2, 8, 4}, 1);
    const auto refused = [&](const Tensor& dO, const CausalOptions& o, const std::string& message) {
        try {
            causal_linear_attention_grad(x, x, x, dO, o);
            FAIL("accepted, expected: " << message);
        } catch (const Error& error) {
            CHECK(std::string(error.what()) == message);
        }
    };
    refused(Tensor::zeros(DType::f32, {1, 2, 8, 3}), {}, "dO: 1×2×8×3, expected 1×2×8×4 like V");
    refused(x.to(DType::f64), {}, "dO: Float64, expected Float32 like V");
    CausalOptions o;
    o.decay = {1.5};
    refused(x, o, "decay: 1.5, expected a number in (0, 1]");
    o = {};
    o.decay = {0.5, 0.5, 0.5};
    refused(x, o, "decay: 3 values, expected 1 or 2, one per head");
    o = {};
    o.block = 0;
    refused(x, o, "block: 0, expected 1 or more");
    o = {};
    o.scale = INFINITY;
    refused(x, o, "scale: inf, expected a finite number");
    o = {};
    o.state = Tensor::zeros(DType::f32, {1, 2, 4, 4});
    o.normalize = true;
    refused(x, o, "state: 1×2×4×4, expected 1×2×4×5");
    o.state = Tensor::zeros(DType::f64, {1, 2, 4, 5});
    refused(x, o, "state: Float64, expected Float32");
    o = {};
    o.method = "flet";
    CHECK_THROWS_AS(causal_linear_attention_grad(x, x, x, x, o), Error);
}
