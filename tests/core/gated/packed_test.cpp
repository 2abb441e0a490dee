// Packed sequences, heads that states share, checkpoints and steps of several tokens: each is what simpler calls give,
// to the bit where nothing is added in another order.
#include <cstring>
#include <vector>

#include "core/exact/causal_linear_attention.hpp"
#include "core/gated/general/general_linear_attention.hpp"
#include "core/gated/step.hpp"
#include "core/gradient/linear_attention_grad.hpp"
#include "core/softmax/softmax_attention.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/core/gated/problems.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::test;
using causeway::testing::message_of;

namespace {

// Every head of A so many times in a row.
Tensor repeated(const Tensor& A, Index times) {
    const Shape& s = A.shape();
    Tensor out(A.dtype(), {s[0], s[1] * times, s[2], s[3]});
    const auto bytes = static_cast<std::size_t>(s[2] * s[3]) * size_of(A.dtype());
    for (Index h = 0; h < s[0] * s[1] * times; ++h)
        std::memcpy(out.raw() + static_cast<std::size_t>(h) * bytes,
                    A.raw() + static_cast<std::size_t>(h / times) * bytes, bytes);
    return out;
}

// The first of every `times` heads.
Tensor thinned(const Tensor& A, Index times) {
    const Shape& s = A.shape();
    Tensor out(A.dtype(), {s[0], s[1] / times, s[2], s[3]});
    const auto bytes = static_cast<std::size_t>(s[2] * s[3]) * size_of(A.dtype());
    for (Index h = 0; h < s[0] * s[1] / times; ++h)
        std::memcpy(out.raw() + static_cast<std::size_t>(h) * bytes,
                    A.raw() + static_cast<std::size_t>(h * times) * bytes, bytes);
    return out;
}

Tensor normal(const Shape& shape, unsigned seed, DType type) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<double> normal;
    Tensor out(type, shape);
    for (Index i = 0; i < out.size(); ++i) out.set(i, static_cast<float>(normal(generator)));
    return out;
}

}  // namespace

TEST_CASE("packed sequences have the bits of calls with each alone", "[gated]") {
    const Poison poison;
    const std::vector<std::vector<Index>> packings{
        {0, 150}, {0, 0, 1, 1, 64, 129, 150, 150}, {0, 63, 127, 150}, {0, 149, 150}};
    for (const GatedCase& base : each_update({.heads = 2, .group = 3, .N = 150, .dk = 20, .dv = 37, .seed = 40})) {
        for (const DType type : {DType::f32, DType::f64}) {
            for (const auto& offsets : packings) {
                GatedInputs in = gated_inputs(base).to(type);
                const auto n = static_cast<Index>(offsets.size()) - 1;
                in.options.state = normal({n, base.heads, base.dk, base.dv}, base.seed, type);
                const Tensor dO = normal({1, base.heads * base.group, base.N, base.dv}, base.seed + 1, type);
                const Tensor dstate = normal({n, base.heads, base.dk, base.dv}, base.seed + 2, type);
                for (const auto& mode : modes) {
                    INFO(mode << " " << base << " " << name(type) << " " << n << " sequences");
                    in.options.mode = mode;
                    in.options.cu_seqlens = offsets;
                    const LinearResult all = linear_attention(in.q, in.k, in.v, in.options);
                    const LinearGradient grad = linear_attention_grad(in.q, in.k, in.v, dO, in.options, dstate);
                    REQUIRE(all.state.shape() == Shape{n, base.heads, base.dk, base.dv});
                    for (Index i = 0; i < n; ++i) {
                        const Index from = offsets[static_cast<std::size_t>(i)],
                                    to = offsets[static_cast<std::size_t>(i) + 1];
                        GatedInputs one = tokens(in, from, to);
                        one.options.cu_seqlens.clear();
                        one.options.state = slice(*in.options.state, 0, i, i + 1);
                        const LinearResult want = linear_attention(one.q, one.k, one.v, one.options);
                        CHECK(same_bits(slice(all.O, 2, from, to), want.O));
                        CHECK(same_bits(slice(all.state, 0, i, i + 1), want.state));
                        const LinearGradient g = linear_attention_grad(one.q, one.k, one.v, slice(dO, 2, from, to),
                                                                       one.options, slice(dstate, 0, i, i + 1));
                        CHECK(same_bits(slice(grad.dq, 2, from, to), g.dq));
                        CHECK(same_bits(slice(grad.dk, 2, from, to), g.dk));
                        CHECK(same_bits(slice(grad.dv, 2, from, to), g.dv));
                        CHECK(same_bits(slice(grad.dstate, 0, i, i + 1), g.dstate));
                        if (g.dlog_decay) CHECK(same_bits(slice(*grad.dlog_decay, 2, from, to), *g.dlog_decay));
                        if (g.dbeta) CHECK(same_bits(slice(*grad.dbeta, 2, from, to), *g.dbeta));
                    }
                }
            }
        }
    }
}

