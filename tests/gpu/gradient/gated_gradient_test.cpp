// Gradients of the gated and delta-rule family on the GPU against the definition in Float64.
#include "gpu/gradient/gated.hpp"

#include "core/gradient/linear_attention_grad.hpp"
#include "gpu/gradient/gated_heads.hpp"
#include "gpu/gradient/gated_hopper.hpp"
#include "gpu/gradient/gated_lightning.hpp"
#include "tests/gpu/gated.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

Tensor drawn(const Shape& shape, unsigned seed, DType type) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<double> normal;
    Tensor out(type, shape);
    for (Index i = 0; i < out.size(); ++i) out.set(i, static_cast<float>(normal(generator)));
    return out.to(DType::f64);
}

struct GradientCall {
    GatedCall in;
    gpu::Tensor dO, dq, dk, dv, dg, dbeta, dstate, after;
    gpu::GatedGradArgs args;

    GradientCall(const GatedInputs& x, const Tensor& dO_, const Tensor* last, DType type, Index pad)
        : in(x, type, pad), dO(GatedCall({x.q, x.k, dO_, {}}, type, pad).v) {
        dq = gpu::Tensor(type, in.q.shape()), dk = gpu::Tensor(type, in.k.shape()),
        dv = gpu::Tensor(type, in.v.shape());
        args.in = in.args;
        args.dO = dO.data(), args.dq = dq.data(), args.dk = dk.data(), args.dv = dv.data();
        if (x.options.log_decay) dg = gpu::Tensor(DType::f32, in.g.shape()), args.dg = dg.as<float>();
        if (x.options.beta) dbeta = gpu::Tensor(DType::f32, in.beta.shape()), args.dbeta = dbeta.as<float>();
        if (last) dstate = gpu::Tensor(last->to(DType::f32).copy()), args.dstate_in = args.dstate = dstate.as<float>();
        if (!gpu::gated_gradient_has_state(args)) return;
        const Shape &ks = x.k.shape(), &vs = x.v.shape();
        after = gpu::Tensor(DType::f32, {ks[0], ks[1], ks[3], vs[3]}), args.after = after.as<float>();
    }
    void run() {
        in.give_workspace(gpu::gated_gradient_workspace(args));
        args.in.workspace = in.args.workspace;
        gpu::gated_gradient(args, nullptr);
    }
};

void rows_agree(const GradientCall& call, const GatedCase& c, const LinearGradient& want, double bound) {
    CHECK(relative_error(gathered(call.dq, c.N, c.dk), want.dq) <= bound);
    CHECK(relative_error(gathered(call.dk, c.N, c.dk), want.dk) <= bound);
    CHECK(relative_error(gathered(call.dv, c.N, c.dv), want.dv) <= bound);
}

void gradient_agrees(const GatedCase& c, const GatedInputs& inputs, DType type, Index pad = 0) {
    const GatedInputs in = rounded_to(inputs, type);
    const Tensor dO = drawn({c.batch, c.heads * c.group, c.N, c.dv}, c.seed + 1000, type);
    const Tensor last = drawn({c.batch, c.heads, c.dk, c.dv}, c.seed + 2000, DType::f32);
    auto exact = in.to(DType::f64);
    exact.options.mode = "recurrent";
    const std::optional<Tensor> after = c.state ? std::optional<Tensor>(last) : std::nullopt;
    const LinearGradient want = linear_attention_grad(exact.q, exact.k, exact.v, dO, exact.options, after);
    const Poison poison;
    GradientCall call(in, dO, c.state ? &last : nullptr, type, pad);
    call.run();
    CAPTURE(c, name(type), pad);
    // In 16 bits on tensor cores operands are rounded to the inputs' type between products; elsewhere only results are.
    const bool rounds = gpu::gated_hopper_gradient_takes(call.args) || gpu::gated_lightning_gradient_takes(call.args);
    const double bound = rounds ? 2e-2 : 1e-5 + rounding_of(type), wide_bound = rounds ? 2e-2 : 2e-5;
    rows_agree(call, c, want, bound);
    if (c.gated()) CHECK(relative_error(call.dg.cpu(), *want.dlog_decay) <= wide_bound);
    if (c.delta()) CHECK(relative_error(call.dbeta.cpu(), *want.dbeta) <= wide_bound);
    if (c.state) CHECK(relative_error(call.dstate.cpu(), want.dstate) <= (rounds ? wide_bound : 1e-5));
    if (call.args.after) CHECK(relative_error(call.after.cpu(), oracle(exact).state) <= wide_bound);
}

