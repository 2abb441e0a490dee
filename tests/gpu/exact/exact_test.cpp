// Every method of the GPU against the CPU's definition in Float64; the state carried over; normalised attention; bad
// arguments.
#include <algorithm>
#include <cmath>

#include "gpu/base/buffer.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/exact/causal_linear_attention.hpp"
#include "gpu/exact/normalize.hpp"
#include "gpu/exact/register_tile.hpp"
#include "gpu/exact/registry.hpp"
#include "gpu/gradient/causal_linear_attention_grad.hpp"
#include "gpu/tensor/tensor.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/gpu/device.hpp"

using namespace causeway;

namespace {

using gpu::CausalMethod;

// Inputs and outputs of a call on the GPU: [batch, heads, N, width], or [batch, N, heads, width] where `token_major`.
struct OnGpu {
    gpu::Tensor q, k, v, o, state, z;
    gpu::Buffer workspace;
    gpu::CausalArgs args;
    bool token_major;

    static Tensor swapped(const Tensor& A) {  // the axes of heads and tokens
        const Shape& s = A.shape();
        Tensor out(A.dtype(), {s[0], s[2], s[1], s[3]});
        for (Index b = 0; b < s[0]; ++b)
            for (Index h = 0; h < s[1]; ++h)
                for (Index n = 0; n < s[2]; ++n)
                    for (Index e = 0; e < s[3]; ++e)
                        out.set(((b * s[2] + n) * s[1] + h) * s[3] + e, A.get(((b * s[1] + h) * s[2] + n) * s[3] + e));
        return out;
    }

    OnGpu(const test::Case& c, const test::Inputs& in, DType type, bool tokens_first, const Tensor* start = nullptr,
          const Tensor* z_start = nullptr)
        : token_major(tokens_first) {
        const auto up = [&](const Tensor& A) { return gpu::Tensor((token_major ? swapped(A) : A).to(type)); };
        q = up(in.B), k = up(in.C), v = up(in.V);
        o = gpu::Tensor(type, v.shape());
        if (start) state = gpu::Tensor(*start);
        if (z_start) z = gpu::Tensor(*z_start);
        args.q = q.data(), args.k = k.data(), args.v = v.data(), args.o = o.data();
        args.type = q.type(), args.B = c.batch, args.H = c.heads, args.N = c.N;
        args.r = static_cast<int>(c.r), args.d = static_cast<int>(c.d);
        const auto strides = [&](Index width) {
            return token_major ? gpu::Strides{c.N * c.heads * width, width, c.heads * width}
                               : gpu::contiguous(c.heads, c.N, static_cast<int>(width));
        };
        args.q_stride = args.k_stride = strides(c.r), args.v_stride = args.o_stride = strides(c.d);
        args.gamma = c.decay.empty() ? nullptr : c.decay.data();
        args.state = start ? state.as<float>() : nullptr;
    }

    Tensor run(const CausalMethod& m, bool normalize = false) {
        const gpu::Stream stream;
        workspace = gpu::Buffer(std::max(m.workspace(args), normalize ? gpu::normalize_workspace(args) : 0));
        args.workspace = {workspace.data(), workspace.bytes()};
        test::settle();
        m.run(args, stream);
        if (normalize) gpu::normalize(args, stream, z.size() > 0 ? z.as<float>() : nullptr);
        const Tensor out = o.cpu(stream);
        return token_major ? swapped(out) : out;
    }

