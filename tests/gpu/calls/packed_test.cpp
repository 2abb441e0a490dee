// Packed sequences of awkward lengths, which the kernels for tensor cores take in one launch: to the bit what calls
// with each sequence alone give, whatever its neighbours are.
#include <map>

#include "gpu/calls/general_linear_attention.hpp"
#include "gpu/gated/delta/plan.hpp"
#include "gpu/gated/rounds.hpp"
#include "gpu/tensor/random.hpp"
#include "tests/gpu/sequences.hpp"

using namespace causeway;
using namespace causeway::test;
using namespace causeway::test::sequences;

namespace {

const std::vector<Index> lengths{0, 1, 15, 16, 63, 64, 65, 127, 128, 129, 1000, 0, 0, 200, 3};

// Element (0, h, t, c) of x becomes a value that is not finite.
void poison_at(Tensor& x, Index h, Index t, Index c, double value) {
    const auto& s = x.shape();
    x.set((h * s[2] + t) * (s.ndim() > 3 ? s[3] : 1) + c, value);
}

}  // namespace

TEST_CASE("packed sequences of awkward lengths on tensor cores: widths, heads, types", "[gpu][gpu-packed]") {
    if (!on_hopper()) return;
    const Poison poison;
    unsigned seed = 100;
    const std::vector<Index> offsets = offsets_of(lengths);
    const std::pair<Index, Index> widths[] = {{128, 128}, {64, 64}, {96, 72}, {64, 200}, {128, 64}};
    const std::array<Index, 3> heads[] = {{2, 2, 2}, {2, 2, 4}, {4, 2, 2}};
    for (const char* update : {"gated_delta", "delta", "gated"}) {
        for (std::size_t w = 0; w < std::size(widths); ++w) {
            const auto [dk, dv] = widths[w];
            const DType type = w % 2 == 0 ? DType::bf16 : DType::f16;
            const auto& h = heads[w % std::size(heads)];
            Problem c =
                make(update, false, h, offsets.back(), dk, dv, type, seed += 10, 1, static_cast<Index>(lengths.size()));
            c.options.cu_seqlens = offsets;
            CAPTURE(update, dk, dv, name(type), h[0], h[1], h[2], seed);
            const gpu::LinearResult got = run(c, type, c.on_gpu());
            check_alone(c, type, got);
            const LinearResult want = linear_attention(c.q, c.k, c.v, c.options);
            CHECK(relative_error(got.O.cpu(), want.O) <= bound(type));
            CHECK(relative_error(got.state.cpu(), want.state) <= bound(type));
        }
    }
}

TEST_CASE("packed sequences on tensor cores: heads that never forget", "[gpu][gpu-packed]") {
    if (!on_hopper()) return;
    const Poison poison;
    const std::vector<Index> offsets = offsets_of({700, 1, 900, 64, 1000, 1500});
    for (const char* update : {"gated_delta", "gated"}) {
        Problem c = make(update, false, {2, 2, 2}, offsets.back(), 64, 128, DType::bf16, 7, 1, 6);
        // The first head has gates that forget, those of the second are hardly any.
        for (Index t = 0; t < offsets.back(); ++t)
            c.options.log_decay->set(offsets.back() + t, c.options.log_decay->get(offsets.back() + t) * 1e-4);
        c.options.cu_seqlens = offsets;
        CAPTURE(update);
        check_alone(c, DType::bf16, run(c, DType::bf16, c.on_gpu()));
    }
}