void gradient_agrees(const GatedCase& c, DType type, Index pad = 0) { gradient_agrees(c, gated_inputs(c), type, pad); }

// Where two results of one call differ first, and in how many places; empty where they have the same bits.
std::string first_difference(const gpu::Tensor& first, const gpu::Tensor& second) {
    const Tensor a = first.cpu(), b = second.cpu();
    if (same_bits(a, b)) return "";
    Index differ = 0, at = -1;
    for (Index i = 0; i < a.size(); ++i) {
        if (a.get(i) == b.get(i)) continue;
        if (differ++ == 0) at = i;
    }
    if (at < 0) return "only in kinds of NaN or zero";
    return std::to_string(differ) + " elements, first " + std::to_string(at) + ": " + std::to_string(a.get(at)) +
           " and " + std::to_string(b.get(at));
}

struct Call {
    Index batch, heads, N, dk, dv;
};

constexpr const char* updates[] = {"linear", "gated", "delta", "gated_delta"};

}  // namespace

TEST_CASE("gradients of the gated family on the GPU: every update, gate, type and awkward length",
          "[gpu][gpu-gradient]") {
    if (!on_gpu()) return;
    unsigned seed = 0;
    for (const char* update : updates) {
        for (const bool channels : {false, true}) {
            GatedCase c{update, 2, 2, 1, 1, 24, 20, channels};
            if (channels && !c.gated()) continue;
            for (const Index N : {2, 17, 32, 63, 64, 65, 97}) {
                c.N = N, c.seed = ++seed;
                gradient_agrees(c, DType::f32);
            }
            for (const DType type : {DType::bf16, DType::f16}) gradient_agrees(c, type);
        }
    }
}

TEST_CASE("gradients of the gated family on the GPU: widths, groups and strides", "[gpu][gpu-gradient]") {
    if (!on_gpu()) return;
    unsigned seed = 100;
    const std::pair<Index, Index> shapes[] = {{3, 5}, {64, 64}, {65, 33}, {128, 128}, {130, 40}, {256, 256}};
    for (const char* update : updates) {
        for (const auto& [dk, dv] : shapes) {
            GatedCase c{update, 1, 2, 1, 35, dk, dv};
            c.seed = ++seed, c.scale = 0.25;
            gradient_agrees(c, DType::f32);
            c.channels = c.gated(), c.group = 3;
            gradient_agrees(c, DType::f32, 3);
            gradient_agrees(c, DType::bf16, 8);
        }
    }
}

TEST_CASE("gradients of the gated family on the GPU: more heads than a part has room for", "[gpu][gpu-gradient]") {
    if (!on_gpu()) return;
    GatedCase c{"delta", 2, 170, 1, 20, 128, 128};
    gradient_agrees(c, DType::f32);
}

TEST_CASE("gradients of the gated family on the GPU: the largest number", "[gpu][gpu-gradient]") {
    if (!on_gpu()) return;
    for (GatedCase c : each_update({"linear", 1, 2, 1, 70, 40, 24})) {
        const GatedInputs in = with_largest(c);
        gradient_agrees(c, in, DType::f32);
    }
}