    // FleetAttention or causal-dot-product on a sequence that is cut so.
    Tensor run(const gpu::tile::Cut& cut, bool fleet) {
        workspace = gpu::Buffer(gpu::tile::workspace(args, cut));
        args.workspace = {workspace.data(), workspace.bytes()};
        test::settle();
        (fleet ? gpu::tile::fleet : gpu::tile::causal_dot_product)(args, cut, nullptr);
        const Tensor out = o.cpu();
        return token_major ? swapped(out) : out;
    }
};

// Relative Frobenius distance; infinite where a number is not finite.
double distance(const Tensor& got, const std::vector<double>& want, double least) {
    double error = 0, norm = 0;
    for (Index i = 0; i < got.size(); ++i) {
        const double x = got.get(i), y = want[static_cast<std::size_t>(i)];
        if (!std::isfinite(x)) return INFINITY;
        error += (x - y) * (x - y), norm += y * y;
    }
    norm = std::max(norm, least);
    return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
}

std::vector<double> expected(const test::Oracle& oracle, const test::Case& c) {
    std::vector<double> out;
    for (Index row = 0; row < c.batch * c.heads * c.N; ++row)
        for (Index e = 0; e < c.d; ++e) out.push_back(oracle.expected(row, e));
    return out;
}

// Few numbers may all be rounded by the most; single scores may cancel, so a row's own term counts for |q||k||v|.
double bound(const CausalMethod& m, DType type) {
    if (type == DType::bf16) return 8e-3;
    if (type == DType::f16) return 1.5e-3;
    return m.f32_error;
}

double least(const test::Inputs& in, const test::Case& c) {
    const auto mean = [](const Tensor& A) {
        double sum = 0;
        for (Index i = 0; i < A.size(); ++i) sum += A.get(i) * A.get(i);
        return sum / static_cast<double>(std::max<Index>(A.size(), 1));
    };
    return mean(in.B) * mean(in.C) * mean(in.V) * static_cast<double>(c.batch * c.heads * c.N * c.d * c.r);
}

test::Inputs rounded(const test::Inputs& in, DType type) {
    return {in.B.to(type).to(DType::f64), in.C.to(type).to(DType::f64), in.V.to(type).to(DType::f64)};
}

const std::vector<test::Case>& cases() {
    static const std::vector<double> mixed = {0.9, 1.0, 1e-4};
    static const std::vector<test::Case> list = {
        {1, 1, 1, 64, 64, {}, false, 1},
        {1, 3, 2, 128, 128, mixed, false, 2},
        {2, 3, 17, 40, 72, mixed, false, 3},
        {1, 1, 63, 128, 128, {}, false, 4},
        {2, 2, 64, 64, 32, {}, false, 5},
        {1, 3, 65, 128, 64, mixed, false, 6},
        {1, 3, 97, 3, 5, mixed, false, 7},
        {2, 3, 97, 31, 33, mixed, false, 8},
        {1, 2, 300, 130, 40, {}, false, 9},
        {1, 3, 300, 16, 200, mixed, false, 10},
        {1, 2, 300, 256, 24, {0.99, 1e-30}, false, 11},
        {3, 2, 40, 1, 1, {0.5, 0.25}, false, 12},
    };
    return list;
}

}  // namespace

TEST_CASE("GPU: every method of causal linear attention agrees with Float64", "[gpu][gpu-exact]") {
    if (!test::on_gpu()) return;
    const test::Poison poison;
    for (const test::Case& c : cases()) {
        for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
            const test::Inputs in = rounded(test::inputs(c, DType::f64), type);
            const std::vector<double> want = expected(test::Oracle(c, in), c);
            for (const CausalMethod& m : gpu::causal_methods()) {
                const bool token_major = c.seed % 2 == 0;
                CAPTURE(m.name, c, name(type), token_major);
                OnGpu on(c, in, type, token_major);
                CHECK(distance(on.run(m), want, least(in, c)) <= bound(m, type));
            }
        }
    }
}

TEST_CASE("GPU: causal linear attention split over the sequence gives the same", "[gpu][gpu-exact]") {
    if (!test::on_gpu()) return;
    const test::Poison poison;
    const test::Case c{2, 3, 250, 40, 72, {0.95, 1.0, 1e-4}, false, 21};
    const test::Inputs in = rounded(test::inputs(c, DType::f64), DType::f32);
    const std::vector<double> want = expected(test::Oracle(c, in), c);
    for (const char* name : {"causal-dot-product", "fleet"}) {
        for (const int pieces : {2, 3, 7, 100}) {
            CAPTURE(name, pieces);
            OnGpu on(c, in, DType::f32, false);
            on.args.splits = pieces;
            CHECK(distance(on.run(gpu::causal_method(name)), want, 0) <= 6e-6);
        }
    }
}

