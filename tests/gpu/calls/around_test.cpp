// Gates of a projection and a gated norm within linear_attention on the GPU: beside the CPU in Float64.
#include <random>

#include "core/around/norms.hpp"
#include "core/gated/around.hpp"
#include "core/gated/step.hpp"
#include "gpu/gradient/linear_attention_grad.hpp"
#include "tests/gpu/sequences.hpp"

using namespace causeway;
using namespace causeway::test;
using namespace causeway::test::sequences;

namespace {

struct Kind {
    const char* update;
    bool channels, bias;
    double lower_bound;  // 0: none
    bool norm;
};

// What stands around a problem; `size` of the numbers of the projection, whose type is `a`.
void set_around(Problem& c, const Kind& kind, DType type, DType a, unsigned seed, double size = 1) {
    const Index heads = c.v.shape()[1], dk = c.k.shape()[3];
    const auto drawn = [&](const Shape& shape, unsigned s, DType exact, double by) {
        Tensor x = random_tensor(shape, s);
        for (Index i = 0; i < x.size(); ++i) x.set(i, x.get(i) * by);
        return x.to(exact).to(DType::f64);
    };
    if (gated::has_gate(gated::updates()[kind.update].update)) {
        c.options.log_decay = drawn(c.options.log_decay->shape(), seed + 1, a, size);
        c.options.A_log = drawn({heads}, seed + 2, DType::f32, 1);
        if (kind.bias)
            c.options.dt_bias = drawn(kind.channels ? Shape{heads, dk} : Shape{heads}, seed + 3, DType::f32, 1);
        if (kind.lower_bound < 0) c.options.lower_bound = kind.lower_bound;
    }
    if (!kind.norm) return;
    Shape out = c.q.shape();
    out[1] = std::max(out[1], heads), out[3] = c.v.shape()[3];
    c.options.norm_weight = drawn({out[3]}, seed + 4, DType::f32, 1);
    c.options.norm_gate = drawn(out, seed + 5, type, 1);
    c.options.norm_eps = 1e-3;
    if (kind.bias) c.options.norm_activation = "sigmoid";
}

gpu::LinearOptions there(const Problem& c, DType type, DType a) {
    gpu::LinearOptions o = c.on_gpu();
    const auto put = [](const std::optional<Tensor>& x, DType t) -> std::optional<gpu::Tensor> {
        if (!x) return {};
        return moved(*x, t);
    };
    if (c.options.A_log) o.log_decay = put(c.options.log_decay, a);
    o.A_log = put(c.options.A_log, DType::f32), o.dt_bias = put(c.options.dt_bias, DType::f32);
    o.lower_bound = c.options.lower_bound;
    o.norm_weight = put(c.options.norm_weight, DType::f32), o.norm_gate = put(c.options.norm_gate, type);
    o.norm_activation = c.options.norm_activation, o.norm_eps = c.options.norm_eps;
    return o;
}

constexpr Kind kinds[] = {
    {"gated", true, true, 0, false},  {"gated_delta", true, true, 0, true},  {"gated_delta", true, false, -5, false},
    {"gated", true, true, -2, true},  {"gated_delta", false, true, 0, true}, {"gated", false, false, -5, false},
    {"delta", false, false, 0, true}, {"linear", false, true, 0, true},
};

// A norm divides by the mean square of a row, and so what the rule rounds weighs more in rows that are small.
double bound_of(const Kind& kind, DType type) { return kind.norm ? 2 * bound(type) : bound(type); }

void check_near(const Problem& c, const Kind& kind, DType type, DType a) {
    const gpu::LinearResult got = run(c, type, there(c, type, a));
    const LinearResult want = linear_attention(c.q, c.k, c.v, c.options);
    CHECK(relative_error(got.O.cpu(), want.O) <= bound_of(kind, type));
    CHECK(relative_error(got.state.cpu(), want.state) <= bound(type));
}

}  // namespace

