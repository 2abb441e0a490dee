// Products of rows of weights with one row of Float32 numbers: no unpacked weight is ever written down. Those of Q4_0
// and Q4_1 are in integer_dot.hpp.
//
// The four-bit weights of Q4_K and its like are not moved out of their bytes one by one. Sixteen bytes, put into both
// halves of a vector of eight integers and shifted by four bits in the upper half, have in byte c of lane l the weight
// of byte 4 (l mod 4) + c, the lower four bits in lanes 0 to 3 and the upper in lanes 4 to 7. Masked with 15·256^c the
// lanes are those weights times 256^c, and conversion to Float32 is exact; so is the factor 256^-c in x, which is
// arranged in the same order once for all rows. Three instructions (and, convert, multiply-add) serve eight weights.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>
#endif

#include "core/model/quantised.hpp"

namespace causeway::model {

// Vectors of eight lanes whatever the processor has: the compiler divides them where it has fewer.
typedef float Floats __attribute__((vector_size(32)));
typedef std::int32_t Ints __attribute__((vector_size(32)));
typedef std::uint32_t Unsigned __attribute__((vector_size(32)));
inline constexpr Index lanes = 8;

template <class V>
inline V load_as(const void* p) {
    V out;
    std::memcpy(&out, p, sizeof out);
    return out;
}
inline Floats load_floats(const float* p) { return load_as<Floats>(p); }
inline Floats to_floats(Ints v) { return __builtin_convertvector(v, Floats); }
inline float sum_of(Floats v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }

// What the compiler does not find by itself: eight numbers of 8 or 16 bits, widened; sixteen bytes twice; Float16.
#if defined(__AVX2__) && defined(__F16C__)
inline Ints chars_to_ints(const unsigned char* p) {
    return (Ints)_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
inline Ints shorts_to_ints(const unsigned char* p) { return (Ints)_mm256_cvtepu16_epi32(load_as<__m128i>(p)); }
inline Unsigned load_twice(const unsigned char* p) {
    return (Unsigned)_mm256_broadcastsi128_si256(load_as<__m128i>(p));
}
inline Floats halves_to_floats(const unsigned char* p) { return (Floats)_mm256_cvtph_ps(load_as<__m128i>(p)); }
inline float half_to_float(const unsigned char* p) {
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(load_as<std::uint16_t>(p))));
}
#else
inline Ints chars_to_ints(const unsigned char* p) {
    Ints out;
    for (Index i = 0; i < lanes; ++i) out[i] = static_cast<signed char>(p[i]);
    return out;
}
inline Ints shorts_to_ints(const unsigned char* p) {
    Ints out;
    for (Index i = 0; i < lanes; ++i) out[i] = load_as<std::uint16_t>(p + 2 * i);
    return out;
}
inline Unsigned load_twice(const unsigned char* p) {
    typedef std::uint32_t Half __attribute__((vector_size(16)));
    const Half h = load_as<Half>(p);
    return __builtin_shufflevector(h, h, 0, 1, 2, 3, 0, 1, 2, 3);
}
inline Floats halves_to_floats(const unsigned char* p) {
    Floats out;
    for (Index i = 0; i < lanes; ++i) out[i] = half_at(p + 2 * i);
    return out;
}
inline float half_to_float(const unsigned char* p) { return half_at(p); }
#endif

inline Floats brains_to_floats(const unsigned char* p) { return (Floats)(shorts_to_ints(p) << 16); }

// The sixteen bytes at p twice, the upper lanes shifted by four bits.
inline Ints nibbles(const unsigned char* p) { return (Ints)(load_twice(p) >> Unsigned{0, 0, 0, 0, 4, 4, 4, 4}); }

// Σ of the 32 weights in the bytes of v (of `mask` each) with the 32 arranged numbers at x, by lanes.
inline Floats dot_bytes(Ints v, std::int32_t mask, const float* x) {
    Floats sum = to_floats(v & mask) * load_floats(x);
    sum += to_floats(v & (mask << 8)) * load_floats(x + lanes);
    sum += to_floats(v & (mask << 16)) * load_floats(x + 2 * lanes);
    sum += to_floats(v & (mask << 24)) * load_floats(x + 3 * lanes);
    return sum;
}

