// Gradients of the gated and delta-rule family: against central differences of the forward pass, against the quadratic
// form differentiated by hand, and the chunkwise form against the definition.
#include "core/base/interrupt.hpp"
#include "core/base/parallel.hpp"
#include "tests/core/gradient/problems.hpp"
#include "tests/threads.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

// Every update, with a gate per head and per channel, one query head and three for each state.
std::vector<GatedCase> every_kind(GatedCase c) {
    std::vector<GatedCase> out;
    for (const char* update : {"linear", "gated", "delta", "gated_delta"}) {
        for (bool channels : {false, true}) {
            for (Index group : {1, 3}) {
                c.update = update, c.channels = channels, c.group = group;
                if (c.gated() || !channels) out.push_back(c);
                ++c.seed;
            }
        }
    }
    return out;
}

// Gates at least 0.02 below 0, so that there is room on both sides.
void lower_gates(GatedInputs& in) {
    for (Index i = 0; in.options.log_decay && i < in.options.log_decay->size(); ++i)
        in.options.log_decay->set(i, in.options.log_decay->get(i) - 0.02);
}

// The gradient of <O, dO> + <state, dstate> with respect to everything, from the forward pass alone.
LinearGradient differences(const GradientInputs& g, Tensor state) {
    LinearOptions o = g.in.options;
    o.mode = "recurrent";
    o.state = state;
    const auto f = [&] {
        const LinearResult r = linear_attention(g.in.q, g.in.k, g.in.v, o);
        return inner(r.O, g.dO) + (g.dstate ? inner(r.state, *g.dstate) : 0);
    };
    LinearGradient out{
        central_differences(g.in.q, f), central_differences(g.in.k, f), central_differences(g.in.v, f), {}, {},
        central_differences(state, f)};
    if (o.log_decay) out.dlog_decay = central_differences(*o.log_decay, f);
    if (o.beta) out.dbeta = central_differences(*o.beta, f);
    return out;
}

void check_differences(GradientInputs g, const GatedCase& c) {
    lower_gates(g.in);
    const LinearGradient want = differences(
        g, g.in.options.state ? *g.in.options.state : Tensor::zeros(DType::f64, {c.batch, c.heads, c.dk, c.dv}));
    const Poison poison;
    CHECK(difference(gradient_of(g, "recurrent"), want, 1e-8) == "");
    CHECK(difference(gradient_of(g, "chunkwise", 4), want, 1e-8) == "");
    CHECK(difference(gradient_of(g, "chunkwise", 5), want, 1e-8) == "");
    CHECK(difference(gradient_of(g, "parallel"), want, 1e-8) == "");
}

}  // namespace

TEST_CASE("gradients of the family are those of central differences", "[gradient]") {
    GatedCase base;
    base.heads = 2, base.N = 13, base.dk = 3, base.dv = 4, base.gate = 0.3, base.key_norm = 0.9, base.scale = 0.7;
    for (const GatedCase& c : every_kind(base)) {
        CAPTURE(c);
        check_differences(gradient_inputs(c), c);
    }
}

TEST_CASE("gradients without a state, of batches, and of the outputs alone are those of central differences",
          "[gradient]") {
    GatedCase c;
    c.batch = 2, c.heads = 1, c.N = 9, c.dk = 4, c.dv = 2, c.gate = 0.5, c.state = false, c.seed = 77;
    GradientInputs g = gradient_inputs(c);
    g.dstate.reset();
    check_differences(g, c);
}

TEST_CASE("a gate that serves all heads has the sum of their gradients", "[gradient]") {
    for (bool channels : {false, true}) {
        GatedCase c;
        c.batch = 2, c.heads = 3, c.N = 9, c.dk = 2, c.dv = 3, c.gate = 0.5, c.channels = channels, c.seed = 78;
        CAPTURE(c);
        GradientInputs g = gradient_inputs(c);
        g.in.options.log_decay = Tensor(DType::f64, channels ? Shape{2, 1, 9, 2} : Shape{2, 1, 9});
        g.in.options.beta = Tensor(DType::f64, {2, 1, 9});
        for (Index i = 0; i < g.in.options.log_decay->size(); ++i)
            g.in.options.log_decay->set(i, -0.1 * static_cast<double>(i % 7));
        for (Index i = 0; i < g.in.options.beta->size(); ++i)
            g.in.options.beta->set(i, 0.1 * static_cast<double>(i % 9));
        check_differences(g, c);
    }
}

