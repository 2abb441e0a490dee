// The gated and delta-rule family on the GPU against the recurrence in Float64.
#include "tests/gpu/gated.hpp"
#include "gpu/calls/linear_attention.hpp"
#include "gpu/gated/parallel.hpp"
#include "gpu/gated/portable.hpp"
#include "gpu/gated/recurrent.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

struct Form {
    const char* name;
    std::size_t (*workspace)(const gpu::GatedArgs&);
    void (*run)(const gpu::GatedArgs&, cudaStream_t);
    bool channels;  // takes a gate per key channel
};
constexpr Form forms[] = {{"chunks", gpu::gated_portable_workspace, gpu::gated_portable, true},
                          {"recurrent", gpu::gated_recurrent_workspace, gpu::gated_recurrent, true},
                          {"parallel", gpu::gated_parallel_workspace, gpu::gated_parallel, false}};

void agrees(const GatedCase& c, const GatedInputs& given, DType type, Index pad = 0) {
    const GatedInputs in = rounded_to(given, type);
    const LinearResult want = oracle(in);
    for (const Form& form : forms) {
        if (c.channels && !form.channels) continue;
        CAPTURE(c, name(type), pad, form.name);
        const Poison poison;
        GatedCall call(in, type, pad);
        call.give_workspace(form.workspace(call.args));
        form.run(call.args, nullptr);
        CHECK(relative_error(gathered(call.o, c.N, c.dv), want.O) <= 4e-6 + rounding_of(type));
        if (c.state) CHECK(relative_error(call.state.cpu(), want.state) <= 4e-6);
    }
}

void agrees(const GatedCase& c, DType type, Index pad = 0) { agrees(c, gated_inputs(c), type, pad); }

constexpr const char* updates[] = {"linear", "gated", "delta", "gated_delta"};

}  // namespace

TEST_CASE("gated family on the GPU: every update, gate, type and awkward length", "[gpu][gpu-gated]") {
    if (!on_gpu()) return;
    unsigned seed = 0;
    for (const char* update : updates) {
        for (const bool channels : {false, true}) {
            GatedCase c{update, 2, 2, 1, 1, 24, 20, channels};
            if (channels && !c.gated()) continue;
            for (const Index N : {1, 2, 17, 63, 64, 65, 97}) {
                c.N = N, c.seed = ++seed;
                agrees(c, DType::f32);
            }
            for (const DType type : {DType::bf16, DType::f16}) agrees(c, type);
        }
    }
}

TEST_CASE("gated family on the GPU: the largest number", "[gpu][gpu-gated]") {
    if (!on_gpu()) return;
    for (GatedCase c : each_update({"linear", 1, 2, 1, 70, 40, 24})) {
        const GatedInputs in = with_largest(c);
        agrees(c, in, DType::f32);
    }
}

TEST_CASE("gated family on the GPU: widths, groups and strides", "[gpu][gpu-gated]") {
    if (!on_gpu()) return;
    unsigned seed = 100;
    const std::pair<Index, Index> shapes[] = {{1, 1}, {3, 5}, {64, 64}, {65, 33}, {128, 128}, {130, 40}, {256, 256}};
    for (const char* update : updates) {
        for (const auto& [dk, dv] : shapes) {
            GatedCase c{update, 1, 2, 1, 35, dk, dv};
            c.seed = ++seed, c.scale = 0.25;
            agrees(c, DType::f32);
            c.channels = c.gated(), c.group = 3;
            agrees(c, DType::f32, 3);
            agrees(c, DType::bf16, 8);
        }
    }
}

TEST_CASE("gated family on the GPU: strong gates, resets, no writing and reflections", "[gpu][gpu-gated]") {
    if (!on_gpu()) return;
    unsigned seed = 200;
    for (const bool channels : {false, true}) {
        for (const double gate : {0.0, 5.0, 80.0, double{INFINITY}}) {
            for (const char* update : {"gated", "gated_delta"}) {
                GatedCase c{update, 1, 2, 2, 140, 32, 24, channels, gate};
                c.seed = ++seed;
                agrees(c, DType::f32);
            }
        }
        GatedCase c{"gated_delta", 1, 2, 1, 140, 32, 24, channels, 0.01};
        c.beta_low = c.beta_high = 0, c.seed = ++seed;
        agrees(c, DType::f32);
        c.beta_low = c.beta_high = 1;
        agrees(c, DType::f32);
    }
}

