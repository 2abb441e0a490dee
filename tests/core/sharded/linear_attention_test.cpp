// Linear attention on several workers against one.
#include "core/sharded/linear_attention.hpp"

#include <limits>

#include "core/sharded/split.hpp"
#include "tests/core/gated/problems.hpp"
#include "tests/core/sharded/close.hpp"

namespace causeway::test {
namespace {

const char* const exchanges[] = {"ring", "all-scan", "all-gather", "heads"};

Tensor like(const Tensor& a, unsigned seed) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<double> normal;
    Tensor out(a.dtype(), a.shape());
    for (Index i = 0; i < out.size(); ++i) out.set(i, normal(generator));
    return out;
}

void check_grad(const LinearGradient& got, const LinearGradient& want, double bound) {
    check_close(got.dq, want.dq, bound);
    check_close(got.dk, want.dk, bound);
    check_close(got.dv, want.dv, bound);
    check_close(got.dstate, want.dstate, bound);
    REQUIRE(got.dlog_decay.has_value() == want.dlog_decay.has_value());
    REQUIRE(got.dbeta.has_value() == want.dbeta.has_value());
    if (want.dlog_decay) check_close(*got.dlog_decay, *want.dlog_decay, bound);
    if (want.dbeta) check_close(*got.dbeta, *want.dbeta, bound);
}

TEST_CASE("linear attention on several workers is that of one", "[sharded][linear]") {
    for (const Index N : {1, 3, 64, 130, 257})
        for (const int p : {1, 2, 3, 5, 8})
            for (const GatedCase& c : each_update({.batch = 2, .heads = 2, .group = 2, .N = N, .dk = 7, .dv = 5})) {
                INFO(c << " shards=" << p);
                const GatedInputs in = gated_inputs(c);
                const LinearResult one = linear_attention(in.q, in.k, in.v, in.options);
                for (const char* exchange : exchanges) {
                    INFO(exchange);
                    const auto many = linear_attention_sharded(in.q, in.k, in.v, in.options, on(p, exchange));
                    check_close(many.O, one.O, 1e-12);
                    check_close(many.state, one.state, 1e-12);
                    CHECK(many.report.algorithm == exchange);
                    CHECK(many.report.shards == p);
                }
            }
}

TEST_CASE("the ring of states has the bits of one worker, in Float32 too", "[sharded][linear]") {
    for (const Index N : {200, 513})
        for (const int p : {2, 3, 7})
            for (const GatedCase& c : each_update({.heads = 3, .N = N, .dk = 20, .dv = 33})) {
                INFO(c << " shards=" << p);
                GatedInputs in = gated_inputs(c).to(DType::f32);
                in.options.deterministic = p == 3 ? "alone" : "prefix";
                const LinearResult one = linear_attention(in.q, in.k, in.v, in.options);
                const auto many = linear_attention_sharded(in.q, in.k, in.v, in.options, on(p));
                CHECK(many.report.algorithm == "ring");  // by itself, as either promise asks for it
                CHECK(same_bits(many.O, one.O));
                CHECK(same_bits(many.state, one.state));
                const auto by_heads = linear_attention_sharded(in.q, in.k, in.v, in.options, on(p, "heads"));
                CHECK(same_bits(by_heads.O, one.O));
                CHECK(same_bits(by_heads.state, one.state));
            }
}

TEST_CASE("gradients on several workers are those of one", "[sharded][linear]") {
    for (const Index N : {1, 65, 257})
        for (const int p : {1, 2, 3, 8})
            for (const char* mode : {"chunkwise", "recurrent"})
                for (const GatedCase& c : each_update({.batch = 2, .heads = 2, .group = 2, .N = N, .dk = 7, .dv = 5})) {
                    INFO(c << " shards=" << p << " " << mode);
                    GatedInputs in = gated_inputs(c);
                    in.options.mode = mode;
                    const LinearResult one = linear_attention(in.q, in.k, in.v, in.options);
                    const Tensor dO = like(one.O, 7), dstate = like(one.state, 8);
                    const LinearGradient g = linear_attention_grad(in.q, in.k, in.v, dO, in.options, dstate);
                    for (const char* exchange : exchanges) {
                        INFO(exchange);
                        check_grad(
                            linear_attention_grad_sharded(in.q, in.k, in.v, dO, in.options, dstate, on(p, exchange)), g,
                            1e-11);
                    }
                }
}

TEST_CASE("packed sequences go across the boundaries of workers", "[sharded][linear]") {
    const std::vector<std::vector<Index>> packings{
        {0, 10, 10, 100, 300}, {0, 300}, {0, 0, 5, 64, 128, 300, 300}, {0, 1, 2, 3, 299, 300}};
    const std::vector<std::vector<Index>> all_sizes{{300},           {150, 150},           {0, 300},     {300, 0},
                                                    {37, 0, 0, 263}, {64, 64, 0, 72, 100}, {10, 90, 200}};
    for (const auto& offsets : packings)
        for (const auto& sizes : all_sizes)
            for (const GatedCase& c : each_update({.heads = 2, .N = 300, .dk = 7, .dv = 5, .state = false})) {
                GatedInputs in = gated_inputs(c);
                in.options.cu_seqlens = offsets;
                INFO(c << " sequences=" << offsets.size() - 1 << " shards=" << sizes.size());
                const LinearResult one = linear_attention(in.q, in.k, in.v, in.options);
                in.options.state = like(one.state, 9);
                const LinearResult from = linear_attention(in.q, in.k, in.v, in.options);
                for (const char* exchange : exchanges) {
                    INFO(exchange);
                    Sharding sharding = on(0, exchange);
                    sharding.sizes = sizes;
                    const auto many = linear_attention_sharded(in.q, in.k, in.v, in.options, sharding);
                    check_close(many.O, from.O, 1e-12);
                    check_close(many.state, from.state, 1e-12);
                }
                const Tensor dO = like(from.O, 7), dstate = like(from.state, 8);
                const LinearGradient g = linear_attention_grad(in.q, in.k, in.v, dO, in.options, dstate);
                for (const char* exchange : exchanges) {
                    INFO(exchange);
                    Sharding sharding = on(0, exchange);
                    sharding.sizes = sizes;
                    check_grad(linear_attention_grad_sharded(in.q, in.k, in.v, dO, in.options, dstate, sharding), g,
                               1e-11);
                }
            }
}

TEST_CASE("grouped values, a pool of states and states in place on several workers", "[sharded][linear]") {
    std::mt19937_64 generator(3);
    const Tensor shape = Tensor(DType::f64, {2, 2, 130, 6}), wide = Tensor(DType::f64, {2, 4, 130, 6});
    const Tensor q = like(shape, 1), k = like(shape, 2), v = like(wide, 3),
                 pool = like(Tensor(DType::f64, {5, 4, 6, 6}), 4);
    LinearOptions o;
    o.state = pool.copy(), o.state_indices = {3, 1};
    const LinearResult one = linear_attention(q, k, v, o);
    LinearOptions alone;
    alone.state = pool.copy(), alone.state_indices = {3, 1}, alone.inplace = true;
    linear_attention(q, k, v, alone);
    for (const char* exchange : {"ring", "heads"}) {
        INFO(exchange);
        o.state = pool.copy(), o.inplace = false;
        const auto many = linear_attention_sharded(q, k, v, o, on(3, exchange));
        CHECK(same_bits(many.O, one.O));
        CHECK(same_bits(many.state, one.state));
        o.inplace = true;
        linear_attention_sharded(q, k, v, o, on(3, exchange));
        CHECK(same_bits(*o.state, *alone.state));
    }
}

TEST_CASE("gates of zero and poison behind its token on several workers", "[sharded][linear]") {
    for (const GatedCase& c :
         each_update({.heads = 2, .N = 200, .dk = 6, .dv = 5, .gate = std::numeric_limits<double>::infinity()})) {
        INFO(c);
        const GatedInputs in = gated_inputs(c);
        const LinearResult one = linear_attention(in.q, in.k, in.v, in.options);
        for (const char* exchange : exchanges)
            check_close(linear_attention_sharded(in.q, in.k, in.v, in.options, on(4, exchange)).O, one.O, 1e-12);
        GatedInputs poisoned = gated_inputs(c);
        const Index token = 100;
        for (Index h = 0; h < 2; ++h)
            for (Index i = 0; i < 5; ++i)
                poisoned.v.set((h * 200 + token) * 5 + i, std::numeric_limits<double>::quiet_NaN());
        for (const char* exchange : exchanges) {
            const Tensor
                clean = linear_attention_sharded(in.q, in.k, in.v, in.options, on(4, exchange)).O,
                O = linear_attention_sharded(poisoned.q, poisoned.k, poisoned.v, poisoned.options, on(4, exchange)).O;
            for (Index h = 0; h < 2; ++h)
                for (Index i = 0; i < token * 5; ++i) CHECK(O.get(h * 1000 + i) == clean.get(h * 1000 + i));
        }
    }
}

TEST_CASE("heads that forget wait for no state", "[sharded][linear]") {
    for (const char* update : {"gated", "gated_delta"})
        for (const bool channels : {false, true})
            for (const double gate : {4.0, 0.001})  // which forget within a hundred tokens, and which do not
                for (const int p : {2, 3, 8}) {
                    const GatedCase c{
                        .update = update, .heads = 2, .N = 3000, .dk = 7, .dv = 5, .channels = channels, .gate = gate};
                    INFO(c << " shards=" << p << " gate=" << gate);
                    GatedInputs in = gated_inputs(c);
                    in.options.deterministic = "run";
                    const LinearResult one = linear_attention(in.q, in.k, in.v, in.options);
                    const auto many = linear_attention_sharded(in.q, in.k, in.v, in.options, on(p));
                    check_close(many.O, one.O, 1e-12);
                    check_close(many.state, one.state, 1e-12);
                    // Two states are too few for the ring unless they are forgotten, and one message has both.
                    const bool ring = gate == 4.0 || p == 2;
                    CHECK(many.report.algorithm == (ring ? "ring" : "all-scan"));
                    if (gate == 4.0) CHECK(many.report.total().elements >= 2 * 7 * 5 * (p - 1));
                }
    // A step that makes a state longer forgets nothing: β |k|² > 2.
    GatedInputs in = gated_inputs({.update = "gated_delta", .heads = 2, .N = 600, .dk = 2, .dv = 3, .gate = 1});
    in.options.deterministic = "run";
    for (Index i = 0; i < in.k.size(); ++i) in.k.set(i, 1.2);
    for (Index i = 0; i < in.options.beta->size(); ++i) in.options.beta->set(i, 0.9);
    const LinearResult one = linear_attention(in.q, in.k, in.v, in.options);
    const auto many = linear_attention_sharded(in.q, in.k, in.v, in.options, on(3));
    check_close(many.O, one.O, 1e-12);
    CHECK(many.report.algorithm == "all-scan");
}

// Gates that forget within a part, and values which are larger by `first` up to token `until` than behind it; where
// that is no number, one value that is it.
GatedInputs large_at_first(const char* update, bool channels, double first, Index until = 512) {
    GatedInputs in = gated_inputs({.update = update,
                                   .heads = 2,
                                   .N = 1024,
                                   .dk = 7,
                                   .dv = 5,
                                   .channels = channels,
                                   .gate = channels ? 4.0 : 1.0});
    in.options.deterministic = "run";
    for (Index i = 0; i < in.v.size(); ++i)
        in.v.set(i, in.v.get(i) * (std::isfinite(first) && i / 5 % 1024 < until ? first : 1e-6));
    if (!std::isfinite(first)) in.v.set(5 * 5, first);
    return in;
}

TEST_CASE("a state that is large, or no number, is not forgotten by its gates alone", "[sharded][linear]") {
    for (const char* update : {"gated", "gated_delta"})
        for (const bool channels : {false, true})
            for (const double first : {1e12, 1e30, double{NAN}, double{INFINITY}})
                for (const auto& [p, until] : {std::pair{2, 512}, {2, 450}, {3, 512}, {4, 512}, {4, 462}}) {
                    INFO(update << " channels=" << channels << " " << first << " until " << until << " shards=" << p);
                    const GatedInputs in = large_at_first(update, channels, first, until);
                    const LinearResult one = linear_attention(in.q, in.k, in.v, in.options);
                    const auto many = linear_attention_sharded(in.q, in.k, in.v, in.options, on(p));
                    check_rows_close(many.O, one.O, 1e-10);
                    check_rows_close(many.state, one.state, 1e-10);
                    CHECK(many.report.algorithm == "ring");  // the gates alone would have forgotten it
                }
}

// One worker's gradients, and several workers' under the option that lets heads forget.
void check_grad_of_several(GatedInputs in, int p, double bound, bool by_row = false) {
    in.options.deterministic = "run";
    const LinearResult one = linear_attention(in.q, in.k, in.v, in.options);
    const Tensor dO = like(one.O, 7), dstate = like(one.state, 8);
    const LinearGradient want = linear_attention_grad(in.q, in.k, in.v, dO, in.options, dstate),
                         got = linear_attention_grad_sharded(in.q, in.k, in.v, dO, in.options, dstate, on(p));
    if (!by_row) return check_grad(got, want, bound);
    for (const auto& [x, y] : {std::pair{&got.dq, &want.dq}, {&got.dk, &want.dk}, {&got.dv, &want.dv}})
        check_rows_close(*x, *y, bound);
}

TEST_CASE("gradients of heads that forget wait for no other worker", "[sharded][linear]") {
    for (const char* update : {"gated", "gated_delta"})
        for (const bool channels : {false, true})
            for (const char* mode : {"chunkwise", "recurrent"})
                for (const double gate : {4.0, 0.001})  // which forget within a hundred tokens, and which do not
                    for (const int p : {2, 3, 8}) {
                        const GatedCase c{.update = update,
                                          .heads = 2,
                                          .group = 2,
                                          .N = 3000,
                                          .dk = 7,
                                          .dv = 5,
                                          .channels = channels,
                                          .gate = gate};
                        INFO(c << " shards=" << p << " gate=" << gate << " " << mode);
                        GatedInputs in = gated_inputs(c);
                        in.options.mode = mode;
                        check_grad_of_several(in, p, 1e-11);
                    }
}

TEST_CASE("gradients where some heads forget on some workers alone, in Float32 too", "[sharded][linear]") {
    for (const char* update : {"gated", "gated_delta"})
        for (const DType type : {DType::f64, DType::f32})
            for (const std::vector<Index>& offsets : {std::vector<Index>{}, {0, 700, 700, 1900, 2400}}) {
                INFO(update << " " << name(type) << " sequences=" << offsets.size());
                GatedInputs in = gated_inputs(
                    {.update = update, .heads = 5, .N = 2400, .dk = 7, .dv = 5, .gate = 2, .state = offsets.empty()});
                in.options.cu_seqlens = offsets;
                // Head h keeps everything in the thirds of the text whose bit is set.
                const unsigned keeps[] = {0, 7, 1, 2, 4};
                for (Index h = 0; h < 5; ++h)
                    for (Index t = 0; t < 2400; ++t)
                        if (keeps[h] >> (t / 800) & 1) in.options.log_decay->set(h * 2400 + t, 0);
                for (const int p : {3, 4}) check_grad_of_several(in.to(type), p, type == DType::f64 ? 1e-11 : 1e-4);
            }
}

TEST_CASE("gradients of a state that is large, or no number, are not forgotten by its gates alone",
          "[sharded][linear]") {
    for (const char* update : {"gated", "gated_delta"})
        for (const bool channels : {false, true})
            for (const double first : {1e12, 1e30, double{NAN}, double{INFINITY}})
                for (const int p : {2, 3, 4}) {
                    INFO(update << " channels=" << channels << " " << first << " shards=" << p);
                    check_grad_of_several(large_at_first(update, channels, first), p, 1e-8, true);
                }
}

TEST_CASE("what the exchanges of states send", "[sharded][linear]") {
    const Index heads = 4, dk = 8, dv = 6, state = dk * dv;
    for (const Index N : {512, 1024})
        for (const int p : {2, 4, 8}) {
            GatedCase c{.update = "gated_delta", .heads = heads, .N = N, .dk = dk, .dv = dv};
            GatedInputs in = gated_inputs(c);
            const auto sent = [&](const char* exchange) {
                return linear_attention_sharded(in.q, in.k, in.v, in.options, on(p, exchange)).report;
            };
            const ShardReport ring = sent("ring"), scan = sent("all-scan"), gather = sent("all-gather");
            CHECK(ring.total().elements == heads * state * (p - 1));  // whatever N is
            CHECK(ring.total().rounds == heads + p - 2);
            CHECK(scan.total().elements == heads * state * (p - 1));
            CHECK(scan.total().rounds == heads + p - 2);
            CHECK(gather.total().elements == p * (p - 1) * heads * (state + dk * dk));
            CHECK(ring.largest().peak_of(distributed::Held::state) == heads * state);
            // Of q, k, v, gates, beta and O what is of other ranks' heads; no more than `heads` ranks have any.
            const ShardReport whole = sent("heads");
            CHECK(whole.total().elements == heads * (2 * dk + 2 * dv + 2) * (N - N / p));
            CHECK(whole.largest().peak_of(distributed::Held::state) == (heads + p - 1) / p * state);
            in.options.update = "gated", in.options.beta.reset();
            CHECK(sent("all-gather").total().elements == p * (p - 1) * heads * (state + 1));
        }
}

TEST_CASE("a map that is not finite leaves a state of zeros what one worker makes of it", "[sharded][linear]") {
    GatedInputs in = gated_inputs({.update = "delta", .heads = 2, .N = 300, .dk = 7, .dv = 5, .state = false});
    in = in.to(DType::f32);
    in.options.deterministic = "run";
    for (Index h = 0; h < 2; ++h)
        for (Index i = 0; i < 7; ++i) in.k.set((h * 300 + 149) * 7 + i, 1e30);
    Tensor v = in.v.copy(), dO = like(in.v, 7);
    for (Index h = 0; h < 2; ++h)
        for (Index t = 0; t < 300; ++t)
            for (Index i = 0; i < 5; ++i) {
                if (t < 200) v.set((h * 300 + t) * 5 + i, 0);  // of the values before the key there is no state
                if (t >= 20) dO.set((h * 300 + t) * 5 + i, 0);
            }
    const auto finite = [](const Tensor& x) {
        Index n = 0;
        for (Index i = 0; i < x.size(); ++i) n += std::isfinite(x.get(i)) ? 1 : 0;
        return n;
    };
    const LinearGradient one = linear_attention_grad(in.q, in.k, v, dO, in.options);
    const Tensor O = linear_attention(in.q, in.k, v, in.options).O;
    CHECK(finite(O) == O.size());
    for (const char* exchange : {"auto", "all-scan", "all-gather"})
        for (const int p : {3, 5}) {
            INFO(exchange << " shards=" << p);
            CHECK(finite(linear_attention_sharded(in.q, in.k, v, in.options, on(p, exchange)).O) == finite(O));
            const auto many = linear_attention_grad_sharded(in.q, in.k, v, dO, in.options, {}, on(p, exchange));
            CHECK(finite(many.dk) == finite(one.dk));
            CHECK(finite(many.dv) == finite(one.dv));
            CHECK(finite(many.dstate) == finite(one.dstate));
        }
}

TEST_CASE("what the exchanges of states and of their gradients send", "[sharded][linear]") {
    const Index heads = 4, dk = 8, dv = 6, state = dk * dv;
    for (const Index N : {512, 1024})
        for (const int p : {2, 4, 8})
            for (const bool delta : {false, true}) {
                INFO("N=" << N << " shards=" << p << " delta=" << delta);
                const GatedInputs in = gated_inputs(
                    {.update = delta ? "delta" : "gated", .heads = heads, .N = N, .dk = dk, .dv = dv, .gate = 0.001});
                const Tensor dO = like(in.v, 7);
                const auto sent = [&](const char* exchange) {
                    return linear_attention_grad_sharded(in.q, in.k, in.v, dO, in.options, {}, on(p, exchange)).report;
                };
                // Twice what goes one way; what is gathered has a map beside each state.
                const Index map = delta ? dk * dk : 1;
                const ShardReport ring = sent("ring"), scan = sent("all-scan"), gather = sent("all-gather");
                CHECK(ring.total().elements == 2 * heads * state * (p - 1));
                CHECK(scan.total().elements == 2 * heads * state * (p - 1));
                CHECK(gather.total().elements == 2 * p * (p - 1) * heads * (state + map));
                CHECK(scan.algorithm == "all-scan");
                CHECK(gather.algorithm == "all-gather");
            }
}

TEST_CASE("a part begins where a chunk does", "[sharded]") {
    for (const Index N : {0, 1, 63, 64, 65, 1000, 4096})
        for (const int p : {1, 2, 3, 8, 100}) {
            const auto starts = sharded::starts_of(Sharding{}, N, p, 64);
            REQUIRE(starts.size() == static_cast<std::size_t>(p) + 1);
            CHECK(starts.front() == 0);
            CHECK(starts.back() == N);
            for (std::size_t r = 0; r < static_cast<std::size_t>(p); ++r) {
                CHECK(starts[r] <= starts[r + 1]);
                CHECK((starts[r] % 64 == 0 || starts[r] == N));
                CHECK(starts[r + 1] - starts[r] <= (N / 64 / p + 2) * 64);
            }
        }
}

TEST_CASE("what workers of a sequence refuse", "[sharded]") {
    const GatedInputs in = gated_inputs({.update = "linear", .N = 10, .dk = 3, .dv = 3});
    const auto call = [&](const Sharding& s, const LinearOptions& o) {
        return linear_attention_sharded(in.q, in.k, in.v, o, s);
    };
    Sharding s = on(2);
    LinearOptions o = in.options;
    o.checkpoint_every = 2;
    CHECK_THROWS_WITH(call(s, o), "checkpoint_every: given, but workers that share a sequence keep no states");
    s.sizes = {4, 5};
    CHECK_THROWS_WITH(call(s, in.options), "sizes: 9 tokens together, expected 10 like q");
    s.sizes = {4, 3, 3};
    CHECK_THROWS_WITH(call(s, in.options), "sizes: 3 lengths, expected one for each of the 2 shards");
    s.sizes = {-1, 11};
    CHECK_THROWS_WITH(call(s, in.options), "sizes: -1, expected lengths of 0 or more");
    s = on(2), s.sharded = true;
    CHECK_THROWS_WITH(call(s, in.options), contains_text("sharded: true, but the engine is \"threads\""));
    s = on(2000);
    CHECK_THROWS_WITH(call(s, in.options), "shards: 2000, expected from 1 to 1024");
    s = on(2), s.engine = "nccl";
    CHECK_THROWS_WITH(call(s, in.options), contains_text("engine: "));
}

}  // namespace
}  // namespace causeway::test