TEST_CASE("packed sequences that are cut together", "[gpu][gpu-packed]") {
    if (!on_hopper()) return;
    const Poison poison;
    const std::vector<Index> some_lengths[] = {{3000, 1, 0, 700, 64, 1025}, {500, 500, 500, 500, 500}, {4097}};
    const std::array<Index, 3> heads[] = {{2, 2, 2}, {2, 2, 4}, {4, 2, 2}};
    unsigned seed = 2500;
    for (const char* update : {"gated_delta", "delta", "gated"}) {
        for (std::size_t i = 0; i < std::size(some_lengths); ++i) {
            const std::vector<Index> offsets = offsets_of(some_lengths[i]);
            const DType type = i == 1 ? DType::f16 : DType::bf16;
            const Index dv = i == 1 ? 72 : 128;
            Problem c = make(update, false, heads[i], offsets.back(), 64, dv, type, seed += 10, 1,
                             static_cast<Index>(some_lengths[i].size()));
            c.together = true, c.options.cu_seqlens = offsets;
            // The first head has gates that forget, the others hardly any.
            for (Index t = offsets.back(); c.options.log_decay && t < c.options.log_decay->size(); ++t)
                c.options.log_decay->set(t, c.options.log_decay->get(t) * 1e-4);
            CAPTURE(update, i, seed);
            const gpu::LinearResult got = run(c, type, c.on_gpu()), again = run(c, type, c.on_gpu());
            CHECK(same_bits(got.O.cpu(), again.O.cpu()));
            CHECK(same_bits(got.state.cpu(), again.state.cpu()));
            const LinearResult want = linear_attention(c.q, c.k, c.v, c.options);
            CHECK(relative_error(got.O.cpu(), want.O) <= bound(type));
            CHECK(relative_error(got.state.cpu(), want.state) <= bound(type));
        }
    }
}

TEST_CASE("packed sequences on tensor cores: what is not finite stays in its sequence", "[gpu][gpu-packed]") {
    if (!on_hopper()) return;
    const Poison poison;
    const std::vector<Index> offsets = offsets_of({70, 1, 200, 3, 64, 100});
    unsigned seed = 900;
    for (const char* update : {"gated_delta", "gated"}) {
        for (const double value : {static_cast<double>(NAN), static_cast<double>(INFINITY), 1e30}) {
            Problem c = make(update, false, {2, 2, 2}, offsets.back(), 64, 72, DType::bf16, seed += 10, 1, 6);
            c.options.cu_seqlens = offsets;
            const gpu::LinearResult clean = run(c, DType::bf16, c.on_gpu());
            // The first tokens of the second, fourth and sixth sequence, which follow tails of others.
            for (const Index t : {offsets[1], offsets[3], offsets[5]}) {
                for (Index x = 0; x < 64; ++x) poison_at(c.k, 0, t, x, value), poison_at(c.q, 1, t, x, value);
                poison_at(c.v, 1, t, 5, value);
                if (c.options.beta && t == offsets[3]) poison_at(*c.options.beta, 0, t, 0, value);
            }
            CAPTURE(update, value);
            const gpu::LinearResult got = run(c, DType::bf16, c.on_gpu());
            check_alone(c, DType::bf16, got);
            for (const std::size_t i : {std::size_t{0}, std::size_t{2}, std::size_t{4}}) {
                const auto at = static_cast<Index>(i);
                CHECK(same_bits(tokens(got.O.cpu(), offsets[i], offsets[i + 1]),
                                tokens(clean.O.cpu(), offsets[i], offsets[i + 1])));
                CHECK(same_bits(slice(got.state.cpu(), 0, at, at + 1), slice(clean.state.cpu(), 0, at, at + 1)));
            }
            // In the middle of a chunk the tokens before it are what they were. A head of q has a state of its own.
            Problem middle = make(update, false, {2, 2, 2}, offsets.back(), 64, 72, DType::bf16, seed, 1, 6);
            middle.options.cu_seqlens = offsets;
            poison_at(middle.v, 1, offsets[2] + 40, 5, value);
            const gpu::LinearResult bent = run(middle, DType::bf16, middle.on_gpu());
            CHECK(relative_error(tokens(bent.O.cpu(), offsets[2], offsets[2] + 40),
                                 tokens(clean.O.cpu(), offsets[2], offsets[2] + 40)) <= bound(DType::bf16));
        }
    }
}

