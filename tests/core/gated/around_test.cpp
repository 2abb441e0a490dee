// Gates of a projection and a gated norm within linear_attention: the bits of decay_gate before the call and of
// rms_norm behind it, in every mode, in steps and in gradients.
#include "core/gated/around.hpp"

#include <limits>
#include <vector>

#include "core/around/norms.hpp"
#include "core/gated/step.hpp"
#include "core/gradient/linear_attention_grad.hpp"
#include "core/sharded/linear_attention.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/core/gated/problems.hpp"
#include "tests/core/gradient/problems.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

constexpr Index heads = 2, group = 2, N = 12, dk = 6, dv = 5;

// Inputs of a call with all that may stand around its rule, and the call that has nothing around it: `plain` has the
// gates that decay_gate makes.
struct Around {
    GatedInputs in;
    LinearOptions with, plain;
    NormOptions norm;
    DecayGateOptions gates;
    Tensor a, A_log;  // empty where the update has no gates

    Around(const GatedCase& c, DType type, bool bounded) : in(gated_inputs(c).to(type)) {
        const DType wide = type == DType::f64 ? DType::f64 : DType::f32;
        const auto drawn = [&](const Shape& shape, unsigned seed) {
            return random_tensor(shape, c.seed + seed).to(wide);
        };
        with = in.options;
        norm.weight = drawn({dv}, 20), norm.gate = drawn({2, heads * group, N, dv}, 21).to(type);
        norm.eps = 1e-3;
        if (bounded) norm.activation = "sigmoid";
        plain = with;
        with.norm_weight = norm.weight, with.norm_gate = norm.gate, with.norm_eps = norm.eps;
        with.norm_activation = norm.activation;
        if (!with.log_decay) return;
        const bool channels = with.log_decay->ndim() == 4;
        a = drawn(with.log_decay->shape(), 22).to(type), A_log = drawn({heads}, 23);
        gates.dt_bias = drawn(channels ? Shape{heads, dk} : Shape{heads}, 24);
        if (bounded) gates.lower_bound = -3;
        with.log_decay = a, with.A_log = A_log, with.dt_bias = gates.dt_bias, with.lower_bound = gates.lower_bound;
        plain.log_decay = decay_gate(a.to(wide), A_log, gates);
    }
};

}  // namespace

TEST_CASE("gates of a projection and norms within a call have the bits of what they are made of", "[gated][around]") {
    const Poison poison;
    const GatedCase base{
        .batch = 2, .heads = heads, .group = group, .N = N, .dk = dk, .dv = dv, .gate = 0.5, .seed = 31};
    for (const GatedCase& c : each_update(base)) {
        for (const DType type : {DType::f64, DType::f32, DType::bf16}) {
            for (const bool bounded : {false, true}) {
                INFO(c << " " << name(type) << " " << bounded);
                Around x(c, type, bounded);
                const auto& [in, with, plain, norm, gates, a, A_log] = x;
                for (const auto& mode : modes) {
                    x.with.mode = x.plain.mode = mode;
                    const LinearResult got = linear_attention(in.q, in.k, in.v, with),
                                       rule = linear_attention(in.q, in.k, in.v, plain);
                    CHECK(same_bits(got.O, rms_norm(rule.O, norm)));
                    CHECK(same_bits(got.state, rule.state));
                    const LinearGradient back = linear_attention_grad(in.q, in.k, in.v, got.O, with);
                    const NormGradient arrives = rms_norm_grad(rule.O, got.O, norm);
                    const LinearGradient inner = linear_attention_grad(in.q, in.k, in.v, arrives.dx, plain);
                    CHECK(same_bits(back.dq, inner.dq));
                    CHECK(same_bits(back.dv, inner.dv));
                    CHECK(same_bits(back.dstate, inner.dstate));
                    CHECK(same_bits(*back.dnorm_weight, *arrives.dweight));
                    CHECK(same_bits(*back.dnorm_gate, *arrives.dgate));
                    REQUIRE(back.dA_log.has_value() == with.A_log.has_value());
                    if (!back.dA_log) continue;
                    const DType wide = type == DType::f64 ? DType::f64 : DType::f32;
                    const DecayGateGradient made = decay_gate_grad(a.to(wide), A_log, *inner.dlog_decay, gates);
                    CHECK(same_bits(*back.dlog_decay, made.da.to(type)));
                    CHECK(same_bits(*back.dA_log, made.dA_log));
                    CHECK(same_bits(*back.ddt_bias, *made.ddt_bias));
                }
                x.with.state.reset(), x.plain.state.reset();
                const DType wide = type == DType::f64 ? DType::f64 : DType::f32;
                Tensor state = Tensor::zeros(wide, {2, heads, dk, dv}), other = state.copy();
                Tensor O(type, {2, heads * group, N, dv}), own(type, O.shape());
                linear_attention_step(in.q, in.k, in.v, state, O, with);
                linear_attention_step(in.q, in.k, in.v, other, own, plain);
                CHECK(same_bits(O, rms_norm(own, norm)));
                CHECK(same_bits(state, other));
            }
        }
    }
}

