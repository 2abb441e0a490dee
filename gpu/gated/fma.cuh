// What the kernels of the gated family on FMA units are made of: elements of any type as Float32, tiles of rows copied
// to shared memory, and products with a state that lies in the registers of a warp.
//
// A warp owns 8 columns of a state of DK rows (64, 128 or 256). Lane = 16·cg + rg has the columns 4·cg ... 4·cg + 3 and
// the rows 4·rg + 64·m + x, x = 0 ... 3, m = 0 ... DK/64 - 1, as S[4·m + x][column]: 16 lanes read a row of k or q as
// whole lines.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "gpu/gated/arguments.hpp"
#include "gpu/kit/async_copy.cuh"
#include "gpu/kit/finite.cuh"

namespace causeway::gpu::gated {

using std::int64_t;

__device__ __forceinline__ float bfloat16_low(uint32_t x) { return __uint_as_float(x << 16); }
__device__ __forceinline__ float bfloat16_high(uint32_t x) { return __uint_as_float(x & 0xFFFF0000u); }
__device__ __forceinline__ float2 float16_pair(uint32_t x) {
    return __half22float2(*reinterpret_cast<const __half2*>(&x));
}

__device__ __forceinline__ float element(const void* p, int64_t i, Type t) {
    if (t == Type::Float32) return static_cast<const float*>(p)[i];
    if (t == Type::BFloat16) return static_cast<float>(static_cast<const __nv_bfloat16*>(p)[i]);
    return static_cast<float>(static_cast<const __half*>(p)[i]);
}
__device__ __forceinline__ void set_element(void* p, int64_t i, Type t, float x) {
    if (t == Type::Float32) static_cast<float*>(p)[i] = x;
    else if (t == Type::BFloat16) static_cast<__nv_bfloat16*>(p)[i] = static_cast<__nv_bfloat16>(x);
    else static_cast<__half*>(p)[i] = static_cast<__half>(x);
}
// f(type), with the type as a constant in each of three copies of f.
template <class F>
__device__ __forceinline__ void by_type(Type type, const F& f) {
    if (type == Type::Float32) f(Type::Float32);
    else if (type == Type::BFloat16) f(Type::BFloat16);
    else f(Type::Float16);
}
// Four elements from i on, aligned to four elements.
__device__ __forceinline__ float4 quad(const void* p, int64_t i, Type t) {
    if (t == Type::Float32) return *reinterpret_cast<const float4*>(static_cast<const float*>(p) + i);
    const uint2 x = *reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(p) + i);
    if (t == Type::BFloat16) return {bfloat16_low(x.x), bfloat16_high(x.x), bfloat16_low(x.y), bfloat16_high(x.y)};
    const float2 low = float16_pair(x.x), high = float16_pair(x.y);
    return {low.x, low.y, high.x, high.y};
}
__device__ __forceinline__ void set_quad(void* p, int64_t i, Type t, float4 x) {
    if (t == Type::Float32) {
        *reinterpret_cast<float4*>(static_cast<float*>(p) + i) = x;
        return;
    }
    uint2 bits;
    if (t == Type::BFloat16) {
        const __nv_bfloat162 low = __floats2bfloat162_rn(x.x, x.y), high = __floats2bfloat162_rn(x.z, x.w);
        bits = {*reinterpret_cast<const uint32_t*>(&low), *reinterpret_cast<const uint32_t*>(&high)};
    } else {
        const __half2 low = __floats2half2_rn(x.x, x.y), high = __floats2half2_rn(x.z, x.w);
        bits = {*reinterpret_cast<const uint32_t*>(&low), *reinterpret_cast<const uint32_t*>(&high)};
    }
    *reinterpret_cast<uint2*>(static_cast<uint16_t*>(p) + i) = bits;
}
// Bits on their way from memory. A branch on the type between a load and the use of what it loads would wait for the
// load; so loads leave bits, and value() makes numbers of them later.
struct RawQuad {
    uint32_t x, y, z, w;
};
__device__ __forceinline__ uint32_t raw_element(const void* p, int64_t i, Type t) {
    if (t == Type::Float32) return static_cast<const uint32_t*>(p)[i];
    return static_cast<const uint16_t*>(p)[i];
}
__device__ __forceinline__ float value(uint32_t raw, Type t) {
    if (t == Type::Float32) return __uint_as_float(raw);
    return t == Type::BFloat16 ? bfloat16_low(raw) : float16_pair(raw).x;
}
// Four elements from column i of a row on, aligned to four elements.
__device__ __forceinline__ RawQuad raw_quad(const void* row, int i, Type t) {
    if (t == Type::Float32) {
        const uint4 x = *reinterpret_cast<const uint4*>(static_cast<const float*>(row) + i);
        return {x.x, x.y, x.z, x.w};
    }
    const uint2 x = *reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(row) + i);
    return {x.x, x.y, 0, 0};
}
// Four elements of a row of `width` from column i on; 0 past its end.
__device__ __forceinline__ RawQuad raw_quad_within(const void* row, int i, int width, bool quads, Type t) {
    RawQuad raw = {0, 0, 0, 0};
    if (quads) {
        return i < width ? raw_quad(row, i, t) : raw;
    }
    const auto at = [&](int c) { return c < width ? raw_element(row, c, t) : 0u; };
    raw = {at(i), at(i + 1), at(i + 2), at(i + 3)};
    if (t != Type::Float32) raw = {raw.x | raw.y << 16, raw.z | raw.w << 16, 0, 0};
    return raw;
}
__device__ __forceinline__ float4 value(RawQuad raw, Type t) {
    if (t == Type::Float32)
        return {__uint_as_float(raw.x), __uint_as_float(raw.y), __uint_as_float(raw.z), __uint_as_float(raw.w)};
    if (t == Type::BFloat16)
        return {bfloat16_low(raw.x), bfloat16_high(raw.x), bfloat16_low(raw.y), bfloat16_high(raw.y)};
    const float2 low = float16_pair(raw.x), high = float16_pair(raw.y);
    return {low.x, low.y, high.x, high.y};
}
__device__ __forceinline__ float4 quad_within(const void* row, int i, int width, bool quads, Type t) {
    return value(raw_quad_within(row, i, width, quads, t), t);
}
// put(i, get(i)) for i = 0 ... count - 1, shared among the threads of the block, up to eight gets under way at a time.
template <int count, int threads, class Get, class Put>
__device__ __forceinline__ void move(Get&& get, Put&& put) {
    constexpr int each = (count + threads - 1) / threads, batch = each < 8 ? each : 8;
#pragma unroll 1
    for (int first = threadIdx.x; first < count; first += batch * threads) {
        decltype(get(0)) x[batch];
#pragma unroll
        for (int i = 0; i < batch; ++i) {
            if (first + i * threads < count) x[i] = get(first + i * threads);
        }
#pragma unroll
        for (int i = 0; i < batch; ++i) {
            if (first + i * threads < count) put(first + i * threads, x[i]);
        }
    }
}
__device__ __forceinline__ void set_quad_within(void* row, int i, int width, bool quads, Type t, float4 x) {
    if (quads) {
        if (i < width) set_quad(row, i, t, x);
        return;
    }
    const float values[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int c = 0; c < 4; ++c) {
        if (i + c < width) set_element(row, i + c, t, values[c]);
    }
}