TEST_CASE("gradients of the gated family on the GPU: strong gates, resets and β = 0", "[gpu][gpu-gradient]") {
    if (!on_gpu()) return;
    unsigned seed = 200;
    for (const bool channels : {false, true}) {
        for (const double gate : {0.0, 5.0, double{INFINITY}}) {
            for (const char* update : {"gated", "gated_delta"}) {
                GatedCase c{update, 1, 2, 2, 90, 32, 24, channels, gate};
                c.seed = ++seed;
                gradient_agrees(c, DType::f32);
            }
        }
        GatedCase c{"gated_delta", 1, 2, 1, 90, 32, 24, channels, 0.01};
        c.beta_low = c.beta_high = 0, c.seed = ++seed;
        gradient_agrees(c, DType::f32);
    }
}

TEST_CASE("gradients of the gated family on tensor cores: widths, lengths, gates, β = 0 and parts",
          "[gpu][gpu-gradient]") {
    if (!on_gpu()) return;
    unsigned seed = 400;
    for (const char* update : updates) {
        for (const bool channels : {false, true}) {
            GatedCase c{update, 1, 2, 1, 200, 128, 128, channels};
            if (channels && !c.gated()) continue;
            const std::pair<Index, Index> shapes[] = {{128, 128}, {64, 64}, {64, 128}, {128, 32},
                                                      {40, 24},   {65, 96}, {3, 8},    {100, 128}};
            for (const auto& [dk, dv] : shapes) {
                c.dk = dk, c.dv = dv, c.seed = ++seed;
                gradient_agrees(c, DType::bf16);
                gradient_agrees(c, DType::bf16, 8);
            }
            for (const Index group : {2, 5}) {
                GatedCase shared = c;
                shared.group = group, shared.dk = 128, shared.dv = 64, shared.N = 150, shared.seed = ++seed;
                gradient_agrees(shared, DType::bf16);
            }
            c.dk = 64, c.dv = 64;
            for (const Index N : {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1500}) {
                c.N = N, c.seed = ++seed;
                gradient_agrees(c, DType::bf16);
            }
            if (!c.gated()) continue;
            c.N = 200;
            for (const double gate : {0.0, 1.0, 5.0, 60.0, 1000.0, double{INFINITY}}) {
                GatedCase strong{update, 1, 2, 1, 200, 64, 64, channels, gate};
                strong.seed = ++seed;
                gradient_agrees(strong, DType::bf16);
            }
        }
    }
    GatedCase c{"gated_delta", 1, 2, 1, 90, 64, 24, true, 0.01};
    c.beta_low = c.beta_high = 0;
    for (const Index dv : {24, 64}) {  // U in the workspace, and in dv
        c.dv = dv, c.seed = ++seed;
        gradient_agrees(c, DType::bf16);
    }
    for (const bool state : {true, false}) {  // three parts
        GatedCase parts{"gated_delta", 8, 16, 1, 1100, 16, 8, true, 0.05};
        parts.state = state, parts.seed = ++seed;
        gradient_agrees(parts, DType::bf16);
        gradient_agrees(parts, DType::bf16, 8);  // dv has no room for the states before them
    }
}

TEST_CASE("gradients of the delta rule with a gate per head on tensor cores: small β, equal keys",
          "[gpu][gpu-gradient]") {
    if (!on_gpu()) return;
    unsigned seed = 600;
    for (const char* update : {"delta", "gated_delta"}) {
        GatedCase c{update, 1, 2, 1, 333, 128, 128, false, 0.01};
        for (const double beta : {0.0, 1e-30, 1e-6, 1e-4, 1.0}) {
            for (const bool equal_keys : {false, true}) {
                c.beta_low = 0, c.beta_high = 1, c.seed = ++seed;
                GatedInputs in = gated_inputs(c);
                Tensor few = in.options.beta->copy(), all = few.copy(), keys = in.k.copy();
                for (Index i = 0; i < few.size(); ++i) {
                    all.set(i, beta);
                    if (i % 3 == 1 || i % 100 < 50) few.set(i, beta);
                }
                for (Index i = 0; i < keys.size(); ++i) keys.set(i, 0.9 * in.k.get(i % c.dk) + 0.1 * in.k.get(i));
                if (equal_keys) in.k = keys;
                for (const Tensor& betas : {few, all}) {
                    in.options.beta = betas;
                    CAPTURE(beta, equal_keys);
                    gradient_agrees(c, in, DType::bf16);
                }
            }
        }
    }
}

