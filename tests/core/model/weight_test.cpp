#include "core/model/weight.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/catch.hpp"

using namespace causeway;
using namespace causeway::model;

namespace {

// The formats once more, from their description and one weight at a time, in Float64.

double half_value(const unsigned char* p) {
    const int bits = p[0] | p[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31)
        return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
    return sign * (exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24));
}

int bits_of(const unsigned char* p, int first, int count) {
    int out = 0;
    for (int b = 0; b < count; ++b) out |= (p[(first + b) / 8] >> (first + b) % 8 & 1) << b;
    return out;
}

// The k-th of the 8 scales (or offsets) of 6 bits: the first four lie in the low bits of their byte, the others have
// four bits in the last four bytes and their upper two in the high bits of the first (or second) four.
int six_bits(const unsigned char* s, int k, bool offset) {
    const int byte = offset ? 4 : 0;
    if (k < 4) return bits_of(s, 8 * (byte + k), 6);
    return bits_of(s, 8 * (8 + k - 4) + (offset ? 4 : 0), 4) + 16 * bits_of(s, 8 * (byte + k - 4) + 6, 2);
}

// Weight i of a block.
double weight(WeightType type, const unsigned char* p, int i) {
    const int low_half = i % 32 < 16;
    switch (type) {
        case WeightType::f32: {
            float value;
            std::memcpy(&value, p, sizeof value);
            return static_cast<double>(value);
        }
        case WeightType::f16: return half_value(p);
        case WeightType::bf16: {
            const std::uint32_t bits = static_cast<std::uint32_t>(p[0] | p[1] << 8) << 16;
            float value;
            std::memcpy(&value, &bits, sizeof value);
            return static_cast<double>(value);
        }
        case WeightType::q8_0: return half_value(p) * (p[2 + i] < 128 ? p[2 + i] : p[2 + i] - 256);
        case WeightType::q4_0: return half_value(p) * (bits_of(p + 2 + i % 16, low_half ? 0 : 4, 4) - 8);
        case WeightType::q4_1: return half_value(p) * bits_of(p + 4 + i % 16, low_half ? 0 : 4, 4) + half_value(p + 2);
        case WeightType::q4_k:
        case WeightType::q5_k: {
            const bool five = type == WeightType::q5_k;
            const int k = i / 32;
            int q = bits_of(p + (five ? 48 : 16) + i / 64 * 32 + i % 32, k % 2 * 4, 4);
            if (five) q += 16 * bits_of(p + 16 + i % 32, k, 1);
            return half_value(p) * six_bits(p + 4, k, false) * q - half_value(p + 2) * six_bits(p + 4, k, true);
        }
        case WeightType::q6_k: {
            const int half = i / 128, j = i % 128;
            const int low = bits_of(p + 64 * half + j % 64, j < 64 ? 0 : 4, 4);
            const int high = bits_of(p + 128 + 32 * half + j % 32, 2 * (j / 32), 2);
            const int scale = p[192 + i / 16] < 128 ? p[192 + i / 16] : p[192 + i / 16] - 256;
            return half_value(p + 208) * scale * (low + 16 * high - 32);
        }
    }
    return 0;
}

// Random blocks, a row of which begins at an odd address.
struct RandomWeight {
    std::vector<unsigned char> bytes;
    Weight w;

    // `any`: all patterns of bits, Inf and NaN among the scales; otherwise scales of usual size.
    RandomWeight(WeightType type, Index rows, Index columns, bool any, unsigned seed) {
        w = {type, rows, columns, nullptr};
        bytes.resize(w.bytes() + 1);
        std::mt19937 random(seed);
        for (auto& b : bytes) b = static_cast<unsigned char>(random());
        w.data = bytes.data() + 1;
        for (std::size_t at = 1; !any && at < bytes.size(); at += static_cast<std::size_t>(bytes_of_block(type)))
            make_usual(type, bytes.data() + at);
    }

    static void make_usual(WeightType type, unsigned char* p) {
        // The upper byte of a Float16 that is about 0.01 with the sign it has; of Float32 and BFloat16 likewise.
        const auto tame = [](unsigned char& b, int value) { b = static_cast<unsigned char>((b & 0x80) | value); };
        switch (type) {
            case WeightType::f32: return tame(p[3], 0x3C);
            case WeightType::f16: return tame(p[1], 0x20);
            case WeightType::bf16: return tame(p[1], 0x3C);
            case WeightType::q6_k: return tame(p[209], 0x20);
            case WeightType::q8_0:
            case WeightType::q4_0: return tame(p[1], 0x20);
            default: tame(p[1], 0x20), tame(p[3], 0x20);
        }
    }

