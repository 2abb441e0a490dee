// The general rule S ← (diag(a) - u wᵀ) S + k vᵀ against a plain loop in Float64, and its properties.
#include <cstring>
#include <limits>

#include "core/base/parallel.hpp"
#include "tests/core/gated/general/problems.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::test;
using causeway::testing::message_of;

namespace {

// Tokens [from, to) of a tensor [b, h, N] or [b, h, N, width].
Tensor some_tokens(const Tensor& A, Index from, Index to) {
    Shape shape = A.shape();
    const Index N = shape[2], width = A.ndim() == 4 ? shape[3] : 1;
    shape[2] = to - from;
    Tensor out(A.dtype(), shape);
    for (Index h = 0; h < shape[0] * shape[1]; ++h)
        for (Index i = 0; i < (to - from) * width; ++i)
            out.set(h * (to - from) * width + i, A.get((h * N + from) * width + i));
    return out;
}

GeneralInputs some_tokens(const GeneralInputs& in, Index from, Index to) {
    GeneralInputs out{some_tokens(in.q, from, to), some_tokens(in.k, from, to), some_tokens(in.v, from, to),
                      in.options};
    for (auto* A : {&out.options.a, &out.options.u, &out.options.w})
        if (*A) *A = some_tokens(**A, from, to);
    return out;
}

}  // namespace

TEST_CASE("every mode of the general rule is the plain loop", "[general]") {
    const Poison poison;
    unsigned seed = 100;
    for (Index N : {1, 2, 17, 32, 33, 65, 97}) {
        for (const auto& [dk, dv] : {std::pair<Index, Index>{1, 1}, {5, 7}, {16, 40}, {33, 18}, {20, 3}}) {
            GeneralCase base;
            base.batch = 1 + N % 2, base.heads = 2, base.group = 1 + dk % 3, base.N = N, base.dk = dk, base.dv = dv;
            base.log_a = N % 3 == 0 ? 3 : 0.1, base.signs = N % 2 == 0;
            base.scale = N % 2 ? 0.25 : 1, base.state = N != 65, base.seed = ++seed;
            for (const GeneralCase& c : each_kind(base)) {
                const GeneralInputs in = general_inputs(c);
                const LinearResult want = plain_loop(in);
                for (const auto& mode : modes) {
                    INFO(mode << " " << c);
                    CHECK(worst(run(in, mode), want) <= 1e-12);
                    CHECK(worst(run(in.to(DType::f32), mode), want) <= 1e-5);
                }
            }
        }
    }
}

TEST_CASE("every chunk length of the general rule gives the same", "[general]") {
    const Poison poison;
    for (const GeneralCase& c : each_kind({.heads = 1, .group = 2, .N = 33, .dk = 6, .dv = 5, .seed = 7})) {
        const GeneralInputs in = general_inputs(c);
        const LinearResult want = plain_loop(in);
        for (Index chunk = 1; chunk <= 35; ++chunk) {
            INFO("chunk " << chunk << " " << c);
            CHECK(worst(run(in, "chunkwise", chunk), want) <= 1e-12);
        }
        for (const auto& mode : modes) {
            INFO("counted " << mode << " " << c);
            OperationCount count;
            GeneralOptions o = in.options;
            o.mode = mode, o.chunk = 7;
            CHECK(worst(general_linear_attention_counted(in.q, in.k, in.v, o, count), want) <= 1e-12);
        }
    }
}

TEST_CASE("operations of the general rule are those that its definitions state", "[general]") {
    const Index N = 12, dk = 5, dv = 3;
    for (const GeneralCase& c : each_kind({.N = N, .dk = dk, .dv = dv, .state = false, .seed = 3})) {
        INFO(c);
        const GeneralInputs in = general_inputs(c);
        OperationCount count;
        GeneralOptions o = in.options;
        o.mode = "recurrent";
        general_linear_attention_counted(in.q, in.k, in.v, o, count);
        const std::int64_t products = N * dk * dv * (c.erases ? 4 : 2), factors = c.gates > 0 ? N * dk * dv : 0;
        CHECK(count.multiplies == products + factors);
        CHECK(count.adds == products + (c.erases ? N * dv : 0));
    }
}