// dA = (dO Vᵀ) ⊙ L with every sum written out: O_t = scale · Σ_{j<=t} Σ_c q_tc k_jc L_tjc v_j, L_tjc = Π_{j<s<=t} a_sc.
TEST_CASE("gradients of linear and gated are those of the quadratic form", "[gradient]") {
    for (int gates : {0, 1, 3}) {
        GatedCase c;
        c.update = gates == 0 ? "linear" : "gated";
        c.N = 21, c.dk = 3, c.dv = 2, c.gate = 0.4, c.channels = gates == 3, c.key_norm = 0, c.scale = 1.3,
        c.state = false, c.seed = 5;
        CAPTURE(c);
        GradientInputs g = gradient_inputs(c);
        g.dstate.reset();
        const auto at = [](const Tensor& A, Index row, Index width, Index column) {
            return A.get(row * width + column);
        };
        const auto log_gate = [&](Index s, Index e) {
            return gates == 0 ? 0.0 : at(*g.in.options.log_decay, s, gates, gates == 1 ? 0 : e);
        };
        LinearGradient want{Tensor::zeros(DType::f64, g.in.q.shape()),
                            Tensor::zeros(DType::f64, g.in.k.shape()),
                            Tensor::zeros(DType::f64, g.in.v.shape()),
                            {},
                            {},
                            {}};
        if (gates > 0) want.dlog_decay = Tensor::zeros(DType::f64, g.in.options.log_decay->shape());
        const auto add = [](Tensor A, Index flat, double x) { A.set(flat, A.get(flat) + x); };
        for (Index t = 0; t < c.N; ++t) {
            for (Index j = 0; j <= t; ++j) {
                double dA = 0;
                for (Index x = 0; x < c.dv; ++x) dA += c.scale * at(g.dO, t, c.dv, x) * at(g.in.v, j, c.dv, x);
                for (Index e = 0; e < c.dk; ++e) {
                    double log_L = 0;
                    for (Index s = j + 1; s <= t; ++s) log_L += log_gate(s, e);
                    const double L = std::exp(log_L), q = at(g.in.q, t, c.dk, e), k = at(g.in.k, j, c.dk, e);
                    add(want.dq, t * c.dk + e, dA * L * k);
                    add(want.dk, j * c.dk + e, dA * L * q);
                    for (Index x = 0; x < c.dv; ++x)
                        add(want.dv, j * c.dv + x, c.scale * q * k * L * at(g.dO, t, c.dv, x));
                    for (Index s = j + 1; s <= t && gates > 0; ++s)
                        add(*want.dlog_decay, s * gates + (gates == 1 ? 0 : e), dA * q * k * L);
                }
            }
        }
        for (const char* mode : {"recurrent", "chunkwise", "parallel"}) {
            CAPTURE(mode);
            LinearGradient got = gradient_of(g, mode, 4);
            got.dstate = want.dstate = Tensor();
            CHECK(difference(got, want, 1e-13) == "");
        }
    }
}

TEST_CASE("the chunkwise gradient is that of the definition", "[gradient]") {
    const Poison poison;
    for (Index N : {1, 2, 17, 63, 64, 65, 97}) {
        GatedCase base;
        base.N = N, base.dk = 5, base.dv = 3, base.scale = 0.5, base.seed = static_cast<unsigned>(100 * N);
        for (GatedCase c : every_kind(base)) {
            for (double gate : {0.05, 2.0, double(INFINITY)}) {
                c.gate = gate;
                if (!c.gated() && gate != 0.05) continue;
                CAPTURE(c);
                const GradientInputs g = gradient_inputs(c);
                const LinearGradient want = gradient_of(g, "recurrent");
                for (Index chunk : {1, 7, 32, 64, 1000}) {
                    if (chunk != 7 && c.group > 1) continue;
                    CAPTURE(chunk);
                    CHECK(difference(gradient_of(g, "chunkwise", chunk), want, 1e-12) == "");
                }
                CHECK(difference(gradient_of(g, "parallel"), want, 1e-12) == "");
            }
        }
    }
}

