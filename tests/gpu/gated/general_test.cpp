// The general rule on the GPU against a plain loop in Float64, and its properties.
#include "tests/gpu/general.hpp"

#include <random>

#include "gpu/calls/linear_attention.hpp"
#include "tests/gpu/gated.hpp"

using namespace causeway;
using namespace causeway::test;
using namespace causeway::test::general;

namespace {

constexpr DType types[] = {DType::f32, DType::bf16, DType::f16};

std::vector<Index> offsets_of(const std::vector<Index>& lengths) {
    std::vector<Index> offsets{0};
    for (const Index n : lengths) offsets.push_back(offsets.back() + n);
    return offsets;
}

}  // namespace

TEST_CASE("the general rule on the GPU: every kind, type and awkward length", "[gpu][gpu-general]") {
    if (!on_gpu()) return;
    unsigned seed = 0;
    for (const Index N : {1, 2, 15, 16, 17, 33, 64, 97}) {
        for (const GeneralCase& c : each_kind({.batch = 2,
                                    .heads = 2,
                                    .group = 1 + N % 2,
                                    .N = N,
                                    .dk = 24,
                                    .dv = 20,
                                    .signs = N % 3 == 0,
                                    .scale = N % 2 ? 0.25 : 1,
                                    .seed = ++seed}))
            for (const DType type : types) agrees(c, type, N % 4 == 1);
    }
}

TEST_CASE("the general rule on the GPU: widths", "[gpu][gpu-general]") {
    if (!on_gpu()) return;
    unsigned seed = 100;
    const std::pair<Index, Index> widths[] = {{1, 1},     {3, 5},    {64, 64}, {65, 33},  {128, 128}, {96, 80},
                                              {127, 129}, {130, 40}, {8, 256}, {256, 16}, {256, 256}, {128, 64}};
    for (const auto& [dk, dv] : widths) {
        for (const GeneralCase& c :
             each_kind({.heads = 2, .group = 1 + dk % 3, .N = 51, .dk = dk, .dv = dv, .seed = ++seed}))
            for (const DType type : types) agrees(c, type, type == DType::bf16);
    }
}

TEST_CASE("the general rule on the GPU: factors of any strength and sign", "[gpu][gpu-general]") {
    if (!on_gpu()) return;
    unsigned seed = 200;
    for (const double log_a : {0.0, 1e-4, 3.0, 20.0, 60.0, 1000.0, double{INFINITY}}) {
        for (const bool signs : {false, true}) {
            if (signs && log_a < 1) continue;  // the state would grow without bound
            for (GeneralCase c : each_kind(
                     {.heads = 2, .N = 140, .dk = 32, .dv = 24, .log_a = log_a, .signs = signs, .seed = ++seed})) {
                if (log_a == 0) c.strength = 0.5;
                agrees(c, DType::f32);
                agrees(c, DType::bf16);
            }
        }
    }
}

TEST_CASE("the general rule on the GPU: heads that are shared", "[gpu][gpu-general]") {
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
                                    .seed = 31})) {
            agrees(c, DType::f32);
            agrees(c, DType::bf16, true);
        }
        // Fewer queries than states.
        GeneralCase c{.batch = 2, .heads = 4, .N = 40, .dk = 16, .dv = 24, .shared_keys = shared, .seed = 32};
        GeneralInputs in = general_inputs(c);
        in.q = slice(in.q, 1, 0, 2);
        agrees(c, in, DType::f32);
        agrees(c, in, DType::bf16);
    }
}

TEST_CASE("the general rule on the GPU: parts of a long sequence, and no state to start from", "[gpu][gpu-general]") {
    if (!on_gpu()) return;
    for (const bool state : {true, false}) {
        for (const GeneralCase& c : each_kind(
                 {.batch = 4, .heads = 8, .N = 1301, .dk = 8, .dv = 4, .log_a = 0.02, .state = state, .seed = 300}))
            for (const DType type : {DType::f32, DType::bf16}) agrees(c, type);
    }
    agrees({.heads = 2, .N = 2100, .dk = 128, .dv = 32, .log_a = 0.02, .seed = 310}, DType::bf16);
}

