// A method in one file, added to the registry: it passes all that the built-in ones pass, and then is gone.
#include "core/exact/all_methods.hpp"
#include "core/exact/choice.hpp"
#include "core/exact/problem.hpp"
#include "core/kit/product.hpp"
#include "core/kit/spread.hpp"
#include "tests/core/exact/problems.hpp"
#include "tests/core/exact/suite.hpp"
#include "tests/lua/shell.hpp"
#include "tests/proofs/methods.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

// S ← γ S + c_iᵀ v_i, P_i = b_i S, in blocks of b tokens between which it can be interrupted. 2Nrd multiply-adds, rd
// memory.
template <class T>
void carried(const exact::Head<T>& h, Index b) {
    kit::Scratch<T> own(h.S ? 0 : h.r(), h.d());
    kit::View<T> S(h.S ? h.S : own.data(), h.r(), h.d());
    if (!h.S) S.setConstant(T(0));
    auto O = h.O;
    O.setConstant(T(0));
    for (Index start = 0; start < h.N(); start += b) {
        interrupt::check();
        for (Index i = start; i < std::min(h.N(), start + b); ++i) {
            if (h.decays()) S *= T(h.gamma);
            kit::add_product(S, h.C.row(i).transpose(), h.V.row(i));
            kit::add_product(O.row(i), h.B.row(i), S);
        }
    }
}

exact::Method carried_method() {
    exact::Method m;
    m.name = "carried";
    m.short_name = "Carried";
    m.source = "this test";
    m.time = "O(N)";
    m.memory = "rd";
    m.block = 16;
    m.state = true;
    m.cost = [](const exact::Work& w) {
        const auto rd = exact::closed_form::Wide(w.r) * w.d;
        return exact::closed_form::of(2 * w.N * rd, w.decay ? w.N * rd : 0, rd);
    };
    m.running_memory = [](const exact::Work& w) { return w.r * w.d; };
    m.roundings = exact::roundings_of_one_sum;
    m.f32 = [](const auto& p) { kit::each_head(p, [&](const auto& h) { carried(h, p.block); }); };
    m.f64 = [](const auto& p) { kit::each_head(p, [&](const auto& h) { carried(h, p.block); }); };
    m.counted = [](const auto& p) { kit::each_head_in_turn(p, [&](const auto& h) { carried(h, p.block); }); };
    return m;
}

struct Added {
    Added() { exact::register_method(carried_method()); }
    ~Added() { exact::unregister_method("carried"); }
};

}  // namespace

TEST_CASE("a method that is added passes what every method passes", "[exact][added-method]") {
    const Added added;
    const exact::Method& m = exact::methods().back();
    REQUIRE(m.name == "carried");
    CHECK(&exact::method("Carried") == &m);
    const Methods one{m};
    equal_the_definition_for_every_option(one);
    equal_the_definition_at_any_width(one);
    equal_the_definition_at_length_1000(one);
    equal_the_definition_on_a_long_head(one);
    sum_nothing_to_zero(one);
    give_exact_zeros_and_take_denormals(one);
    take_strong_decay(one);
    are_causal(one);
    keep_infinities_where_they_are(one);
    carry_their_state(one);
    end_in_the_sum_of_outer_products(one);
    do_not_depend_on_the_number_of_threads(one);
    need_memory_that_grows_as_they_say(one);
    cost_what_their_closed_forms_say(one);
    proofs::costs_what_it_says(m);
    proofs::holds_what_it_says(m);
    proofs::rounds_as_it_says(m);
}

TEST_CASE("a method that is added is there for the automatic choice and for Lua", "[exact][added-method]") {
    const Added added;
    CHECK(exact::fastest({DType::f32, 1, 24, 4, 4, false, false, false, 0}).candidate);
    testing::Shell lua;
    CHECK(lua("for _, m in ipairs(method_list()) do if m.name == 'carried' then return m.short, m.block, m.state end "
              "end") == "Carried 16 true");
    CHECK(
        lua("x = randn(1, 2, 40, 4, 'f64') return maximum(abs(causal_linear_attention(x, x, x, {method = 'carried'}) - "
            "causal_linear_attention(x, x, x, {method = 'row-based'}))) < 1e-10") == "true");
    CHECK(lua("return cost('carried', {N = 10, r = 3, d = 2}).adds") == "120");
}

TEST_CASE("what cannot be added, or taken off, is named", "[exact][added-method][errors]") {
    const std::size_t count = exact::methods().size();
    exact::Method m = carried_method();
    m.short_name = "fleet";
    CHECK_THROWS_WITH(exact::register_method(m), "register_method: a method is named \"fleet\" already");
    m = carried_method();
    m.roundings = nullptr;
    CHECK_THROWS_WITH(exact::register_method(m), "register_method: the method \"carried\" has no roundings");
    m = carried_method();
    m.name = "";
    CHECK_THROWS_WITH(exact::register_method(m), "register_method: the method has no name");
    CHECK_THROWS_WITH(exact::unregister_method("fleet"), "unregister_method: no method was registered as \"fleet\"");
    CHECK(exact::methods().size() == count);
}
