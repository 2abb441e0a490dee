#include "gpu/tensor/elementwise.hpp"

#include "gpu/base/error.hpp"
#include "gpu/kit/each.cuh"
#include "gpu/kit/element.cuh"
#include "gpu/kit/finite.cuh"
#include "gpu/kit/first.cuh"

namespace causeway::gpu {

namespace {

template <class A, class B>
struct Convert {
    const A* from;
    B* to;
    __device__ void operator()(std::int64_t i) const { to[i] = static_cast<B>(static_cast<float>(from[i])); }
};

template <class E>
struct ScaleBy {
    E* x;
    float factor;
    __device__ void operator()(std::int64_t i) const { x[i] = static_cast<E>(static_cast<float>(x[i]) * factor); }
};

template <class E>
struct ScaleRows {
    E* x;
    std::int64_t H, N, width;
    Strides s;
    float factor;
    __device__ void operator()(std::int64_t i) const {
        const std::int64_t column = i % width, row = i / width, t = row % N, h = row / N % H, b = row / N / H;
        E& at = x[b * s.batch + h * s.head + t * s.token + column];
        at = static_cast<E>(static_cast<float>(at) * factor);
    }
};

struct Fill {
    float *x, value;
    __device__ void operator()(std::int64_t i) const { x[i] = value; }
};

struct IsAboveZero {
    const float* x;
    __device__ bool operator()(std::int64_t i) const { return !(x[i] <= 0.0f); }
};

struct IsNotFinite {
    const float* x;
    __device__ bool operator()(std::int64_t i) const { return !is_finite(x[i]); }
};

}  // namespace

void convert(const void* from, Type from_type, void* to, Type to_type, std::int64_t n, cudaStream_t stream) {
    visit(from_type, [&](auto a) {
        visit(to_type, [&](auto b) {
            using A = decltype(a);
            using B = decltype(b);
            run_each("converting elements", n, stream, Convert<A, B>{static_cast<const A*>(from), static_cast<B*>(to)});
        });
    });
}

void scale_by(void* x, Type type, std::int64_t n, float factor, cudaStream_t stream) {
    visit(type, [&](auto e) {
        using E = decltype(e);
        run_each("scaling elements", n, stream, ScaleBy<E>{static_cast<E*>(x), factor});
    });
}

void scale_rows(void* x, Type type, std::int64_t B, std::int64_t H, std::int64_t N, std::int64_t width, Strides s,
                float factor, cudaStream_t stream) {
    if (s.token == width && (H == 1 || s.head == N * width) && (B == 1 || s.batch == H * N * width))
        return scale_by(x, type, B * H * N * width, factor, stream);
    visit(type, [&](auto e) {
        using E = decltype(e);
        run_each("scaling rows", B * H * N * width, stream, ScaleRows<E>{static_cast<E*>(x), H, N, width, s, factor});
    });
}

void fill(float* x, std::int64_t n, float value, cudaStream_t stream) {
    run_each("filling a tensor", n, stream, Fill{x, value});
}

std::int64_t first_above_zero(const float* x, std::int64_t n, std::int64_t* first, cudaStream_t stream) {
    return first_that("checking gates", n, first, stream, IsAboveZero{x});
}

std::int64_t first_not_finite(const float* x, std::int64_t n, std::int64_t* first, cudaStream_t stream) {
    return first_that("looking for NaN and Inf", n, first, stream, IsNotFinite{x});
}

}  // namespace causeway::gpu
