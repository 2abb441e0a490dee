// isapprox: near and not near, its tolerances, and the sentence of every refusal.
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::Shell;

TEST_CASE("isapprox tells near tensors from others", "[lua][compare]") {
    Shell lua;
    lua("seed(1) A = randn(3, 4) nan, inf = zeros(2) / 0, ones(2) / 0");
    CHECK(lua("return isapprox(A, A), isapprox(A, A * (1 + 1e-4)), isapprox(A, A * (1 + 1e-3))") == "true true false");
    // The tolerance is that of the less precise type: √2^-23, √2^-52, √2^-10.
    CHECK(
        lua("B = f64(A) return isapprox(B, B * (1 + 1e-8)), isapprox(B, B * (1 + 1e-6)), isapprox(A, B * (1 + 1e-6)), "
            "isapprox(f16(A), B * 1.01)") == "true false true true");
    CHECK(lua("return isapprox(A, A * 1.1, {rtol = 0.2}), isapprox(A, A * 1.1, {rtol = 0.05})") == "true false");
    // With atol alone there is no relative one.
    CHECK(lua("return isapprox(A, A + 0.1, {atol = 0.4}), isapprox(A, A + 0.1, {atol = 0.3}), isapprox(A * 1e6, A * "
              "1000001, {atol = 0.1})") == "true false false");
    CHECK(lua("return isapprox(1, 1 + 1e-9), isapprox(1, 1.1), isapprox(ones(2, 2), 1), isapprox(1, ones(2, 2) * 2)") ==
          "true false true false");
    CHECK(lua("return isapprox(nan, nan), isapprox(inf, inf), isapprox(inf, ones(2)), isapprox(inf, -inf), "
              "isapprox(nan, ones(2), {atol = math.huge})") == "false true false false false");
    CHECK(lua("return isapprox(zeros(0, 3), zeros(0, 3))") == "true");
    // Infinities that are the same say nothing of the rest.
    lua("i, n = math.huge, 0 / 0 function v(...) return tensor({...}) end");
    CHECK(lua("return isapprox(v(i, -i, 1), v(i, -i, 1 + 1e-9)), isapprox(v(i, 1), v(i, 2)), "
              "isapprox(v(i, 1), v(-i, 1)), isapprox(v(i, n), v(i, n)), isapprox(v(i, 1), v(2, 1)), "
              "isapprox(v(i, i), i), isapprox(v(i, n), i), isapprox(f32(v(i, 1)), f32(v(i, 1 + 1e-5)))") ==
          "true false false false false true false true");
}

TEST_CASE("isapprox refuses in one sentence", "[lua][compare][errors]") {
    Shell lua;
    CHECK(lua("isapprox(ones(2, 3), ones(3, 2))") == "user:1: isapprox: A is 2×3 and B 3×2, expected the same sizes");
    CHECK(lua("isapprox(ones(2), {1, 1})") == "user:1: isapprox: B: a table, expected a Tensor or a number");
    CHECK(lua("isapprox(ones(2))") == "user:1: isapprox: B: nothing, expected a Tensor or a number");
    CHECK(lua("isapprox(1, 1, {rtol = -1})") == "user:1: isapprox: rtol: -1, expected a number, 0 or more");
    CHECK(lua("isapprox(1, 1, {tol = 1})").find("isapprox: unknown option \"tol\"") != std::string::npos);
}