TEST_CASE("the general rule on the GPU: the gated delta rule is one", "[gpu][gpu-general]") {
    if (!on_gpu()) return;
    for (const bool channels : {false, true}) {
        const GatedInputs in = rounded_to(
            gated_inputs({.heads = 2, .group = 2, .N = 170, .dk = 9, .dv = 8, .channels = channels, .seed = 21}),
            DType::f32);
        GeneralInputs general{in.q, in.k.copy(), in.v, {}};
        Tensor a(DType::f64, in.k.shape()), w(DType::f64, in.k.shape());
        for (Index i = 0; i < in.k.size(); ++i) {
            a.set(i, std::exp(in.options.log_decay->get(channels ? i : i / 9)));
            w.set(i, a.get(i) * in.k.get(i));
            general.k.set(i, in.options.beta->get(i / 9) * in.k.get(i));
        }
        general.options.a = a, general.options.w = w, general.options.u = general.k;
        general.options.state = in.options.state;
        const OnGpu call(general, DType::f32);
        const LinearResult want = oracle(in);
        for (const std::string mode : general::modes) {
            CAPTURE(channels, mode);
            const gpu::LinearResult got = call.run(mode);
            check_near(got.O.cpu(), want.O, 4e-6, "O");
            check_near(got.state.cpu(), want.state, 4e-6, "state");
        }
    }
}

TEST_CASE("the general rule on the GPU: packed sequences have the bits of separate calls", "[gpu][gpu-general]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 400;
    for (const std::vector<Index>& lengths :
         {std::vector<Index>{1}, {0, 5, 64, 0, 17, 33, 1}, {16, 16, 700, 3}, std::vector<Index>(90, 7)}) {
        const std::vector<Index> offsets = offsets_of(lengths);
        const Index n = static_cast<Index>(lengths.size());
        for (const GeneralCase& c : each_kind(
                 {.heads = 2, .group = 2, .N = offsets.back(), .dk = 40, .dv = 36, .state = false, .seed = ++seed})) {
            for (const DType type : types) {
                OnGpu call(general_inputs(c), type);
                std::mt19937_64 generator(seed);
                std::normal_distribution<double> normal;
                Tensor states(DType::f64, {n, 2, 40, 36});
                for (Index i = 0; i < states.size(); ++i) states.set(i, static_cast<float>(normal(generator)));
                call.in.options.state = states;
                for (const std::string mode : general::modes) {
                    call.in.options.cu_seqlens = offsets;
                    const gpu::LinearResult got = call.run(mode);
                    const Tensor O = got.O.cpu(), state = got.state.cpu();
                    for (Index i = 0; i < n; ++i) {
                        CAPTURE(c, name(type), mode, i, lengths[static_cast<std::size_t>(i)]);
                        OnGpu one = call.tokens(offsets[i], offsets[i + 1]);
                        one.in.options.cu_seqlens.clear();
                        one.in.options.state = slice(states, 0, i, i + 1);
                        const gpu::LinearResult alone = one.run(mode);
                        CHECK(same_bits(tokens(O, offsets[i], offsets[i + 1]), alone.O.cpu()));
                        CHECK(same_bits(slice(state, 0, i, i + 1), alone.state.cpu()));
                    }
                }
            }
        }
    }
}

TEST_CASE("the general rule on the GPU: what goes on from a checkpoint has the bits of the uninterrupted call",
          "[gpu][gpu-general]") {
    if (!on_gpu()) return;
    const Poison poison;
    for (const GeneralCase& c : each_kind({.heads = 2, .group = 2, .N = 131, .dk = 12, .dv = 21, .seed = 900})) {
        for (const Index every : {7, 32, 131, 500}) {
            for (const DType type : {DType::f32, DType::bf16}) {
                for (const std::string mode : general::modes) {
                    CAPTURE(c, every, name(type), mode);
                    OnGpu call(general_inputs(c), type);
                    call.in.options.checkpoint_every = every;
                    const gpu::LinearResult all = call.run(mode);
                    REQUIRE(all.checkpoints->shape()[0] == c.N / every);
                    for (Index t = every, i = 0; t <= c.N; t += every, ++i) {
                        OnGpu rest = call.tokens(t, c.N);
                        rest.in.options.state = slice(all.checkpoints->cpu(), 0, i, i + 1).to(DType::f64);
                        const gpu::LinearResult went_on = rest.run(mode);
                        CHECK(same_bits(went_on.O.cpu(), tokens(all.O.cpu(), t, c.N)));
                        CHECK(same_bits(went_on.state.cpu(), all.state.cpu()));
                    }
                }
            }
        }
    }
}

