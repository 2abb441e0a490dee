// The tensor-core kernels with a gate per key channel against the recurrence in Float64.
#include "gpu/gated/channels.hpp"

#include "tests/gpu/gated.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

// Of relative_error: outputs round the state, the scores and what is written to BFloat16, and themselves.
constexpr double output_bound = 8e-3, state_bound = 8e-3;

struct Got {
    Tensor O, state;
};

Got on_device(const GatedCase& c, const GatedInputs& in, Index pad) {
    const Poison poison;
    GatedCall call(in, DType::bf16, pad);
    REQUIRE(gpu::gated_channels_takes(call.args));
    call.give_workspace(gpu::gated_channels_workspace(call.args));
    gpu::gated_channels(call.args, nullptr);
    return {gathered(call.o, c.N, c.dv), c.state ? call.state.cpu() : Tensor(DType::f32, Shape{0})};
}

void agrees(const GatedCase& c, const GatedInputs& given, Index pad = 0) {
    CAPTURE(c, pad);
    const GatedInputs in = rounded_to(given, DType::bf16);
    const LinearResult want = oracle(in);
    const Got got = on_device(c, in, pad);
    CHECK(relative_error(got.O, want.O) <= output_bound);
    if (c.state) CHECK(relative_error(got.state, want.state) <= state_bound);
}
void agrees(const GatedCase& c, Index pad = 0) { agrees(c, gated_inputs(c), pad); }

constexpr const char* updates[] = {"gated", "gated_delta"};

}  // namespace

TEST_CASE("a gate per channel on tensor cores: lengths", "[gpu][gpu-gated][gpu-channels]") {
    if (!on_hopper()) return;
    unsigned seed = 400;
    for (const char* update : updates)
        for (const Index N : {1, 2, 15, 16, 17, 63, 64, 65, 97, 128, 1000})
            agrees({.update = update, .heads = 2, .N = N, .dk = 128, .dv = 128, .channels = true, .seed = ++seed});
}

TEST_CASE("a gate per channel on tensor cores: widths, groups, strides, scale", "[gpu][gpu-gated][gpu-channels]") {
    if (!on_hopper()) return;
    unsigned seed = 450;
    const std::pair<Index, Index> widths[] = {{64, 64}, {64, 128}, {128, 64}, {128, 96}, {96, 80},
                                              {8, 16},  {2, 1},    {63, 33},  {127, 5},  {65, 127}};
    for (const auto& [dk, dv] : widths) {
        for (const char* update : updates) {
            for (const Index group : {1, 3}) {
                const GatedCase c{.update = update,
                                  .batch = 2,
                                  .heads = 2,
                                  .group = group,
                                  .N = 150,
                                  .dk = dk,
                                  .dv = dv,
                                  .channels = true,
                                  .scale = 0.3,
                                  .seed = ++seed};
                agrees(c);
                agrees(c, 1);
                agrees(c, 8);
            }
        }
    }
}

TEST_CASE("a gate per channel on tensor cores: gates and keys of any size", "[gpu][gpu-gated][gpu-channels]") {
    if (!on_hopper()) return;
    unsigned seed = 500;
    for (const char* update : updates) {
        for (const double gate : {0.0, 1e-4, 1.0, 5.0, 60.0, 1000.0, double{INFINITY}})
            agrees({.update = update,
                    .heads = 2,
                    .N = 200,
                    .dk = 128,
                    .dv = 64,
                    .channels = true,
                    .gate = gate,
                    .seed = ++seed});
        // One channel's gates leave what a key times their inverse may be, in one sub-block; all others are ordinary.
        for (const double gate : {-60.0, -90.0, -200.0, -1e9, -3.4e38}) {
            CAPTURE(gate);
            const GatedCase c{
                .update = update, .heads = 1, .N = 200, .dk = 128, .dv = 32, .channels = true, .seed = ++seed};
            GatedInputs in = gated_inputs(c);
            for (const Index token : {3, 70, 71, 199}) in.options.log_decay->set(token * c.dk + token % c.dk, gate);
            agrees(c, in);
        }
    }
    // A key too large for the inverse of its gates, small enough for its products.
    const GatedCase c{
        .update = "gated", .heads = 1, .N = 100, .dk = 64, .dv = 32, .channels = true, .gate = 3.0, .seed = ++seed};
    GatedInputs in = gated_inputs(c);
    in.k.set(40 * c.dk + 7, 1e30);
    agrees(c, in);
    // β = 0 writes nothing, β = 1 all.
    for (const double beta : {0.0, 1.0})
        agrees({.heads = 2,
                .N = 130,
                .dk = 128,
                .dv = 64,
                .channels = true,
                .beta_low = beta,
                .beta_high = beta,
                .seed = ++seed});
}

TEST_CASE("a gate per channel on tensor cores: parts of a long sequence, and no state to start from",
          "[gpu][gpu-gated][gpu-channels]") {
    if (!on_hopper()) return;
    for (const bool state : {true, false}) {
        for (const char* update : updates) {
            // 64 heads: 2048 tokens to a part.
            agrees({.update = update,
                    .batch = 8,
                    .heads = 8,
                    .N = 3 * 2048 + 100,
                    .dk = 16,
                    .dv = 32,
                    .channels = true,
                    .gate = 0.05,
                    .state = state,
                    .seed = 600});
        }
    }
    // 128 heads: 1024, whose tiles blocks of a cluster share.
    for (const char* update : updates)
        agrees({.update = update,
                .batch = 8,
                .heads = 16,
                .N = 2 * 1024 + 100,
                .dk = 128,
                .dv = 64,
                .channels = true,
                .gate = 0.05,
                .seed = 601});
}

TEST_CASE("a gate per channel on tensor cores: the same bits every time", "[gpu][gpu-gated][gpu-channels]") {
    if (!on_hopper()) return;
    unsigned seed = 700;
    for (const char* update : updates) {
        for (const Index dv : {48, 128}) {
            const GatedCase c{.update = update,
                              .heads = 4,
                              .group = 2,
                              .N = 2047,
                              .dk = 128,
                              .dv = dv,
                              .channels = true,
                              .seed = ++seed};
            CAPTURE(c);
            const GatedInputs in = rounded_to(gated_inputs(c), DType::bf16);
            const Got first = on_device(c, in, 0);
            for (int i = 0; i < 10; ++i) {
                const Got again = on_device(c, in, 0);
                CHECK(same_bits(again.O, first.O));
                CHECK(same_bits(again.state, first.state));
            }
        }
    }
}
