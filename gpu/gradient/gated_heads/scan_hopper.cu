// The states between splits and their gradients, from the maps of the splits: two scans in Float32. README.md has the
// letters.
#include "gpu/gated/delta/affine.cuh"
#include "gpu/gradient/gated_heads/part.hpp"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::gated_heads {

namespace {

using gated_delta::AffineShared, gated_delta::scan_columns, gated_delta::scan_rows, gated_delta::scan_threads,
    gated_delta::thread_columns;

// S_i = A_i S_{i-1} + B_i over splits 1 to the last but one, or E_i = A_iᵀ E_{i+1} + B_i the other way, where the B are
// in `states` and the results replace them. A thread block has 16 columns of a head's states.
template <bool backwards, int R>
__device__ __forceinline__ void scan(AffineShared<R>& s, const Part& p, float* states, int64_t bh, int first_column) {
    const int row = static_cast<int>(threadIdx.x) % scan_rows,
              own = static_cast<int>(threadIdx.x) / scan_rows * thread_columns, last = p.splits - 1, dv = p.call.dv;
    const auto split = [&](int n) { return bh * p.splits + (backwards ? last - n : n); };
    const auto load = [&](int n) { gated_delta::load_matrix(s, n % 2, p.A + split(n) * R * R, p.call.dk); };
    const auto each = [&](int n, auto&& f) {
        float* const at = states + (split(n) * p.call.dk + row) * dv + first_column + own;
#pragma unroll
        for (int c = 0; c < thread_columns; ++c)
            if (row < p.call.dk && first_column + own + c < dv) f(c, at[c]);
    };
    float x[thread_columns] = {};
    each(0, [&](int c, float& b) { x[c] = b; });
    if (last > 1) load(1);
    for (int n = 1; n < last; ++n) {
        gated_delta::apply_matrix<backwards>(x, s, n, last, row, own, load);
        each(n, [&](int c, float& b) { b = x[c] += b; });
    }
}

template <int R>
__global__ __launch_bounds__(scan_threads) void gated_heads_scan(const __grid_constant__ Part p) {
    extern __shared__ __align__(16) unsigned char shared[];
    AffineShared<R>& s = *reinterpret_cast<AffineShared<R>*>(shared);
    const int blocks = (p.call.dv + scan_columns - 1) / scan_columns;
    const int64_t bh = blockIdx.x / blocks;
    const int first = static_cast<int>(blockIdx.x % blocks) * scan_columns;
    if (blockIdx.y == 0) scan<false>(s, p, p.S_behind, bh, first);
    else scan<true>(s, p, p.E_before, bh, first);
}

template <int R>
void scan_by(const Part& p, cudaStream_t stream) {
    const int64_t blocks = (p.call.dv + scan_columns - 1) / scan_columns;
    launch(gated_heads_scan<R>, "launching gated_heads_scan", dim3(static_cast<unsigned>(p.call.all_heads * blocks), 2),
           scan_threads, sizeof(AffineShared<R>), 1, false, stream, p);
}

}  // namespace

void launch_scan(const Part& p, cudaStream_t stream) {
    if (p.map_rows() == 64) scan_by<64>(p, stream);
    else scan_by<128>(p, stream);
}

}  // namespace causeway::gpu::gated_heads
