// Gradients of the general rule: against central differences of the forward pass, and chunks against the definition.
#include "core/gradient/general_linear_attention_grad.hpp"

#include "tests/core/gated/general/problems.hpp"
#include "tests/core/gradient/problems.hpp"

using namespace causeway;
using namespace causeway::test;

namespace causeway::test {

std::map<std::string, Tensor> named(const GeneralGradient& g) {
    std::map<std::string, Tensor> out{{"dq", g.dq}, {"dk", g.dk}, {"dv", g.dv}, {"dstate", g.dstate}};
    if (g.da) out["da"] = *g.da;
    if (g.du) out["du"] = *g.du, out["dw"] = *g.dw;
    return out;
}

}  // namespace causeway::test

namespace {

struct GeneralGradientInputs {
    GeneralInputs in;
    Tensor dO, dstate;

    GeneralGradientInputs to(DType type) const { return {in.to(type), dO.to(type), dstate.to(type)}; }
};

GeneralGradientInputs general_gradient_inputs(const GeneralCase& c) {
    return {general_inputs(c), random_tensor({c.batch, c.heads * c.group, c.N, c.dv}, c.seed + 1000),
            random_tensor({c.batch, c.heads, c.dk, c.dv}, c.seed + 2000)};
}

GeneralGradient gradient_of(const GeneralGradientInputs& g, const std::string& mode, Index chunk = 32) {
    GeneralOptions o = g.in.options;
    o.mode = mode, o.chunk = chunk;
    return general_linear_attention_grad(g.in.q, g.in.k, g.in.v, g.dO, o, g.dstate);
}

// What `difference` does with the gradients of the other family.
std::string apart(const GeneralGradient& got, const GeneralGradient& want, double tolerance) {
    const auto a = named(got), b = named(want);
    if (a.size() != b.size()) return "not the same gradients";
    for (const auto& [name, expected] : b) {
        if (a.count(name) == 0) return name + " is missing";
        const double error = relative_error(a.at(name), expected);
        if (!(error <= tolerance)) return sentence(name, ": relative error ", error);
    }
    return "";
}

GeneralGradient differences(const GeneralGradientInputs& g) {
    const auto f = [&] {
        const LinearResult r = run(g.in, "recurrent");
        return inner(r.O, g.dO) + inner(r.state, g.dstate);
    };
    GeneralGradient out{central_differences(g.in.q, f),
                        central_differences(g.in.k, f),
                        central_differences(g.in.v, f),
                        {},
                        {},
                        {},
                        central_differences(*g.in.options.state, f)};
    if (g.in.options.a) out.da = central_differences(*g.in.options.a, f);
    if (g.in.options.u)
        out.du = central_differences(*g.in.options.u, f), out.dw = central_differences(*g.in.options.w, f);
    return out;
}

}  // namespace

TEST_CASE("gradients of the general rule are those of central differences", "[gradient][general]") {
    unsigned seed = 200;
    for (Index shared : {1, 2}) {
        for (GeneralCase c : each_kind({.heads = 2, .group = 2, .N = 11, .dk = 3, .dv = 4, .log_a = 0.3})) {
            c.shared_keys = c.shared_factors = shared, c.seed = ++seed, c.scale = 0.7, c.signs = seed % 2 == 0;
            CAPTURE(c);
            const GeneralGradientInputs g = general_gradient_inputs(c);
            const GeneralGradient want = differences(g);
            const Poison poison;
            CHECK(apart(gradient_of(g, "recurrent"), want, 1e-8) == "");
            CHECK(apart(gradient_of(g, "chunkwise", 4), want, 1e-8) == "");
            CHECK(apart(gradient_of(g, "parallel"), want, 1e-8) == "");
        }
    }
}

TEST_CASE("factors of exactly 0 have the gradients of central differences", "[gradient][general]") {
    for (Index gates : {1, 2}) {
        const GeneralGradientInputs g = general_gradient_inputs({.heads = 2,
                                                                 .N = 13,
                                                                 .dk = 3,
                                                                 .dv = 2,
                                                                 .gates = gates,
                                                                 .log_a = std::numeric_limits<double>::infinity(),
                                                                 .seed = 41});
        bool zeros = false;
        for (Index i = 0; i < g.in.options.a->size(); ++i) zeros |= g.in.options.a->get(i) == 0;
        REQUIRE(zeros);
        CHECK(apart(gradient_of(g, "chunkwise", 5), differences(g), 1e-8) == "");
    }
}

