#include "gpu/exact/pieces.hpp"

#include <algorithm>

#include "gpu/exact/factor.cuh"
#include "gpu/kit/element.cuh"
#include "gpu/kit/finite.cuh"
#include "gpu/kit/ptx.cuh"

namespace causeway::gpu::pieces {

namespace {

constexpr int rows_of_block = 8;

__device__ __forceinline__ float rounded(float x, bool round) { return round ? ptx::round_to_tf32(x) : x; }

// A packed row: its batch-head, its token, the place of that in its node, and the node's tokens that exist.
struct Row {
    int64_t bh, token, t, n;
};
__device__ __forceinline__ Row row_of(int64_t x, const Cut& c, int64_t N) {
    const int64_t t = x % c.size, slab = x / c.size % c.slabs, node = x / (c.size * c.slabs) % c.nodes,
                  whole = c.slabs * c.size;
    const int64_t start = c.first + node * c.step, place = slab * c.size + t, left = N - start;
    return {x / (c.size * c.slabs * c.nodes), start + place, place, left < whole ? left : whole};
}

// Where the elements of a token of batch-head bh, counted in all of the tensor, begin.
template <class E>
__device__ __forceinline__ E* token_of(E* x, Strides s, const BatchHeads& l, int64_t bh, int64_t token) {
    return x + bh / l.heads * s.batch + bh % l.heads * s.head + token * s.token;
}

template <class E>
__global__ __launch_bounds__(32 * rows_of_block) void pack_kernel(const E* x, Strides s, int width, int64_t N,
                                                                  const __grid_constant__ BatchHeads l, Cut c,
                                                                  Weight weight, int plus, bool round, int64_t rows,
                                                                  float* to) {
    for (int64_t i = blockIdx.x * int64_t{rows_of_block} + threadIdx.y; i < rows;
         i += int64_t{gridDim.x} * rows_of_block) {
        const Row at = row_of(i, c, N);
        const E* const from = token_of(x, s, l, l.first + at.bh, at.token);
        const int64_t power = weight == Weight::rising ? at.t + plus : at.n - 1 - at.t + plus;
        const float factor =
            weight == Weight::none ? 1.0f : static_cast<float>(exp2(l.log2_gamma[at.bh] * static_cast<double>(power)));
        for (int e = threadIdx.x; e < width; e += 32)
            to[i * width + e] = at.token < N ? rounded(factor * static_cast<float>(from[e]), round) : 0.0f;
    }
}

// What an output is a sum of; `initial`: the state before the first token, [bh][r][d], or null.
template <class E>
struct Terms {
    const E *q, *k, *v;
    Strides q_stride, k_stride, v_stride;
    int r, d;
    const float* initial;
};

// The row of the definition, token for token (gpu/kit/finite.cuh), for its elements that are not finite.
template <class E>
__device__ __noinline__ void sum_again(E* o, const Terms<E>& x, const BatchHeads& l, Row at) {
    const int64_t bh = l.first + at.bh;
    const E* const q = token_of(x.q, x.q_stride, l, bh, at.token);
    const auto decay = [&](int64_t n) {
        return exp2f(static_cast<float>(l.log2_gamma[at.bh] * static_cast<double>(n)));
    };
    const auto begin = [&](int c) {
        float sum = 0;
        if (!x.initial) return sum;
        const float* const state = x.initial + at.bh * x.r * x.d + c;
        for (int e = 0; e < x.r; ++e) sum = fmaf(static_cast<float>(q[e]), state[int64_t{e} * x.d], sum);
        return decay(at.token + 1) * sum;
    };
    const auto weight = [&](int64_t j) {
        return decay(at.token - j) * dot_of_warp(q, token_of(x.k, x.k_stride, l, bh, j), x.r);
    };
    const auto value = [&](int64_t j, int c) { return static_cast<float>(token_of(x.v, x.v_stride, l, bh, j)[c]); };
    sum_row_again(o, x.d, 0, at.token + 1, begin, weight, value);
}

// A warp a row.
template <class E>
__global__ __launch_bounds__(32 * rows_of_block, 8) void unpack_kernel(E* o, Strides s, int d, int64_t N,
                                                                       const __grid_constant__ BatchHeads l, Cut c,
                                                                       int64_t rows, const float* from,
                                                                       const __grid_constant__ Terms<E> terms) {
    for (int64_t i = blockIdx.x * int64_t{rows_of_block} + threadIdx.y; i < rows;
         i += int64_t{gridDim.x} * rows_of_block) {
        const Row at = row_of(i, c, N);
        if (at.token >= N) continue;
        E* const to = token_of(o, s, l, l.first + at.bh, at.token);
        if (!store_row(to, from + i * d, d)) sum_again(to, terms, l, at);
    }
}

__global__ __launch_bounds__(32 * rows_of_block) void place_kernel(int d, int64_t N, Cut c, int64_t rows,
                                                                   const float* from, bool add, int64_t padded,
                                                                   float* to) {
    for (int64_t i = blockIdx.x * int64_t{rows_of_block} + threadIdx.y; i < rows;
         i += int64_t{gridDim.x} * rows_of_block) {
        const Row at = row_of(i, c, N);
        float* const row = to + (at.bh * padded + at.token) * d;
        for (int e = threadIdx.x; e < d; e += 32)
            if (at.token < N) row[e] = from[i * d + e] + (add ? row[e] : 0.0f);
    }
}

// `count` matrices of a batch-head, `height` by `width`; i counts from the first column on.
__global__ __launch_bounds__(32 * rows_of_block) void mask_kernel(const __grid_constant__ BatchHeads l, int64_t count,
                                                                  int64_t height, int64_t width, int64_t below,
                                                                  bool round, int64_t rows, float* S) {
    for (int64_t x = blockIdx.x * int64_t{rows_of_block} + threadIdx.y; x < rows;
         x += int64_t{gridDim.x} * rows_of_block) {
        const int64_t i = x % height + below;
        const double log2_gamma = l.log2_gamma[x / (height * count)];
        float* const row = S + x * width;
        for (int64_t j = threadIdx.x; j < width; j += 32) {
            const float power =
                log2_gamma == 0 ? 1.0f : exp2f(static_cast<float>(log2_gamma * static_cast<double>(i - j)));
            row[j] = j <= i ? rounded(row[j] * power, round) : 0.0f;
        }
    }
}

__global__ __launch_bounds__(256) void sum_kernel(int64_t slabs, int64_t elements, bool round, int64_t n, float* D) {
    for (int64_t i = blockIdx.x * int64_t{256} + threadIdx.x; i < n; i += int64_t{gridDim.x} * 256) {
        float* const x = D + i / elements * slabs * elements + i % elements;
        float sum = 0;
        for (int64_t s = 0; s < slabs; ++s) sum += x[s * elements];
        for (int64_t s = 0; s < slabs; ++s) x[s * elements] = rounded(sum, round);
    }
}

__global__ __launch_bounds__(256) void scan_kernel(int64_t N, const __grid_constant__ BatchHeads l, int64_t blocks,
                                                   int64_t size, int64_t done, int64_t elements, bool round, float* D,
                                                   float* U) {
    const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x, bh = i / elements;
    if (bh >= l.count) return;
    float* const x = D + bh * blocks * elements + i % elements;
    Factor factor(exp2(l.log2_gamma[bh] * static_cast<double>(size)), static_cast<uint32_t>(done));
    float u = U[i];
    for (int64_t b = 0; b < blocks; ++b) {
        const float delta = x[b * elements];
        const int64_t n = N - (done + b) * size;
        x[b * elements] = rounded(u, round);
        u = fmaf(n < size ? static_cast<float>(exp2(l.log2_gamma[bh] * static_cast<double>(n))) : factor.next(), u,
                 delta);
    }
    U[i] = u;
}

__global__ __launch_bounds__(256) void hand_over_kernel(int64_t N, const __grid_constant__ BatchHeads l, int64_t size,
                                                        int64_t done, int64_t elements, bool round, float* U,
                                                        float* to) {
    const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x, bh = i / elements;
    if (bh >= l.count) return;
    const int64_t n = N - done * size;
    Factor factor(exp2(l.log2_gamma[bh] * static_cast<double>(size)), static_cast<uint32_t>(done));
    const float u = U[i];
    to[i] = rounded(u, round);
    U[i] = u * (n < size ? static_cast<float>(exp2(l.log2_gamma[bh] * static_cast<double>(n))) : factor.next());
}

unsigned blocks_of(int64_t n, int64_t each) {
    return static_cast<unsigned>(std::min<int64_t>((n + each - 1) / each, 1 << 16));
}

}  // namespace

BatchHeads batch_heads_of(const CausalArgs& a, int64_t first, int64_t count) {
    BatchHeads l{first, static_cast<int32_t>(count), static_cast<int32_t>(a.H), {}};
    for (int64_t i = 0; i < count; ++i) l.log2_gamma[i] = std::log2(a.decay_of((first + i) % a.H));
    return l;
}

bool rounds(const CausalArgs& a) {
    return a.type == Type::Float32 ? a.precision == Precision::tf32 : a.precision != Precision::exact;
}

void pack(const CausalArgs& a, const void* x, Strides s, int width, const BatchHeads& l, const Cut& c, Weight weight,
          int plus, float* to, cudaStream_t stream) {
    const int64_t rows = l.count * c.pieces() * c.size;
    visit(a.type, [&](auto zero) {
        using E = decltype(zero);
        pack_kernel<<<blocks_of(rows, rows_of_block), dim3(32, rows_of_block), 0, stream>>>(
            static_cast<const E*>(x), s, width, a.N, l, c, weight, plus, rounds(a), rows, to);
    });
    check_launch("launching pack");
}

void unpack(const CausalArgs& a, const BatchHeads& l, const Cut& c, const float* from, const float* initial,
            cudaStream_t stream) {
    const int64_t rows = l.count * c.pieces() * c.size;
    visit(a.type, [&](auto zero) {
        using E = decltype(zero);
        unpack_kernel<<<blocks_of(rows, rows_of_block), dim3(32, rows_of_block), 0, stream>>>(
            static_cast<E*>(a.o), a.o_stride, a.d, a.N, l, c, rows, from,
            Terms<E>{static_cast<const E*>(a.q), static_cast<const E*>(a.k), static_cast<const E*>(a.v), a.q_stride,
                     a.k_stride, a.v_stride, a.r, a.d, initial});
    });
    check_launch("launching unpack");
}

void place(const CausalArgs& a, const BatchHeads& l, const Cut& c, const float* from, bool add, int64_t padded,
           float* to, cudaStream_t stream) {
    const int64_t rows = l.count * c.pieces() * c.size;
    place_kernel<<<blocks_of(rows, rows_of_block), dim3(32, rows_of_block), 0, stream>>>(a.d, a.N, c, rows, from, add,
                                                                                         padded, to);
    check_launch("launching place");
}

void mask(const BatchHeads& l, int64_t count, int64_t size, bool round, float* S, cudaStream_t stream) {
    const int64_t rows = l.count * count * size;
    mask_kernel<<<blocks_of(rows, rows_of_block), dim3(32, rows_of_block), 0, stream>>>(l, count, size, size, 0, round,
                                                                                        rows, S);
    check_launch("launching mask");
}

void mask_part(const BatchHeads& l, int64_t rows, int64_t columns, int64_t below, bool round, float* S,
               cudaStream_t stream) {
    const int64_t all = l.count * rows;
    mask_kernel<<<blocks_of(all, rows_of_block), dim3(32, rows_of_block), 0, stream>>>(l, 1, rows, columns, below,
                                                                                       round, all, S);
    check_launch("launching mask_part");
}

void sum_slabs(const BatchHeads& l, const Cut& c, int64_t elements, bool round, float* D, cudaStream_t stream) {
    const int64_t n = l.count * c.nodes * elements;
    sum_kernel<<<blocks_of(n, 256), 256, 0, stream>>>(c.slabs, elements, round, n, D);
    check_launch("launching sum_slabs");
}

void scan_blocks(const CausalArgs& a, const BatchHeads& l, int64_t blocks, int64_t size, int64_t done, bool round,
                 float* D, float* U, cudaStream_t stream) {
    const int64_t elements = int64_t{a.r} * a.d;
    scan_kernel<<<static_cast<unsigned>((l.count * elements + 255) / 256), 256, 0, stream>>>(a.N, l, blocks, size, done,
                                                                                             elements, round, D, U);
    check_launch("launching scan_blocks");
}

void hand_over(const CausalArgs& a, const BatchHeads& l, int64_t size, int64_t done, bool round, float* U, float* to,
               cudaStream_t stream) {
    const int64_t elements = int64_t{a.r} * a.d;
    hand_over_kernel<<<static_cast<unsigned>((l.count * elements + 255) / 256), 256, 0, stream>>>(
        a.N, l, size, done, elements, round, U, to);
    check_launch("launching hand_over");
}

}  // namespace causeway::gpu::pieces
