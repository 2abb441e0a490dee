// Short causal convolutions: the sum written down, parts of a text, packed texts, gradients, threads.
#include "core/around/short_convolution.hpp"

#include <cmath>
#include <filesystem>
#include <vector>

#include "core/base/parallel.hpp"
#include "core/tensor/safetensors.hpp"
#include "tests/core/around/differences.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/core/gated/problems.hpp"
#include "tests/paths.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::test;
using causeway::testing::message_of;

namespace {

struct Texts {
    Tensor x, weight;
    ConvolutionOptions options;

    Texts to(DType type) const {
        Texts out{x.to(type), weight.to(type), options};
        if (options.bias) out.options.bias = options.bias->to(type);
        if (options.state) out.options.state = options.state->to(type == DType::f64 ? type : DType::f32);
        return out;
    }
    ConvolutionResult run() const { return short_convolution(x, weight, options); }
};

Texts texts(Index batch, Index N, Index channels, Index taps, bool all, const char* activation) {
    Texts t{drawn({batch, N, channels}, 1), drawn({channels, taps}, 2), {}};
    t.options.activation = activation;
    if (all) t.options.bias = drawn({channels}, 3), t.options.state = drawn({batch, taps - 1, channels}, 4);
    return t;
}

// The sum as it is written down.
double expected(const Texts& t, Index b, Index at, Index c) {
    const Index N = t.x.shape()[1], channels = t.x.shape()[2], taps = t.weight.shape()[1];
    double z = t.options.bias ? t.options.bias->get(c) : 0;
    for (Index i = 0; i < taps; ++i) {
        const Index from = at - taps + 1 + i;
        double in = 0;
        if (from >= 0) in = t.x.get((b * N + from) * channels + c);
        else if (t.options.state) in = t.options.state->get((b * (taps - 1) + taps - 1 + from) * channels + c);
        z += t.weight.get(c * taps + i) * in;
    }
    return t.options.activation == "silu" ? z / (1 + std::exp(-z)) : z;
}

// Tokens [from, to) of [b, N, channels].
Tensor rows(const Tensor& A, Index from, Index to) { return slice(A, 1, from, to); }

}  // namespace

TEST_CASE("a short convolution is the sum of its taps", "[around]") {
    const Poison poison;
    for (const Index N : {0, 1, 2, 5, 40}) {
        for (const Index channels : {1, 7, 19}) {
            for (const Index taps : {1, 2, 4}) {
                for (const bool all : {false, true}) {
                    for (const char* activation : {"none", "silu"}) {
                        INFO("N=" << N << " channels=" << channels << " taps=" << taps << " " << activation);
                        const Texts t = texts(2, N, channels, taps, all, activation);
                        const ConvolutionResult got = t.run(), single = t.to(DType::f32).run();
                        CHECK(single.y.dtype() == DType::f32);
                        double worst = 0, worst_single = 0;
                        for (Index b = 0; b < 2; ++b)
                            for (Index at = 0; at < N; ++at)
                                for (Index c = 0; c < channels; ++c) {
                                    const double want = expected(t, b, at, c);
                                    const Index i = (b * N + at) * channels + c;
                                    worst = std::max(worst, std::abs(got.y.get(i) - want));
                                    worst_single = std::max(worst_single, std::abs(single.y.get(i) - want));
                                }
                        CHECK(worst <= 1e-14);
                        CHECK(worst_single <= 1e-5);
                        CHECK(got.state.shape() == Shape{2, taps - 1, channels});
                    }
                }
            }
        }
    }
}

TEST_CASE("the cases of the ONNX operator CausalConvWithState come out", "[around]") {
    const Poison poison;
    int cases = 0;
    for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/tests/data/onnx_convolution")) {
        if (entry.path().extension() != ".safetensors") continue;
        CAPTURE(entry.path());
        const NamedTensors file = load_safetensors(entry.path().string());
        ConvolutionOptions o;
        o.activation = file.metadata.at("activation");
        if (file.tensors.count("bias")) o.bias = file.tensors.at("bias");
        if (file.tensors.count("past_state")) o.state = file.tensors.at("past_state");
        const Tensor &x = file.tensors.at("x"), &output = file.tensors.at("output"),
                     &state = file.tensors.at("present_state");
        const ConvolutionResult got = short_convolution(x, file.tensors.at("weight"), o);
        CHECK(got.y.dtype() == x.dtype());
        CHECK(relative_error(got.y, output) <= (x.dtype() == DType::f16 ? 1e-3 : 1e-6));
        CHECK(got.state.shape() == state.shape());
        CHECK(same_bits(got.state, state.to(DType::f32)));
        ++cases;
    }
    CHECK(cases == 13);
}