TEST_CASE("no tokens: the gradient of the state passes through", "[gradient]") {
    GatedCase c;
    c.N = 0, c.dk = 2, c.dv = 3;
    const GradientInputs g = gradient_inputs(c);
    for (const char* mode : {"recurrent", "chunkwise", "parallel"}) {
        CAPTURE(mode);
        const LinearGradient got = gradient_of(g, mode);
        CHECK(same_bits(got.dstate, *g.dstate));
        CHECK(got.dq.size() == 0);
        CHECK(got.dlog_decay->shape() == Shape{1, 1, 0});
    }
}

TEST_CASE("gradients hold at writing strengths of exactly 0 and 1", "[gradient]") {
    for (double beta : {0.0, 1.0}) {
        GatedCase c;
        c.heads = 2, c.N = 41, c.dk = 6, c.dv = 4, c.beta_low = c.beta_high = beta, c.seed = 8;
        CAPTURE(c);
        const GradientInputs g = gradient_inputs(c);
        const LinearGradient want = gradient_of(g, "recurrent");
        CHECK(difference(gradient_of(g, "chunkwise", 16), want, 1e-13) == "");
        CHECK(inner(*want.dbeta, *want.dbeta) > 0);
        // Nothing is written with β = 0, so nothing arrives at what would have been.
        CHECK((inner(want.dv, want.dv) > 0) == (beta > 0));
    }
}

TEST_CASE("gradients of strong gates keep their relative accuracy", "[gradient]") {
    for (bool channels : {false, true}) {
        GatedCase c;
        c.N = 70, c.dk = 8, c.dv = 4, c.channels = channels, c.seed = 9;
        GradientInputs g = gradient_inputs(c);
        for (Index i = 0; i < g.in.options.log_decay->size(); ++i) g.in.options.log_decay->set(i, -60);
        CAPTURE(channels);
        const LinearGradient want = gradient_of(g, "recurrent");
        CHECK(inner(*want.dlog_decay, *want.dlog_decay) > 0);
        CHECK(inner(*want.dlog_decay, *want.dlog_decay) < 1e-40);  // of the order of e^-60
        CHECK(difference(gradient_of(g, "chunkwise", 16), want, 1e-13) == "");
        const LinearGradient single = gradient_of(g.to(DType::f32), "chunkwise", 16);
        CHECK(relative_error(*single.dlog_decay, *want.dlog_decay) < 2e-5);  // exp(-60) itself is good to 4e-6
        CHECK(relative_error(single.dk, want.dk) < 1e-5);
    }
}

TEST_CASE("the gradient of a gate of exactly 0 is 0, and nothing reaches over it", "[gradient]") {
    for (bool channels : {false, true}) {
        GatedCase c;
        c.N = 30, c.dk = 3, c.dv = 3, c.channels = channels, c.seed = 10;
        GradientInputs g = gradient_inputs(c);
        const Index gates = channels ? c.dk : 1, closed = 17;
        for (Index e = 0; e < gates; ++e) g.in.options.log_decay->set(closed * gates + e, -INFINITY);
        for (Index i = 0; i < closed * c.dv; ++i) g.dO.set(i, 0);
        for (const char* mode : {"recurrent", "chunkwise"}) {
            CAPTURE(channels, mode);
            const LinearGradient got = gradient_of(g, mode, 8);
            for (Index e = 0; e < gates; ++e) CHECK(got.dlog_decay->get(closed * gates + e) == 0);
            for (Index i = 0; i < closed * c.dk; ++i) CHECK(got.dk.get(i) == 0);
            for (Index i = 0; i < closed * c.dv; ++i) CHECK(got.dv.get(i) == 0);
            for (Index i = 0; i < got.dstate.size(); ++i) CHECK(got.dstate.get(i) == 0);
        }
    }
}

