#include "gpu/exact/lightning.hpp"

#include "tests/gpu/linear_problems.hpp"

using namespace causeway;
using namespace causeway::test;
using gpu::CausalArgs;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(),
                 not_a_number = std::numeric_limits<double>::quiet_NaN();

struct Problem {
    GpuCase c;
    Tensor q, k, v;

    explicit Problem(const GpuCase& problem, unsigned seed = 1)
        : c(problem),
          q(normal_inputs(c, c.r, 1 / std::sqrt(static_cast<double>(c.r)), 3 * seed)),
          k(normal_inputs(c, c.r, 1, 3 * seed + 1)),
          v(normal_inputs(c, c.d, 1, 3 * seed + 2)) {}

    CausalResult expected(const Tensor* state = nullptr) const {
        CausalOptions options = options_of(c);
        if (state) options.state = state->to(DType::f64);
        options.return_state = true;
        return causal_linear_attention(q.to(DType::f64), k.to(DType::f64), v.to(DType::f64), options);
    }
    double least() const { return own_terms(q, k, v); }

    // On poisoned outputs; `state`, if given, goes in and out.
    Tensor run(gpu::Tensor* state = nullptr) const {
        return run([&](CausalArgs a, cudaStream_t stream) {
            a.state = state ? state->as<float>() : nullptr;
            const gpu::Buffer workspace = poisoned(gpu::lightning_workspace(a), stream);
            a.workspace = {workspace.data(), workspace.bytes()};
            gpu::lightning_attention_2(a, stream);
        });
    }
    // The same in two steps; after: where the first puts the states after the last token from zeros, null: not wanted.
    Tensor run_in_steps(gpu::Tensor& state, gpu::Tensor* after) const {
        return run([&](CausalArgs a, cudaStream_t stream) {
            REQUIRE(gpu::lightning_in_steps(a));
            const gpu::Buffer workspace = poisoned(gpu::lightning_steps_workspace(a, after != nullptr), stream);
            a.workspace = {workspace.data(), workspace.bytes()};
            gpu::lightning_states(a, after ? after->as<float>() : nullptr, stream);
            a.state = state.as<float>();
            gpu::lightning_outputs(a, after != nullptr, stream);
        });
    }
    static gpu::Buffer poisoned(std::size_t bytes, cudaStream_t stream) {
        gpu::Buffer x(bytes);
        if (bytes > 0) gpu::check(cudaMemsetAsync(x.data(), 0xFF, bytes, stream), "poisoning the workspace");
        return x;
    }
    // What call(args, stream) writes.
    template <class F>
    Tensor run(const F& call) const {
        const gpu::Stream stream;
        const Laid Q(c, q), K(c, k), V(c, v), O(c, c.d);
        CausalArgs a;
        a.q = Q.memory.data(), a.k = K.memory.data(), a.v = V.memory.data(), a.o = O.memory.data();
        a.type = O.memory.type(), a.B = c.B, a.H = c.H, a.N = c.N, a.r = static_cast<int>(c.r),
        a.d = static_cast<int>(c.d);
        a.q_stride = a.k_stride = strides_of(c, c.r), a.v_stride = a.o_stride = strides_of(c, c.d);
        a.gamma = c.gamma.empty() ? nullptr : c.gamma.data();
        a.precision = c.precision, a.splits = c.splits;
        settle();
        call(a, stream);
        return O.read(stream);
    }
    // Tokens [from, to) alone.
    Problem part(Index from, Index to) const {
        Problem out = *this;
        out.c.N = to - from;
        const auto cut = [&](const Tensor& x) {
            Tensor y(x.dtype(), {c.B, c.H, to - from, x.shape().back()});
            const Index width = x.shape().back();
            for (Index line = 0; line < c.B * c.H; ++line)
                for (Index i = 0; i < (to - from) * width; ++i)
                    y.set(line * (to - from) * width + i, x.get((line * c.N + from) * width + i));
            return y;
        };
        out.q = cut(q), out.k = cut(k), out.v = cut(v);
        return out;
    }
};

void check(const GpuCase& c, unsigned seed = 1) {
    INFO(c);
    const Problem p(c, seed);
    CHECK(relative_error(p.run(), p.expected().O, p.least()) <= allowed(c));
}

const DType types[] = {DType::bf16, DType::f16, DType::f32};
const std::vector<double> mixed = {0.9, 1.0, 0.5, 1 - 1.0 / 256, 1e-4};

// Of 32 heads every second one forgets nothing.
std::vector<double> alibi_and_mask() {
    std::vector<double> gamma;
    for (int h = 0; h < 32; ++h) gamma.push_back(h % 2 ? 1 : std::exp(-std::exp2(-(h + 1) / 4.0)));
    return gamma;
}

}  // namespace