TEST_CASE("GPU: FleetAttention and causal-dot-product cut in every way", "[gpu][gpu-exact]") {
    if (!test::on_gpu()) return;
    const test::Poison poison;
    const auto numbers = [](const Tensor& x) {
        std::vector<double> out;
        for (Index i = 0; i < x.size(); ++i) out.push_back(x.get(i));
        return out;
    };
    unsigned seed = 40;
    for (const auto& [r, d] : {std::pair<Index, Index>{128, 128}, {96, 72}, {66, 34}, {127, 61}}) {
        for (const Index N : {1, 15, 16, 33, 250}) {
            const test::Case c{2, 4, N, r, d, {0.95, 1.0, 1e-4, 0.5}, false, ++seed};
            for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
                const test::Inputs in = rounded(test::inputs(c, DType::f64), type);
                Tensor start(DType::f32, {2, 4, r, d});
                for (Index i = 0; i < start.size(); ++i) start.set(i, 0.1 * std::sin(static_cast<double>(i)));
                CausalOptions o = test::options(c, "row-based");
                o.state = start.to(DType::f64), o.return_state = true;
                const auto exact = causal_linear_attention(in.B, in.C, in.V, o);
                const std::vector<double> want = numbers(exact.O), want_state = numbers(exact.state);
                const auto agrees = [&](int segments, int pieces, bool wide, bool fleet, gpu::Precision precision) {
                    OnGpu on(c, in, type, seed % 2 == 0, &start);
                    on.args.precision = precision;
                    if (wide && !gpu::tile::may_be_wide(on.args)) return;  // a GPU with less shared memory
                    const gpu::tile::Cut cut = gpu::tile::cut_into(on.args, segments, pieces, wide);
                    CAPTURE(c, name(type), segments, pieces, wide, fleet, precision);
                    CHECK(distance(on.run(cut, fleet), want, 0) <= bound(gpu::causal_method("fleet"), type));
                    CHECK(distance(on.state.cpu(), want_state, 0) <= 6e-6);
                };
                for (const auto& [segments, pieces] : {std::pair<int, int>{1, 1}, {2, 1}, {3, 2}, {2, 4}, {100, 1}}) {
                    for (const bool wide : {false, true}) {
                        for (const bool fleet : {false, true}) {
                            agrees(segments, pieces, wide, fleet, gpu::Precision::exact);
                            if (type == DType::f32) agrees(segments, pieces, wide, fleet, default_precision);
                        }
                    }
                }
            }
        }
    }
}

TEST_CASE("GPU: FleetAttention with Inf that is out of sight", "[gpu][gpu-exact]") {
    if (!test::on_gpu()) return;
    const test::Poison poison;
    const test::Case c{1, 1, 600, 64, 64, {0.3}, false, 42};
    for (const gpu::Precision precision : {gpu::Precision::exact, default_precision}) {
        test::Inputs in = rounded(test::inputs(c, DType::f64), DType::f32);
        in.C.set(200 * 64 + 3, INFINITY);  // in the state before token 208, and 0.3^208 of it in that before 416 is 0
        OnGpu on(c, in, DType::f32, false);
        on.args.precision = precision;
        const gpu::tile::Cut cut = gpu::tile::cut_into(on.args, 3, 1, false);
        REQUIRE(cut.piece == 208);
        const Tensor O = on.run(cut, true);
        for (Index i = 0; i < O.size(); ++i) {
            const Index token = i / 64;
            CAPTURE(precision, token);
            if (token < 200 || token >= 416) CHECK(std::isfinite(O.get(i)));
            if (token >= 200 && token < 220) CHECK_FALSE(std::isfinite(O.get(i)));
        }
    }
}

