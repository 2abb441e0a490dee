// Row-based in vectors: the two passes of the definition over a strip of columns small enough for the first-level
// cache.
#include "core/exact/row_based.hpp"

#include "core/exact/all_methods.hpp"
#include "core/exact/strips.hpp"

namespace causeway::exact {
namespace {

constexpr int NV = 4;

template <class T>
struct Kernel {
    template <bool decays>
    static void run(const Strip<T>& s) {
        using Vec = simd::Vector<T>;
        constexpr int L = simd::lanes<T>;
        for (Index i = 0; i < s.rows; ++i) {
            const T* b = s.B + i * s.r;
            const T* c = s.C + i * s.r;
            Vec v[NV], o[NV] = {};
            for (int k = 0; k < NV; ++k) v[k] = simd::load(s.V + i * s.stride + k * L);
            for (Index e = 0; e < s.r; ++e) {  // S_i = γ S_{i-1} + c_iᵀ v_i
                T* u = s.S + e * NV * L;
                for (int k = 0; k < NV; ++k)
                    simd::store(u + k * L,
                                (decays ? s.gamma * simd::load(u + k * L) : simd::load(u + k * L)) + c[e] * v[k]);
            }
            for (Index e = 0; e < s.r; ++e) {  // P_i = b_i S_i
                const T* u = s.S + e * NV * L;
                for (int k = 0; k < NV; ++k) o[k] += b[e] * simd::load(u + k * L);
            }
            for (int k = 0; k < NV; ++k) simd::store(s.O + i * s.stride + k * L, o[k]);
        }
    }
};

}  // namespace

Method row_based_method() {
    Method m;
    m.name = "row-based";
    m.short_name = "Cdotp_torch";
    m.source = "Choromanski et al. 2020, eq. 11; leet Algorithm 1";
    m.formula = "S_i = γ S_{i-1} + c_iᵀ v_i,  o_i = b_i S_i";
    m.text =
        "Token by token: the state takes the outer product of key and value, then the query reads it, "
        "which are two passes over the state.";
    m.use =
        "To see the recurrence as it is written. causal-dot-product has its operations and its memory, "
        "and goes over the state once.";
    m.time = "O(N)";
    m.memory = "rd";
    m.state = true;
    m.prefix = true;
    m.cost = closed_form::of_recurrence;
    m.running_memory = [](const Work& w) { return w.r * w.d; };
    m.roundings = roundings_of_one_sum;
    m.f32 = [](const auto& p) { each_strip<float, NV, Kernel<float>>(p); };
    m.f64 = [](const auto& p) { each_strip<double, NV, Kernel<double>>(p); };
    m.counted = [](const auto& p) { each_head_in_turn(p, [](const auto& h) { row_based(h); }); };
    return m;
}

}  // namespace causeway::exact
