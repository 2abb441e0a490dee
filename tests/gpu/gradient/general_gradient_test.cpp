// Gradients of the general rule on the GPU against those of the CPU in Float64.
#include "core/gradient/general_linear_attention_grad.hpp"
#include "gpu/gradient/general_linear_attention_grad.hpp"
#include "tests/core/gradient/problems.hpp"
#include "tests/gpu/general.hpp"

using namespace causeway;
using namespace causeway::test;
using namespace causeway::test::general;

namespace {

struct GradCall {
    OnGpu forward;
    Tensor dO;
    std::optional<Tensor> dstate;

    GradCall(const GeneralCase& c, const GeneralInputs& given, DType type, bool all = false)
        : forward(given, type, all),
          dO(random_tensor({c.batch, c.heads * c.group, c.N, c.dv}, c.seed + 1000).to(type).to(DType::f64)),
          dstate(random_tensor({c.batch, c.heads, c.dk, c.dv}, c.seed + 2000)) {}

    std::map<std::string, Tensor> on_cpu() const {
        const GeneralInputs& in = forward.in;
        const GeneralGradient g = general_linear_attention_grad(in.q, in.k, in.v, dO, in.options, dstate);
        std::map<std::string, Tensor> out{{"dq", g.dq}, {"dk", g.dk}, {"dv", g.dv}, {"dstate", g.dstate}};
        if (g.da) out["da"] = *g.da;
        if (g.du) out["du"] = *g.du, out["dw"] = *g.dw;
        return out;
    }
    std::map<std::string, Tensor> on_gpu() const {
        const auto moved = [&](const Tensor& x) { return gpu::Tensor(x.to(forward.type)); };
        const GeneralInputs& in = forward.in;
        std::optional<gpu::Tensor> last;
        if (dstate) last = gpu::Tensor(dstate->to(DType::f32));
        const gpu::GeneralGradient g = gpu::general_linear_attention_grad(
            moved(in.q), moved(in.k), moved(in.v), moved(dO), forward.options("chunkwise"), last);
        std::map<std::string, Tensor> out{
            {"dq", g.dq.cpu()}, {"dk", g.dk.cpu()}, {"dv", g.dv.cpu()}, {"dstate", g.dstate.cpu()}};
        if (g.da) out["da"] = g.da->cpu();
        if (g.du) out["du"] = g.du->cpu(), out["dw"] = g.dw->cpu();
        return out;
    }
};

void check_gradients(const GeneralCase& c, const GradCall& call) {
    const Poison poison;
    CAPTURE(c, name(call.forward.type), name(call.forward.type_of_u));
    const auto want = call.on_cpu(), got = call.on_gpu();
    REQUIRE(got.size() == want.size());
    for (const auto& [name, x] : want) {
        INFO(name);
        REQUIRE(got.count(name) == 1);
        const Tensor& found = got.at(name);
        const double most = found.dtype() == DType::f32 ? 2e-5 : found.dtype() == DType::bf16 ? 4e-3 : 6e-4;
        check_near(found, x, most, name.c_str());
    }
}

void grads_agree(const GeneralCase& c, DType type, bool all = false) {
    check_gradients(c, GradCall(c, general_inputs(c), type, all));
}

}  // namespace

TEST_CASE("gradients of the general rule on the GPU: every kind, type and awkward length",
          "[gpu][gpu-general-gradient]") {
    if (!on_gpu()) return;
    unsigned seed = 0;
    for (const Index N : {1, 2, 7, 8, 9, 63, 64, 65, 97}) {
        for (const GeneralCase& c : each_kind({.batch = 2,
                                    .heads = 2,
                                    .group = 1 + N % 2,
                                    .N = N,
                                    .dk = 24,
                                    .dv = 20,
                                    .scale = N % 2 ? 0.25 : 1,
                                    .seed = ++seed}))
            for (const DType type : {DType::f32, DType::bf16, DType::f16}) grads_agree(c, type, N % 4 == 1);
    }
}

TEST_CASE("gradients of the general rule on the GPU: widths", "[gpu][gpu-general-gradient]") {
    if (!on_gpu()) return;
    unsigned seed = 100;
    const std::pair<Index, Index> widths[] = {{1, 1},    {3, 5},    {64, 64}, {65, 33},  {128, 128},
                                              {127, 70}, {130, 40}, {8, 256}, {256, 16}, {200, 200}};
    for (const auto& [dk, dv] : widths) {
        for (const GeneralCase& c :
             each_kind({.heads = 2, .group = 1 + dk % 3, .N = 37, .dk = dk, .dv = dv, .seed = ++seed}))
            for (const DType type : {DType::f32, DType::bf16}) grads_agree(c, type);
    }
}

TEST_CASE("gradients of the general rule on the GPU: factors of any strength, and of 0",
          "[gpu][gpu-general-gradient]") {
    if (!on_gpu()) return;
    unsigned seed = 200;
    for (const double log_a : {0.0, 3.0, 60.0, 1000.0, double{INFINITY}}) {
        for (GeneralCase c : each_kind({.heads = 2, .N = 140, .dk = 32, .dv = 24, .log_a = log_a, .seed = ++seed})) {
            if (log_a == 0) c.strength = 0.5;
            grads_agree(c, DType::f32);
        }
    }
}

