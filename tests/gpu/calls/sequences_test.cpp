// Grouped heads, packed sequences, pools of states, checkpoints and steps of several tokens on the GPU: within rounding
// what the CPU gives in Float64, and to the bit what simpler calls give here.
#include "tests/gpu/sequences.hpp"
#include "core/gradient/causal_linear_attention_grad.hpp"
#include "core/gradient/linear_attention_grad.hpp"
#include "gpu/exact/causal_linear_attention.hpp"
#include "gpu/gradient/causal_linear_attention_grad.hpp"
#include "gpu/gradient/linear_attention_grad.hpp"
#include "gpu/gradient/softmax_attention_grad.hpp"
#include "gpu/softmax/softmax_attention.hpp"

using namespace causeway;
using namespace causeway::test;
using namespace causeway::test::sequences;

namespace {

const std::vector<Index> offsets{0, 0, 70, 71, 300, 300};

}  // namespace

TEST_CASE("grouped heads on the GPU: shared keys, shared queries, and both", "[gpu][gpu-sequences]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 1;
    // Heads of q, k and v.
    for (const auto& heads : {std::array<Index, 3>{2, 2, 6}, {6, 2, 6}, {2, 6, 6}, {12, 2, 6}, {4, 4, 4}}) {
        for (const char* update : updates) {
            for (const bool channels : {false, true}) {
                for (const char* mode : {"chunkwise", "recurrent", "parallel"}) {
                    for (const DType type : {DType::f32, DType::bf16}) {
                        Problem c = make(update, channels, heads, 130, 64, 40, type, seed += 10, 2);
                        if (channels && (!c.options.log_decay || std::string(mode) == "parallel")) continue;
                        c.options.mode = mode;
                        CAPTURE(update, channels, mode, name(type), heads[0], heads[1], heads[2], seed);
                        const LinearResult want = linear_attention(c.q, c.k, c.v, c.options);
                        const gpu::LinearResult got = run(c, type, c.on_gpu());
                        CHECK(relative_error(got.O.cpu(), want.O) <= bound(type));
                        CHECK(relative_error(got.state.cpu(), want.state) <= bound(type));
                    }
                }
            }
        }
    }
}

TEST_CASE("heads of q on the GPU that are neither those of k nor of v", "[gpu][gpu-sequences]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 300;
    // Heads of q, k and v: one divides the other, or neither does, with a head of v or several to a part.
    for (const auto& heads : {std::array<Index, 3>{4, 2, 8}, {2, 4, 8}, {4, 6, 12}, {6, 4, 24}, {2, 4, 16}}) {
        for (const char* update : updates) {
            for (const bool channels : {false, true}) {
                for (const char* mode : {"chunkwise", "recurrent", "parallel"}) {
                    for (const DType type : {DType::f32, DType::bf16}) {
                        Problem c = make(update, channels, heads, 130, 64, 40, type, seed += 10, 2);
                        if (channels && (!c.options.log_decay || std::string(mode) == "parallel")) continue;
                        c.options.mode = mode, c.options.scale = 0.5;
                        if (std::string(mode) == "recurrent") c.options.checkpoint_every = 60;
                        CAPTURE(update, channels, mode, name(type), heads[0], heads[1], heads[2], seed);
                        const LinearResult want = linear_attention(c.q, c.k, c.v, c.options);
                        const gpu::LinearResult got = run(c, type, c.on_gpu());
                        CHECK(relative_error(got.O.cpu(), want.O) <= bound(type));
                        CHECK(relative_error(got.state.cpu(), want.state) <= bound(type));
                        REQUIRE(got.checkpoints.has_value() == want.checkpoints.has_value());
                        if (want.checkpoints)
                            CHECK(relative_error(got.checkpoints->cpu(), *want.checkpoints) <= bound(type));
                    }
                }
            }
        }
    }
}