TEST_CASE("the general rule on the GPU: slots of a pool, in place", "[gpu][gpu-general]") {
    if (!on_gpu()) return;
    const Poison poison;
    const GeneralCase c{.batch = 2, .heads = 2, .N = 50, .dk = 9, .dv = 18, .seed = 950};
    for (const std::string mode : general::modes) {
        for (const DType pool_type : {DType::f32, DType::bf16}) {
            CAPTURE(mode, name(pool_type));
            OnGpu call(general_inputs(c), DType::f32);
            const Tensor given = call.in.options.state->to(pool_type);
            call.in.options.state = given.to(DType::f64);
            const gpu::LinearResult want = call.run(mode);
            Tensor pool = Tensor::full(pool_type, {5, 2, 9, 18}, 7);
            const Index each = 2 * 9 * 18;
            for (Index e = 0; e < each; ++e)
                pool.set(3 * each + e, given.get(e)), pool.set(1 * each + e, given.get(each + e));
            gpu::GeneralOptions o = call.options(mode);
            o.state = gpu::Tensor(pool), o.state_indices = {3, 1};
            const gpu::LinearResult got = call.run(o);
            CHECK(same_bits(got.O.cpu(), want.O.cpu()));
            CHECK(same_bits(got.state.cpu(), want.state.cpu()));
            CHECK(same_bits(o.state->cpu(), pool));
            o.inplace = true;
            CHECK(call.run(o).state.data() == o.state->data());
            const Tensor written = o.state->cpu(), rounded = want.state.cpu().to(pool_type);
            for (Index e = 0; e < each; ++e) {
                REQUIRE(written.get(3 * each + e) == rounded.get(e));
                REQUIRE(written.get(1 * each + e) == rounded.get(each + e));
                REQUIRE(written.get(2 * each + e) == 7);
            }
        }
    }
}

TEST_CASE("the general rule on the GPU: 1 to 16 tokens a step", "[gpu][gpu-general]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 1000;
    for (const Index T : {1, 2, 5, 16}) {
        for (const GeneralCase& c :
             each_kind({.batch = 2, .heads = 3, .group = 2, .N = 3 * T, .dk = 33, .dv = 20, .seed = ++seed})) {
            for (const DType type : types) {
                CAPTURE(c, name(type));
                const OnGpu call(general_inputs(c), type);
                const LinearResult want = plain_loop(call.in);
                gpu::Tensor state(call.in.options.state->to(DType::f32));
                for (Index t = 0; t < c.N; t += T) {
                    OnGpu some = call.tokens(t, t + T);
                    some.in.options.state.reset();
                    gpu::Tensor O(type, {2, 6, T, 20});
                    const auto moved = [&](const Tensor& x) { return gpu::Tensor(x.to(type)); };
                    gpu::general_linear_attention_step(moved(some.in.q), moved(some.in.k), moved(some.in.v), state, O,
                                                       some.options("chunkwise"));
                    check_near(O.cpu(), tokens(want.O, t, t + T), bound(type, "recurrent"), "O");
                }
                check_near(state.cpu(), want.state, 4e-6, "state");
            }
        }
    }
}

TEST_CASE("the general rule on the GPU: a step on slots of a pool, with the states after each token",
          "[gpu][gpu-general]") {
    if (!on_gpu()) return;
    const Poison poison;
    const Index each = 3 * 9 * 18;
    const std::vector<Index> slots{3, 1};
    for (const GeneralCase& c :
         each_kind({.batch = 2, .heads = 3, .group = 2, .N = 5, .dk = 9, .dv = 18, .seed = 1100})) {
        for (const DType stored : {DType::f32, DType::bf16, DType::f16}) {
            CAPTURE(c, name(stored));
            const OnGpu call(general_inputs(c), DType::bf16);
            const Tensor given = call.in.options.state->to(stored);
            const auto step = [&](const OnGpu& some, gpu::Tensor& state, const std::vector<Index>& places,
                                  std::vector<gpu::Tensor>* kept) {
                OnGpu without = some;
                without.in.options.state.reset(), without.in.options.state_indices = places;
                gpu::Tensor O(DType::bf16, {2, 6, some.in.q.shape()[2], 18});
                const auto moved = [](const Tensor& x) { return gpu::Tensor(x.to(DType::bf16)); };
                gpu::general_linear_attention_step(moved(some.in.q), moved(some.in.k), moved(some.in.v), state, O,
                                                   without.options("chunkwise"), kept);
                return O.cpu();
            };
            Tensor filled = Tensor::full(stored, {5, 3, 9, 18}, 7);
            for (Index i = 0; i < 2; ++i)
                for (Index e = 0; e < each; ++e)
                    filled.set(slots[static_cast<std::size_t>(i)] * each + e, given.get(i * each + e));
            gpu::Tensor pool(filled), state(given.to(DType::f32));
            std::vector<gpu::Tensor> kept;
            const Tensor O = step(call, pool, slots, &kept);
            REQUIRE(kept.size() == 5);
            for (Index t = 0; t < 5; ++t) {
                CAPTURE(t);
                CHECK(same_bits(step(call.tokens(t, t + 1), state, {}, nullptr), tokens(O, t, t + 1)));
                CHECK(same_bits(kept[static_cast<std::size_t>(t)].cpu(), state.cpu()));
            }
            const Tensor after = pool.cpu(), last = state.cpu().to(stored);
            for (Index e = 0; e < each; ++e) {
                REQUIRE(after.get(3 * each + e) == last.get(e));
                REQUIRE(after.get(1 * each + e) == last.get(each + e));
                REQUIRE(after.get(2 * each + e) == 7);
            }
        }
    }
}

