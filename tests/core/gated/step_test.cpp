// One token at a time: the definition, the whole sequence, nothing allocated, nothing lost between threads.
#include "core/gated/step.hpp"

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "core/base/parallel.hpp"
#include "tests/catch.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/core/gated/problems.hpp"
#include "tests/temporary.hpp"

namespace {

std::atomic<long> blocks_made{0};  // by operator new, in the whole program

}  // namespace

void* operator new(std::size_t bytes) {
    ++blocks_made;
    if (void* block = std::malloc(bytes > 0 ? bytes : 1)) return block;
    throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    ++blocks_made;
    return std::malloc(bytes > 0 ? bytes : 1);
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }

using namespace causeway;
using namespace causeway::test;
using causeway::testing::message_of;

namespace {

struct Stepped {
    Tensor O, state;
};

// The only token of the inputs, by the step.
Stepped stepped(const GatedInputs& in) {
    LinearOptions o = in.options;
    const Index h = in.k.shape()[1];
    const DType compute = in.q.dtype() == DType::f64 ? DType::f64 : DType::f32;
    Tensor state = o.state ? o.state->to(compute).copy()
                           : Tensor::zeros(compute, {in.q.shape()[0], h, in.k.shape()[3], in.v.shape()[3]});
    o.state.reset();
    Tensor O(in.q.dtype(), {in.q.shape()[0], in.q.shape()[1], 1, in.v.shape()[3]});
    linear_attention_step(in.q, in.k, in.v, state, O, o);
    return {O, state};
}

// Rounding of the type the output is stored in.
double rounding(DType type) {
    return type == DType::f64 ? 1e-14 : type == DType::f32 ? 3e-6 : type == DType::f16 ? 1e-3 : 8e-3;
}

void check_step(const GatedCase& c, DType type) {
    CAPTURE(c, name(type));
    auto in = gated_inputs(c).to(type);
    if (in.options.state) in.options.state = in.options.state->to(type == DType::f64 ? DType::f64 : DType::f32);
    const LinearResult want = oracle(in);
    const Stepped got = stepped(in);
    CHECK(relative_error(got.O, want.O) <= rounding(type));
    CHECK(relative_error(got.state, want.state) <= rounding(type == DType::f64 ? DType::f64 : DType::f32));
}

const char* const updates[] = {"linear", "gated", "delta", "gated_delta"};

}  // namespace

TEST_CASE("a step is the recurrence for one token, for every width", "[gated]") {
    const Poison poison;
    unsigned seed = 1;
    for (const char* update : updates) {
        for (const Index dk : {1, 3, 16, 17, 64, 65, 128}) {
            for (const Index dv : {1, 3, 16, 17, 64, 65, 128}) {
                GatedCase c;
                c.update = update, c.dk = dk, c.dv = dv, c.heads = 2, c.seed = ++seed;
                c.channels = seed % 2 == 0;
                c.scale = seed % 3 == 0 ? 0.25 : 1;
                check_step(c, DType::f32);
                check_step(c, DType::f64);
            }
        }
    }
}

TEST_CASE("a step serves groups of queries, batches and every type", "[gated]") {
    const Poison poison;
    unsigned seed = 100;
    for (const char* update : updates) {
        for (const Index group : {1, 2, 3, 4, 5, 8, 9}) {
            for (const bool channels : {false, true}) {
                GatedCase c;
                c.update = update, c.group = group, c.channels = channels, c.batch = 2, c.heads = 3, c.dk = 20,
                c.dv = 35, c.seed = ++seed;
                for (const DType type : {DType::f32, DType::f64, DType::f16, DType::bf16}) check_step(c, type);
            }
        }
    }
    for (const bool channels : {false, true}) {
        GatedCase tall;
        tall.channels = channels, tall.dk = 1100, tall.dv = 70,
        tall.group = 2;  // more rows than gates are kept at a time
        check_step(tall, DType::f32);
        check_step(tall, DType::f64);
    }
}

