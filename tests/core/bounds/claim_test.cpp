#include "core/bounds/claim.hpp"

#include <limits>
#include <set>

#include "core/bounds/approximation.hpp"
#include "core/bounds/causal_error.hpp"
#include "core/bounds/softmax.hpp"
#include "core/bounds/stability.hpp"
#include "core/bounds/sums.hpp"
#include "core/lowrank/error.hpp"
#include "core/tensor/random.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using bounds::check;
using bounds::claim;
using bounds::Row;
using bounds::Values;
using testing::message_of;

namespace {

Tensor normal(const Shape& shape, DType type = DType::f32, double factor = 1) {
    static std::uint64_t stream = 0;
    Tensor out(type, shape);
    std::vector<double> x(static_cast<std::size_t>(out.size()));
    random::normals(11, ++stream, x.data(), out.size());
    for (Index i = 0; i < out.size(); ++i) out.set(i, factor * x[static_cast<std::size_t>(i)]);
    return out;
}

Tensor of(const Tensor& x, double (*f)(double)) {
    Tensor out(x.dtype(), x.shape());
    for (Index i = 0; i < x.size(); ++i) out.set(i, f(x.get(i)));
    return out;
}
double gate(double x) { return 1 / (1 + std::exp(-x)); }
double tenth(double x) { return x / 10; }

// Inputs that every claim is stated for.
Values inputs_of(const std::string& id, DType type) {
    const Tensor q = normal({2, 3, 40, 5}, type), k = normal({2, 3, 40, 5}, type), v = normal({2, 3, 40, 4}, type);
    const Tensor X = normal({20, 20}, type);
    const auto in = [&](std::initializer_list<const char*> ids) {
        return std::find(ids.begin(), ids.end(), id) != ids.end();
    };
    if (in({"A1", "A2", "A4", "A5"})) return {{"X", X}};
    if (id == "A7") return {{"X", X}, {"decay", 0.9}};
    if (id == "A8") return {{"X", X}, {"a", of(normal({20}, type), gate)}};
    if (in({"A9", "A10"})) {
        const Tensor A = of(X, [](double x) { return std::abs(x) + 0.1; });
        Tensor At(type, A.shape());
        const Tensor noise = normal({20, 20}, type, 0.05);
        for (Index i = 0; i < A.size(); ++i) At.set(i, A.get(i) * (1 + noise.get(i)));
        return {{"A", A}, {"At", At}, {"V", normal({20, 3}, type)}};
    }
    if (in({"B1", "B7", "C1"})) return {{"B", q}, {"C", k}, {"V", v}};
    if (id == "C3") return {{"B", q}, {"C", k}, {"V", v}, {"decay", 0.875}};
    if (id == "D1") return {{"b", normal({7}, type)}, {"M", normal({7, 9}, type)}, {"c", normal({9}, type)}};
    if (id == "E1") return {{"v", normal({60}, type)}, {"decay", 0.9}};
    if (id == "E4") return {{"a", of(normal({60}, type), gate)}};
    if (in({"F3"})) return {{"q", q}, {"k", k}, {"v", v}};
    if (in({"F4", "F5", "F8"})) return {{"q", q}, {"k", k}, {"v", v}, {"chunk", 8.0}};
    if (id == "F9") return {{"k", of(normal({12, 3}, type), tenth)}, {"beta", of(normal({12}, type), gate)}};
    if (id == "G10") return {{"x", normal({12, 3}, type)}};
    if (id == "H2") return {{"s", normal({9}, type)}, {"y", normal({9}, type)}};
    if (in({"H5", "H10"})) return {{"s", normal({30}, type)}, {"v", normal({30, 2}, type)}};
    if (id == "H12") return {{"s", normal({30}, type)}, {"v", normal({30, 2}, type)}, {"shift", 100.0}};
    return {{"q", normal({2, 3, 1, 5}, type)}, {"k", k}, {"v", v}, {"shards", 4.0}};
}

std::string fault(const std::string& id, const Values& values) {
    return message_of([&] { check(claim(id), values); });
}

}  // namespace