TEST_CASE("gradients are linear in what arrives", "[gradient]") {
    GatedCase c;
    c.heads = 2, c.group = 2, c.N = 50, c.dk = 5, c.dv = 6, c.channels = true, c.seed = 11;
    const GradientInputs x = gradient_inputs(c);
    GradientInputs y = x, sum = x;
    y.dO = random_tensor(x.dO.shape(), 12), y.dstate = random_tensor(x.dstate->shape(), 13);
    sum.dO = x.dO.copy(), sum.dstate = x.dstate->copy();
    for (Index i = 0; i < sum.dO.size(); ++i) sum.dO.set(i, 2 * x.dO.get(i) - 3 * y.dO.get(i));
    for (Index i = 0; i < sum.dstate->size(); ++i) sum.dstate->set(i, 2 * x.dstate->get(i) - 3 * y.dstate->get(i));
    const auto gx = named(gradient_of(x, "chunkwise", 16)), gy = named(gradient_of(y, "chunkwise", 16)),
               both = named(gradient_of(sum, "chunkwise", 16));
    for (const auto& [name, got] : both) {
        CAPTURE(name);
        Tensor want(DType::f64, got.shape());
        for (Index i = 0; i < got.size(); ++i) want.set(i, 2 * gx.at(name).get(i) - 3 * gy.at(name).get(i));
        CHECK(relative_error(got, want) < 1e-13);
    }
}

TEST_CASE("gradients in Float32 of 2048 tokens agree with Float64", "[gradient]") {
    GatedCase base;
    base.N = 2048, base.dk = 16, base.dv = 24, base.scale = 0.25;
    for (GatedCase c : every_kind(base)) {
        if (c.group > 1) continue;
        for (double gate : {0.001, 0.1}) {
            if (!c.gated() && gate != 0.1) continue;
            c.gate = gate;
            CAPTURE(c);
            const GradientInputs g = gradient_inputs(c);
            CHECK(difference(gradient_of(g.to(DType::f32), "chunkwise"), gradient_of(g, "recurrent"), 1e-4) == "");
        }
    }
}

TEST_CASE("gradients of two halves with the state handed over are those of the whole", "[gradient]") {
    GatedCase base;
    base.N = 45, base.dk = 4, base.dv = 3, base.seed = 14;
    for (const GatedCase& c : every_kind(base)) {
        if (c.group > 1) continue;
        CAPTURE(c);
        const GradientInputs g = gradient_inputs(c);
        const Index half = 19;
        const auto cut = [&](Index from, Index to) {
            return GradientInputs{tokens(g.in, from, to), tokens(g.dO, from, to), g.dstate};
        };
        GradientInputs first = cut(0, half), second = cut(half, c.N);
        second.in.options.state = oracle(first.in).state;
        const LinearGradient late = gradient_of(second, "chunkwise", 8);
        first.dstate = late.dstate;
        const auto early = named(gradient_of(first, "chunkwise", 8)), after = named(late);
        for (const auto& [name, whole] : named(gradient_of(g, "chunkwise", 8))) {
            CAPTURE(name);
            if (name == "dstate") {
                CHECK(relative_error(early.at(name), whole) < 1e-13);
                continue;
            }
            CHECK(relative_error(early.at(name), tokens(whole, 0, half)) < 1e-13);
            CHECK(relative_error(after.at(name), tokens(whole, half, c.N)) < 1e-13);
        }
    }
}

TEST_CASE("what arrives before a token leaves no gradient after it", "[gradient]") {
    GatedCase base;
    base.N = 37, base.dk = 4, base.dv = 5, base.seed = 15;
    for (const GatedCase& c : every_kind(base)) {
        GradientInputs g = gradient_inputs(c);
        g.dstate.reset();
        const Index last = 13;
        for (Index i = 0; i < c.group; ++i)
            for (Index x = (i * c.N + last + 1) * c.dv; x < (i + 1) * c.N * c.dv; ++x) g.dO.set(x, 0);
        for (const char* mode : {"recurrent", "chunkwise"}) {
            CAPTURE(c, mode);
            for (const auto& [name, grad] : named(gradient_of(g, mode, 8))) {
                if (name == "dstate" || name == "dq") continue;
                CAPTURE(name);
                const Index width = grad.size() / c.N;
                bool zero = true;
                for (Index x = (last + 1) * width; x < grad.size(); ++x) zero &= grad.get(x) == 0;
                CHECK(zero);
                CHECK(inner(grad, grad) > 0);
            }
        }
    }
}

