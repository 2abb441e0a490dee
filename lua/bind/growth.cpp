// The note on states of delta rules that outgrow any use.

#include "core/base/eigen.hpp"
#include "core/tensor/visit.hpp"
#include "lua/bind/attention.hpp"
#include "lua/bind/counting.hpp"

namespace causeway::lua {
namespace {

// The largest absolute value, 0 of no element; NaN where there is one.
double largest(const Tensor& A) {
    if (A.size() == 0) return 0;
    return visit(A.dtype(), [&](auto zero) {
        using T = decltype(zero);
        const Eigen::Map<const Eigen::ArrayX<T>> x(A.data<T>(), A.size());
        return static_cast<double>(x.abs().template maxCoeff<Eigen::PropagateNaN>());
    });
}

constexpr const char* growth_noted = "causeway.noted_growth";
constexpr double outgrown = 1e15;

}  // namespace

bool may_grow(lua_State* L, const std::optional<Tensor>& state) {
    return !counting && !noted(L, growth_noted) && (!state || largest(*state) < outgrown);
}

void forget_growth(lua_State* L) { forget_note(L, growth_noted); }

// Asks of the inputs only where the state has grown.
void note_growth(lua_State* L, std::initializer_list<std::optional<Tensor>> inputs, const char* function,
                 const std::string& rule, const Tensor& state) {
    if (largest(state) < outgrown) return;
    for (const std::optional<Tensor>& input : inputs)
        if (input && !(largest(*input) < outgrown)) return;
    note_once(L, growth_noted,
              sentence(function, ": the state has grown past ", outgrown, ": ", rule,
                       " meant for keys of length 1, l2norm(k), and beta from 0 to 2"));
}

}  // namespace causeway::lua
