#include "core/tensor/random.hpp"

#include <Random123/philox.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <exception>
#include <numeric>
#include <random>
#include <type_traits>

#include "core/base/interrupt.hpp"
#include "core/base/parallel.hpp"
#include "core/tensor/visit.hpp"

namespace causeway::random {
namespace {

__extension__ typedef unsigned __int128 uint128;

struct State {
    std::atomic<std::uint64_t> seed{std::random_device{}()};
    std::atomic<std::uint64_t> calls{0};
};

State& state() {
    static State one;
    return one;
}

// The random words of one call.
class Stream {
public:
    Stream() : seed_(state().seed.load()), call_(state().calls.fetch_add(1)) {}

    // Apart from all calls: their number never reaches the upper half.
    Stream(std::uint64_t seed, std::uint64_t stream) : seed_(seed), call_(stream | std::uint64_t{1} << 63) {}

    // Words 4i to 4i + 3.
    std::array<std::uint32_t, 4> words(Index i) const {
        const auto position = static_cast<std::uint64_t>(i);
        const r123::Philox4x32::ctr_type counter{{low(position), high(position), low(call_), high(call_)}};
        const r123::Philox4x32::key_type key{{low(seed_), high(seed_)}};
        const auto out = r123::Philox4x32()(counter, key);
        return {out[0], out[1], out[2], out[3]};
    }

    // Words 2i and 2i + 1 of 64 bits.
    std::array<std::uint64_t, 2> long_words(Index i) const {
        const auto w = words(i);
        return {w[0] | std::uint64_t{w[1]} << 32, w[2] | std::uint64_t{w[3]} << 32};
    }

private:
    static std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
    static std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