TEST_CASE("a step is exact for gates of minus infinity and follows very strong ones", "[gated]") {
    for (const DType type : {DType::f32, DType::f64}) {
        for (const bool channels : {false, true}) {
            GatedCase c;
            c.update = "gated", c.channels = channels, c.dk = 40, c.dv = 19, c.key_norm = 0;
            auto in = gated_inputs(c).to(type);
            in.k = Tensor::zeros(type, in.k.shape());
            Tensor& g = *in.options.log_decay;
            for (Index e = 0; e < g.size(); ++e) g.set(e, e % 2 == 0 ? -INFINITY : -85.0);
            const Stepped got = stepped(in);
            const LinearResult want = oracle(in);
            for (Index row = 0; row < c.dk; ++row) {
                for (Index j = 0; j < c.dv; ++j) {
                    CAPTURE(row, j, channels, name(type));
                    const double expected = want.state.get(row * c.dv + j);
                    if (!channels || row % 2 == 0) CHECK(got.state.get(row * c.dv + j) == 0);
                    else CHECK(got.state.get(row * c.dv + j) == Approx(expected).epsilon(1e-4).margin(0));
                }
            }
        }
    }
}

TEST_CASE("one head of gates serves all heads of a batch in a step", "[gated]") {
    GatedCase c;
    c.batch = 2, c.heads = 3, c.dk = 5, c.dv = 7;
    for (const bool channels : {false, true}) {
        c.channels = channels;
        auto in = gated_inputs(c);
        const auto one_head = [&](const Tensor& A) {
            Shape shape = A.shape();
            shape[1] = 1;
            Tensor out(A.dtype(), shape);
            const Index each = out.size() / c.batch;
            for (Index b = 0; b < c.batch; ++b)
                for (Index i = 0; i < each; ++i) out.set(b * each + i, A.get(b * c.heads * each + i));
            return out;
        };
        in.options.log_decay = one_head(*in.options.log_decay);
        in.options.beta = one_head(*in.options.beta);
        const LinearResult want = oracle(in);
        const Stepped got = stepped(in);
        CHECK(relative_error(got.O, want.O) <= 1e-14);
        CHECK(relative_error(got.state, want.state) <= 1e-14);
    }
}

TEST_CASE("a prompt in chunks and then single steps give what one call gives", "[gated]") {
    std::mt19937_64 generator(7);
    const auto pick = [&](Index low, Index high) {
        return low + static_cast<Index>(generator() % static_cast<std::uint64_t>(high - low + 1));
    };
    for (unsigned seed = 1; seed <= 40; ++seed) {
        GatedCase c;
        c.update = updates[seed % 4], c.seed = seed;
        c.batch = pick(1, 2), c.heads = pick(1, 3), c.group = pick(1, 3), c.dk = pick(1, 40), c.dv = pick(1, 40);
        c.channels = pick(0, 1) == 1, c.state = pick(0, 1) == 1;
        c.gate = seed % 5 == 0 ? std::numeric_limits<double>::infinity() : 0.1 * static_cast<double>(pick(0, 20));
        const Index prompt = pick(0, 100), steps = pick(1, 20);
        c.N = prompt + steps;
        for (const DType type : {DType::f32, DType::f64}) {
            CAPTURE(c, prompt, name(type));
            const auto in = gated_inputs(c).to(type);
            const LinearResult whole = linear_attention(in.q, in.k, in.v, in.options);
            const auto first = tokens(in, 0, prompt);
            const LinearResult begun = linear_attention(first.q, first.k, first.v, first.options);
            Tensor state = begun.state, O(type, {c.batch, c.heads * c.group, 1, c.dv});
            double worst = 0;
            for (Index t = prompt; t < c.N; ++t) {
                auto one = tokens(in, t, t + 1);
                one.options.state.reset();
                linear_attention_step(one.q, one.k, one.v, state, O, one.options);
                worst = std::max(worst, relative_error(O, tokens(whole.O, t, t + 1)));
            }
            CHECK(worst <= (type == DType::f64 ? 1e-12 : 1e-4));
            CHECK(relative_error(state, whole.state) <= (type == DType::f64 ? 1e-13 : 1e-5));
        }
    }
}