TEST_CASE("a projection without batch and with one head for all makes its gates", "[gated][around]") {
    const Tensor q = random_tensor({heads, N, dk}, 1), v = random_tensor({heads, N, dv}, 2);
    for (const Index own : {heads, Index{1}}) {
        for (const bool channels : {false, true}) {
            INFO(own << " " << channels);
            const Shape given = channels ? Shape{own, N, dk} : Shape{own, N},
                        full = channels ? Shape{1, own, N, dk} : Shape{1, own, N};
            LinearOptions o;
            o.update = "gated", o.log_decay = random_tensor(given, 3), o.A_log = random_tensor({own}, 4);
            LinearOptions plain = o;
            plain.A_log.reset();
            plain.log_decay = decay_gate(o.log_decay->reshape(full), *o.A_log).reshape(given);
            CHECK(same_bits(linear_attention(q, q, v, o).O, linear_attention(q, q, v, plain).O));
        }
    }
}

TEST_CASE("what stands around a call and does not fit is refused with its name, and nothing is changed",
          "[gated][around]") {
    const Tensor q = random_tensor({1, 2, 3, 4}, 1), a = random_tensor({1, 2, 3}, 2), A = random_tensor({2}, 3);
    const auto said = [&](auto&& change) -> std::string {
        LinearOptions o;
        o.update = "gated", o.log_decay = a, o.A_log = A;
        change(o);
        try {
            linear_attention(q, q, q, o);
        } catch (const Error& error) {
            return error.what();
        }
        return "nothing";
    };
    CHECK(said([](auto&) {}) == "nothing");
    CHECK(said([](auto& o) { o.A_log = Tensor::zeros(DType::f64, {3}); }) == "A_log: 3, expected 2, one a head");
    CHECK(said([](auto& o) { o.dt_bias = Tensor::zeros(DType::f64, {2, 4}); }) == "dt_bias: 2×4, expected 2");
    CHECK(said([](auto& o) { o.lower_bound = 1; }) == "lower_bound: 1.0, expected a number below 0");
    CHECK(said([](auto& o) { o.lower_bound = -1, o.log_decay.reset(); }) ==
          "A_log: given, but no log_decay, the projection that the gates are made of, expected both or neither");
    const auto no_A_log = [&](auto&& change) {
        return said([&](auto& o) { o.log_decay = decay_gate(a, A), o.A_log.reset(), change(o); });
    };
    CHECK(no_A_log([](auto&) {}) == "nothing");
    CHECK(no_A_log([&](auto& o) { o.dt_bias = A; }) == "dt_bias: given, but no A_log, expected both or neither");
    CHECK(no_A_log([](auto& o) { o.lower_bound = -5; }) ==
          "lower_bound: given, but no A_log, expected both or neither");
    CHECK(said([](auto& o) { o.norm_weight = Tensor::zeros(DType::f64, {3}); }) == "norm_weight: 3, expected 4");
    CHECK(said([&](auto& o) { o.norm_gate = a; }) == "norm_gate: 1×2×3, expected 1×2×3×4");
    CHECK(said([&](auto& o) { o.norm_gate = q, o.norm_activation = "relu"; }).rfind("norm_activation: \"relu\"", 0) ==
          0);
    CHECK(said([&](auto& o) { o.norm_gate = q, o.norm_eps = -1; }) ==
          "norm_eps: -1, expected a number that is not negative");
    CHECK(said([](auto& o) { o.norm_eps = 1; }) ==
          "norm_eps: given, but no norm_weight and no norm_gate, expected both or neither");
    CHECK(said([](auto& o) { o.norm_activation = "sigmoid"; }) ==
          "norm_activation: given, but no norm_gate, expected both or neither");
    Tensor bad = a.copy();
    bad.set(4, std::numeric_limits<double>::quiet_NaN());
    CHECK(said([&](auto& o) { o.log_decay = bad; }).rfind("log_decay: NaN in element 5", 0) == 0);

    LinearOptions o;
    o.update = "gated", o.log_decay = a, o.A_log = A, o.state = random_tensor({1, 2, 4, 4}, 5), o.inplace = true;
    const Tensor before = o.state->copy();
    o.norm_weight = Tensor::zeros(DType::f64, {3});
    CHECK_THROWS_AS(linear_attention(q, q, q, o), Error);
    CHECK(same_bits(*o.state, before));
    o.norm_weight.reset(), o.inplace = false;
    OperationCount count;
    CHECK_THROWS_WITH(linear_attention_counted(q, q, q, o, count),
                      "A_log: given, but a counted call makes no gates, expected log_decay = decay_gate(a, A_log)");
    Sharding shards;
    shards.shards = 2;
    CHECK_THROWS_WITH(
        linear_attention_sharded(q, q, q, o, shards),
        "A_log: given, but a call on several workers makes no gates, expected log_decay = decay_gate(a, A_log)");
    o = {};
    o.norm_gate = q;
    CHECK_THROWS_WITH(linear_attention_counted(q, q, q, o, count),
                      "norm_gate: given, but a counted call has no norm, expected rms_norm of its outputs");
}