TEST_CASE("70000 packed sequences of a token or none", "[gated]") {
    const Index n = 70000;
    std::vector<Index> offsets{0};
    for (Index i = 0; i < n; ++i) offsets.push_back(offsets.back() + (i % 3 == 0 ? 0 : 1));
    const Index N = offsets.back();
    const Tensor q = normal({1, 1, N, 2}, 1, DType::f32), k = normal({1, 1, N, 2}, 2, DType::f32),
                 v = normal({1, 1, N, 3}, 3, DType::f32);
    LinearOptions o;
    o.cu_seqlens = offsets;
    const LinearResult got = linear_attention(q, k, v, o);
    for (Index i = 0, t = 0; i < n; ++i) {
        const bool empty = offsets[static_cast<std::size_t>(i)] == offsets[static_cast<std::size_t>(i) + 1];
        float worst = 0;
        for (Index e = 0; e < 2; ++e)
            for (Index j = 0; j < 3; ++j) {
                const float want = empty ? 0.0f : k.data<float>()[2 * t + e] * v.data<float>()[3 * t + j];
                const float x = got.state.data<float>()[(i * 2 + e) * 3 + j];
                if (!(std::abs(x - want) <= worst)) worst = std::abs(x - want);
            }
        if (!(worst <= 1e-6f)) FAIL("sequence " << i << ": " << worst);
        if (!empty) ++t;
    }
}

TEST_CASE("70000 packed sequences of a token or none in every other call that takes them", "[gated][gradient]") {
    const Index n = 70000;
    std::vector<Index> offsets{0};
    for (Index i = 0; i < n; ++i) offsets.push_back(offsets.back() + (i % 3 == 0 ? 0 : 1));
    const Index N = offsets.back();
    const Tensor q = normal({1, 1, N, 2}, 4, DType::f32), k = normal({1, 1, N, 2}, 5, DType::f32),
                 v = normal({1, 1, N, 3}, 6, DType::f32), dO = normal({1, 1, N, 3}, 7, DType::f32);
    // Of one token o = (q · k) v, dv = (q · k) dO, dq = (dO · v) k; softmax attention gives v.
    const auto score = [&](Index t) { return q.get(2 * t) * k.get(2 * t) + q.get(2 * t + 1) * k.get(2 * t + 1); };
    const auto upstream = [&](Index t) {
        double sum = 0;
        for (Index j = 0; j < 3; ++j) sum += dO.get(3 * t + j) * v.get(3 * t + j);
        return sum;
    };
    const auto worst = [&](const Tensor& x, Index width, auto&& want) {
        double most = 0;
        for (Index t = 0; t < N; ++t) {
            for (Index j = 0; j < width; ++j) {
                const double off = std::abs(x.get(width * t + j) - want(t, j));
                if (!(off <= most)) most = off;
            }
        }
        return most;
    };
    const auto out = [&](Index t, Index j) { return score(t) * v.get(3 * t + j); };
    LinearOptions linear;
    linear.cu_seqlens = offsets;
    const LinearGradient g = linear_attention_grad(q, k, v, dO, linear);
    CHECK(worst(g.dv, 3, [&](Index t, Index j) { return score(t) * dO.get(3 * t + j); }) <= 1e-5);
    CHECK(worst(g.dq, 2, [&](Index t, Index j) { return upstream(t) * k.get(2 * t + j); }) <= 1e-5);
    GeneralOptions general;
    general.cu_seqlens = offsets;
    CHECK(worst(general_linear_attention(q, k, v, general).O, 3, out) <= 1e-5);
    CausalOptions causal;
    causal.cu_seqlens = offsets, causal.method = "fleet";
    CHECK(worst(causal_linear_attention(q, k, v, causal).O, 3, out) <= 1e-5);
    SoftmaxOptions softmax;
    softmax.cu_seqlens = offsets;
    CHECK(worst(softmax_attention(q, k, v, softmax).O, 3, [&](Index t, Index j) { return v.get(3 * t + j); }) == 0);
}