TEST_CASE("such heads in packed sequences, steps and gradients on the GPU", "[gpu][gpu-sequences]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 600;
    for (const auto& heads : {std::array<Index, 3>{4, 2, 8}, {4, 6, 12}}) {
        for (const char* update : updates) {
            for (const DType type : {DType::f32, DType::bf16}) {
                CAPTURE(update, name(type), heads[0], heads[1], heads[2]);
                Problem c = make(update, false, heads, 300, 64, 64, type, seed += 10, 1, 5);
                c.options.cu_seqlens = offsets;
                const gpu::LinearResult got = run(c, type, c.on_gpu());
                check_alone(c, type, got);
                CHECK(relative_error(got.O.cpu(), linear_attention(c.q, c.k, c.v, c.options).O) <= bound(type));

                const Index h = heads[2];
                const Tensor dO = random_tensor({1, h, 300, 64}, seed + 7).to(type).to(DType::f64),
                             dstate = random_tensor({5, h, 64, 64}, seed + 8).to(DType::f32);
                const LinearGradient want = linear_attention_grad(c.q, c.k, c.v, dO, c.options, dstate.to(DType::f64));
                const gpu::LinearGradient grad =
                    gpu::linear_attention_grad(moved(c.q, type), moved(c.k, type), moved(c.v, type), moved(dO, type),
                                               c.on_gpu(), gpu::Tensor(dstate));
                const double most = type == DType::f32 ? 5e-5 : 2e-2;
                CHECK(relative_error(grad.dq.cpu(), want.dq) <= most);
                CHECK(relative_error(grad.dk.cpu(), want.dk) <= most);
                CHECK(relative_error(grad.dv.cpu(), want.dv) <= most);
                CHECK(relative_error(grad.dstate.cpu(), want.dstate) <= most);
                if (want.dlog_decay) CHECK(relative_error(grad.dlog_decay->cpu(), *want.dlog_decay) <= most);
                if (want.dbeta) CHECK(relative_error(grad.dbeta->cpu(), *want.dbeta) <= most);

                Problem some = make(update, false, heads, 3, 32, 24, type, seed + 9, 2);
                gpu::LinearOptions o = some.on_gpu();
                gpu::Tensor state = *o.state, O(type, {2, h, 3, 24});
                o.state.reset();
                const LinearResult whole = linear_attention(some.q, some.k, some.v, some.options);
                std::vector<gpu::Tensor> kept;
                gpu::linear_attention_step(moved(some.q, type), moved(some.k, type), moved(some.v, type), state, O, o,
                                           &kept);
                CHECK(relative_error(O.cpu(), whole.O) <= bound(type));
                CHECK(relative_error(state.cpu(), whole.state) <= bound(type));
                REQUIRE(kept.size() == 3);
                CHECK(same_bits(kept[2].cpu(), state.cpu()));
                Problem two = some;
                two.options.checkpoint_every = 2;  // which leaves the states after two tokens
                const LinearResult before = linear_attention(some.q, some.k, some.v, two.options);
                CHECK(relative_error(kept[1].cpu(), *before.checkpoints) <= bound(type));
            }
        }
    }
}