TEST_CASE("strong decays of the general rule stay finite and right", "[general]") {
    const Poison poison;
    for (double log_a : {0.0, 20.0, 60.0, 1000.0, std::numeric_limits<double>::infinity()}) {
        for (GeneralCase c : each_kind({.heads = 2, .N = 200, .dk = 24, .dv = 20, .log_a = log_a, .seed = 9})) {
            if (log_a == 0) c.strength = c.seed % 2 ? 0.5 : 0.9;
            const GeneralInputs in = general_inputs(c);
            const LinearResult want = plain_loop(in);
            for (const auto& mode : modes) {
                INFO(mode << " " << c);
                CHECK(worst(run(in, mode), want) <= 1e-12);
                CHECK(worst(run(in.to(DType::f32), mode), want) <= 1e-5);
            }
        }
    }
}

TEST_CASE("the gated delta rule is one of the general rules", "[general]") {
    for (bool channels : {false, true}) {
        const GatedInputs in =
            gated_inputs({.heads = 2, .group = 2, .N = 70, .dk = 9, .dv = 8, .channels = channels, .seed = 21});
        const Index rows = 2 * 70, dk = 9;
        GeneralInputs general{in.q, in.k.copy(), in.v, {}};
        Tensor a(DType::f64, in.k.shape()), w(DType::f64, in.k.shape());
        for (Index i = 0; i < rows; ++i)
            for (Index e = 0; e < dk; ++e) {
                const double k = in.k.get(i * dk + e), beta = in.options.beta->get(i);
                a.set(i * dk + e, std::exp(in.options.log_decay->get(channels ? i * dk + e : i)));
                w.set(i * dk + e, a.get(i * dk + e) * k);
                general.k.set(i * dk + e, beta * k);
            }
        general.options.a = a, general.options.w = w, general.options.u = general.k;
        general.options.state = in.options.state;
        CHECK(worst(run(general, "chunkwise"), oracle(in)) <= 1e-12);
    }
}

TEST_CASE("heads of the general rule are shared", "[general]") {
    const Poison poison;
    for (Index shared : {1, 2, 4}) {
        for (const GeneralCase& c : each_kind({.batch = 2,
                                    .heads = 4,
                                    .group = 3,
                                    .N = 40,
                                    .dk = 7,
                                    .dv = 9,
                                    .shared_keys = shared,
                                    .shared_factors = 4 / shared,
                                    .seed = 31})) {
            const GeneralInputs in = general_inputs(c);
            const LinearResult want = plain_loop(in);
            for (const auto& mode : modes) {
                INFO(mode << " " << c);
                CHECK(worst(run(in, mode), want) <= 1e-12);
            }
        }
    }
}

TEST_CASE("a later token cannot change an earlier output of the general rule", "[general]") {
    for (const GeneralCase& c : each_kind({.heads = 2, .group = 2, .N = 100, .dk = 17, .dv = 19, .seed = 12})) {
        const GeneralInputs in = general_inputs(c).to(DType::f32);
        for (Index at : {Index{1}, Index{32}, Index{45}, Index{99}}) {
            for (double value : {1e3, std::numeric_limits<double>::infinity(), std::nan("")}) {
                GeneralInputs other{in.q.copy(), in.k.copy(), in.v.copy(), in.options};
                const auto spoil = [&](Tensor& A) {
                    const Index width = A.ndim() == 4 ? A.shape()[3] : 1;
                    for (Index h = 0; h < A.shape()[0] * A.shape()[1]; ++h)
                        for (Index i = at * width; i < c.N * width; ++i) A.set(h * c.N * width + i, value);
                };
                spoil(other.q), spoil(other.k), spoil(other.v);
                for (auto* A : {&other.options.a, &other.options.u, &other.options.w})
                    if (*A) *A = (*A)->copy(), spoil(**A);
                for (const auto& mode : modes) {
                    INFO(mode << " token " << at << " becomes " << value << " " << c);
                    const Tensor before = run(in, mode).O, after = run(other, mode).O;
                    CHECK(same_bits(some_tokens(before, 0, at), some_tokens(after, 0, at)));
                }
            }
        }
    }
}

