// Gradients of softmax attention: against central differences, the derivative by plain loops, and their identities.
#include "core/gradient/softmax_attention_grad.hpp"
#include "core/base/parallel.hpp"
#include "tests/core/gradient/problems.hpp"
#include "tests/core/softmax/problems.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

struct Arriving {
    SoftmaxInputs in;
    Tensor dO;

    explicit Arriving(const SoftmaxCase& c)
        : in(softmax_inputs(c)), dO(random_tensor({c.batch, c.heads * c.group, c.N, c.dv}, c.seed + 1000)) {}

    SoftmaxGradient gradient(DType type, const std::string& method = "flash") const {
        SoftmaxOptions o = in.options;
        o.method = method;
        return softmax_attention_grad(in.q.to(type), in.k.to(type), in.v.to(type), dO.to(type), o);
    }
};

std::string apart(const SoftmaxGradient& got, const SoftmaxGradient& want, double tolerance) {
    const std::pair<const char*, std::pair<const Tensor&, const Tensor&>> all[] = {
        {"dq", {got.dq, want.dq}}, {"dk", {got.dk, want.dk}}, {"dv", {got.dv, want.dv}}};
    double size = 0;  // a gradient that vanishes exactly (one key) is compared with the others
    for (const auto& [name, pair] : all)
        for (Index i = 0; i < pair.second.size(); ++i) size = std::max(size, std::abs(pair.second.get(i)));
    for (const auto& [name, pair] : all) {
        double difference = 0, norm = 0;
        if (pair.first.shape() != pair.second.shape()) return std::string(name) + " has another shape";
        for (Index i = 0; i < pair.second.size(); ++i) {
            difference += std::pow(pair.first.get(i) - pair.second.get(i), 2);
            norm += std::pow(pair.second.get(i), 2);
        }
        const double scale = norm > 0 ? std::max(std::sqrt(norm), 1e-3 * size) : size;
        if (!(std::sqrt(difference) <= tolerance * scale))
            return sentence(name, ": relative error ", std::sqrt(difference / norm));
    }
    return "";
}

bool same(const SoftmaxGradient& a, const SoftmaxGradient& b) {
    return same_bits(a.dq, b.dq) && same_bits(a.dk, b.dk) && same_bits(a.dv, b.dv);
}

}  // namespace

TEST_CASE("gradients of softmax attention are those of central differences", "[softmax][gradient]") {
    unsigned seed = 30;
    for (bool causal : {true, false}) {
        for (Index more : {0, 4}) {
            const SoftmaxCase c{.batch = 2,
                                .heads = 1,
                                .group = 2,
                                .N = 7,
                                .M = 7 + more,
                                .d = 3,
                                .dv = 4,
                                .causal = causal,
                                .seed = ++seed};
            CAPTURE(c);
            Arriving x(c);
            x.in.options.scale = 0.8;
            const auto f = [&] { return inner(x.in.run("standard").O, x.dO); };
            const SoftmaxGradient want{central_differences(x.in.q, f), central_differences(x.in.k, f),
                                       central_differences(x.in.v, f)};
            const Poison poison;
            CHECK(apart(x.gradient(DType::f64, "standard"), want, 1e-7) == "");
            CHECK(apart(x.gradient(DType::f64), want, 1e-7) == "");
        }
    }
}

TEST_CASE("tiled gradients of softmax attention are those of the definition", "[softmax][gradient]") {
    const Poison poison;
    unsigned seed = 40;
    for (Index N : {1, 2, 17, 63, 64, 65, 97, 129, 300}) {
        for (const auto& [d, dv] : {std::pair<Index, Index>{1, 1}, {5, 7}, {33, 20}}) {
            for (Index more : {Index(0), N + 3}) {
                for (bool causal : {true, false}) {
                    if (N == 300 && d != 5) continue;
                    const SoftmaxCase c{.batch = 1 + N % 2,
                                        .heads = 2,
                                        .group = 1 + d % 2,
                                        .N = N,
                                        .M = N + more,
                                        .d = d,
                                        .dv = dv,
                                        .causal = causal,
                                        .seed = ++seed};
                    CAPTURE(c);
                    const Arriving x(c);
                    const SoftmaxGradient want = x.gradient(DType::f64, "standard");
                    CHECK(apart(x.gradient(DType::f64), want, 1e-12) == "");
                    CHECK(apart(x.gradient(DType::f32), want, 1e-5) == "");
                }
            }
        }
    }
    const SoftmaxCase wide{.N = 40, .M = 20, .d = 6, .dv = 6, .causal = false, .seed = 99};
    CHECK(apart(Arriving(wide).gradient(DType::f32), Arriving(wide).gradient(DType::f64, "standard"), 1e-5) == "");
}

// Σ_j dv_j = Σ_i dO_i since weights sum to one; Σ_j dS_ij = 0, so a common shift of all keys gets no gradient.
TEST_CASE("sums of the gradients of softmax attention", "[softmax][gradient]") {
    const SoftmaxCase c{.N = 200, .M = 230, .d = 4, .dv = 3, .seed = 50};
    const Arriving x(c);
    const SoftmaxGradient g = x.gradient(DType::f64);
    for (Index e = 0; e < c.dv; ++e) {
        double sum = 0, want = 0;
        for (Index j = 0; j < c.M; ++j) sum += g.dv.get(j * c.dv + e);
        for (Index i = 0; i < c.N; ++i) want += x.dO.get(i * c.dv + e);
        CHECK(sum == Approx(want).epsilon(1e-11));
    }
    double q_dq = 0, k_dk = 0;  // S is bilinear
    for (Index i = 0; i < g.dq.size(); ++i) q_dq += g.dq.get(i) * x.in.q.get(i);
    for (Index i = 0; i < g.dk.size(); ++i) k_dk += g.dk.get(i) * x.in.k.get(i);
    CHECK(q_dq == Approx(k_dk).epsilon(1e-11));
}