TEST_CASE("the gradient on the GPU from slots of a pool, of which two texts share one", "[gpu][gpu-sequences]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 5500;
    const std::vector<Index> slots{7, 0, 3, 7, 2};
    for (const char* update : updates) {
        for (const DType stored : {DType::f32, DType::bf16}) {
            Problem c = make(update, false, {2, 2, 4}, 300, 32, 24, DType::bf16, seed += 10, 1, 9);
            CAPTURE(update, name(stored), seed);
            c.options.cu_seqlens = offsets;
            const Tensor pool = c.options.state->to(stored);
            const Tensor dO = random_tensor({1, 4, 300, 24}, seed + 7).to(DType::bf16);
            Tensor states(DType::f32, {5, 4, 32, 24});
            const Index each = 4 * 32 * 24;
            for (Index i = 0; i < 5; ++i)
                for (Index e = 0; e < each; ++e)
                    states.set(i * each + e, pool.get(slots[static_cast<std::size_t>(i)] * each + e));
            const auto grad = [&](const gpu::LinearOptions& o) {
                return gpu::linear_attention_grad(moved(c.q, DType::bf16), moved(c.k, DType::bf16),
                                                  moved(c.v, DType::bf16), gpu::Tensor(dO), o);
            };
            gpu::LinearOptions o = c.on_gpu();
            o.state = gpu::Tensor(states);
            const gpu::LinearGradient alone = grad(o);
            o.state = gpu::Tensor(pool), o.state_indices = slots;
            const gpu::LinearGradient got = grad(o);
            CHECK(same_bits(got.dq.cpu(), alone.dq.cpu()));
            CHECK(same_bits(got.dk.cpu(), alone.dk.cpu()));
            const Tensor d = got.dstate.cpu(), of = alone.dstate.cpu();
            REQUIRE(d.shape() == Shape{9, 4, 32, 24});
            for (Index e = 0; e < each; ++e) {
                const auto at = [&](Index i) { return static_cast<float>(of.get(i * each + e)); };
                REQUIRE(d.get(7 * each + e) == at(0) + at(3));
                REQUIRE(d.get(0 * each + e) == at(1));
                REQUIRE(d.get(3 * each + e) == at(2));
                REQUIRE(d.get(1 * each + e) == 0);
            }
        }
    }
    gpu::LinearOptions o;
    o.inplace = true, o.state = gpu::Tensor::zeros(DType::f32, {1, 1, 4, 4});
    const gpu::Tensor x = gpu::Tensor::zeros(DType::f32, {1, 1, 5, 4});
    CHECK(message_of([&] { gpu::linear_attention_grad(x, x, x, x, o); }) ==
          "inplace: true, but a gradient leaves the state as it is");
}

TEST_CASE("packed sequences on the GPU have the bits of calls with each alone", "[gpu][gpu-sequences]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 1000;
    for (const char* update : updates) {
        for (const bool channels : {false, true}) {
            for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
                Problem c = make(update, channels, {2, 2, 4}, 300, 64, 64, type, seed += 10, 1, 5);
                if (channels && !c.options.log_decay) continue;
                CAPTURE(update, channels, name(type), seed);
                c.options.cu_seqlens = offsets;
                const gpu::LinearResult got = run(c, type, c.on_gpu());
                const Tensor O = got.O.cpu(), state = got.state.cpu();
                for (Index i = 0; i + 1 < static_cast<Index>(offsets.size()); ++i) {
                    const Index first = offsets[static_cast<std::size_t>(i)],
                                last = offsets[static_cast<std::size_t>(i) + 1];
                    const Problem one = part(c, first, last, i);
                    const gpu::LinearResult alone = run(one, type, one.on_gpu());
                    CHECK(same_bits(tokens(O, first, last), alone.O.cpu()));
                    CHECK(same_bits(slice(state, 0, i, i + 1), alone.state.cpu()));
                }
                const LinearResult want = linear_attention(c.q, c.k, c.v, c.options);
                CHECK(relative_error(O, want.O) <= bound(type));
            }
        }
    }
}

TEST_CASE("slots of a pool on the GPU: read, written in place, and no other touched", "[gpu][gpu-sequences]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 2000;
    for (const DType stored : {DType::f32, DType::bf16, DType::f16}) {
        for (const char* update : {"linear", "gated_delta"}) {
            Problem c = make(update, false, {2, 2, 2}, 300, 32, 24, DType::bf16, seed += 10, 1, 9);
            CAPTURE(update, name(stored), seed);
            c.options.cu_seqlens = offsets;
            const std::vector<Index> slots{7, 0, 3, 8, 2};
            gpu::LinearOptions o = c.on_gpu();
            o.state = gpu::Tensor(c.options.state->to(stored)), o.state_indices = slots, o.inplace = true;
            const Tensor before = o.state->cpu();
            const gpu::LinearResult got = run(c, DType::bf16, o);
            const Tensor after = o.state->cpu();
            CHECK(got.state.data() == o.state->data());
            Tensor taken(DType::f32, {5, 2, 32, 24});
            for (Index i = 0; i < 5; ++i) {
                const Tensor slot = before.to(DType::f32);
                for (Index e = 0; e < 2 * 32 * 24; ++e)
                    taken.set(i * 2 * 32 * 24 + e, slot.get(slots[static_cast<std::size_t>(i)] * 2 * 32 * 24 + e));
            }
            gpu::LinearOptions own = c.on_gpu();
            own.state = gpu::Tensor(taken);
            const gpu::LinearResult want = run(c, DType::bf16, own);
            CHECK(same_bits(got.O.cpu(), want.O.cpu()));
            const Tensor states = want.state.cpu().to(stored);
            for (Index slot = 0; slot < 9; ++slot) {
                const auto at = std::find(slots.begin(), slots.end(), slot);
                const Index i = at - slots.begin();
                CHECK(same_bits(slice(after, 0, slot, slot + 1),
                                at == slots.end() ? slice(before, 0, slot, slot + 1) : slice(states, 0, i, i + 1)));
            }
        }
    }
}