    double operator()(Index i, Index j) const {
        const Index block = weights_in_block(w.type);
        return weight(w.type, w.row(i) + j / block * bytes_of_block(w.type), static_cast<int>(j % block));
    }
};

std::vector<float> random_numbers(Index n, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<float> out(static_cast<std::size_t>(n));
    for (auto& x : out) x = static_cast<float>(random()) * 0x1p-31f - 1.0f;
    return out;
}

}  // namespace

TEST_CASE("every type of weights is unpacked as its format says, whatever the bits", "[model][weight]") {
    for (const WeightType type : all_weight_types) {
        INFO(name(type));
        const RandomWeight m(type, 200, 512, true, 1);
        std::vector<float> row(512);
        int finite = 0;
        for (Index i = 0; i < m.w.rows; ++i) {
            read_row(m.w, i, row.data());
            for (Index j = 0; j < m.w.columns; ++j) {
                const double expected = m(i, j);
                const auto got = static_cast<double>(row[static_cast<std::size_t>(j)]);
                if (std::isnan(expected)) {
                    CHECK(std::isnan(got));
                } else if (std::isinf(expected) || std::abs(expected) > 3e38) {
                    CHECK((got == expected || std::abs(expected) > 3e38));
                } else {
                    ++finite;
                    // Products of a scale and whole numbers are exact up to two roundings; an offset adds one, of what
                    // may cancel.
                    const Index block = weights_in_block(type);
                    const unsigned char* p = m.w.row(i) + j / block * bytes_of_block(type);
                    const bool offset =
                        type == WeightType::q4_1 || type == WeightType::q4_k || type == WeightType::q5_k;
                    const double size = std::abs(expected) + (offset ? 2 * std::abs(half_value(p + 2)) * 63 : 0);
                    if (std::abs(got - expected) > 3 * 0x1p-24 * size) FAIL(got << " is not " << expected);
                }
            }
        }
        CHECK(finite > 1000);
    }
}

TEST_CASE("products with weights agree with Float64", "[model][weight]") {
    for (const WeightType type : all_weight_types) {
        for (const Index rows : {1, 3, 70}) {
            for (const Index blocks : {1, 2, 5}) {
                // Floating point has no blocks: awkward widths.
                const Index columns = weights_in_block(type) > 1 ? blocks * weights_in_block(type) : 37 * blocks;
                const RandomWeight m(type, rows, columns, false, static_cast<unsigned>(rows + blocks));
                for (const Index n : {1, 2, 3, 5, 8, 9, 40}) {
                    INFO(name(type) << ' ' << rows << "×" << columns << " n " << n);
                    const Index x_stride = columns + 3, y_stride = rows + 2;
                    const auto x = random_numbers(n * x_stride, 7);
                    std::vector<float> y(static_cast<std::size_t>(n * y_stride), -1.0f);
                    multiply(m.w, x.data(), n, x_stride, y.data(), y_stride);
                    for (Index t = 0; t < n; ++t) {
                        for (Index i = 0; i < rows; ++i) {
                            double expected = 0, size = 0, rounding = 0;
                            for (Index j = 0; j < columns; ++j) {
                                const double term =
                                    static_cast<double>(x[static_cast<std::size_t>(t * x_stride + j)]) * m(i, j);
                                expected += term;
                                size += std::abs(term);
                                // Numbers of x up to 1 in size are off by 2^-16 where they are rounded.
                                if (n <= 6 && (type == WeightType::q4_0 || type == WeightType::q4_1))
                                    rounding += 0x1p-16 * std::abs(m(i, j));
                            }
                            const auto got = static_cast<double>(y[static_cast<std::size_t>(t * y_stride + i)]);
                            if (!(std::abs(got - expected) <= 1e-5 * size + rounding + 1e-6))
                                FAIL(got << " is not " << expected);
                        }
                        for (Index i = rows; i < y_stride; ++i)
                            CHECK(y[static_cast<std::size_t>(t * y_stride + i)] == -1.0f);
                    }
                }
            }
        }
    }
}
