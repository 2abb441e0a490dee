// The note on states of delta rules that outgrow any use.
#include <Eigen/Core>

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

}  // namespace

// Asks of the inputs only where the state has grown: what is not finite in them is no growth.
void note_growth(lua_State* L, const Tensor& k, const Tensor& v, const char* function, const std::string& rule,
                 const Tensor& state) {
    constexpr double outgrown = 1e15;
    if (counting || noted(L, growth_noted) || largest(state) < outgrown) return;
    if (!(largest(k) < outgrown) || !(largest(v) < outgrown)) return;
    note_once(L, growth_noted,
              sentence(function, ": the state has grown past ", outgrown, ": ", rule,
                       " meant for keys of length 1, l2norm(k), and beta from 0 to 2"));
}

}  // namespace causeway::lua