TEST_CASE("checkpoints on the GPU: a call that goes on from one has the bits of the whole", "[gpu][gpu-sequences]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 3000;
    for (const char* update : updates) {
        for (const DType type : {DType::f32, DType::bf16}) {
            Problem c = make(update, false, {2, 2, 2}, 200, 64, 64, type, seed += 10, 2);
            c.options.checkpoint_every = 64;
            CAPTURE(update, name(type), seed);
            const gpu::LinearResult whole = run(c, type, c.on_gpu());
            const Tensor kept = whole.checkpoints->cpu();  // three of each batch entry
            CHECK(kept.shape() == Shape{6, 2, 64, 64});
            Problem rest = part(c, 128, 200, 0);
            rest.options.state = Tensor(DType::f32, {2, 2, 64, 64});
            for (Index b = 0; b < 2; ++b)
                for (Index e = 0; e < 2 * 64 * 64; ++e)
                    rest.options.state->set(b * 2 * 64 * 64 + e, kept.get((b * 3 + 1) * 2 * 64 * 64 + e));
            const gpu::LinearResult again = run(rest, type, rest.on_gpu());
            CHECK(same_bits(tokens(whole.O.cpu(), 128, 200), again.O.cpu()));
            CHECK(same_bits(whole.state.cpu(), again.state.cpu()));
        }
    }
}

TEST_CASE("a step of several tokens on the GPU is as many steps of one", "[gpu][gpu-sequences]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 4000;
    for (const char* update : updates) {
        for (const DType stored : {DType::f32, DType::bf16}) {
            Problem c = make(update, false, {4, 4, 8}, 5, 64, 40, DType::bf16, seed += 10, 3);
            CAPTURE(update, name(stored), seed);
            gpu::LinearOptions o = c.on_gpu();
            gpu::Tensor state = gpu::Tensor(c.options.state->to(stored));
            gpu::Tensor wide = state.to(DType::f32).copy();
            o.state.reset();
            gpu::Tensor O(DType::bf16, {3, 8, 5, 40});
            std::vector<gpu::Tensor> states;
            gpu::linear_attention_step(moved(c.q, DType::bf16), moved(c.k, DType::bf16), moved(c.v, DType::bf16), state,
                                       O, o, &states);
            REQUIRE(states.size() == 5);
            for (Index t = 0; t < 5; ++t) {
                const Problem one = part(c, t, t + 1, 0);
                gpu::LinearOptions single = one.on_gpu();
                single.state.reset();
                gpu::Tensor o1(DType::bf16, {3, 8, 1, 40});
                gpu::linear_attention_step(moved(one.q, DType::bf16), moved(one.k, DType::bf16),
                                           moved(one.v, DType::bf16), wide, o1, single);
                CHECK(same_bits(tokens(O.cpu(), t, t + 1), o1.cpu()));
                CHECK(same_bits(states[static_cast<std::size_t>(t)].cpu(), wide.cpu()));
            }
            CHECK(same_bits(state.cpu(), wide.cpu().to(stored)));
        }
    }
}

