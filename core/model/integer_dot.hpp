// Products of rows of weights of four bits in blocks of 32 (Q4_0, Q4_1) with one row of numbers that is rounded to 16
// bits, a scale for each 32 of them: within a block the sums are exact, of integers, and blocks are added in Float32. A
// number is off by at most 2^-16 of the largest of its 32. Weights are then only taken apart and multiplied, where
// Float32 needs a conversion of each, which takes longer than memory takes to give them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/model/dot.hpp"

namespace causeway::model {

// 32 numbers x as q · scale, eight to a vector; the scale is NaN where one of them is not finite.
struct RoundedBlock {
    Ints q[4];
    float scale;
    float sum;  // scale · Σ q
};

inline RoundedBlock round_block(const float* x) {
    constexpr float most = 32767, highest = std::numeric_limits<float>::max();
    constexpr float to_whole = 12582912;  // 1.5 · 2^23: what is added to it is rounded to whole numbers
    Floats sizes = {};
    Ints all_finite = ~Ints{};
    for (int k = 0; k < 4; ++k) {
        const Floats size = (Floats)((Ints)load_floats(x + lanes * k) & 0x7FFFFFFF);
        all_finite &= size <= highest;
        sizes = size > sizes ? size : sizes;
    }
    float largest = 0;
    bool finite = true;
    for (int l = 0; l < lanes; ++l) largest = std::max(largest, sizes[l]), finite &= all_finite[l] != 0;
    RoundedBlock out;
    out.scale = finite ? largest / most : std::numeric_limits<float>::quiet_NaN();
    // What is too small for its inverse counts as nothing, as does what has no scale.
    const bool nothing = !finite || largest < 1e-30f;
    const float inverse = nothing ? 0 : most / largest;
    Ints sum = {};
    for (int k = 0; k < 4; ++k) {
        const Floats moved = (nothing ? Floats{} : load_floats(x + lanes * k) * inverse) + to_whole;
        out.q[k] = (Ints)moved - (Ints)(Floats{} + to_whole);
        sum += out.q[k];
    }
    out.sum = out.scale * sum_of(to_floats(sum));
    return out;
}

inline void store_shorts(Ints v, std::int16_t* to) {
    typedef std::int16_t Shorts __attribute__((vector_size(16)));
    const Shorts narrow = __builtin_convertvector(v, Shorts);
    std::memcpy(to, &narrow, sizeof narrow);
}

// A row of x as these products want it.
struct Rounded {
    const std::int16_t* q;
    const float *scales, *sums;
};

// Two blocks at a time. Sixteen bits of weights hold weights 2l, 2l + 16, 2l + 1 and 2l + 17, four bits each, and x is
// arranged as four vectors of what these are multiplied with, l = 0 ... 7 of the first block and then of the second.
// Q4_0 is Q4_1 with the offset -8 d. `room` is bytes for a row of so many blocks of x, `arrange` fills them, `dot` is
// the product with a row of weights.
template <bool offset>
struct DotQ4 {
    static constexpr Index block = 32, bytes = offset ? 20 : 18;
    static constexpr Index room(Index blocks) { return (blocks + 1) / 2 * (64 * 2 + 8 * 4 + 4 * 4); }

    static Rounded arrange(const float* x, Index blocks, void* into) {
        const Index pairs = (blocks + 1) / 2;
        auto* const q = static_cast<std::int16_t*>(into);
        auto *const scales = reinterpret_cast<float*>(q + pairs * 64), *const sums = scales + pairs * 8;
        for (Index i = 0; i < 2 * pairs; ++i) {
            RoundedBlock b{};
            if (i < blocks) b = round_block(x + i * block);
            std::int16_t* const to = q + i / 2 * 64 + i % 2 * 8;
            for (int k = 0; k < 2; ++k) {
                const Ints first = b.q[2 * k], second = b.q[2 * k + 1];
                store_shorts(__builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14), to + 16 * k);
                store_shorts(__builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15), to + 16 * k + 32);
            }
            std::fill_n(scales + i * 4, 4, b.scale);
            // Each stands where the scale is that multiplies it.
            sums[2 * i] = offset ? 0.0f : -8.0f * b.sum;
            sums[2 * i + 1] = offset ? b.sum : 0.0f;
        }
        return {q, scales, sums};
    }

    static float dot(const unsigned char* p, Index blocks, const Rounded& x) {
        Partial to;
        Index i = 0;
        for (; i + 2 <= blocks; i += 2) {
            __builtin_prefetch(p + i * bytes + ahead);
            add<2>(p + i * bytes, x, i / 2, to);
        }
        if (i < blocks) add<1>(p + i * bytes, x, i / 2, to);
        return sum_of(to.sum) + ((to.offsets[0] + to.offsets[1]) + (to.offsets[2] + to.offsets[3]));
    }

