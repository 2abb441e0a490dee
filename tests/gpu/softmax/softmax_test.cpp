// Softmax attention on the GPU against the definition in Float64 on the CPU.
#include "gpu/gradient/softmax.hpp"
#include "core/gradient/softmax_attention_grad.hpp"
#include "core/tensor/rearrange.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/softmax/decode.hpp"
#include "gpu/softmax/flash.hpp"
#include "gpu/tensor/tensor.hpp"
#include "tests/core/softmax/problems.hpp"
#include "tests/gpu/device.hpp"
#include "tests/proofs/rounding.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

// Where a tensor [batch, heads, N, width] lies on the GPU: as it is, or token by token ([batch, N, heads, width]), with
// `pad` columns of NaN after each row.
struct Layout {
    bool token_major = false;
    int pad = 0;

    gpu::Strides strides(const Shape& s) const {
        const Index w = s[3] + pad;
        if (token_major) return {s[1] * s[2] * w, w, s[1] * w};
        return {s[1] * s[2] * w, s[2] * w, w};
    }
    Index size(const Shape& s) const { return s[0] * s[1] * s[2] * (s[3] + pad); }

    template <class F>
    void each(const Shape& s, F&& f) const {  // f(index of the element as it is, where it lies)
        const gpu::Strides to = strides(s);
        Index i = 0;
        for (Index b = 0; b < s[0]; ++b)
            for (Index h = 0; h < s[1]; ++h)
                for (Index n = 0; n < s[2]; ++n)
                    for (Index e = 0; e < s[3]; ++e) f(i++, b * to.batch + h * to.head + n * to.token + e);
    }
    gpu::Tensor upload(const Tensor& x) const {
        Tensor lying(x.dtype(), {size(x.shape())});
        for (Index i = 0; i < lying.size(); ++i) lying.set(i, NAN);
        each(x.shape(), [&](Index from, Index to) { lying.set(to, x.get(from)); });
        return gpu::Tensor(lying);
    }
    // Fails the test where something was written between the rows.
    Tensor download(const gpu::Tensor& x, const Shape& s) const {
        const Tensor lying = x.cpu();
        Tensor out(lying.dtype(), s);
        Index numbers = 0, real = 0;
        each(s, [&](Index to, Index from) { out.set(to, lying.get(from)), real += !std::isnan(lying.get(from)); });
        for (Index i = 0; i < lying.size(); ++i) numbers += !std::isnan(lying.get(i));
        CHECK(numbers == real);
        return out;
    }
};

using Run = std::function<void(gpu::SoftmaxArgs&)>;

// Gives the call the workspace it asks for.
template <class Size, class Call>
Run with_workspace(Size size, Call call) {
    return [=](gpu::SoftmaxArgs& a) {
        const gpu::Stream stream;
        const gpu::Buffer workspace(size(a));
        a.workspace = {workspace.data(), workspace.bytes()};
        settle();
        call(a, stream);
        stream.wait();
    };
}
const Run flash = with_workspace(gpu::flash_attention_workspace, gpu::flash_attention);
const Run decoding = with_workspace(gpu::flash_decoding_workspace, gpu::flash_decoding);
Run portable(int splits) {
    return with_workspace(
        [=](const gpu::SoftmaxArgs& a) { return gpu::softmax::flash_portable_workspace(a, splits); },
        [=](const gpu::SoftmaxArgs& a, cudaStream_t s) { gpu::softmax::flash_portable(a, splits, s); });
}
Run fma_units(int splits) {
    return with_workspace([=](const gpu::SoftmaxArgs& a) { return gpu::softmax::decode_workspace(a, splits); },
                          [=](const gpu::SoftmaxArgs& a, cudaStream_t s) { gpu::softmax::decode(a, splits, s); });
}

