// Softmax attention against safe softmax by plain loops, and its properties.
#include <cstring>
#include <limits>

#include "core/base/parallel.hpp"
#include "core/softmax/flash.hpp"
#include "core/tensor/rearrange.hpp"
#include "tests/core/softmax/problems.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

const std::vector<std::string> methods{"flash", "standard"};

// Tokens [from, to) of a tensor [b, h, N, width].
Tensor tokens(const Tensor& A, Index from, Index to) {
    Box box;
    for (int i = 0; i < 4; ++i) box.count[static_cast<std::size_t>(i)] = A.shape()[i];
    box.first[2] = from;
    box.count[2] = to - from;
    return part(A, box);
}

void check_case(const SoftmaxCase& c, bool standard = true) {
    const SoftmaxInputs in = softmax_inputs(c);
    const SoftmaxOracle oracle(c, in);
    for (const auto& method : methods) {
        if (method == "standard" && !standard) continue;
        INFO(method << " " << c);
        CHECK(oracle.mismatch(in.run(method)) == "");
        CHECK(oracle.mismatch(in.to(DType::f32).run(method)) == "");
    }
}

}  // namespace

TEST_CASE("softmax attention agrees with safe softmax", "[softmax]") {
    const Poison poison;
    unsigned seed = 10;
    for (Index N : {1, 2, 17, 63, 64, 65, 97}) {
        for (const auto& [d, dv] : {std::pair<Index, Index>{1, 1}, {5, 7}, {16, 64}, {33, 130}, {64, 17}}) {
            for (Index more : {Index(0), Index(1), 2 * N + 3}) {
                for (bool causal : {true, false}) {
                    if (!causal && more == 1) continue;
                    check_case({.batch = 1 + N % 2,
                                .heads = 1 + d % 2,
                                .group = 1 + dv % 3,
                                .N = N,
                                .M = N + more,
                                .d = d,
                                .dv = dv,
                                .causal = causal,
                                .seed = ++seed},
                               more < 2);
                }
            }
        }
    }
    check_case({.N = 65, .M = 20, .d = 8, .dv = 8, .causal = false, .seed = 1});
    check_case({.heads = 2, .N = 1000, .M = 1000, .d = 8, .dv = 5, .seed = 2});
    check_case({.N = 200, .M = 1000, .d = 24, .dv = 16, .causal = false, .seed = 3});
    check_case({.group = 3, .N = 150, .M = 170, .d = 8, .dv = 16, .seed = 4});  // blocks of rows that cross heads
}

TEST_CASE("few queries on many keys, whose parts are merged", "[softmax]") {
    const Poison poison;
    for (Index N : {1, 2, 3, 4, 7})
        for (Index group : {1, 3})
            for (bool causal : {true, false})
                check_case({.batch = 1,
                            .heads = 2,
                            .group = group,
                            .N = N,
                            .M = 3000 + N,
                            .d = 16,
                            .dv = 20 + 12 * (N % 2),
                            .causal = causal,
                            .seed = 5},
                           false);
    check_case({.N = 300, .M = 2300, .d = 8, .dv = 8, .seed = 6}, false);
    check_case({.N = 2100, .M = 2100, .d = 2, .dv = 2, .seed = 7}, false);  // a part without keys for the first rows
}

TEST_CASE("scores of ten thousand are exact where they are whole numbers", "[softmax]") {
    const Poison poison;
    for (double size : {1.0, 30.0, 300.0}) {  // deviation 4 · size · sqrt(d): up to about ±10⁴ for the last
        for (bool causal : {true, false}) {
            const SoftmaxCase c{.heads = 2,
                                .group = 2,
                                .N = 130,
                                .M = 150,
                                .d = 16,
                                .dv = 24,
                                .causal = causal,
                                .size = size,
                                .whole = true,
                                .seed = 8};
            check_case(c);
            check_case({.heads = 2,
                        .N = 1,
                        .M = 3000,
                        .d = 16,
                        .dv = 16,
                        .causal = causal,
                        .size = size,
                        .whole = true,
                        .seed = 9});
        }
    }
    double most = 0;
    const SoftmaxCase c{.N = 130, .M = 150, .d = 16, .dv = 24, .size = 300, .whole = true, .seed = 8};
    for (double x : SoftmaxOracle(c, softmax_inputs(c)).lse) most = std::max(most, std::abs(x));
    CHECK(most >= 1e4);
}