TEST_CASE("packed sequences with a gate per key channel on tensor cores", "[gpu][gpu-packed]") {
    if (!on_hopper()) return;
    const Poison poison;
    unsigned seed = 1700;
    const std::vector<Index> offsets = offsets_of(lengths);
    const auto states = static_cast<Index>(lengths.size());
    for (const char* update : {"gated_delta", "gated"}) {
        for (const auto& [dk, dv] : {std::pair<Index, Index>{128, 128}, {64, 64}, {24, 40}}) {
            Problem c = make(update, true, {2, 2, 4}, offsets.back(), dk, dv, DType::bf16, seed += 10, 1, states);
            c.options.cu_seqlens = offsets;
            CAPTURE(update, dk, dv, seed);
            const gpu::LinearResult got = run(c, DType::bf16, c.on_gpu());
            check_alone(c, DType::bf16, got);
            const LinearResult want = linear_attention(c.q, c.k, c.v, c.options);
            CHECK(relative_error(got.O.cpu(), want.O) <= bound(DType::bf16));
            CHECK(relative_error(got.state.cpu(), want.state) <= bound(DType::bf16));
        }
        // With so many heads a part is 1024 tokens, and sequences of several parts take several rounds.
        Problem c = make(update, true, {64, 64, 64}, 4293, 16, 16, DType::bf16, seed += 10, 1, 5);
        c.options.cu_seqlens = offsets_of({1100, 5, 1024, 2100, 64});
        CAPTURE(update);
        check_alone(c, DType::bf16, run(c, DType::bf16, c.on_gpu()));
        // The neighbours of what is not finite have the bits that they have without it.
        Problem bad = make(update, true, {2, 2, 2}, 235, 64, 40, DType::bf16, seed += 10, 1, 4);
        bad.options.cu_seqlens = offsets_of({70, 1, 100, 64});
        const gpu::LinearResult clean = run(bad, DType::bf16, bad.on_gpu());
        for (Index x = 0; x < 64; ++x) poison_at(bad.k, 0, 70, x, static_cast<double>(NAN));
        poison_at(bad.v, 1, 171, 3, static_cast<double>(INFINITY));
        const gpu::LinearResult got = run(bad, DType::bf16, bad.on_gpu());
        check_alone(bad, DType::bf16, got);
        CHECK(same_bits(tokens(got.O.cpu(), 0, 70), tokens(clean.O.cpu(), 0, 70)));
        CHECK(same_bits(tokens(got.O.cpu(), 71, 171), tokens(clean.O.cpu(), 71, 171)));
    }
}

TEST_CASE("rounds of packed sequences", "[gpu-packed]") {
    const std::vector<Index> offsets = offsets_of({0, 300, 64, 0, 129, 5});
    const auto rounds = gpu::gated::rounds_of({offsets.data(), 6}, 128, 64, 4);
    // In parts of 128 tokens: 2 + 1 chunks, then those of 129 and 5 tokens; the rest of 300 and 129; the rest of 300.
    REQUIRE(rounds.size() == 4);
    const std::vector<std::vector<std::array<std::uint32_t, 4>>> want{
        {{0, 128, 1, 0}, {300, 64, 2, 2}},
        {{364, 128, 4, 0}, {493, 5, 5, 2}},
        {{128, 128, 1, 0}, {492, 1, 4, 2}},
        {{256, 44, 1, 0}},
    };
    for (std::size_t i = 0; i < want.size(); ++i) {
        CAPTURE(i);
        REQUIRE(rounds[i].parts.size() == want[i].size());
        std::vector<std::uint32_t> part_of_chunk;
        for (std::size_t j = 0; j < want[i].size(); ++j) {
            const auto& p = rounds[i].parts[j];
            CHECK(std::array{p.first, p.tokens, p.sequence, p.first_chunk} == want[i][j]);
            part_of_chunk.insert(part_of_chunk.end(), (p.tokens + 63) / 64, static_cast<std::uint32_t>(j));
        }
        CHECK(rounds[i].part_of_chunk == part_of_chunk);
    }
}

