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

Sharding on(int shards, const std::string& exchange = "auto") {
    Sharding out;
    out.shards = shards, out.exchange = exchange;
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

TEST_CASE("with the promise of prefixes several workers have the bits of one", "[sharded][causal]") {
    const Tensor B = drawn({1, 3, 500, 16}, 1).to(DType::f32), C = drawn({1, 3, 500, 16}, 2).to(DType::f32),
                 V = drawn({1, 3, 500, 24}, 3).to(DType::f32);
    CausalOptions o;
    o.deterministic = "prefix", o.decay = {0.95};
    const CausalResult one = causal_linear_attention(B, C, V, o);
    for (const int p : {2, 3, 5}) CHECK(same_bits(causal_linear_attention_sharded(B, C, V, o, on(p)).O, one.O));
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
                for (const char* exchange : {"ring", "heads"}) {
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

TEST_CASE("what workers of causal linear attention refuse", "[sharded]") {
    const Tensor B = drawn({1, 1, 10, 3}, 1), V = drawn({1, 1, 10, 3}, 2);
    CausalOptions o;
    o.cu_seqlens = {0, 5, 10};
    CHECK_THROWS_WITH(causal_linear_attention_sharded(B, B, V, o, on(2)),
                      contains_text("cu_seqlens: given with shards"));
    o = {}, o.method = "vanilla";
    CHECK_THROWS_WITH(causal_linear_attention_sharded(B, B, V, o, on(2)), contains_text("carries no state"));
    CHECK_THROWS_WITH(causal_linear_attention_grad_sharded(B, B, V, V, {}, on(2, "all-scan")),
                      contains_text("exchange: \"all-scan\", expected"));
}

}  // namespace
}  // namespace causeway::test