TEST_CASE("GPU: FleetAttention with Inf and NaN before a cut", "[gpu][gpu-exact]") {
    if (!test::on_gpu()) return;
    const test::Poison poison;
    const test::Case c{1, 2, 200, 128, 64, {}, false, 41};
    for (const gpu::Precision precision : {gpu::Precision::exact, default_precision}) {
        test::Inputs in = rounded(test::inputs(c, DType::f64), DType::f32);
        in.C.set(20 * 128 + 3, INFINITY);    // of the first head: k, rank 3
        in.V.set((200 + 90) * 64 + 5, NAN);  // of the second: v, column 5
        OnGpu on(c, in, DType::f32, false);
        on.args.precision = precision;
        const gpu::tile::Cut cut = gpu::tile::cut_into(on.args, 2, 2, true);
        const Tensor O = on.run(cut, true);
        CAPTURE(precision);
        for (Index token = 0; token < 200; ++token) {
            for (Index column = 0; column < 64; ++column) {
                const double first = O.get(token * 64 + column), second = O.get((200 + token) * 64 + column);
                CAPTURE(token, column);
                // q_3 · (Inf · v) has the signs of both factors while one term alone is not finite.
                if (token < 20) CHECK(std::isfinite(first));
                else CHECK_FALSE(std::isfinite(first));
                if (token >= 20 && token < 30) CHECK(std::isinf(first));
                CHECK(std::isnan(second) == (token >= 90 && column == 5));
            }
        }
        // Behind the cut too the one infinite term is Inf, not NaN.
        CHECK(std::isinf(O.get(150 * 64)));
    }
}

TEST_CASE("GPU: the state of causal linear attention carries over", "[gpu][gpu-exact]") {
    if (!test::on_gpu()) return;
    const test::Poison poison;
    const test::Case whole{2, 3, 261, 40, 72, {0.97, 1.0, 1e-4}, false, 31};
    const test::Inputs in = rounded(test::inputs(whole, DType::f64), DType::f32);
    const std::vector<double> want = expected(test::Oracle(whole, in), whole);
    CausalOptions o = test::options(whole, "row-based");
    o.return_state = true;
    const Tensor last = causal_linear_attention(in.B, in.C, in.V, o).state;
    std::vector<double> want_state;
    for (Index i = 0; i < last.size(); ++i) want_state.push_back(last.get(i));
    const auto part = [&](const Tensor& A, Index from, Index n) {
        const Shape& s = A.shape();
        Tensor out(A.dtype(), {s[0], s[1], n, s[3]});
        for (Index h = 0; h < s[0] * s[1]; ++h)
            for (Index i = 0; i < n * s[3]; ++i) out.set(h * n * s[3] + i, A.get((h * s[2] + from) * s[3] + i));
        return out;
    };
    for (const CausalMethod& m : gpu::causal_methods()) {
        if (!m.state) continue;
        for (const int pieces : {0, 3}) {
            CAPTURE(m.name, pieces);
            Tensor state = Tensor::zeros(DType::f32, {2, 3, 40, 72}), joined(DType::f32, in.V.shape());
            Index from = 0;
            for (const Index n : {100, 1, 160}) {
                test::Case c = whole;
                c.N = n;
                OnGpu on(c, {part(in.B, from, n), part(in.C, from, n), part(in.V, from, n)}, DType::f32, false, &state);
                on.args.splits = pieces;
                const Tensor O = on.run(m);
                state = on.state.cpu();
                for (Index h = 0; h < 6; ++h)
                    for (Index i = 0; i < n * 72; ++i) joined.set((h * 261 + from) * 72 + i, O.get(h * n * 72 + i));
                from += n;
            }
            CHECK(distance(joined, want, 0) <= std::min(m.f32_error, 1e-5));
            CHECK(distance(state, want_state, 0) <= 6e-6);
        }
    }
}

