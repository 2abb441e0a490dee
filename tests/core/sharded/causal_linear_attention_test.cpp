// Causal linear attention on several workers against one.
#include "core/sharded/causal_linear_attention.hpp"

#include <random>

#include "tests/core/sharded/close.hpp"

namespace causeway::test {
namespace {

Tensor drawn(const Shape& shape, unsigned seed, bool positive = false) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<double> normal;
    Tensor out(DType::f64, shape);
    for (Index i = 0; i < out.size(); ++i) {
        const double x = normal(generator);
        out.set(i, positive ? std::abs(x) + 0.1 : x);  // row sums that divide are not near 0
    }
    return out;
}

TEST_CASE("every method that carries a state on several workers", "[sharded][causal]") {
    for (const exact::Method& method : exact::methods()) {
        if (!method.state) continue;
        for (const Index N : {1, 65, 300})
            for (const int p : {1, 2, 3, 8})
                for (const bool normalize : {false, true}) {
                    INFO(method.name << " N=" << N << " shards=" << p << " normalize=" << normalize);
                    const Tensor B = drawn({2, 2, N, 6}, 1, true), C = drawn({2, 2, N, 6}, 2, true),
                                 V = drawn({2, 2, N, 3}, 3), state = drawn({2, 2, 6, normalize ? 4 : 3}, 4, true);
                    CausalOptions o;
                    o.method = method.name, o.decay = {0.9, 1.0}, o.normalize = normalize, o.scale = 0.5;
                    o.state = state, o.return_state = true;
                    const CausalResult one = causal_linear_attention(B, C, V, o);
                    for (const char* exchange : {"ring", "all-scan", "all-gather", "heads"}) {
                        INFO(exchange);
                        const auto many = causal_linear_attention_sharded(B, C, V, o, on(p, exchange));
                        check_close(many.O, one.O, 1e-12);
                        check_close(many.state, one.state, 1e-12);
                    }
                }
    }
}

TEST_CASE("where the bits of a call are asked for several workers have those of one", "[sharded][causal]") {
    const Tensor B = drawn({1, 3, 500, 16}, 1).to(DType::f32), C = drawn({1, 3, 500, 16}, 2).to(DType::f32),
                 V = drawn({1, 3, 500, 24}, 3).to(DType::f32);
    for (const char* promise : {"alone", "prefix"}) {
        CausalOptions o;
        o.deterministic = promise, o.decay = {0.95};
        const CausalResult one = causal_linear_attention(B, C, V, o);
        for (const int p : {2, 3, 5}) CHECK(same_bits(causal_linear_attention_sharded(B, C, V, o, on(p)).O, one.O));
    }
}

TEST_CASE("gradients of causal linear attention on several workers", "[sharded][causal]") {
    for (const Index N : {1, 65, 300})
        for (const int p : {1, 2, 3, 8})
            for (const bool normalize : {false, true}) {
                INFO("N=" << N << " shards=" << p << " normalize=" << normalize);
                const Tensor B = drawn({2, 2, N, 6}, 1, true), C = drawn({2, 2, N, 6}, 2, true),
                             V = drawn({2, 2, N, 3}, 3), dO = drawn({2, 2, N, 3}, 5);
                CausalOptions o;
                o.decay = {0.9, 0.99}, o.normalize = normalize;
                o.state = drawn({2, 2, 6, normalize ? 4 : 3}, 4, true);
                const CausalGradient one = causal_linear_attention_grad(B, C, V, dO, o);
                for (const char* exchange : {"ring", "all-scan", "all-gather", "heads"}) {
                    INFO(exchange);
                    const auto many = causal_linear_attention_grad_sharded(B, C, V, dO, o, on(p, exchange));
                    check_close(many.dB, one.dB, 1e-11);
                    check_close(many.dC, one.dC, 1e-11);
                    check_close(many.dV, one.dV, 1e-11);
                    check_close(*many.dstate, *one.dstate, 1e-11);
                    REQUIRE(many.ddecay.size() == 2);
                    for (std::size_t h = 0; h < 2; ++h) CHECK(many.ddecay[h] == Approx(one.ddecay[h]).epsilon(1e-10));
                }
            }
}

TEST_CASE("packed sequences of causal linear attention go across the boundaries of workers", "[sharded][causal]") {
    const std::vector<std::vector<Index>> packings{
        {0, 10, 10, 100, 300}, {0, 300}, {0, 0, 5, 64, 128, 300, 300}, {0, 1, 2, 3, 299, 300}};
    const std::vector<std::vector<Index>> all_sizes{{},       {300},           {150, 150},           {0, 300},
                                                    {300, 0}, {37, 0, 0, 263}, {64, 64, 0, 72, 100}, {10, 90, 200}};
    const Tensor B = drawn({1, 2, 300, 6}, 1, true), C = drawn({1, 2, 300, 6}, 2, true), V = drawn({1, 2, 300, 3}, 3),
                 dO = drawn({1, 2, 300, 3}, 5);
    for (const auto& offsets : packings)
        for (const auto& sizes : all_sizes)
            for (const bool normalize : {false, true}) {
                INFO(offsets.size() - 1 << " sequences, " << sizes.size() << " sizes, normalize=" << normalize);
                CausalOptions o;
                o.method = "lightning-attention-2";
                o.decay = {0.9, 0.999}, o.normalize = normalize, o.cu_seqlens = offsets;
                o.state = drawn({static_cast<Index>(offsets.size()) - 1, 2, 6, normalize ? 4 : 3}, 4, true);
                o.return_state = true;
                const CausalResult one = causal_linear_attention(B, C, V, o);
                CausalOptions back = o;
                back.return_state = false;
                const CausalGradient g = causal_linear_attention_grad(B, C, V, dO, back);
                for (const char* exchange : {"auto", "ring", "all-scan", "all-gather", "heads"}) {
                    INFO(exchange);
                    Sharding sharding = on(sizes.empty() ? 7 : 0, exchange);
                    sharding.sizes = sizes;
                    const auto many = causal_linear_attention_sharded(B, C, V, o, sharding);
                    check_close(many.O, one.O, 1e-12);
                    check_close(many.state, one.state, 1e-12);
                    const auto h = causal_linear_attention_grad_sharded(B, C, V, dO, back, sharding);
                    check_close(h.dB, g.dB, 1e-11);
                    check_close(h.dC, g.dC, 1e-11);
                    check_close(h.dV, g.dV, 1e-11);
                    check_close(*h.dstate, *g.dstate, 1e-11);
                    REQUIRE(h.ddecay.size() == 2);
                    for (std::size_t i = 0; i < 2; ++i) CHECK(h.ddecay[i] == Approx(g.ddecay[i]).epsilon(1e-10));
                }
            }
}

TEST_CASE("packed sequences on several workers write to their slots of a pool", "[sharded][causal]") {
    const Tensor B = drawn({1, 2, 90, 6}, 1), V = drawn({1, 2, 90, 3}, 3), pool = drawn({4, 2, 6, 3}, 4);
    CausalOptions o;
    o.method = "row-based", o.cu_seqlens = {0, 20, 90}, o.state_indices = {3, 1}, o.inplace = true;
    const auto written = [&](auto&& call) {
        o.state = pool.copy();
        call();
        return *o.state;
    };
    const Tensor one = written([&] { causal_linear_attention(B, B, V, o); });
    for (const char* exchange : {"ring", "heads"})
        check_close(written([&] { causal_linear_attention_sharded(B, B, V, o, on(3, exchange)); }), one, 1e-12);
    CHECK(!same_bits(one, pool));
    o.inplace = false, o.state = pool;
    const CausalGradient g = causal_linear_attention_grad(B, B, V, V, o);
    check_close(*causal_linear_attention_grad_sharded(B, B, V, V, o, on(3)).dstate, *g.dstate, 1e-11);
}

TEST_CASE("heads that forget wait for no state, and their outputs are those of one worker", "[sharded][causal]") {
    const Index N = 3000;
    const Tensor B = drawn({1, 2, N, 6}, 1, true), C = drawn({1, 2, N, 6}, 2, true), V = drawn({1, 2, N, 3}, 3);
    for (const std::vector<double>& decay : {std::vector<double>{0.5, 0.7}, {0.6, 1.0}, {0.9999, 1.0}})
        for (const bool normalize : {false, true})
            for (const int p : {2, 3, 8}) {
                INFO("decay " << decay[0] << " " << decay[1] << " shards=" << p << " normalize=" << normalize);
                CausalOptions o;
                o.method = "lightning-attention-2", o.decay = decay, o.return_state = true;
                o.normalize = normalize;
                const CausalResult one = causal_linear_attention(B, C, V, o);
                const auto many = causal_linear_attention_sharded(B, C, V, o, on(p));
                check_close(many.O, one.O, 1e-12);
                check_close(many.state, one.state, 1e-12);
                // Two states are too few for the ring unless they are forgotten.
                CHECK(many.report.algorithm == (decay[0] < 0.9 || p == 2 ? "ring" : "all-scan"));
            }
    // Packed sequences are forgotten where they are, on a few of the ranks each.
    CausalOptions o;
    o.method = "lightning-attention-2", o.decay = {0.5, 0.5}, o.cu_seqlens = {0, 1500, 3000};
    const auto many = causal_linear_attention_sharded(B, C, V, o, on(4));
    check_close(many.O, causal_linear_attention(B, C, V, o).O, 1e-12);
    CHECK(many.report.algorithm == "ring");
}

TEST_CASE("a state that is large, or no number, is not forgotten by decay alone", "[sharded][causal]") {
    const Index N = 1024;
    const Tensor B = drawn({1, 2, N, 6}, 1, true), C = drawn({1, 2, N, 6}, 2, true);
    for (const DType type : {DType::f32, DType::f64})
        for (const double first : {1e12, 1e30, double{NAN}, double{INFINITY}})
            for (const bool normalize : {false, true})
                for (const int p : {2, 3, 4}) {
                    INFO(name(type) << " " << first << " shards=" << p << " normalize=" << normalize);
                    Tensor V = drawn({1, 2, N, 3}, 3);
                    for (Index i = 0; i < V.size(); ++i)
                        V.set(i, V.get(i) * (std::isfinite(first) && i / 3 % N < N / 2 ? first : 1e-6));
                    if (!std::isfinite(first)) V.set(5 * 3, first);
                    CausalOptions o;
                    o.method = "lightning-attention-2", o.decay = {0.6, 0.9}, o.return_state = true;
                    o.normalize = normalize;
                    const CausalResult one = causal_linear_attention(B.to(type), C.to(type), V.to(type), o);
                    const auto many = causal_linear_attention_sharded(B.to(type), C.to(type), V.to(type), o, on(p));
                    check_rows_close(many.O, one.O, type == DType::f64 ? 1e-12 : 1e-4);
                    check_rows_close(many.state, one.state, type == DType::f64 ? 1e-12 : 1e-4);
                }
}

void check_grad(const CausalGradient& got, const CausalGradient& want, double bound) {
    check_rows_close(got.dB, want.dB, bound);
    check_rows_close(got.dC, want.dC, bound);
    check_rows_close(got.dV, want.dV, bound);
}

TEST_CASE("the ring of gradients has the bits of one worker, whatever the length of chunks", "[sharded][causal]") {
    const Tensor B = drawn({1, 2, 700, 6}, 1, true), C = drawn({1, 2, 700, 6}, 2, true), V = drawn({1, 2, 700, 3}, 3),
                 dO = drawn({1, 2, 700, 3}, 5);
    for (const DType type : {DType::f64, DType::f32})
        for (const Index block : {16, 64, 300})
            for (const bool normalize : {false, true})
                for (const int p : {2, 3}) {
                    INFO(name(type) << " block=" << block << " shards=" << p << " normalize=" << normalize);
                    CausalOptions o;
                    o.decay = {0.9, 0.99}, o.normalize = normalize, o.block = block, o.deterministic = "prefix";
                    const CausalGradient want =
                        causal_linear_attention_grad(B.to(type), C.to(type), V.to(type), dO.to(type), o);
                    const auto got =
                        causal_linear_attention_grad_sharded(B.to(type), C.to(type), V.to(type), dO.to(type), o, on(p));
                    CHECK(got.report.algorithm == "ring");
                    CHECK(same_bits(got.dB, want.dB));
                    CHECK(same_bits(got.dC, want.dC));
                    CHECK(same_bits(got.dV, want.dV));
                }
}

TEST_CASE("gradients of heads that forget by decay wait for no other worker", "[sharded][causal]") {
    const Index N = 3000, state = 6 * 3, heads = 2;
    const Tensor B = drawn({1, heads, N, 6}, 1), C = drawn({1, heads, N, 6}, 2), V = drawn({1, heads, N, 3}, 3),
                 dO = drawn({1, heads, N, 3}, 5);
    for (const DType type : {DType::f64, DType::f32})
        for (const std::vector<Index>& offsets : {std::vector<Index>{}, {0, 700, 700, 1900, 3000}})
            for (const std::vector<double>& decay : {std::vector<double>{0.5, 0.8}, {0.5, 1.0}, {0.9999, 1.0}})
                for (const int p : {2, 3, 8}) {
                    INFO(name(type) << " " << offsets.size() << " offsets, decay " << decay[0] << " " << decay[1]
                                    << " shards=" << p);
                    CausalOptions o;
                    o.decay = decay, o.cu_seqlens = offsets;
                    const auto count = offsets.empty() ? Index{1} : static_cast<Index>(offsets.size()) - 1;
                    o.state = drawn({count, heads, 6, 3}, 4).to(type);
                    const CausalGradient want =
                        causal_linear_attention_grad(B.to(type), C.to(type), V.to(type), dO.to(type), o);
                    const auto got =
                        causal_linear_attention_grad_sharded(B.to(type), C.to(type), V.to(type), dO.to(type), o, on(p));
                    const double bound = type == DType::f64 ? 1e-11 : 1e-4;
                    check_close(got.dB, want.dB, bound);
                    check_close(got.dC, want.dC, bound);
                    check_close(got.dV, want.dV, bound);
                    check_close(*got.dstate, *want.dstate, bound);
                    for (std::size_t h = 0; h < 2; ++h)
                        CHECK(got.ddecay[h] == Approx(want.ddecay[h]).epsilon(type == DType::f64 ? 1e-10 : 1e-3));
                    if (decay[1] < 1 && offsets.empty() && p < 8) CHECK(got.report.algorithm == "ring");
                    // Nothing went round again; of each state every rank tells every other two letters.
                    if (offsets.empty()) CHECK(got.report.total().elements == 2 * heads * (p - 1) * (state + p));
                }
}

TEST_CASE("gradients of a state that is large, or no number, are not forgotten by decay alone", "[sharded][causal]") {
    const Index N = 1024;
    const Tensor B = drawn({1, 2, N, 6}, 1, true), C = drawn({1, 2, N, 6}, 2, true), dO = drawn({1, 2, N, 3}, 5);
    for (const double first : {1e12, 1e30, double{NAN}, double{INFINITY}})
        for (const bool backwards : {false, true})  // in dO, at the end
            for (const int p : {2, 3, 4}) {
                INFO(first << " shards=" << p << " backwards=" << backwards);
                Tensor given[2] = {drawn({1, 2, N, 3}, 3), dO.copy()};
                Tensor& large = given[backwards ? 1 : 0];
                for (Index i = 0; i < large.size(); ++i)
                    large.set(i,
                              large.get(i) * (std::isfinite(first) && (i / 3 % N < N / 2) != backwards ? first : 1e-6));
                if (!std::isfinite(first)) large.set((backwards ? N - 5 : 5) * 3, first);
                CausalOptions o;
                o.decay = {0.6, 0.9};
                check_grad(causal_linear_attention_grad_sharded(B, C, given[0], given[1], o, on(p)),
                           causal_linear_attention_grad(B, C, given[0], given[1], o), 1e-8);
            }
}

TEST_CASE("what workers of causal linear attention refuse", "[sharded]") {
    const Tensor B = drawn({1, 1, 10, 3}, 1), V = drawn({1, 1, 10, 3}, 2);
    CausalOptions o;
    o.cu_seqlens = {0, 5, 9};
    CHECK_THROWS_WITH(causal_linear_attention_sharded(B, B, V, o, on(2)), contains_text("cu_seqlens: "));
    CHECK_THROWS_WITH(causal_linear_attention_grad_sharded(B, B, V, V, o, on(2)), contains_text("cu_seqlens: "));
    CHECK_THROWS_WITH(causal_linear_attention_grad_sharded(B, B, V, V, {}, on(2, "tree")),
                      contains_text("exchange: \"tree\", expected"));
    o = {}, o.method = "vanilla";
    CHECK_THROWS_WITH(causal_linear_attention_sharded(B, B, V, o, on(2)), contains_text("carries no state"));
}

}  // namespace
}  // namespace causeway::test