inline Floats chars_to_floats(const unsigned char* p) { return to_floats(chars_to_ints(p)); }

// Low in lanes 0 to 3, high in lanes 4 to 7.
inline Floats two_scales(float low, float high) { return Floats{low, low, low, low, high, high, high, high}; }

// 32 numbers in the order of dot_bytes: `low` those of the lower bits, `high` of the upper, 16 each.
inline void arrange(const float* low, const float* high, float* out) {
    constexpr float factors[] = {1.0f, 0x1p-8f, 0x1p-16f, 0x1p-24f};
    for (int c = 0; c < 4; ++c) {
        for (int l = 0; l < 4; ++l) {
            out[8 * c + l] = low[4 * l + c] * factors[c];
            out[8 * c + 4 + l] = high[4 * l + c] * factors[c];
        }
    }
}

// The sum of n numbers, a multiple of eight.
inline float total(const float* x, Index n) {
    Floats sum = {};
    for (Index i = 0; i < n; i += lanes) sum += load_floats(x + i);
    return sum_of(sum);
}

// A row of x as the dot products with one type of weights want it.
struct Arranged {
    const float* x;     // in the order of the type
    const float* sums;  // of the numbers of each group: what multiplies the offset of the group
};

// Each format: `block` weights and `bytes` a block, how a block of x is arranged, `sums` numbers a block that stand for
// its sums, and `add`, which adds the product with a block.

struct DotQ8_0 {
    static constexpr Index block = 32, bytes = 34, sums = 0;
    static void arrange_block(const float* x, float* out, float*) { std::memcpy(out, x, block * sizeof(float)); }
    static void add(const unsigned char* p, const float* x, const float*, Floats& to) {
        Floats all = {};
        for (int c = 0; c < 4; ++c) all += to_floats(chars_to_ints(p + 2 + 8 * c)) * load_floats(x + 8 * c);
        to += half_to_float(p) * all;
    }
};

// Q4_K, and with the fifth bits Q5_K.
template <bool fifth>
struct DotQ45K {
    static constexpr Index block = 256, bytes = fifth ? 176 : 144, sums = 8;
    static void arrange_block(const float* x, float* out, float* sum) {
        for (int i = 0; i < 8; ++i) {
            sum[i] = total(x + 32 * i, 32);
            const float* low = x + 64 * (i / 2) + 16 * (i % 2);
            arrange(low, low + 32, out + 32 * i);
        }
    }
    static void add(const unsigned char* p, const float* x, const float* sum, Floats& to) {
        const unsigned char* q = p + (fifth ? 48 : 16);
        const GroupScales groups = group_scales(p + 4);
        float scales[8];
        const Floats wide = chars_to_floats(groups.scales);
        std::memcpy(scales, &wide, sizeof scales);
        Floats all = {};
#pragma GCC unroll 4
        for (int pair = 0; pair < 4; ++pair) {
            Floats part = {};
            for (int half = 0; half < 2; ++half) {
                Ints v = nibbles(q + 32 * pair + 16 * half);
                std::int32_t mask = 15;
                if constexpr (fifth) {
                    v = (v & 0x0F0F0F0F) | (fifths(p + 16 + 16 * half, 2 * pair) << 4);
                    mask = 31;
                }
                part += dot_bytes(v, mask, x + 64 * pair + 32 * half);
            }
            all += two_scales(scales[2 * pair], scales[2 * pair + 1]) * part;
        }
        to += half_to_float(p) * all - half_to_float(p + 2) * (chars_to_floats(groups.offsets) * load_floats(sum));
    }

private:
    // In each byte: bit k of the sixteen bytes at p in the lower lanes, bit k + 1 in the upper.
    static Ints fifths(const unsigned char* p, int k) {
        const std::uint32_t low = static_cast<std::uint32_t>(k), high = low + 1;
        return (Ints)(load_twice(p) >> Unsigned{low, low, low, low, high, high, high, high}) & 0x01010101;
    }
};

