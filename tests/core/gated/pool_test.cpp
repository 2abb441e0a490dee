// States in the slots of a pool: what calls on the states of the sequences alone give, and no other slot is touched.
#include <cstring>
#include <vector>

#include "core/gated/step.hpp"
#include "core/gradient/linear_attention_grad.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/core/gated/problems.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::test;
using causeway::testing::message_of;

namespace {

const std::vector<Index> slots{3, 0, 4};

// A pool of six slots that are NaN, but for those of the states.
Tensor pool_of(const Tensor& states, DType type) {
    Shape shape = states.shape();
    shape[0] = 6;
    Tensor pool = Tensor::full(type, shape, std::nan(""));
    const Index elements = states.size() / states.shape()[0];
    for (std::size_t i = 0; i < slots.size(); ++i)
        for (Index e = 0; e < elements; ++e)
            pool.set(slots[i] * elements + e, states.get(static_cast<Index>(i) * elements + e));
    return pool;
}

Tensor slots_of(const Tensor& pool) {
    Shape shape = pool.shape();
    shape[0] = static_cast<Index>(slots.size());
    Tensor out(pool.dtype(), shape);
    const Index elements = out.size() / shape[0];
    for (std::size_t i = 0; i < slots.size(); ++i)
        for (Index e = 0; e < elements; ++e)
            out.set(static_cast<Index>(i) * elements + e, pool.get(slots[i] * elements + e));
    return out;
}

bool others_are_nan(const Tensor& pool) {
    const Index elements = pool.size() / pool.shape()[0];
    for (const Index slot : {1, 2, 5})
        for (Index e = 0; e < elements; ++e)
            if (!std::isnan(pool.get(slot * elements + e))) return false;
    return true;
}

// Three batch entries, or three sequences packed into one.
std::vector<GatedInputs> inputs_of(const GatedCase& c) {
    GatedCase batch = c, packed = c;
    batch.batch = 3;
    GatedInputs together = gated_inputs(packed);
    together.options.state = *gated_inputs(batch).options.state;
    together.options.cu_seqlens = {0, 5, 5, c.N};
    return {gated_inputs(batch), together};
}

const std::vector<GatedCase> cases = each_update({.heads = 2, .group = 2, .N = 70, .dk = 9, .dv = 18, .seed = 200});

}  // namespace

TEST_CASE("a call on slots of a pool has the bits of one on their states", "[gated]") {
    const Poison poison;
    for (const GatedCase& c : cases) {
        for (const GatedInputs& drawn : inputs_of(c)) {
            for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
                INFO(c << " " << name(type));
                GatedInputs in = drawn.to(type == DType::f64 ? type : DType::f32);
                in.options.state = drawn.options.state->to(type);
                const LinearResult want = linear_attention(in.q, in.k, in.v, in.options);
                GatedInputs pooled = in;
                const Tensor pool = pool_of(*in.options.state, type), before = pool.copy();
                pooled.options.state = pool;
                pooled.options.state_indices = slots;
                const LinearResult got = linear_attention(in.q, in.k, in.v, pooled.options);
                CHECK(same_bits(got.O, want.O));
                CHECK(same_bits(got.state, want.state));
                CHECK(std::memcmp(pool.raw(), before.raw(), pool.bytes()) == 0);

                pooled.options.inplace = true;
                const LinearResult written = linear_attention(in.q, in.k, in.v, pooled.options);
                CHECK(same_bits(written.O, want.O));
                CHECK(written.state.raw() == pool.raw());
                CHECK(same_bits(slots_of(pool), want.state.to(type)));
                CHECK(others_are_nan(pool));
            }
        }
    }
}

TEST_CASE("a final state in place without a pool", "[gated]") {
    for (const DType type : {DType::f32, DType::bf16}) {
        GatedInputs in = gated_inputs(cases.back()).to(DType::f32);
        in.options.state = in.options.state->to(type);
        const LinearResult want = linear_attention(in.q, in.k, in.v, in.options);
        in.options.inplace = true;
        const LinearResult got = linear_attention(in.q, in.k, in.v, in.options);
        CHECK(got.state.raw() == in.options.state->raw());
        CHECK(same_bits(*in.options.state, want.state.to(type)));
        CHECK(same_bits(got.O, want.O));
    }
}

