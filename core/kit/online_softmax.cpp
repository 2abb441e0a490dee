// A block of queries against tiles of 64 keys, on register tiles (panels.hpp). For a few rows of queries at a time:
// their scores of the tile, new maxima and exponentials, then their rows of the output; all of it in the first-level
// cache, with the tile packed once a block. Keys past the last one a row attends to meet neither its maximum nor its
// output, not even times zero: Inf and NaN of later tokens stay causal.
#include "core/kit/online_softmax.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/interrupt.hpp"
#include "core/kit/exp.hpp"
#include "core/kit/panels.hpp"

namespace causeway::kit {
namespace {

template <class T>
class Rows {
    using Vec = simd::Vector<T>;
    static constexpr Index L = simd::lanes<T>;
    static constexpr Index W = panel_width<T>;
    static constexpr Index tile_keys = 64;
    static_assert(tile_keys % W == 0);

public:
    // Rows [from, to) of the head.
    Rows(const AttentionHead<T>& h, Index from, Index to)
        : h_(h),
          from_(from),
          rows_(to - from),
          few_(rows_ <= few_softmax_rows),
          in_place_(few_ && h.dv % L == 0),
          keys_(few_ ? 0 : h.d * tile_keys),
          values_(in_place_ ? 0 : panels<T>(h.dv) * W * tile_keys),
          O_(rows_ * panels<T>(h.dv) * W),
          m_(rows_),
          l_(rows_) {
        if (!in_place_) std::fill_n(values_.data(), values_.size(), T(0));
    }

    // The keys [first, last).
    void run(Index first, Index last) {
        std::fill_n(O_.data(), O_.size(), T(0));
        std::fill_n(m_.data(), rows_, -std::numeric_limits<T>::infinity());
        std::fill_n(l_.data(), rows_, T(0));
        const Index end = from_ + rows_;
        for (Index key = first; key < last; key += tile_keys) {
            interrupt::check();
            key_ = key;
            count_ = std::min(tile_keys, last - key);
            const T* V = h_.v + key * h_.dv;
            if (!few_) pack_transposed(h_.k + key * h_.d, count_, h_.d, keys_.data());
            if (!in_place_) pack_rows(V, count_, h_.dv, h_.dv, values_.data(), tile_keys);
            if (!h_.causal || h_.N == 1) {
                rows(from_, end);
            } else {  // limits ascend within a head of q
                for (Index at = from_; at < end;) {
                    const Index next = std::min(end, (at / h_.N + 1) * h_.N);
                    const Index skipped = std::clamp<Index>(key - h_.limit(at) + 1, 0, next - at);
                    rows(at + skipped, next);
                    at = next;
                }
            }
        }
    }

    // Numerators, or with `divide` outputs [rows, dv], maxima and sums.
    void write(T* O, T* m, T* l, bool divide) const {
        for (Index row = 0; row < rows_; ++row) {
            T* o = O + row * h_.dv;
            for (Index at = 0; at < h_.dv; at += W)
                std::copy_n(O_.data() + at * rows_ + row * W, std::min(W, h_.dv - at), o + at);
            if (divide)
                for (Index e = 0; e < h_.dv; ++e) o[e] /= l_[row];
        }
        std::copy_n(m_.data(), rows_, m);
        std::copy_n(l_.data(), rows_, l);
    }

private:
    void rows(Index from, Index to) {
        each_row_tile(to - from, [&](auto count, Index i) { tile<decltype(count)::value>(from + i); });
    }

    // Rows row ... row + R - 1, all of which attend to a key of the tile.
    template <int R>
    void tile(Index row) {
        Index limit[R];  // keys of the tile that a row attends to
        for (int r = 0; r < R; ++r) limit[r] = std::min(count_, h_.limit(row + r) - key_);
        alignas(64) T P[R * tile_keys];
        alignas(64) T factor[R];
        if (few_) few_scores<R>(row, limit[R - 1], P);
        else scores<R>(row, limit[R - 1], P);
        for (int r = 0; r < R; ++r)
            factor[r] = weigh(P + r * tile_keys, limit[r], m_[row - from_ + r], l_[row - from_ + r]);
        for (Index at = 0; at < h_.dv; at += W)
            vectors_of_panel(h_.dv - at, L,
                             [&](auto vectors) { add<R, decltype(vectors)::value>(row, at, P, limit, factor); });
    }

    template <int R>
    void scores(Index row, Index n, T* P) const {
        for (Index key = 0; key < n; key += W) {
            vectors_of_panel(n - key, L, [&](auto vectors) {
                constexpr int NV = decltype(vectors)::value;
                simd::Tile<T, R, NV> t;
                t.clear();
                t.multiply(h_.q + row * h_.d, h_.d, 1, keys_.data() + key * h_.d, W, h_.d);
                for (int r = 0; r < R; ++r)
                    for (int v = 0; v < NV; ++v) simd::store(P + r * tile_keys + key + v * L, t.acc[r][v] * h_.scale);
            });
        }
    }

