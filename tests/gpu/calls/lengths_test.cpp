// qk_l2norm on the GPU: within the kernel of the delta rule on tensor cores, elsewhere by l2norm before the call.
#include "core/around/norms.hpp"
#include "gpu/around/norms.hpp"
#include "gpu/gradient/linear_attention_grad.hpp"
#include "tests/gpu/sequences.hpp"

using namespace causeway;
using namespace causeway::test;
using namespace causeway::test::sequences;

namespace {

// Rows of q and k of any length: token t is times 2^(t % 9 - 4) · by.
Problem of_any_length(Problem c, double by = 1) {
    for (Tensor* x : {&c.q, &c.k}) {
        const Index N = x->shape()[2], width = x->shape()[3];
        for (Index i = 0; i < x->size(); ++i)
            x->set(i, x->get(i) * by * std::exp2(static_cast<double>(i / width % N % 9 - 4)));
    }
    c.options.qk_l2norm = true;
    return c;
}

gpu::LinearResult run_with_lengths(const Problem& c, DType type) {
    gpu::LinearOptions o = c.on_gpu();
    o.qk_l2norm = true;
    return run(c, type, o);
}

// The definition in Float64 on rows of length one.
LinearResult wanted(const Problem& c) {
    return linear_attention(l2norm(c.q), l2norm(c.k), c.v, calls::without_l2norm(c.options));
}

void check_near(const Problem& c, DType type) {
    const gpu::LinearResult got = run_with_lengths(c, type);
    const LinearResult want = wanted(c);
    CHECK(relative_error(got.O.cpu(), want.O) <= bound(type));
    CHECK(relative_error(got.state.cpu(), want.state) <= bound(type));
}

}  // namespace

TEST_CASE("qk_l2norm on the GPU: every update, mode, type and awkward length", "[gpu][gpu-lengths]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 0;
    for (const char* update : updates) {
        for (const char* mode : {"chunkwise", "recurrent", "parallel"}) {
            for (const Index N : {1, 15, 64, 65, 200}) {
                for (const DType type : {DType::bf16, DType::f16, DType::f32}) {
                    CAPTURE(update, mode, N, name(type), seed);
                    Problem c = of_any_length(make(update, false, {2, 2, 2}, N, 64, 40, type, seed += 10));
                    c.options.mode = mode;
                    check_near(c, type);
                }
            }
        }
        if (!gated::has_gate(gated::updates()[update].update)) continue;
        CAPTURE(update, seed);
        check_near(of_any_length(make(update, true, {2, 2, 2}, 130, 64, 64, DType::bf16, seed += 10)), DType::bf16);
    }
}

TEST_CASE("qk_l2norm on tensor cores: widths, heads, scales, lengths of rows", "[gpu][gpu-lengths]") {
    if (!on_hopper()) return;
    const Poison poison;
    unsigned seed = 1000;
    const std::pair<Index, Index> widths[] = {{128, 128}, {64, 64}, {96, 72}, {64, 200}, {128, 64}, {8, 16}};
    const std::array<Index, 3> heads[] = {{2, 2, 2}, {2, 2, 4}, {4, 2, 2}};
    for (const char* update : {"gated_delta", "delta", "gated"}) {
        for (const auto& [dk, dv] : widths) {
            for (const auto& h : heads) {
                for (const double by : {1.0, 30.0, 1 / 64.0}) {
                    CAPTURE(update, dk, dv, h[0], h[1], h[2], by, seed);
                    Problem c = of_any_length(make(update, false, h, 300, dk, dv, DType::bf16, seed += 10), by);
                    c.options.scale = 0.3;
                    check_near(c, DType::bf16);
                }
            }
        }
    }
    // A row of zeros has no length, and stays zeros.
    Problem c = of_any_length(make("gated_delta", false, {1, 1, 1}, 150, 64, 64, DType::bf16, 77));
    for (Index i = 0; i < 64; ++i) c.k.set(70 * 64 + i, 0), c.q.set(71 * 64 + i, 0);
    check_near(c, DType::bf16);
}

