// Packed sequences and pools of states in causal linear attention: to the bit what calls with each sequence alone give.
#include <vector>

#include "core/base/parallel.hpp"
#include "core/gradient/causal_linear_attention_grad.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/core/gated/problems.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::test;
using causeway::testing::message_of;

namespace {

const std::vector<std::vector<Index>> packings{{0, 97}, {0, 0, 1, 1, 40, 64, 97, 97}, {0, 33, 97}, {0, 96, 97}};

Tensor normal_states(const Shape& shape, DType type) {
    std::mt19937_64 generator(5);
    std::normal_distribution<double> normal;
    Tensor out(type, shape);
    for (Index i = 0; i < out.size(); ++i) out.set(i, static_cast<float>(std::abs(normal(generator)) + 1));
    return out;
}

struct Packed {
    Inputs in;
    CausalOptions options;
    std::vector<Index> offsets;

    Index sequences() const { return static_cast<Index>(offsets.size()) - 1; }
    Index from(Index i) const { return offsets[static_cast<std::size_t>(i)]; }
    Inputs alone(Index i) const {
        return {tokens(in.B, from(i), from(i + 1)), tokens(in.C, from(i), from(i + 1)),
                tokens(in.V, from(i), from(i + 1))};
    }
    CausalOptions options_alone(Index i) const {
        CausalOptions o = options;
        o.cu_seqlens.clear();
        if (o.state) o.state = slice(*o.state, 0, i, i + 1);
        return o;
    }
};

// Every method, alone and with a decay, row sums and states where it carries one.
template <class Use>
void each_packed_call(Use&& use) {
    std::vector<std::string> names{"auto"};
    for (const auto& m : exact::methods()) names.push_back(m.name);
    for (const auto& method : names) {
        for (const bool normalize : {false, true}) {
            for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
                const Case c{1, 3, 97, 7, 20, {0.9, 1, 0.5}, normalize, 3};
                for (const auto& offsets : packings) {
                    Packed p{inputs(c, type), {}, offsets};
                    p.options.method = method, p.options.decay = c.decay, p.options.normalize = normalize;
                    p.options.scale = 0.5, p.options.cu_seqlens = offsets;
                    const bool state = method == "auto" || exact::method(method).state;
                    p.options.return_state = state;
                    if (state)
                        p.options.state = normal_states({p.sequences(), 3, c.r, c.d + (normalize ? 1 : 0)},
                                                        type == DType::f64 ? type : DType::f32);
                    INFO(method << " normalize=" << normalize << " " << name(type) << " sequences " << p.sequences());
                    use(p);
                }
            }
        }
    }
}

}  // namespace

TEST_CASE("packed sequences have the bits of calls with each alone, for every method", "[exact]") {
    const Poison poison;
    each_packed_call([](const Packed& p) {
        const CausalResult all = causal_linear_attention(p.in.B, p.in.C, p.in.V, p.options);
        for (Index i = 0; i < p.sequences(); ++i) {
            const Inputs one = p.alone(i);
            const CausalResult want = causal_linear_attention(one.B, one.C, one.V, p.options_alone(i));
            CHECK(same_bits(tokens(all.O, p.from(i), p.from(i + 1)), want.O));
            if (p.options.return_state) CHECK(same_bits(slice(all.state, 0, i, i + 1), want.state));
        }
    });
}

TEST_CASE("gradients of packed sequences have the bits of those with each alone", "[exact][gradient]") {
    const Poison poison;
    each_packed_call([](const Packed& p) {
        if (p.options.method != "auto") return;  // the gradient is the same for all
        Tensor dO = p.in.V.copy();
        for (Index i = 0; i < dO.size(); ++i) dO.set(i, 0.25 * (1 + i % 7));
        const CausalGradient all = causal_linear_attention_grad(p.in.B, p.in.C, p.in.V, dO, p.options);
        std::vector<double> ddecay(3, 0.0);
        for (Index i = 0; i < p.sequences(); ++i) {
            const Index from = p.from(i), to = p.from(i + 1);
            const Inputs one = p.alone(i);
            const CausalGradient want =
                causal_linear_attention_grad(one.B, one.C, one.V, tokens(dO, from, to), p.options_alone(i));
            CHECK(same_bits(tokens(all.dB, from, to), want.dB));
            CHECK(same_bits(tokens(all.dC, from, to), want.dC));
            CHECK(same_bits(tokens(all.dV, from, to), want.dV));
            CHECK(same_bits(slice(*all.dstate, 0, i, i + 1), *want.dstate));
            for (std::size_t h = 0; h < 3; ++h) ddecay[h] += want.ddecay[h];
        }
        CHECK(all.ddecay == ddecay);
    });
}

