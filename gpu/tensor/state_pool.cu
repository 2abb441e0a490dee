#include "gpu/tensor/state_pool.hpp"

#include <cfloat>
#include <cstdint>

#include "core/kit/pool.hpp"
#include "gpu/base/error.hpp"
#include "gpu/tensor/places.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;

constexpr unsigned threads = 256;
constexpr float most = 127.0f;

// Of all heads of a pool.
struct Stored {
    std::int8_t* codes;
    float* scales;
    int64_t heads, size;  // of a slot; entries of a head

    // Head i of the states of these slots.
    __device__ __forceinline__ int64_t place(const int64_t* slots, int64_t i) const {
        return slots[i / heads] * heads + i % heads;
    }
};

__global__ void fill_scales(float* scales, int64_t n) {
    const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x;
    if (i < n) scales[i] = FLT_MIN;
}

// A thread block a head.
__global__ void decode_states(Stored pool, const int64_t* slots, float* states) {
    const int64_t place = pool.place(slots, blockIdx.x);
    const float scale = pool.scales[place];
    const std::int8_t* codes = pool.codes + place * pool.size;
    float* x = states + int64_t{blockIdx.x} * pool.size;
    for (int64_t e = threadIdx.x; e < pool.size; e += threads) x[e] = static_cast<float>(codes[e]) * scale;
}

__global__ void encode_states(Stored pool, const int64_t* slots, const float* states) {
    const int64_t place = pool.place(slots, blockIdx.x);
    const float* x = states + int64_t{blockIdx.x} * pool.size;
    float largest = 0;
    bool finite = true;
    for (int64_t e = threadIdx.x; e < pool.size; e += threads)
        finite = finite && isfinite(x[e]), largest = fmaxf(largest, fabsf(x[e]));
    finite = __syncthreads_and(finite) != 0;
    __shared__ float of_warp[threads / 32];
    for (int other = 16; other > 0; other /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, other));
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = largest;
    __syncthreads();
    for (const float of_one : of_warp) largest = fmaxf(largest, of_one);
    // Never so small that dividing by it loses anything, and never so large that the largest code overflows.
    float scale = fmaxf(__fdiv_rn(largest, most), FLT_MIN);
    if (!isfinite(scale * most)) scale = nextafterf(scale, 0.0f);
    if (threadIdx.x == 0) pool.scales[place] = finite ? scale : nanf("");
    std::int8_t* codes = pool.codes + place * pool.size;
    for (int64_t e = threadIdx.x; e < pool.size; e += threads)
        codes[e] = finite ? static_cast<std::int8_t>(fminf(fmaxf(rintf(__fdiv_rn(x[e], scale)), -most), most))
                          : std::int8_t{0};
}

}  // namespace

StatePool::StatePool(Index slots, Index heads, Index dk, Index dv, cudaStream_t stream)
    : shape_{slots, heads, dk, dv},
      codes_(static_cast<std::size_t>(shape_.size()), stream),
      scales_(static_cast<std::size_t>(slots * heads) * sizeof(float), stream) {
    if (codes_.bytes() > 0) check(cudaMemsetAsync(codes_.data(), 0, codes_.bytes(), stream), "clearing a pool");
    if (slots * heads == 0) return;
    fill_scales<<<static_cast<unsigned>((slots * heads + threads - 1) / threads), threads, 0, stream>>>(
        scales_.as<float>(), slots * heads);
    check_launch("clearing a pool");
}

std::size_t StatePool::bytes() const { return codes_.bytes() + scales_.bytes(); }

Tensor StatePool::states(const std::vector<Index>& slots, cudaStream_t stream) const {
    const auto count = static_cast<Index>(slots.size());
    kit::check_slots(slots, count, causeway::Tensor::shaped(DType::f32, shape_), false);
    Tensor out(DType::f32, {count, shape_[1], shape_[2], shape_[3]}, stream);
    if (out.size() == 0) return out;
    const Buffer places = on_device(slots, stream);
    decode_states<<<static_cast<unsigned>(count * shape_[1]), threads, 0, stream>>>(
        {codes_.as<std::int8_t>(), scales_.as<float>(), shape_[1], shape_[2] * shape_[3]}, places.as<int64_t>(),
        out.as<float>());
    check_launch("taking states out of a pool");
    return out;
}

void StatePool::put(const Tensor& states, const std::vector<Index>& slots, cudaStream_t stream) {
    Shape want = shape_;
    want[0] = static_cast<Index>(slots.size());
    if (states.shape() != want) fail("states: ", states.shape().text(), ", expected ", want.text());
    kit::check_slots(slots, want[0], causeway::Tensor::shaped(DType::f32, shape_), true);
    if (states.size() == 0) return;
    const Tensor given = states.to(DType::f32, stream);
    const Buffer places = on_device(slots, stream);
    encode_states<<<static_cast<unsigned>(want[0] * shape_[1]), threads, 0, stream>>>(
        {codes_.as<std::int8_t>(), scales_.as<float>(), shape_[1], shape_[2] * shape_[3]}, places.as<int64_t>(),
        given.as<float>());
    check_launch("putting states into a pool");
}

}  // namespace causeway::gpu
