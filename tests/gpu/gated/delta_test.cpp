// The tensor-core kernel of the gated delta rule against the recurrence in Float64 on the CPU.
#include "gpu/gated/delta.hpp"

#include "gpu/base/buffer.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/tensor/tensor.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/core/gated/problems.hpp"
#include "tests/gpu/device.hpp"

namespace causeway {

namespace {

using test::GatedCase;

// [B, H, N, d] as it lies in memory when tokens come before heads.
Tensor token_major(const Tensor& x) {
    const Index B = x.shape()[0], H = x.shape()[1], N = x.shape()[2], d = x.shape()[3];
    Tensor out(x.dtype(), Shape{B, N, H, d});
    for (Index b = 0; b < B; ++b)
        for (Index h = 0; h < H; ++h)
            for (Index t = 0; t < N; ++t)
                for (Index j = 0; j < d; ++j)
                    out.set(((b * N + t) * H + h) * d + j, x.get(((b * H + h) * N + t) * d + j));
    return out;
}

struct Result {
    Tensor O, state;
};

// delta_hopper on inputs of this type, o poisoned with NaN before.
Result on_device(const GatedCase& c, const test::GatedInputs& in, bool tokens_first) {
    const auto lay = [&](const Tensor& x) { return gpu::Tensor(tokens_first ? token_major(x) : x); };
    const auto strides = [&](Index H, Index d) {
        return tokens_first ? gpu::Strides{c.N * H * d, d, H * d} : gpu::contiguous(H, c.N, static_cast<int>(d));
    };
    const Index heads = c.heads * c.group;
    const gpu::Tensor q = lay(in.q), k = lay(in.k), v = lay(in.v),
                      o(in.q.dtype(), Shape{c.batch, tokens_first ? c.N : heads, tokens_first ? heads : c.N, c.dv});
    gpu::check(cudaMemset(o.data(), 0xFF, o.bytes()), "poisoning o");
    gpu::GatedArgs a;
    a.q = q.data(), a.k = k.data(), a.v = v.data(), a.o = o.data(), a.type = q.type();
    a.B = c.batch, a.H = c.heads, a.N = c.N, a.group = static_cast<int>(c.group), a.dk = static_cast<int>(c.dk),
    a.dv = static_cast<int>(c.dv);
    a.q_stride = strides(heads, c.dk), a.k_stride = strides(c.heads, c.dk), a.v_stride = strides(c.heads, c.dv),
    a.o_stride = strides(heads, c.dv);
    a.scale = static_cast<float>(c.scale);
    gpu::Tensor g, beta, state;
    if (c.gated()) g = gpu::Tensor(in.options.log_decay->to(DType::f32)), a.g = g.as<float>(), a.gates = 1;
    if (c.delta()) beta = gpu::Tensor(in.options.beta->to(DType::f32)), a.beta = beta.as<float>();
    if (c.state) state = gpu::Tensor(in.options.state->to(DType::f32)), a.state = state.as<float>();
    REQUIRE(gpu::delta_hopper_takes(a));
    const gpu::Buffer workspace(gpu::delta_hopper_workspace(a));
    a.workspace = {workspace.data(), workspace.bytes()};
    const gpu::Stream stream;
    test::settle();
    gpu::delta_hopper(a, stream);
    stream.wait();
    Tensor O = o.cpu();
    if (tokens_first)
        O = token_major(O.reshape(Shape{c.batch, c.N, heads, c.dv}));  // [B, N, H, d] with its axes exchanged again
    return {O, c.state ? state.cpu() : Tensor(DType::f32, Shape{0})};
}

void compare(const GatedCase& c, DType type, double bound, bool tokens_first = false) {
    CAPTURE(c, type, tokens_first);
    const auto in = test::gated_inputs(c).to(type).to(DType::f64);
    const auto want = test::oracle(in);
    auto given = in.to(type);
    const Result got = on_device(c, given, tokens_first);
    const double few = c.batch * c.heads * c.N * std::min(c.dk, c.dv) < 4096
                           ? 2.2
                           : 1;  // a few numbers may all be rounded by the most
    const double error = test::relative_error(got.O.to(DType::f64), want.O);
    CHECK(error <= few * bound);
    if (c.state) {
        const double of_state = test::relative_error(got.state.to(DType::f64), want.state);
        CHECK(of_state <= 1.5 * few * bound);
    }
}

// Each on a Hopper device only.
bool here() { return test::on_hopper(); }

constexpr double bf16_bound = 6e-3, f16_bound = 1e-3;

}  // namespace

TEST_CASE("gated delta rule on tensor cores: lengths", "[gpu][gated][delta]") {
    if (!here()) return;
    unsigned seed = 0;
    for (const char* update : {"gated_delta", "delta", "gated", "linear"}) {
        for (const Index N : {1, 2, 17, 63, 64, 65, 97, 1000}) {
            GatedCase c{.update = update, .batch = 1, .heads = 2, .N = N, .dk = 128, .dv = 128, .seed = ++seed};
            compare(c, DType::bf16, bf16_bound);
            compare(c, DType::f16, f16_bound);
        }
    }
}

TEST_CASE("gated delta rule on tensor cores: widths, groups, strides, scale", "[gpu][gated][delta]") {
    if (!here()) return;
    unsigned seed = 100;
    const std::pair<Index, Index> widths[] = {{64, 64}, {64, 128}, {128, 64}, {96, 80}, {8, 16}, {128, 256}, {64, 192}};
    for (const auto& [dk, dv] : widths) {
        GatedCase c{.batch = 2, .heads = 2, .group = 2, .N = 200, .dk = dk, .dv = dv, .scale = 0.3, .seed = ++seed};
        compare(c, DType::bf16, bf16_bound);
        compare(c, DType::bf16, bf16_bound, true);
        c.update = "gated";
        compare(c, DType::f16, f16_bound, true);
    }
}

// A tile that is overwritten while it is read shows itself as other bits the next time, in few shapes and only with
// many chunks on their way.
TEST_CASE("gated family on tensor cores: the same bits every time", "[gpu][gated][delta]") {
    if (!here()) return;
    unsigned seed = 40;
    for (const char* update : {"linear", "gated", "delta", "gated_delta"}) {
        for (const Index dv : {48, 64, 128}) {
            for (const DType type : {DType::bf16, DType::f16}) {
                const GatedCase c{.update = update,
                                  .batch = 1,
                                  .heads = 4,
                                  .group = 4,
                                  .N = 2047,
                                  .dk = 128,
                                  .dv = dv,
                                  .state = true,
                                  .seed = ++seed};
                CAPTURE(c, type);
                compare(c, type, type == DType::bf16 ? bf16_bound : f16_bound);
                const auto in = test::gated_inputs(c).to(type);
                const Result first = on_device(c, in, false);
                for (int i = 0; i < 10; ++i) {
                    const Result again = on_device(c, in, false);
                    CHECK(test::same_bits(again.O, first.O));
                    CHECK(test::same_bits(again.state, first.state));
                }
            }
        }
    }
}

TEST_CASE("gated delta rule on tensor cores: strong gates, resets, extreme beta", "[gpu][gated][delta]") {
    if (!here()) return;
    unsigned seed = 200;
    for (const double gate : {0.0, 1e-4, 3.0, 40.0, double(INFINITY)}) {
        for (const Index N : {65, 700}) {
            compare({.heads = 3, .N = N, .dk = 128, .dv = 128, .gate = gate, .seed = ++seed}, DType::bf16, bf16_bound);
            compare({.heads = 3, .N = N, .dk = 128, .dv = 128, .gate = gate, .beta_low = 1, .seed = ++seed},
                    DType::bf16, bf16_bound);
        }
    }
    // β = 0 leaves the state as it is but for the gates: the outputs are those of the initial state.
    compare({.heads = 1, .N = 130, .dk = 128, .dv = 128, .beta_high = 0, .seed = ++seed}, DType::bf16, bf16_bound);
}

TEST_CASE("gated delta rule on tensor cores: splits of a sequence", "[gpu][gated][delta]") {
    if (!here()) return;
    // One head of 47 chunks has many splits, which start where the gates forget, or from the maps of the parts before.
    for (const double gate : {0.5, 0.05, 0.002})
        compare({.heads = 1, .N = 3000, .dk = 64, .dv = 64, .gate = gate, .seed = 300}, DType::bf16, bf16_bound);
    unsigned seed = 400;
    const std::pair<Index, Index> widths[] = {{128, 128}, {64, 64}, {72, 200}, {128, 64}, {40, 72}};
    for (const char* update : {"gated_delta", "delta", "gated", "linear"}) {
        for (const auto& [dk, dv] : widths) {
            for (const Index group : {1, 2}) {
                const GatedCase c{.update = update,
                                  .batch = 1,
                                  .heads = 2,
                                  .group = group,
                                  .N = 4100,
                                  .dk = dk,
                                  .dv = dv,
                                  .gate = 1e-4,
                                  .state = seed % 2 == 0,
                                  .seed = ++seed};
                compare(c, DType::bf16, bf16_bound);
            }
        }
    }
}

// What is not finite in a column of v stays in that column through the maps of the parts, and behind its token.
TEST_CASE("gated delta rule on tensor cores: a NaN passes from split to split", "[gpu][gated][delta]") {
    if (!here()) return;
    for (const char* update : {"gated_delta", "delta", "linear"}) {
        const GatedCase c{
            .update = update, .batch = 1, .heads = 1, .N = 4100, .dk = 64, .dv = 64, .gate = 1e-4, .seed = 500};
        CAPTURE(c);
        auto in = test::gated_inputs(c).to(DType::bf16);
        const Tensor clean = on_device(c, in, false).O;
        const Index token = 1500, column = 5;
        in.v.set(token * c.dv + column, std::numeric_limits<double>::quiet_NaN());
        const Tensor got = on_device(c, in, false).O;
        Index changed = 0, hidden = 0;
        // Rows before the token in its own column may be those of the definition, token by token.
        double most = 0, largest = 0;
        for (Index t = 0; t < c.N; ++t) {
            for (Index j = 0; j < c.dv; ++j) {
                const double x = got.get(t * c.dv + j), y = clean.get(t * c.dv + j);
                largest = std::max(largest, std::abs(y));
                if (t >= token && j == column) hidden += std::isfinite(x);
                else if (j == column) most = x == x ? std::max(most, std::abs(x - y)) : INFINITY;
                else changed += !(x == y);
            }
        }
        CHECK(changed == 0);
        CHECK(hidden == 0);
        CHECK(most <= 0.02 * largest);
    }
}

}  // namespace causeway
