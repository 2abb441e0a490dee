#include "gpu/tensor/elementwise.hpp"

#include "gpu/base/error.hpp"
#include "gpu/base/wait.hpp"
#include "gpu/kit/each.cuh"
#include "gpu/kit/element.cuh"

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

struct Fill {
    float *x, value;
    __device__ void operator()(std::int64_t i) const { x[i] = value; }
};

struct FirstAboveZero {
    const float* x;
    unsigned long long* first;
    __device__ void operator()(std::int64_t i) const {
        if (!(x[i] <= 0.0f)) atomicMin(first, static_cast<unsigned long long>(i));
    }
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

void fill(float* x, std::int64_t n, float value, cudaStream_t stream) {
    run_each("filling a tensor", n, stream, Fill{x, value});
}

std::int64_t first_above_zero(const float* x, std::int64_t n, std::int64_t* first, cudaStream_t stream) {
    check(cudaMemcpyAsync(first, &n, sizeof n, cudaMemcpyHostToDevice, stream), "checking gates");
    run_each("checking gates", n, stream, FirstAboveZero{x, reinterpret_cast<unsigned long long*>(first)});
    std::int64_t found = n;
    wait_for(stream, "checking gates");
    check(cudaMemcpyAsync(&found, first, sizeof found, cudaMemcpyDeviceToHost, stream), "checking gates");
    check(cudaStreamSynchronize(stream), "checking gates");
    return found;
}

}  // namespace causeway::gpu