TEST_CASE("equal, huge and denormal inputs", "[softmax]") {
    const Poison poison;
    for (DType type : {DType::f32, DType::f64}) {
        for (const auto& method : methods) {
            INFO(method << " " << name(type));
            const Tensor zeros = Tensor::zeros(type, {1, 1, 100, 8});
            Tensor v(type, {1, 1, 100, 4});
            for (Index i = 0; i < v.size(); ++i) v.set(i, static_cast<double>(i / 4 + 1));
            SoftmaxOptions o;
            o.method = method;
            const auto mean = softmax_attention(zeros, zeros, v, o);  // equal weights: the mean of 1 ... i
            for (Index i = 0; i < 100; ++i) CHECK(mean.O.get(4 * i) == Approx(static_cast<double>(i + 2) / 2));
            CHECK(mean.lse.get(99) == Approx(std::log(100.0)));

            const double tiny = type == DType::f32 ? 1e-42 : 4e-320;
            const Tensor small = Tensor::full(type, {1, 1, 100, 8}, tiny);
            const auto again = softmax_attention(small, small, v, o);
            CHECK(same_bits(again.O, mean.O));
            const auto values = softmax_attention(zeros, zeros, Tensor::full(type, {1, 1, 100, 4}, tiny), o);
            CHECK(values.O.get(0) == Tensor::full(type, {1}, tiny).get(0));

            // One key far above all others: its value, exactly.
            Tensor q = Tensor::zeros(type, {1, 1, 1, 1}), k = Tensor::zeros(type, {1, 1, 100, 1});
            q.set(0, 1e4), k.set(41, 1);
            o.scale = 1;
            const auto one = softmax_attention(q, k, v, o);
            CHECK(one.O.get(0) == 42);
            CHECK(one.lse.get(0) == Approx(1e4));
        }
    }
}

TEST_CASE("without keys the output is zero and the log-sum-exp -Inf; without queries there is none", "[softmax]") {
    const Poison poison;
    for (const auto& method : methods) {
        SoftmaxOptions o;
        o.method = method;
        o.causal = false;
        const auto none =
            softmax_attention(Tensor::zeros(DType::f32, {1, 2, 3, 4}), Tensor::zeros(DType::f32, {1, 2, 0, 4}),
                              Tensor::zeros(DType::f32, {1, 2, 0, 5}), o);
        CHECK(none.O.shape() == Shape{1, 2, 3, 5});
        for (Index i = 0; i < none.O.size(); ++i) CHECK(none.O.get(i) == 0);
        for (Index i = 0; i < none.lse.size(); ++i) CHECK(none.lse.get(i) == -INFINITY);
        CHECK(softmax_attention(Tensor::zeros(DType::f32, {2, 0, 4}), Tensor::zeros(DType::f32, {2, 3, 4}),
                                Tensor::zeros(DType::f32, {2, 3, 5}), o)
                  .O.shape() == Shape{2, 0, 5});
        CHECK(softmax_attention(Tensor::zeros(DType::f32, {3, 4}), Tensor::zeros(DType::f32, {3, 4}),
                                Tensor::zeros(DType::f32, {3, 0}), o)
                  .O.shape() == Shape{3, 0});
        // Keys without width: all scores are 0.
        CHECK(softmax_attention(Tensor::zeros(DType::f32, {3, 0}), Tensor::zeros(DType::f32, {3, 0}),
                                Tensor::full(DType::f32, {3, 2}, 2), o)
                  .O.get(5) == 2);
    }
}