TEST_CASE("every claim on the list holds on random inputs, in both types", "[bounds]") {
    std::set<std::string> ids;
    for (const bounds::Claim& c : bounds::claims()) {
        INFO(c.id);
        CHECK(ids.insert(c.id).second);
        // A line of the list, beside ids and inputs, in 80 columns: bytes that begin a character.
        CHECK(std::count_if(c.statement.begin(), c.statement.end(), [](char b) { return (b & 0xC0) != 0x80; }) < 53);
        for (const DType type : {DType::f32, DType::f64}) {
            const std::vector<Row> rows = check(c, inputs_of(c.id, type));
            REQUIRE(!rows.empty());
            for (const Row& row : rows) {
                INFO(row.what << ": " << row.measured << " against " << row.bound);
                CHECK(row.holds());
                CHECK(row.bound > 0);
                // A row that measures nothing could not fail.
                CHECK((row.measured > 0 || row.what == "divisions"));
            }
        }
    }
    CHECK(ids.size() == 29);
}

TEST_CASE("a claim's rows are what they say", "[bounds]") {
    const Tensor X = normal({20, 20});
    const MatrixNorms norms = masked_norms(X);
    const Row a2 = check(claim("A2"), {{"X", X}})[0];
    CHECK(a2.measured == norms.operator_norm.error_masked);
    CHECK(a2.bound == Approx(masking_constant(20) * norms.operator_norm.error).epsilon(1e-5));
    // A lower triangular matrix attains A1; the worst case of A2 is near its bound.
    const auto share = [](const std::string& id, const Values& values) { return check(claim(id), values)[0].share(); };
    CHECK(share("A1", {{"X", Tensor::full(DType::f64, {1, 1}, 1)}}) == Approx(1));
    CHECK(share("A2", {{"X", masked_worst_case(64, "W")}}) > 0.83);
    // A9 is attained by the row (1, 0) whose second weight is -δ.
    Tensor A = Tensor::full(DType::f64, {2, 2}, 1), At = Tensor::full(DType::f64, {2, 2}, 1), V(DType::f64, {2, 1});
    A.set(2, 1), A.set(3, 1e-12), At.set(2, 1), At.set(3, -0.25), V.set(0, 0), V.set(1, 1);
    CHECK(share("A9", {{"A", A}, {"At", At}, {"V", V}}) == Approx(1).epsilon(1e-6));
    CHECK(check(claim("A9"), {{"A", A}, {"At", At}, {"V", V}})[0].measured == Approx(1.0 / 3));
    // F9 is attained by equal keys of length 1 and β = 2.
    CHECK(share("F9", {{"k", Tensor::full(DType::f64, {6, 1}, 1)}, {"beta", Tensor::full(DType::f64, {6}, 2)}}) ==
          Approx(1));
    // Keys that are longer than 1 by a rounding of their type are divided by their length once more.
    CHECK(share("F9", {{"k", Tensor::full(DType::f32, {6, 1}, 1 + 0x1p-23)},
                       {"beta", Tensor::full(DType::f32, {6}, 2)}}) == Approx(1));
    // One method alone, with its block.
    const Values one{{"B", normal({40, 3})},
                     {"C", normal({40, 3})},
                     {"V", normal({40, 2})},
                     {"method", std::string("block-based")},
                     {"block", 8.0}};
    CHECK(check(claim("B7"), one).size() == 1);
    CHECK(check(claim("B7"), one)[0].what == "block-based, k = 17");
    CHECK(check(claim("B1"), one).size() == 4);
}

