// What stands around linear attention on the GPU: short convolutions, norms and gates, beside those of the CPU in
// Float64, and the bits of packed texts and of texts in parts.
#include <algorithm>
#include <random>

#include "core/around/decay_gate.hpp"
#include "core/around/norms.hpp"
#include "core/around/short_convolution.hpp"
#include "core/tensor/random.hpp"
#include "gpu/around/decay_gate.hpp"
#include "gpu/around/norms.hpp"
#include "gpu/around/short_convolution.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/core/gated/problems.hpp"
#include "tests/gpu/device.hpp"
#include "tests/gpu/linear_problems.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

constexpr DType types[] = {DType::f32, DType::bf16, DType::f16};

// Normal numbers that the type has exactly, as Float64.
Tensor drawn(const Shape& shape, DType type, std::mt19937_64& generator, double size = 1) {
    std::normal_distribution<double> normal(0, size);
    Tensor x(type, shape);
    for (Index i = 0; i < x.size(); ++i) x.set(i, normal(generator));
    return x.to(DType::f64);
}

gpu::Tensor there(const Tensor& x, DType type) { return gpu::Tensor(x.to(type)); }

// How far a result in the type may be off: sums in Float32, and one rounding, of up to 2^-8 in BFloat16 and 2^-11 in
// Float16.
void check_near(const char* what, const gpu::Tensor& got, const Tensor& want, DType type) {
    CAPTURE(what, name(type), want.shape().text());
    CHECK(got.shape() == want.shape());
    CHECK(got.dtype() == type);
    const double most = type == DType::f32 ? 1e-5 : type == DType::bf16 ? 4e-3 : 5e-4;
    CHECK(relative_error(got.cpu().to(DType::f64), want, 1e-6) <= most);
}

Tensor rows(const Tensor& x, Index from, Index to) { return slice(x, 1, from, to); }

struct Size {
    Index batch, N, channels, taps;
};

}  // namespace

TEST_CASE("short convolutions on the GPU are those of the CPU, with their gradients", "[gpu][gpu-around]") {
    if (!on_gpu()) return;
    std::mt19937_64 generator(random::seed());
    const Size sizes[] = {{1, 1, 1, 1}, {2, 3, 5, 4}, {1, 700, 130, 4}, {3, 33, 128, 2}, {1, 2, 7, 9}, {2, 0, 3, 4}};
    for (const DType type : types) {
        for (const Size& n : sizes) {
            for (const bool silu : {false, true}) {
                const Tensor x = drawn({n.batch, n.N, n.channels}, type, generator),
                             weight = drawn({n.channels, n.taps}, DType::f32, generator, 0.5),
                             bias = drawn({n.channels}, DType::f32, generator),
                             state = drawn({n.batch, n.taps - 1, n.channels}, DType::f32, generator),
                             dy = drawn({n.batch, n.N, n.channels}, type, generator),
                             dlast = drawn({n.batch, n.taps - 1, n.channels}, DType::f32, generator);
                ConvolutionOptions o;
                gpu::ConvolutionOptions og;
                o.activation = og.activation = silu ? "silu" : "none";
                if (silu) {
                    o.bias = bias, o.state = state;
                    og.bias = there(bias, DType::f32), og.state = there(state, DType::f32);
                }
                const auto want = short_convolution(x, weight, o);
                const auto got = gpu::short_convolution(there(x, type), there(weight, DType::f32), og);
                check_near("y", got.y, want.y, type);
                check_near("state", got.state, want.state, DType::f32);
                const auto wanted = short_convolution_grad(x, weight, dy, o, dlast);
                const auto g = gpu::short_convolution_grad(there(x, type), there(weight, DType::f32), there(dy, type),
                                                           og, there(dlast, DType::f32));
                check_near("dx", g.dx, wanted.dx, type);
                check_near("dweight", g.dweight, wanted.dweight, DType::f32);
                check_near("dstate", g.dstate, wanted.dstate, DType::f32);
                REQUIRE(g.dbias.has_value() == silu);
                if (silu) check_near("dbias", *g.dbias, *wanted.dbias, DType::f32);
            }
        }
    }
}