TEST_CASE("the bits of the general rule do not depend on N, batch mates, threads and packing", "[general]") {
    for (const GeneralCase& c : each_kind({.batch = 1, .heads = 2, .N = 150, .dk = 18, .dv = 35, .seed = 13})) {
        INFO(c);
        GeneralInputs in = general_inputs(c).to(DType::f32);
        const LinearResult whole = run(in, "chunkwise");
        for (Index n = 64; n <= 97; ++n) {  // last chunks of every length
            CAPTURE(n);
            CHECK(same_bits(run(some_tokens(in, 0, n), "chunkwise").O, some_tokens(whole.O, 0, n)));
        }
        const int before = threads();
        for (int n : {1, 3, 8}) {
            set_threads(n);
            CHECK(same_bits(run(in, "chunkwise").O, whole.O));
        }
        set_threads(before);
        in.options.state.reset();
        GeneralInputs packed = in;
        const std::vector<Index> offsets{0, 40, 40, 41, 150};
        packed.options.cu_seqlens = offsets;
        for (const auto& mode : modes) {
            const LinearResult together = run(packed, mode);
            REQUIRE(together.state.shape() == Shape({4, 2, 18, 35}));
            for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
                INFO(mode << " sequence " << i);
                const LinearResult alone = run(some_tokens(in, offsets[i], offsets[i + 1]), mode);
                CHECK(same_bits(alone.O, some_tokens(together.O, offsets[i], offsets[i + 1])));
                CHECK(std::memcmp(alone.state.raw(), together.state.raw() + i * alone.state.bytes(),
                                  alone.state.bytes()) == 0);
            }
        }
    }
}

TEST_CASE("a call of the general rule goes on from a state", "[general]") {
    for (const GeneralCase& c : each_kind({.heads = 2, .N = 90, .dk = 12, .dv = 10, .seed = 14})) {
        const GeneralInputs in = general_inputs(c);
        const LinearResult want = run(in, "recurrent");
        for (const auto& mode : modes) {
            INFO(mode << " " << c);
            const LinearResult first = run(some_tokens(in, 0, 41), mode);
            GeneralInputs rest = some_tokens(in, 41, 90);
            rest.options.state = first.state;
            const LinearResult second = run(rest, mode);
            CHECK(relative_error(second.state, want.state) <= 1e-12);
            CHECK(relative_error(second.O, some_tokens(want.O, 41, 90)) <= 1e-12);
        }
    }
}

TEST_CASE("steps of the general rule are the plain loop", "[general]") {
    const Poison poison;
    unsigned seed = 50;
    for (Index dk : {1, 7, 64}) {
        for (Index dv : {1, 3, 32, 35, 70}) {
            GeneralCase base;
            base.batch = 2, base.heads = 2, base.group = 1 + dv % 3, base.N = 9, base.dk = dk, base.dv = dv;
            base.scale = 0.5, base.seed = ++seed;
            for (const GeneralCase& c : each_kind(base)) {
                const GeneralInputs in = general_inputs(c);
                const LinearResult want = plain_loop(in);
                for (DType type : {DType::f64, DType::f32, DType::bf16}) {
                    INFO(name(type) << " " << c);
                    GeneralInputs given = in.to(type);
                    // The inputs that the type has rounded are those of the loop, too.
                    const LinearResult expected = type == DType::bf16 ? plain_loop(given.to(DType::f64)) : want;
                    const DType compute = type == DType::f64 ? DType::f64 : DType::f32;
                    Tensor state = given.options.state->to(compute).copy();
                    given.options.state.reset();
                    double error = 0;
                    for (Index from : {0, 1, 6}) {  // 1, 5 and 3 tokens
                        const Index to = from == 0 ? 1 : from == 1 ? 6 : 9;
                        const GeneralInputs some = some_tokens(given, from, to);
                        Tensor O(type, some_tokens(expected.O, from, to).shape());
                        general_linear_attention_step(some.q, some.k, some.v, state, O, some.options);
                        error = std::max(error, relative_error(O.to(DType::f64), some_tokens(expected.O, from, to)));
                    }
                    CHECK(error <= (type == DType::f64 ? 1e-13 : type == DType::f32 ? 1e-5 : 1e-2));
                    CHECK(relative_error(state, expected.state) <= (type == DType::f64 ? 1e-13 : 1e-5));
                }
            }
        }
    }
}