TEST_CASE("a step allocates nothing", "[gated]") {
    for (const char* update : updates) {
        for (const bool channels : {false, true}) {
            for (const DType type : {DType::f32, DType::f64}) {
                GatedCase c;
                c.update = update, c.channels = channels, c.batch = 2, c.heads = 40, c.group = 2, c.dk = 64,
                c.dv = 70;  // enough for threads
                CAPTURE(c, name(type));
                auto in = gated_inputs(c).to(type);
                Tensor state = *in.options.state, O(type, {c.batch, c.heads * c.group, 1, c.dv});
                in.options.state.reset();
                linear_attention_step(in.q, in.k, in.v, state, O, in.options);  // starts the threads
                const auto before = memory::current();
                memory::reset_peak();
                const auto* place = state.raw();
                const auto blocks = blocks_made.load();
                linear_attention_step(in.q, in.k, in.v, state, O, in.options);
                CHECK(blocks_made.load() == blocks);
                CHECK(memory::peak() == before);
                CHECK(state.raw() == place);
            }
        }
    }
}

TEST_CASE("a step does not depend on the number of threads", "[gated]") {
    GatedCase c;
    c.batch = 3, c.heads = 7, c.group = 2, c.dk = 128, c.dv = 130, c.channels = true;
    const auto in = gated_inputs(c).to(DType::f32);
    const int before = threads();
    set_threads(1);
    const Stepped one = stepped(in);
    for (const int n : {2, 3, 8}) {
        set_threads(n);
        const Stepped many = stepped(in);
        CHECK(std::memcmp(one.O.raw(), many.O.raw(), one.O.bytes()) == 0);
        CHECK(std::memcmp(one.state.raw(), many.state.raw(), one.state.bytes()) == 0);
    }
    set_threads(before);
}

TEST_CASE("a step of nothing is nothing", "[gated]") {
    for (const char* update : updates) {
        for (const auto& [batch, heads, dk, dv] :
             {std::array<Index, 4>{0, 2, 3, 4}, {2, 0, 3, 4}, {1, 2, 0, 4}, {1, 2, 3, 0}}) {
            GatedCase c;
            c.update = update, c.batch = batch, c.heads = heads, c.dk = dk, c.dv = dv, c.channels = true;
            CAPTURE(c);
            const Poison poison;
            const Stepped got = stepped(gated_inputs(c));
            for (Index i = 0; i < got.O.size(); ++i) CHECK(got.O.get(i) == 0);
        }
    }
}

TEST_CASE("a step takes tensors without leading dimensions", "[gated]") {
    GatedCase c;
    c.dk = 5, c.dv = 6;
    auto in = gated_inputs(c);
    const LinearResult want = oracle(in);
    Tensor state = in.options.state->copy().reshape({5, 6}), O(DType::f64, {1, 6});
    LinearOptions o = in.options;
    o.state.reset();
    o.log_decay = o.log_decay->reshape({1});
    o.beta = o.beta->reshape({1});
    linear_attention_step(in.q.reshape({1, 5}), in.k.reshape({1, 5}), in.v.reshape({1, 6}), state, O, o);
    CHECK(relative_error(O, want.O.reshape({1, 6})) <= 1e-14);
    CHECK(relative_error(state, want.state.reshape({5, 6})) <= 1e-14);
}

