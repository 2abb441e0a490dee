// Linear algebra of matrices.
#include "core/tensor/linalg.hpp"

#include "core/tensor/einsum.hpp"
#include "core/tensor/elementwise.hpp"  // outer
#include "core/tensor/rearrange.hpp"    // diag
#include "lua/bind/tensor_args.hpp"

namespace causeway::lua {
namespace {

// U, S, V = svd(A)
int svd3(lua_State* L) {
    Svd factors = svd(check_operand(L, 1, "svd"));
    push(L, std::move(factors.u));
    push(L, std::move(factors.s));
    push(L, std::move(factors.v));
    return 3;
}

// Q, R = qr(A)
int qr2(lua_State* L) {
    Qr factors = qr(check_operand(L, 1, "qr"));
    push(L, std::move(factors.q));
    push(L, std::move(factors.r));
    return 2;
}

// One tensor for a symmetric matrix; real and imaginary parts for another.
int eigenvalues(lua_State* L) {
    Eigenvalues values = eigvals(check_operand(L, 1, "eigvals"));
    push(L, std::move(values.re));
    if (values.symmetric) return 1;
    push(L, std::move(values.im));
    return 2;
}

constexpr const char* matrix_names[] = {"svdvals", "cholesky", "inv"};
constexpr Tensor (*matrix_functions[])(const Tensor&) = {svdvals, cholesky, inv};

template <int Which>
int to_tensor(lua_State* L) {
    push(L, matrix_functions[Which](check_operand(L, 1, matrix_names[Which])));
    return 1;
}

int operator_norm(lua_State* L) {
    refuse_parameter(L, 2, "opnorm", "the operator norm is the largest singular value");
    lua_pushnumber(L, opnorm(check_operand(L, 1, "opnorm")));
    return 1;
}

int trace(lua_State* L) {
    refuse_more(L, 1, "tr");
    lua_pushnumber(L, tr(check_operand(L, 1, "tr")));
    return 1;
}

// outer(a, b): every element of a times every one of b.
int outer_product(lua_State* L) {
    refuse_more(L, 2, "outer");
    return push_one(L, outer(check_operand(L, 1, "outer: a"), check_operand(L, 2, "outer: b")));
}

// einsum(formula, A, B, ...) -> a tensor, or a number where the formula leaves no dimension
int sum_of_products(lua_State* L) {
    const std::string formula = check_string(L, 1, "einsum: formula");
    std::vector<Tensor> operands;
    for (int i = 2; i <= lua_gettop(L); ++i) {
        const std::string argument = sentence("einsum: operand ", i - 1);
        operands.push_back(check_operand(L, i, argument.c_str()));
    }
    Tensor out = einsum(formula, operands);
    if (out.ndim() > 0) return push_one(L, std::move(out));
    lua_pushnumber(L, out.get(0));
    return 1;
}

// diag(v) -> a matrix, diag(A) -> its diagonal
int diagonal(lua_State* L) {
    refuse_parameter(L, 2, "diag", "only the main diagonal is taken");
    return push_one(L, diag(check_operand(L, 1, "diag")));
}

}  // namespace

void add_tensor_linalg(lua_State* L) {
    add_functions(L, {{"einsum", guarded<sum_of_products>}});
    add_functions_and_methods(L, {{"svd", guarded<svd3>},
                                  {"svdvals", guarded<to_tensor<0>>},
                                  {"qr", guarded<qr2>},
                                  {"cholesky", guarded<to_tensor<1>>},
                                  {"inv", guarded<to_tensor<2>>},
                                  {"eigvals", guarded<eigenvalues>},
                                  {"outer", guarded<outer_product>},
                                  {"diag", guarded<diagonal>},
                                  {"opnorm", guarded<operator_norm>},
                                  {"tr", guarded<trace>}});
}

}  // namespace causeway::lua