TEST_CASE("GPU: fleet-untiled over several splits of tokens, in a workspace that does not grow with them",
          "[gpu][gpu-exact][gpu-fleet]") {
    if (!test::on_gpu()) return;
    const test::Poison poison;
    const CausalMethod& m = gpu::causal_method("fleet-untiled");
    // Splits of 2^24 / (256 + 4) = 64527 tokens at most; then heads several to a split, and more of them than go
    // into one.
    for (const test::Case& c :
         std::vector<test::Case>{{1, 2, 140001, 256, 3, {0.9999, 1.0}, false, 71}, {7, 43, 37, 5, 6, {}, false, 72}}) {
        for (const bool token_major : {false, true}) {
            CAPTURE(c, token_major);
            const test::Inputs in = rounded(test::inputs(c, DType::f64), DType::f32);
            Tensor start(DType::f32, {c.batch, c.heads, c.r, c.d});
            for (Index i = 0; i < start.size(); ++i) start.set(i, std::sin(static_cast<double>(i)));
            CausalOptions o = test::options(c, "row-based");
            o.return_state = true, o.state = start.to(DType::f64);
            const CausalResult want = causal_linear_attention(in.B, in.C, in.V, o);
            const auto numbers = [](const Tensor& A) {
                std::vector<double> x;
                for (Index i = 0; i < A.size(); ++i) x.push_back(A.get(i));
                return x;
            };
            OnGpu on(c, in, DType::f32, token_major, &start);
            CHECK(distance(on.run(m), numbers(want.O), 0) <= 6e-6);
            CHECK(distance(on.state.cpu(), numbers(want.state), 0) <= 6e-6);
        }
    }
    gpu::CausalArgs large;
    large.B = 16, large.H = 32, large.N = 100000, large.r = large.d = 128;
    CHECK(m.workspace(large) < 160 << 20);
}

TEST_CASE("GPU: outputs divided by the row sums are those of normalised attention", "[gpu][gpu-exact]") {
    if (!test::on_gpu()) return;
    const test::Poison poison;
    for (test::Case c : cases()) {
        c.normalize = true;
        for (const DType type : {DType::f32, DType::bf16}) {
            const test::Inputs in = rounded(test::inputs(c, DType::f64), type);
            CausalOptions options = test::options(c, "row-based");
            options.return_state = true;
            const CausalResult core = causal_linear_attention(in.B, in.C, in.V, options);
            std::vector<double> want, z;
            for (Index i = 0; i < core.O.size(); ++i) want.push_back(core.O.get(i));
            for (Index i = 0; i < c.batch * c.heads * c.r; ++i) z.push_back(core.state.get(i * (c.d + 1) + c.d));
            CAPTURE(c, name(type));
            const Tensor nothing = Tensor::zeros(DType::f32, {c.batch, c.heads, c.r});
            OnGpu on(c, in, type, c.seed % 2 == 0, nullptr, &nothing);
            CHECK(distance(on.run(gpu::causal_method("causal-dot-product"), true), want, 0) <=
                  (type == DType::f32 ? 6e-6 : 8e-3));
            CHECK(distance(on.z.cpu(), z, 0) <= 6e-6);
        }
    }
}

TEST_CASE("GPU: normalised attention carries its sum of keys over, and divides by 0 as core does", "[gpu][gpu-exact]") {
    if (!test::on_gpu()) return;
    const test::Case c{1, 2, 1, 4, 3, {0.5, 1.0}, true, 41};
    test::Inputs in{Tensor::full(DType::f64, {1, 2, 1, 4}, 1), Tensor::full(DType::f64, {1, 2, 1, 4}, 2),
                    Tensor::full(DType::f64, {1, 2, 1, 3}, 3)};
    const Tensor before = Tensor::full(DType::f32, {1, 2, 4}, 6);
    OnGpu on(c, in, DType::f32, false, nullptr, &before);
    const Tensor O = on.run(gpu::causal_method("fleet"), true), z = on.z.cpu();
    for (Index h = 0; h < 2; ++h) {
        const double sum = 2 + (h == 0 ? 3 : 6);
        CHECK(z.get(h * 4) == test::Approx(sum));
        CHECK(O.get(h * 3) == test::Approx(4 * 2 * 3 / (4 * sum)));
    }
    in.C = Tensor::zeros(DType::f64, {1, 2, 1, 4});
    OnGpu zero(c, in, DType::f32, false);
    const Tensor nan = zero.run(gpu::causal_method("fleet"), true),
                 core = causal_linear_attention(in.B, in.C, in.V, test::options(c, "row-based")).O;
    for (Index i = 0; i < 6; ++i) CHECK(std::isnan(nan.get(i)) == std::isnan(core.get(i)));
    CHECK(std::isnan(nan.get(0)));
}

