// The gated and delta-rule family against the recurrence in Float64, and its properties.
#include "tests/core/gated/problems.hpp"

#include <cstring>
#include <limits>
#include <vector>

#include "core/around/norms.hpp"
#include "core/base/parallel.hpp"
#include "core/gated/step.hpp"
#include "core/gradient/linear_attention_grad.hpp"
#include "core/tensor/rearrange.hpp"
#include "tests/core/exact/problems.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

LinearResult run(const GatedInputs& in, const std::string& mode, Index chunk = 64) {
    LinearOptions o = in.options;
    o.mode = mode;
    o.chunk = chunk;
    return linear_attention(in.q, in.k, in.v, o);
}

double worst(const LinearResult& got, const LinearResult& want) {
    return std::max(relative_error(got.O, want.O), relative_error(got.state, want.state));
}

}  // namespace

TEST_CASE("every update and mode agrees with the recurrence", "[gated]") {
    const Poison poison;
    unsigned seed = 100;
    for (Index N : {1, 2, 17, 63, 64, 65, 97, 200}) {
        for (const auto& [dk, dv] : {std::pair<Index, Index>{1, 1}, {5, 7}, {16, 64}, {33, 130}, {64, 17}, {128, 8}}) {
            GatedCase base;
            base.batch = 1 + N % 2, base.heads = 2, base.group = 1 + dk % 3, base.N = N, base.dk = dk, base.dv = dv;
            base.gate = N % 3 == 0 ? 3 : 0.1;
            base.scale = N % 2 ? 0.25 : 1;
            base.state = N != 64;
            base.seed = ++seed;
            for (const GatedCase& c : each_update(base)) {
                const GatedInputs in = gated_inputs(c);
                const LinearResult want = oracle(in);
                for (const auto& mode : modes) {
                    INFO(mode << " " << c);
                    CHECK(worst(run(in, mode), want) <= 1e-13);
                    CHECK(worst(run(in.to(DType::f32), mode), want) <= 1e-5);
                }
            }
        }
    }
}

TEST_CASE("qk_l2norm has the bits of l2norm before the call, in steps, counts and gradients too", "[gated][l2norm]") {
    const Poison poison;
    for (const GatedCase& c :
         each_update({.batch = 2, .heads = 2, .group = 2, .N = 16, .dk = 6, .dv = 5, .gate = 0.5, .seed = 11})) {
        INFO(c);
        for (const DType type : {DType::f64, DType::f32, DType::bf16}) {
            const GatedInputs in = gated_inputs(c).to(type);
            LinearOptions with = in.options;
            with.qk_l2norm = true;
            const Tensor q = l2norm(in.q), k = l2norm(in.k);
            for (const auto& mode : modes) {
                with.mode = mode;
                const LinearResult got = linear_attention(in.q, in.k, in.v, with),
                                   want = linear_attention(q, k, in.v, calls::without_l2norm(with));
                CHECK(same_bits(got.O, want.O));
                CHECK(same_bits(got.state, want.state));
                OperationCount count, plain;
                CHECK(same_bits(linear_attention_counted(in.q, in.k, in.v, with, count).O,
                                linear_attention_counted(q, k, in.v, calls::without_l2norm(with), plain).O));
                const LinearGradient back = linear_attention_grad(in.q, in.k, in.v, got.O, with),
                                     inner = linear_attention_grad(q, k, in.v, got.O, calls::without_l2norm(with));
                CHECK(same_bits(back.dq, l2norm_grad(in.q, inner.dq)));
                CHECK(same_bits(back.dk, l2norm_grad(in.k, inner.dk)));
                CHECK(same_bits(back.dv, inner.dv));
            }
            with.state.reset();
            const DType wide = type == DType::f64 ? DType::f64 : DType::f32;
            Tensor state = Tensor::zeros(wide, {2, 2, 6, 5}), other = state.copy();
            Tensor O(type, {2, 4, 16, 5}), plain(type, {2, 4, 16, 5});
            linear_attention_step(in.q, in.k, in.v, state, O, with);
            linear_attention_step(q, k, in.v, other, plain, calls::without_l2norm(with));
            CHECK(same_bits(O, plain));
            CHECK(same_bits(state, other));
        }
    }
}

