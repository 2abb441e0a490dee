// Whether the checks of the proofs can fail. A fault is a deliberate error in a statement (a wrong constant, a term
// left out, an index shifted) or in a form that a check computes; the checks that know it, by its name, are run once
// more with it, and the claims of which a row goes red must be those named here and no other. No fault is in the
// library: a wrong method is registered by a test, or is a copy in the test.
#include <cctype>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/exact/all_methods.hpp"
#include "core/exact/registry.hpp"
#include "core/kit/product.hpp"
#include "core/kit/spread.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/proofs/claims.hpp"
#include "tests/proofs/methods.hpp"
#include "tests/sanitized.hpp"

using namespace causeway;
using namespace causeway::proofs;

namespace {

struct Mutation {
    std::string claim, what;               // the fault's name is "claim: what"
    std::vector<std::string> red_as_well;  // claims that rest on the same statement

    std::string fault() const { return claim + ": " + what; }
    std::set<std::string> expected() const {
        std::set<std::string> out(red_as_well.begin(), red_as_well.end());
        out.insert(claim);
        return out;
    }
};

const std::vector<Mutation>& mutations() {
    static const std::vector<Mutation> all{
        {"A1", "mask entries up to 1.1", {}},
        {"A2", "0.99 for 1 in 1 + (ln n)/π", {}},
        {"A2", "2/n for 1/n in the lower bound", {}},
        {"A2", "frequencies 2mπ/n", {}},
        {"A2", "the mean of g for its largest value", {}},
        {"A3", "ln 2/π, the limit, for the increment at 128", {}},
        {"A3", "the L_n of n/2", {}},
        {"A4", "without the 1", {}},
        {"A5", "without (2/π)(1 + 1/2n)", {}},
        {"A6", "2 ln 2 + γ for 2 ln 2 + γ - 1", {}},
        {"A7", "√(1-g) for √(1-g²)", {}},
        {"A8", "half the exponent", {}},
        {"A9", "v_j for v_j - o_i", {}},
        {"A10", "without √N", {}},
        {"A11", "9/w for 9.12/w", {}},
        {"A12", "landmarks of the last n tokens", {}},
        {"A13", "without the 4", {}},
        {"B1", "blocks without what the first and the last save", {}},
        {"B2", "b for b + 1", {}},
        {"B3", "b = max(r, d)", {}},
        {"B4", "sum to i", {}},
        {"B5", "rd a token", {}},
        {"B6", "(2) without the mask", {}},
        {"B6", "N for N + 1", {}},
        {"B7", "r once, not at every level", {}},
        {"B7", "without N", {}},
        {"B8", "block-based for row-based", {}},
        {"B9", "|C| for C", {}},
        {"B10", "N(r+d) inputs", {}},
        {"C1", "N for the minimum", {}},
        {"C2", "O2 left out", {"C3"}},
        {"C3", "w^{mid-left-j-1}", {}},
        {"C4", "at most 32", {}},
        {"C5", "without the diagonal", {}},
        {"C6", "without C1ᵀV1", {}},
        {"D1", "e(1)", {}},
        {"D2", "l of the tile before alone", {"D3"}},
        {"D3", "without Tr", {}},
        {"D4", "B and C read once", {}},
        {"D4", "a tile of Br", {}},
        {"D5", "2^r", {}},
        {"D6", "the first rank twice", {}},
        {"D7", "FA at 25600", {}},
        {"E1", "1 - λ once", {}},
        {"E2", "exponents from 1", {}},
        {"E3", "λ^p", {}},
        {"E4", "one rounding", {}},
        {"E5", "without Tr", {}},
        {"F1", "-1 for ln 0", {}},
        {"F2", "mkn adds", {}},
        {"F3", "dk roundings", {}},
        {"F4", "a last state without the last token", {}},
        {"F5", "n - d for triangles", {}},
        {"F6", "stable up to 2.1", {}},
        {"F7", "the state read once less", {}},
        {"F8", "e for w", {}},
        {"F8", "nC for ΣC_i²", {}},
        {"F9", "without a_t", {}},
        {"F10", "dk without what k erases", {}},
        {"G1", "n²/2", {}},
        {"G2", "one later", {}},
        {"G3", "without the carry", {}},
        {"G4", "√m", {}},
        {"G5", "three products", {}},
        {"G6", "without the diagonal", {"G3"}},
        {"G7", "three blocks are few", {}},
        {"G7-a", "a line for dK", {}},
        {"G7-b", "overwritten", {}},
        {"G7-c", "EPS twice as large in the forward pass", {}},
        {"G7-d", "the gradient of later blocks", {}},
        {"G7-e", "overwritten", {}},
        {"G8", "D held constant", {"G9"}},
        {"G8", "E' not counted", {}},
        {"G9", "Σ over t > s", {}},
        {"G10", "tokens for blocks", {}},
        {"G11", "n > d", {}},
        {"H1", "the second moment", {}},
        {"H2", "without 1/n!", {}},
        {"H3", "ζ_a", {}},
        {"H4", "W_O W_V not transposed", {}},
        {"H5", "the second not scaled", {}},
        {"H6", "c in place of c - 1", {}},
        {"H7", "lse alone is returned", {}},
        {"H8", "the lse of unshifted scores", {}},
        {"H9", "a shift of the numerator alone", {}},
        {"H10", "p triples gathered", {}},
        {"H11", "without Σ P|v||ln w|", {"H5"}},
        {"H12", "without max |s + h|", {}},
        {"H13", "without m and d", {}},
        {"H14", "1040/524 for 2", {}},
        {"H15", "p shifts", {}},
        {"H16", "2p numel", {}},
        {"H17", "F counted N times", {}},
        {"H18", "half of attention", {}},
        {"H19", "√(c² + 1)", {}},
        {"H20", "900 GB/s a direction", {}},
        {"H21", "the gradient for nothing", {}},
        {"H22", "all pairs of batch entries", {}},
        {"H23", "the columns changed about", {}},
        {"I1", "in relative terms", {}},
        {"I2", "Table 4", {}},
        {"I3", "Table 4", {}},
        {"I4", "up to 512", {}},
        {"I5", "batch 1", {}},
        {"I6", "eight times", {}},
        {"I7", "up to 100 times", {}},
        {"I8", "the other way round", {}},
        {"I9", "by the captions", {}},
        {"I10", "Table 8", {}},
        {"I11", "between its later neighbours", {}},
        {"I12", "rounded down", {}},
        {"I13", "LA", {}},
    };
    return all;
}

// Claims whose faults turn only regressions or notes red: their bounds are too loose, or they have none.
const std::set<std::string>& without_bound() {
    static const std::set<std::string> all{"D7", "G4", "G5", "G7-a"};
    return all;
}

// The checks of the proofs, by the name of their test.
using Checks = std::map<std::string, std::function<void()>>;

Checks checks_of_proofs() {
    Checks out;
    for (const auto& test : Catch::getAllTestCasesSorted(*Catch::getCurrentContext().getConfig())) {
#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
        const auto& info = test.getTestCaseInfo();
        std::set<std::string> tags;
        for (const auto& tag : info.tags) tags.insert(std::string(tag.original.begin(), tag.original.end()));
        const std::string name = info.name;
#else
        const std::set<std::string> tags(test.tags.begin(), test.tags.end());
        const std::string name = test.name;
#endif
        if (tags.count("proofs") && !tags.count("mutations") && !tags.count("quotations"))
            out[name] = [test] { test.invoke(); };
    }
    return out;
}

std::string listed(const std::set<std::string>& titles) {
    std::string out;
    for (const auto& name : titles) out += (out.empty() ? "" : ", ") + name;
    return out.empty() ? "none" : out;
}

// Instrumented, the same would take minutes and say nothing new.
bool skipped() {
    if (test::sanitized) test::skip("the faults of the proofs", "they are tried without a sanitizer");
    return test::sanitized;
}

}  // namespace