TEST_CASE("nothing of a later token reaches an earlier query", "[softmax]") {
    for (const Index N : {40, 130}) {
        const SoftmaxCase c{.heads = 2, .group = 2, .N = N, .M = N + 70, .d = 12, .dv = 20, .seed = 12};
        const SoftmaxInputs in = softmax_inputs(c);
        for (DType type : {DType::f32, DType::f64}) {
            for (const auto& method : methods) {
                const SoftmaxResult want = in.to(type).run(method);
                for (double bad :
                     {static_cast<double>(INFINITY), -static_cast<double>(INFINITY), static_cast<double>(NAN), 1e30}) {
                    for (Index at :
                         {Index(1), Index(5), Index(31), N - 1}) {  // the token of query `at` and all after it
                        SoftmaxInputs changed{in.q.to(type).copy(), in.k.to(type).copy(), in.v.to(type).copy(),
                                              in.options};
                        for (Index h = 0; h < 2; ++h)
                            for (Index j = at + 70; j < c.M; ++j) {
                                for (Index e = 0; e < c.d; ++e) changed.k.set((h * c.M + j) * c.d + e, bad);
                                for (Index e = 0; e < c.dv; ++e) changed.v.set((h * c.M + j) * c.dv + e, bad);
                            }
                        const SoftmaxResult got = changed.run(method);
                        INFO(method << " bad " << bad << " from " << at << " of " << N);
                        CHECK(same_bits(tokens(got.O, 0, at), tokens(want.O, 0, at)));
                        if (std::isnan(bad)) CHECK(std::isnan(got.O.get(at * c.dv)));
                    }
                }
            }
        }
    }
}

TEST_CASE("softmax attention does not depend on the number of threads", "[softmax]") {
    const int before = threads();
    for (const SoftmaxCase& c :
         {SoftmaxCase{.heads = 3, .N = 300, .M = 300, .d = 20, .dv = 12, .seed = 13},
          SoftmaxCase{.heads = 1, .N = 1, .M = 9000, .d = 8, .dv = 16, .seed = 14},
          SoftmaxCase{.heads = 1, .group = 2, .N = 5, .M = 9000, .d = 8, .dv = 12, .seed = 15}}) {
        const SoftmaxInputs in = softmax_inputs(c).to(DType::f32);
        set_threads(1);
        const SoftmaxResult want = in.run();
        for (int n : {2, 3, 8}) {
            set_threads(n);
            const SoftmaxResult got = in.run();
            INFO(n << " threads, " << c);
            CHECK(same_bits(got.O, want.O));
            CHECK(same_bits(got.lse, want.lse));
        }
    }
    set_threads(before);
}

TEST_CASE("storage types are computed in Float32", "[softmax]") {
    const SoftmaxCase c{.heads = 2, .group = 2, .N = 70, .M = 70, .d = 16, .dv = 12, .seed = 16};
    for (DType type : {DType::f16, DType::bf16}) {
        SoftmaxInputs in = softmax_inputs(c).to(type);
        SoftmaxInputs exact = in.to(DType::f64);
        const SoftmaxResult got = in.run();
        CHECK(got.O.dtype() == type);
        CHECK(got.lse.dtype() == DType::f32);
        CHECK(SoftmaxOracle(c, exact).mismatch(got) == "");
    }
}

TEST_CASE("a shift of all scores of a row changes only the log-sum-exp", "[softmax]") {
    // One more column: q has h there and k ones. Whole numbers keep the scores exact.
    const SoftmaxCase c{.heads = 2, .N = 90, .M = 90, .d = 9, .dv = 6, .size = 2, .whole = true, .seed = 17};
    SoftmaxInputs in = softmax_inputs(c).to(DType::f32);
    const auto with_last = [&](double h) {
        SoftmaxInputs out{in.q.copy(), in.k.copy(), in.v, in.options};
        for (Index i = 8; i < in.q.size(); i += 9) out.q.set(i, h), out.k.set(i, 1);
        return out.run();
    };
    const SoftmaxResult none = with_last(0);
    for (double h : {1.0, 1000.0, -5000.0}) {
        const SoftmaxResult shifted = with_last(h);
        CHECK(same_bits(shifted.O, none.O));
        for (Index i = 0; i < none.lse.size(); ++i)
            CHECK(shifted.lse.get(i) == Approx(none.lse.get(i) + h).epsilon(1e-6));
    }
}