TEST_CASE("every chunk length gives the same", "[gated]") {
    const Poison poison;
    for (const GatedCase& c :
         each_update({.batch = 1, .heads = 1, .group = 2, .N = 33, .dk = 6, .dv = 5, .gate = 0.5, .seed = 7})) {
        const GatedInputs in = gated_inputs(c);
        const LinearResult want = oracle(in);
        for (Index chunk = 1; chunk <= 35; ++chunk) {
            INFO("chunk " << chunk << " " << c);
            CHECK(worst(run(in, "chunkwise", chunk), want) <= 1e-13);
        }
        OperationCount count;
        LinearOptions o = in.options;
        o.chunk = 7;
        CHECK(worst(linear_attention_counted(in.q, in.k, in.v, o, count), want) <= 1e-13);
    }
}

TEST_CASE("Float32 keeps 1e-5 over 4096 tokens with ordinary gates", "[gated]") {
    for (const GatedCase& c :
         each_update({.heads = 2, .N = 4096, .dk = 32, .dv = 24, .gate = 0.05, .state = false, .seed = 8})) {
        const GatedInputs in = gated_inputs(c);
        INFO(c);
        CHECK(worst(run(in.to(DType::f32), "chunkwise"), oracle(in)) <= 1e-5);
    }
}

TEST_CASE("strong gates, forgotten states and writing strengths of 0 and 1 stay finite and right", "[gated]") {
    const Poison poison;
    std::vector<GatedCase> cases;
    for (double gate : {1.0, 20.0, 60.0, std::numeric_limits<double>::infinity()}) {
        for (const auto& [low, high] : {std::pair{0.0, 0.0}, {1.0, 1.0}, {0.0, 1.0}, {0.0, 2.0}}) {
            for (GatedCase c : each_update({.heads = 2,
                               .N = 300,
                               .dk = 24,
                               .dv = 20,
                               .gate = gate,
                               .beta_low = low,
                               .beta_high = high,
                               .seed = 9}))
                cases.push_back(c);
        }
    }
    // Keys of norm 5 and β up to 1: β|k|² reaches 25, what a gate of e^-4 or less keeps in bounds.
    for (GatedCase c : each_update(
             {.update = "gated_delta", .heads = 2, .N = 300, .dk = 24, .dv = 20, .gate = 5, .key_norm = 5, .seed = 10}))
        if (c.gated() && !c.channels) cases.push_back(c);
    for (const GatedCase& c : cases) {
        GatedInputs in = gated_inputs(c);
        if (c.key_norm == 5)
            for (Index i = 0; i < in.options.log_decay->size(); ++i)
                in.options.log_decay->set(i, static_cast<float>(in.options.log_decay->get(i) - 4));
        const LinearResult want = oracle(in);
        for (const auto& mode : modes) {
            INFO(mode << " " << c);
            CHECK(worst(run(in.to(DType::f32), mode), want) <= 1e-4);
            CHECK(worst(run(in, mode), want) <= 1e-11);
        }
    }
}

TEST_CASE("a gate of exactly 0 hides scores that overflow", "[gated]") {
    const auto values = [](std::initializer_list<double> x) {
        Tensor out(DType::f32, {static_cast<Index>(x.size()), 1});
        Index i = 0;
        for (double value : x) out.set(i++, value);
        return out;
    };
    LinearOptions o;
    o.update = "gated";
    o.log_decay = values({0, -INFINITY}).reshape({2});
    for (const auto& mode : modes) {
        INFO(mode);
        o.mode = mode;
        // Token 1 meets itself in 1e40, an Inf of Float32; token 2 must not see it.
        CHECK(linear_attention(values({1, 1e20}), values({1e20, 1}), values({1, 1}), o).O.get(1) == Approx(1e20));
    }
}