// Two elements from column i of a row on, aligned to two elements.
__device__ __forceinline__ void set_pair(void* row, int i, Type t, float x, float y) {
    if (t == Type::Float32) {
        *reinterpret_cast<float2*>(static_cast<float*>(row) + i) = {x, y};
    } else {
        uint16_t* at = static_cast<uint16_t*>(row) + i;
        if (t == Type::BFloat16) *reinterpret_cast<__nv_bfloat162*>(at) = __floats2bfloat162_rn(x, y);
        else *reinterpret_cast<__half2*>(at) = __floats2half2_rn(x, y);
    }
}
// The same of a row of `width`; pairs: it is aligned to two elements.
__device__ __forceinline__ void set_pair_within(void* row, int i, int width, bool pairs, Type t, float x, float y) {
    if (pairs && i + 1 < width) return set_pair(row, i, t, x, y);
    if (i < width) set_element(row, i, t, x);
    if (i + 1 < width) set_element(row, i + 1, t, y);
}

__device__ __forceinline__ char* head_of(const Operand& x, int64_t b, int64_t h) {
    return x.data + b * x.batch + h * x.head;
}

// ---- Tiles of rows ----

template <int rows, int pitch, int threads, int size>
__device__ __forceinline__ void stage_elements(char* to, const char* from, int64_t token_bytes, int n, int width,
                                               bool whole) {
    if (whole) {
        constexpr int pieces = pitch * size / 16;
        const int used = width * size / 16;
        for (int i = threadIdx.x; i < rows * pieces; i += threads) {
            const int t = i / pieces, c = i % pieces;
            const bool there = t < n && c < used;
            cp_async<16>(to + i * 16, there ? from + t * token_bytes + c * 16 : from, there);
        }
        return;
    }
    for (int i = threadIdx.x; i < rows * pitch; i += threads) {
        const int t = i / pitch, c = i % pitch;
        const char* at = from + t * token_bytes + c * size;
        const bool there = t < n && c < width;
        if constexpr (size == 4)
            *reinterpret_cast<uint32_t*>(to + i * 4) = there ? *reinterpret_cast<const uint32_t*>(at) : 0u;
        else *reinterpret_cast<uint16_t*>(to + i * 2) = there ? *reinterpret_cast<const uint16_t*>(at) : uint16_t{0};
    }
}

