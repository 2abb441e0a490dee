// What the methods made of matrix products share: pieces of the sequence packed into Float32 matrices, masks, sums, and
// back.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>

#include "gpu/base/blas.hpp"
#include "gpu/exact/check.hpp"
#include "gpu/kit/carve.hpp"

namespace causeway::gpu::pieces {

// (batch, head) pairs `first` ... of a call, few enough that their decays fit into the arguments of a kernel.
constexpr int max_batch_heads = 256;
struct BatchHeads {
    std::int64_t first;
    std::int32_t count, heads;  // heads: of the tensors
    double log2_gamma[max_batch_heads];
};
BatchHeads batch_heads_of(const CausalArgs& a, std::int64_t first, std::int64_t count);

// Nodes of tokens, each cut into `slabs` pieces of `size` tokens: piece i of node j starts at token first + j·step +
// i·size. Tokens beyond N count as zeros. In memory: [bh][node][slab][token][column].
struct Cut {
    std::int64_t first, step, nodes, slabs, size;
    std::int64_t pieces() const { return nodes * slabs; }
};

// How rows are weighted, t the place of a token in its node of n tokens (those below N): not at all, by γ^(t + plus),
// or by γ^(n - 1 - t + plus).
enum class Weight { none, rising, falling };

// Whether the products are made of operands of 11 bits on tensor cores: asked for with Float32, and with the 16-bit
// types, whose elements are 11 bits or fewer, unless it is refused. Scores and states are then rounded to 11 bits by
// the kernels here.
bool rounds(const CausalArgs& a);

// x [B, H, N, width] of a.type, in pieces to `to`, Float32.
void pack(const CausalArgs& a, const void* x, Strides s, int width, const BatchHeads& l, const Cut& c, Weight weight,
          int plus, float* to, cudaStream_t stream);

// o of these tokens = pieces. Elements that are not finite are summed again by the definition, from the states
// `initial` before the first token, [bh][r][d], null for zeros: a product of matrices lets such a value of v reach rows
// before its token.
void unpack(const CausalArgs& a, const BatchHeads& l, const Cut& c, const float* from, const float* initial,
            cudaStream_t stream);

// Rows of d columns into whole sequences [bh][padded][d]: set, or added.
void place(const CausalArgs& a, const BatchHeads& l, const Cut& c, const float* from, bool add, std::int64_t padded,
           float* to, cudaStream_t stream);

// S [bh][count][size][size] ⊙ M in place: γ^(i-j) on and below the diagonal, 0 above.
void mask(const BatchHeads& l, std::int64_t count, std::int64_t size, bool round, float* S, cudaStream_t stream);

// The same for S [bh][rows][columns], a part of the matrix whose first row is `below` tokens after its first column.
void mask_part(const BatchHeads& l, std::int64_t rows, std::int64_t columns, std::int64_t below, bool round, float* S,
               cudaStream_t stream);

// D [bh][node][slab][elements]: every slab becomes the sum over the slabs of its node, added in order.
void sum_slabs(const BatchHeads& l, const Cut& c, std::int64_t elements, bool round, float* D, cudaStream_t stream);

// D [bh][block][elements], what each block of `size` tokens adds to the state; becomes the state before each block. U
// [bh][elements]: the state before the first block, on return after the last. `done`: blocks before the first.
void scan_blocks(const CausalArgs& a, const BatchHeads& l, std::int64_t blocks, std::int64_t size, std::int64_t done,
                 bool round, float* D, float* U, cudaStream_t stream);

// Between two blocks of `size` tokens, `done` of them before: to [bh][elements] = U, and U *= γ^n, n the tokens of
// the next block.
void hand_over(const CausalArgs& a, const BatchHeads& l, std::int64_t size, std::int64_t done, bool round, float* U,
               float* to, cudaStream_t stream);

// Calls f(batch-heads, their states) for all heads, `at_a_time` of them, from the states that the call brings, or from
// zeros in `spare`.
template <class F>
void in_groups(const CausalArgs& a, std::int64_t at_a_time, float* spare, cudaStream_t stream, F&& f) {
    const std::int64_t state = std::int64_t{a.r} * a.d;
    for (std::int64_t first = 0; first < a.B * a.H; first += at_a_time) {
        const BatchHeads l = batch_heads_of(a, first, std::min(at_a_time, a.B * a.H - first));
        float* const U = a.state ? a.state + first * state : spare;
        if (!a.state)
            check(cudaMemsetAsync(U, 0, static_cast<std::size_t>(l.count * state) * sizeof(float), stream),
                  "clearing the state");
        f(l, U);
    }
}

using gpu::Carve;
constexpr std::size_t slack = Carve::slack;
constexpr std::int64_t max_floats = std::int64_t{1} << 25;  // of what is in work, where it is more than one head

// Products of one call of cuBLAS.
constexpr std::int64_t max_products = 65535;

}  // namespace causeway::gpu::pieces