TEST_CASE("a result that is wrong does not hold", "[bounds]") {
    const Index N = 12, r = 2, d = 2;
    const Tensor B = normal({N, r}), C = normal({N, r}), V = normal({N, d});
    const auto matrix = [](const Tensor& x) {
        bounds::Matrix out(x.shape()[0], x.shape()[1]);
        for (Index i = 0; i < x.size(); ++i) out(i / out.cols(), i % out.cols()) = x.get(i);
        return out;
    };
    const bounds::CausalReference exact(matrix(B), matrix(C), matrix(V), 1);
    Tensor out(DType::f32, {N, d});
    for (Index i = 0; i < N; ++i)
        for (Index j = 0; j < d; ++j) out.set(i * d + j, static_cast<double>(exact.P(i, j)));
    CHECK(exact.error("", out, 1, bounds::u32).holds());
    out.set(5, out.get(5) + 1e-4 * static_cast<double>(exact.Pi(2, 1)));
    CHECK_FALSE(exact.error("", out, N + r, bounds::u32).holds());
    out.set(5, std::numeric_limits<double>::quiet_NaN());
    CHECK_FALSE(exact.error("", out, N + r, bounds::u32).holds());

    const bounds::Attended attended(bounds::Point{0, 1}, bounds::Point{1, -1});
    CHECK_FALSE(attended.row("", static_cast<double>(attended.z) + 1e-4, bounds::u32, bounds::of_tree(2, 2)).holds());
    CHECK(attended.row("", static_cast<double>(attended.z), bounds::u32, bounds::of_tree(2, 2)).holds());
    CHECK_FALSE(Row{"", 3, 4, true}.holds());
    CHECK(Row{"", 4, 4, true}.holds());
}

TEST_CASE("what is not finite does not hold, and says so", "[bounds]") {
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
        for (const bounds::Claim& c : bounds::claims()) {
            Values values = inputs_of(c.id, DType::f32);
            for (auto& [name, value] : values) {
                if (auto* x = std::get_if<Tensor>(&value)) {
                    Tensor spoiled(x->dtype(), x->shape());
                    for (Index i = 0; i < x->size(); ++i) spoiled.set(i, i == x->size() - 1 ? bad : x->get(i));
                    value = spoiled;
                    break;
                }
            }
            const std::vector<Row> rows = check(c, values);
            INFO(c.id);
            REQUIRE(rows.size() == 1);
            CHECK(!rows[0].holds());
            CHECK(std::isnan(rows[0].measured));
            CHECK(rows[0].what.ends_with("has numbers that are NaN or infinite"));
        }
    }
}

