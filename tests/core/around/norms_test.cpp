// Norms and gates around attention: their formulas in Float64, gradients by central differences, edges.
#include "core/around/norms.hpp"

#include <cmath>
#include <limits>

#include "core/around/decay_gate.hpp"
#include "core/base/parallel.hpp"
#include "tests/core/around/differences.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/core/gated/problems.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::test;
using causeway::testing::message_of;

namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("l2norm divides rows by their length", "[around]") {
    const Poison poison;
    for (const Index width : {1, 3, 8, 70}) {
        const Tensor x = drawn({2, 5, width}, 1);
        LengthOptions o;
        o.eps = 1e-3;
        const Tensor y = l2norm(x, o), single = l2norm(x.to(DType::f32), o);
        for (Index row = 0; row < 10; ++row) {
            double square = 0;
            for (Index i = 0; i < width; ++i) square += std::pow(x.get(row * width + i), 2);
            for (Index i = 0; i < width; ++i) {
                const double want = x.get(row * width + i) / std::sqrt(square + 1e-3);
                CHECK(std::abs(y.get(row * width + i) - want) <= 1e-15);
                CHECK(std::abs(single.get(row * width + i) - want) <= 2e-7);
            }
        }
        const Tensor dy = drawn(x.shape(), 2);
        CHECK(off_differences(l2norm_grad(x, dy, o), x, [&] { return inner_product(l2norm(x, o), dy); }) <= 1e-8);
    }
    const Tensor zero = l2norm(Tensor::zeros(DType::f32, {2, 4}));
    CHECK(zero.get(3) == 0);
    CHECK(l2norm(Tensor::zeros(DType::f32, {0, 4})).shape() == Shape{0, 4});
    CHECK(l2norm(Tensor::full(DType::f32, {1, 4}, 1e30)).get(0) == Approx(0.5));  // the sum of squares is in Float64
    CHECK(l2norm(drawn({3, 4}, 1).to(DType::bf16)).dtype() == DType::bf16);
}

TEST_CASE("rms_norm divides by the root of the mean square, weighs and gates", "[around]") {
    const Poison poison;
    for (const Index width : {1, 5, 16, 70}) {
        for (const bool weighted : {false, true}) {
            for (const char* gated : {"", "silu", "sigmoid"}) {
                INFO("width " << width << " weighted " << weighted << " gated by " << gated);
                const Tensor x = drawn({2, 3, width}, 1), dy = drawn({2, 3, width}, 2);
                NormOptions o;
                o.eps = 1e-3;
                if (weighted) o.weight = drawn({width}, 3);
                if (*gated) o.gate = drawn(x.shape(), 4, 3), o.activation = gated;
                NormOptions narrow = o;
                if (narrow.weight) narrow.weight = narrow.weight->to(DType::f32);
                if (narrow.gate) narrow.gate = narrow.gate->to(DType::f32);
                const Tensor y = rms_norm(x, o), single = rms_norm(x.to(DType::f32), narrow);
                double worst = 0, worst_single = 0;
                for (Index row = 0; row < 6; ++row) {
                    double square = 0;
                    for (Index i = 0; i < width; ++i) square += std::pow(x.get(row * width + i), 2);
                    for (Index i = 0; i < width; ++i) {
                        const Index at = row * width + i;
                        double want = x.get(at) / std::sqrt(square / static_cast<double>(width) + 1e-3);
                        if (weighted) want *= o.weight->get(i);
                        if (*gated) want *= logistic(o.gate->get(at));
                        if (o.gate && o.activation == "silu") want *= o.gate->get(at);
                        worst = std::max(worst, std::abs(y.get(at) - want));
                        worst_single = std::max(worst_single, std::abs(single.get(at) - want));
                    }
                }
                CHECK(worst <= 1e-14);
                CHECK(worst_single <= 1e-5);
                const auto f = [&] { return inner_product(rms_norm(x, o), dy); };
                const NormGradient g = rms_norm_grad(x, dy, o);
                CHECK(off_differences(g.dx, x, f) <= 1e-8);
                CHECK(g.dweight.has_value() == weighted);
                CHECK(g.dgate.has_value() == (*gated != 0));
                if (weighted) CHECK(off_differences(*g.dweight, *o.weight, f) <= 1e-8);
                if (*gated) CHECK(off_differences(*g.dgate, *o.gate, f) <= 1e-8);
            }
        }
    }
}

TEST_CASE("the number of threads changes no bit of a norm's gradient", "[around]") {
    const Tensor x = drawn({40, 700}, 1).to(DType::f32), dy = drawn({40, 700}, 2).to(DType::f32);
    NormOptions o;
    o.weight = drawn({700}, 3).to(DType::f32);
    const int before = threads();
    set_threads(1);
    const NormGradient one = rms_norm_grad(x, dy, o);
    set_threads(3);
    const NormGradient three = rms_norm_grad(x, dy, o);
    set_threads(before);
    CHECK(same_bits(one.dx, three.dx));
    CHECK(same_bits(*one.dweight, *three.dweight));
}