TEST_CASE("what is left behind a strong gate is in the output and in the state", "[gated]") {
    for (bool channels : {false, true}) {
        for (double g : {-36.0, -75.0, -88.0}) {
            GatedInputs in{Tensor::full(DType::f32, {3, 1}, 1),
                           Tensor::full(DType::f32, {3, 1}, 1),
                           Tensor::full(DType::f32, {3, 1}, 1),
                           {}};
            in.v.set(0, 1e33);
            in.options.update = "gated";
            in.options.log_decay = Tensor::full(DType::f32, channels ? Shape{3, 1} : Shape{3}, g);
            in.options.state = Tensor::full(DType::f32, {1, 1}, 3e38);
            const LinearResult want = oracle(in);
            for (const auto& mode : modes) {
                INFO(mode << " g=" << g << " channels=" << channels);
                const LinearResult got = run(in, mode);
                for (Index i = 0; i < 3; ++i) CHECK(got.O.get(i) == Approx(want.O.get(i)).epsilon(1e-4));
                CHECK(got.state.get(0) == Approx(want.state.get(0)).epsilon(1e-4));
            }
        }
    }
}

TEST_CASE("zeros and denormal numbers", "[gated]") {
    for (double size : {0.0, 1e-42, 1e-30}) {
        for (const GatedCase& c :
             each_update({.heads = 1, .N = 97, .dk = 9, .dv = 9, .key_norm = 0, .state = false, .seed = 11})) {
            GatedInputs in = gated_inputs(c);
            for (Index i = 0; i < in.v.size(); ++i) in.v.set(i, static_cast<float>(size * in.v.get(i)));
            for (Index i = 0; i < in.k.size(); ++i) in.k.set(i, static_cast<float>(0.3 * in.k.get(i)));
            const LinearResult want = oracle(in), got = run(in.to(DType::f32), "chunkwise");
            INFO("values of size " << size << " " << c);
            for (Index i = 0; i < want.O.size(); ++i)
                CHECK(std::abs(got.O.get(i) - want.O.get(i)) <= 1e-4 * std::abs(want.O.get(i)) + 1e-5 * size + 1e-37);
        }
    }
}

TEST_CASE("a later token cannot change an earlier output of the gated family", "[gated]") {
    for (const GatedCase& c : each_update({.heads = 2, .group = 2, .N = 150, .dk = 17, .dv = 19, .seed = 12})) {
        const GatedInputs in = gated_inputs(c).to(DType::f32);
        for (Index at : {Index{1}, Index{64}, Index{77}, Index{149}}) {
            for (double value : {1e3, std::numeric_limits<double>::infinity(), std::nan("")}) {
                GatedInputs other = in;
                const auto replaced = [&](const Tensor& A, double x) {
                    Tensor out = A.copy();
                    const Index width = A.ndim() == 4 ? A.shape()[3] : 1;
                    for (Index h = 0; h < A.shape()[0] * A.shape()[1]; ++h)
                        for (Index i = at; i < c.N; ++i)
                            for (Index e = 0; e < width; ++e) out.set((h * c.N + i) * width + e, x);
                    return out;
                };
                other.q = replaced(in.q, value), other.k = replaced(in.k, value), other.v = replaced(in.v, value);
                if (c.gated()) other.options.log_decay = replaced(*in.options.log_decay, -7);
                if (c.delta()) other.options.beta = replaced(*in.options.beta, value);
                for (const auto& mode : modes) {
                    INFO(mode << " " << c << " from token " << at << " value " << value);
                    const Tensor before = run(in, mode).O, after = run(other, mode).O;
                    CHECK(same_bits(tokens(before, 0, at), tokens(after, 0, at)));
                    CHECK_FALSE(same_bits(before, after));
                }
            }
        }
    }
}

