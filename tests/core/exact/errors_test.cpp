// The sentences of refused calls.
#include "tests/core/exact/problems.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

Tensor ones(std::initializer_list<Index> dims, DType type = DType::f32) { return Tensor::full(type, Shape(dims), 1); }

void refused(const Tensor& B, const Tensor& C, const Tensor& V, const CausalOptions& o, const std::string& message) {
    try {
        causal_linear_attention(B, C, V, o);
        FAIL("accepted, expected: " << message);
    } catch (const Error& error) {
        CHECK(std::string(error.what()) == message);
    }
}

void refused_option(const CausalOptions& o, const std::string& message) {
    const Tensor x = ones({1, 2, 8, 4});
    refused(x, x, x, o, message);
}

}  // namespace

TEST_CASE("inputs that do not belong together are named", "[exact][errors]") {
    const Tensor x = ones({1, 2, 8, 4});
    refused(x, ones({1, 2, 9, 4}), x, {}, "C: length 9, expected 8 like B");
    refused(x, ones({1, 2, 8, 5}), x, {}, "C: rank 5, expected 4 like B");
    refused(x, x, ones({1, 3, 8, 4}), {}, "V: heads 3, expected 2 like C, or a multiple for grouped values");
    refused(x, x, ones({2, 2, 8, 4}), {}, "V: batch 2, expected 1 like B");
    refused(x, x, ones({8, 4}), {}, "V: 2 dimensions (8×4), expected 4 like B (1×2×8×4)");
    refused(x, x, ones({1, 2, 8, 4}, DType::f64), {}, "V: Float64, expected Float32 like B");
    refused(ones({8}), x, x, {},
            "B: a 8-element Tensor{Float32}, expected [batch, heads, length, width], [heads, length, width] or "
            "[length, width]");
}

TEST_CASE("options out of range are named", "[exact][errors]") {
    CausalOptions o;
    for (double gamma : {1.5, 0.0, -0.5}) {
        o.decay = {gamma};
        refused_option(o, sentence("decay: ", gamma, ", expected a number in (0, 1]"));
    }
    o.decay = {std::nan("")};
    refused_option(o, "decay: nan, expected a number in (0, 1]");
    o.decay = {0.5, 0.5, 0.5};
    refused_option(o, "decay: 3 values, expected 1 or 2, one per head");
    const Tensor one_head = ones({1, 1, 8, 4});
    refused(one_head, one_head, one_head, o, "decay: 3 values, expected 1 for the one head");
    o = {};
    o.block = 0;
    refused_option(o, "block: 0, expected 1 or more");
    o.block = 4;
    o.method = "vanilla";
    refused_option(o, "block: the method \"vanilla\" has none");
    o = {};
    o.method = "fleat";
    refused_option(o, "method: no method is named \"fleat\" (did you mean \"fleet\"?)");
    o.method = "recursion";
    o.return_state = true;
    refused_option(o, "state: the method \"recursion\" carries no state");
    o.method = "fleet";
    o.state = ones({1, 2, 4, 3});
    refused_option(o, "state: 1×2×4×3, expected 1×2×4×4");
    o = {};
    o.scale = INFINITY;
    refused_option(o, "scale: inf, expected a finite number");
}

TEST_CASE("memory that the machine does not have is refused before it is touched", "[exact][errors]") {
    const Tensor x = ones({1, 1, 3000000, 1});
    CausalOptions o;
    o.method = "vanilla";
    const std::size_t held = memory::current();
    CHECK_THROWS_AS(causal_linear_attention(x, x, x, o), OutOfMemory);
    CHECK(memory::current() == held);
}
