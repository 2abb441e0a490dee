// Pools of states in 8 bits as a person types them.
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::Shell;

namespace {

// Two texts of 12 tokens in slots 3 and 1 of a pool of 4, two heads, d_k = 5, d_v = 3; what Float32 states give.
const char* const state_pool_inputs = R"(
  seed(5)
  q, k, v = randn(2, 2, 12, 5), randn(2, 2, 12, 5), randn(2, 2, 12, 3)
  k = k / sqrt(sum(pow(k, 2), 4))
  before = randn(4, 2, 5, 3)
  pool = state_pool(before)
  held = pool:states()
  slots = {3, 1}
  own = cat(held({3, 3}), held({1, 1}), 1)
  function equal(a, b) return all(eq(a, b)) end
  function near(a, b) return maximum(abs(a - b)) <= maximum(abs(b)) / 253 end
)";

}  // namespace

TEST_CASE("a pool of states says what it is", "[lua][gated]") {
    Shell lua;
    CHECK(lua("return state_pool(6, 2, 64, 32)") == "6×2×64×32 StatePool{8 bits, a scale for each slot and head}");
    CHECK(lua("return state_pool(6, 2, 64, 32):bytes(), state_pool(6, 2, 64, 32):size()") == "24624 6 2 64 32");
    REQUIRE(lua(state_pool_inputs) == "");
    CHECK(lua("return near(held, before), equal(pool:states{2, 4}, cat(held({2, 2}), held({4, 4}), 1))") ==
          "true true");
    CHECK(lua("pool:put({2}, ones(1, 2, 5, 3)) return equal(pool:states({2}), ones(1, 2, 5, 3)), "
              "equal(pool:states({1}), held({1, 1}))") == "true true");
}

TEST_CASE("calls start from the slots of a pool in 8 bits, and end there when asked to", "[lua][gated]") {
    Shell lua;
    REQUIRE(lua(state_pool_inputs) == "");
    CHECK(lua("want, last = linear_attention(q, k, v, {state = own}) "
              "got, final = linear_attention(q, k, v, {state = pool, state_indices = slots}) "
              "return equal(got, want), equal(final, last), equal(pool:states(), held)") == "true true true");
    CHECK(
        lua("got, same = linear_attention{q = q, k = k, v = v, state = pool, state_indices = slots, inplace = true} "
            "now = pool:states() "
            "return equal(got, want), rawequal(same, pool), near(pool:states{3}, last({1, 1})), "
            "near(pool:states{1}, last({2, 2})), equal(now({2, 2}), held({2, 2})), equal(now({4, 4}), held({4, 4}))") ==
        "true true true true true true");
    CHECK(lua("pool = state_pool(before) "
              "want, last = causal_linear_attention(q, k, v, {method = 'fleet', state = own, return_state = true}) "
              "got, same = causal_linear_attention(q, k, v, {method = 'fleet', state = pool, state_indices = slots, "
              "  inplace = true}) "
              "return equal(got, want), same, near(pool:states{3}, last({1, 1}))") == "true nil true");
    CHECK(lua("pool = state_pool(before) "
              "t = q(':', ':', {1, 2}) tk = k(':', ':', {1, 2}) tv = v(':', ':', {1, 2}) "
              "want, last = linear_attention_step(t, tk, tv, own) "
              "got, same = linear_attention_step(t, tk, tv, pool, {state_indices = slots, inplace = true}) "
              "return equal(got, want), rawequal(same, pool), near(pool:states{1}, last({2, 2}))") == "true true true");
    CHECK(lua("pool = state_pool(before) "
              "want, last = general_linear_attention(q, k, v, {u = k / 2, w = k, state = own}) "
              "got, same = general_linear_attention(q, k, v, {u = k / 2, w = k, state = pool, state_indices = slots, "
              "  inplace = true}) "
              "return equal(got, want), rawequal(same, pool), near(pool:states{3}, last({1, 1}))") == "true true true");
    CHECK(
        lua("pool = state_pool(before) "
            "want, last = general_linear_attention_step(t, tk, tv, own) "
            "got, same, kept = general_linear_attention_step(t, tk, tv, pool, {state_indices = slots, inplace = true, "
            "  keep_states = true}) "
            "return equal(got, want), rawequal(same, pool), near(pool:states{1}, last({2, 2})), #kept, "
            "equal(kept[2], last)") == "true true true 2 true");
}

TEST_CASE("what does not fit a pool of states is refused by name", "[lua][gated]") {
    Shell lua;
    REQUIRE(lua(state_pool_inputs) == "");
    const auto ends = [&](const std::string& code, const std::string& sentence) {
        INFO(code);
        CHECK_THAT(lua(code), causeway::test::contains_text(sentence));
    };
    ends("linear_attention(q, k, v, {state = pool})",
         "state_indices: missing, expected the slots of the pool that the sequences have, as the state is a pool");
    ends("linear_attention(q, k, v, {state = pool, state_indices = {1, 5}})",
         "state_indices: a slot outside the pool in place 2, expected one of its 4");
    ends("linear_attention(q, k, v, {state = pool, state_indices = {1, 1}, inplace = true})",
         "state_indices: places 1 and 2 have the same slot");
    ends("linear_attention(q, k, v, {state = pool, state_indices = {1}})", "state: 1×2×5×3, expected 2×2×5×3");
    ends("linear_attention(f64(q), f64(k), f64(v), {state = pool, state_indices = slots})",
         "state: Float32, expected Float64 like q");
    ends("state_pool(0, 2, 3, 4)", "state_pool: slots: 0, expected 1 or more");
    ends("state_pool(2, 2, 3)", "state_pool: d_v: expected a number, got nothing");
    ends("state_pool(zeros(2, 3))", "states: 2×3, expected slots×h×d_k×d_v");
    ends("pool:put({1}, zeros(2, 2, 5, 3))", "states: 2×2×5×3, expected 1×2×5×3");
    ends("pool.slots = 3", "a StatePool has no fields to set");
}