TEST_CASE("lightning-attention-2 on the GPU: any length, with and without decay", "[gpu][lightning]") {
    if (!on_gpu()) return;
    unsigned seed = 0;
    for (const DType type : types) {
        for (const Index N : {1, 2, 17, 63, 64, 65, 97, 127, 128, 129, 1000}) {
            check({type, 1, 1, N}, ++seed);
            check({type, 1, 5, N, 64, 64, mixed}, ++seed);
        }
        check({type, 1, 2, 1000, 128, 128, {0.999, 0.5}}, ++seed);
    }
}

TEST_CASE("lightning-attention-2 on the GPU: heads cut anywhere", "[gpu][lightning]") {
    if (!on_gpu()) return;
    for (const DType type : types) {
        for (const int splits : {1, 2, 3, 7, 12}) {  // with three of four heads states are handed on
            for (const Index N : {65, 300, 700}) check({type, 2, 2, N, 64, 64, {0.999, 1.0}, true, 0, splits});
        }
        for (const int splits : {2, 3, 4}) {
            for (const Index N : {64, 65, 1000}) check({type, 1, 5, N, 128, 128, mixed, false, 0, splits});
        }
        check({type, 3, 32, 500, 128, 128, alibi_and_mask()});  // as planned
        // So many pieces of one head that their states are summed beforehand.
        check({type, 1, 1, 2176, 128, 128, {}, false, 0, 34});
        // Heads of several splits, as planned.
        check({type, 1, 40, 1000, 64, 64});
        check({type, 1, 32, 2000, 128, 128});
    }
}

TEST_CASE("lightning-attention-2 on the GPU: any widths and strides", "[gpu][lightning]") {
    if (!on_gpu()) return;
    const std::pair<Index, Index> shapes[] = {{128, 128}, {64, 128}, {128, 64},  {96, 80}, {8, 16},
                                              {72, 120},  {3, 5},    {256, 192}, {130, 40}};
    for (const DType type : types) {
        for (const auto& [r, d] : shapes) {
            check({type, 2, 3, 65, r, d, {0.99, 1.0, 0.2}});
            check({type, 2, 3, 150, r, d, {0.99, 1.0, 0.2}, true, 8, 5});
        }
        check({type, 1, 2, 100, 64, 64, {}, false, 3});  // strides that the copy engine does not reach
    }
}

TEST_CASE("lightning-attention-2 on the GPU: exact products of Float32", "[gpu][lightning]") {
    if (!on_gpu()) return;
    GpuCase c{DType::f32, 1, 3, 1000, 128, 128, {0.99, 1.0, 0.2}};
    const Problem p(c);
    const Tensor expected = p.expected().O;
    const double split = relative_error(p.run(), expected);
    CHECK(split <= allowed(c));
    Problem exact = p;
    exact.c.precision = gpu::Precision::exact;
    CHECK(relative_error(exact.run(), expected) <= 2e-6);
    CHECK(relative_error(exact.run(), expected) < split);
    Problem rounded = p;
    rounded.c.precision = gpu::Precision::tf32;
    CHECK(relative_error(rounded.run(), expected) == split);
}

TEST_CASE("lightning-attention-2 on the GPU: the state carries one call over to the next", "[gpu][lightning][state]") {
    if (!on_gpu()) return;
    unsigned seed = 0;
    const auto split_and_resume = [&](const GpuCase& c, Index at) {
        INFO(c << " split at " << at);
        const Problem whole(c, ++seed);
        GpuCase like{DType::f32, c.B, c.H, c.r, c.d, c.d};
        const Tensor first = normal_inputs(like, c.d, 1, 1000 + seed).reshape({c.B, c.H, c.r, c.d});
        const CausalResult expected = whole.expected(&first);
        const double bound = allowed(c), least = whole.least();
        const Problem parts[] = {whole.part(0, at), whole.part(at, c.N)};
        gpu::Tensor state(first);
        const Tensor one = whole.run(&state);
        CHECK(relative_error(one, expected.O, least) <= bound);
        CHECK(relative_error(state.cpu(), expected.state) <= bound);
        state = gpu::Tensor(first);
        Tensor pieces(c.type, {c.B, c.H, c.N, c.d});
        for (const Problem& p : parts) {
            const Tensor o = p.run(&state);
            const Index from = &p == parts ? 0 : at;
            for (Index line = 0; line < c.B * c.H; ++line)
                for (Index i = 0; i < p.c.N * c.d; ++i)
                    pieces.set((line * c.N + from) * c.d + i, o.get(line * p.c.N * c.d + i));
        }
        CHECK(relative_error(pieces, expected.O, least) <= bound);
        CHECK(relative_error(state.cpu(), expected.state) <= bound);
    };
    for (const DType type : types) {
        for (const Index N : {2, 65, 300}) {
            for (const Index at : {Index{1}, N / 2, N - 1})
                split_and_resume({type, 2, 3, N, 64, 128, {0.99, 1.0, 0.2}, true}, at);
        }
        split_and_resume({type, 2, 2, 500, 128, 128, {0.999, 1.0}, false, 0, 7},
                         129);  // heads cut: the state reaches later pieces
        split_and_resume({type, 1, 2, 500, 96, 80, {0.9, 1e-3}, false, 0, 5}, 64);
        split_and_resume({type, 1, 5, 500, 128, 128, mixed, false, 0, 3}, 129);  // states handed on
        split_and_resume({type, 1, 40, 1100, 64, 64}, 1000);                     // as planned
        split_and_resume({type, 2, 2, 130, 130, 40, {0.9, 1.0}}, 61);            // FMA units
        // No tokens: the state stays.
        const GpuCase none{type, 1, 1, 0, 64, 64};
        const Tensor before = Tensor::full(DType::f32, {1, 1, 64, 64}, 3);
        gpu::Tensor state(before);
        Problem(none).run(&state);
        CHECK(relative_error(state.cpu(), before) == 0);
    }
}