TEST_CASE("two parts of a text and packed texts have the bits of short convolutions of the whole", "[around]") {
    const Poison poison;
    for (const DType type : {DType::f32, DType::f64}) {
        for (const Index at : {0, 1, 2, 3, 20, 30}) {
            const Texts t = texts(2, 30, 17, 4, true, "silu").to(type);
            const ConvolutionResult whole = t.run();
            Texts first = t, second = t;
            first.x = rows(t.x, 0, at), second.x = rows(t.x, at, 30);
            const ConvolutionResult begun = first.run();
            second.options.state = begun.state;
            const ConvolutionResult ended = second.run();
            INFO("at " << at);
            CHECK(same_bits(rows(whole.y, 0, at), begun.y));
            CHECK(same_bits(rows(whole.y, at, 30), ended.y));
            CHECK(same_bits(whole.state, ended.state));
        }
        Texts packed = texts(1, 30, 17, 4, true, "silu").to(type);
        const std::vector<Index> offsets{0, 0, 2, 20, 30};
        packed.options.cu_seqlens = offsets;
        packed.options.state = drawn({4, 3, 17}, 9).to(type);
        const Tensor dy = drawn({1, 30, 17}, 10).to(type), dstate = drawn({4, 3, 17}, 11).to(type);
        const ConvolutionResult all = packed.run();
        const ConvolutionGradient grad = short_convolution_grad(packed.x, packed.weight, dy, packed.options, dstate);
        Tensor sum = Tensor::zeros(DType::f64, packed.weight.shape());
        for (Index i = 0; i < 4; ++i) {
            const Index from = offsets[static_cast<std::size_t>(i)], to = offsets[static_cast<std::size_t>(i) + 1];
            Texts one = packed;
            one.options.cu_seqlens.clear();
            one.x = rows(packed.x, from, to), one.options.state = slice(*packed.options.state, 0, i, i + 1);
            const ConvolutionResult want = one.run();
            CHECK(same_bits(rows(all.y, from, to), want.y));
            CHECK(same_bits(slice(all.state, 0, i, i + 1), want.state));
            const ConvolutionGradient g =
                short_convolution_grad(one.x, one.weight, rows(dy, from, to), one.options, slice(dstate, 0, i, i + 1));
            CHECK(same_bits(rows(grad.dx, from, to), g.dx));
            CHECK(same_bits(slice(grad.dstate, 0, i, i + 1), g.dstate));
            for (Index e = 0; e < sum.size(); ++e) sum.set(e, sum.get(e) + g.dweight.get(e));
        }
        CHECK(relative_error(grad.dweight, sum) <= (type == DType::f64 ? 1e-14 : 1e-6));
    }
}

TEST_CASE("gradients of short convolutions are those of central differences", "[around][gradient]") {
    const Poison poison;
    for (const char* activation : {"none", "silu"}) {
        for (const bool packed : {false, true}) {
            Texts t = texts(packed ? 1 : 2, 7, 3, 4, true, activation);
            if (packed) t.options.cu_seqlens = {0, 1, 7}, t.options.state = drawn({2, 3, 3}, 5);
            const Tensor dy = drawn(t.x.shape(), 6), dstate = drawn({2, 3, 3}, 7);
            const auto f = [&] {
                const ConvolutionResult r = t.run();
                return inner_product(r.y, dy) + inner_product(r.state, dstate);
            };
            const ConvolutionGradient g = short_convolution_grad(t.x, t.weight, dy, t.options, dstate);
            CHECK(off_differences(g.dx, t.x, f) <= 1e-8);
            CHECK(off_differences(g.dweight, t.weight, f) <= 1e-8);
            CHECK(off_differences(*g.dbias, *t.options.bias, f) <= 1e-8);
            CHECK(off_differences(g.dstate, *t.options.state, f) <= 1e-8);
        }
    }
}

TEST_CASE("the number of threads changes no bit of short convolutions", "[around]") {
    const Texts t = texts(2, 300, 70, 4, true, "silu").to(DType::f32);
    const Tensor dy = drawn(t.x.shape(), 6).to(DType::f32);
    const int before = threads();
    set_threads(1);
    const ConvolutionResult one = t.run();
    const ConvolutionGradient g = short_convolution_grad(t.x, t.weight, dy, t.options);
    for (const int n : {2, 5}) {
        set_threads(n);
        CHECK(same_bits(t.run().y, one.y));
        const ConvolutionGradient h = short_convolution_grad(t.x, t.weight, dy, t.options);
        CHECK(same_bits(h.dx, g.dx));
        CHECK(same_bits(h.dweight, g.dweight));
    }
    set_threads(before);
}

TEST_CASE("what does not fit a short convolution is refused by name", "[around][errors]") {
    const Texts t = texts(2, 7, 3, 4, true, "silu");
    const auto says = [&](auto change) {
        Texts other = t;
        change(other);
        return message_of([&] { other.run(); });
    };
    const auto zeros = [](const Shape& s, DType type = DType::f64) { return Tensor::zeros(type, s); };
    CHECK(says([&](Texts& o) { o.x = zeros({3}); }) ==
          "x: a 3-element Tensor{Float64}, expected [batch, length, channels] or [length, channels]");
    CHECK(says([&](Texts& o) {
              o.weight = zeros({4, 4});
          }) == "weight: 4×4, expected 3×taps, a row for each channel of x");
    CHECK(says([&](Texts& o) { o.options.bias = zeros({4}); }) == "bias: 4, expected 3");
    CHECK(says([&](Texts& o) { o.options.state = zeros({2, 4, 3}); }) == "state: 2×4×3, expected 2×3×3");
    CHECK(says([&](Texts& o) { o.options.activation = "relu"; }) ==
          "activation: \"relu\", expected one of \"none\", \"silu\"");
    CHECK(says([&](Texts& o) {
              o.options.cu_seqlens = {0, 7};
          }) == "cu_seqlens: given with batch 2, expected batch 1, which holds all sequences");
    CHECK(says([&](Texts& o) { o.x = o.x.to(DType::f32); }) ==
          "weight: Float64, expected Float32 like the other tensors");
    CHECK(message_of([&] {
              short_convolution_grad(t.x, t.weight, zeros({2, 7, 4}), t.options);
          }) == "dy: 2×7×4, expected 2×7×3 like the output");
}
