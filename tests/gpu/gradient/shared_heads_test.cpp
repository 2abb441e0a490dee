// Gradients of heads that share heads of q and k, on tensor cores: the sums over these heads, however they are made.
#include "gpu/tensor/random.hpp"
#include "tests/gpu/gradients.hpp"

using namespace causeway;
using namespace causeway::test;
using namespace causeway::test::sequences;

namespace {

struct Call {
    Index keys, heads, dk, dv;
    std::vector<Index> lengths;  // of packed texts; one: not packed
};

}  // namespace

// The calls are of several parts beside few sweeps (sums of two heads in memory), of several parts and of one part
// beside many (clusters), of short texts beside others and of three heads (at the end). Without the delta rule several
// parts of widths of 128 are those of parts_test.cpp.
TEST_CASE("gradients of heads that share keys and queries on tensor cores: sums over heads", "[gpu][gpu-gradient]") {
    if (!on_hopper()) return;
    const Poison poison;
    const Call calls[] = {
        {8, 16, 128, 128, {2750}},     {16, 32, 128, 128, {1500}},     {2, 4, 128, 128, {300}},
        {2, 6, 64, 128, {200}},        {1, 8, 96, 72, {333}},          {2, 16, 40, 64, {129}},
        {8, 16, 64, 128, {2750, 257}}, {2, 4, 128, 128, {100, 1, 70}}, {16, 32, 128, 128, {1500, 257}},
        {2, 8, 128, 128, {300}},       {8, 16, 128, 64, {5300}}};
    unsigned seed = 900;
    for (const char* update : {"gated_delta", "delta", "gated", "linear"}) {
        for (const Call& call : calls) {
            const std::vector<Index> offsets = offsets_of(call.lengths);
            const Index N = offsets.back(), texts = static_cast<Index>(call.lengths.size());
            Problem c = make(update, false, {call.keys, call.keys, call.heads}, N, call.dk, call.dv, DType::bf16,
                             seed += 10, 1, texts);
            if (texts > 1) c.options.cu_seqlens = offsets;
            const Tensor dO = random_tensor({1, call.heads, N, call.dv}, seed + 9).to(DType::bf16).to(DType::f64);
            CAPTURE(update, call.keys, call.heads, call.dk, call.dv, N, seed);
            const gpu::LinearGradient got = gradients_of(c, DType::bf16, dO), exact = gradients_of(c, DType::f32, dO);
            check_gradients(got, exact, 3e-2);
            // A text has the bits of a call with it alone, and that those of its repetition.
            for (Index i = 0; i < texts; ++i) {
                const auto at = static_cast<std::size_t>(i);
                const Problem one = part(c, offsets[at], offsets[at + 1], i);
                const gpu::LinearGradient alone =
                    gradients_of(one, DType::bf16, tokens(dO, offsets[at], offsets[at + 1]));
                const auto of_text = [&](const Tensor& x) { return tokens(x, offsets[at], offsets[at + 1]); };
                CHECK(same_bits(of_text(got.dq.cpu()), alone.dq.cpu()));
                CHECK(same_bits(of_text(got.dk.cpu()), alone.dk.cpu()));
                CHECK(same_bits(of_text(got.dv.cpu()), alone.dv.cpu()));
                if (got.dbeta) CHECK(same_bits(of_text(got.dbeta->cpu()), alone.dbeta->cpu()));
                if (got.dlog_decay) CHECK(same_bits(of_text(got.dlog_decay->cpu()), alone.dlog_decay->cpu()));
            }
        }
    }
}

TEST_CASE("gradients of heads that share keys and queries on tensor cores: what is not finite", "[gpu][gpu-gradient]") {
    if (!on_hopper()) return;
    const Poison poison;
    const Call calls[] = {{8, 16, 128, 128, {2750}}, {2, 4, 128, 128, {300}}, {2, 6, 64, 128, {200}}};
    unsigned seed = 950;
    const char* const update = GENERATE("gated_delta", "gated");
    for (const Call& call : calls) {
        const Index N = call.lengths[0];
        const Problem c =
            make(update, false, {call.keys, call.keys, call.heads}, N, call.dk, call.dv, DType::bf16, seed += 10);
        Tensor dO = random_tensor({1, call.heads, N, call.dv}, seed + 9).to(DType::bf16).to(DType::f64);
        constexpr Index bad = 150;
        dO.set(bad * call.dv, NAN);  // of the first head
        CAPTURE(call.heads, N, seed);
        const gpu::LinearGradient got = gradients_of(c, DType::bf16, dO);
        // dq of its own token alone, dk of that one and those before; the other heads of keys know nothing of it.
        const Tensor dq = got.dq.cpu(), dk = got.dk.cpu();
        for (Index i = 0; i < call.keys * N; ++i) {
            const Index token = i % N, head = i / N;
            if (std::isfinite(dq.get(i * call.dk)) == (head == 0 && token == bad)) FAIL_CHECK("dq of " << i);
            if ((head > 0 || token > bad) && !std::isfinite(dk.get(i * call.dk))) FAIL_CHECK("dk of " << i);
        }
        CHECK(std::isnan(dk.get(bad * call.dk)));
    }
}