namespace {

void check_steps(const GpuCase& c, unsigned seed) {
    INFO(c);
    const Problem p(c, seed);
    const GpuCase like{DType::f32, c.B, c.H, c.r, c.d, c.d};
    const Tensor before = normal_inputs(like, c.d, 1, 1000 + seed).reshape({c.B, c.H, c.r, c.d});
    const CausalResult expected = p.expected(&before);
    for (const bool with_after : {false, true}) {
        if (with_after && c.N % 64 != 0) continue;
        CAPTURE(with_after);
        gpu::Tensor state(before), after(Tensor::full(DType::f32, before.shape(), not_a_number));
        const Tensor O = p.run_in_steps(state, with_after ? &after : nullptr);
        CHECK(relative_error(O, expected.O, p.least()) <= allowed(c));
        CHECK(relative_error(state.cpu(), expected.state) <= allowed(c));
        if (with_after) CHECK(relative_error(after.cpu(), p.expected().state) <= allowed(c));
    }
}

}  // namespace

TEST_CASE("lightning-attention-2 on the GPU in two steps, the state before the tokens coming last",
          "[gpu][lightning][state][steps]") {
    if (!on_gpu()) return;
    unsigned seed = 100;
    for (const DType type : {DType::bf16, DType::f16}) {
        for (const Index N : {1, 63, 64, 65, 128, 640, 1000, 4096})
            for (const std::vector<double>& gamma : {std::vector<double>{}, mixed})
                check_steps({type, 2, 5, N, 64, 64, gamma}, ++seed);
        for (const int splits : {0, 1, 2, 7, 12, 34}) {
            check_steps({type, 1, 2, 2176, 128, 128, {0.99999, 0.9}, true, 0, splits}, ++seed);
            check_steps({type, 1, 1, 2176, 128, 128, {}, false, 0, splits}, ++seed);
        }
        check_steps({type, 1, 40, 1024, 64, 128}, ++seed);
        check_steps({type, 3, 100, 128, 128, 64}, ++seed);
        check_steps({type, 1, 3, 640, 96, 80, {0.99, 1.0, 0.2}}, ++seed);
    }
}

TEST_CASE("lightning-attention-2 on the GPU: more heads than a launch has decays for", "[gpu][lightning]") {
    if (!on_gpu()) return;
    std::vector<double> gamma;
    for (int h = 0; h < 300; ++h) gamma.push_back(1 - 0.9 * h / 300.0);
    for (const DType type : types) {
        check({type, 2, 300, 3, 16, 16, gamma});
        check({type, 2, 300, 3, 3, 5, gamma});  // FMA units
    }
    check({DType::f32, 35000, 2, 2, 3, 2});
    const GpuCase c{DType::bf16, 2, 300, 70, 16, 16, gamma};
    const Problem p(c);
    const Tensor before = Tensor::full(DType::f32, {2, 300, 16, 16}, 0.5);
    gpu::Tensor state(before);
    const CausalResult expected = p.expected(&before);
    CHECK(relative_error(p.run(&state), expected.O, p.least()) <= allowed(c));
    CHECK(relative_error(state.cpu(), expected.state) <= allowed(c));
}

