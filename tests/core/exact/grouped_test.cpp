// Grouped queries and values in causal linear attention: to the bit what repeated heads give, in every method.
#include <array>
#include <vector>

#include "tests/core/gradient/problems.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::test;
using causeway::testing::message_of;
using exact::repeat_heads;

namespace {

// Heads of B, of C and of V.
const std::vector<std::array<Index, 3>> groupings{{4, 2, 2}, {2, 2, 4}, {4, 2, 4}, {2, 1, 4}, {8, 2, 4}, {1, 1, 3}};

struct Grouped {
    Tensor B, C, V;
    Index outputs, group;  // heads of O, and how many share one of V
    CausalOptions options;

    Index heads_of(const Tensor& A) const { return A.shape()[1]; }
    Tensor repeated(const Tensor& A) const { return repeat_heads(A, outputs / heads_of(A)); }
    CausalOptions repeated_options() const {
        CausalOptions o = options;
        o.decay.clear();
        for (const double gamma : options.decay) o.decay.insert(o.decay.end(), static_cast<std::size_t>(group), gamma);
        if (o.state) o.state = repeat_heads(*o.state, group);
        return o;
    }
    CausalResult run() const { return causal_linear_attention(B, C, V, options); }
    CausalResult run_repeated() const {
        return causal_linear_attention(repeated(B), repeated(C), repeated(V), repeated_options());
    }
};

Grouped grouped(const std::array<Index, 3>& heads, DType type, bool normalize, bool state, Index batch = 2,
                Index N = 70) {
    const auto make = [&](Index h, Index width, unsigned seed) {
        Tensor A = random_tensor({batch, h, N, width}, seed);
        for (Index i = 0; i < A.size() && normalize; ++i) A.set(i, std::abs(A.get(i)) + 0.1);
        return A.to(type);
    };
    Grouped p{make(heads[0], 7, 1), make(heads[1], 7, 2), make(heads[2], 20, 3), std::max(heads[0], heads[2]), 1, {}};
    p.group = p.outputs / heads[2];
    for (Index h = 0; h < heads[2]; ++h) p.options.decay.push_back(1 - 0.1 * static_cast<double>(h));
    p.options.normalize = normalize;
    p.options.scale = 0.5;
    if (state) {
        Tensor S = random_tensor({batch, heads[2], 7, 20 + (normalize ? 1 : 0)}, 4);
        for (Index i = 0; i < S.size(); ++i) S.set(i, std::abs(S.get(i)));
        p.options.state = S.to(type == DType::f64 ? DType::f64 : DType::f32);
        p.options.return_state = true;
    }
    return p;
}

// Every head of V's states, where the heads of the output that share one were computed apart.
Tensor first_of_each(const Tensor& states, Index group) {
    Tensor out(states.dtype(), {states.shape()[0], states.shape()[1] / group, states.shape()[2], states.shape()[3]});
    const Index head = states.shape()[2] * states.shape()[3];
    for (Index i = 0; i < out.size(); ++i) out.set(i, states.get(i / head * group * head + i % head));
    return out;
}

// Summed over consecutive heads, in Float64.
Tensor summed(const Tensor& grad, const Tensor& like) {
    Tensor out = Tensor::zeros(DType::f64, like.shape());
    const Index head = grad.shape()[2] * grad.shape()[3], shared = grad.shape()[1] / like.shape()[1];
    for (Index i = 0; i < grad.size(); ++i) {
        const Index to = i / head / shared * head + i % head;
        out.set(to, out.get(to) + grad.get(i));
    }
    return out;
}

}  // namespace

TEST_CASE("grouped heads give the bits of repeated ones, in every method", "[exact][grouped]") {
    const Poison poison;
    std::vector<std::string> names;
    for (const auto& m : exact::methods()) names.push_back(m.name);
    for (const auto& heads : groupings)
        for (const auto& method : names)
            for (const DType type : {DType::f32, DType::f64, DType::bf16})
                for (const bool normalize : {false, true}) {
                    Grouped p = grouped(heads, type, normalize, exact::method(method).state);
                    p.options.method = method;
                    CAPTURE(heads[0], heads[1], heads[2], method, name(type), normalize);
                    const CausalResult got = p.run(), want = p.run_repeated();
                    REQUIRE(got.O.shape() == Shape{2, p.outputs, 70, 20});
                    CHECK(same_bits(got.O, want.O));
                    if (p.options.state) CHECK(same_bits(got.state, first_of_each(want.state, p.group)));
                    OperationCount count, repeated;
                    if (type != DType::f64) continue;
                    causal_linear_attention_counted(p.B, p.C, p.V, p.options, count);
                    causal_linear_attention_counted(p.repeated(p.B), p.repeated(p.C), p.repeated(p.V),
                                                    p.repeated_options(), repeated);
                    CHECK(count == repeated);
                }
}