TEST_CASE("the bits of the gated family do not depend on N and batch mates", "[gated]") {
    for (DType type : {DType::f32, DType::f64}) {
        for (const Index dv : {Index{3}, Index{8}, Index{35}}) {
            for (const GatedCase& c :
                 each_update({.batch = 2, .heads = 2, .group = 2, .N = 150, .dk = 17, .dv = dv, .seed = 31})) {
                const GatedInputs in = gated_inputs(c).to(type);
                for (const std::string mode : {"recurrent", "chunkwise"}) {
                    INFO(mode << " " << c << " " << name(type));
                    const Tensor whole = run(in, mode).O;
                    for (Index n = 1; n < c.N; n += n < 20 || n > 63 ? 1 : 7) {
                        CAPTURE(n);
                        CHECK(same_bits(run(tokens(in, 0, n), mode).O, tokens(whole, 0, n)));
                    }
                    GatedInputs alone = in;
                    const auto first = [](Tensor& A) { A = slice(A, 0, 0, 1); };
                    first(alone.q), first(alone.k), first(alone.v);
                    for (auto* A : {&alone.options.log_decay, &alone.options.beta, &alone.options.state})
                        if (*A) first(**A);
                    CHECK(same_bits(run(alone, mode).O, slice(whole, 0, 0, 1)));
                }
            }
        }
    }
}

TEST_CASE("two parts of a sequence with the state handed over equal one call, in the gated family", "[gated]") {
    for (const GatedCase& c : each_update({.batch = 2, .heads = 2, .N = 150, .dk = 17, .dv = 19, .seed = 13})) {
        const GatedInputs in = gated_inputs(c);
        for (const auto& mode : modes) {
            const LinearResult whole = run(in, mode);
            for (Index at : {0, 1, 64, 77, 150}) {
                INFO(mode << " " << c << " at " << at);
                const LinearResult first = run(tokens(in, 0, at), mode);
                GatedInputs rest = tokens(in, at, c.N);
                rest.options.state = first.state;
                const LinearResult second = run(rest, mode);
                CHECK(relative_error(concatenate({first.O, second.O}, 2), whole.O) <= 1e-13);
                CHECK(relative_error(second.state, whole.state) <= 1e-13);
            }
        }
    }
}

TEST_CASE("the number of threads changes no bit, in the gated family", "[gated]") {
    const int before = threads();
    for (Index heads : {1, 3}) {
        for (const GatedCase& c :
             each_update({.heads = heads, .group = 2, .N = 130, .dk = 20, .dv = 200, .seed = 14})) {
            const GatedInputs in = gated_inputs(c).to(DType::f32);
            INFO(c);
            set_threads(1);
            const LinearResult one = run(in, "chunkwise");
            for (int n : {2, 3, 7}) {
                set_threads(n);
                const LinearResult many = run(in, "chunkwise");
                CHECK(same_bits(one.O, many.O));
                CHECK(same_bits(one.state, many.state));
            }
        }
    }
    set_threads(before);
}

TEST_CASE("queries of a group share the state of one head of keys", "[gated]") {
    for (const GatedCase& c :
         each_update({.batch = 2, .heads = 2, .group = 3, .N = 70, .dk = 8, .dv = 6, .seed = 15})) {
        const GatedInputs in = gated_inputs(c);
        // The same with keys, values and gates repeated for every head of the queries.
        const auto repeated = [&](const Tensor& A) {
            Shape shape = A.shape();
            shape[1] *= c.group;
            Tensor out(A.dtype(), shape);
            const Index row = A.size() / (c.batch * c.heads);
            for (Index h = 0; h < c.batch * c.heads * c.group; ++h)
                for (Index i = 0; i < row; ++i) out.set(h * row + i, A.get(h / c.group * row + i));
            return out;
        };
        GatedInputs wide{in.q, repeated(in.k), repeated(in.v), in.options};
        if (c.gated()) wide.options.log_decay = repeated(*in.options.log_decay);
        if (c.delta()) wide.options.beta = repeated(*in.options.beta);
        wide.options.state = repeated(*in.options.state);
        for (const auto& mode : modes) {
            INFO(mode << " " << c);
            const LinearResult grouped = run(in, mode), each = run(wide, mode);
            CHECK(relative_error(grouped.O, each.O) <= 1e-14);
            CHECK(relative_error(repeated(grouped.state), each.state) <= 1e-14);
        }
    }
}