TEST_CASE("packed short convolutions on the GPU have the bits of separate ones", "[gpu][gpu-around]") {
    if (!on_gpu()) return;
    std::mt19937_64 generator(random::seed());
    const std::vector<Index> offsets{0, 0, 1, 40, 42, 42, 42, 300, 513, 513};
    const auto sequences = std::ssize(offsets) - 1;
    const Index N = offsets.back(), channels = 37, taps = 4;
    for (const DType type : types) {
        const Tensor x = drawn({1, N, channels}, type, generator), dy = drawn({1, N, channels}, type, generator),
                     weight = drawn({channels, taps}, type, generator),
                     state = drawn({sequences, taps - 1, channels}, type, generator);
        const gpu::Tensor w = there(weight, type);
        gpu::ConvolutionOptions o;
        o.activation = "silu", o.state = there(state, type), o.cu_seqlens = offsets;
        const auto all = gpu::short_convolution(there(x, type), w, o);
        const auto all_grad = gpu::short_convolution_grad(there(x, type), w, there(dy, type), o);
        for (Index i = 0; i < sequences; ++i) {
            const Index from = offsets[static_cast<std::size_t>(i)], to = offsets[static_cast<std::size_t>(i) + 1];
            gpu::ConvolutionOptions alone = o;
            alone.cu_seqlens.clear(), alone.state = there(slice(state, 0, i, i + 1), type);
            const gpu::Tensor part = there(rows(x, from, to), type);
            const auto one = gpu::short_convolution(part, w, alone);
            const auto one_grad = gpu::short_convolution_grad(part, w, there(rows(dy, from, to), type), alone);
            CAPTURE(name(type), i);
            CHECK(same_bits(rows(all.y.cpu(), from, to), one.y.cpu()));
            CHECK(same_bits(slice(all.state.cpu(), 0, i, i + 1), one.state.cpu()));
            CHECK(same_bits(rows(all_grad.dx.cpu(), from, to), one_grad.dx.cpu()));
            CHECK(same_bits(slice(all_grad.dstate.cpu(), 0, i, i + 1), one_grad.dstate.cpu()));
        }
        // In two parts, the second from the state of the first.
        gpu::ConvolutionOptions plain;
        const auto whole = gpu::short_convolution(there(x, type), w, plain);
        const auto head = gpu::short_convolution(there(rows(x, 0, 2), type), w, plain);
        plain.state = head.state;
        const auto tail = gpu::short_convolution(there(rows(x, 2, N), type), w, plain);
        CHECK(same_bits(rows(whole.y.cpu(), 0, 2), head.y.cpu()));
        CHECK(same_bits(rows(whole.y.cpu(), 2, N), tail.y.cpu()));
        CHECK(same_bits(whole.state.cpu(), tail.state.cpu()));
    }
}