TEST_CASE("lightning-attention-2 on the GPU: nothing of a later token reaches an earlier one, NaN neither",
          "[gpu][lightning]") {
    if (!on_gpu()) return;
    for (const DType type : types) {
        for (const Index width : {64, 128, 40}) {  // 40 + 3 columns: FMA units
            const GpuCase c{type, 1, 2, 200, width, width, {0.9, 1.0}, false, width == 40 ? 3 : 0, 3};
            const Problem clean(c, 9);
            const Tensor expected = clean.run();
            for (const double bad : {not_a_number, infinity}) {
                for (const Index token : {0, 5, 63, 64, 199}) {
                    for (int which = 0; which < 3; ++which) {
                        INFO(c << " token " << token << " of "
                               << "qkv"[which] << " is " << bad);
                        Problem p(c, 9);
                        Tensor& x = which == 0 ? p.q : which == 1 ? p.k : p.v;
                        x = x.copy();
                        const Index column = 7;
                        x.set(token * width + column, bad);  // of the first head
                        const Tensor o = p.run();
                        // A column of v with such values may be summed in another order.
                        Index changed = 0, unseen = 0;
                        double rounding = 0;
                        for (Index i = 0; i < o.size(); ++i) {
                            const Index line = i / (c.N * width), t = i / width % c.N, j = i % width;
                            const bool reached =
                                line == 0 && (which == 0 ? t == token : t >= token) && (which < 2 || j == column);
                            const double off = std::abs(o.get(i) - expected.get(i));
                            if (!reached && which == 2 && line == 0 && j == column)
                                rounding = std::max(rounding, std::isnan(off) ? infinity : off);
                            else if (!reached) changed += off != 0;
                            if (line == 0 && t == token && (which < 2 || j == column))
                                unseen += std::isfinite(o.get(i));
                        }
                        CHECK(changed == 0);
                        CHECK(rounding <= 4 * allowed(c));
                        CHECK(unseen == 0);
                    }
                }
            }
        }
    }
}

TEST_CASE("lightning-attention-2 on the GPU: zeros give zeros", "[gpu][lightning]") {
    if (!on_gpu()) return;
    for (const DType type : types) {
        const GpuCase c{type, 1, 2, 300, 128, 128};
        Problem p(c);
        p.v = Tensor::zeros(type, p.v.shape());
        CHECK(relative_error(p.run(), p.v) == 0);
    }
}

TEST_CASE("lightning-attention-2 on the GPU: no tokens, bad arguments", "[gpu][lightning]") {
    if (!on_gpu()) return;
    CHECK(Problem(GpuCase{DType::bf16, 2, 3, 0}).run().size() == 0);
    CHECK(Problem(GpuCase{DType::f32, 0, 3, 5}).run().size() == 0);
    CausalArgs a;
    a.N = 5, a.r = 300, a.d = 8;
    CHECK_THROWS_WITH(gpu::lightning_attention_2(a, nullptr), contains_text("r and d are 300 and 8"));
    a.r = 8;
    const double gamma = 1.5;
    a.gamma = &gamma;
    CHECK_THROWS_WITH(gpu::lightning_workspace(a), contains_text("decay: 1.5"));
    a.gamma = nullptr, a.N = -1;
    CHECK_THROWS_WITH(gpu::lightning_attention_2(a, nullptr), contains_text("N are"));
}

// A few launches of every kernel, for compute-sanitizer, which takes long.
namespace {

void small(DType type) {
    for (const Index width : {64, 128}) {
        check({type, 1, 2, 200, width, width, {0.9, 1.0}, false, 0, 3});
        check({type, 1, 5, 300, width, width, mixed, false, 0, 3});
        check({type, 1, 1, 700, width, width, {}, false, 0, 11});
        check({type, 1, 1, 2176, width, width, {}, false, 0, 34});
    }
    check({type, 1, 40, 1000, 64, 64});
    const GpuCase c{type, 1, 2, 150, 64, 128, {0.9, 1.0}, false, 0, 2};
    const Problem p(c);
    const Tensor before = Tensor::full(DType::f32, {1, 2, 64, 128}, 0.5);
    gpu::Tensor state(before);
    const CausalResult expected = p.expected(&before);
    CHECK(relative_error(p.run(&state), expected.O, p.least()) <= allowed(c));
    CHECK(relative_error(state.cpu(), expected.state) <= allowed(c));
    check({type, 1, 2, 70, 5, 3, {0.9, 1.0}});
}

}  // namespace

TEST_CASE("lightning-attention-2 on the GPU, small: BFloat16", "[gpu][lightning][small]") {
    if (on_gpu()) small(DType::bf16);
}
TEST_CASE("lightning-attention-2 on the GPU, small: Float16", "[gpu][lightning][small]") {
    if (on_gpu()) small(DType::f16);
}
TEST_CASE("lightning-attention-2 on the GPU, small: Float32", "[gpu][lightning][small]") {
    if (on_gpu()) small(DType::f32);
}