TEST_CASE("70000 packed sequences of a few tokens", "[gpu][gpu-packed]") {
    if (!on_hopper()) return;
    const Poison poison;
    std::vector<Index> few;
    for (Index i = 0; i < 70000; ++i) few.push_back(i % 4);
    const std::vector<Index> offsets = offsets_of(few);
    Problem c = make("gated_delta", false, {1, 1, 1}, offsets.back(), 16, 16, DType::bf16, 33, 1, 70000);
    c.options.cu_seqlens = offsets;
    const gpu::LinearResult got = run(c, DType::bf16, c.on_gpu());
    const LinearResult want = linear_attention(c.q, c.k, c.v, c.options);
    CHECK(relative_error(got.O.cpu(), want.O) <= bound(DType::bf16));
    CHECK(relative_error(got.state.cpu(), want.state) <= bound(DType::bf16));
    for (const std::size_t i : {std::size_t{1}, std::size_t{35002}, std::size_t{69999}}) {
        const auto at = static_cast<Index>(i);
        const Problem one = part(c, offsets[i], offsets[i + 1], at);
        const gpu::LinearResult alone = run(one, DType::bf16, one.on_gpu());
        CHECK(same_bits(tokens(got.O.cpu(), offsets[i], offsets[i + 1]), alone.O.cpu()));
        CHECK(same_bits(slice(got.state.cpu(), 0, at, at + 1), alone.state.cpu()));
    }
}

// Takes 35 to 80 GB of device memory, so it runs by its name alone: causeway-gpu-tests "[.gpu-packed-huge]".
TEST_CASE("2^31 - 1 tokens in 70000 packed sequences", "[.gpu-packed-huge]") {
    if (!on_hopper()) return;
    const Index N = (Index{1} << 31) - 1, count = 70000;
    std::vector<Index> all{0};  // of some 30000 tokens each, no two of their ends a multiple of anything
    for (Index i = 1; i < count; ++i) all.push_back(N / count * i + i % 97);
    all.push_back(N);
    const auto run_all = [&](const char* what, Index width, auto&& call) {
        CAPTURE(what, width);
        try {
            // One tensor is q, k and v: there is room for no more.
            const gpu::Tensor x(DType::bf16, {1, 1, N, width});
            gpu::fill_normal(x.data(), x.type(), static_cast<std::size_t>(x.size()), 11, 0.5 / std::sqrt(width),
                             nullptr);
            const gpu::LinearResult got = call(x, 0, all);
            for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{34999}, std::size_t{35000},
                                        std::size_t{69998}, std::size_t{69999}}) {
                const Index n = all[i + 1] - all[i];
                const auto rows = [&](const gpu::Tensor& y) {
                    return gpu::Tensor::view(DType::bf16, {1, 1, n, width}, y.as<char>() + all[i] * width * 2);
                };
                const gpu::LinearResult alone = call(rows(x).copy(), all[i], {});
                CAPTURE(i);
                CHECK(same_bits(rows(got.O).cpu(), alone.O.cpu()));
                const gpu::Tensor state = gpu::Tensor::view(
                    DType::f32, alone.state.shape(), got.state.as<float>() + static_cast<Index>(i) * width * width);
                CHECK(same_bits(state.cpu(), alone.state.cpu()));
                bool some = false, finite = true;
                const Tensor O = alone.O.cpu();
                for (Index e = 0; e < O.size(); ++e) some |= O.get(e) != 0, finite &= std::isfinite(O.get(e));
                CHECK((some && finite));
            }
        } catch (const OutOfMemory& error) {
            skip("2^31 - 1 tokens", error.what());
        }
    };
    for (const char* mode : {"recurrent", "chunkwise"}) {
        run_all(mode, 4, [&](const gpu::Tensor& x, Index, const std::vector<Index>& offsets) {
            gpu::GeneralOptions o;
            o.u = x, o.w = x, o.mode = mode, o.cu_seqlens = offsets;
            return gpu::general_linear_attention(x, x, x, o);
        });
    }
    const gpu::Tensor beta(DType::f32, {1, 1, N});
    gpu::fill_normal(beta.data(), beta.type(), static_cast<std::size_t>(N), 12, 0.3, nullptr);
    run_all("delta", 8, [&](const gpu::Tensor& x, Index first, const std::vector<Index>& offsets) {
        gpu::LinearOptions o;
        o.update = "delta", o.cu_seqlens = offsets;
        o.beta = gpu::Tensor::view(DType::f32, {1, 1, x.shape()[2]}, beta.as<float>() + first);
        if (offsets.empty()) o.beta = o.beta->copy();  // whose address is that of a call of its own
        return gpu::linear_attention(x, x, x, o);
    });
}