TEST_CASE("norms on the GPU are those of the CPU, with their gradients", "[gpu][gpu-around]") {
    if (!on_gpu()) return;
    std::mt19937_64 generator(random::seed());
    for (const DType type : types) {
        for (const Shape& shape : {Shape{7}, Shape{3, 5}, Shape{2, 3, 70, 128}, Shape{700, 33}, Shape{2, 0, 8}}) {
            const Tensor x = drawn(shape, type, generator), dy = drawn(shape, type, generator),
                         gate = drawn(shape, DType::f32, generator, 3),
                         weight = drawn({shape.back()}, DType::f32, generator);
            const gpu::Tensor X = there(x, type), dY = there(dy, type);
            LengthOptions length;
            gpu::LengthOptions length_there;
            length.eps = length_there.eps = 1e-3;
            check_near("l2norm", gpu::l2norm(X, length_there), l2norm(x, length), type);
            check_near("its gradient", gpu::l2norm_grad(X, dY, length_there), l2norm_grad(x, dy, length), type);
            for (const char* activation : {"silu", "sigmoid"}) {
                for (const bool all : {false, true}) {
                    NormOptions o;
                    gpu::NormOptions og;
                    o.activation = og.activation = activation;
                    if (all) {
                        o.weight = weight, o.gate = gate;
                        og.weight = there(weight, DType::f32), og.gate = there(gate, DType::f32);
                    }
                    check_near("rms_norm", gpu::rms_norm(X, og), rms_norm(x, o), type);
                    const auto want = rms_norm_grad(x, dy, o);
                    const auto got = gpu::rms_norm_grad(X, dY, og);
                    check_near("dx", got.dx, want.dx, type);
                    REQUIRE(got.dweight.has_value() == all);
                    REQUIRE(got.dgate.has_value() == all);
                    if (!all) continue;
                    check_near("dweight", *got.dweight, *want.dweight, DType::f32);
                    check_near("dgate", *got.dgate, *want.dgate, DType::f32);
                }
            }
        }
    }
}

TEST_CASE("decay gates on the GPU are those of the CPU, with their gradients", "[gpu][gpu-around]") {
    if (!on_gpu()) return;
    std::mt19937_64 generator(random::seed());
    for (const DType type : types) {
        for (const Shape& shape : {Shape{3, 50}, Shape{2, 4, 700}, Shape{1, 3, 65, 20}, Shape{1, 2, 0}}) {
            const bool channels = shape.ndim() == 4;
            const Index heads = shape[shape.ndim() == 2 ? 0 : 1];
            const Tensor a = drawn(shape, type, generator, 4), dg = drawn(shape, type, generator),
                         A_log = drawn({heads}, DType::f32, generator),
                         bias = drawn(channels ? Shape{heads, shape[3]} : Shape{heads}, DType::f32, generator);
            for (const double bound : {0.0, -5.0}) {
                for (const bool biased : {false, true}) {
                    DecayGateOptions o;
                    gpu::DecayGateOptions og;
                    if (bound < 0) o.lower_bound = og.lower_bound = bound;
                    if (biased) o.dt_bias = bias, og.dt_bias = there(bias, DType::f32);
                    const gpu::Tensor A = there(a, type), rates = there(A_log, DType::f32);
                    check_near("g", gpu::decay_gate(A, rates, og), decay_gate(a, A_log, o), type);
                    const auto want = decay_gate_grad(a, A_log, dg, o);
                    const auto got = gpu::decay_gate_grad(A, rates, there(dg, type), og);
                    check_near("da", got.da, want.da, type);
                    check_near("dA_log", got.dA_log, want.dA_log, DType::f32);
                    REQUIRE(got.ddt_bias.has_value() == biased);
                    if (biased) check_near("ddt_bias", *got.ddt_bias, *want.ddt_bias, DType::f32);
                }
            }
        }
    }
}

TEST_CASE("what stands around linear attention refuses on the GPU what it refuses on the CPU", "[gpu][gpu-around]") {
    if (!on_gpu()) return;
    const auto zeros = [](const Shape& shape) { return gpu::Tensor::zeros(DType::f32, shape); };
    CHECK_THROWS_WITH(gpu::short_convolution(zeros({1, 5, 3}), zeros({4, 2})),
                      "weight: 4×2, expected 3×taps, a row for each channel of x");
    gpu::NormOptions o;
    o.weight = zeros({4});
    CHECK_THROWS_WITH(gpu::rms_norm(zeros({2, 3}), o), "weight: 4, expected 3");
    CHECK_THROWS_WITH(gpu::decay_gate(zeros({1, 2, 5}), zeros({3})), "A_log: 3, expected 2, one a head");
    CHECK_THROWS_WITH(gpu::l2norm_grad(zeros({2, 3}), zeros({2, 4})), "dy: 2×4, expected 2×3 like the output");
}
