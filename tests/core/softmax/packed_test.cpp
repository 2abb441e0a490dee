// Packed sequences in softmax attention: to the bit what calls with each sequence alone give.
#include <vector>

#include "core/gradient/softmax_attention_grad.hpp"
#include "tests/core/gated/problems.hpp"
#include "tests/core/softmax/problems.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::test;
using causeway::testing::message_of;

TEST_CASE("packed sequences have the bits of calls with each alone, in softmax attention", "[softmax][gradient]") {
    const Poison poison;
    const std::vector<std::vector<Index>> packings{
        {0, 300}, {0, 0, 1, 1, 64, 129, 300, 300}, {0, 127, 255, 300}, {0, 299, 300}};
    for (const Index group : {1, 3}) {
        for (const bool causal : {true, false}) {
            const SoftmaxInputs drawn = softmax_inputs(
                {.heads = 2, .group = group, .N = 300, .M = 300, .d = 20, .dv = 37, .causal = causal, .seed = 4});
            for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
                for (const auto& offsets : packings) {
                    for (const std::string method : {"flash", "standard"}) {
                        INFO(method << " group " << group << " causal " << causal << " " << name(type) << " "
                                    << offsets.size() - 1 << " sequences");
                        SoftmaxInputs in = drawn.to(type);
                        in.options.method = method, in.options.cu_seqlens = offsets;
                        Tensor dO(type, {1, 2 * group, 300, 37});
                        for (Index i = 0; i < dO.size(); ++i) dO.set(i, 0.25 * (1 + i % 5));
                        const SoftmaxResult all = softmax_attention(in.q, in.k, in.v, in.options);
                        const SoftmaxGradient grad = softmax_attention_grad(in.q, in.k, in.v, dO, in.options),
                                              again = softmax_attention_grad(in.q, in.k, in.v, dO, in.options, all);
                        for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
                            const Index from = offsets[i], to = offsets[i + 1];
                            SoftmaxInputs one{tokens(in.q, from, to), tokens(in.k, from, to), tokens(in.v, from, to),
                                              in.options};
                            one.options.cu_seqlens.clear();
                            const SoftmaxResult want = softmax_attention(one.q, one.k, one.v, one.options);
                            CHECK(same_bits(tokens(all.O, from, to), want.O));
                            CHECK(same_bits(tokens(all.lse, from, to), want.lse));
                            const Tensor arrives = tokens(dO, from, to);
                            const SoftmaxGradient g = softmax_attention_grad(one.q, one.k, one.v, arrives, one.options);
                            CHECK(same_bits(tokens(grad.dq, from, to), g.dq));
                            CHECK(same_bits(tokens(grad.dk, from, to), g.dk));
                            CHECK(same_bits(tokens(grad.dv, from, to), g.dv));
                            const SoftmaxGradient h =
                                softmax_attention_grad(one.q, one.k, one.v, arrives, one.options, want);
                            CHECK(same_bits(tokens(again.dk, from, to), h.dk));
                        }
                    }
                }
            }
        }
    }
}

TEST_CASE("packed softmax attention of tensors without batch, counted, and in order", "[softmax]") {
    const SoftmaxInputs in = softmax_inputs({.N = 30, .M = 30, .d = 4, .dv = 5, .seed = 6});
    SoftmaxOptions o = in.options;
    o.cu_seqlens = {0, 12, 30};
    const Tensor want = softmax_attention(in.q, in.k, in.v, o).O;
    const SoftmaxResult flat =
        softmax_attention(in.q.reshape({30, 4}), in.k.reshape({30, 4}), in.v.reshape({30, 5}), o);
    CHECK(flat.O.shape() == Shape{30, 5});
    CHECK(flat.lse.shape() == Shape{30});
    CHECK(same_bits(flat.O.reshape(want.shape()), want));
    OperationCount count, first;
    CHECK(relative_error(softmax_attention_counted(in.q, in.k, in.v, o, count).O, want) <= 1e-13);
    SoftmaxOptions alone = o;
    alone.cu_seqlens.clear();
    softmax_attention_counted(tokens(in.q, 0, 12), tokens(in.k, 0, 12), tokens(in.v, 0, 12), alone, first);
    softmax_attention_counted(tokens(in.q, 12, 30), tokens(in.k, 12, 30), tokens(in.v, 12, 30), alone, first);
    CHECK(count.multiplies == first.multiplies);
}

TEST_CASE("offsets that do not fit softmax attention are refused by name", "[softmax][errors]") {
    const auto with = [](std::vector<Index> offsets, Index batch, Index M) {
        SoftmaxOptions o;
        o.cu_seqlens = std::move(offsets);
        const Tensor q = Tensor::zeros(DType::f32, {batch, 1, 10, 4}), k = Tensor::zeros(DType::f32, {batch, 1, M, 4});
        return message_of([&] { softmax_attention(q, k, k, o); });
    };
    CHECK(with({0, 10}, 1, 12) == "k: length 12, expected 10 like q, as cu_seqlens packs both alike");
    CHECK(with({0, 10}, 2, 10) == "cu_seqlens: given with batch 2, expected batch 1, which holds all sequences");
    CHECK(with({1, 10}, 1, 10) == "cu_seqlens: 1 as its first offset, expected 0");
    CHECK(with({0, 7, 3, 10}, 1, 10) == "cu_seqlens: offset 3 is 3, expected 7 or more like offset 2");
}