TEST_CASE("inputs of claims that do not fit are named", "[bounds]") {
    const Tensor X = normal({4, 4}), B = normal({2, 6, 3}), V = normal({2, 6, 2});
    CHECK(
        message_of([] { claim("Z9"); }).starts_with("claim: \"Z9\" is none that can be checked, expected one of A1 "));
    const std::string all_of_B7 =
        "; B7 takes B, C [..., N, r], V [..., N, d], optional method (text), block (whole number)";
    CHECK(fault("A1", {}) == "A1: X: missing, expected a matrix, [n, n]");
    CHECK(fault("A1", {{"X", 3.0}}) == "A1: X: got a number, expected a matrix, [n, n]");
    CHECK(fault("A1", {{"X", normal({4, 5})}}) == "A1: X: 4×5, expected [n, n] with n = 4, as it has before");
    CHECK(fault("A1", {{"X", normal({2, 4, 4})}}) == "A1: X: 2×4×4, expected [n, n]");
    CHECK(fault("A1", {{"X", Tensor(DType::f32, {0, 0})}}) == "A1: X: 0×0, expected [n, n], none of them 0");
    CHECK(fault("A1", {{"X", X}, {"Y", X}}) == "A1: has no input \"Y\", expected X [n, n]");
    CHECK(fault("B7", {{"k", X}}) == "B7: has no input \"k\"" + all_of_B7);
    CHECK(fault("A8", {{"X", X}, {"a", normal({5})}}) ==
          "A8: a: 5, expected [n] with n = 4, as X has; A8 takes X [n, n], a [n]");
    CHECK(fault("A8", {{"X", X}, {"a", Tensor::full(DType::f32, {4}, 2)}}) ==
          "A8: a: has 2.0, expected gates in [0, 1]");
    CHECK(fault("A9", {{"A", Tensor::full(DType::f32, {4, 4}, -1)}, {"At", X}, {"V", X}}) ==
          "A9: A: has -1.0 at (1, 1), expected positive entries");
    CHECK(fault("B7", {{"B", B}, {"C", normal({3, 6, 3})}, {"V", V}}) ==
          "B7: C: 3×6×3, expected [..., N, r] with 2 heads, as B has" + all_of_B7);
    CHECK(fault("B7", {{"B", B}, {"C", normal({2, 7, 3})}, {"V", V}}) ==
          "B7: C: 2×7×3, expected [..., N, r] with N = 6, as B has" + all_of_B7);
    const auto with = [&](const std::string& name, std::variant<Tensor, double, bool, std::string> value) {
        Values out{{"B", B}, {"C", B}, {"V", V}};
        out[name] = value;
        return out;
    };
    CHECK(fault("B7", with("block", 2.5)) == "B7: block: 2.5, expected a whole number from 1 on");
    CHECK(fault("B7", with("block", true)) ==
          "B7: block: got a truth value, expected block length, of methods that have one, whole number" + all_of_B7);
    CHECK(fault("B7", with("method", std::string("fleat"))).find("did you mean \"fleet\"?") != std::string::npos);
    Values row_based = with("method", std::string("row-based"));
    row_based["block"] = 4.0;
    CHECK(fault("B7", row_based) == "B7: block: 4, expected none, as row-based has no blocks");
    Values large = with("V", normal({2, 6, 2}, DType::f32, 1e38));
    large["B"] = normal({2, 6, 3}, DType::f32, 1e3);
    CHECK(fault("B7", large).find(", more than Float32 holds, of which the claim says nothing") != std::string::npos);
    // Products that underflow are no part of an error.
    CHECK(check(claim("B7"), {{"B", normal({6, 3}, DType::f32, 1e-30)},
                              {"C", normal({6, 3}, DType::f32, 1e-10)},
                              {"V", normal({6, 2})}})[0]
              .holds());
    CHECK(fault("C3", with("decay", 1.5)) == "C3: decay: 1.5, expected a number in (0, 1]");
    CHECK(fault("E1", {{"v", normal({4})}, {"decay", 1.0}}) == "E1: decay: 1.0, expected a number from 0 to below 1");
    CHECK(fault("F5", {{"q", B}, {"k", B}, {"v", V}, {"chunk", 4.0}}) ==
          "F5: chunk: 4, expected one that divides the length 6");
    CHECK(fault("F9", {{"k", Tensor::full(DType::f32, {2, 1}, 3)}, {"beta", Tensor::full(DType::f32, {2}, 1)}}) ==
          "F9: k: a key of length 3.0, expected at most 1, but for roundings (l2norm) at token 1, as the claim asks");
    CHECK(
        fault("F9", {{"k", Tensor::full(DType::f32, {2, 1}, 1 + 0x1p-20)}, {"beta", Tensor::full(DType::f32, {2}, 1)}})
            .starts_with("F9: k: a key of length 1.0000009"));
    CHECK(
        fault("H7", {{"q", B}, {"k", B}, {"v", V}}) ==
        "H7: q: 2×6×3, expected [..., 1, r]: one query; H7 takes q [..., 1, r], k [..., N, r], v [..., N, d], optional "
        "scale (number), shards (whole number)");
    CHECK(fault("H11", {{"q", normal({2, 1, 3})}, {"k", B}, {"v", V}, {"shards", 7.0}}) ==
          "H11: shards: 7, expected at most the 6 keys");
    CHECK(fault("H10", {{"s", normal({4})}, {"v", normal({4, 1})}, {"bound", -100.0}})
              .starts_with("H10: bound: -100.0, expected at least the largest score, "));
}