struct DotQ6K {
    static constexpr Index block = 256, bytes = 210, sums = 16;
    // Sixteen weights and those 64 further share bytes: low and high bits of `low`, bits 0-1 and 4-5 (or 2-3 and 6-7)
    // of the bytes that hold the upper two.
    static void arrange_block(const float* x, float* out, float* sum) {
        for (int i = 0; i < 16; ++i) sum[i] = total(x + 16 * i, 16);
        for (int i = 0; i < 8; ++i) {
            const float* low = x + 128 * (i / 4) + 16 * (i % 4);
            arrange(low, low + 64, out + 32 * i);
        }
    }
    static void add(const unsigned char* p, const float* x, const float* sum, Floats& to) {
        const Floats lower = chars_to_floats(p + 192), upper = chars_to_floats(p + 200);
        float scales[16];
        std::memcpy(scales, &lower, sizeof lower);
        std::memcpy(scales + 8, &upper, sizeof upper);
        Floats all = {};
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) {
            const int part = i / 4, pair = i % 4 / 2, half = i % 2;
            const Ints high = nibbles(p + 128 + 32 * part + 16 * half) >> (2 * pair) & 0x03030303;
            const Ints v = (nibbles(p + 64 * part + 16 * (i % 4)) & 0x0F0F0F0F) | high << 4;
            const int k = 8 * part + i % 4;
            all += two_scales(scales[k], scales[k + 4]) * dot_bytes(v, 63, x + 32 * i);
        }
        all -= 32.0f * (lower * load_floats(sum) + upper * load_floats(sum + 8));
        to += half_to_float(p + 208) * all;
    }
};

// Floating point, eight weights at a time; what is left of a row comes with load_rest.
struct DotF32 {
    static constexpr Index bytes = 4;
    static Floats load(const unsigned char* p) { return load_as<Floats>(p); }
    static float load_one(const unsigned char* p) { return load_as<float>(p); }
};
struct DotF16 {
    static constexpr Index bytes = 2;
    static Floats load(const unsigned char* p) { return halves_to_floats(p); }
    static float load_one(const unsigned char* p) { return half_to_float(p); }
};
struct DotBF16 {
    static constexpr Index bytes = 2;
    static Floats load(const unsigned char* p) { return brains_to_floats(p); }
    static float load_one(const unsigned char* p) {
        const unsigned char wide[] = {0, 0, p[0], p[1]};
        return load_as<float>(wide);
    }
};

template <class Format>
concept Quantised = requires {
    Format::block;
};
template <class Format>
concept Integer = requires {
    Format::room(1);
};

// Bytes ahead of the weights in use that are asked for: the processor's own prefetching ends with each page, which
// costs a tenth to a fifth of the rate.
constexpr Index ahead = 2048;

// One row of weights with x.
template <Quantised Format>
inline float dot(const unsigned char* p, Index columns, const Arranged& x) {
    Floats to = {};
    const Index blocks = columns / Format::block;
    for (Index i = 0; i < blocks; ++i) {
        for (Index k = 0; k < Format::bytes; k += 64) __builtin_prefetch(p + i * Format::bytes + ahead + k);
        Format::add(p + i * Format::bytes, x.x + i * Format::block, x.sums + i * Format::sums, to);
    }
    return sum_of(to);
}

template <class Format>
inline float dot(const unsigned char* p, Index columns, const Arranged& x) {
    Floats sum[4] = {};
    Index j = 0;
    for (; j + 4 * lanes <= columns; j += 4 * lanes) {
        for (Index k = 0; k < 4; k += 2) __builtin_prefetch(p + (j + k * lanes) * Format::bytes + ahead);
        for (Index k = 0; k < 4; ++k)
            sum[k] += Format::load(p + (j + k * lanes) * Format::bytes) * load_floats(x.x + j + k * lanes);
    }
    for (; j + lanes <= columns; j += lanes) sum[0] += Format::load(p + j * Format::bytes) * load_floats(x.x + j);
    float rest = 0;
    for (; j < columns; ++j) rest += Format::load_one(p + j * Format::bytes) * x.x[j];
    return sum_of((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest;
}

}  // namespace causeway::model