private:
    typedef float Quad __attribute__((vector_size(16)));
    static constexpr Index data = bytes - 16;  // where the weights of a block begin

    // A product on its way: eight partial sums, and four of what offsets add.
    struct Partial {
        Floats sum = {};
        Quad offsets = {};
    };

    // Adds pair i of x with `count` blocks at p.
    template <int count>
    static void add(const unsigned char* p, const Rounded& x, Index i, Partial& to) {
        const Quad halves = scales_of<count>(p);
        const Floats wide = __builtin_shufflevector(halves, halves, 0, 0, 0, 0, 2, 2, 2, 2);
        const Floats scales = wide * load_floats(x.scales + 8 * i);
        to.sum += scales * to_floats(multiply<count>(p + data, x.q + 64 * i));
        to.offsets += halves * load_as<Quad>(x.sums + 4 * i);
    }

    // d and m (or 0) of a block and of the next (or 0).
    template <int count>
    static Quad scales_of(const unsigned char* p) {
        using Bits = std::conditional_t<offset, std::uint32_t, std::uint16_t>;
        const std::uint32_t first = load_as<Bits>(p), second = count > 1 ? load_as<Bits>(p + (count - 1) * bytes) : 0;
#if defined(__AVX2__) && defined(__F16C__)
        const __m128i both = _mm_insert_epi32(_mm_cvtsi32_si128(static_cast<int>(first)), static_cast<int>(second), 1);
        return (Quad)_mm_cvtph_ps(both);
#else
        unsigned char both[8];
        std::memcpy(both, &first, 4), std::memcpy(both + 4, &second, 4);
        return Quad{half_at(both), half_at(both + 2), half_at(both + 4), half_at(both + 6)};
#endif
    }

    // Σ of the products of each block: lanes 0 to 3 of the first, 4 to 7 of the second.
    template <int count>
    static Ints multiply(const unsigned char* w, const std::int16_t* q) {
#if defined(__AVX2__)
        __m256i v = _mm256_zextsi128_si256(load_as<__m128i>(w));
        if constexpr (count > 1) v = _mm256_inserti128_si256(v, load_as<__m128i>(w + bytes), 1);
        const __m256i low = _mm256_set1_epi16(15);
        const auto x = [&](int k) { return load_as<__m256i>(q + 16 * k); };
        const __m256i even = _mm256_add_epi32(_mm256_madd_epi16(_mm256_and_si256(v, low), x(0)),
                                              _mm256_madd_epi16(_mm256_and_si256(_mm256_srli_epi16(v, 4), low), x(1)));
        const __m256i odd = _mm256_add_epi32(_mm256_madd_epi16(_mm256_and_si256(_mm256_srli_epi16(v, 8), low), x(2)),
                                             _mm256_madd_epi16(_mm256_srli_epi16(v, 12), x(3)));
        return (Ints)_mm256_add_epi32(even, odd);
#else
        Ints sum = {};
        for (int b = 0; b < count; ++b)
            for (int l = 0; l < 8; ++l)
                for (int k = 0; k < 4; ++k)
                    sum[4 * b + l / 2] += (w[b * bytes + 2 * l + k / 2] >> 4 * (k % 2) & 15) * q[16 * k + 8 * b + l];
        return sum;
#endif
    }
};

}  // namespace causeway::model