TEST_CASE("a step on the GPU refuses what a step on the CPU refuses", "[gpu][gpu-sequences]") {
    if (!on_gpu()) return;
    const gpu::Tensor q = gpu::Tensor::zeros(DType::f32, {1, 2, 1, 8}), k = q.copy(), v = q.copy();
    gpu::Tensor state = gpu::Tensor::zeros(DType::f32, {1, 2, 8, 8}), O = q.copy();
    const auto message = [&](gpu::Tensor& S, gpu::Tensor& o, const gpu::LinearOptions& options) {
        return message_of([&] { gpu::linear_attention_step(q, k, v, S, o, options); });
    };
    gpu::LinearOptions options;
    options.cu_seqlens = {0, 1};
    CHECK(message(state, O, options) == "cu_seqlens: given, but a step has a token of every batch entry");
    options.cu_seqlens.clear(), options.checkpoint_every = 1;
    CHECK(message(state, O, options) ==
          "checkpoint_every: given, but a step can keep the states after all of its tokens");
    options.checkpoint_every = 0, options.state = state;
    CHECK(message(state, O, options) == "state: given among the options too, expected it as the argument alone");
    options.state.reset();
    gpu::Tensor same = v;
    CHECK(message(state, same, options) == "O: has elements of v, expected a tensor of its own");
    gpu::Tensor first = gpu::Tensor::view(DType::f32, {1, 2, 1, 8}, state.as<float>() + 16);
    CHECK(message(state, first, options) == "O: has elements of state, expected a tensor of its own");
    CHECK(message(state, O, options) == "");
}

TEST_CASE("gradients on the GPU of grouped heads and packed sequences", "[gpu][gpu-sequences]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 5000;
    for (const char* update : updates) {
        for (const DType type : {DType::f32, DType::bf16}) {
            for (const auto& heads : {std::array<Index, 3>{2, 2, 6}, {6, 2, 6}, {2, 6, 6}}) {
                Problem c = make(update, false, heads, 300, 32, 24, type, seed += 10, 1, 5);
                CAPTURE(update, name(type), heads[0], heads[1], heads[2], seed);
                c.options.cu_seqlens = offsets;
                const Tensor dO = random_tensor({1, 6, 300, 24}, seed + 6).to(type).to(DType::f64);
                const auto grad = [&](const Problem& x, const Tensor& upstream) {
                    return gpu::linear_attention_grad(moved(x.q, type), moved(x.k, type), moved(x.v, type),
                                                      moved(upstream, type), x.on_gpu());
                };
                const gpu::LinearGradient got = grad(c, dO);
                const LinearGradient want = linear_attention_grad(c.q, c.k, c.v, dO, c.options);
                const double most = type == DType::f32 ? 1e-4 : 3e-2;
                CHECK(relative_error(got.dq.cpu(), want.dq) <= most);
                CHECK(relative_error(got.dk.cpu(), want.dk) <= most);
                CHECK(relative_error(got.dv.cpu(), want.dv) <= most);
                CHECK(relative_error(got.dstate.cpu(), want.dstate) <= most);
                if (want.dlog_decay) CHECK(relative_error(got.dlog_decay->cpu(), *want.dlog_decay) <= most);
                if (want.dbeta) CHECK(relative_error(got.dbeta->cpu(), *want.dbeta) <= most);
                for (Index i = 1; i < 4; ++i) {
                    const Index first = offsets[static_cast<std::size_t>(i)],
                                last = offsets[static_cast<std::size_t>(i) + 1];
                    const gpu::LinearGradient alone = grad(part(c, first, last, i), tokens(dO, first, last));
                    CHECK(same_bits(tokens(got.dq.cpu(), first, last), alone.dq.cpu()));
                    CHECK(same_bits(tokens(got.dk.cpu(), first, last), alone.dk.cpu()));
                    CHECK(same_bits(tokens(got.dv.cpu(), first, last), alone.dv.cpu()));
                    CHECK(same_bits(slice(got.dstate.cpu(), 0, i, i + 1), alone.dstate.cpu()));
                    if (got.dbeta) CHECK(same_bits(tokens(got.dbeta->cpu(), first, last), alone.dbeta->cpu()));
                }
            }
        }
    }
}

