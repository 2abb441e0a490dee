// A strip of vectors of columns is taken through the whole head twice: first Sᵀw is summed over its rows; then the
// rows, from the last to the first since the last ones are still in the first-level cache, are rewritten, and what the
// first query reads is summed on the way.
#include "core/base/interrupt.hpp"
#include "core/gated/general/forms.hpp"
#include "core/kit/simd.hpp"

namespace causeway::gated {
namespace {

// NV vectors of columns from `column` on; with `part` the last one ends at d_v.
template <class T, int NV, bool part>
class GeneralStrip {
    using Row = simd::Vector<T>[NV];
    static constexpr Index L = simd::lanes<T>;

public:
    GeneralStrip(const GeneralHead<T>& h, Index column) : h_(h), column_(column), last_(h.dv - column - (NV - 1) * L) {}

    // Token t, and its output.
    void advance(Index t) {
        Row y{}, v;
        if (h_.u) read(y, h_.w + t * h_.dk);
        load(v, h_.v + t * h_.dv + column_);
        const T *a = h_.a + t * h_.gates, *k = h_.k + t * h_.dk, *u = h_.u + (h_.u ? t * h_.dk : 0);
        const T* q = h_.q + t * h_.dk;
        Row o{}, s;
        for (Index e = h_.dk - 1; e >= 0; --e) {
            T* S = h_.S + e * h_.dv + column_;
            load(s, S);
            const T ae = h_.gates == 0 ? T(1) : a[h_.gates == 1 ? 0 : e];
            for (int x = 0; x < NV; ++x) s[x] *= ae;
            if (h_.u)
                for (int x = 0; x < NV; ++x) s[x] -= u[e] * y[x];
            for (int x = 0; x < NV; ++x) s[x] += k[e] * v[x];
            store(S, s);
            if (h_.group > 0)
                for (int x = 0; x < NV; ++x) o[x] += q[e] * s[x];
        }
        if (h_.group > 0) write(0, t, o);
        for (Index i = 1; i < h_.group; ++i) {
            Row other{};
            read(other, q + i * h_.step * h_.dk);
            write(i, t, other);
        }
    }

private:
    inline __attribute__((always_inline)) void load(Row& x, const T* p) const {
        for (int i = 0; i < NV; ++i)
            x[i] = part && i == NV - 1 ? simd::load_part(p + i * L, last_) : simd::load(p + i * L);
    }

    inline __attribute__((always_inline)) void store(T* p, const Row& x) const {
        for (int i = 0; i < NV; ++i) {
            if (part && i == NV - 1) simd::store_part(p + i * L, x[i], last_);
            else simd::store(p + i * L, x[i]);
        }
    }

    // sum = Sᵀx
    void read(Row& sum, const T* x) const {
        Row s;
        for (Index e = 0; e < h_.dk; ++e) {
            load(s, h_.S + e * h_.dv + column_);
            for (int i = 0; i < NV; ++i) sum[i] += x[e] * s[i];
        }
    }

    void write(Index i, Index t, Row& o) const {
        for (int x = 0; x < NV; ++x) o[x] *= h_.scale;
        store(h_.O + (i * h_.step + t) * h_.dv + column_, o);
    }

    const GeneralHead<T>& h_;
    Index column_, last_;
};

}  // namespace

template <class T>
void general_steps(const GeneralHead<T>& h) {
    constexpr Index L = simd::lanes<T>, wide = 4 * L;
    for (Index t = 0; t < h.N; ++t) {
        interrupt::check();
        Index column = 0;
        for (; column + wide <= h.dv; column += wide) GeneralStrip<T, 4, false>(h, column).advance(t);
        for (; column + L <= h.dv; column += L) GeneralStrip<T, 1, false>(h, column).advance(t);
        if (column < h.dv) GeneralStrip<T, 1, true>(h, column).advance(t);
    }
}

template void general_steps<float>(const GeneralHead<float>&);
template void general_steps<double>(const GeneralHead<double>&);

}  // namespace causeway::gated