TEST_CASE("GPU: methods of causal linear attention work in a graph, replayed on new inputs", "[gpu][gpu-exact]") {
    if (!test::on_gpu()) return;
    const test::Case c{1, 2, 150, 32, 48, {0.9, 1.0}, false, 51};
    test::Case other = c;
    other.seed = 52;
    const test::Inputs in = rounded(test::inputs(c, DType::f64), DType::f32),
                       then = rounded(test::inputs(other, DType::f64), DType::f32);
    const std::vector<double> want = expected(test::Oracle(other, then), other);
    for (const CausalMethod& m : gpu::causal_methods()) {
        CAPTURE(m.name);
        OnGpu on(c, in, DType::f32, false);
        on.run(m);  // what is made at the first use is made
        const gpu::Stream stream;
        cudaGraph_t graph;
        cudaGraphExec_t run;
        gpu::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing a graph");
        m.run(on.args, stream);
        gpu::check(cudaStreamEndCapture(stream, &graph), "capturing a graph");
        gpu::check(cudaGraphInstantiate(&run, graph, 0), "instantiating a graph");
        const auto copy = [](const gpu::Tensor& to, const Tensor& from) {
            gpu::check(cudaMemcpy(to.data(), from.to(DType::f32).raw(), to.bytes(), cudaMemcpyHostToDevice),
                       "copying to the GPU");
        };
        copy(on.q, then.B), copy(on.k, then.C), copy(on.v, then.V);
        test::settle();
        gpu::check(cudaGraphLaunch(run, stream), "launching a graph");
        CHECK(distance(on.o.cpu(stream), want, 0) <= bound(m, DType::f32));
        cudaGraphExecDestroy(run);
        cudaGraphDestroy(graph);
    }
}

TEST_CASE("GPU: a block is taken where the method has one of any length, and refused in one sentence elsewhere",
          "[gpu][gpu-exact][gpu-forms]") {
    const auto chosen = [](const char* method, Index block) { return gpu::method_for(method, block).name; };
    CHECK(gpu::method_for("auto", {}).name == "lightning-attention-2");
    CHECK(chosen("auto", 64) == "lightning-attention-2");
    CHECK(chosen("auto", 32) == "block-based");
    CHECK(chosen("LA", 64) == "lightning-attention-2");
    for (const CausalMethod& m : gpu::causal_methods()) {
        CAPTURE(m.name);
        if (m.any_block)
            for (const Index block : {1, 7, 64, 100000}) CHECK(chosen(m.name.c_str(), block) == m.name);
    }
    CHECK_THROWS_WITH(chosen("lightning-attention-2", 32),
                      "block: 32, expected 64, the block that lightning-attention-2 is built for on the GPU");
    CHECK_THROWS_WITH(chosen("fleet", 64), "block: 64, expected 16, the block that fleet is built for on the GPU");
    CHECK_THROWS_WITH(chosen("hybrid", 0), "block: 0, expected 1 or more");
    CHECK_THROWS_WITH(chosen("hybird", 8), test::contains_text("hybrid"));
    for (const CausalMethod& m : gpu::causal_methods()) {
        CAPTURE(m.name);
        if (m.block == 0)
            CHECK_THROWS_WITH(chosen(m.name.c_str(), 64),
                              "block: the method \"" + m.name + "\" has none");  // as on the CPU
        CHECK(gpu::method_for(m.name, {}).name == m.name);
        // Each is one of core's, and has a block and a state where that has.
        CHECK((m.block > 0) == (exact::method(m.name).block > 0));
        CHECK(m.state == exact::method(m.name).state);
    }
}

