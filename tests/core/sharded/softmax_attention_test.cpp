// Softmax attention on several workers against one.
#include "core/sharded/softmax_attention.hpp"

#include <limits>
#include <random>

#include "core/sharded/split.hpp"
#include "tests/core/sharded/close.hpp"

namespace causeway::test {
namespace {

Tensor drawn(const Shape& shape, unsigned seed, double spread = 1) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<double> normal;
    Tensor out(DType::f64, shape);
    for (Index i = 0; i < out.size(); ++i) out.set(i, spread * normal(generator));
    return out;
}

TEST_CASE("softmax attention and its gradient on several workers", "[sharded][softmax]") {
    for (const Index N : {1, 7, 64, 200})
        for (const int p : {1, 2, 3, 5, 8})
            for (const bool causal : {true, false})
                for (const double spread : {1.0, 30.0}) {  // and weights that underflow beside a large one
                    INFO("N=" << N << " shards=" << p << " causal=" << causal << " spread=" << spread);
                    const Tensor q = drawn({2, 4, N, 6}, 1, spread), k = drawn({2, 2, N, 6}, 2),
                                 v = drawn({2, 2, N, 5}, 3), dO = drawn({2, 4, N, 5}, 4);
                    SoftmaxOptions o;
                    o.causal = causal;
                    const SoftmaxResult one = softmax_attention(q, k, v, o);
                    const SoftmaxGradient g = softmax_attention_grad(q, k, v, dO, o);
                    for (const char* exchange : {"ring", "heads"}) {
                        INFO(exchange);
                        const auto many = softmax_attention_sharded(q, k, v, o, on(p, exchange));
                        check_close(many.O, one.O, 1e-13);
                        check_close(many.lse, one.lse, 1e-13);
                        for (const bool given : {false, true}) {
                            const auto h = softmax_attention_grad_sharded(
                                q, k, v, dO, o, given ? std::optional<SoftmaxResult>(one) : std::nullopt,
                                on(p, exchange));
                            check_close(h.dq, g.dq, 1e-12);
                            check_close(h.dk, g.dk, 1e-12);
                            check_close(h.dv, g.dv, 1e-12);
                        }
                    }
                }
}

TEST_CASE("what a ring of softmax attention sends, and a ring of gradients twice that", "[sharded][softmax]") {
    const Index heads = 2, N = 120, d = 6, dv = 5;
    const Tensor q = drawn({1, heads, N, d}, 1), v = drawn({1, heads, N, dv}, 2);
    for (const int p : {1, 2, 3, 5}) {
        INFO("shards=" << p);
        SoftmaxOptions o;
        o.causal = true;
        const auto forward = softmax_attention_sharded(q, q, v, o, on(p, "ring")).report.total();
        const auto backward =
            softmax_attention_grad_sharded(q, q, v, v, o, softmax_attention(q, q, v, o), on(p, "ring")).report.total();
        CHECK(forward.elements == heads * N * (d + dv) * (p - 1));
        CHECK(backward.elements == 2 * forward.elements);
        CHECK(forward.messages == Index{p} * (p - 1));
        CHECK(backward.messages == 2 * forward.messages);
    }
}

TEST_CASE("softmax attention on parts of other lengths and of other keys", "[sharded][softmax]") {
    const Tensor q = drawn({1, 2, 50, 6}, 1), k = drawn({1, 2, 50, 6}, 2), v = drawn({1, 2, 50, 5}, 3);
    SoftmaxOptions o;
    const Tensor one = softmax_attention(q, k, v, o).O;
    for (const std::vector<Index>& sizes : std::vector<std::vector<Index>>{{50}, {0, 50}, {13, 0, 37}, {1, 48, 1}}) {
        Sharding s;
        s.sizes = sizes;
        check_close(softmax_attention_sharded(q, k, v, o, s).O, one, 1e-13);
        s.exchange = "heads";
        check_close(softmax_attention_sharded(q, k, v, o, s).O, one, 1e-13);
    }
    o.causal = false;
    const Tensor few = drawn({1, 2, 7, 6}, 4);
    for (const char* exchange : {"ring", "heads"})
        check_close(softmax_attention_sharded(few, k, v, o, on(3, exchange)).O, softmax_attention(few, k, v, o).O,
                    1e-13);
    o.causal = true;
    CHECK_THROWS_WITH(softmax_attention_sharded(few, k, v, o, on(3)), contains_text("q: length 7, expected 50 like k"));
    o.cu_seqlens = {0, 20, 49};
    CHECK_THROWS_WITH(softmax_attention_sharded(q, k, v, o, on(3)), contains_text("cu_seqlens: "));
}

TEST_CASE("packed sequences of softmax attention on several workers", "[sharded][softmax]") {
    const std::vector<std::vector<Index>> packings{
        {0, 10, 10, 60, 100}, {0, 100}, {0, 0, 5, 33, 64, 100, 100}, {0, 1, 2, 3, 99, 100}};
    const Tensor q = drawn({1, 4, 100, 6}, 1), k = drawn({1, 2, 100, 6}, 2), v = drawn({1, 2, 100, 5}, 3),
                 dO = drawn({1, 4, 100, 5}, 4);
    for (const auto& offsets : packings)
        for (const bool causal : {true, false})
            for (const std::vector<Index>& sizes :
                 std::vector<std::vector<Index>>{{}, {100}, {50, 50}, {0, 100}, {37, 0, 0, 63}, {10, 20, 0, 70}})
                for (const int p : {1, 2, 3, 8}) {
                    if (!sizes.empty() && p > 1) continue;
                    INFO(offsets.size() - 1 << " sequences, " << sizes.size() << " sizes, shards=" << p
                                            << " causal=" << causal);
                    SoftmaxOptions o;
                    o.causal = causal, o.cu_seqlens = offsets;
                    const SoftmaxResult one = softmax_attention(q, k, v, o);
                    const SoftmaxGradient g = softmax_attention_grad(q, k, v, dO, o);
                    for (const char* exchange : {"ring", "heads"}) {
                        INFO(exchange);
                        Sharding sharding = on(sizes.empty() ? p : 0, exchange);
                        sharding.sizes = sizes;
                        const auto many = softmax_attention_sharded(q, k, v, o, sharding);
                        check_close(many.O, one.O, 1e-13);
                        check_close(many.lse, one.lse, 1e-13);
                        const auto h = softmax_attention_grad_sharded(q, k, v, dO, o, std::nullopt, sharding);
                        check_close(h.dq, g.dq, 1e-12);
                        check_close(h.dk, g.dk, 1e-12);
                        check_close(h.dv, g.dv, 1e-12);
                    }
                }
}

TEST_CASE("scores that are infinite or no numbers on several workers", "[sharded][softmax]") {
    const double infinity = std::numeric_limits<double>::infinity();
    for (const double bad : {-infinity, std::numeric_limits<double>::quiet_NaN()}) {
        INFO(bad);
        Tensor q = drawn({1, 1, 40, 2}, 1), k = drawn({1, 1, 40, 2}, 2);
        const Tensor v = drawn({1, 1, 40, 3}, 3);
        for (Index i = 0; i < q.size(); ++i) q.set(i, std::abs(q.get(i)) + 0.5);
        for (Index t = 0; t < 40; t += 3) k.set(2 * t, bad);
        for (const bool causal : {true, false}) {
            SoftmaxOptions o;
            o.causal = causal;
            check_close(softmax_attention_sharded(q, k, v, o, on(3)).O, softmax_attention(q, k, v, o).O, 1e-13);
        }
    }
}

TEST_CASE("which exchange softmax attention on several workers has of itself", "[sharded][softmax]") {
    const Tensor q = drawn({1, 8, 20, 4}, 1), k = drawn({1, 4, 20, 4}, 2), v = drawn({1, 4, 20, 4}, 3),
                 dO = drawn({1, 8, 20, 4}, 4);
    const auto chosen = [&](bool causal, int p, const std::vector<Index>& sizes = {}) {
        SoftmaxOptions o;
        o.causal = causal;
        Sharding sharding = on(sizes.empty() ? p : 0, "auto");
        sharding.sizes = sizes;
        const std::string forward = softmax_attention_sharded(q, k, v, o, sharding).report.algorithm,
                          back = softmax_attention_grad_sharded(q, k, v, dO, o, {}, sharding).report.algorithm;
        CHECK(forward == back);
        return forward;
    };
    CHECK(chosen(true, 2) == "heads");
    CHECK(chosen(true, 4) == "heads");
    CHECK(chosen(true, 3) == "ring");  // of four heads of keys
    CHECK(chosen(false, 2) == "ring");
    CHECK(chosen(true, 2, {15, 5}) == "ring");
}

TEST_CASE("with causal all workers have the same pairs", "[sharded][softmax]") {
    for (const int p : {1, 2, 4, 8}) {
        const Index N = 64 * p;
        std::vector<Index> pairs;
        for (const auto& pieces : sharded::zigzag(N, p)) {
            Index sum = 0;
            for (const kit::Span& t : pieces)
                for (Index i = t.first; i < t.first + t.n; ++i) sum += i + 1;
            pairs.push_back(sum);
        }
        for (const Index sum : pairs) CHECK(sum == N * (N + 1) / 2 / p);
    }
}

}  // namespace
}  // namespace causeway::test