TEST_CASE("decay_gate is -e^A softplus, or bounded below", "[around]") {
    const Poison poison;
    for (const bool channels : {false, true}) {
        for (const bool biased : {false, true}) {
            for (const bool bounded : {false, true}) {
                INFO("channels " << channels << " bias " << biased << " bounded " << bounded);
                const Shape shape = channels ? Shape{2, 3, 4, 5} : Shape{2, 3, 4};
                const Index w = channels ? 5 : 1;
                const Tensor a = drawn(shape, 1, 3), A_log = drawn({3}, 2), dg = drawn(shape, 4);
                DecayGateOptions o;
                if (biased) o.dt_bias = drawn(channels ? Shape{3, 5} : Shape{3}, 3);
                if (bounded) o.lower_bound = -5;
                const Tensor g = decay_gate(a, A_log, o);
                double worst = 0;
                for (Index i = 0; i < a.size(); ++i) {
                    const Index h = i / (4 * w) % 3;
                    const double x = a.get(i) + (biased ? o.dt_bias->get(h * w + i % w) : 0),
                                 rate = std::exp(A_log.get(h));
                    const double want = bounded ? -5 * logistic(rate * x) : -rate * std::log1p(std::exp(x));
                    worst = std::max(worst, std::abs(g.get(i) - want));
                }
                CHECK(worst <= 1e-12);
                const auto f = [&] { return inner_product(decay_gate(a, A_log, o), dg); };
                const DecayGateGradient d = decay_gate_grad(a, A_log, dg, o);
                CHECK(off_differences(d.da, a, f) <= 1e-8);
                CHECK(off_differences(d.dA_log, A_log, f) <= 1e-8);
                if (biased) CHECK(off_differences(*d.ddt_bias, *o.dt_bias, f) <= 1e-8);
            }
        }
    }
}

TEST_CASE("decay_gate of large numbers is finite, and a log decay", "[around]") {
    Tensor a(DType::f32, {1, 5});
    const double inputs[] = {-1e4, -90, 0, 90, 1e4};
    for (Index i = 0; i < 5; ++i) a.set(i, inputs[i]);
    const Tensor A_log = Tensor::zeros(DType::f32, {1}), g = decay_gate(a, A_log);
    const double want[] = {0, -std::exp(-90.0), -std::log(2.0), -90, -1e4};
    for (Index i = 0; i < 5; ++i) CHECK(g.get(i) == Approx(want[i]));
    DecayGateOptions o;
    o.lower_bound = -5;
    const Tensor bounded = decay_gate(a, A_log, o);
    for (Index i = 0; i < 5; ++i) CHECK((bounded.get(i) <= 0 && bounded.get(i) >= -5));
    CHECK(bounded.get(4) == -5);
    const DecayGateGradient d = decay_gate_grad(a, A_log, Tensor::full(DType::f32, {1, 5}, 1));
    for (Index i = 0; i < 5; ++i) CHECK(std::isfinite(d.da.get(i)));
}

TEST_CASE("what does not fit norms and gates is refused by name", "[around][errors]") {
    const auto zeros = [](const Shape& s, DType type = DType::f32) { return Tensor::zeros(type, s); };
    const Tensor x = zeros({2, 3, 4});
    LengthOptions length;
    length.eps = -1;
    CHECK(message_of([&] { l2norm(x, length); }) == "eps: -1, expected a number that is not negative");
    CHECK(message_of([&] { l2norm_grad(x, zeros({2, 3, 5})); }) == "dy: 2×3×5, expected 2×3×4 like the output");
    const auto norm = [&](auto change) {
        NormOptions o;
        change(o);
        return message_of([&] { rms_norm(x, o); });
    };
    CHECK(norm([&](NormOptions& o) { o.weight = zeros({3}); }) == "weight: 3, expected 4");
    CHECK(norm([&](NormOptions& o) { o.gate = zeros({2, 3}); }) == "gate: 2×3, expected 2×3×4");
    CHECK(norm([&](NormOptions& o) { o.weight = zeros({4}, DType::f64); }) ==
          "weight: Float64, expected Float32 like the other tensors");
    CHECK(norm([](NormOptions& o) { o.activation = "relu"; }) ==
          "activation: \"relu\", expected one of \"silu\", \"sigmoid\"");
    const auto gate = [&](const Tensor& a, const Tensor& A_log, auto change) {
        DecayGateOptions o;
        change(o);
        return message_of([&] { decay_gate(a, A_log, o); });
    };
    const auto nothing = [](DecayGateOptions&) {};
    CHECK(gate(zeros({3}), zeros({3}), nothing) ==
          "a: a 3-element Tensor{Float32}, expected [batch, heads, length], or [batch, heads, length, width]");
    CHECK(gate(x, zeros({2}), nothing) == "A_log: 2, expected 3, one a head");
    CHECK(gate(x, zeros({3}), [&](DecayGateOptions& o) { o.dt_bias = zeros({4}); }) == "dt_bias: 4, expected 3");
    CHECK(gate(x, zeros({3}), [](DecayGateOptions& o) { o.lower_bound = 0; }) ==
          "lower_bound: 0.0, expected a number below 0");
}
