// deterministic = "prefix" on the GPU: no bit of an output changes with later tokens and gates, N, the batch, other
// heads or packed neighbours.
#include <random>

#include "gpu/gated/delta/plan.hpp"
#include "gpu/gradient/linear_attention_grad.hpp"
#include "tests/gpu/sequences.hpp"

using namespace causeway;
using namespace causeway::test;
using namespace causeway::test::sequences;

namespace {

// The second half of the heads of the last batch entry.
Tensor last_heads(const Tensor& x) {
    const Index B = x.shape()[0], H = x.shape()[1];
    return slice(slice(x, 0, B - 1, B), 1, H / 2, H);
}

// Those heads alone, with the first n tokens.
Problem beginning(const Problem& c, Index n) {
    Problem out = c;
    out.q = last_heads(c.q), out.k = last_heads(c.k), out.v = last_heads(c.v);
    if (c.options.log_decay) out.options.log_decay = last_heads(*c.options.log_decay);
    if (c.options.beta) out.options.beta = last_heads(*c.options.beta);
    out.options.state = last_heads(*c.options.state);
    return part(out, 0, n, 0);
}

// The beginnings of the text have the bits that they have in it; the text itself is near the CPU's.
void check_beginnings(const Problem& c, DType type, const std::vector<Index>& lengths) {
    const gpu::LinearResult got = run(c, type, c.on_gpu());
    const Tensor O = last_heads(got.O.cpu());
    for (const Index n : lengths) {
        CAPTURE(n);
        const Problem one = beginning(c, n);
        const gpu::LinearResult alone = run(one, type, one.on_gpu());
        CHECK(same_bits(tokens(O, 0, n), alone.O.cpu()));
        if (n == c.q.shape()[2]) CHECK(same_bits(last_heads(got.state.cpu()), alone.state.cpu()));
    }
    const LinearResult want = linear_attention(c.q, c.k, c.v, c.options);
    CHECK(relative_error(got.O.cpu(), want.O) <= bound(type));
    CHECK(relative_error(got.state.cpu(), want.state) <= bound(type));
}

enum class Gates { usual, none_in_half, late, early };

// Gates of the text: none in the heads looked at, hardly any up to token 3000, or hardly any from there on.
void set_gates(Problem& c, Gates kind) {
    if (!c.options.log_decay || kind == Gates::usual) return;
    Tensor& g = *c.options.log_decay;
    const Index H = g.shape()[1], N = g.shape()[2];
    for (Index i = 0; i < g.size(); ++i) {
        const Index t = i % N, h = i / N % H;
        const bool slow = kind == Gates::none_in_half ? h >= H / 2 : (kind == Gates::late) == (t < 3000);
        if (slow) g.set(i, kind == Gates::none_in_half ? 0.0 : static_cast<float>(g.get(i) * 1e-3));
    }
}

Problem long_text(const char* update, Gates gates, std::array<Index, 3> heads, Index dk, Index dv, DType type,
                  unsigned seed) {
    Problem c = make(update, false, heads, 6400, dk, dv, type, seed, 2);
    set_gates(c, gates);
    c.prefix = true;
    return c;
}

}  // namespace

TEST_CASE("prefix on tensor cores: later tokens, N, batch and heads", "[gpu][gpu-prefix]") {
    if (!on_hopper()) return;
    const Poison poison;
    const std::vector<Index> lengths{1, 63, 64, 65, 1000, 2047, 2048, 2049, 3001, 4096, 4097, 6143, 6399, 6400};
    unsigned seed = 100;
    for (const char* update : {"gated_delta", "gated"}) {
        for (const Gates gates : {Gates::usual, Gates::none_in_half, Gates::late, Gates::early}) {
            CAPTURE(update, int(gates));
            check_beginnings(long_text(update, gates, {2, 2, 2}, 128, 128, DType::bf16, seed += 10), DType::bf16,
                             lengths);
        }
    }
    for (const char* update : {"delta", "linear"}) {
        CAPTURE(update);
        check_beginnings(long_text(update, Gates::usual, {2, 2, 2}, 128, 128, DType::bf16, seed += 10), DType::bf16,
                         lengths);
    }
}