TEST_CASE("bad input to the general rule is refused in one sentence", "[general][errors]") {
    const GeneralInputs in =
        general_inputs({.batch = 1, .heads = 2, .group = 1, .N = 8, .dk = 4, .dv = 3, .seed = 19}).to(DType::f32);
    const auto ones = [](std::initializer_list<Index> dims, DType type = DType::f32) {
        return Tensor::full(type, Shape(dims), 1);
    };
    const auto refused = [&](auto&& change, const std::string& message) {
        GeneralInputs bad = in;
        change(bad);
        CHECK_THROWS_WITH(general_linear_attention(bad.q, bad.k, bad.v, bad.options), message);
    };
    refused([&](auto& x) { x.options.u.reset(); }, "u: missing, but w is given, expected both or none");
    refused([&](auto& x) { x.options.w.reset(); }, "w: missing, but u is given, expected both or none");
    refused(
        [&](auto& x) {
            x.options.a = ones({1, 2, 7});
        },
        "a: 1×2×7, expected 1×2×8×4 or 1×2×8, or fewer heads that are shared");
    refused(
        [&](auto& x) {
            x.options.u = ones({1, 2, 8});
        },
        "u: 1×2×8, expected 1×2×8×4, or fewer heads that are shared");
    refused(
        [&](auto& x) {
            x.options.w = ones({1, 3, 8, 4});
        },
        "w: 1×3×8×4, expected 1×2×8×4, or fewer heads that are shared");
    refused([&](auto& x) { x.options.chunk = 0; }, "chunk: 0, expected 1 or more");
    refused([&](auto& x) { x.k = ones({1, 2, 9, 4}); }, "k: length 9, expected 8 like q");
    refused([&](auto& x) { x.options.state = ones({1, 2, 3, 4}); }, "state: 1×2×3×4, expected 1×2×4×3");
    Tensor state = ones({1, 2, 4, 3}), O = ones({1, 2, 8, 3});
    GeneralOptions o = in.options;
    o.state.reset();
    CHECK_THROWS_WITH(general_linear_attention_step(in.q, in.k, in.v, state, state, o), "O: 1×2×4×3, expected 1×2×8×3");
    CHECK_THROWS_WITH(general_linear_attention_step(in.q, in.k, in.v, state, O, in.options),
                      "state: given among the options too, expected it as the argument alone");
    o.u = O;
    CHECK_THROWS_WITH(general_linear_attention_step(in.q, in.k, in.v, state, O, o),
                      "u: 1×2×8×3, expected 1×2×8×4, or fewer heads that are shared");
    o.u.reset(), o.w.reset();
    Tensor wrong = ones({1, 2, 4, 3}, DType::f64);
    CHECK_THROWS_AS(general_linear_attention_step(in.q, in.k, in.v, wrong, O, o), Error);
}

TEST_CASE("empty sequences of the general rule keep the state", "[general]") {
    for (const GeneralCase& c : each_kind({.heads = 2, .N = 0, .dk = 3, .dv = 4, .seed = 15})) {
        const GeneralInputs in = general_inputs(c);
        for (const auto& mode : modes) {
            INFO(mode << " " << c);
            const LinearResult r = run(in, mode);
            CHECK(r.O.shape() == Shape({1, 2, 0, 4}));
            CHECK(relative_error(r.state, *in.options.state) == 0);
        }
    }
}