TEST_CASE("gated family on the GPU: ordinary gates behind one of any size", "[gpu][gpu-gated][gpu-forms]") {
    if (!on_gpu()) return;
    unsigned seed = 250;
    for (const double gate : {-90.0, -200.0, -1e9, -1e20, -3.4e38}) {
        CAPTURE(gate);
        for (const char* update : {"gated", "gated_delta"}) {
            GatedCase c{update, 1, 2, 1, 140, 32, 24, false, 0.5};
            c.seed = ++seed;
            GatedInputs in = gated_inputs(c);
            for (const Index token : {3, 70, 140 + 40}) in.options.log_decay->set(token, gate);
            agrees(c, in, DType::f32);
        }
    }
}

TEST_CASE("gated family on the GPU: parts of a long sequence, and no state to start from", "[gpu][gpu-gated]") {
    if (!on_gpu()) return;
    for (const bool state : {true, false}) {
        GatedCase c{"gated_delta", 8, 8, 1, 2100, 8, 4, false, 0.05};  // 64 heads: 1024 tokens to a part
        c.state = state, c.seed = 300;
        agrees(c, DType::f32);
    }
}

TEST_CASE("gated family on the GPU: the parallel form over several tiles of rows, in every type, with shared keys",
          "[gpu][gpu-gated][gpu-forms]") {
    if (!on_gpu()) return;
    unsigned seed = 400;
    for (const char* update : updates) {
        GatedCase c{update, 2, 2, 2, 700, 24, 40, false, 0.02};
        for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
            c.seed = ++seed, c.scale = 0.5;
            agrees(c, type, type == DType::bf16 ? 8 : 0);
        }
    }
}

TEST_CASE("gated family on the GPU: where the parallel form does not go", "[gpu][gpu-gated][gpu-forms]") {
    if (!on_gpu()) return;
    const GatedInputs in = gated_inputs({"gated", 1, 2, 1, 40, 8, 4, true});
    GatedCall call(in, DType::f32);
    CHECK(message_of([&] {
              gpu::gated_parallel(call.args, nullptr);
          }).find("a gate for each of 8 channels, expected at most one a head") != std::string::npos);
    gpu::LinearOptions o;
    o.update = "gated", o.mode = "parallel";
    o.log_decay = gpu::Tensor(in.options.log_decay->to(DType::f32));
    CHECK(message_of([&] {
              gpu::linear_attention(call.q, call.k, call.v, o);
          }).find("\"parallel\" does not run on the GPU with a gate per key channel") != std::string::npos);
}

TEST_CASE("gated family on the GPU: nothing to do, and what is refused", "[gpu][gpu-gated]") {
    if (!on_gpu()) return;
    for (const Form& form : forms) {
        GatedCase c{"gated_delta", 2, 2, 1, 0, 8, 4};
        const GatedInputs in = gated_inputs(c);
        GatedCall call(in, DType::f32);
        call.give_workspace(form.workspace(call.args));
        form.run(call.args, nullptr);
        CHECK(same_bits(call.state.cpu(), in.options.state->to(DType::f32)));

        GatedCall some(gated_inputs({"gated_delta", 1, 1, 1, 5, 8, 4}), DType::f32);
        gpu::GatedArgs wrong = some.args;
        wrong.dk = 257;
        CHECK(message_of([&] { form.run(wrong, nullptr); }).find("keys of width 257") != std::string::npos);
        wrong = some.args, wrong.gates = 3;
        CHECK(message_of([&] { form.run(wrong, nullptr); }).find("3 gates a token, expected 0, 1 or 8") !=
              std::string::npos);
        wrong = some.args, wrong.g = nullptr;
        CHECK(message_of([&] { form.run(wrong, nullptr); }).find("g is null") != std::string::npos);
    }
    GatedCall call(gated_inputs({"delta", 1, 1, 1, 40, 8, 4}), DType::f32);
    CHECK(message_of([&] { gpu::gated_portable(call.args, nullptr); }).find("workspace of 0 bytes, expected") !=
          std::string::npos);
}