TEST_CASE("a NaN among the values reaches no earlier query and no other key's value", "[gradient]") {
    for (const char* update : {"linear", "gated"}) {
        GatedCase c;
        c.update = update, c.N = 40, c.dk = 4, c.dv = 5, c.seed = 16;
        GradientInputs g = gradient_inputs(c);
        const Index bad = 21;
        g.in.v.set(bad * c.dv + 2, NAN);
        for (const char* mode : {"recurrent", "chunkwise"}) {
            CAPTURE(c, mode);
            const LinearGradient got = gradient_of(g, mode, 16);
            for (Index i = 0; i < bad * c.dk; ++i) CHECK(std::isfinite(got.dq.get(i)));
            for (Index i = 0; i < c.N * c.dk; ++i) CHECK(std::isfinite(got.dk.get(i)) == (i / c.dk != bad));
            for (Index i = 0; i < c.N * c.dv; ++i) CHECK(std::isfinite(got.dv.get(i)));
        }
    }
}

TEST_CASE("gradients do not depend on the number of threads", "[gradient]") {
    GatedCase c;
    c.batch = 2, c.heads = 3, c.group = 2, c.N = 150, c.dk = 9, c.dv = 7, c.channels = true, c.seed = 17;
    const GradientInputs g = gradient_inputs(c).to(DType::f32);
    const int before = threads();
    set_threads(1);
    const LinearGradient one = gradient_of(g, "chunkwise", 32);
    set_threads(5);
    const LinearGradient five = gradient_of(g, "chunkwise", 32);
    set_threads(before);
    CHECK(difference_in_bits(five, one) == "");
}

// Heads that are fewer than threads: their chunks are computed at once.
TEST_CASE("the gradient of one head on several threads has the bits of one thread", "[gradient]") {
    GatedCase c;
    c.seed = 170;
    for (const auto& [N, dk, dv] : {std::tuple<Index, Index, Index>{150, 9, 7}, {65, 33, 70}, {131, 16, 131}})
        for (const double gate : {0.1, static_cast<double>(INFINITY)}) {
            c.N = N, c.dk = dk, c.dv = dv, c.gate = gate;
            for (const GatedCase& kind : every_kind(c))
                for (const DType type : {DType::f32, DType::f64}) {
                    CAPTURE(kind, name(type));
                    GradientInputs g = gradient_inputs(kind).to(type);
                    for (const bool poisoned : {false, true}) {
                        if (poisoned) g.dO.set(g.dO.size() / 2, NAN), g.in.k.set(g.in.k.size() / 3, INFINITY);
                        const Poison poison;
                        const Threads before(1);
                        const LinearGradient one = gradient_of(g, "chunkwise", 32);
                        for (const int n : {2, 3, 16}) {
                            set_threads(n);
                            CHECK(difference_in_bits(gradient_of(g, "chunkwise", 32), one) == "");
                        }
                    }
                }
        }
}

TEST_CASE("the chunkwise gradient stores a state per chunk and nothing quadratic", "[gradient]") {
    for (const auto& [N, n] : {std::pair<Index, int>{4096, 1}, {8192, 1}, {8192, 3}}) {
        GatedCase c;
        c.N = N, c.dk = 24, c.dv = 32, c.seed = 18;
        CAPTURE(N, n);
        const Threads before_test(n);
        const GradientInputs g = gradient_inputs(c).to(DType::f32);
        memory::reset_peak();
        const std::size_t before = memory::current();
        const LinearGradient got = gradient_of(g, "chunkwise", 64);
        const std::size_t extra = memory::peak() - before;
        std::size_t outputs = 0;
        for (const auto& [name, grad] : named(got)) outputs += grad.bytes();
        const std::size_t states = static_cast<std::size_t>(N / 64 * c.dk * c.dv) * sizeof(float);
        CHECK(extra >= outputs + states);
        // One head on several threads: twice the states, the scores A and M, and v, dO and dv once more.
        const std::size_t at_once = static_cast<std::size_t>(N * (2 * 64 + 3 * c.dv)) * sizeof(float);
        const std::size_t operands = std::size_t(3) << 17;  // 64² and 64·(dk + dv) a few times each, padded to panels
        CHECK(extra <= outputs + (n == 1 ? states + operands : 2 * states + at_once + 3 * operands));
    }
}