TEST_CASE("the checks of the proofs can fail", "[proofs][mutations]") {
    if (skipped()) return;
    // Which checks know which fault, without any.
    std::map<std::string, std::vector<std::function<void()>>> known;
    std::set<std::string> red;
    for (const auto& [name, checks] : checks_of_proofs()) {
        const Trial trial = run_with_fault("", checks);
        for (const auto& fault_name : trial.asked) known[fault_name].push_back(checks);
        red.insert(trial.red.begin(), trial.red.end());
    }
    CHECK(listed(red) == "none");

    std::set<std::string> claims, no_bound;
    for (const Mutation& m : mutations()) no_bound.insert(m.claim);
    for (const Mutation& m : mutations()) {
        const std::string name = m.fault();
        claims.insert(m.claim);
        std::set<std::string> failing;
        for (const auto& checks : known[name]) {
            const Trial trial = run_with_fault(name, checks);
            failing.insert(trial.red.begin(), trial.red.end());
            if (trial.bound.count(m.claim)) no_bound.erase(m.claim);
        }
        INFO("claims of which a row fails with the fault \"" << name << "\"");
        CHECK(listed(failing) == listed(m.expected()));
        known.erase(name);
    }
    CHECK(listed(no_bound) == listed(without_bound()));
    std::set<std::string> unlisted;
    for (const auto& [name, checks] : known) unlisted.insert(name);
    INFO("faults that are in a check and not in this table");
    CHECK(listed(unlisted) == "none");

    // Every row of the index has a fault.
    std::set<std::string> index;
    std::ifstream readme(source_dir() + "/proofs/README.md");
    for (std::string line; std::getline(readme, line);) {
        const std::string id = line.rfind("| ", 0) == 0 ? line.substr(2, line.find(' ', 2) - 2) : "";
        if (id.size() > 1 && std::isupper(static_cast<unsigned char>(id[0])) &&
            std::isdigit(static_cast<unsigned char>(id[1])))
            index.insert(id);
    }
    CHECK(index.size() > 100);
    CHECK(listed(claims) == listed(index));
}