TEST_CASE("gates of a projection and norms within the call on the GPU: kinds, modes, types, lengths",
          "[gpu][gpu-call-around]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 0;
    for (const Kind& kind : kinds) {
        for (const char* mode : {"chunkwise", "recurrent"}) {
            for (const Index N : {1, 64, 65, 200}) {
                for (const DType type : {DType::bf16, DType::f16, DType::f32}) {
                    for (const DType a : {DType::f32, DType::bf16}) {
                        CAPTURE(kind.update, kind.channels, kind.norm, mode, N, name(type), name(a), seed);
                        Problem c = make(kind.update, kind.channels, {2, 2, 2}, N, 64, 40, type, seed += 10);
                        set_around(c, kind, type, a, seed);
                        c.options.mode = mode;
                        check_near(c, kind, type, a);
                    }
                }
            }
        }
    }
}

TEST_CASE("gates of a projection within the kernels of a gate per key channel: widths, heads, sizes, packed sequences",
          "[gpu][gpu-call-around]") {
    if (!on_hopper()) return;
    const Poison poison;
    unsigned seed = 3000;
    const std::pair<Index, Index> widths[] = {{128, 128}, {64, 64}, {96, 72}, {33, 20}, {128, 32}};
    const std::array<Index, 3> heads[] = {{2, 2, 2}, {2, 2, 4}, {4, 2, 2}, {2, 4, 4}};
    for (const Kind& kind : {kinds[0], kinds[1], kinds[2]}) {
        for (const auto& [dk, dv] : widths) {
            for (const auto& h : heads) {
                for (const double size : {1.0, 30.0}) {  // gates that forget much within a sub-block too
                    CAPTURE(kind.update, kind.norm, dk, dv, h[0], h[1], h[2], size, seed);
                    Problem c = make(kind.update, true, h, 300, dk, dv, DType::bf16, seed += 10, 2);
                    set_around(c, kind, DType::bf16, DType::bf16, seed, size);
                    check_near(c, kind, DType::bf16, DType::bf16);
                }
            }
        }
        const std::vector<Index> offsets = offsets_of({0, 1, 15, 64, 65, 127, 700, 0, 200, 3});
        Problem c = make(kind.update, true, {2, 2, 4}, offsets.back(), 128, 64, DType::bf16, seed += 10, 1,
                         static_cast<Index>(offsets.size()) - 1);
        set_around(c, kind, DType::bf16, DType::bf16, seed);
        c.options.cu_seqlens = offsets;
        const gpu::LinearResult got = run(c, DType::bf16, there(c, DType::bf16, DType::bf16));
        const Tensor O = got.O.cpu(), state = got.state.cpu();
        for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
            const auto at = static_cast<Index>(i);
            Problem one = part(c, offsets[i], offsets[i + 1], at);
            if (c.options.norm_gate) one.options.norm_gate = tokens(*c.options.norm_gate, offsets[i], offsets[i + 1]);
            CAPTURE(kind.update, i, seed);
            const gpu::LinearResult alone = run(one, DType::bf16, there(one, DType::bf16, DType::bf16));
            CHECK(same_bits(tokens(O, offsets[i], offsets[i + 1]), alone.O.cpu()));
            CHECK(same_bits(slice(state, 0, at, at + 1), alone.state.cpu()));
        }
        check_near(c, kind, DType::bf16, DType::bf16);
    }
}

