// One token on the GPU against the recurrence in Float64.
#include "gpu/gated/step.hpp"
#include "tests/gpu/gated.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

void step_agrees(const GatedCase& c, DType type, Index pad = 0) {
    const GatedInputs in = rounded_to(gated_inputs(c), type);
    const LinearResult want = oracle(in);
    const Poison poison;
    for (const bool narrow : {false, true}) {
        CAPTURE(c, name(type), pad, narrow);
        GatedCall call(in, type, pad);
        gpu::gated_step_shaped(call.args, narrow, nullptr);
        // A few numbers may all be rounded by the most, and a single sum may cancel.
        CHECK(relative_error(gathered(call.o, 1, c.dv), want.O) <= 2e-5 + 2 * rounding_of(type));
        CHECK(relative_error(call.state.cpu(), want.state) <= 2e-6);
    }
}

}  // namespace

TEST_CASE("one token on the GPU: every update, gate, type, width and group", "[gpu][gpu-step]") {
    if (!on_gpu()) return;
    unsigned seed = 0;
    const std::pair<Index, Index> shapes[] = {{2, 6}, {64, 64}, {63, 65}, {128, 128}, {130, 40}, {256, 256}};
    for (const char* update : {"linear", "gated", "delta", "gated_delta"}) {
        for (const auto& [dk, dv] : shapes) {
            GatedCase c{update, 2, 3, 1, 1, dk, dv};
            c.seed = ++seed, c.scale = 0.5;
            step_agrees(c, DType::f32);
            c.channels = c.gated(), c.group = 3;
            step_agrees(c, DType::f32, 3);
            step_agrees(c, DType::bf16);
            c.group = 18, c.gate = INFINITY;
            step_agrees(c, DType::f16, 4);
        }
    }
}

TEST_CASE("one token on the GPU: many heads", "[gpu][gpu-step]") {
    if (!on_gpu()) return;
    GatedCase c{"gated_delta", 40, 32, 1, 1, 24, 36};
    c.seed = 77;
    step_agrees(c, DType::bf16);
    const GatedInputs in = gated_inputs(c);
    GatedCall call(in, DType::f32), one(in, DType::f32);
    gpu::gated_step(call.args, nullptr);
    gpu::gated_step_shaped(one.args, false, nullptr);
    CHECK(same_bits(call.o.cpu(), one.o.cpu()));
}

TEST_CASE("one token on the GPU: what is refused", "[gpu][gpu-step]") {
    if (!on_gpu()) return;
    GatedCall two(gated_inputs({"delta", 1, 1, 1, 2, 8, 4}), DType::f32);
    CHECK(message_of([&] { gpu::gated_step(two.args, nullptr); }).find("2 tokens, expected 1") != std::string::npos);
    GatedCall one(gated_inputs({"delta", 1, 1, 1, 1, 8, 4}), DType::f32);
    one.args.state = nullptr;
    CHECK(message_of([&] { gpu::gated_step(one.args, nullptr); }).find("state is null") != std::string::npos);
}
