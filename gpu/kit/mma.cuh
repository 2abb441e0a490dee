// Matrix products of one warp on tensor cores (mma.sync, sm_80 and later), as the PTX manual names and lays them out:
// with g = lane / 4 and c = 2 (lane % 4), a lane has of an accumulator of 16×8 the elements [g][c], [g][c + 1],
// [g + 8][c], [g + 8][c + 1].
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace causeway::gpu::ptx {

// ---- Float16 operands, Float32 sums ----

// d[16×8] += a[16×16] b[16×8].
__device__ __forceinline__ void mma_m16n8k16(float* d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// d[8×8] += a[8×8] b[8×8]: the upper half of m16n8k8, whose lower half is given zeros.
__device__ __forceinline__ void mma_m16n8k8_upper(float (&d)[4], uint32_t a, uint32_t b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a), "r"(0), "r"(b));
}
// d[16×16] += a[16×16] b[16×16], both halves of b's columns from one ldmatrix_x4.
__device__ __forceinline__ void mma_m16n16k16(float (&d)[8], const uint32_t (&a)[4], const uint32_t (&b)[4]) {
    mma_m16n8k16(d, a, b[0], b[1]);
    mma_m16n8k16(d + 4, a, b[2], b[3]);
}

// ---- Operands of either 16-bit type, Float32 sums ----

// d[16×8] += a[16×16] b[16×8]. Of a, a lane has the pairs from [g][c], [g + 8][c], [g][c + 8], [g + 8][c + 8], of b
// those down column g from rows c and c + 8.
template <class E>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if constexpr (std::is_same_v<E, __half>) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
}

// ---- TF32 operands, Float32 sums ----

// d[16×8] += a[16×8] b[8×8]; the lower 13 bits of an operand are not read. With t = lane % 4 a lane has of a the
// elements [g][t], [g + 8][t], [g][t + 4], [g + 8][t + 4], of b [t][g] and [t + 4][g].
__device__ __forceinline__ void mma_m16n8k8_tf32(float* d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    mma_m16n8k8_tf32(d, a, b[0], b[1]);
}

}  // namespace causeway::gpu::ptx
