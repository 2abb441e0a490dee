// Taylor features of second order, as in Based (Arora et al. 2024; Zhang et al. 2024).
//
//   φ(x) = [1, x, x_a²/√2, x_a x_b for a < b]:   φ(q)ᵀφ(k) = 1 + qᵀk + (qᵀk)²/2
//
// The error of an entry with s = qᵀk is at most |s|³/6 max(1, e^s), and the value is never below 1/2. The state of
// linear attention expands from d to r = 1 + d + d(d+1)/2 rows; `full` keeps both x_a x_b and x_b x_a, r = 1 + d + d².
// rank: fixed by d. O(N r). No token sees another one.
#include "core/lowrank/registry.hpp"

namespace causeway::lowrank {
namespace {

template <class T>
void taylor(const Head<T>& h) {
    const Index d = h.d();
    const bool full = h["full"] != 0;
    const T root = static_cast<T>(std::sqrt(0.5));
    const auto features = [&](const ConstView<T>& X, View<T> F) {
        each_block(
            X.rows(),
            [&](Index first, Index n) {
                for (Index i = first; i < first + n; ++i) {
                    const T* x = X.data() + i * d;
                    T* out = F.data() + i * F.cols();
                    *out++ = 1;
                    out = std::copy_n(x, d, out);
                    for (Index a = 0; a < d; ++a) {
                        if (!full) *out++ = x[a] * x[a] * root;
                        for (Index b = full ? 0 : a + 1; b < d; ++b) *out++ = full ? x[a] * x[b] * root : x[a] * x[b];
                    }
                }
            },
            16);
    };
    features(h.Q, h.B);
    features(h.K, h.C);
}

}  // namespace

Method taylor_method() {
    Method m;
    m.name = "taylor";
    m.source = "Arora et al. 2024 (Based); Zhang et al. 2024";
    m.formula = "1 + s + s²/2, s = scale qᵀk";
    m.text =
        "1 + s + s²/2 for s = scale qᵀk, exactly, by features of degree 0, 1 and 2: the state of linear attention "
        "expands from d rows to 1 + d + d(d+1)/2. The error of an entry is at most |s|³/6 max(1, e^s).";
    m.use = "For small widths and scores of at most about 1, to generate text too. Nothing is drawn.";
    m.time = "O(Nd²)";
    m.rank = "1 + d + d(d+1)/2 features; with full 1 + d + d²";
    m.columns = [](const Size& s, const Settings& o) {
        return 1 + s.d + (o.at("full") != 0 ? s.d * s.d : s.d * (s.d + 1) / 2);
    };
    m.options = {{"full", 0, 0, 1, true, "both x_a x_b and x_b x_a: 1 + d + d² features with the same products"}};
    m.f32 = taylor<float>;
    m.f64 = taylor<double>;
    return m;
}

}  // namespace causeway::lowrank