TEST_CASE("the number of threads changes no bit of packed sequences", "[exact]") {
    const int before = threads();
    Packed p{inputs({1, 2, 97, 7, 20, {}, false, 3}, DType::f32), {}, packings[1]};
    p.options.method = "block-based", p.options.cu_seqlens = p.offsets;
    set_threads(1);
    const Tensor one = causal_linear_attention(p.in.B, p.in.C, p.in.V, p.options).O;
    for (const int n : {2, 5}) {
        set_threads(n);
        CHECK(same_bits(causal_linear_attention(p.in.B, p.in.C, p.in.V, p.options).O, one));
    }
    set_threads(before);
}

TEST_CASE("operations of packed sequences are those of the sequences", "[exact]") {
    Packed p{inputs({1, 2, 97, 5, 4, {}, false, 3}, DType::f64), {}, packings[1]};
    p.options.method = "fleet", p.options.cu_seqlens = p.offsets;
    OperationCount all, sum;
    const Tensor O = causal_linear_attention_counted(p.in.B, p.in.C, p.in.V, p.options, all).O;
    for (Index i = 0; i < p.sequences(); ++i) {
        const Inputs one = p.alone(i);
        causal_linear_attention_counted(one.B, one.C, one.V, p.options_alone(i), sum);
    }
    CHECK(all.multiplies == sum.multiplies);
    CHECK(all.multiplies > 0);
    CHECK(relative_error(O, causal_linear_attention(p.in.B, p.in.C, p.in.V, p.options).O) <= 1e-13);
}

TEST_CASE("states of causal linear attention in a pool", "[exact]") {
    const Poison poison;
    const std::vector<Index> slots{2, 0, 3};
    for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
        for (const bool normalize : {false, true}) {
            INFO(name(type) << " normalize=" << normalize);
            const DType compute = type == DType::f64 ? type : DType::f32;
            Packed p{inputs({1, 2, 97, 5, 4, {}, normalize, 3}, compute), {}, {0, 33, 33, 97}};
            p.options.method = "block-based", p.options.cu_seqlens = p.offsets, p.options.normalize = normalize;
            p.options.return_state = true;
            p.options.state = normal_states({3, 2, 5, normalize ? 5 : 4}, type);
            const CausalResult want = causal_linear_attention(p.in.B, p.in.C, p.in.V, p.options);
            const Index elements = p.options.state->size() / 3;
            Tensor pool = Tensor::full(type, {4, 2, 5, normalize ? 5 : 4}, std::nan(""));
            for (std::size_t i = 0; i < 3; ++i)
                for (Index e = 0; e < elements; ++e)
                    pool.set(slots[i] * elements + e, p.options.state->get(static_cast<Index>(i) * elements + e));
            CausalOptions o = p.options;
            o.state = pool, o.state_indices = slots;
            const CausalResult got = causal_linear_attention(p.in.B, p.in.C, p.in.V, o);
            CHECK(same_bits(got.O, want.O));
            CHECK(same_bits(got.state, want.state));

            const CausalGradient g = causal_linear_attention_grad(p.in.B, p.in.C, p.in.V, p.in.V, o),
                                 gradient_alone =
                                     causal_linear_attention_grad(p.in.B, p.in.C, p.in.V, p.in.V, p.options);
            CHECK(same_bits(g.dC, gradient_alone.dC));
            REQUIRE(g.dstate->shape() == pool.shape());

            o.inplace = true, o.return_state = false;
            CHECK(same_bits(causal_linear_attention(p.in.B, p.in.C, p.in.V, o).O, want.O));
            const Tensor narrow = want.state.to(type);
            for (std::size_t i = 0; i < 3; ++i) {
                const auto slot = slice(pool, 0, slots[i], slots[i] + 1),
                           state = slice(narrow, 0, static_cast<Index>(i), static_cast<Index>(i) + 1);
                CHECK(same_bits(slot, state));
                CHECK(same_bits(slice(*g.dstate, 0, slots[i], slots[i] + 1),
                                slice(*gradient_alone.dstate, 0, static_cast<Index>(i), static_cast<Index>(i) + 1)));
            }
            for (Index e = 0; e < elements; ++e) CHECK(std::isnan(pool.get(elements + e)));
            CHECK(relative_error(slice(*g.dstate, 0, 1, 2), Tensor::zeros(compute, {1, 2, 5, normalize ? 5 : 4})) == 0);
        }
    }
}