TEST_CASE("gradients have the shapes and types of what was given", "[gradient]") {
    for (DType type : {DType::f16, DType::bf16, DType::f32}) {
        CAPTURE(name(type));
        const double tolerance = type == DType::f32 ? 1e-5 : type == DType::f16 ? 2e-3 : 2e-2;
        GatedCase c;
        c.heads = 2, c.group = 2, c.N = 20, c.dk = 4, c.dv = 3, c.seed = 19;
        GradientInputs g = gradient_inputs(c).to(type);
        g.in.options.state = g.in.options.state->to(DType::f32);
        const LinearGradient got = gradient_of(g, "chunkwise", 8);
        CHECK(got.dq.shape() == g.in.q.shape());
        CHECK(got.dlog_decay->shape() == g.in.options.log_decay->shape());
        CHECK(got.dbeta->shape() == g.in.options.beta->shape());
        CHECK(got.dstate.shape() == Shape{1, 2, 4, 3});
        for (const auto& [name, grad] : named(got)) {
            CAPTURE(name);
            CHECK(grad.dtype() == (name == "dstate" ? DType::f32 : type));
        }
        CHECK(difference(got, gradient_of(g.to(DType::f64), "recurrent"), tolerance) == "");
    }
    // Two dimensions: one batch, one head.
    GatedCase c;
    c.N = 20, c.dk = 4, c.dv = 3, c.seed = 20;
    const GradientInputs g = gradient_inputs(c);
    LinearOptions o = g.in.options;
    o.log_decay = o.log_decay->reshape({20}), o.beta = o.beta->reshape({20}), o.state = o.state->reshape({4, 3});
    const LinearGradient flat =
        linear_attention_grad(g.in.q.reshape({20, 4}), g.in.k.reshape({20, 4}), g.in.v.reshape({20, 3}),
                              g.dO.reshape({20, 3}), o, g.dstate->reshape({4, 3}));
    CHECK(flat.dq.shape() == Shape{20, 4});
    CHECK(flat.dlog_decay->shape() == Shape{20});
    CHECK(flat.dstate.shape() == Shape{1, 1, 4, 3});
    CHECK(relative_error(flat.dk.reshape({1, 1, 20, 4}), gradient_of(g, "recurrent").dk) < 1e-13);
}

TEST_CASE("linear_attention_grad names what does not fit", "[gradient][errors]") {
    GatedCase c;
    c.heads = 2, c.N = 5, c.dk = 3, c.dv = 4;
    const GradientInputs g = gradient_inputs(c);
    const auto refused = [&](const auto& change, const std::string& message) {
        GradientInputs bad = g;
        change(bad);
        try {
            gradient_of(bad, "chunkwise");
            FAIL("accepted, expected: " << message);
        } catch (const Error& error) {
            CHECK(std::string(error.what()) == message);
        }
    };
    refused(
        [](auto& x) {
            x.dO = Tensor::zeros(DType::f64, {1, 2, 5, 3});
        },
        "dO: 1×2×5×3, expected 1×2×5×4 like the output");
    refused([](auto& x) { x.dO = x.dO.to(DType::f32); }, "dO: Float32, expected Float64 like q");
    refused(
        [](auto& x) {
            x.dstate = Tensor::zeros(DType::f64, {1, 2, 4, 3});
        },
        "dstate: 1×2×4×3, expected 1×2×3×4 like the final state");
    refused([](auto& x) { x.dstate = x.dstate->to(DType::f32); },
            "dstate: Float32, expected Float64 like the final state");
    refused([](auto& x) { x.in.options.beta.reset(); }, "beta: missing, update = \"gated_delta\" needs it");
    refused([](auto& x) { x.in.k = Tensor::zeros(DType::f64, {1, 2, 6, 3}); }, "k: length 6, expected 5 like q");
}

TEST_CASE("a time limit is noticed inside a chunk, forwards and backwards", "[gradient][gated]") {
    // Some tens of milliseconds each, of which a chunk is the whole.
    for (const std::string update : {"linear", "gated", "delta"}) {
        GatedCase c;
        c.update = update, c.N = 6000, c.dk = 64, c.dv = 64, c.seed = 40;
        const GradientInputs g = gradient_inputs(c).to(DType::f32);
        LinearOptions o = g.in.options;
        o.chunk = c.N;
        CAPTURE(update);
        interrupt::set_deadline(1e-3);
        CHECK_THROWS_AS(linear_attention(g.in.q, g.in.k, g.in.v, o), Timeout);
        interrupt::set_deadline(1e-3);
        CHECK_THROWS_AS(gradient_of(g, "chunkwise", c.N), Timeout);
        interrupt::set_deadline(0);
    }
}