// Starts the copy of n <= rows rows of `width` <= pitch elements to shared memory, rows of `pitch` elements there,
// zeros where nothing is copied. Complete after cp_async_wait_all() and a barrier.
template <int rows, int pitch, int threads>
__device__ __forceinline__ void stage(void* to, const char* from, int64_t token_bytes, int n, int width, bool whole,
                                      Type t) {
    if (t == Type::Float32)
        stage_elements<rows, pitch, threads, 4>(static_cast<char*>(to), from, token_bytes, n, width, whole);
    else stage_elements<rows, pitch, threads, 2>(static_cast<char*>(to), from, token_bytes, n, width, whole);
}

// Rows of `width` elements of any type as rows of DK floats in shared memory, n of them and zeros behind. Returns
// whether those that this thread copied are finite.
template <int DK, int rows, int threads>
__device__ __forceinline__ bool load_rows(float* to, const char* from, int64_t token_bytes, int n, int width,
                                          bool quads, Type type) {
    bool finite = true;
    move<rows * DK / 4, threads>(
        [&](int i) {
            const int t = i / (DK / 4), c = i % (DK / 4) * 4;
            return t < n ? raw_quad_within(from + t * token_bytes, c, width, quads, type) : RawQuad{0, 0, 0, 0};
        },
        [&](int i, RawQuad raw) {
            const float4 x = value(raw, type);
            *reinterpret_cast<float4*>(to + 4 * i) = x;
            finite = finite && is_finite(x);
        });
    return finite;
}

// ---- Products of gates ----

// up_to(t, Π_{s<=t} a_s) for t rising, then after(t, Π_{s>t} a_s) for t falling, a_t = gate(t), t < C.
template <int C, class Gate, class UpTo, class After>
__device__ __forceinline__ void running_products(Gate&& gate, UpTo&& up_to, After&& after) {
    float a[C], product = 1.0f;
#pragma unroll
    for (int t = 0; t < C; ++t) {
        a[t] = gate(t);
        product *= a[t];
        up_to(t, product);
    }
    product = 1.0f;
#pragma unroll
    for (int t = C - 1; t >= 0; --t) {
        after(t, product);
        product *= a[t];
    }
}

__device__ __forceinline__ float4 times(float f, float4 x) { return {f * x.x, f * x.y, f * x.z, f * x.w}; }

// ---- Sums over the lanes that share columns ----