TEST_CASE("prefix on tensor cores: widths, types and shared heads", "[gpu][gpu-prefix]") {
    if (!on_hopper()) return;
    const Poison poison;
    const std::vector<Index> lengths{100, 2050, 4159, 6400};
    const std::pair<Index, Index> widths[] = {{64, 64}, {96, 72}, {64, 200}, {128, 64}};
    const std::array<Index, 3> heads[] = {{2, 2, 4}, {4, 2, 2}};
    unsigned seed = 500;
    for (const char* update : {"gated_delta", "delta", "gated", "linear"}) {
        for (std::size_t w = 0; w < std::size(widths); ++w) {
            const auto [dk, dv] = widths[w];
            const DType type = w % 2 == 0 ? DType::f16 : DType::bf16;
            CAPTURE(update, dk, dv, name(type));
            check_beginnings(
                long_text(update, w < 2 ? Gates::late : Gates::none_in_half, heads[w % 2], dk, dv, type, seed += 10),
                type, lengths);
        }
    }
}

TEST_CASE("prefix on tensor cores: packed neighbours and checkpoints", "[gpu][gpu-prefix]") {
    if (!on_hopper()) return;
    const Poison poison;
    const std::vector<Index> offsets = offsets_of({700, 0, 3000, 5, 2048, 2049, 4200});
    unsigned seed = 900;
    for (const char* update : updates) {
        for (const Gates gates : {Gates::usual, Gates::none_in_half}) {
            Problem c = make(update, false, {2, 2, 2}, offsets.back(), 64, 128, DType::bf16, seed += 10, 1, 7);
            set_gates(c, gates);
            c.prefix = true, c.options.cu_seqlens = offsets;
            CAPTURE(update, int(gates));
            check_alone(c, DType::bf16, run(c, DType::bf16, c.on_gpu()));
        }
        Problem c = long_text(update, Gates::usual, {2, 2, 2}, 64, 64, DType::bf16, seed += 10);
        c.options.checkpoint_every = 2500;
        CAPTURE(update);
        check_beginnings(c, DType::bf16, {2499, 2500, 2600, 5100});
    }
}

TEST_CASE("prefix on tensor cores: random texts", "[gpu][gpu-prefix]") {
    if (!on_hopper()) return;
    const Poison poison;
    std::mt19937 draw(20);
    const auto below = [&](Index n) { return static_cast<Index>(draw() % static_cast<std::uint32_t>(n)); };
    for (int i = 0; i < 24; ++i) {
        const char* const update = updates[below(4)];
        const auto gates = static_cast<Gates>(below(4));
        const Index dk = 8 * (4 + below(13)), dv = 8 * (1 + below(20)), H = 1 + below(3);
        const DType type = below(2) == 0 ? DType::bf16 : DType::f16;
        const auto seed = static_cast<unsigned>(3000 + 10 * i);
        CAPTURE(i, update, int(gates), dk, dv, H, name(type));
        if (i % 2 == 0) {
            Problem c = make(update, false, {2 * H, 2 * H, 2 * H}, 2 + below(7000), dk, dv, type, seed, 2);
            set_gates(c, gates);
            c.prefix = true;
            const Index N = c.q.shape()[2];
            check_beginnings(c, type, {1 + below(N), 1 + below(N), 1 + below(N), N});
        } else {
            std::vector<Index> lengths;
            for (Index n = 3 + below(4); n > 0; --n) lengths.push_back(below(3500));
            const std::vector<Index> offsets = offsets_of(lengths);
            Problem c = make(update, false, {H, H, H}, offsets.back(), dk, dv, type, seed, 1,
                             static_cast<Index>(lengths.size()));
            set_gates(c, gates);
            c.prefix = true, c.options.cu_seqlens = offsets;
            check_alone(c, type, run(c, type, c.on_gpu()));
        }
    }
}