TEST_CASE("grouped heads in packed sequences, pools and checkpoints", "[exact][grouped]") {
    for (const auto& heads : groupings) {
        Grouped p = grouped(heads, DType::f32, false, false, 1, 97);
        p.options.method = "lightning-attention-2";
        p.options.cu_seqlens = {0, 33, 33, 97};
        p.options.checkpoint_every = 16;
        p.options.return_state = true;
        p.options.state = random_tensor({3, heads[2], 7, 20}, 9).to(DType::f32);
        CAPTURE(heads[0], heads[1], heads[2]);
        const CausalResult got = p.run(), want = p.run_repeated();
        CHECK(same_bits(got.O, want.O));
        CHECK(same_bits(got.state, first_of_each(want.state, p.group)));
        REQUIRE(got.checkpoints);
        CHECK(same_bits(*got.checkpoints, first_of_each(*want.checkpoints, p.group)));

        Tensor pool = Tensor::zeros(DType::bf16, {5, heads[2], 7, 20});
        p.options.checkpoint_every = 0;
        p.options.state = pool;
        p.options.state_indices = {4, 0, 2};
        p.options.inplace = true;
        causal_linear_attention(p.B, p.C, p.V, p.options);
        Grouped alone = p;
        alone.options.inplace = false;
        alone.options.state_indices.clear();
        alone.options.state = Tensor::zeros(DType::f32, {3, heads[2], 7, 20});
        const Tensor states = alone.run().state.to(DType::bf16);
        CHECK(same_bits(slice(pool, 0, 4, 5), slice(states, 0, 0, 1)));
        CHECK(same_bits(slice(pool, 0, 2, 3), slice(states, 0, 2, 3)));
    }
}

TEST_CASE("gradients of grouped heads are summed over what shares one", "[exact][grouped][gradient]") {
    for (const auto& heads : groupings)
        for (const bool normalize : {false, true})
            for (const bool state : {false, true}) {
                Grouped p = grouped(heads, DType::f64, normalize, state);
                p.options.return_state = false;
                p.options.decay[0] = 0.95;  // has a gradient of its own
                const Tensor dO = random_tensor({2, p.outputs, 70, 20}, 6);
                CAPTURE(heads[0], heads[1], heads[2], normalize, state);
                const auto got = causal_linear_attention_grad(p.B, p.C, p.V, dO, p.options);
                const auto want = causal_linear_attention_grad(p.repeated(p.B), p.repeated(p.C), p.repeated(p.V), dO,
                                                               p.repeated_options());
                CHECK(relative_error(got.dB, summed(want.dB, p.B)) < 1e-12);
                CHECK(relative_error(got.dC, summed(want.dC, p.C)) < 1e-12);
                CHECK(relative_error(got.dV, summed(want.dV, p.V)) < 1e-12);
                REQUIRE(got.ddecay.size() == p.options.decay.size());
                for (std::size_t h = 0; h < got.ddecay.size(); ++h) {
                    double sum = 0;
                    for (Index i = 0; i < p.group; ++i)
                        sum += want.ddecay[h * static_cast<std::size_t>(p.group) + static_cast<std::size_t>(i)];
                    CHECK(got.ddecay[h] == Approx(sum).epsilon(1e-10));
                }
                if (state) CHECK(relative_error(*got.dstate, summed(*want.dstate, *p.options.state)) < 1e-12);
            }
}

TEST_CASE("heads that do not belong together are refused", "[exact][grouped]") {
    const auto of = [](Index h) { return Tensor::zeros(DType::f32, {1, h, 5, 2}); };
    CHECK(message_of([&] { causal_linear_attention(of(2), of(2), of(3)); }) ==
          "V: heads 3, expected 2 like C, or a multiple for grouped values");
    CHECK(message_of([&] { causal_linear_attention(of(3), of(2), of(2)); }) ==
          "B: heads 3, expected a multiple of the 2 of V, or a divisor of them");
    CausalOptions o;
    o.decay = {0.5, 0.5, 0.5, 0.5};
    CHECK(message_of([&] { causal_linear_attention(of(4), of(2), of(2), o); }) ==
          "decay: 4 values, expected 1 or 2, one per head");
    o.decay.clear();
    o.state = Tensor::zeros(DType::f32, {1, 4, 2, 2});
    o.method = "fleet";
    CHECK(message_of([&] { causal_linear_attention(of(4), of(2), of(2), o); }) == "state: 1×4×2×2, expected 1×2×2×2");
    CHECK(message_of([&] { causal_linear_attention_grad(of(4), of(2), of(2), of(2)); }) ==
          "dO: 1×2×5×2, expected 1×4×5×2 like the output");
}