template <int half>
__device__ __forceinline__ void fold_permuted_by(float (&x)[8]) {
#pragma unroll
    for (int i = 0; i < half; ++i) x[i] += __shfl_xor_sync(0xFFFFFFFFu, x[i + half], half);
}
// x[i] of lane rg belongs to item i XOR (rg mod 8) of 8; returns the sum over the 16 lanes of item rg mod 8: 8
// shuffles.
__device__ __forceinline__ float fold_permuted(float (&x)[8]) {
    fold_permuted_by<4>(x), fold_permuted_by<2>(x), fold_permuted_by<1>(x);
    return x[0] + __shfl_xor_sync(0xFFFFFFFFu, x[0], 8);
}
template <int half>
__device__ __forceinline__ void fold_by(float (&x)[16], int rg) {
    const bool upper = rg & half;
#pragma unroll
    for (int i = 0; i < half; ++i) {
        const float send = upper ? x[i] : x[i + half], keep = upper ? x[i + half] : x[i];
        x[i] = keep + __shfl_xor_sync(0xFFFFFFFFu, send, half);
    }
}
// The same where x[i] belongs to item i in every lane.
__device__ __forceinline__ float fold(float (&x)[16], int rg) {
    fold_by<8>(x, rg), fold_by<4>(x, rg), fold_by<2>(x, rg), fold_by<1>(x, rg);
    return x[0];
}
__device__ __forceinline__ float sum16(float x) {
#pragma unroll
    for (int half = 8; half > 0; half >>= 1) x += __shfl_xor_sync(0xFFFFFFFFu, x, half);
    return x;
}

__device__ __forceinline__ float sum32(float x) {
    x = sum16(x);
    return x + __shfl_xor_sync(0xFFFFFFFFu, x, 16);
}

// ---- Products with a state in registers ----

// Row rg of X S for 16 rows of X (shared memory, rows of DK floats), the lane's four columns. Eight rows at a time: as
// one piece the code is longer than what a scheduler keeps of it.
template <int DK>
__device__ __forceinline__ float4 times_state(const float* X, const float (&S)[DK / 16][4], int rg) {
    float4 out = {0, 0, 0, 0};
#pragma unroll 1
    for (int first = 0; first < 16; first += 8) {
        float sum[4][8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float* x = X + (first + (i ^ (rg % 8))) * DK + rg * 4;
#pragma unroll
            for (int m = 0; m < DK / 64; ++m) {
                const float4 f = *reinterpret_cast<const float4*>(x + 64 * m);
#pragma unroll
                for (int c = 0; c < 4; ++c) {
                    const float before = m == 0 ? f.x * S[0][c] : fmaf(f.x, S[4 * m][c], sum[c][i]);
                    sum[c][i] =
                        fmaf(f.w, S[4 * m + 3][c], fmaf(f.z, S[4 * m + 2][c], fmaf(f.y, S[4 * m + 1][c], before)));
                }
            }
        }
        const float4 found = {fold_permuted(sum[0]), fold_permuted(sum[1]), fold_permuted(sum[2]),
                              fold_permuted(sum[3])};
        if (rg / 8 == first / 8) out = found;
    }
    return out;
}

// S += Xᵀ Y over n rows of X (rows of DK floats) and of Y (rows of 8 floats, the warp's columns), in shared memory.
template <int DK, int n>
__device__ __forceinline__ void add_outer(float (&S)[DK / 16][4], const float* X, const float* Y, int rg, int cg) {
#pragma unroll 4
    for (int j = 0; j < n; ++j) {
        const float4 y = *reinterpret_cast<const float4*>(Y + j * 8 + cg * 4);
#pragma unroll
        for (int m = 0; m < DK / 64; ++m) {
            const float4 x = *reinterpret_cast<const float4*>(X + j * DK + rg * 4 + 64 * m);
            const float row[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                S[4 * m + r][0] = fmaf(row[r], y.x, S[4 * m + r][0]);
                S[4 * m + r][1] = fmaf(row[r], y.y, S[4 * m + r][1]);
                S[4 * m + r][2] = fmaf(row[r], y.z, S[4 * m + r][2]);
                S[4 * m + r][3] = fmaf(row[r], y.w, S[4 * m + r][3]);
            }
        }
    }
}