TEST_CASE("a step names what it cannot use, and leaves the state alone", "[gated]") {
    GatedCase c;
    c.heads = 2, c.dk = 3, c.dv = 4;
    const auto full = gated_inputs(c).to(DType::f32);
    const auto says = [&](auto change) {
        GatedInputs in = full;
        Tensor state = in.options.state->copy(), O(DType::f32, {1, 2, 1, 4});
        in.options.state.reset();
        const Tensor kept = state.copy();
        Tensor the_state = state;
        change(in, the_state, O);
        const std::string said = message_of([&] { linear_attention_step(in.q, in.k, in.v, the_state, O, in.options); });
        CHECK(std::memcmp(kept.raw(), state.raw(), kept.bytes()) == 0);
        return said;
    };
    using G = GatedInputs&;
    using A = Tensor&;
    const auto of = [](const Shape& shape) { return Tensor::zeros(DType::f32, shape); };
    CHECK(says([&](G in, A, A) { in.k = of({1, 2, 1, 5}); }) == "k: width 5, expected 3 like q");
    CHECK(says([&](G in, A, A) {
              in.q = of({1, 3, 1, 3});
          }) == "q: heads 3, expected a multiple of the 2 of v, or a divisor of them");
    CHECK(says([&](G in, A, A) {
              in.q = of({1, 2, 0, 3}), in.k = of({1, 2, 0, 3}), in.v = of({1, 2, 0, 4});
              in.options.log_decay = of({1, 2, 0}), in.options.beta = of({1, 2, 0});
          }) == "q: length 0, expected 1 to 16 tokens in a step");
    CHECK(says([&](G in, A, A) { in.options.update = "gated-delta"; }) ==
          "update: \"gated-delta\", expected one of \"linear\", \"gated\", \"delta\", \"gated_delta\" (did you mean "
          "\"gated_delta\"?)");
    CHECK(says([&](G in, A, A) { in.options.update = "delta"; }) ==
          "log_decay: given, but update = \"delta\" has none, expected update = \"gated_delta\"");
    CHECK(says([&](G in, A, A) { in.options.beta.reset(); }) == "beta: missing, update = \"gated_delta\" needs it");
    CHECK(says([&](G in, A, A) { in.options.beta = of({1, 2, 2}); }) == "beta: 1×2×2, expected 1×2×1");
    CHECK(says([&](G in, A, A) {
              in.options.log_decay = of({2, 1});
          }) == "log_decay: 2×1, expected 1×2×1, or 1×2×1×3 for a gate per key channel");
    CHECK(says([&](G in, A, A) {
              in.options.log_decay = Tensor::full(DType::f32, {1, 2, 1}, 0.5);
          }) == "log_decay: 0.5 in element 1, expected numbers <= 0 (the state is multiplied by their exponentials)");
    CHECK(says([&](G in, A, A) {
              in.options.log_decay = Tensor::full(DType::f32, {1, 2, 1}, NAN);
          }).find("log_decay: ") == 0);
    CHECK(says([&](G in, A, A) { in.options.scale = INFINITY; }) == "scale: inf, expected a finite number");
    CHECK(says([&](G in, A state, A) { in.options.state = state; }) ==
          "state: given among the options too, expected it as the argument alone");
    CHECK(says([&](G, A state, A) { state = of({1, 2, 4, 3}); }) == "state: 1×2×4×3, expected 1×2×3×4");
    CHECK(says([&](G, A state, A) { state = state.to(DType::f64); }) == "state: Float64, expected Float32");
    CHECK(says([&](G, A, A O) { O = of({1, 2, 1, 3}); }) == "O: 1×2×1×3, expected 1×2×1×4");
    CHECK(says([&](G, A, A O) { O = O.to(DType::f64); }) == "O: Float64, expected Float32 like q");
    CHECK(says([&](G in, A, A O) { O = in.v; }) == "O: has elements of v, expected a tensor of its own");
    CHECK(says([&](G in, A state, A) {
              in.q = Tensor::view(DType::f32, in.q.shape(), state.data<float>() + 5);  // inside of it
          }) == "state: has elements of q, expected a tensor of its own");
}