TEST_CASE("packed sequences and slots that do not fit causal linear attention are refused by name", "[exact][errors]") {
    const auto zeros = [](const Shape& s, DType type = DType::f32) { return Tensor::zeros(type, s); };
    const Tensor x = zeros({1, 2, 10, 4});
    const auto with = [&](auto change, const Tensor& B) {
        CausalOptions o;
        o.method = "row-based";
        change(o);
        const std::string said = message_of([&] { causal_linear_attention(B, B, B, o); });
        if (!o.inplace) CHECK(said == message_of([&] { causal_linear_attention_grad(B, B, B, B, o); }));
        return said;
    };
    using O = CausalOptions&;
    CHECK(with([](O o) { o.cu_seqlens = {0, 9}; }, x) == "cu_seqlens: 9 as its last offset, expected 10, the tokens");
    CHECK(with(
              [](O o) {
                  o.cu_seqlens = {0, 5, 10};
              },
              zeros({2, 2, 10, 4})) == "cu_seqlens: given with batch 2, expected batch 1, which holds all sequences");
    CHECK(with(
              [&](O o) {
                  o.cu_seqlens = {0, 5, 10}, o.state = zeros({1, 2, 4, 4});
              },
              x) == "state: 1×2×4×4, expected 2×2×4×4");
    CHECK(with([](O o) { o.state_indices = {1}; }, x) ==
          "state_indices: given, but no state, expected the pool of their slots as it");
    CHECK(with(
              [&](O o) {
                  o.state_indices = {1}, o.state = zeros({2, 4, 4});
              },
              x) == "state: 2×4×4, expected slots×2×4×4, a pool of states, as state_indices is given");
    CHECK(with(
              [&](O o) {
                  o.state_indices = {2}, o.state = zeros({2, 2, 4, 4});
              },
              x) == "state_indices: a slot outside the pool in place 1, expected one of its 2");
    CHECK(with([&](O o) { o.state = zeros({1, 2, 4, 4}, DType::f64); }, x) == "state: Float64, expected Float32");
    CHECK(with([](O o) { o.inplace = true; }, x) == "inplace: true, but no state is given, expected one to write to");
}