TEST_CASE("heads of q and k that states share are as if they stood there for each", "[gated]") {
    const Poison poison;
    struct Heads {
        Index values, shared_queries, shared_keys, group;
    };
    for (const Heads& h : {Heads{6, 1, 2, 1}, {6, 3, 3, 1}, {4, 4, 4, 1}, {6, 2, 6, 1}, {4, 1, 2, 3}, {6, 6, 1, 1}}) {
        for (const GatedCase& base : each_update({.batch = 2,
                                     .heads = h.values,
                                     .group = h.group,
                                     .N = 70,
                                     .dk = 9,
                                     .dv = 18,
                                     .gate = 0.2,
                                     .seed = 60 + static_cast<unsigned>(h.shared_keys)})) {
            GatedInputs in = gated_inputs(base);
            in.q = thinned(in.q, h.shared_queries), in.k = thinned(in.k, h.shared_keys);
            GatedInputs wide = in;
            wide.q = repeated(in.q, h.shared_queries), wide.k = repeated(in.k, h.shared_keys);
            const Tensor dO = normal({2, h.values * h.group, base.N, base.dv}, base.seed, DType::f64);
            for (const auto& mode : modes) {
                INFO(mode << " " << base << " shared " << h.shared_queries << " " << h.shared_keys);
                in.options.mode = wide.options.mode = mode;
                const LinearResult got = linear_attention(in.q, in.k, in.v, in.options),
                                   want = linear_attention(wide.q, wide.k, wide.v, wide.options);
                CHECK(same_bits(got.O, want.O));
                CHECK(same_bits(got.state, want.state));
                OperationCount count;
                CHECK(relative_error(linear_attention_counted(in.q, in.k, in.v, in.options, count).O, want.O) <= 1e-13);
                const LinearGradient g = linear_attention_grad(in.q, in.k, in.v, dO, in.options),
                                     all = linear_attention_grad(wide.q, wide.k, wide.v, dO, wide.options);
                CHECK(same_bits(g.dv, all.dv));
                CHECK(same_bits(g.dstate, all.dstate));
                if (all.dlog_decay) CHECK(same_bits(*g.dlog_decay, *all.dlog_decay));
                if (all.dbeta) CHECK(same_bits(*g.dbeta, *all.dbeta));
                const auto summed = [&](const Tensor& wide_gradient, Index times) {
                    Tensor sum = thinned(wide_gradient, times);
                    const Shape& s = sum.shape();
                    const Index row = s[2] * s[3];
                    for (Index head = 0; head < s[0] * s[1]; ++head)
                        for (Index i = 0; i < row; ++i)
                            for (Index t = 1; t < times; ++t)
                                sum.set(head * row + i,
                                        sum.get(head * row + i) + wide_gradient.get((head * times + t) * row + i));
                    return sum;
                };
                CHECK(relative_error(g.dq, summed(all.dq, h.shared_queries)) <= 1e-14);
                CHECK(relative_error(g.dk, summed(all.dk, h.shared_keys)) <= 1e-14);
            }
        }
    }
}

TEST_CASE("a call that goes on from a checkpoint has the bits of the uninterrupted one", "[gated]") {
    const Poison poison;
    const std::vector<Index> offsets{0, 100, 100, 131, 200};
    for (const GatedCase& base : each_update({.heads = 2, .group = 2, .N = 200, .dk = 12, .dv = 21, .seed = 80})) {
        for (const Index every : {1, 7, 32, 64, 100, 500}) {
            for (const auto& mode : modes) {
                INFO(mode << " every " << every << " " << base);
                GatedInputs in = gated_inputs(base).to(DType::f32);
                const GatedCase drawn = base;
                in.options.state = normal({4, base.heads, base.dk, base.dv}, drawn.seed, DType::f32);
                in.options.mode = mode;
                in.options.cu_seqlens = offsets;
                in.options.checkpoint_every = every;
                const LinearResult all = linear_attention(in.q, in.k, in.v, in.options);
                Index place = 0;
                for (Index s = 0; s < 4; ++s) {
                    const Index first = offsets[static_cast<std::size_t>(s)],
                                last = offsets[static_cast<std::size_t>(s) + 1];
                    for (Index t = every; t <= last - first; t += every, ++place) {
                        GatedInputs rest = tokens(in, first + t, last);
                        rest.options.cu_seqlens.clear();
                        rest.options.state = slice(*all.checkpoints, 0, place, place + 1);
                        const LinearResult went_on = linear_attention(rest.q, rest.k, rest.v, rest.options);
                        if (!same_bits(went_on.O, slice(all.O, 2, first + t, last)) ||
                            !same_bits(went_on.state, slice(all.state, 0, s, s + 1)))
                            FAIL("sequence " << s << " from token " << t);
                    }
                }
                CHECK(place == all.checkpoints->shape()[0]);
                in.options.checkpoint_every = 0;
                const LinearResult want = linear_attention(in.q, in.k, in.v, in.options);
                CHECK(relative_error(all.O, want.O) <= 1e-5);
            }
        }
    }
}