TEST_CASE("causal linear attention on the GPU: packed sequences, pools and checkpoints", "[gpu][gpu-sequences]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 6000;
    for (const bool normalize : {false, true}) {
        for (const DType type : {DType::f32, DType::bf16}) {
            for (const char* method : {"lightning-attention-2", "fleet", "hybrid"}) {
                seed += 10;
                CAPTURE(normalize, name(type), method, seed);
                // Positive features: row sums do not cancel.
                const auto drawn = [&](Index width, unsigned s) {
                    Tensor x = random_tensor({1, 2, 300, width}, s);
                    for (Index i = 0; i < x.size(); ++i) x.set(i, std::abs(x.get(i)));
                    return x.to(type);
                };
                const Tensor B = drawn(32, seed), C = drawn(32, seed + 1), V = drawn(24, seed + 2);
                gpu::CausalOptions o;
                o.method = method, o.decay = {0.9, 0.99}, o.normalize = normalize, o.return_state = true;
                o.cu_seqlens = offsets, o.checkpoint_every = 64;
                const Tensor pool = random_tensor({9, 2, 32, 24 + (normalize ? 1 : 0)}, seed + 3).to(DType::f32);
                const std::vector<Index> slots{7, 0, 3, 8, 2};
                o.state = gpu::Tensor(pool), o.state_indices = slots, o.inplace = true;
                const gpu::CausalResult got =
                    gpu::causal_linear_attention(gpu::Tensor(B), gpu::Tensor(C), gpu::Tensor(V), o);
                const Tensor O = got.O.cpu(), after = o.state->cpu(), kept = got.checkpoints->cpu();
                CHECK(kept.shape()[0] == 1 + 3);
                for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
                    const Index first = offsets[i], last = offsets[i + 1];
                    gpu::CausalOptions one = o;
                    one.cu_seqlens.clear(), one.state_indices.clear(), one.inplace = false;
                    one.state = gpu::Tensor(slice(pool, 0, slots[i], slots[i] + 1));
                    const gpu::CausalResult alone = gpu::causal_linear_attention(
                        gpu::Tensor(tokens(B, first, last)), gpu::Tensor(tokens(C, first, last)),
                        gpu::Tensor(tokens(V, first, last)), one);
                    CHECK(same_bits(tokens(O, first, last), alone.O.cpu()));
                    CHECK(same_bits(slice(after, 0, slots[i], slots[i] + 1), alone.state.cpu()));
                    if (i == 3) CHECK(same_bits(slice(kept, 0, 1, 4), alone.checkpoints->cpu()));
                }
            }
        }
    }
}