SoftmaxResult on_device(const SoftmaxCase& c, const SoftmaxInputs& in, const Layout& layout, const Run& run) {
    const Poison poison;
    const gpu::Tensor q = layout.upload(in.q), k = layout.upload(in.k), v = layout.upload(in.v);
    const Shape shape{c.batch, c.heads * c.group, c.N, c.dv}, rows{c.batch, c.heads * c.group, c.N};
    const gpu::Tensor o(in.q.dtype(), {layout.size(shape)}), lse(DType::f32, rows);
    gpu::SoftmaxArgs a;
    a.q = q.data(), a.k = k.data(), a.v = v.data(), a.o = o.data(), a.lse = lse.as<float>();
    a.type = q.type(), a.batch = c.batch, a.heads = c.heads, a.N = c.N, a.M = c.M, a.group = static_cast<int>(c.group);
    a.d = static_cast<int>(c.d), a.dv = static_cast<int>(c.dv), a.causal = c.causal;
    a.scale = static_cast<float>(in.options.scale.value_or(1 / std::sqrt(static_cast<double>(c.d))));
    a.q_stride = layout.strides(in.q.shape()), a.k_stride = layout.strides(in.k.shape()),
    a.v_stride = layout.strides(in.v.shape());
    a.o_stride = layout.strides(shape);
    run(a);
    return {layout.download(o, shape), lse.cpu()};
}

// Relative error of O, and the largest error of a log-sum-exp. Rows that see no key must be 0 and -Inf; NaN never
// agrees.
void compare(const SoftmaxCase& c, const SoftmaxInputs& rounded, const SoftmaxResult& got) {
    const Index blind = c.causal ? std::max<Index>(0, c.N - c.M) : 0;
    SoftmaxInputs in = rounded.to(DType::f64);
    if (blind > 0) {
        Box box;
        for (int i = 0; i < 4; ++i) box.count[static_cast<std::size_t>(i)] = in.q.shape()[i];
        box.first[2] = blind, box.count[2] = c.N - blind;
        in.q = part(in.q, box);
    }
    in.options.scale = static_cast<float>(in.options.scale.value_or(1 / std::sqrt(static_cast<double>(c.d))));
    const SoftmaxResult want = in.run("standard");
    double error = 0, norm = 0, lse_error = 0;
    for (Index h = 0; h < c.batch * c.heads * c.group; ++h) {
        for (Index n = 0; n < c.N; ++n) {
            const double lse = got.lse.get(h * c.N + n),
                         expected = n < blind || c.M == 0 ? -INFINITY : want.lse.get(h * (c.N - blind) + n - blind);
            const double off = lse == expected ? 0 : std::abs(lse - expected) / (1 + std::abs(expected));
            if (!(off <= lse_error)) lse_error = off;
            for (Index e = 0; e < c.dv; ++e) {
                const double x = n < blind ? 0 : want.O.get((h * (c.N - blind) + n - blind) * c.dv + e),
                             y = got.O.get((h * c.N + n) * c.dv + e);
                error += (x - y) * (x - y), norm += x * x;
            }
        }
    }
    const DType type = got.O.dtype();
    CHECK(std::sqrt(error) <= std::sqrt(norm) * (type == DType::f32 ? 3e-6 : type == DType::f16 ? 6e-4 : 4.5e-3));
    CHECK(lse_error <= (type == DType::f32 ? 2e-6 : 4e-6));
}

void check_case(const SoftmaxCase& c, const Run& run, const Layout& layout = {},
                const std::vector<DType>& types = {DType::bf16, DType::f16, DType::f32}) {
    const SoftmaxInputs in = softmax_inputs(c);
    for (const DType type : types) {
        INFO(c << " " << name(type) << " token_major=" << layout.token_major << " pad=" << layout.pad);
        const SoftmaxInputs rounded = in.to(type);
        compare(c, rounded, on_device(c, rounded, layout, run));
    }
}

}  // namespace

TEST_CASE("gpu: flash attention is softmax attention, any length", "[gpu][softmax]") {
    if (!on_gpu()) return;
    unsigned seed = 1;
    for (const Index N : {1, 2, 17, 63, 64, 65, 97, 200, 1000}) {
        for (const bool causal : {true, false}) {
            check_case({1, 2, 1, N, N, 64, 64, causal, 1, false, seed++}, flash);
            check_case({1, 1, 1, N, N, 128, 128, causal, 2, false, seed++}, flash);
            check_case({2, 1, 1, N, N + 131, 128, 128, causal, 1, false, seed++}, flash);
        }
    }
    check_case({1, 1, 1, 70, 70, 256, 256, true, 1, false, 5}, flash);
    check_case({1, 1, 1, 70, 300, 256, 256, false, 1, false, 6}, flash);
}