TEST_CASE("qk_l2norm on tensor cores: splits, packed sequences and prefix", "[gpu][gpu-lengths]") {
    if (!on_hopper()) return;
    const Poison poison;
    unsigned seed = 5000;
    for (const char* update : {"gated_delta", "delta", "gated"}) {
        for (const double gate : {1.0, 1e-4}) {  // heads that forget, and heads that take the maps of the parts
            CAPTURE(update, gate, seed);
            Problem c = of_any_length(make(update, false, {2, 2, 2}, 4100, 64, 128, DType::bf16, seed += 10));
            if (c.options.log_decay)
                for (Index i = 0; i < c.options.log_decay->size(); ++i)
                    c.options.log_decay->set(i, static_cast<float>(c.options.log_decay->get(i) * gate));
            check_near(c, DType::bf16);
            c.prefix = true;
            check_near(c, DType::bf16);
            const Tensor whole = run_with_lengths(c, DType::bf16).O.cpu();
            const Problem first = part(c, 0, 2500, 0);
            CHECK(same_bits(tokens(whole, 0, 2500), run_with_lengths(first, DType::bf16).O.cpu()));
        }
        const std::vector<Index> offsets = offsets_of({0, 1, 15, 64, 65, 127, 1000, 0, 200, 3});
        Problem c = of_any_length(make(update, false, {2, 2, 4}, offsets.back(), 128, 64, DType::bf16, seed += 10, 1,
                                       static_cast<Index>(offsets.size()) - 1));
        c.options.cu_seqlens = offsets;
        CAPTURE(update, seed);
        const gpu::LinearResult got = run_with_lengths(c, DType::bf16);
        const Tensor O = got.O.cpu(), state = got.state.cpu();
        for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
            const auto at = static_cast<Index>(i);
            const gpu::LinearResult alone = run_with_lengths(part(c, offsets[i], offsets[i + 1], at), DType::bf16);
            CHECK(same_bits(tokens(O, offsets[i], offsets[i + 1]), alone.O.cpu()));
            CHECK(same_bits(slice(state, 0, at, at + 1), alone.state.cpu()));
        }
        CHECK(relative_error(O, wanted(c).O) <= bound(DType::bf16));
    }
}

TEST_CASE("qk_l2norm on tensor cores: the same bits every time, and what is not finite stays behind its token",
          "[gpu][gpu-lengths]") {
    if (!on_hopper()) return;
    const Poison poison;
    for (const Index dv : {64, 128}) {
        Problem c = of_any_length(make("gated_delta", false, {4, 4, 4}, 2047, 128, dv, DType::bf16, 9000 + dv));
        const Tensor first = run_with_lengths(c, DType::bf16).O.cpu();
        for (int i = 0; i < 10; ++i) CHECK(same_bits(run_with_lengths(c, DType::bf16).O.cpu(), first));
        for (const char* of : {"q", "k", "v"}) {
            CAPTURE(of, dv);
            Problem bad = c;
            const Index token = 100, width = of[0] == 'v' ? dv : 128;
            Tensor& x = of[0] == 'q' ? bad.q : of[0] == 'k' ? bad.k : bad.v;
            x = x.copy();
            x.set(token * width + 3, std::numeric_limits<double>::quiet_NaN());
            const Tensor got = run_with_lengths(bad, DType::bf16).O.cpu();
            CHECK(relative_error(tokens(got, 0, token), tokens(first, 0, token)) <= bound(DType::bf16));
            CHECK(std::isnan(got.get(token * dv + 3)));
        }
    }
}

TEST_CASE("qk_l2norm on the GPU: one token, and the gradient", "[gpu][gpu-lengths]") {
    if (!on_gpu()) return;
    const DType type = DType::f32;
    const Problem c = of_any_length(make("gated_delta", false, {2, 2, 2}, 70, 32, 24, type, 42));
    gpu::LinearOptions with = c.on_gpu();
    with.qk_l2norm = true;
    const gpu::Tensor q = moved(c.q, type), k = moved(c.k, type), v = moved(c.v, type),
                      dO = moved(random_tensor({1, 2, 70, 24}, 43), type);
    const gpu::LinearGradient got = gpu::linear_attention_grad(q, k, v, dO, with);
    const LinearGradient want = linear_attention_grad(c.q, c.k, c.v, dO.cpu().to(DType::f64), c.options);
    CHECK(relative_error(got.dq.cpu(), want.dq) <= bound(type));
    CHECK(relative_error(got.dk.cpu(), want.dk) <= bound(type));
    CHECK(relative_error(got.dv.cpu(), want.dv) <= bound(type));

    const Problem one = part(c, 69, 70, 0);
    gpu::LinearOptions step = one.on_gpu();
    gpu::Tensor state = *step.state;
    step.state.reset(), step.qk_l2norm = true;
    gpu::Tensor O(type, {1, 2, 1, 24});
    gpu::linear_attention_step(moved(one.q, type), moved(one.k, type), moved(one.v, type), state, O, step);
    const LinearResult next = wanted(one);
    CHECK(relative_error(O.cpu(), next.O) <= bound(type));
    CHECK(relative_error(state.cpu(), next.state) <= bound(type));
}