// Rows rg and, of 32, rg + 16 of L Y: L lower triangular of C rows of C + 4 floats (what stands above the diagonal
// within 16 columns must be 0), Y rows of 8 floats; the lane's four columns are added to out.
template <int C, int block>
__device__ __forceinline__ void add_lower_block(float4 (&out)[C / 16], const float* L, const float* Y, int rg, int cg) {
#pragma unroll 2
    for (int jb = block * 16; jb < block * 16 + 16; jb += 4) {
        float4 l[C / 16];
#pragma unroll
        for (int b = block; b < C / 16; ++b) l[b] = *reinterpret_cast<const float4*>(L + (b * 16 + rg) * (C + 4) + jb);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float4 y = *reinterpret_cast<const float4*>(Y + (jb + j) * 8 + cg * 4);
#pragma unroll
            for (int b = block; b < C / 16; ++b) {
                const float f = j == 0 ? l[b].x : j == 1 ? l[b].y : j == 2 ? l[b].z : l[b].w;
                out[b].x = fmaf(f, y.x, out[b].x), out[b].y = fmaf(f, y.y, out[b].y);
                out[b].z = fmaf(f, y.z, out[b].z), out[b].w = fmaf(f, y.w, out[b].w);
            }
        }
    }
}
template <int C>
__device__ __forceinline__ void add_lower(float4 (&out)[C / 16], const float* L, const float* Y, int rg, int cg) {
    add_lower_block<C, 0>(out, L, Y, rg, cg);
    if constexpr (C > 16) add_lower_block<C, 1>(out, L, Y, rg, cg);
}

// out += L Y, or Lᵀ Y, where values that are not finite stay behind their token: only what stands on and below the
// diagonal of L is multiplied. Slower than add_lower.
template <int C, bool transposed = false>
__device__ __forceinline__ void add_seen(float4 (&out)[C / 16], const float* L, const float* Y, int rg, int cg) {
#pragma unroll
    for (int b = 0; b < C / 16; ++b) {
        const int row = b * 16 + rg;
        float4 sum = out[b];
#pragma unroll 1
        for (int j = transposed ? row : 0; j < (transposed ? C : row + 1); ++j) {
            const float f = L[transposed ? j * (C + 4) + row : row * (C + 4) + j];
            const float4 y = *reinterpret_cast<const float4*>(Y + j * 8 + cg * 4);
            sum = {fmaf(f, y.x, sum.x), fmaf(f, y.y, sum.y), fmaf(f, y.z, sum.z), fmaf(f, y.w, sum.w)};
        }
        out[b] = sum;
    }
}

// Whether a state is finite, all of the thread block's.
template <int R>
__device__ __forceinline__ bool is_state_finite(const float (&S)[R][4]) {
    bool finite = true;
#pragma unroll
    for (int i = 0; i < R; ++i) finite = finite && are_finite(S[i]);
    return __syncthreads_and(finite);
}

// The lane's part of a state [dk, dv] in global memory, zeros outside it or without one.
template <int DK>
__device__ __forceinline__ void load_state(float (&S)[DK / 16][4], const float* from, int dk, int dv, int rg,
                                           int column, bool quads) {
#pragma unroll
    for (int i = 0; i < DK / 16; ++i) {
        const int row = i / 4 * 64 + rg * 4 + i % 4;
        const float4 x = from && row < dk
                             ? quad_within(from + static_cast<int64_t>(row) * dv, column, dv, quads, Type::Float32)
                             : float4{0, 0, 0, 0};
        S[i][0] = x.x, S[i][1] = x.y, S[i][2] = x.z, S[i][3] = x.w;
    }
}
template <int DK>
__device__ __forceinline__ void store_state(float* to, const float (&S)[DK / 16][4], int dk, int dv, int rg, int column,
                                            bool quads) {
#pragma unroll
    for (int i = 0; i < DK / 16; ++i) {
        const int row = i / 4 * 64 + rg * 4 + i % 4;
        if (row < dk)
            set_quad_within(to + static_cast<int64_t>(row) * dv, column, dv, quads, Type::Float32,
                            {S[i][0], S[i][1], S[i][2], S[i][3]});
    }
}

}  // namespace causeway::gpu::gated