TEST_CASE("gates of a projection within the call: bits, what is not finite, lengths, checkpoints, prefix",
          "[gpu][gpu-call-around]") {
    if (!on_hopper()) return;
    const Poison poison;
    const Kind& kind = kinds[1];
    Problem c = make(kind.update, true, {2, 2, 2}, 500, 128, 128, DType::bf16, 7000);
    set_around(c, kind, DType::bf16, DType::bf16, 7001);
    const auto all = there(c, DType::bf16, DType::bf16);
    const Tensor first = run(c, DType::bf16, all).O.cpu();
    for (int i = 0; i < 5; ++i) CHECK(same_bits(run(c, DType::bf16, all).O.cpu(), first));
    for (const char* of : {"q", "k", "v"}) {
        CAPTURE(of);
        Problem bad = c;
        const Index token = 100;
        Tensor& x = of[0] == 'q' ? bad.q : of[0] == 'k' ? bad.k : bad.v;
        x = x.copy();
        x.set(token * 128 + 3, std::numeric_limits<double>::quiet_NaN());
        const Tensor got = run(bad, DType::bf16, all).O.cpu();
        CHECK(relative_error(tokens(got, 0, token), tokens(first, 0, token)) <= bound_of(kind, DType::bf16));
        CHECK(std::isnan(got.get(token * 128 + 3)));
    }
    auto o = all;
    o.qk_l2norm = true;
    LinearOptions with = c.options;
    with.qk_l2norm = true;
    CHECK(relative_error(run(c, DType::bf16, o).O.cpu(), linear_attention(c.q, c.k, c.v, with).O) <= 2e-2);
    o = all, o.checkpoint_every = 64;
    with = c.options, with.checkpoint_every = 64;
    CHECK(relative_error(run(c, DType::bf16, o).checkpoints->cpu(),
                         *linear_attention(c.q, c.k, c.v, with).checkpoints) <= bound(DType::bf16));
    o = all, o.deterministic = "prefix";
    CHECK(relative_error(run(c, DType::bf16, o).O.cpu(), linear_attention(c.q, c.k, c.v, c.options).O) <= 2e-2);
    Tensor a = c.options.log_decay->copy();
    a.set(77, std::numeric_limits<double>::quiet_NaN());
    o = all, o.log_decay = moved(a, DType::bf16);
    CHECK_THROWS_WITH(run(c, DType::bf16, o), "log_decay: NaN in gate 78 that is made of it, expected numbers");
    o = all, o.norm_weight = moved(random_tensor({3}, 1), DType::f32);
    CHECK_THROWS_WITH(run(c, DType::bf16, o), "norm_weight: 3, expected 128");
}

TEST_CASE("gates of a projection and norms on the GPU: gradients and steps", "[gpu][gpu-call-around]") {
    if (!on_gpu()) return;
    unsigned seed = 9000;
    for (const Kind& kind : kinds) {
        const DType type = DType::f32;
        CAPTURE(kind.update, kind.channels, kind.norm, seed);
        Problem c = make(kind.update, kind.channels, {4, 2, 2}, 70, 32, 24, type, seed += 10);
        set_around(c, kind, type, type, seed);
        const gpu::LinearOptions o = there(c, type, type);
        const gpu::Tensor q = moved(c.q, type), k = moved(c.k, type), v = moved(c.v, type),
                          dO = moved(random_tensor({1, 4, 70, 24}, seed + 7), type);
        const gpu::LinearGradient got = gpu::linear_attention_grad(q, k, v, dO, o);
        const LinearGradient want = linear_attention_grad(c.q, c.k, c.v, dO.cpu().to(DType::f64), c.options);
        const auto near = [](const char* what, const std::optional<gpu::Tensor>& x, const std::optional<Tensor>& y) {
            CAPTURE(what);
            REQUIRE(x.has_value() == y.has_value());
            if (x) CHECK(relative_error(x->cpu(), *y) <= 1e-4);
        };
        near("dq", got.dq, want.dq), near("dk", got.dk, want.dk), near("dv", got.dv, want.dv);
        near("dlog_decay", got.dlog_decay, want.dlog_decay), near("dbeta", got.dbeta, want.dbeta);
        near("dA_log", got.dA_log, want.dA_log), near("ddt_bias", got.ddt_bias, want.ddt_bias);
        near("dnorm_weight", got.dnorm_weight, want.dnorm_weight), near("dnorm_gate", got.dnorm_gate, want.dnorm_gate);

        Problem one = part(c, 60, 64, 0);
        if (c.options.norm_gate) one.options.norm_gate = tokens(*c.options.norm_gate, 60, 64);
        gpu::LinearOptions step = there(one, type, type);
        gpu::Tensor state = *step.state, O(type, {1, 4, 4, 24});
        step.state.reset();
        gpu::linear_attention_step(moved(one.q, type), moved(one.k, type), moved(one.v, type), state, O, step);
        const LinearResult next = linear_attention(one.q, one.k, one.v, one.options);
        CHECK(relative_error(O.cpu(), next.O) <= 1e-4);
        CHECK(relative_error(state.cpu(), next.state) <= bound(type));
    }
}