TEST_CASE("prefix in Float32", "[gpu][gpu-prefix]") {
    if (!on_gpu()) return;
    const Poison poison;
    unsigned seed = 1500;
    for (const char* mode : {"chunkwise", "recurrent"}) {
        for (const char* update : updates) {
            for (const bool channels : {false, true}) {
                if (channels && !gated::has_gate(gated::updates()[update].update)) continue;
                for (const DType type : {DType::f32, DType::bf16}) {
                    // With so many heads the kernels in chunks work on 1024 tokens at a time.
                    Problem c = make(update, channels, {40, 40, 40}, 1300, 16, 24, type, seed += 10, 2);
                    c.options.mode = mode, c.prefix = true;
                    CAPTURE(mode, update, channels, name(type));
                    check_beginnings(c, type, {1, 15, 33, 1000, 1025, 1299, 1300});
                }
            }
        }
    }
}

TEST_CASE("prefix and where splits lie", "[gpu-prefix]") {
    using gpu::gated_delta::split_bound;
    CHECK(split_bound(70, 3, 0, 32) == 0);
    CHECK(split_bound(70, 3, 2, 32) == 64);
    CHECK(split_bound(70, 3, 3, 32) == 70);
    CHECK(split_bound(70, 3, 1) == 23);
    // The first of three leads with 30 chunks, the others share what is left.
    CHECK(split_bound(70, 3, 0, 0, 30) == 0);
    CHECK(split_bound(70, 3, 1, 0, 30) == 30);
    CHECK(split_bound(70, 3, 2, 0, 30) == 50);
    CHECK(split_bound(70, 3, 3, 0, 30) == 70);
    const std::vector<Index> offsets = offsets_of({1024, 1024, 2048, 2049, 9000});
    float some = 0;
    for (const Index H : {1, 200}) {
        for (const int gates : {0, 1}) {
            gpu::GatedArgs a;
            a.H = H, a.N = offsets.back(), a.dk = a.dv = 16, a.gates = gates, a.beta = a.state = &some;
            const auto plan =
                gpu::gated_delta::packed_plan_of(a, {offsets.data(), 5}, gpu::gated_delta::PackedCut::fixed);
            REQUIRE(plan.groups.size() == 1);
            const auto& group = plan.groups[0];
            CHECK(group.each == 32);
            CHECK(group.outputs == 1 + 1 + 1 + 2 + 5);
            CHECK(group.parts == 1 + 4);
            CHECK(group.cut == 2);
        }
    }
}

TEST_CASE("prefix is refused where it is not kept", "[gpu][gpu-prefix]") {
    if (!on_gpu()) return;
    Problem c = make("gated_delta", false, {2, 2, 2}, 10, 8, 8, DType::f32, 1);
    c.prefix = true, c.options.mode = "parallel";
    CHECK(message_of([&] { run(c, DType::f32, c.on_gpu()); }) ==
          "mode: \"parallel\" does not run on the GPU with deterministic = \"prefix\", expected \"chunkwise\" or "
          "\"recurrent\"");
    c.options.mode = "chunkwise";
    const gpu::Tensor v = moved(c.v, DType::f32);
    CHECK(message_of(
              [&] { gpu::linear_attention_grad(moved(c.q, DType::f32), moved(c.k, DType::f32), v, v, c.on_gpu()); }) ==
          "deterministic: \"prefix\", which the gradient on the GPU does not keep, expected \"run\" or \"alone\"");
    gpu::LinearOptions o = c.on_gpu();
    CHECK(gpu::LinearOptions{}.deterministic == "alone");
    o.deterministic = "always";
    CHECK(message_of([&] { run(c, DType::f32, o); }) ==
          "deterministic: \"always\", expected one of \"run\", \"alone\", \"prefix\"");
}