TEST_CASE("the chunkwise gradient of the general rule is that of the definition", "[gradient][general]") {
    const Poison poison;
    for (Index N : {0, 1, 31, 32, 33, 100}) {
        for (const GeneralCase& c :
             each_kind({.batch = 2, .heads = 2, .group = 2, .N = N, .dk = 17, .dv = 35, .seed = 60})) {
            CAPTURE(c);
            const GeneralGradientInputs g = general_gradient_inputs(c);
            const GeneralGradient want = gradient_of(g, "recurrent");
            if (N == 0) continue;
            CHECK(apart(gradient_of(g, "chunkwise"), want, 1e-12) == "");
            CHECK(apart(gradient_of(g.to(DType::f32), "chunkwise"), want, 1e-4) == "");
        }
    }
}

TEST_CASE(
    "the gradient of the general rule from slots of a pool is that from their states, added up where they share one",
    "[gradient][general]") {
    for (const GeneralCase& c : each_kind({.batch = 3, .heads = 2, .N = 30, .dk = 5, .dv = 4, .seed = 65})) {
        CAPTURE(c);
        GeneralGradientInputs g = general_gradient_inputs(c);
        const Index elements = c.heads * c.dk * c.dv;
        Tensor pool = Tensor::full(DType::f64, {4, c.heads, c.dk, c.dv}, 7), states(DType::f64, {3, 2, c.dk, c.dv});
        // The first and the last text start from slot 2, the second one from slot 0.
        const std::vector<Index> slots{2, 0, 2};
        for (const Index slot : slots)
            for (Index e = 0; e < elements; ++e)
                pool.set(slot * elements + e, 0.1 * static_cast<double>((slot + 3 * e) % 7) - 0.3);
        for (Index i = 0; i < 3; ++i)
            for (Index e = 0; e < elements; ++e)
                states.set(i * elements + e, pool.get(slots[static_cast<std::size_t>(i)] * elements + e));
        g.in.options.state = states;
        const GeneralGradient each = gradient_of(g, "chunkwise");
        g.in.options.state = pool, g.in.options.state_indices = slots;
        const GeneralGradient got = gradient_of(g, "chunkwise");
        CHECK(same_bits(got.dq, each.dq));
        CHECK(same_bits(got.dk, each.dk));
        REQUIRE(got.dstate.shape() == Shape{4, c.heads, c.dk, c.dv});
        for (Index e = 0; e < elements; ++e) {
            REQUIRE(got.dstate.get(e) == each.dstate.get(elements + e));
            REQUIRE(got.dstate.get(elements + e) == 0);
            REQUIRE(std::abs(got.dstate.get(2 * elements + e) - each.dstate.get(e) -
                             each.dstate.get(2 * elements + e)) <= 1e-13);
            REQUIRE(got.dstate.get(3 * elements + e) == 0);
        }
    }
}

TEST_CASE("bad input to the gradient of the general rule is refused in one sentence", "[gradient][general][errors]") {
    const GeneralGradientInputs g = general_gradient_inputs({.N = 4, .dk = 3, .dv = 2, .seed = 5});
    CHECK_THROWS_WITH(
        general_linear_attention_grad(g.in.q, g.in.k, g.in.v, Tensor::zeros(DType::f64, {1, 1, 4, 3}), g.in.options),
        "dO: 1×1×4×3, expected 1×1×4×2 like the output");
    CHECK_THROWS_WITH(general_linear_attention_grad(g.in.q, g.in.k, g.in.v, g.dO.to(DType::f32), g.in.options),
                      "dO: Float32, expected Float64 like q");
    CHECK_THROWS_WITH(general_linear_attention_grad(g.in.q, g.in.k, g.in.v, g.dO, g.in.options,
                                                    Tensor::zeros(DType::f64, {1, 1, 2, 3})),
                      "dstate: 1×1×2×3, expected 1×1×3×2 like the final state");
    GeneralOptions kept = g.in.options;
    kept.checkpoint_every = 2;
    CHECK_THROWS_WITH(general_linear_attention_grad(g.in.q, g.in.k, g.in.v, g.dO, kept),
                      "checkpoint_every: given, but a gradient returns no states");
    kept.checkpoint_every = 0, kept.inplace = true;
    kept.state = Tensor::zeros(DType::f64, {1, 1, 3, 2});
    CHECK_THROWS_WITH(general_linear_attention_grad(g.in.q, g.in.k, g.in.v, g.dO, kept),
                      "inplace: true, but a gradient leaves the state as it is");
}