TEST_CASE("gradients with a gate per head on tensor cores: places and parts", "[gpu][gpu-gradient]") {
    if (!on_gpu()) return;
    unsigned seed = 650;
    for (const char* update : updates) {
        // Each place that what goes between the kernels may have.
        const std::pair<Index, Index> shapes[] = {{128, 64}, {64, 128}, {24, 128}, {96, 96}, {96, 64}, {40, 64}};
        for (const auto& [dk, dv] : shapes) {
            for (const Index N : {60, 64, 700}) {
                GatedCase other{update, 2, 3, 1, N, dk, dv};
                other.seed = ++seed;
                gradient_agrees(other, DType::bf16, dk % 16 ? 0 : 8);
            }
        }
        // Five parts, of sweeps that fill the device, and three of sweeps that leave room beside them.
        const std::pair<Index, Index> heads_and_lengths[] = {{16, 1100}, {5, 1700}};
        for (const auto& [heads, N] : heads_and_lengths) {
            for (const bool state : {true, false}) {
                GatedCase parts{update, 8, heads, 1, N, 24, 8, false, 0.05};
                parts.state = state, parts.seed = ++seed;
                gradient_agrees(parts, DType::bf16);
            }
        }
    }
}

TEST_CASE("gradients with a gate per head on tensor cores: heads that are cut into splits", "[gpu][gpu-gradient]") {
    if (!on_gpu()) return;
    // Few heads and many tokens: splits of all lengths, some with empty chunks, and of several parts (the last one).
    const Call calls[] = {{1, 1, 6145, 128, 128}, {1, 2, 6207, 128, 64}, {2, 1, 9999, 40, 64}, {1, 4, 6400, 64, 128},
                          {3, 2, 8000, 24, 96},   {1, 3, 12300, 64, 64}, {2, 4, 16500, 24, 8}};
    unsigned seed = 700;
    for (const char* update : updates) {
        for (const Call& call : calls) {
            for (const bool state : {true, false}) {
                GatedCase c{update, call.batch, call.heads, 1, call.N, call.dk, call.dv, false, 0.001};
                c.state = state, c.seed = ++seed;
                gradient_agrees(c, DType::bf16);
            }
        }
    }
    // Heads that have forgotten all before a split, and gates of 0.
    for (const char* update : {"gated", "gated_delta"}) {
        for (const double gate : {5.0, 1000.0, double{INFINITY}}) {
            GatedCase c{update, 1, 2, 1, 6300, 64, 64, false, gate};
            c.seed = ++seed;
            gradient_agrees(c, DType::bf16);
        }
    }
}

TEST_CASE("gradients with a gate per head on tensor cores: NaN in dO stays before its token where heads are cut",
          "[gpu][gpu-gradient]") {
    if (!on_gpu()) return;
    constexpr Index N = 6300, at = 3000, width = 64;
    const char* const update = GENERATE("gated", "gated_delta");
    const GatedCase c{update, 1, 2, 1, N, width, width, false, 0.001};
    const GatedInputs in = rounded_to(gated_inputs(c), DType::bf16);
    Tensor dO = drawn({1, 2, N, width}, 1, DType::bf16).copy();
    for (Index i = 0; i < width; ++i) dO.set(at * width + i, NAN);  // of the first head
    GradientCall call(in, dO, nullptr, DType::bf16, 0);
    call.run();
    const Tensor dq = gathered(call.dq, N, width), dk = gathered(call.dk, N, width), dv = gathered(call.dv, N, width);
    for (Index i = 0; i < 2 * N * width; ++i) {
        const Index token = i / width;  // those of the second head lie behind the first
        if (std::isfinite(dq.get(i)) == (token == at)) FAIL_CHECK("dq of token " << token);
        if (token > at && !std::isfinite(dk.get(i))) FAIL_CHECK("dk of token " << token);
        if (token > at && !std::isfinite(dv.get(i))) FAIL_CHECK("dv of token " << token);
    }
    CHECK(std::isnan(dk.get(at * width)));
    CHECK(std::isnan(dv.get((at - 1) * width)));
}