TEST_CASE("the walks over packed sequences", "[gpu][gpu-packed]") {
    if (!on_hopper()) return;
    const std::vector<Index> offsets = offsets_of({0, 5, 6400, 64, 65, 9000, 0});
    gpu::GatedArgs a;
    a.H = 32, a.N = offsets.back(), a.dk = 128, a.dv = 128;
    float some = 0;
    a.beta = &some, a.state = &some;
    const auto plan = gpu::gated_delta::packed_plan_of(a, {offsets.data(), 7}, gpu::gated_delta::PackedCut::alone);
    REQUIRE(plan.groups.size() == 1);
    const auto& group = plan.groups[0];
    CHECK(group.first == 1);
    REQUIRE(group.walks.size() == static_cast<std::size_t>(group.outputs + group.parts - group.leads + group.cut));
    // Splits and parts of every sequence one after the other, as a call on it alone has them. Those of long sequences
    // have a first split that leads.
    std::uint32_t parts = 0, cut = 0, leads = 0;
    std::int64_t outputs = 0;
    for (std::size_t i = 0; i < 7; ++i) {
        gpu::GatedArgs one = a;
        one.N = offsets[i + 1] - offsets[i];
        if (one.N == 0) continue;
        const auto alone = gpu::gated_delta::plan_of(one);
        const auto splits = static_cast<std::uint32_t>(alone.splits());
        std::vector<int> met(splits);
        for (const auto& w : group.walks) {
            if (w.first != offsets[i] || &w >= group.walks.data() + group.outputs) continue;
            CHECK(w.tokens == one.N);
            CHECK(w.sequence == i - 1);
            CHECK(w.splits == splits);
            CHECK(w.finer == static_cast<std::uint32_t>(alone.finer));
            CHECK(w.lead == alone.lead);
            REQUIRE(w.index < splits);
            ++met[w.index];
            CHECK(w.first_part == parts);
            CHECK(w.cut == cut);
        }
        CHECK(met == std::vector<int>(splits, 1));
        outputs += splits, parts += static_cast<std::uint32_t>(alone.group().parts), cut += splits > 1;
        leads += alone.lead > 0;
    }
    CHECK(group.outputs == outputs);
    CHECK(group.parts == parts);
    CHECK(group.cut == cut);
    CHECK(group.leads == leads);
    CHECK(leads > 0);
}