    std::uint64_t seed_, call_;
};

double uniform_of(std::uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }

// Points in the middle of 2^52 cells, never 0 or 1 and exact.
double normal_of(std::uint64_t word) { return normal_quantile((static_cast<double>(word >> 12) + 0.5) * 0x1p-52); }

// x[i] = convert(word i). The words of a block of Philox serve Block neighbouring elements.
template <std::size_t Block, class T, class Words, class Convert>
void fill(T* x, Index n, Words words, Convert convert) {
    constexpr auto block = static_cast<Index>(Block);
    constexpr Index piece = 1 << 12;  // blocks
    const Index blocks = (n + block - 1) / block;
    parallel_for((blocks + piece - 1) / piece, [&](Index p) {
        for (Index b = p * piece; b < std::min(blocks, (p + 1) * piece); ++b) {
            const auto w = words(b);
            for (Index j = 0; j < std::min(block, n - b * block); ++j)
                x[b * block + j] = static_cast<T>(convert(w[static_cast<std::size_t>(j)]));
        }
    });
}

// A tensor from a function on 32-bit words for Float32 and narrower, on 64-bit words for Float64.
template <class Narrow, class Wide>
Tensor generate(DType type, const Shape& shape, Narrow narrow, Wide wide) {
    const Retaken if_it_fails;
    Tensor out(type, shape);
    const Stream stream;
    visit(type, [&](auto zero) {
        using T = decltype(zero);
        if constexpr (std::is_same_v<T, double>) {
            fill<2>(
                out.data<T>(), out.size(), [&](Index b) { return stream.long_words(b); }, wide);
        } else {
            fill<4>(
                out.data<T>(), out.size(), [&](Index b) { return stream.words(b); }, narrow);
        }
    });
    return out;
}

// Bits of precision of the type.
int digits(DType type) {
    switch (type) {
        case DType::f64: return 53;
        case DType::f16: return 11;
        case DType::bf16: return 8;
        default: return 24;
    }
}

// Natural logarithm of a normal positive number, relative error below 1e-15, from + - * / alone: the log of the C
// library rounds differently from machine to machine. x = m 2^e with m in [1/sqrt 2, sqrt 2); log m = 2 atanh s.
double logarithm(double x) {
    constexpr double ln2 = 0.69314718055994530942, sqrt2 = 1.41421356237309504880;
    const auto bits = std::bit_cast<std::uint64_t>(x);
    int e = static_cast<int>(bits >> 52) - 1023;
    double m = std::bit_cast<double>((bits & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1023} << 52);
    if (m > sqrt2) {
        m *= 0.5;
        ++e;
    }
    const double s = (m - 1) / (m + 1), z = s * s;  // |s| < 0.172
    double series = 0;
    for (int k = 23; k >= 1; k -= 2) series = series * z + 1.0 / k;
    return e * ln2 + 2 * s * series;
}

template <std::size_t N>
double polynomial(const double (&c)[N], double x) {
    double value = c[N - 1];
    for (std::size_t i = N - 1; i-- > 0;) value = value * x + c[i];
    return value;
}

}  // namespace

void set_seed(std::uint64_t seed) {
    state().seed.store(seed);
    state().calls.store(0);
}

std::uint64_t seed() { return state().seed.load(); }

Retaken::Retaken() noexcept : calls_(state().calls.load()), exceptions_(std::uncaught_exceptions()) {}

Retaken::~Retaken() {
    if (std::uncaught_exceptions() > exceptions_) state().calls.store(calls_);
}

double normal_quantile(double p) noexcept {
    // Wichura, "Algorithm AS 241: the percentage points of the normal distribution", 1988, routine PPND16.
    static constexpr double a[] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                                   1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                                   3.3430575583588128105e4, 2.5090809287301226727e3};
    static constexpr double b[] = {1.0,
                                   4.2313330701600911252e1,
                                   6.8718700749205790830e2,
                                   5.3941960214247511077e3,
                                   2.1213794301586595867e4,
                                   3.9307895800092710610e4,
                                   2.8729085735721942674e4,
                                   5.2264952788528545610e3};
    static constexpr double c[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                                   3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                                   2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static constexpr double d[] = {1.0,
                                   2.05319162663775882187e0,
                                   1.67638483018380384940e0,
                                   6.89767334985100004550e-1,
                                   1.48103976427480074590e-1,
                                   1.51986665636164571966e-2,
                                   5.47593808499534494600e-4,
                                   1.05075007164441684324e-9};
    static constexpr double e[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                                   2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                   2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static constexpr double f[] = {1.0,
                                   5.99832206555887937690e-1,
                                   1.36929880922735805310e-1,
                                   1.48753612908506148525e-2,
                                   7.86869131145613259100e-4,
                                   1.84631831751005468180e-5,
                                   1.42151175831644588870e-7,
                                   2.04426310338993978564e-15};
    const double q = p - 0.5;
    if (std::abs(q) <= 0.425) {
        const double r = 0.180625 - q * q;
        return q * polynomial(a, r) / polynomial(b, r);
    }
    const double r = std::sqrt(-logarithm(q < 0 ? p : 1 - p));
    const double tail =
        r <= 5 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6) : polynomial(e, r - 5) / polynomial(f, r - 5);
    return q < 0 ? -tail : tail;
}

Tensor uniform(DType type, const Shape& shape) {
    const int bits = digits(type);
    const double grid = std::ldexp(1.0, -bits);
    return generate(
        type, shape, [=](std::uint32_t w) { return static_cast<float>((w >> (32 - bits)) * grid); }, uniform_of);
}

Tensor normal(DType type, const Shape& shape) {
    // Points in the middle of 2^32 cells for the narrow types.
    return generate(
        type, shape, [](std::uint32_t w) { return static_cast<float>(normal_quantile((w + 0.5) * 0x1p-32)); },
        normal_of);
}

void uniforms(std::uint64_t seed, std::uint64_t stream, double* x, Index n) {
    const Stream source(seed, stream);
    fill<2>(
        x, n, [&](Index b) { return source.long_words(b); }, uniform_of);
}

void normals(std::uint64_t seed, std::uint64_t stream, double* x, Index n) {
    const Stream source(seed, stream);
    fill<2>(
        x, n, [&](Index b) { return source.long_words(b); }, normal_of);
}

Tensor permutation(Index n) {
    if (n < 0) fail("randperm: n: ", n, ", expected 0 or more");
    const Retaken if_it_fails;
    Tensor out(n <= Index{1} << 24 ? DType::f32 : DType::f64, Shape{n});
    const Stream stream;
    visit(out.dtype(), [&](auto zero) {
        auto* x = out.data<decltype(zero)>();
        std::iota(x, x + n, decltype(zero)(1));
        // Fisher and Yates: a position at or below i, as the high part of word * (i + 1); its bias is below n / 2^64.
        for (Index i = n - 1; i > 0; --i) {
            if (i % (Index{1} << 20) == 0) interrupt::check();
            const std::uint64_t word = stream.long_words(i / 2)[static_cast<std::size_t>(i % 2)];
            const auto j = static_cast<Index>((static_cast<uint128>(word) * static_cast<std::uint64_t>(i + 1)) >> 64);
            std::swap(x[i], x[j]);
        }
    });
    return out;
}

}  // namespace causeway::random