namespace {

enum class Wrong { nothing, order, memory, work, precision, budget, count };

// Row-based, with one error.
template <class T>
void row_based_but(const exact::Head<T>& h, Wrong wrong) {
    kit::Scratch<T> own(h.r(), h.d()), twice(wrong == Wrong::memory ? h.r() : 0, h.d());
    kit::View<T> S(own.data(), h.r(), h.d());
    S.setConstant(T(0));
    auto O = h.O;
    O.setConstant(T(0));
    for (Index i = 0; i < h.N(); ++i) {
        if (h.decays()) S *= T(h.gamma);
        if (wrong == Wrong::order) kit::add_product(O.row(i), h.B.row(i), S);
        kit::add_product(S, h.C.row(i).transpose(), h.V.row(i));
        if (wrong == Wrong::work) S *= T(1);
        if constexpr (std::is_same_v<T, float>)
            if (wrong == Wrong::precision)
                for (Index k = 0; k < S.size(); ++k) {
                    // 16 bits of the 24: x + c - c rounds x to a multiple of a power of two near 2^-16 |x|.
                    const volatile float c = 0x1p8f * S.data()[k], sum = S.data()[k] + c;
                    S.data()[k] = sum - c;
                }
        if (wrong != Wrong::order) kit::add_product(O.row(i), h.B.row(i), S);
    }
}

template <Wrong wrong>
exact::Method method_but() {
    exact::Method m;
    m.name = m.short_name = "row-based-but";
    m.source = "this test", m.time = "O(N)", m.memory = "rd";
    m.cost = [](const exact::Work& w) {
        const auto rd = exact::closed_form::Wide(w.r) * w.d;
        return exact::closed_form::of((wrong == Wrong::count ? 3 : 2) * w.N * rd, w.decay ? w.N * rd : 0, rd);
    };
    m.running_memory = [](const exact::Work& w) { return w.r * w.d; };
    m.roundings = wrong == Wrong::budget ? [](const exact::Work& w) -> Index { return w.r; }
                                         : exact::roundings_of_one_sum;
    m.f32 = [](const auto& p) { kit::each_head(p, [](const auto& h) { row_based_but(h, wrong); }); };
    m.f64 = [](const auto& p) { kit::each_head(p, [](const auto& h) { row_based_but(h, wrong); }); };
    m.counted = [](const auto& p) { kit::each_head_in_turn(p, [](const auto& h) { row_based_but(h, wrong); }); };
    return m;
}

}  // namespace

TEST_CASE("a method with a fault does not pass the proofs", "[proofs][mutations]") {
    if (skipped()) return;
    struct Row {
        const char* what;
        exact::Method method;
        std::string red;
    };
    for (const auto& [what, method, red] : {
             Row{"none", method_but<Wrong::nothing>(), "none"},
             Row{"an output before its own token is added", method_but<Wrong::order>(), "B7, B9"},
             Row{"a second state", method_but<Wrong::memory>(), "B1"},
             Row{"rd multiplies a token more than stated", method_but<Wrong::work>(), "B1"},
             Row{"a count of 3Nrd", method_but<Wrong::count>(), "B1"},
             Row{"a state of 16 bits in Float32", method_but<Wrong::precision>(), "B7"},
             Row{"a budget of r roundings", method_but<Wrong::budget>(), "B7"},
         }) {
        exact::register_method(method);
        const Trial trial = run_with_fault("", [&name = method.name] {
            const exact::Method& added = exact::method(name);
            costs_what_it_says(added);
            holds_what_it_says(added);
            rounds_as_it_says(added);
        });
        exact::unregister_method(method.name);
        INFO("claims of which a row fails for a method with this fault: " << what);
        CHECK(listed(trial.red) == red);
    }
}