TEST_CASE("how packed sequences are cut together", "[gpu][gpu-packed]") {
    if (!on_hopper()) return;
    using gpu::gated_delta::PackedCut;
    gpu::GatedArgs a;
    float some = 0;
    a.dk = a.dv = 128, a.gates = 1, a.g = a.beta = &some, a.state = &some;
    const auto plan = [&](Index heads, const std::vector<Index>& lengths, PackedCut how) {
        const std::vector<Index> offsets = offsets_of(lengths);
        a.H = heads, a.N = offsets.back();
        return gpu::gated_delta::packed_plan_of(a, {offsets.data(), static_cast<Index>(lengths.size())}, how);
    };
    // Eight texts of 32 heads busy a GPU as they are; alone each is cut.
    const std::vector<Index> eight(8, 4096);
    CHECK(plan(32, eight, PackedCut::together).groups.at(0).outputs == 8);
    CHECK(plan(32, eight, PackedCut::alone).groups.at(0).outputs > 8);
    // Of one head all but the short ones are cut; each split and part is there once.
    const std::vector<Index> uneven{9000, 0, 64, 3000, 1, 6400};
    for (const Index heads : {1, 2, 8, 60}) {
        CAPTURE(heads);
        const auto p = plan(heads, uneven, PackedCut::together);
        REQUIRE(p.groups.size() == 1);
        const auto& group = p.groups[0];
        REQUIRE(group.walks.size() == static_cast<std::size_t>(group.outputs + group.parts + group.cut));
        std::map<std::uint32_t, std::uint32_t> met;
        for (Index i = 0; i < group.outputs; ++i) {
            const auto& w = group.walks[static_cast<std::size_t>(i)];
            CHECK(w.index < w.splits);
            CHECK(w.splits <= (w.tokens + 63) / 64);
            ++met[w.first * 200 + w.index];
        }
        for (const auto& [walk, times] : met) CHECK(times == 1);
        CHECK(static_cast<Index>(met.size()) == group.outputs);
        CHECK(group.leads == 0);
        if (heads == 1) CHECK(group.cut == 3);
    }
}

TEST_CASE("packed sequences whose maps need more than one group of launches", "[gpu][gpu-packed]") {
    if (!on_hopper()) return;
    const Poison poison;
    constexpr Index sequences = 160, each = 1089, H = 4, d = 128, N = sequences * each;
    const auto drawn = [&](std::uint64_t seed) {
        gpu::Tensor x(DType::bf16, {1, H, N, d});
        gpu::fill_normal(x.data(), x.type(), static_cast<std::size_t>(x.size()), seed, 0.09, nullptr);
        return x;
    };
    const gpu::Tensor q = drawn(1), k = drawn(2), v = drawn(3);
    // Gates that never forget: every head takes the maps.
    const Tensor beta = Tensor::full(DType::f32, {1, H, N}, 0.7), log_decay = Tensor::zeros(DType::f32, {1, H, N});
    gpu::LinearOptions o;
    o.update = "gated_delta", o.beta = gpu::Tensor(beta), o.log_decay = gpu::Tensor(log_decay);
    o.cu_seqlens = offsets_of(std::vector<Index>(sequences, each));
    gpu::GatedArgs a;
    a.H = H, a.N = N, a.dk = a.dv = d, a.gates = 1;
    float some = 0;
    a.g = a.beta = &some, a.state = &some;
    CHECK(gpu::gated_delta::packed_plan_of(a, {o.cu_seqlens.data(), sequences}, gpu::gated_delta::PackedCut::alone)
              .groups.size() > 1);
    const gpu::LinearResult got = gpu::linear_attention(q, k, v, o);
    const Tensor O = got.O.cpu(), state = got.state.cpu(), Q = q.cpu(), K = k.cpu(), V = v.cpu();
    for (const Index i : {Index{0}, Index{1}, Index{80}, Index{120}, sequences - 1}) {
        const auto alone_of = [&](const Tensor& x) { return gpu::Tensor(tokens(x, i * each, (i + 1) * each)); };
        gpu::LinearOptions one = o;
        one.cu_seqlens.clear(), one.beta = gpu::Tensor(tokens(beta, 0, each)),
                                one.log_decay = gpu::Tensor(tokens(log_decay, 0, each));
        const gpu::LinearResult alone = gpu::linear_attention(alone_of(Q), alone_of(K), alone_of(V), one);
        CHECK(same_bits(tokens(O, i * each, (i + 1) * each), alone.O.cpu()));
        CHECK(same_bits(slice(state, 0, i, i + 1), alone.state.cpu()));
    }
}
