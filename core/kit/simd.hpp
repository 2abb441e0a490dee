// Vectors of the width the program is built for, and a register tile of a matrix product on them.
#pragma once

#include <cstring>
#include <utility>

#include "core/base/memory.hpp"  // Index

namespace causeway::simd {

// Of a vector register.
#if defined(__AVX512F__)
inline constexpr int bytes = 64;
#elif defined(__AVX__)
inline constexpr int bytes = 32;
#else
inline constexpr int bytes = 16;
#endif

// Elements of a vector.
template <class T>
inline constexpr int lanes = bytes / static_cast<int>(sizeof(T));

template <class T>
struct VectorOf {
    typedef T type __attribute__((vector_size(bytes)));
};
template <class T>
using Vector = typename VectorOf<T>::type;

// All lanes from and to memory, of any alignment.
template <class T>
inline Vector<T> load(const T* p) {
    Vector<T> v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

template <class T>
inline void store(T* p, const Vector<T>& v) {
    std::memcpy(p, &v, sizeof v);
}

// The first n elements (n may be <= 0 or more than there are lanes), zeros after them; and their store.
template <class T>
inline Vector<T> load_part(const T* p, Index n) {
    Vector<T> v = {};
    if (n > 0) std::memcpy(&v, p, sizeof(T) * static_cast<std::size_t>(n < lanes<T> ? n : lanes<T>));
    return v;
}

template <class T>
inline void store_part(T* p, const Vector<T>& v, Index n) {
    if (n > 0) std::memcpy(p, &v, sizeof(T) * static_cast<std::size_t>(n < lanes<T> ? n : lanes<T>));
}

// Of all lanes, by halves.
template <class T>
inline T sum(const Vector<T>& v) {
    T x[lanes<T>];
    std::memcpy(x, &v, sizeof v);
#pragma GCC unroll 4
    for (int half = lanes<T> / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) x[i] += x[i + half];
    return x[0];
}

// Smallest multiple of the vector length that holds n elements.
template <class T>
inline Index padded(Index n) {
    return (n + lanes<T> - 1) / lanes<T> * lanes<T>;
}

// Transposes the square a[lanes][lanes] in place: swaps the off-diagonal quarters of squares of 2, 4, ... lanes.
template <class T, int half, std::size_t... lane>
inline __attribute__((always_inline)) void transpose_step(Vector<T>* a, std::index_sequence<lane...>) {
    constexpr int n = lanes<T>;
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) {
        if (i & half) continue;
        const Vector<T> x = a[i], y = a[i + half];
        a[i] = __builtin_shufflevector(
            x, y, (static_cast<int>(lane) & half ? n + static_cast<int>(lane) - half : static_cast<int>(lane))...);
        a[i + half] = __builtin_shufflevector(
            x, y, (static_cast<int>(lane) & half ? n + static_cast<int>(lane) : static_cast<int>(lane) + half)...);
    }
}

// The whole of it, from squares of 2 half lanes on.
template <class T, int half = 1>
inline __attribute__((always_inline)) void transpose(Vector<T>* a) {
    transpose_step<T, half>(a, std::make_index_sequence<static_cast<std::size_t>(lanes<T>)>{});
    if constexpr (2 * half < lanes<T>) transpose<T, 2 * half>(a);
}

// One step of sums(): of 2 half vectors that hold partial sums in segments of 2 half lanes, half vectors with segments
// of half.
template <class T, int half, std::size_t... lane>
inline __attribute__((always_inline)) void sums_step(Vector<T>* a, std::index_sequence<lane...>) {
    constexpr int n = lanes<T>;
#pragma GCC unroll 16
    for (int i = 0; i < half; ++i) {
        const Vector<T> x = a[i], y = a[i + half];
        a[i] =
            __builtin_shufflevector(
                x, y, (static_cast<int>(lane) & half ? n + static_cast<int>(lane) - half : static_cast<int>(lane))...) +
            __builtin_shufflevector(
                x, y, (static_cast<int>(lane) & half ? n + static_cast<int>(lane) : static_cast<int>(lane) + half)...);
    }
}

// Lane i: the sum of the lanes of a[i], i < lanes. Overwrites a.
template <class T, int half = lanes<T> / 2>
inline __attribute__((always_inline)) Vector<T> sums(Vector<T>* a) {
    sums_step<T, half>(a, std::make_index_sequence<static_cast<std::size_t>(lanes<T>)>{});
    if constexpr (half > 1) return sums<T, half / 2>(a);
    else return a[0];
}

// MR rows by NV vectors of an output, held in registers while a product runs through its inner dimension.
template <class T, int MR, int NV>
struct Tile {
    Vector<T> acc[MR][NV];

    inline __attribute__((always_inline)) void clear() {
        for (auto& row : acc)
            for (auto& v : row) v = Vector<T>{};
    }

    // acc += A X for k < K: A(m, k) = a[m * a_row + k * a_col], X row k at x + k * x_row.
    inline __attribute__((always_inline)) void multiply(const T* a, Index a_row, Index a_col, const T* x, Index x_row,
                                                        Index K) {
        for (Index k = 0; k < K; ++k) {
            Vector<T> xv[NV];
#pragma GCC unroll 8
            for (int v = 0; v < NV; ++v) xv[v] = load(x + k * x_row + v * lanes<T>);
#pragma GCC unroll 16
            for (int m = 0; m < MR; ++m) {
                const T am = a[m * a_row + k * a_col];
#pragma GCC unroll 8
                for (int v = 0; v < NV; ++v) acc[m][v] += am * xv[v];
            }
        }
    }
};

}  // namespace causeway::simd
