#include "gpu/kit/tensor_map.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "gpu/base/error.hpp"

namespace causeway::gpu {

namespace {

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                            const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// From the driver at run time: the program needs no libcuda to start.
Encode encode() {
    static const Encode found = [] {
        void* f = nullptr;
        cudaDriverEntryPointQueryResult how{};
        check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &how),
              "finding cuTensorMapEncodeTiled");
        if (how != cudaDriverEntryPointSuccess || !f)
            fail("gpu: the driver has no cuTensorMapEncodeTiled: it is older than CUDA 12.0");
        return reinterpret_cast<Encode>(f);
    }();
    return found;
}

}  // namespace

bool tma_reaches(const void* data, Type type, Strides s) {
    const std::int64_t bytes = bytes_of(type);
    const auto fits = [&](std::int64_t n) { return n >= 0 && n * bytes % 16 == 0; };
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && fits(s.batch) && fits(s.head) && fits(s.token);
}

CUtensorMap tensor_map(const void* data, Type type, std::int64_t B, std::int64_t H, std::int64_t N, int width,
                       Strides s, int columns, int tokens) {
    const CUtensorMapDataType types[] = {CU_TENSOR_MAP_DATA_TYPE_FLOAT32, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                                         CU_TENSOR_MAP_DATA_TYPE_FLOAT16};
    const auto u = [](std::int64_t x) { return static_cast<cuuint64_t>(x); };
    const cuuint64_t bytes = u(bytes_of(type));
    const cuuint64_t sizes[] = {u(width), u(N), u(H), u(B)};
    // A stride of an axis of one element is never used, but must still be legal.
    const auto stride = [&](std::int64_t n, std::int64_t elements) {
        return n > 1 ? u(elements) * bytes : std::max<cuuint64_t>(u(elements) * bytes, 16);
    };
    const cuuint64_t strides[] = {stride(N, s.token), stride(H, s.head), stride(B, s.batch)};
    const cuuint32_t box[] = {static_cast<cuuint32_t>(columns), static_cast<cuuint32_t>(tokens), 1, 1},
                     steps[] = {1, 1, 1, 1};
    CUtensorMap map;
    const CUresult code = encode()(&map, types[static_cast<int>(type)], 4, const_cast<void*>(data), sizes, strides, box,
                                   steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                   CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (code != CUDA_SUCCESS)
        fail("gpu: describing a tensor of ", B, "×", H, "×", N, "×", width, " to TMA failed with driver error ",
             int(code));
    return map;
}

}  // namespace causeway::gpu