TEST_CASE("tensors without batch and heads, storage types and shared gates", "[gated]") {
    const GatedCase c{.update = "gated_delta", .heads = 1, .N = 40, .dk = 5, .dv = 4, .seed = 16};
    const GatedInputs in = gated_inputs(c);
    const LinearResult want = oracle(in);
    GatedInputs flat{in.q.reshape({40, 5}), in.k.reshape({40, 5}), in.v.reshape({40, 4}), in.options};
    flat.options.log_decay = in.options.log_decay->reshape({40});
    flat.options.beta = in.options.beta->reshape({40});
    flat.options.state = in.options.state->reshape({5, 4});
    const LinearResult got = run(flat, "chunkwise");
    CHECK(got.O.shape() == Shape{40, 4});
    CHECK(got.state.shape() == Shape{1, 1, 5, 4});
    CHECK(relative_error(got.O.reshape(want.O.shape()), want.O) <= 1e-13);

    for (DType type : {DType::f16, DType::bf16}) {
        const GatedInputs narrow = in.to(type);
        const LinearResult stored = run(narrow, "chunkwise"), exact = oracle(narrow.to(DType::f64));
        CHECK(stored.O.dtype() == type);
        CHECK(stored.state.dtype() == DType::f32);
        CHECK(relative_error(stored.O, exact.O) <= (type == DType::f16 ? 5e-4 : 4e-3));
        CHECK(relative_error(stored.state, exact.state) <= 1e-5);
    }

    // One head of gates for all heads of keys.
    GatedInputs many =
        gated_inputs({.update = "gated_delta", .batch = 2, .heads = 3, .N = 40, .dk = 5, .dv = 4, .seed = 17});
    const auto head = [&](const Tensor& A, Index count) {
        Tensor out(A.dtype(), {2, count, 40});
        for (Index h = 0; h < 2 * count; ++h)
            for (Index i = 0; i < 40; ++i) out.set(h * 40 + i, A.get((h / count * 3) * 40 + i));
        return out;
    };
    GatedInputs shared = many;
    shared.options.beta = head(*many.options.beta, 1);
    many.options.beta = head(*many.options.beta, 3);
    shared.options.log_decay = head(*many.options.log_decay, 1);
    many.options.log_decay = head(*many.options.log_decay, 3);
    CHECK(same_bits(run(shared, "chunkwise").O, run(many, "chunkwise").O));
}

TEST_CASE("the multiply-adds of the delta rule in chunks are those of its closed form", "[gated]") {
    const Index dk = 6, dv = 5;
    for (Index chunk : {1, 4, 8, 16}) {
        const GatedInputs in = gated_inputs({.update = "delta", .N = 16, .dk = dk, .dv = dv, .seed = 18});
        LinearOptions o = in.options;
        o.chunk = chunk;
        OperationCount count;
        linear_attention_counted(in.q, in.k, in.v, o, count);
        // n (C (dk + dv) + 3 dk dv), and β times dv numbers a token (claims F8)
        CHECK(count.multiplies == 16 * (chunk * (dk + dv) + 3 * dk * dv) + 16 * dv);
        CHECK(count.exponentials == 0);
    }
}