TEST_CASE("GPU: a method that only the CPU has is refused by name", "[gpu][gpu-exact][gpu-forms]") {
    exact::Method m = exact::method("row-based");
    m.name = "cpu-only", m.short_name = "CPU";
    exact::register_method(m);
    CHECK(gpu::find_causal_method("cpu-only") == nullptr);
    CHECK_THROWS_WITH(gpu::method_for("CPU", {}), test::contains_text("on the GPU no method is named \"cpu-only\""));
    exact::unregister_method("cpu-only");
}

TEST_CASE("GPU: blocks of any length give the same", "[gpu][gpu-exact][gpu-forms]") {
    if (!test::on_gpu()) return;
    const test::Poison poison;
    for (const Index N : {1, 65, 260}) {
        const test::Case c{2, 3, N, 20, 33, {0.9, 1.0, 1e-4}, false, 71};
        for (const DType type : {DType::f32, DType::bf16}) {
            const test::Inputs in = rounded(test::inputs(c, DType::f64), type);
            const std::vector<double> want = expected(test::Oracle(c, in), c);
            CausalOptions o = test::options(c, "row-based");
            o.return_state = true;
            const Tensor last = causal_linear_attention(in.B, in.C, in.V, o).state;
            std::vector<double> want_state;
            for (Index i = 0; i < last.size(); ++i) want_state.push_back(last.get(i));
            for (const CausalMethod& m : gpu::causal_methods()) {
                for (const Index block : {1, 3, 17, 64, 200, 1000}) {
                    if (!m.any_block) continue;
                    CAPTURE(m.name, block, c, name(type));
                    const Tensor nothing = Tensor::zeros(DType::f32, last.shape());
                    OnGpu on(c, in, type, block % 2 == 0, m.state ? &nothing : nullptr);
                    on.args.block = block;
                    CHECK(distance(on.run(m), want, least(in, c)) <= bound(m, type));
                    if (m.state) CHECK(distance(on.state.cpu(), want_state, 0) <= (type == DType::f32 ? 6e-6 : 2e-3));
                }
            }
        }
    }
}

TEST_CASE("GPU: the four forms of the tpu document over many tiles, normalised and scaled, with a state",
          "[gpu][gpu-exact][gpu-forms]") {
    if (!test::on_gpu()) return;
    for (const Index N : {0, 1, 600, 2500}) {
        test::Case c{1, 3, N, 24, 40, {0.999, 1.0, 0.5}, true, 81};
        const test::Inputs in = rounded(test::inputs(c, DType::f64), DType::f32);
        const gpu::Tensor B(in.B.to(DType::f32)), C(in.C.to(DType::f32)), V(in.V.to(DType::f32));
        for (const char* name : {"inner-product", "outer-product", "outer-product-blockwise", "hybrid"}) {
            for (const bool normalize : {true, false}) {
                CAPTURE(name, c, normalize);
                CausalOptions o = test::options(c, "row-based");
                gpu::CausalOptions there;
                there.method = name, there.decay = c.decay;
                o.normalize = there.normalize = normalize, o.scale = there.scale = 0.5;
                o.return_state = there.return_state = gpu::causal_method(name).state;
                const CausalResult want = causal_linear_attention(in.B, in.C, in.V, o);
                const gpu::CausalResult got = gpu::causal_linear_attention(B, C, V, there);
                const auto numbers = [](const Tensor& A) {
                    std::vector<double> x;
                    for (Index i = 0; i < A.size(); ++i) x.push_back(A.get(i));
                    return x;
                };
                CHECK(distance(got.O.cpu(), numbers(want.O), 0) <= 6e-6);
                if (!o.return_state) continue;
                CHECK(distance(got.state.cpu(), numbers(want.state), 0) <= 6e-6);
                there.state = got.state, o.state = want.state;
                CHECK(distance(gpu::causal_linear_attention(B, C, V, there).O.cpu(),
                               numbers(causal_linear_attention(in.B, in.C, in.V, o).O), 0) <= 6e-6);
            }
        }
    }
}

