// The states between splits and their gradients, from the maps of the splits: two scans in Float32. README.md has the
// letters.
#include "gpu/base/device.hpp"
#include "gpu/gated/delta/affine.cuh"
#include "gpu/gradient/gated_heads/part.hpp"
#include "gpu/kit/launch.hpp"

namespace causeway::gpu::gated_heads {

namespace {

using gated_delta::AffineShared, gated_delta::scan_threads, gated_delta::ScanColumns;

// S_i = A_i S_{i-1} + B_i over splits 1 to the last but one, or E_i = A_iᵀ E_{i+1} + B_i the other way, where the B are
// in `states` and the results replace them. A thread block has some columns of a head's states.
template <bool backwards, int R, int columns>
__device__ __forceinline__ void scan(AffineShared<R, columns>& s, const Part& p, float* states, int64_t bh,
                                     int first_column) {
    const ScanColumns<R, columns> own;
    const int last = p.splits - 1, dk = p.call.dk, dv = p.call.dv;
    const auto split = [&](int n) { return bh * p.splits + (backwards ? last - n : n); };
    const auto load = [&](int n) { gated_delta::load_matrix(s, n % 2, p.A + split(n) * R * R, dk); };
    typename ScanColumns<R, columns>::Values x{}, b{};
    // f(element of x or b, the same element of state n in memory), for those that a state has.
    const auto each = [&](int n, auto& values, auto&& f) {
        float* const state = states + split(n) * dk * dv + first_column;
        own.each(values, [&](float& e, int row, int column) {
            if (row < dk && first_column + column < dv) f(e, state[int64_t{row} * dv + column]);
        });
    };
    const auto take = [](float& e, float in_memory) { e = in_memory; };
    each(0, x, take);
    if (last > 1) load(1);
    for (int n = 1; n < last; ++n) {
        each(n, b, take);  // on its way while A is multiplied by
        gated_delta::apply_matrix<backwards>(x, s, own, n, last, load);
        own.add(x, b);
        each(n, x, [](float e, float& in_memory) { in_memory = e; });
    }
}

template <int R, int columns>
__global__ __launch_bounds__(scan_threads) void gated_heads_scan(const __grid_constant__ Part p) {
    extern __shared__ __align__(16) unsigned char shared[];
    auto& s = *reinterpret_cast<AffineShared<R, columns>*>(shared);
    const int blocks = (p.call.dv + columns - 1) / columns;
    const int64_t bh = blockIdx.x / blocks;
    const int first = static_cast<int>(blockIdx.x % blocks) * columns;
    if (blockIdx.y == 0) scan<false>(s, p, p.S_behind, bh, first);
    else scan<true>(s, p, p.E_before, bh, first);
}

template <int R>
void scan_by(const Part& p, cudaStream_t stream) {
    constexpr int directions = 2;
    const int64_t heads = p.call.all_heads;
    gated_delta::with_scan_columns<R>(
        gated_delta::scan_columns(directions * heads, p.call.dv, R, device().multiprocessors), [&]<int columns>() {
            const int64_t blocks = (p.call.dv + columns - 1) / columns;
            launch(gated_heads_scan<R, columns>, "launching gated_heads_scan",
                   dim3(static_cast<unsigned>(heads * blocks), directions), scan_threads,
                   sizeof(AffineShared<R, columns>), 1, false, stream, p);
        });
}

}  // namespace

void launch_scan(const Part& p, cudaStream_t stream) {
    if (p.map_rows() == 64) scan_by<64>(p, stream);
    else scan_by<128>(p, stream);
}

}  // namespace causeway::gpu::gated_heads