TEST_CASE("gradients of the gated family on the GPU: the workspace of the benchmark", "[gpu][gpu-gradient]") {
    if (!on_gpu()) return;
    gpu::GatedGradArgs a;
    alignas(256) float some = 0;
    a.in.q = a.in.k = a.in.v = a.dO = a.dq = a.dk = a.dv = &some;  // nothing is read
    a.in.g = a.in.beta = a.dg = a.dbeta = &some;
    a.in.H = 32, a.in.N = 8192, a.in.dk = a.in.dv = 128, a.in.gates = 1;
    a.in.q_stride = a.in.k_stride = a.in.v_stride = a.in.o_stride = gpu::contiguous(32, 8192, 128);
    const auto is_bounded = [&] { return gpu::gated_gradient_workspace(a) <= 64'000'000; };
    const gpu::GatedGradArgs gated_delta = a;
    for (const gpu::Type type : {gpu::Type::BFloat16, gpu::Type::Float32}) {
        a = gated_delta, a.in.type = type;
        CAPTURE(static_cast<int>(type));
        CHECK(is_bounded());
        a.in.beta = a.dbeta = nullptr;
        CHECK(is_bounded());
        a.in.g = a.dg = nullptr, a.in.gates = 0, a.in.state = &some;
        CHECK(is_bounded());
        a = gated_delta, a.in.type = type, a.in.gates = 128;
        CHECK(is_bounded());
        a.in.beta = a.dbeta = nullptr;
        CHECK(is_bounded());
        a = gated_delta, a.in.type = type, a.in.H = 8, a.in.group = 4;
        CHECK(is_bounded());
    }
}

TEST_CASE("gradients of the gated family on tensor cores: twice the same bits", "[gpu][gpu-gradient]") {
    if (!on_gpu()) return;
    const GatedCase cases[] = {{"gated_delta", 2, 3, 2, 333, 72, 40, true}, {"gated_delta", 8, 8, 1, 700, 128, 128},
                               {"gated_delta", 1, 4, 1, 9000, 128, 128},    {"linear", 2, 3, 1, 333, 72, 40},
                               {"gated", 8, 8, 1, 700, 128, 128},           {"gated", 1, 4, 1, 9000, 128, 128}};
    for (const GatedCase& c : cases) {
        const GatedInputs in = rounded_to(gated_inputs(c), DType::bf16);
        const Tensor dO = drawn({c.batch, c.heads * c.group, c.N, c.dv}, 1, DType::bf16);
        GradientCall one(in, dO, nullptr, DType::bf16, 0);
        one.run();
        for (int repeat = 0; repeat < 10; ++repeat) {
            GradientCall two(in, dO, nullptr, DType::bf16, 0);
            two.run();
            CAPTURE(c.group, repeat);
            CHECK(first_difference(one.dq, two.dq) == "");
            CHECK(first_difference(one.dk, two.dk) == "");
            CHECK(first_difference(one.dv, two.dv) == "");
            if (c.gated()) CHECK(first_difference(one.dg, two.dg) == "");
            if (c.delta()) CHECK(first_difference(one.dbeta, two.dbeta) == "");
        }
    }
}