TEST_CASE("GPU: states that do not fit are an error that frees what was taken", "[gpu][gpu-exact][gpu-forms]") {
    if (!test::on_gpu()) return;
    constexpr Index N = Index{1} << 20;  // 4 N r d = 275 GB
    const gpu::Tensor x = gpu::Tensor::zeros(DType::bf16, {1, 1, N, 256});
    const std::size_t before = gpu::bytes_in_use();
    gpu::CausalOptions o;
    o.method = "outer-product";
    CHECK_THROWS_AS(gpu::causal_linear_attention(x, x, x, o), OutOfMemory);
    CHECK(gpu::bytes_in_use() == before);
    o.method = "outer-product-blockwise";
    CHECK_NOTHROW(gpu::causal_linear_attention(gpu::Tensor::zeros(DType::bf16, {1, 1, 300, 256}),
                                               gpu::Tensor::zeros(DType::bf16, {1, 1, 300, 256}),
                                               gpu::Tensor::zeros(DType::bf16, {1, 1, 300, 256}), o));
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("GPU: Float16 that is divided or scaled does not overflow before", "[gpu][gpu-exact]") {
    if (!test::on_gpu()) return;
    const Index N = 1000;
    const gpu::Tensor x(Tensor::full(DType::f16, {1, 1, N, 128}, 1));  // numerators up to 128000
    gpu::CausalOptions o;
    o.normalize = o.return_state = true;
    const gpu::CausalResult divided = gpu::causal_linear_attention(x, x, x, o);
    const Tensor mean = divided.O.cpu();
    CHECK(mean.dtype() == DType::f16);
    for (const Index t : {Index{0}, Index{599}, N - 1}) CHECK(mean.get(t * 128) == 1);
    CHECK(divided.state.cpu().get(128) == static_cast<double>(N));
    gpu::CausalOptions by;
    by.scale = 1.0 / 1280;
    CHECK(gpu::causal_linear_attention(x, x, x, by).O.cpu().get((N - 1) * 128) == 100);
    // dB_1 = scale (dO_1·V_1) C_1 = 128 scale.
    const gpu::CausalGradient g = gpu::causal_linear_attention_grad(x, x, x, x, by);
    CHECK(g.dB.cpu().get(0) == test::Approx(0.1).epsilon(1e-3));
    CHECK(g.dB.cpu().get((N - 1) * 128) == test::Approx(100).epsilon(1e-3));
    const gpu::Tensor wide = gpu::Tensor::zeros(DType::f32, {1, 1, 3, 256}),
                      q = gpu::Tensor::zeros(DType::f32, {1, 1, 3, 8});
    gpu::CausalOptions normalised;
    normalised.normalize = true;
    CHECK_THROWS_WITH(gpu::causal_linear_attention_grad(q, q, wide, wide, normalised),
                      test::contains_text("V: width 256, expected at most 255"));
}

TEST_CASE("GPU: causal linear attention of no tokens, and bad arguments", "[gpu][gpu-exact]") {
    if (!test::on_gpu()) return;
    CHECK_THROWS_WITH(gpu::causal_method("row_based"), test::contains_text("row-based"));
    const test::Case c{1, 2, 3, 8, 8, {}, false, 61};
    const test::Inputs in = test::inputs(c, DType::f32);
    for (const CausalMethod& m : gpu::causal_methods()) {
        CAPTURE(m.name);
        OnGpu on(c, in, DType::f32, false);
        on.args.N = 0;
        CHECK_NOTHROW(m.run(on.args, nullptr));
        on.args.N = 3;
        on.args.r = 257;
        CHECK_THROWS_WITH(m.workspace(on.args), test::contains_text("257"));
        on.args.r = 8;
        const double gamma[] = {1.5, 1};
        on.args.gamma = gamma;
        CHECK_THROWS_WITH(m.run(on.args, nullptr), test::contains_text("decay: 1.5"));
        on.args.gamma = nullptr;
        if (m.workspace(on.args) > 0)
            CHECK_THROWS_WITH(m.run(on.args, nullptr), test::contains_text("a workspace of 0 bytes"));
    }
}