TEST_CASE("a step on slots of a pool has the bits of one on their states", "[gated]") {
    const Poison poison;
    for (GatedCase c : cases) {
        c.batch = 3, c.N = 3;
        for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
            INFO(c << " " << name(type));
            GatedInputs in = gated_inputs(c).to(type == DType::f64 ? type : DType::f32);
            const Tensor stored = in.options.state->to(type);
            Tensor state = stored.to(in.q.dtype()).copy(), pool = pool_of(stored, type);
            in.options.state.reset();
            Tensor want(in.q.dtype(), {3, c.heads * c.group, 3, c.dv}), O = want.copy();
            std::vector<Tensor> states, kept;
            linear_attention_step(in.q, in.k, in.v, state, want, in.options, &states);
            in.options.state_indices = slots;
            linear_attention_step(in.q, in.k, in.v, pool, O, in.options, &kept);
            CHECK(same_bits(O, want));
            CHECK(same_bits(slots_of(pool), state.to(type)));
            CHECK(others_are_nan(pool));
            REQUIRE(kept.size() == 3);
            for (std::size_t t = 0; t < 3; ++t) CHECK(same_bits(kept[t], states[t]));
        }
    }
}

TEST_CASE("the gradient of a pool is that of its states, added up where they share a slot", "[gated][gradient]") {
    GatedCase c = cases.back();
    c.batch = 3;
    GatedInputs in = gated_inputs(c);
    const Tensor dO = Tensor::full(DType::f64, {3, c.heads * c.group, c.N, c.dv}, 0.25);
    const LinearGradient want = linear_attention_grad(in.q, in.k, in.v, dO, in.options);
    GatedInputs pooled = in;
    pooled.options.state = pool_of(*in.options.state, DType::f64);
    pooled.options.state_indices = slots;
    const LinearGradient got = linear_attention_grad(in.q, in.k, in.v, dO, pooled.options);
    CHECK(same_bits(got.dk, want.dk));
    CHECK(got.dstate.shape() == Shape{6, c.heads, c.dk, c.dv});
    CHECK(same_bits(slots_of(got.dstate), want.dstate));
    double others = 0;
    for (const Index slot : {1, 2, 5}) others += std::abs(got.dstate.get(slot * c.heads * c.dk * c.dv));
    CHECK(others == 0);

    // All three from slot 3.
    for (std::size_t i : {1, 2}) {
        const Index elements = c.heads * c.dk * c.dv;
        for (Index e = 0; e < elements; ++e)
            in.options.state->set(static_cast<Index>(i) * elements + e, in.options.state->get(e));
    }
    pooled.options.state_indices = {3, 3, 3};
    const LinearGradient each = linear_attention_grad(in.q, in.k, in.v, dO, in.options),
                         all = linear_attention_grad(in.q, in.k, in.v, dO, pooled.options);
    const Tensor sum = slice(all.dstate, 0, 3, 4);
    const Index elements = sum.size();
    double worst = 0;
    for (Index e = 0; e < elements; ++e)
        worst = std::max(worst, std::abs(sum.get(e) - each.dstate.get(e) - each.dstate.get(elements + e) -
                                         each.dstate.get(2 * elements + e)));
    CHECK(worst <= 1e-12);
}

TEST_CASE("slots that do not fit are refused by name", "[gated][errors]") {
    const auto zeros = [](const Shape& s) { return Tensor::zeros(DType::f32, s); };
    const Tensor x = zeros({2, 2, 5, 4});
    const auto with = [&](std::vector<Index> indices, std::optional<Tensor> state, bool inplace = false) {
        LinearOptions o;
        o.state_indices = std::move(indices), o.state = std::move(state), o.inplace = inplace;
        return message_of([&] { linear_attention(x, x, x, o); });
    };
    const Tensor pool = zeros({3, 2, 4, 4});
    CHECK(with({0, 1}, {}) == "state_indices: given, but no state, expected the pool of their slots as it");
    CHECK(with({0, 1}, zeros({2, 4, 4})) ==
          "state: 2×4×4, expected slots×2×4×4, a pool of states, as state_indices is given");
    CHECK(with({0, 1}, zeros({3, 2, 4, 5})) ==
          "state: 3×2×4×5, expected slots×2×4×4, a pool of states, as state_indices is given");
    CHECK(with({0}, pool) == "state_indices: 1 slots, expected 2, one for each sequence");
    CHECK(with({0, 3}, pool) == "state_indices: a slot outside the pool in place 2, expected one of its 3");
    CHECK(with({-1, 2}, pool) == "state_indices: a slot outside the pool in place 1, expected one of its 3");
    CHECK(with({1, 1}, pool, true) ==
          "state_indices: places 1 and 2 have the same slot, expected one for each sequence, as the states are written "
          "there");
    CHECK(with({1, 1}, pool) == "");
    CHECK(with({}, {}, true) == "inplace: true, but no state is given, expected one to write to");
    LinearOptions o;
    o.state = zeros({2, 2, 4, 4}), o.inplace = true;
    OperationCount count;
    CHECK(message_of([&] { linear_attention_counted(x, x, x, o, count); }) ==
          "inplace: true, but counted calls leave the state as it is");
    CHECK(message_of([&] { linear_attention_grad(x, x, x, x, o); }) ==
          "inplace: true, but a gradient leaves the state as it is");
}