TEST_CASE("bad input to linear attention is refused in one sentence", "[gated][errors]") {
    const GatedInputs in =
        gated_inputs(
            {.update = "gated_delta", .batch = 1, .heads = 2, .group = 2, .N = 8, .dk = 4, .dv = 3, .seed = 19})
            .to(DType::f32);
    const auto refused = [&](auto&& change, const std::string& message) {
        GatedInputs bad = in;
        change(bad);
        try {
            linear_attention(bad.q, bad.k, bad.v, bad.options);
            FAIL("accepted, expected: " << message);
        } catch (const Error& error) {
            CHECK(std::string(error.what()) == message);
        }
    };
    const auto ones = [](std::initializer_list<Index> dims, DType type = DType::f32) {
        return Tensor::full(type, Shape(dims), 1);
    };
    refused(
        [&](auto& x) {
            x.q = ones({1, 3, 8, 4});
        },
        "q: heads 3, expected a multiple of the 2 of v, or a divisor of them");
    refused([&](auto& x) { x.k = ones({1, 2, 9, 4}); }, "k: length 9, expected 8 like q");
    refused([&](auto& x) { x.k = ones({1, 2, 8, 5}); }, "k: width 5, expected 4 like q");
    refused(
        [&](auto& x) {
            x.v = ones({1, 3, 8, 3});
        },
        "v: heads 3, expected 2 like k, or a multiple for grouped values");
    refused([&](auto& x) { x.v = ones({1, 2, 8, 3}, DType::f64); }, "v: Float64, expected Float32 like q");
    refused([&](auto& x) { x.q = ones({8}); },
            "q: a 8-element Tensor{Float32}, expected [batch, heads, length, width], [heads, length, width] or "
            "[length, width]");
    refused([&](auto& x) { x.options.update = "gated-delta"; },
            "update: \"gated-delta\", expected one of \"linear\", \"gated\", \"delta\", \"gated_delta\" (did you mean "
            "\"gated_delta\"?)");
    refused(
        [&](auto& x) { x.options.mode = "chunk"; },
        "mode: \"chunk\", expected one of \"recurrent\", \"chunkwise\", \"parallel\" (did you mean \"chunkwise\"?)");
    refused([&](auto& x) { x.options.chunk = 0; }, "chunk: 0, expected 1 or more");
    refused([&](auto& x) { x.options.scale = INFINITY; }, "scale: inf, expected a finite number");
    refused([&](auto& x) { x.options.log_decay.reset(); }, "log_decay: missing, update = \"gated_delta\" needs it");
    refused([&](auto& x) { x.options.update = "delta"; },
            "log_decay: given, but update = \"delta\" has none, expected update = \"gated_delta\"");
    refused([&](auto& x) { x.options.update = "gated"; },
            "beta: given, but update = \"gated\" has none, expected update = \"gated_delta\"");
    refused([&](auto& x) { x.options.beta.reset(); }, "beta: missing, update = \"gated_delta\" needs it");
    refused([&](auto& x) { x.options.beta = ones({1, 2, 7}); }, "beta: 1×2×7, expected 1×2×8");
    refused(
        [&](auto& x) {
            x.options.log_decay = ones({1, 2, 8, 3});
        },
        "log_decay: 1×2×8×3, expected 1×2×8, or 1×2×8×4 for a gate per key channel");
    refused(
        [&](auto& x) {
            x.options.log_decay = ones({1, 2, 8});
        },
        "log_decay: 1.0 in element 1, expected numbers <= 0 (the state is multiplied by their exponentials)");
    refused(
        [&](auto& x) {
            x.options.log_decay = Tensor::full(DType::f32, {1, 2, 8}, std::nan(""));
        },
        "log_decay: NaN in element 1, expected numbers <= 0 (the state is multiplied by their exponentials)");
    refused([&](auto& x) { x.options.state = ones({1, 2, 3, 4}); }, "state: 1×2×3×4, expected 1×2×4×3");
    refused([&](auto& x) { x.options.state = ones({1, 2, 4, 3}, DType::f64); }, "state: Float64, expected Float32");
}

TEST_CASE("sequences and widths of nothing", "[gated]") {
    for (const GatedCase& c : each_update({.heads = 2, .N = 0, .dk = 4, .dv = 3, .key_norm = 0, .seed = 20})) {
        const GatedInputs in = gated_inputs(c);
        for (const auto& mode : modes) {
            const LinearResult got = run(in, mode);
            CHECK(got.O.shape() == Shape{1, 2, 0, 3});
            CHECK(same_bits(got.state, *in.options.state));
        }
    }
    for (const auto& [dk, dv] : {std::pair<Index, Index>{0, 3}, {4, 0}, {0, 0}}) {
        for (const GatedCase& c : each_update({.heads = 2, .N = 70, .dk = dk, .dv = dv, .key_norm = 0, .seed = 21})) {
            const GatedInputs in = gated_inputs(c);
            for (const auto& mode : modes) {
                INFO(mode << " " << c);
                const LinearResult got = run(in, mode);
                CHECK(got.O.shape() == Shape{1, 2, 70, dv});
                for (Index i = 0; i < got.O.size(); ++i) CHECK(got.O.get(i) == 0);
            }
        }
    }
}