TEST_CASE("gradients with what the forward pass returned, storage types and large scores", "[softmax][gradient]") {
    const SoftmaxCase c{.heads = 2, .group = 2, .N = 150, .M = 160, .d = 8, .dv = 6, .seed = 60};
    const Arriving x(c);
    const SoftmaxGradient want = x.gradient(DType::f64, "standard");
    CHECK(apart(softmax_attention_grad(x.in.q, x.in.k, x.in.v, x.dO, x.in.options, x.in.run()), want, 1e-12) == "");
    const SoftmaxInputs single = x.in.to(DType::f32);
    CHECK(apart(softmax_attention_grad(single.q, single.k, single.v, x.dO.to(DType::f32), single.options, single.run()),
                want, 1e-5) == "");
    CHECK(x.gradient(DType::bf16).dk.dtype() == DType::bf16);
    CHECK(apart(x.gradient(DType::f16), want, 1e-2) == "");

    // Where one key has all the weight, dP - D is a difference of equal sums of dv terms, each known to a few
    // roundings.
    const SoftmaxCase one{.N = 100, .M = 100, .d = 8, .dv = 6, .size = 300, .whole = true, .seed = 61};
    const Arriving large(one);
    const SoftmaxGradient got = large.gradient(DType::f32), exact = large.gradient(DType::f64, "standard");
    double k = 0, v = 0, dO = 0, error = 0;
    for (Index i = 0; i < large.in.k.size(); ++i) k = std::max(k, std::abs(large.in.k.get(i)));
    for (Index i = 0; i < large.in.v.size(); ++i)
        v = std::max(v, std::abs(large.in.v.get(i))), dO = std::max(dO, std::abs(large.dO.get(i)));
    for (Index i = 0; i < got.dq.size(); ++i) {
        const double difference = std::abs(got.dq.get(i) - exact.dq.get(i));
        error = difference <= error ? error : difference;
    }
    CHECK(error <= 4 * std::ldexp(1.0, -24) * static_cast<double>(one.dv) * k * v * dO);
    CHECK(relative_error(got.dv, exact.dv) <= 1e-5);
    const SoftmaxGradient none = softmax_attention_grad(
        Tensor::full(DType::f32, {3, 2}, 1), Tensor::zeros(DType::f32, {0, 2}), Tensor::zeros(DType::f32, {0, 2}),
        Tensor::full(DType::f32, {3, 2}, 1), {.causal = false, .method = "flash", .scale = {}, .cu_seqlens = {}});
    for (Index i = 0; i < 6; ++i) CHECK(none.dq.get(i) == 0);
}

TEST_CASE("gradients of softmax attention are causal and do not depend on the number of threads",
          "[softmax][gradient]") {
    const int before = threads();
    const SoftmaxCase c{.heads = 2, .group = 2, .N = 200, .M = 250, .d = 6, .dv = 5, .seed = 62};
    const Arriving x(c);
    set_threads(1);
    const SoftmaxGradient want = x.gradient(DType::f32);
    for (int n : {2, 3, 8}) {
        set_threads(n);
        CHECK(same(x.gradient(DType::f32), want));
    }
    set_threads(before);
    for (double bad : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
        for (Index at : {Index(1), Index(40), Index(130)}) {  // the token of query `at` and all later ones
            Arriving y(c);
            for (Index h = 0; h < 2; ++h)
                for (Index j = at + 50; j < c.M; ++j) {
                    for (Index e = 0; e < c.d; ++e) y.in.k.set((h * c.M + j) * c.d + e, bad);
                    for (Index e = 0; e < c.dv; ++e) y.in.v.set((h * c.M + j) * c.dv + e, bad);
                }
            const SoftmaxGradient got = y.gradient(DType::f32);
            int wrong = 0;
            for (Index h = 0; h < 4; ++h)
                for (Index i = 0; i < at * c.d; ++i)
                    wrong += got.dq.get(h * c.N * c.d + i) != want.dq.get(h * c.N * c.d + i);
            INFO("bad " << bad << " from " << at);
            CHECK(wrong == 0);
            CHECK(std::isnan(got.dq.get(at * c.d)));
        }
    }
}

TEST_CASE("gradients of softmax attention name what does not fit", "[softmax][gradient]") {
    const Tensor x = Tensor::zeros(DType::f32, {2, 6, 3});
    const auto refused = [&](const Tensor& dO, const std::optional<SoftmaxResult>& forward) {
        try {
            softmax_attention_grad(x, x, x, dO, {}, forward);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string("accepted");
    };
    CHECK(refused(Tensor::zeros(DType::f32, {2, 6, 4}), {}) == "dO: 2×6×4, expected 2×6×3 like the output");
    CHECK(refused(x.to(DType::f64), {}) == "dO: Float64, expected Float32 like q");
    CHECK(refused(x, SoftmaxResult{Tensor::zeros(DType::f32, {6, 3}), x}) == "O: 6×3, expected 2×6×3 like the output");
    CHECK(refused(x, SoftmaxResult{x, x}) == "lse: 2×6×3, expected 2×6");
    CHECK(refused(x, SoftmaxResult{x, Tensor::zeros(DType::f64, {2, 6})}) == "lse: Float64, expected Float32");
}
