// Gradients that go part by part: how many tokens a part has, and calls that have several.
#include "gpu/gradient/parts.hpp"

#include "gpu/tensor/random.hpp"
#include "tests/gpu/gradients.hpp"

using namespace causeway;
using namespace causeway::test;
using namespace causeway::test::sequences;

TEST_CASE("parts of a gradient: all tokens once, rounds that are full", "[gpu][gpu-gradient]") {
    for (const Index N : {1, 63, 64, 65, 1000, 8192, 8193, 100000}) {
        for (const Index heads : {1, 5, 32, 300}) {
            for (const Index most : {0, 1, 4, 24, 600}) {
                const gpu::gradient::Parts parts = gpu::gradient::parts_of(N, 64, heads, most, 132);
                CAPTURE(N, heads, most, parts.each, parts.count);
                Index tokens = 0;
                for (Index i = 0; i < parts.count; ++i) {
                    CHECK(parts.tokens(i) > 0);
                    CHECK(parts.chunks(i) <= std::max(most, Index{1}));
                    tokens += parts.tokens(i);
                }
                CHECK(tokens == N);
            }
        }
    }
    // 32 heads: 16 chunks of each are 512 blocks, four rounds of 132; 25 are 800, of which the seventh round has 8.
    CHECK(gpu::gradient::parts_of(8192, 64, 32, 17, 132).each == 16 * 64);
    CHECK(gpu::gradient::parts_of(8192, 64, 32, 25, 132).each == 24 * 64);
    // 176 heads: 3 chunks of each are four rounds, 4 are six; 3 are too few.
    CHECK(gpu::gradient::parts_of(65536, 64, 176, 4, 132).each == 3 * 64);
    CHECK(gpu::gradient::parts_of(65536, 64, 176, 4, 132, 4).each == 4 * 64);
}

// As many chunks as make several parts, forwards too, the last one cut by the end of the tokens; heads that share heads
// of q and k, of which the sums are made in memory and by clusters; groups of queries.
TEST_CASE("gradients of several parts on tensor cores: those in Float32", "[gpu][gpu-gradient]") {
    if (!on_hopper()) return;
    const Poison poison;
    struct Call {
        const char* update;
        bool channels;
        std::array<Index, 3> heads;  // of q, k, v
        Index N;
    };
    const Call calls[] = {{"gated", false, {32, 32, 32}, 4223},  {"gated", false, {12, 12, 24}, 5600},
                          {"linear", false, {16, 16, 32}, 4200}, {"gated_delta", true, {32, 32, 32}, 2200},
                          {"gated", true, {32, 32, 32}, 2200},   {"gated_delta", true, {32, 8, 8}, 3000},
                          {"delta", false, {32, 8, 8}, 3000}};
    unsigned seed = 1100;
    for (const Call& call : calls) {
        constexpr Index width = 128;
        const Problem c = make(call.update, call.channels, call.heads, call.N, width, width, DType::bf16, seed += 10);
        const Tensor dO =
            random_tensor({1, std::max(call.heads[0], call.heads[2]), call.N, width}, seed + 9).to(DType::bf16);
        CAPTURE(call.update, call.channels, call.heads[1], call.N, seed);
        const gpu::LinearGradient got = gradients_of(c, DType::bf16, dO), again = gradients_of(c, DType::bf16, dO);
        check_gradients(got, gradients_of(c, DType::f32, dO), 3e-2);
        CHECK(same_bits(got.dq.cpu(), again.dq.cpu()));
        CHECK(same_bits(got.dk.cpu(), again.dk.cpu()));
        CHECK(same_bits(got.dv.cpu(), again.dv.cpu()));
    }
}