TEST_CASE("the general rule on the GPU: no bit depends on later tokens, N, the batch or the run",
          "[gpu][gpu-general]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 1200;
    for (const Index dk : {24, 128, 200}) {
        for (const GeneralCase& c :
             each_kind({.batch = 2, .heads = 20, .N = 301, .dk = dk, .dv = 40, .seed = ++seed})) {
            for (const DType type : {DType::f32, DType::bf16}) {
                for (const std::string mode : general::modes) {
                    CAPTURE(c, name(type), mode);
                    const OnGpu call(general_inputs(c), type);
                    const gpu::LinearResult all = call.run(mode);
                    const Tensor O = all.O.cpu();
                    for (int repeat = 0; repeat < 3; ++repeat) {
                        const gpu::LinearResult again = call.run(mode);
                        CHECK(same_bits(again.O.cpu(), O));
                        CHECK(same_bits(again.state.cpu(), all.state.cpu()));
                    }
                    for (const Index n : {1, 15, 33, 289, 300}) {
                        OnGpu one = call.tokens(0, n);
                        const auto last = [](Tensor& x) { x = slice(slice(x, 0, 1, 2), 1, 10, 20); };
                        last(one.in.q), last(one.in.k), last(one.in.v), last(*one.in.options.state);
                        for (auto* x : {&one.in.options.a, &one.in.options.u, &one.in.options.w})
                            if (*x) last(**x);
                        CAPTURE(n);
                        CHECK(same_bits(one.run(mode).O.cpu(), tokens(slice(slice(O, 0, 1, 2), 1, 10, 20), 0, n)));
                    }
                }
            }
        }
    }
}

TEST_CASE("the general rule on the GPU: nothing to do, and what is refused", "[gpu][gpu-general]") {
    if (!on_gpu()) return;
    for (const std::string mode : general::modes) {
        const OnGpu empty(general_inputs({.heads = 2, .N = 0, .dk = 8, .dv = 4}), DType::f32);
        const gpu::LinearResult got = empty.run(mode);
        CHECK(got.O.shape() == Shape({1, 2, 0, 4}));
        CHECK(same_bits(got.state.cpu(), empty.in.options.state->to(DType::f32)));
    }
    const OnGpu call(general_inputs({.heads = 2, .N = 5, .dk = 8, .dv = 4}), DType::f32);
    const auto said = [&](auto&& change) {
        gpu::GeneralOptions o = call.options("chunkwise");
        change(o);
        return message_of([&] { call.run(o); });
    };
    CHECK(said([](auto& o) { o.mode = "parallel"; }) ==
          "mode: \"parallel\" does not run on the GPU by the general rule, expected \"chunkwise\" or \"recurrent\"");
    CHECK(said([](auto& o) { o.u.reset(); }) == "u: missing, but w is given, expected both or none");
    CHECK(said([](auto& o) { o.checkpoint_every = -1; }) == "checkpoint_every: -1, expected 1 or more, or 0 for none");
    CHECK(said([](auto& o) { o.inplace = true, o.state.reset(); }) ==
          "inplace: true, but no state is given, expected one to write to");
    const OnGpu wide(general_inputs({.N = 2, .dk = 257, .dv = 1}), DType::f32);
    CHECK(message_of([&] { wide.run("recurrent"); }).find("widths 257 and 1 of k and v, expected at most 256") !=
          std::string::npos);
}