TEST_CASE("gpu: flash attention on warpgroup products", "[gpu][softmax]") {
    if (!on_hopper()) return;
    const Run hopper = with_workspace([](const gpu::SoftmaxArgs&) { return 0; },
                                      [](const gpu::SoftmaxArgs& a, cudaStream_t s) {
                                          REQUIRE(gpu::softmax::hopper_reaches(a));
                                          gpu::softmax::flash_on_hopper(a, s);
                                      });
    const std::vector<DType> types{DType::bf16, DType::f16};
    unsigned seed = 1;
    for (const Index d : {64, 128}) {
        for (const Index N : {1, 17, 63, 64, 65, 127, 128, 129, 300, 1000}) {
            for (const bool causal : {true, false}) {
                check_case({1, 2, 1, N, N, d, d, causal, 1, false, seed++}, hopper, {}, types);
                check_case({2, 1, 2, N, N + 77, d, d, causal, 2, false, seed++}, hopper, {true, 8}, types);
            }
        }
        check_case({1, 2, 2, 300, 100, d, d, true, 1, false, seed++}, hopper, {false, 8},
                   types);  // 200 queries see nothing
        check_case({1, 2, 1, 300, 300, d, d, true, 60, true, seed++}, hopper, {}, types);
        check_case({1, 2, 3, 700, 900, d, d, true, 1, false, seed++}, flash, {}, types);
        const SoftmaxCase c{1, 2, 1, 200, 200, d, d, true, 1, false, 7};
        SoftmaxInputs in = softmax_inputs(c).to(DType::bf16);
        in.options.scale = -0.25;
        compare(c, in, on_device(c, in, {}, hopper));
    }
}

TEST_CASE("gpu: flash attention of every width, group and layout", "[gpu][softmax]") {
    if (!on_gpu()) return;
    const Layout layouts[] = {{}, {true, 8}, {false, 3}};
    unsigned seed = 1;
    for (const auto& [d, dv] : {std::pair<Index, Index>{1, 1},
                                {3, 5},
                                {8, 16},
                                {40, 64},
                                {64, 128},
                                {96, 80},
                                {120, 128},
                                {136, 8},
                                {192, 256},
                                {255, 129}}) {
        for (const Layout& layout : layouts) {
            check_case({2, 2, 1, 65, 97, d, dv, seed % 2 == 0, 1, false, seed}, flash, layout);
            check_case({1, 2, 3, 33, 130, d, dv, seed % 2 == 1, 1, false, seed}, flash, layout);
            ++seed;
        }
    }
}

TEST_CASE("gpu: flash attention with its keys split", "[gpu][softmax]") {
    if (!on_gpu()) return;
    unsigned seed = 1;
    for (const int splits : {2, 3, 7}) {
        for (const Index d : {64, 128, 200}) {
            check_case({1, 2, 1, 5, 1900, d, d, true, 1, false, seed++}, portable(splits));
            check_case({1, 1, 8, 2, 1900, d, 64, true, 2, false, seed++}, portable(splits), {true, 8});
            check_case({2, 1, 1, 100, 1000, d, d, false, 1, false, seed++}, portable(splits));
            check_case({1, 1, 1, 1500, 2000, d, d, true, 1, false, seed++}, portable(splits));
        }
    }
}

TEST_CASE("gpu: flash-decoding is softmax attention", "[gpu][softmax]") {
    if (!on_gpu()) return;
    unsigned seed = 1;
    for (const Index M : {1, 2, 17, 63, 64, 65, 97, 1000, 5000}) {
        for (const Index d : {64, 128, 256, 80}) {
            check_case({1, 3, 1, 1, M, d, d, true, 2, false, seed++}, decoding);
            check_case({2, 1, 4, 1, M, d, d, true, 1, false, seed++}, decoding, {true, 8});
            check_case({1, 1, 1, std::min<Index>(M, 3), M, d, 72, true, 1, false, seed++}, decoding, {false, 5});
            check_case({1, 2, 2, 1, M, d, d, false, 1, false, seed++}, decoding);
        }
    }
    for (const int splits : {1, 2, 9}) {
        check_case({1, 2, 1, 1, 3000, 128, 128, true, 2, false, seed++}, fma_units(splits));
        check_case({1, 2, 2, 2, 3000, 64, 64, true, 1, false, seed++}, fma_units(splits), {}, {DType::f32});
        check_case({1, 2, 1, 2, 3000, 250, 100, true, 1, false, seed++}, fma_units(splits), {}, {DType::f32});
    }
}

