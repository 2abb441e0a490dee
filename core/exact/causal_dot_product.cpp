// Causal-dot-product with tokens blocked in registers: a row of the state is loaded once, updated and used for `rows`
// tokens, and stored; the tokens' values and outputs stay in registers meanwhile.
#include "core/exact/causal_dot_product.hpp"

#include "core/exact/all_methods.hpp"
#include "core/exact/strips.hpp"

namespace causeway::exact {
namespace {

constexpr int NV = simd::bytes == 64 ? 2 : 1;
constexpr int rows = 4;

template <class T>
struct Kernel {
    using Vec = simd::Vector<T>;
    static constexpr int L = simd::lanes<T>;

    template <bool decays, int R>
    static void tokens(const Strip<T>& s, Index i) {
        Vec v[R][NV], o[R][NV];
        for (int t = 0; t < R; ++t) {
            for (int k = 0; k < NV; ++k) {
                v[t][k] = simd::load(s.V + (i + t) * s.stride + k * L);
                o[t][k] = Vec{};
            }
        }
        const T* b = s.B + i * s.r;
        const T* c = s.C + i * s.r;
        for (Index e = 0; e < s.r; ++e) {
            T* row = s.S + e * NV * L;
            Vec u[NV];
            for (int k = 0; k < NV; ++k) u[k] = simd::load(row + k * L);
#pragma GCC unroll 8
            for (int t = 0; t < R; ++t) {
                const T ce = c[t * s.r + e], be = b[t * s.r + e];
                for (int k = 0; k < NV; ++k) {
                    u[k] = (decays ? s.gamma * u[k] : u[k]) + ce * v[t][k];
                    o[t][k] += be * u[k];
                }
            }
            for (int k = 0; k < NV; ++k) simd::store(row + k * L, u[k]);
        }
        for (int t = 0; t < R; ++t)
            for (int k = 0; k < NV; ++k) simd::store(s.O + (i + t) * s.stride + k * L, o[t][k]);
    }

    template <bool decays>
    static void run(const Strip<T>& s) {
        Index i = 0;
        for (; i + rows <= s.rows; i += rows) tokens<decays, rows>(s, i);
        for (; i < s.rows; ++i) tokens<decays, 1>(s, i);
    }
};

}  // namespace

Method causal_dot_product_method() {
    Method m;
    m.name = "causal-dot-product";
    m.short_name = "Cdotp";
    m.source = "Vyas et al. 2020 (Fast Transformers)";
    m.formula = "for each row e of S:  S_e ← γ S_e + c_ie v_i,  o_i += b_ie S_e";
    m.text =
        "The recurrence of row-based in one pass over the state: a row of it is read by the query while "
        "it is at hand.";
    m.use =
        "On a CPU, at any length: the operations of the recurrence and one pass over a state of rd scalars, with no "
        "block to choose.";
    m.time = "O(N)";
    m.memory = "rd";
    m.state = true;
    m.prefix = true;
    m.cost = closed_form::of_recurrence;
    m.running_memory = [](const Work& w) { return w.r * w.d; };
    m.roundings = roundings_of_one_sum;
    m.f32 = [](const auto& p) { each_strip<float, NV, Kernel<float>>(p); };
    m.f64 = [](const auto& p) { each_strip<double, NV, Kernel<double>>(p); };
    m.counted = [](const auto& p) { each_head_in_turn(p, [](const auto& h) { causal_dot_product(h); }); };
    return m;
}

}  // namespace causeway::exact