TEST_CASE("a call that goes on from a checkpoint has the bits of the uninterrupted one, for every method", "[exact]") {
    const Poison poison;
    const std::vector<Index> offsets{0, 50, 50, 81, 130};
    std::vector<std::string> names{"auto"};
    for (const auto& m : exact::methods())
        if (m.state) names.push_back(m.name);
    for (const auto& method : names) {
        for (const bool normalize : {false, true}) {
            for (const Index every : {1, 7, 48, 50, 500}) {
                for (const DType type : {DType::f32, DType::bf16}) {
                    INFO(method << " every " << every << " normalize=" << normalize << " " << name(type));
                    const Inputs in = inputs({1, 2, 130, 7, 20, {0.9, 1}, normalize, 3}, type);
                    CausalOptions o;
                    o.method = method, o.decay = {0.9, 1}, o.normalize = normalize, o.return_state = true;
                    o.cu_seqlens = offsets, o.checkpoint_every = every;
                    o.state = normal_states({4, 2, 7, 20 + (normalize ? 1 : 0)}, DType::f32);
                    const CausalResult all = causal_linear_attention(in.B, in.C, in.V, o);
                    Index place = 0;
                    for (std::size_t s = 0; s < 4; ++s) {
                        const auto entry = static_cast<Index>(s);
                        const Index first = offsets[s], last = offsets[s + 1];
                        for (Index t = every; t <= last - first; t += every, ++place) {
                            CausalOptions rest = o;
                            rest.cu_seqlens.clear();
                            rest.state = slice(*all.checkpoints, 0, place, place + 1);
                            const CausalResult got =
                                causal_linear_attention(tokens(in.B, first + t, last), tokens(in.C, first + t, last),
                                                        tokens(in.V, first + t, last), rest);
                            if (!same_bits(got.O, slice(all.O, 2, first + t, last)) ||
                                !same_bits(got.state, slice(all.state, 0, entry, entry + 1)))
                                FAIL("sequence " << s << " from token " << t);
                        }
                    }
                    CHECK(place == all.checkpoints->shape()[0]);
                    o.checkpoint_every = 0;
                    o.method = method == "auto" ? "row-based" : method;
                    CHECK(relative_error(all.O, causal_linear_attention(in.B, in.C, in.V, o).O) <=
                          (type == DType::f32 ? 1e-5 : 1e-2));
                }
            }
        }
    }
}

TEST_CASE("checkpoints of a batch are those of its entries in turn", "[exact]") {
    const Inputs in = inputs({2, 3, 20, 4, 5, {}, false, 4}, DType::f64);
    CausalOptions o;
    o.method = "row-based", o.checkpoint_every = 6;
    const CausalResult all = causal_linear_attention(in.B, in.C, in.V, o);
    REQUIRE(all.checkpoints->shape() == Shape{6, 3, 4, 5});
    for (Index b = 0; b < 2; ++b) {
        for (Index piece = 0; piece < 3; ++piece) {
            CausalOptions part;
            part.method = "row-based", part.return_state = true;
            const auto first = [&](const Tensor& A) { return tokens(slice(A, 0, b, b + 1), 0, 6 * (piece + 1)); };
            const CausalResult want = causal_linear_attention(first(in.B), first(in.C), first(in.V), part);
            CHECK(same_bits(slice(*all.checkpoints, 0, b * 3 + piece, b * 3 + piece + 1), want.state));
        }
    }
}

TEST_CASE("what a call promises of its bits is checked by name", "[exact]") {
    const Tensor x = Tensor::zeros(DType::f32, {1, 1, 4, 4});
    const auto with = [&](const std::string& method, const std::string& deterministic, Index every = 0) {
        CausalOptions o;
        o.method = method, o.deterministic = deterministic, o.checkpoint_every = every;
        return message_of([&] { causal_linear_attention(x, x, x, o); });
    };
    CHECK(with("auto", "prefix") == "");
    CHECK(with("fleet", "prefix") == "");
    CHECK(with("vanilla", "run") == "");
    CHECK(with("vanilla", "alone") == "");
    CHECK(with("vanilla", "prefix")
              .rfind("deterministic: \"prefix\", which the method \"vanilla\" does not keep, "
                     "expected one of \"row-based\"",
                     0) == 0);
    CHECK(with("auto", "always") == "deterministic: \"always\", expected one of \"run\", \"alone\", \"prefix\"");
    CHECK(with("auto", "", -1) == "checkpoint_every: -1, expected 1 or more, or 0 for none");
    CHECK(with("vanilla", "", 2) == "state: the method \"vanilla\" carries no state");
    CausalOptions o;
    o.deterministic = "prefix";
    CHECK(causal_method(x, x, x, o).name == "lightning-attention-2");
    o.deterministic.clear(), o.checkpoint_every = 2;
    CHECK(message_of([&] { causal_linear_attention_grad(x, x, x, x, o); }) ==
          "checkpoint_every: given, but a gradient returns no states");
    o.method = "row-based";
    OperationCount count;
    CHECK(message_of([&] { causal_linear_attention_counted(x, x, x, o, count); }) ==
          "checkpoint_every: given, but counted calls keep no states");
}