// Claims H5 and H11 on the GPU: an output of Float32 is within u(A Σ P|v| + B Σ P|v||ln w|). Scores are one factor
// each, so exact. The weights are powers of two of scores times log2 e, itself rounded, hence B = 2; the exponential is
// off by up to four roundings, hence 12 for the 6 of H5; partial results meet by their log-sum-exp, as in Algorithm 3.
TEST_CASE("gpu: softmax attention of small weights beside large values", "[gpu][softmax]") {
    if (!on_gpu()) return;
    std::mt19937_64 generator(14);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    const auto check = [](const std::vector<double>& s, const std::vector<std::vector<double>>& columns) {
        const auto M = static_cast<Index>(s.size()), dv = static_cast<Index>(columns.size());
        const SoftmaxCase c{1, 1, 1, 1, M, 8, dv, false, 1, false, 1};
        SoftmaxInputs in{Tensor::zeros(DType::f32, {1, 1, 1, 8}),
                         Tensor::zeros(DType::f32, {1, 1, M, 8}),
                         Tensor::zeros(DType::f32, {1, 1, M, dv}),
                         {}};
        in.options.causal = false, in.options.scale = 1;
        in.q.set(0, 1);
        double largest = 0;
        for (Index j = 0; j < M; ++j) {
            in.k.set(8 * j, s[static_cast<std::size_t>(j)]);
            largest = std::max(largest, std::abs(s[static_cast<std::size_t>(j)]));
            for (Index e = 0; e < dv; ++e)
                in.v.set(j * dv + e, columns[static_cast<std::size_t>(e)][static_cast<std::size_t>(j)]);
        }
        const std::pair<const char*, Run> forms[] = {
            {"flash attention", flash},           {"flash-decoding", decoding}, {"portable", portable(1)},
            {"portable, 2 splits", portable(2)},  {"FMA units", fma_units(1)},  {"FMA units, 2 splits", fma_units(2)},
            {"FMA units, 5 splits", fma_units(5)}};
        for (const auto& [name, run] : forms) {
            const Tensor O = on_device(c, in, {}, run).O;
            const proofs::Allowed allowed{
                12 * static_cast<double>(M + 5) + 8 * proofs::ln(M) + 20 + 2 * (largest + proofs::ln(M)), 2};
            for (Index e = 0; e < dv; ++e) {
                const double share =
                    proofs::Attended(s, columns[static_cast<std::size_t>(e)]).share(O.get(e), 0x1p-24, allowed);
                INFO(name << ", " << M << " keys, column " << e << ": error over the bound " << share);
                CHECK(share <= 1);
            }
        }
    };
    // Two keys, the one of little weight with all of the value.
    check({0.5527305603027344, -64.77970886230469}, {{0, 1}, {0, -1}});
    check({-64.5, 0.5 + 0x1p-18}, {{1, 0}, {-1, 1e-25}});
    for (const Index M : {2, 5, 30, 100}) {
        std::vector<double> s;
        std::vector<std::vector<double>> v(3);  // of one sign, of both, and such that neighbours cancel
        for (Index j = 0; j < M; ++j) {
            const double down = j % 3 == 0 ? 0.3 * uniform(generator) : 80 * uniform(generator);
            s.push_back(static_cast<float>(5 - down));
            const double size = std::exp(down - (j % 3 == 0 ? 80 * uniform(generator) : 0));
            v[0].push_back(static_cast<float>(size * uniform(generator)));
            v[1].push_back(static_cast<float>(size * normal(generator)));
            const auto at = static_cast<std::size_t>(j);
            v[2].push_back(j % 2 ? static_cast<float>(-v[2][at - 1] * std::exp(s[at - 1] - s[at])) : v[1][at]);
        }
        check(s, v);
    }
}