TEST_CASE("gradients of linear attention on tensor cores: widths, lengths, scales and strides", "[gpu][gpu-gradient]") {
    if (!on_gpu()) return;
    const Call calls[] = {{1, 1, 1, 128, 128}, {2, 3, 63, 64, 64},   {1, 2, 64, 128, 64},   {2, 2, 65, 24, 96},
                          {1, 3, 1000, 72, 8}, {1, 2, 4099, 8, 128}, {3, 40, 300, 128, 128}};
    unsigned seed = 900;
    for (const Call& call : calls) {
        for (const double scale : {1.0, 0.25, 0.3}) {
            for (const DType type : {DType::bf16, DType::f16}) {
                for (const Index pad : {0, 8}) {
                    GatedCase c{"linear", call.batch, call.heads, 1, call.N, call.dk, call.dv};
                    c.state = false, c.scale = scale, c.seed = ++seed;
                    const GatedInputs in = rounded_to(gated_inputs(c), type);
                    const Tensor dO = drawn({c.batch, c.heads, c.N, c.dv}, c.seed + 1000, type);
                    const LinearOptions& o = in.options;
                    const auto exact = in.to(DType::f64);
                    const LinearGradient want = linear_attention_grad(exact.q, exact.k, exact.v, dO, exact.options);
                    const Poison poison;
                    GradientCall one(in, dO, nullptr, type, pad);
                    one.dstate = gpu::Tensor(DType::f32, want.dstate.shape());
                    one.args.dstate = one.dstate.as<float>();
                    one.run();
                    CAPTURE(c, o.scale, name(type), pad);
                    if (gpu::device().hopper())
                        CHECK(gpu::gated_lightning_gradient_takes(one.args) == (type == DType::bf16));
                    const double bound = type == DType::bf16 ? 1e-2 : 2e-3;
                    rows_agree(one, c, want, bound);
                    CHECK(relative_error(one.dstate.cpu(), want.dstate) <= 1e-5);
                }
            }
        }
    }
}

TEST_CASE("gradients of the gated family on the GPU: a sequence in parts, twice the same bits", "[gpu][gpu-gradient]") {
    if (!on_gpu()) return;
    for (const bool state : {true, false}) {
        GatedCase c{"gated_delta", 4, 8, 1, 2100, 6, 4, false, 0.05};
        c.state = state, c.seed = 300;
        gradient_agrees(c, DType::f32);
    }
    // Rows of a part as large as a state, and half as large: dv has room for it or not.
    for (const DType type : {DType::f32, DType::f16}) {
        for (const bool channels : {false, true}) {
            GatedCase wide{"gated_delta", 1, 16, 1, 1100, 128, 128, channels, 0.05};
            wide.seed = 301;
            gradient_agrees(wide, type);
            gradient_agrees(wide, type, 8);
        }
    }
    const GatedCase c{"gated_delta", 2, 2, 2, 150, 24, 20, true};
    const GatedInputs in = gated_inputs(c);
    const Tensor dO = drawn({2, 4, 150, 20}, 1, DType::f32);
    GradientCall one(in, dO, nullptr, DType::f32, 0), two(in, dO, nullptr, DType::f32, 0);
    one.run(), two.run();
    CHECK(same_bits(one.dq.cpu(), two.dq.cpu()));
    CHECK(same_bits(one.dk.cpu(), two.dk.cpu()));
    CHECK(same_bits(one.dg.cpu(), two.dg.cpu()));
}

TEST_CASE("gradients of the gated family on the GPU: what is refused", "[gpu][gpu-gradient]") {
    if (!on_gpu()) return;
    const GatedInputs in = gated_inputs({"gated_delta", 1, 1, 1, 5, 8, 4});
    GradientCall call(in, drawn({1, 1, 5, 4}, 1, DType::f32), nullptr, DType::f32, 0);
    call.args.dbeta = nullptr;
    CHECK(message_of([&] { gpu::gated_gradient(call.args, nullptr); }).find("dbeta is null") != std::string::npos);
}
