// Element by element on the GPU; contiguous but where it says so, on the caller's stream.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/kit/layout.hpp"

namespace causeway::gpu {

// to[i] = from[i], rounded to nearest.
void convert(const void* from, Type from_type, void* to, Type to_type, std::int64_t n, cudaStream_t stream);

// x[i] *= factor, in Float32.
void scale_by(void* x, Type type, std::int64_t n, float factor, cudaStream_t stream);

// The same for the first `width` elements of each row of [B, H, N, width] with strides.
void scale_rows(void* x, Type type, std::int64_t B, std::int64_t H, std::int64_t N, std::int64_t width, Strides s,
                float factor, cudaStream_t stream);

// x[i] = value.
void fill(float* x, std::int64_t n, float value, cudaStream_t stream);

// The first place where x[i] is not <= 0 (NaN is not), or n. `first`: room for one number on the device. Waits for the
// result.
std::int64_t first_above_zero(const float* x, std::int64_t n, std::int64_t* first, cudaStream_t stream);
// The first place where x[i] is NaN or ±Inf, or n; the same otherwise.
std::int64_t first_not_finite(const float* x, std::int64_t n, std::int64_t* first, cudaStream_t stream);

}  // namespace causeway::gpu
