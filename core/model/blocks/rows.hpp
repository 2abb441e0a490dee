// Work on the rows of activations, [tokens, width].
#pragma once

#include <algorithm>

#include "core/kit/sigmoid.hpp"
#include "core/kit/spread.hpp"

namespace causeway::model {

// f(first, rows) over n rows of `width` numbers each, over the threads. Waking a thread takes about as long as 32768
// numbers do: what is less stays here in one piece, as does the one row of a token that is generated.
template <class F>
void over_rows(Index n, Index width, F&& f) {
    constexpr Index worth = 1 << 15;
    if (n * width <= worth) return f(Index(0), n);
    kit::each_block(n, f, std::max<Index>(worth / 4 / std::max<Index>(width, 1), 1));
}

inline simd::Vector<float> sigmoid(const simd::Vector<float>& x) { return simd::sigmoid<float>(x); }

// y_i = f(y_i, x_i) for n numbers, a vector at a time.
template <class F>
void each_vector(float* y, const float* x, Index n, F&& f) {
    constexpr Index L = simd::lanes<float>;
    Index i = 0;
    for (; i + L <= n; i += L) simd::store(y + i, f(simd::load(y + i), simd::load(x + i)));
    if (i < n) simd::store_part(y + i, f(simd::load_part(y + i, n - i), simd::load_part(x + i, n - i)), n - i);
}

}  // namespace causeway::model