    // The same without packed keys: inner products of as many keys as there are lanes at a time.
    template <int R>
    void few_scores(Index row, Index n, T* P) const {
        for (Index key = 0; key < n; key += L) {
            for (int r = 0; r < R; ++r) {
                const T* q = h_.q + (row + r) * h_.d;
                Vec sums[L] = {};
                const auto step = [&](auto&& load, Index e) __attribute__((always_inline)) {
                    const Vec x = load(q + e);
#pragma GCC unroll 16
                    for (Index i = 0; i < L; ++i)
                        sums[i] += x * load(h_.k + (key_ + std::min(key + i, n - 1)) * h_.d + e);
                };
                Index e = 0;
                for (; e + L <= h_.d; e += L) step([](const T* p) { return simd::load(p); }, e);
                if (e < h_.d) step([&](const T* p) { return simd::load_part(p, h_.d - e); }, e);
                simd::store(P + r * tile_keys + key, simd::sums<T>(sums) * h_.scale);
            }
        }
    }

    // Scores become weights e^{s - m} with the new maximum m, and join the sum l; returns what all before is multiplied
    // by.
    static T weigh(T* P, Index n, T& m, T& l) {
        const Index end = simd::padded<T>(n);
        std::fill(P + n, P + end, -std::numeric_limits<T>::infinity());
        Vec largest = simd::load(P);
        for (Index j = L; j < end; j += L) {
            const Vec s = simd::load(P + j);
            largest = largest < s ? s : largest;
        }
        const T before = m, highest = simd::maximum<T>(largest);
        if (m < highest) m = highest;
        const T shift = shift_of(m);
        Vec sum = {};
        for (Index j = 0; j < end; j += L) {
            const Vec p = simd::exp<T>(simd::load(P + j) - shift);
            sum += p;
            simd::store(P + j, p);
        }
        const T factor = m == before ? T(1) : std::exp(before - shift);
        l = l * factor + simd::sum<T>(sum);
        return factor;
    }

    // Columns at, at + 1, ... of the numerators.
    template <int R, int NV>
    void add(Index row, Index at, const T* P, const Index* limit, const T* factor) {
        simd::Tile<T, R, NV> t;
        T* O = O_.data() + at * rows_ + (row - from_) * W;
        for (int r = 0; r < R; ++r)
            for (int v = 0; v < NV; ++v) t.acc[r][v] = simd::load(O + r * W + v * L) * factor[r];
        const T* V = in_place_ ? h_.v + key_ * h_.dv + at : values_.data() + at * tile_keys;
        const Index stride = in_place_ ? h_.dv : W;
        t.multiply(P, tile_keys, 1, V, stride, limit[0]);
        for (Index j = limit[0]; j < limit[R - 1]; ++j) {  // the triangle at the end of what the rows attend to
            Vec value[NV];
            for (int v = 0; v < NV; ++v) value[v] = simd::load(V + j * stride + v * L);
#pragma GCC unroll 16
            for (int r = 1; r < R; ++r)
                if (j < limit[r])
                    for (int v = 0; v < NV; ++v) t.acc[r][v] += P[r * tile_keys + j] * value[v];
        }
        for (int r = 0; r < R; ++r)
            for (int v = 0; v < NV; ++v) simd::store(O + r * W + v * L, t.acc[r][v]);
    }

    const AttentionHead<T>& h_;
    Index from_, rows_;
    bool few_, in_place_;        // few_: keys are not packed; in_place_: values neither
    Buffer<T> keys_, values_;    // panels of [d, keys], [keys, dv]
    Buffer<T> O_;                // panels of [rows, dv]
    Buffer<T> m_, l_;            // [rows]
    Index key_ = 0, count_ = 0;  // the tile
};

// One more than the last key that any of the rows attends to.
template <class T>
Index last_key(const AttentionHead<T>& h, Index from, Index to) {
    if (!h.causal || from / h.N != (to - 1) / h.N) return h.M;
    return h.limit(to - 1);
}

}  // namespace

template <class T>
void online_softmax(const AttentionHead<T>& h, Index from, Index to, Index first, Index last, bool divide, T* O, T* m,
                    T* l) {
    Rows<T> rows(h, from, to);
    rows.run(first, std::min(last, last_key(h, from, to)));
    rows.write(O, m, l, divide);
}

template void online_softmax<float>(const AttentionHead<float>&, Index, Index, Index, Index, bool, float*, float*,
                                    float*);
template void online_softmax<double>(const AttentionHead<double>&, Index, Index, Index, Index, bool, double*, double*,
                                     double*);

}  // namespace causeway::kit