TEST_CASE("the tiled definition gives the same for every tile, and both forms count their operations", "[softmax]") {
    const SoftmaxCase c{.heads = 1, .group = 2, .N = 33, .M = 40, .d = 6, .dv = 5, .seed = 18};
    const SoftmaxInputs in = softmax_inputs(c);
    const SoftmaxOracle oracle(c, in);
    for (Index tile : {1, 2, 7, 33, 40, 64}) {
        SoftmaxResult got{Tensor(DType::f64, {1, 2, 33, 5}), Tensor(DType::f64, {1, 2, 33})};
        Tensor m = got.lse.copy(), l = got.lse.copy();
        auto p = attention::problem_of<double>(attention::check(in.q, in.k, in.v, in.options), in.q, in.k, in.v);
        p.O = got.O.data<double>(), p.m = m.data<double>(), p.l = l.data<double>();
        attention::flash(p.head(0), tile, 0, 66);
        got.lse = attention::log_sum_exp(m, l);
        INFO("tile " << tile);
        CHECK(oracle.mismatch(got) == "");
    }
    const Index rows = 66, pairs = 2 * 33 * (8 + 40) / 2;
    OperationCount count;
    SoftmaxOptions o = in.options;
    o.method = "standard";
    CHECK(oracle.mismatch(softmax_attention_counted(in.q, in.k, in.v, o, count)) == "");
    CHECK(count.multiplies == pairs * (6 + 1 + 5));
    CHECK(count.adds == pairs * (6 + 5 + 2));
    CHECK(count.exponentials == pairs);
    CHECK(count.divisions == rows * 5);
    o.method = "flash";  // one tile: nothing is scaled
    OperationCount tiled;
    CHECK(oracle.mismatch(softmax_attention_counted(in.q, in.k, in.v, o, tiled)) == "");
    CHECK(tiled == count);
}

TEST_CASE("softmax attention names what does not fit", "[softmax]") {
    const Tensor x = Tensor::zeros(DType::f32, {1, 4, 6, 3});
    const auto refused = [](const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxOptions& o = {}) {
        try {
            softmax_attention(q, k, v, o);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string("accepted");
    };
    const auto of = [](Index b, Index h, Index n, Index w) { return Tensor::zeros(DType::f32, {b, h, n, w}); };
    CHECK(refused(Tensor::zeros(DType::f32, {3}), x, x) ==
          "q: a 3-element Tensor{Float32}, expected [batch, heads, length, width], [heads, length, width] or [length, "
          "width]");
    CHECK(refused(x, Tensor::zeros(DType::f32, {4, 6, 3}), x) ==
          "k: 3 dimensions (4×6×3), expected 4 like q (1×4×6×3)");
    CHECK(refused(x, x, x.to(DType::f64)) == "v: Float64, expected Float32 like q");
    CHECK(refused(x, of(2, 4, 6, 3), x) == "k: batch 2, expected 1 like q");
    CHECK(refused(x, of(1, 4, 6, 2), x) == "k: width 2, expected 3 like q");
    CHECK(refused(x, x, of(1, 2, 6, 3)) == "v: heads 2, expected 4 like k");
    CHECK(refused(x, x, of(1, 4, 5, 3)) == "v: length 5, expected 6 like k");
    CHECK(refused(x, of(1, 3, 6, 3), of(1, 3, 6, 3)) == "q: heads 4, expected a multiple of the 3 of k and v");
    CHECK(refused(x, of(1, 4, 5, 3), of(1, 4, 5, 3)) ==
          "q: length 6, expected at most the 5 of k: with causal the queries are the last of its positions");
    SoftmaxOptions o;
    o.method = "flesh";
    CHECK(refused(x, x, x, o) ==
          "method: \"flesh\", expected one of \"flash\", \"standard\" (did you mean \"flash\"?)");
    o.method = "flash", o.scale = INFINITY;
    CHECK(refused(x, x, x, o) == "scale: inf, expected a finite number");
    o.scale = 1e39;
    CHECK(refused(x, x, x, o) == "scale: 1e+39, expected a finite number");
}

TEST_CASE("flash never holds the scores", "[softmax]") {
    const Tensor x = Tensor::zeros(DType::f32, {1, 1, 3000, 8});
    const int crew = threads();
    set_threads(2);  // tiles grow with the threads
    const std::size_t before = memory::current();
    memory::reset_peak();
    const auto result = softmax_attention(x, x, x);
    CHECK(memory::peak() - before <= 2500000);  // 3000² scores would be 36 MB
    set_threads(crew);
    CHECK(result.O.size() == x.size());
}
