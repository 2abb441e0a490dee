// The part of the engine that all methods share: how the sequence is cut, and the states that the pieces start from.
#include <vector>

#include "gpu/base/device.hpp"
#include "gpu/exact/register_tile.cuh"
#include "gpu/exact/tile_states.cuh"

namespace causeway::gpu::tile {

namespace {

// Whether tile_states makes the pieces' states.
bool states_on_tensor_cores(const CausalArgs& a) {
    return a.type == Type::Float32 && a.precision != Precision::exact && a.r > 32 && a.r <= StatesLayout::ranks &&
           a.d > 32 && lies_in_fours(a.k, a.type, a.k_stride, a.r) && lies_in_fours(a.v, a.type, a.v_stride, a.d) &&
           sizeof(float) * StatesLayout::floats <= shared_memory();
}

// The pieces' states become, in the place of each segment's last, the states after the segments: one thread per
// element.
__global__ __launch_bounds__(256) void sum_pieces(const __grid_constant__ Args a) {
    const int64_t h = blockIdx.x % a.heads, b = blockIdx.x / a.heads, at = int64_t{blockIdx.y} * 256 + threadIdx.x,
                  size = int64_t{a.r} * a.d;
    if (at >= size) return;
    Factor factor(exp2(a.log2_gamma[h] * static_cast<double>(a.piece)), 0);
    float* x = a.carried + (b * a.all_heads + a.first_head + h) * (1 + a.carried_pieces()) * size + at;
    float sum = 0;
    for (int s = 0; s < a.segments - 1; ++s) {
#pragma unroll 4
        for (int i = 0; i < a.pieces; ++i) {
            x += size;
            const float decay = factor.next();
            sum = decay > 0 ? fmaf(decay, sum, *x) : *x;  // what is out of sight may be Inf
        }
        *x = sum;
    }
}

// Clocks that a block takes for a token, alone on a multiprocessor and beside another one (docs/kernels/exact.md).
struct Clocks {
    double alone, paired;
};
constexpr Clocks output_clocks[] = {{151, 252}, {234, 428}}, state_clocks[] = {{73, 130}, {122, 215}};  // wide: second
constexpr Clocks tensor_core_clocks = {75, 138};  // of tile_states
// What else a call that is cut takes, and how many bytes of carried states go by in a clock.
constexpr double cut_clocks = 50000, bytes_in_a_clock = 1000;

double clocks_of(double blocks, double tokens, const Clocks& c) {
    const double places = 2.0 * device().multiprocessors, rounds = std::floor(blocks / places),
                 rest = blocks - rounds * places;
    return tokens * (rounds * c.paired + (rest > places / 2 ? c.paired : rest > 0 ? c.alone : 0));
}

// How many tokens back the heads see.
std::vector<double> reaches(const CausalArgs& a) {
    std::vector<double> reach;
    for (std::int64_t h = 0; h < a.H; ++h)
        reach.push_back(a.decay_of(h) < 1 ? unseen_bits / -std::log2(a.decay_of(h)) : INFINITY);
    return reach;
}

// Of the states and the outputs. seen: tokens of a segment that its states are made of, of all heads together, and the
// most of one.
struct Seen {
    double sum = 0, most = 0;
};
double clocks_of(const CausalArgs& a, const Cut& cut, const Seen& seen, bool tensor_cores) {
    const auto column_blocks_of = [&](int width) { return static_cast<double>(a.B * ((a.d + width - 1) / width)); };
    const double column_blocks = column_blocks_of(width_of(cut.wide ? 8 : 16)),
                 state_blocks = tensor_cores ? column_blocks_of(StatesLayout::width) : column_blocks;
    const double blocks = column_blocks * static_cast<double>(a.H),
                 length = static_cast<double>(cut.piece) * cut.pieces;
    double clocks = clocks_of(blocks * cut.segments, length, output_clocks[cut.wide]);
    if (cut.segments > 1) {
        const double longest = std::min(static_cast<double>(cut.piece), seen.most),
                     bytes = static_cast<double>(workspace(a, cut));
        const double equal = std::ceil(state_blocks * (cut.segments - 1) * seen.sum / longest);
        const Clocks& of_states = tensor_cores ? tensor_core_clocks : state_clocks[cut.wide];
        clocks += cut_clocks + bytes / bytes_in_a_clock + clocks_of(equal, longest, of_states);
    }
    return clocks;
}

}  // namespace

Cut cut_into(const CausalArgs& a, std::int64_t segments, int pieces, bool wide) {
    Cut cut;
    cut.wide = wide, cut.pieces = pieces;
    const auto ratio = [](std::int64_t n, std::int64_t by) { return std::max<std::int64_t>((n + by - 1) / by, 1); };
    cut.piece = ratio(ratio(a.N, segments * pieces), tokens) * tokens;
    cut.segments = static_cast<std::int32_t>(ratio(a.N, cut.piece * pieces));
    return cut;
}

bool may_be_wide(const CausalArgs& a) {
    const auto fits = [](auto zero) {
        return sizeof(float) * Layout<decltype(zero), 16, 8>::floats <= shared_memory();
    };
    return a.r > 64 && a.r <= 128 && a.d > width_of(16) && visit(a.type, fits);
}

Cut cut_of(const CausalArgs& a) {
    constexpr std::int64_t min_tokens = 256, choices[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
    constexpr std::size_t max_bytes = 64 << 20;
    Cut best = cut_into(a, 1, 1, false);
    if (empty(a)) return best;
    const std::vector<double> reach = reaches(a);
    const bool wide_too = may_be_wide(a), tensor_cores = states_on_tensor_cores(a);
    double least = INFINITY;
    const auto consider = [&](std::int64_t segments, bool any_bytes) {
        Seen seen;
        for (const double x : reach) {
            const double n = std::min(x, static_cast<double>(a.N / segments));
            seen.sum += n, seen.most = std::max(seen.most, n);
        }
        for (const bool wide : {false, true}) {
            if (wide && !wide_too) continue;
            for (const int pieces : {1, 2, 4, 8}) {
                if (pieces > 1 && (segments == 1 || a.N / segments / pieces < min_tokens)) continue;
                const Cut cut = cut_into(a, segments, pieces, wide);
                if (cut.segments > 1 && !any_bytes && workspace(a, cut) > max_bytes) continue;
                const double clocks = clocks_of(a, cut, seen, tensor_cores);
                if (clocks < least) least = clocks, best = cut;
            }
        }
    };
    if (a.splits > 0) {
        consider(std::min<std::int64_t>(a.splits, (a.N + tokens - 1) / tokens), true);
        return best;
    }
    for (const std::int64_t segments : choices)
        if (segments == 1 || a.N / segments >= min_tokens) consider(segments, false);
    return best;
}

std::size_t workspace(const CausalArgs& a, const Cut& cut) {
    if (cut.segments <= 1) return 0;
    const std::int64_t states = 1 + std::int64_t{cut.segments - 1} * cut.pieces;
    return static_cast<std::size_t>(a.B * a.H * states * a.r * a.d) * sizeof(float);
}

bool lies_in_fours(const void* data, Type type, Strides s, int columns) {
    return columns % 4 == 0 && reinterpret_cast<std::uintptr_t>(data) % (4 * bytes_of(type)) == 0 && s.batch % 4 == 0 &&
           s.head % 4 == 0 && s.token % 4 == 0;
}

std::size_t shared_memory() {
    int current = 0, bytes = 0;
    check(cudaGetDevice(&current), "asking for the current device");
    check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, current),
          "asking for the shared memory of a block");
    return static_cast<std::size_t>(bytes);
}

void run_states(const CausalArgs& a, const Args& x, bool wide, cudaStream_t stream) {
    const std::int64_t batch_heads = a.B * x.heads, of_pieces = batch_heads * x.carried_pieces();
    if (states_on_tensor_cores(a)) {
        Args y = x;
        y.column_blocks = (a.d + StatesLayout::width - 1) / StatesLayout::width;
        launch(tile_states, "launching tile_states", dim3(static_cast<unsigned>(of_pieces * y.column_blocks)),
               StatesLayout::threads, sizeof(float) * StatesLayout::floats, 1, false, stream, y);
    } else {
        run_order<Order::state>("launching the states of causal_tile", a, x, wide, of_pieces * x.column_blocks, stream);
    }
    const dim3 grid(static_cast<unsigned>(batch_heads), static_cast<unsigned>((a.r * a.d + 255) / 256));
    launch(sum_pieces, "launching sum_pieces", grid, 256, 0, 1, false, stream, x);
}

}  // namespace causeway::gpu::tile
