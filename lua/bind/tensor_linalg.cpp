// Linear algebra of matrices.
#include "core/tensor/linalg.hpp"

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

}  // namespace

void add_tensor_linalg(lua_State* L) {
    add_functions_and_methods(L, {{"svd", guarded<svd3>},
                                  {"svdvals", guarded<to_tensor<0>>},
                                  {"qr", guarded<qr2>},
                                  {"cholesky", guarded<to_tensor<1>>},
                                  {"inv", guarded<to_tensor<2>>},
                                  {"eigvals", guarded<eigenvalues>},
                                  {"opnorm", guarded<operator_norm>},
                                  {"tr", guarded<trace>}});
}

}  // namespace causeway::lua