TEST_CASE("a call of the general rule that goes on from a checkpoint has the bits of the uninterrupted one",
          "[general]") {
    const Poison poison;
    GeneralCase base;
    base.heads = 2, base.group = 2, base.N = 131, base.dk = 12, base.dv = 21, base.seed = 900;
    for (const GeneralCase& c : each_kind(base)) {
        for (const Index every : {1, 7, 24, 64, 131, 500}) {
            for (const auto& mode : modes) {
                INFO(mode << " every " << every << " " << c);
                GeneralInputs in = general_inputs(c).to(DType::f32);
                in.options.mode = mode;
                in.options.checkpoint_every = every;
                const LinearResult all = general_linear_attention(in.q, in.k, in.v, in.options);
                REQUIRE(all.checkpoints->shape()[0] == c.N / every);
                for (Index t = every, place = 0; t <= c.N; t += every, ++place) {
                    GeneralInputs rest = some_tokens(in, t, c.N);
                    rest.options.state = slice(*all.checkpoints, 0, place, place + 1);
                    const LinearResult went_on = general_linear_attention(rest.q, rest.k, rest.v, rest.options);
                    CHECK(same_bits(went_on.O, slice(all.O, 2, t, c.N)));
                    CHECK(same_bits(went_on.state, all.state));
                }
                in.options.checkpoint_every = 0;
                CHECK(worst(general_linear_attention(in.q, in.k, in.v, in.options), plain_loop(general_inputs(c))) <=
                      1e-5);
            }
        }
    }
}

TEST_CASE("a call of the general rule on slots of a pool has the bits of one on their states", "[general]") {
    const Poison poison;
    GeneralCase base;
    base.batch = 2, base.heads = 2, base.N = 50, base.dk = 9, base.dv = 18, base.seed = 950;
    const std::vector<Index> slots{3, 1};
    for (const GeneralCase& c : each_kind(base)) {
        for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
            INFO(c << " " << name(type));
            GeneralInputs in = general_inputs(c).to(type == DType::f64 ? type : DType::f32);
            in.options.state = in.options.state->to(type);
            const LinearResult want = general_linear_attention(in.q, in.k, in.v, in.options);
            const Index elements = c.heads * c.dk * c.dv;
            const Tensor pool = Tensor::full(type, {5, c.heads, c.dk, c.dv}, std::nan(""));
            Tensor written = pool;
            for (std::size_t i = 0; i < slots.size(); ++i)
                for (Index e = 0; e < elements; ++e)
                    written.set(slots[i] * elements + e, in.options.state->get(static_cast<Index>(i) * elements + e));
            const Tensor before = pool.copy();
            GeneralInputs pooled = in;
            pooled.options.state = pool;
            pooled.options.state_indices = slots;
            const LinearResult got = general_linear_attention(in.q, in.k, in.v, pooled.options);
            CHECK(same_bits(got.O, want.O));
            CHECK(same_bits(got.state, want.state));
            CHECK(std::memcmp(pool.raw(), before.raw(), pool.bytes()) == 0);
            pooled.options.inplace = true;
            CHECK(general_linear_attention(in.q, in.k, in.v, pooled.options).state.raw() == pool.raw());
            const Tensor rounded = want.state.to(type);
            for (Index slot = 0; slot < 5; ++slot) {
                const auto place = std::find(slots.begin(), slots.end(), slot);
                for (Index e = 0; e < elements; ++e) {
                    const double now = pool.get(slot * elements + e);
                    if (place == slots.end()) REQUIRE(std::isnan(now));
                    else REQUIRE(now == rounded.get((place - slots.begin()) * elements + e));
                }
            }
        }
    }
}