TEST_CASE("the gradient of causal linear attention on the GPU: packed sequences from slots of a pool",
          "[gpu][gpu-sequences]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 6500;
    const std::vector<Index> slots{7, 0, 3, 7, 2};
    for (const bool normalize : {false, true}) {
        for (const bool states : {false, true}) {
            for (const DType type : {DType::f32, DType::bf16}) {
                CAPTURE(normalize, states, name(type));
                const auto positive = [&](Tensor x) {
                    for (Index i = 0; i < x.size(); ++i) x.set(i, std::exp(0.3 * x.get(i)));
                    return x.to(type);
                };
                const Tensor B = positive(random_tensor({1, 2, 300, 32}, seed += 10)),
                             C = positive(random_tensor({1, 2, 300, 32}, seed + 1)),
                             V = random_tensor({1, 2, 300, 24}, seed + 2).to(type),
                             dO = random_tensor({1, 2, 300, 24}, seed + 3).to(type);
                Tensor pool = random_tensor({9, 2, 32, 24 + (normalize ? 1 : 0)}, seed + 4).to(DType::f32);
                for (Index i = 0; i < pool.size(); ++i) pool.set(i, std::abs(pool.get(i)) + 1);
                gpu::CausalOptions o;
                o.normalize = normalize, o.decay = {0.9, 0.99}, o.cu_seqlens = offsets;
                if (states) o.state = gpu::Tensor(pool), o.state_indices = slots;
                const auto on = [&](const Tensor& x, Index first, Index last) {
                    return gpu::Tensor(tokens(x, first, last));
                };
                const auto grad = [&](Index first, Index last, const gpu::CausalOptions& options) {
                    return gpu::causal_linear_attention_grad(on(B, first, last), on(C, first, last), on(V, first, last),
                                                             on(dO, first, last), options);
                };
                const gpu::CausalGradient got = grad(0, 300, o);
                const Tensor dB = got.dB.cpu(), dC = got.dC.cpu(), dV = got.dV.cpu(), ddecay = got.ddecay->cpu();
                Tensor sum = Tensor::zeros(DType::f64, {2}), dpool = Tensor::zeros(DType::f32, pool.shape());
                const Index each = pool.size() / 9;
                for (std::size_t i = 1; i < 4; ++i) {  // the others have no tokens
                    gpu::CausalOptions one = o;
                    one.cu_seqlens.clear(), one.state_indices.clear();
                    if (states) one.state = gpu::Tensor(slice(pool, 0, slots[i], slots[i] + 1));
                    const gpu::CausalGradient alone = grad(offsets[i], offsets[i + 1], one);
                    CHECK(same_bits(tokens(dB, offsets[i], offsets[i + 1]), alone.dB.cpu()));
                    CHECK(same_bits(tokens(dC, offsets[i], offsets[i + 1]), alone.dC.cpu()));
                    CHECK(same_bits(tokens(dV, offsets[i], offsets[i + 1]), alone.dV.cpu()));
                    for (Index h = 0; h < 2; ++h) sum.set(h, sum.get(h) + alone.ddecay->cpu().get(h));
                    if (!states) continue;
                    const Tensor d = alone.dstate->cpu();
                    for (Index e = 0; e < each; ++e)
                        dpool.set(slots[i] * each + e, dpool.get(slots[i] * each + e) + d.get(e));
                }
                CHECK(relative_error(ddecay, sum) <= 1e-5);
                REQUIRE(got.dstate.has_value() == states);
                if (states) CHECK(relative_error(got.dstate->cpu(), dpool) <= 1e-6);
            }
        }
    }
}