TEST_CASE("gpu: softmax attention of large scores and of rows without keys", "[gpu][softmax]") {
    if (!on_gpu()) return;
    for (const Run& run : {flash, decoding, portable(2)}) {
        check_case({1, 2, 1, 300, 300, 128, 128, true, 60, true, 1}, run);  // scores of some 10⁴
        check_case({1, 2, 1, 1, 3000, 128, 128, true, 60, true, 2}, run);
        check_case({1, 2, 2, 300, 100, 64, 64, true, 1, false, 3}, run);  // 200 queries see nothing
        check_case({1, 2, 1, 4, 0, 64, 64, false, 1, false, 4}, run);
        check_case({2, 2, 1, 3, 2, 128, 128, true, 1, false, 5}, run);
        check_case({1, 1, 1, 0, 20, 64, 64, true, 1, false, 6}, run);
    }
    SoftmaxCase c{1, 2, 1, 90, 90, 64, 64, true, 1, false, 7};
    SoftmaxInputs in = softmax_inputs(c);
    in.options.scale = -0.25;
    for (const DType type : {DType::bf16, DType::f16, DType::f32})
        compare(c, in.to(type), on_device(c, in.to(type), {}, flash));
    in.options.scale = 0;
    for (const DType type : {DType::bf16, DType::f16, DType::f32})
        compare(c, in.to(type), on_device(c, in.to(type), {}, flash));
}

namespace {

using Backward = void (*)(const gpu::SoftmaxGradArgs&, cudaStream_t);

// Forward and backward on the GPU against the definition in Float64 of the inputs as rounded.
void check_gradient(const SoftmaxCase& c, const Layout& layout = {}, Backward backward = gpu::flash_attention_grad) {
    SoftmaxInputs exact = softmax_inputs(c);
    exact.options.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c.d)));
    SoftmaxCase like = c;
    like.seed += 1000, like.d = c.dv, like.size = 1;
    const Tensor exact_dO = softmax_inputs(like).q;
    for (const DType type : {DType::bf16, DType::f16, DType::f32}) {
        INFO(c << " " << name(type) << " token_major=" << layout.token_major << " pad=" << layout.pad);
        const SoftmaxInputs in = exact.to(type), wide = in.to(DType::f64);
        const Tensor dO = exact_dO.to(type);
        const Poison poison;
        const gpu::Stream stream;
        const gpu::Tensor q = layout.upload(in.q), k = layout.upload(in.k), v = layout.upload(in.v),
                          g = layout.upload(dO);
        const gpu::Tensor o(type, {layout.size(dO.shape())}), lse(DType::f32, {c.batch, c.heads * c.group, c.N});
        const gpu::Tensor dq(type, {layout.size(in.q.shape())}), dk(type, {layout.size(in.k.shape())}),
            dv(type, {layout.size(in.v.shape())});
        gpu::SoftmaxGradArgs a;
        a.in.q = q.data(), a.in.k = k.data(), a.in.v = v.data(), a.in.o = o.data(), a.in.lse = lse.as<float>(),
        a.dO = g.data();
        a.dq = dq.data(), a.dk = dk.data(), a.dv = dv.data();
        a.in.type = q.type(), a.in.batch = c.batch, a.in.heads = c.heads, a.in.N = c.N, a.in.M = c.M,
        a.in.group = static_cast<int>(c.group);
        a.in.d = static_cast<int>(c.d), a.in.dv = static_cast<int>(c.dv), a.in.causal = c.causal,
        a.in.scale = static_cast<float>(*in.options.scale);
        a.in.q_stride = layout.strides(in.q.shape()), a.in.k_stride = layout.strides(in.k.shape()),
        a.in.v_stride = layout.strides(in.v.shape());
        a.in.o_stride = layout.strides(dO.shape());
        flash(a.in);
        const gpu::Buffer workspace(gpu::flash_attention_grad_workspace(a));
        a.in.workspace = {workspace.data(), workspace.bytes()};
        settle();
        backward(a, stream);
        stream.wait();
        SoftmaxOptions options = wide.options;
        options.method = "standard";
        const SoftmaxGradient want = softmax_attention_grad(wide.q, wide.k, wide.v, dO.to(DType::f64), options);
        for (const auto& [got, expected] : {std::pair{layout.download(dq, in.q.shape()), want.dq},
                                            {layout.download(dk, in.k.shape()), want.dk},
                                            {layout.download(dv, in.v.shape()), want.dv}}) {
            double error = 0, norm = 0;
            for (Index i = 0; i < got.size(); ++i)
                error += std::pow(got.get(i) - expected.get(i), 2), norm += std::pow(expected.get(i), 2);
            CHECK(std::sqrt(error) <= std::sqrt(norm) * (type == DType::f32   ? 1e-5
                                                         : type == DType::f16 ? 1.5e-3
                                                                              : 1e-2) +
                                          1e-6);
        }
    }
}

}  // namespace