TEST_CASE("gradients of the general rule on the GPU: heads that are shared", "[gpu][gpu-general-gradient]") {
    if (!on_gpu()) return;
    for (const Index shared : {1, 2, 4}) {
        for (const GeneralCase& c : each_kind({.batch = 2,
                                    .heads = 4,
                                    .group = 3,
                                    .N = 40,
                                    .dk = 16,
                                    .dv = 24,
                                    .shared_keys = shared,
                                    .shared_factors = 4 / shared,
                                    .seed = 31}))
            grads_agree(c, DType::f32);
        const GeneralCase c{.batch = 2, .heads = 4, .N = 40, .dk = 16, .dv = 24, .shared_keys = shared, .seed = 32};
        GeneralInputs in = general_inputs(c);
        in.q = slice(in.q, 1, 0, 2);
        check_gradients(c, GradCall(c, in, DType::f32));
    }
}

TEST_CASE("gradients of the general rule on the GPU: segments of a long sequence, and no states",
          "[gpu][gpu-general-gradient]") {
    if (!on_gpu()) return;
    for (const bool state : {true, false}) {
        for (const GeneralCase& c :
             each_kind({.heads = 2, .N = 1301, .dk = 8, .dv = 4, .log_a = 0.02, .state = state, .seed = 300})) {
            GradCall call(c, general_inputs(c), DType::f32);
            if (!state) call.dstate.reset();
            check_gradients(c, call);
        }
    }
}

TEST_CASE("gradients of the general rule on the GPU: packed sequences, and the same bits every time",
          "[gpu][gpu-general-gradient]") {
    if (!on_gpu()) return;
    const std::vector<Index> offsets{0, 5, 69, 69, 86, 300};
    for (const GeneralCase& c : each_kind({.heads = 2, .group = 2, .N = 300, .dk = 40, .dv = 36, .seed = 400})) {
        GradCall call(c, general_inputs(c), DType::f32);
        call.forward.in.options.cu_seqlens = offsets;
        call.forward.in.options.state = random_tensor({5, 2, 40, 36}, 401);
        call.dstate = random_tensor({5, 2, 40, 36}, 402);
        check_gradients(c, call);
        const auto all = call.on_gpu(), again = call.on_gpu();
        for (const auto& [name, x] : all) {
            INFO(name);
            CHECK(same_bits(again.at(name), x));
        }
        for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
            CAPTURE(c, i);
            const auto at = static_cast<Index>(i);
            GradCall one = call;
            one.forward = call.forward.tokens(offsets[i], offsets[i + 1]);
            one.forward.in.options.cu_seqlens.clear();
            one.forward.in.options.state = slice(*call.forward.in.options.state, 0, at, at + 1);
            one.dO = tokens(call.dO, offsets[i], offsets[i + 1]);
            one.dstate = slice(*call.dstate, 0, at, at + 1);
            for (const auto& [name, x] : one.on_gpu()) {
                INFO(name);
                const Tensor& of_all = all.at(name);
                CHECK(same_bits(
                    x, name == "dstate" ? slice(of_all, 0, at, at + 1) : tokens(of_all, offsets[i], offsets[i + 1])));
            }
        }
    }
}

TEST_CASE("gradients of the general rule on the GPU: what is refused", "[gpu][gpu-general-gradient]") {
    if (!on_gpu()) return;
    const GeneralCase c{.heads = 2, .N = 5, .dk = 8, .dv = 4};
    const GradCall call(c, general_inputs(c), DType::f32);
    const auto said = [&](auto&& change) {
        gpu::GeneralOptions o = call.forward.options("chunkwise");
        change(o);
        const auto moved = [](const Tensor& x) { return gpu::Tensor(x.to(DType::f32)); };
        const GeneralInputs& in = call.forward.in;
        return message_of(
            [&] { gpu::general_linear_attention_grad(moved(in.q), moved(in.k), moved(in.v), moved(call.dO), o); });
    };
    CHECK(said([](auto& o) { o.checkpoint_every = 2; }) == "checkpoint_every: given, but a gradient returns no states");
    CHECK(said([](auto& o) { o.inplace = true; }) == "inplace: true, but a gradient leaves the state as it is");
    CHECK(said([](auto& o) { o.state_indices = {1}; }) ==
          "state_indices: a slot outside the pool in place 1, expected one of its 1");
    CHECK(said([](auto& o) { o.mode = "parallel"; }).find("\"parallel\" does not run on the GPU by the general rule") !=
          std::string::npos);
    CHECK(message_of([&] {
              const gpu::Tensor q(call.forward.in.q.to(DType::f32)), k(call.forward.in.k.to(DType::f32)),
                  v(call.forward.in.v.to(DType::f32));
              gpu::general_linear_attention_grad(q, k, v, q);
          }).find("dO: ") == 0);
}

TEST_CASE("gradients of the general rule on the GPU: slots of a pool, of which two texts share one",
          "[gpu][gpu-general-gradient]") {
    if (!on_gpu()) return;
    for (const GeneralCase& c : each_kind({.batch = 3, .heads = 2, .N = 30, .dk = 9, .dv = 12, .seed = 500})) {
        GradCall call(c, general_inputs(c), DType::f32);
        call.forward.in.options.state = random_tensor({4, 2, 9, 12}, 501);
        call.forward.in.options.state_indices = {2, 0, 2};
        check_gradients(c, call);
    }
}