TEST_CASE("the general rule: what is wrong with its states is told in a sentence", "[general]") {
    GeneralCase c;
    c.heads = 2, c.N = 20, c.dk = 4, c.dv = 3;
    const GeneralInputs in = general_inputs(c);
    const auto said = [&](auto&& change) {
        GeneralOptions o = in.options;
        change(o);
        return message_of([&] { general_linear_attention(in.q, in.k, in.v, o); });
    };
    CHECK(said([](GeneralOptions& o) { o.state_indices = {7}; }).find("state_indices: ") == 0);
    CHECK(said([](GeneralOptions& o) { o.state_indices = {0}, o.state.reset(); }) ==
          "state_indices: given, but no state, expected the pool of their slots as it");
    CHECK(said([](GeneralOptions& o) { o.inplace = true, o.state.reset(); }) ==
          "inplace: true, but no state is given, expected one to write to");
    CHECK(said([](GeneralOptions& o) { o.checkpoint_every = -1; }) ==
          "checkpoint_every: -1, expected 1 or more, or 0 for none");
    CHECK(said([](GeneralOptions& o) { o.deterministic = "never"; }).find("deterministic: \"never\"") == 0);
    GeneralOptions pooled = in.options;
    pooled.state_indices = {1};
    Tensor state = *in.options.state, O(DType::f64, {1, 2, 1, 3});
    pooled.state.reset(), pooled.a.reset(), pooled.u.reset(), pooled.w.reset();
    const auto said_by_step = [&] {
        return message_of([&] {
            general_linear_attention_step(some_tokens(in.q, 0, 1), some_tokens(in.k, 0, 1), some_tokens(in.v, 0, 1),
                                          state, O, pooled);
        });
    };
    CHECK(said_by_step() == "state_indices: a slot outside the pool in place 1, expected one of its 1");
    pooled.state_indices.clear(), pooled.checkpoint_every = 1;
    CHECK(said_by_step() == "checkpoint_every: given, but a step can keep the states after all of its tokens");
}

TEST_CASE("a step of the general rule on slots of a pool, with the states after each token", "[general]") {
    const Poison poison;
    GeneralCase base;
    base.batch = 2, base.heads = 3, base.group = 2, base.N = 5, base.dk = 9, base.dv = 18, base.seed = 970;
    const std::vector<Index> slots{3, 1};
    const Index elements = base.heads * base.dk * base.dv;
    for (const GeneralCase& c : each_kind(base)) {
        for (const DType type : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
            INFO(c << " " << name(type));
            GeneralInputs in = general_inputs(c).to(type == DType::f64 ? type : DType::f32);
            const Tensor given = in.options.state->to(type);
            in.options.state.reset();
            // Token by token, from states of the type of computation.
            Tensor state = given.to(type == DType::f64 ? DType::f64 : DType::f32).copy();
            std::vector<Tensor> want;
            std::vector<Tensor> one_output;
            for (Index t = 0; t < c.N; ++t) {
                const GeneralInputs one = some_tokens(in, t, t + 1);
                Tensor O(in.q.dtype(), {2, 6, 1, c.dv});
                general_linear_attention_step(one.q, one.k, one.v, state, O, one.options);
                want.push_back(state.copy()), one_output.push_back(O);
            }
            Tensor pool = Tensor::full(type, {5, c.heads, c.dk, c.dv}, std::nan(""));
            for (std::size_t i = 0; i < slots.size(); ++i)
                for (Index e = 0; e < elements; ++e)
                    pool.set(slots[i] * elements + e, given.get(static_cast<Index>(i) * elements + e));
            in.options.state_indices = slots;
            Tensor O(in.q.dtype(), {2, 6, c.N, c.dv});
            std::vector<Tensor> kept;
            general_linear_attention_step(in.q, in.k, in.v, pool, O, in.options, &kept);
            REQUIRE(kept.size() == want.size());
            for (std::size_t t = 0; t < kept.size(); ++t) {
                const auto at = static_cast<Index>(t);
                CHECK(same_bits(kept[t], want[t]));
                CHECK(same_bits(slice(O, 2, at, at + 1), one_output[t]));
            }
            const Tensor last = state.to(type);
            for (Index slot = 0; slot < 5; ++slot) {
                const auto place = std::find(slots.begin(), slots.end(), slot);
                for (Index e = 0; e < elements; ++e) {
                    const double now = pool.get(slot * elements + e);
                    if (place == slots.end()) REQUIRE(std::isnan(now));
                    else REQUIRE(now == last.get((place - slots.begin()) * elements + e));
                }
            }
        }
    }
}