TEST_CASE("grouped heads in causal linear attention on the GPU", "[gpu][gpu-sequences]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 6800;
    // Heads of B, C and V.
    for (const auto& heads : {std::array<Index, 3>{2, 2, 6}, {4, 2, 2}, {6, 1, 3}, {4, 2, 8}}) {
        for (const bool normalize : {false, true}) {
            for (const int decays : {0, 1, 2}) {
                for (const DType type : {DType::f32, DType::bf16}) {
                    CAPTURE(heads[0], heads[1], heads[2], normalize, decays, name(type));
                    seed += 10;
                    const Index h = heads[2], out = std::max(heads[0], h);
                    const auto rounded = [&](Tensor x, bool positive) {
                        for (Index i = 0; positive && i < x.size(); ++i) x.set(i, std::exp(0.3 * x.get(i)));
                        return x.to(type).to(DType::f64);
                    };
                    const Tensor B = rounded(random_tensor({2, heads[0], 130, 24}, seed), normalize),
                                 C = rounded(random_tensor({2, heads[1], 130, 24}, seed + 1), normalize),
                                 V = rounded(random_tensor({2, h, 130, 16}, seed + 2), false),
                                 dO = rounded(random_tensor({2, out, 130, 16}, seed + 3), false);
                    Tensor state = random_tensor({2, h, 24, 16 + (normalize ? 1 : 0)}, seed + 4).to(DType::f32);
                    for (Index i = 0; normalize && i < state.size(); ++i) state.set(i, std::abs(state.get(i)) + 1);
                    CausalOptions want;
                    gpu::CausalOptions o;
                    if (decays == 1) want.decay = {0.97};
                    for (Index i = 0; decays == 2 && i < h; ++i)
                        want.decay.push_back(0.9 + 0.01 * static_cast<double>(i));
                    want.normalize = o.normalize = normalize, o.decay = want.decay;
                    want.method = o.method = "fleet", want.return_state = o.return_state = true;
                    want.state = state.to(DType::f64), o.state = gpu::Tensor(state);
                    want.checkpoint_every = o.checkpoint_every = 60;
                    const CausalResult expected = causal_linear_attention(B, C, V, want);
                    const gpu::CausalResult got =
                        gpu::causal_linear_attention(moved(B, type), moved(C, type), moved(V, type), o);
                    CHECK(relative_error(got.O.cpu(), expected.O) <= bound(type));
                    CHECK(relative_error(got.state.cpu(), expected.state) <= bound(type));
                    CHECK(relative_error(got.checkpoints->cpu(), *expected.checkpoints) <= bound(type));
                    want.method = o.method = "auto", want.checkpoint_every = o.checkpoint_every = 0;
                    want.return_state = o.return_state = false;
                    const CausalGradient dwant = causal_linear_attention_grad(B, C, V, dO, want);
                    const gpu::CausalGradient dgot = gpu::causal_linear_attention_grad(
                        moved(B, type), moved(C, type), moved(V, type), moved(dO, type), o);
                    const double most = type == DType::f32 ? 5e-5 : 2e-2;
                    CHECK(relative_error(dgot.dB.cpu(), dwant.dB) <= most);
                    CHECK(relative_error(dgot.dC.cpu(), dwant.dC) <= most);
                    CHECK(relative_error(dgot.dV.cpu(), dwant.dV) <= most);
                    CHECK(relative_error(dgot.dstate->cpu(), *dwant.dstate) <= most);
                    REQUIRE(dgot.ddecay.has_value() == (decays > 0));
                    if (decays == 0) continue;
                    Tensor ddecay(DType::f64, {static_cast<Index>(dwant.ddecay.size())});
                    for (Index i = 0; i < ddecay.size(); ++i) ddecay.set(i, dwant.ddecay[static_cast<std::size_t>(i)]);
                    CHECK(relative_error(dgot.ddecay->cpu(), ddecay) <= most);
                }
            }
        }
    }
}

TEST_CASE("softmax attention on the GPU: packed sequences, and their gradient", "[gpu][gpu-sequences]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 7000;
    for (const DType type : {DType::f32, DType::bf16}) {
        for (const Index d : {Index{64}, Index{128}}) {
            seed += 10;
            CAPTURE(name(type), d, seed);
            const Tensor q = random_tensor({1, 4, 300, d}, seed).to(type),
                         k = random_tensor({1, 2, 300, d}, seed + 1).to(type),
                         v = random_tensor({1, 2, 300, d}, seed + 2).to(type),
                         dO = random_tensor({1, 4, 300, d}, seed + 3).to(type);
            gpu::SoftmaxOptions o;
            o.cu_seqlens = offsets;
            const auto call = [&](Index first, Index last, const gpu::SoftmaxOptions& options) {
                const auto on = [&](const Tensor& x) { return gpu::Tensor(tokens(x, first, last)); };
                return std::pair{gpu::softmax_attention(on(q), on(k), on(v), options),
                                 gpu::softmax_attention_grad(on(q), on(k), on(v), on(dO), options)};
            };
            const auto [got, grad] = call(0, 300, o);
            const Tensor lse = got.lse.cpu();
            for (std::size_t i = 1; i < 4; ++i) {
                const Index first = offsets[i], last = offsets[i + 1];
                const auto [alone, alone_grad] = call(first, last, {});
                CHECK(same_bits(tokens(got.O.cpu(), first, last), alone.O.cpu()));
                CHECK(same_bits(tokens(lse, first, last), alone.lse.cpu()));
                CHECK(same_bits(tokens(grad.dq.cpu(), first, last), alone_grad.dq.cpu()));
                CHECK(same_bits(tokens(grad.dk.cpu(), first, last), alone_grad.dk.cpu()));
                CHECK(same_bits(tokens(grad.dv.cpu(), first, last), alone_grad.dv.cpu()));
            }
        }
    }
}