TEST_CASE("a step of several tokens has the bits of as many steps, and keeps the states between them", "[gated]") {
    const Poison poison;
    for (const GatedCase& base :
         each_update({.batch = 2, .heads = 3, .group = 2, .N = 16, .dk = 19, .dv = 70, .seed = 90})) {
        for (const Index T : {1, 2, 5, 16}) {
            INFO("T = " << T << " " << base);
            const GatedInputs in = tokens(gated_inputs(base).to(DType::f32), 0, T);
            LinearOptions o = in.options;
            o.state.reset();
            Tensor state = in.options.state->copy(), one = state.copy();
            Tensor O(DType::f32, {2, 6, T, 70});
            std::vector<Tensor> states;
            linear_attention_step(in.q, in.k, in.v, state, O, o, &states);
            REQUIRE(states.size() == static_cast<std::size_t>(T));
            for (Index t = 0; t < T; ++t) {
                GatedInputs token = tokens(in, t, t + 1);
                token.options.state.reset();
                Tensor o_t(DType::f32, {2, 6, 1, 70});
                linear_attention_step(token.q, token.k, token.v, one, o_t, token.options);
                CHECK(same_bits(slice(O, 2, t, t + 1), o_t));
                CHECK(same_bits(states[static_cast<std::size_t>(t)], one));
            }
            CHECK(same_bits(state, one));
        }
    }
}

TEST_CASE("offsets and heads that do not fit are refused by name", "[gated]") {
    const auto zeros = [](const Shape& s) { return Tensor::zeros(DType::f32, s); };
    const Tensor q = zeros({1, 2, 10, 4}), v = zeros({1, 4, 10, 4});
    const auto with = [&](std::vector<Index> offsets) {
        LinearOptions o;
        o.cu_seqlens = std::move(offsets);
        return message_of([&] { linear_attention(q, q, v, o); });
    };
    CHECK(with({0}) == "cu_seqlens: one offset, expected the first, 0, and the last, 10, at least");
    CHECK(with({1, 10}) == "cu_seqlens: 1 as its first offset, expected 0");
    CHECK(with({0, 9}) == "cu_seqlens: 9 as its last offset, expected 10, the tokens");
    CHECK(with({0, 7, 3, 10}) == "cu_seqlens: offset 3 is 3, expected 7 or more like offset 2");
    LinearOptions packed;
    packed.cu_seqlens = {0, 5, 10};
    CHECK(message_of([&] {
              linear_attention(zeros({2, 2, 10, 4}), zeros({2, 2, 10, 4}), zeros({2, 2, 10, 4}), packed);
          }) == "cu_seqlens: given with batch 2, expected batch 1, which holds all sequences");
    packed.state = zeros({1, 4, 4, 4});
    CHECK(message_of([&] { linear_attention(q, q, v, packed); }) == "state: 1×4×4×4, expected 2×4×4×4");
    CHECK(message_of([&] {
              linear_attention(q, q, zeros({1, 3, 10, 4}), {});
          }) == "v: heads 3, expected 2 like k, or a multiple for grouped values");
    CHECK(message_of([&] {
              linear_attention(zeros({1, 3, 10, 4}), q, v, {});
          }) == "q: heads 3, expected a multiple of the 4 of v, or a divisor of them");
    Tensor state = zeros({1, 4, 4, 4}), O = zeros({1, 4, 17, 4});
    CHECK(message_of([&] {
              linear_attention_step(zeros({1, 2, 17, 4}), zeros({1, 2, 17, 4}), zeros({1, 4, 17, 4}), state, O);
          }) == "q: length 17, expected 1 to 16 tokens in a step");
}
