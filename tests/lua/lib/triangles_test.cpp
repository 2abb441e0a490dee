// tril and triu.
#include "tests/catch.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::Shell;

TEST_CASE("tril and triu keep a triangle of matrices", "[lua][tensor]") {
    Shell lua;
    lua("A = range(1, 6):reshape(2, 3)");
    CHECK(lua("return tril(A) == tensor{{1, 0, 0}, {4, 5, 0}}, triu(A) == tensor{{1, 2, 3}, {0, 5, 6}}") ==
          "true true");
    CHECK(lua("return tril(A, 1) == tensor{{1, 2, 0}, {4, 5, 6}}, tril(A, -1) == tensor{{0, 0, 0}, {4, 0, 0}}, "
              "triu(A, 1) == tensor{{0, 2, 3}, {0, 0, 6}}, triu(A, -1) == A, tril(A, 9) == A") ==
          "true true true true true");
    // Of every matrix of a tensor, in its own type; what is left out may be infinite.
    CHECK(lua("local X = randn(2, 3, 4, 4, 'f64') local L = tril(X) return eltype(L), L(2, 3, ':', ':') == "
              "tril(X(2, 3, ':', ':')), L(2, 3, 1, 2), L + triu(X, 1) == X") == "Float64 true 0.0 true");
    CHECK(lua("return eltype(triu(f16(A))) == eltype(f16(A) * 2), sum(tril(ones(3, 3) / 0, -3)), "
              "size(tril(zeros(0, 3)))") == "true 0.0 0 3");
    CHECK(lua("q, k, v = randn(1, 2, 8, 4), randn(1, 2, 8, 4), randn(1, 2, 8, 4) "
              "return relative_error(tril(q * k:t()) * v, causal_oracle(q, k, v)) < 1e-5") == "true");
    CHECK(lua("return (grad(function(X) return sum(times(tril(X), X)) end, A)) == tensor{{2, 0, 0}, {8, 10, 0}}") ==
          "true");
    CHECK(lua("tril(ones(3))") == "user:1: tril: X: a tensor of one dimension, expected matrices, [..., n, m]");
    CHECK(lua("triu(A, 0.5)") == "user:1: triu: diagonal: 0.5, expected a whole number, as in triu(X, -1)");
    CHECK(lua("tril(3)") == "user:1: tril: X: a number, expected a Tensor");
}