TEST_CASE("gpu: gradients of softmax attention", "[gpu][softmax][gradient]") {
    if (!on_gpu()) return;
    unsigned seed = 1;
    for (const Index N : {2, 17, 63, 64, 65, 97, 200}) {
        for (const bool causal : {true, false}) {
            for (const Backward backward : {gpu::flash_attention_grad, gpu::softmax::gradient_portable}) {
                check_gradient({1, 2, 1, N, N, 64, 64, causal, 1, false, seed++}, {}, backward);
                check_gradient({1, 1, 2, N, N + 50, 128, 128, causal, 1, false, seed++}, {true, 8}, backward);
            }
        }
    }
    // Several tiles of queries and of keys.
    for (const Index d : {64, 128}) {
        for (const auto& [N, M] : {std::pair<Index, Index>{128, 128}, {129, 300}, {300, 129}, {1, 257}, {384, 511}}) {
            for (const bool causal : {true, false}) {
                if (causal && N > M) continue;
                check_gradient({1, 2, 1, N, M, d, d, causal, 1, false, seed++}, {seed % 2 == 0, 0});
                check_gradient({2, 1, 3, N, M, d, d, causal, 1, false, seed++}, {seed % 2 == 0, 8});
            }
        }
    }
    for (const auto& [d, dv] :
         {std::pair<Index, Index>{1, 1}, {3, 5}, {40, 64}, {96, 80}, {136, 8}, {192, 256}, {255, 129}}) {
        check_gradient({2, 2, 3, 33, 70, d, dv, seed % 2 == 0, 1, false, seed}, {false, 3});
        ++seed;
    }
}

TEST_CASE("gpu: many heads, and the same output in every run", "[gpu][softmax]") {
    if (!on_gpu()) return;
    check_case({70000, 1, 1, 1, 3, 8, 8, true, 1, false, 1}, decoding, {}, {DType::f16});
    check_case({300, 240, 1, 2, 3, 8, 8, true, 1, false, 2}, flash, {}, {DType::bf16});
    const SoftmaxCase c{1, 2, 1, 1, 4000, 128, 128, true, 1, false, 3};
    const SoftmaxInputs in = softmax_inputs(c).to(DType::bf16);
    const SoftmaxResult once = on_device(c, in, {}, decoding), again = on_device(c, in, {}, decoding);
    for (Index i = 0; i < once.O.size(); ++i) REQUIRE(once.O.get(i) == again.O.get(i));
}

TEST_CASE("gpu: softmax attention says what is wrong", "[gpu][softmax]") {
    if (!on_gpu()) return;
    gpu::SoftmaxArgs a;
    a.N = a.M = 4, a.d = 300, a.dv = 8;
    CHECK_THROWS_WITH(gpu::flash_attention(a, nullptr), "flash_attention: d and dv are 300 and 8, expected 1 to 256");
    a.d = 8, a.group = 0;
    CHECK_THROWS_WITH(gpu::flash_decoding(a, nullptr), "flash_decoding: a group of 0 heads, expected at least 1");
    a.group = 1, a.M = 100000;
    CHECK_THROWS_AS(gpu::flash_decoding(a, nullptr), Error);  // no workspace
}
