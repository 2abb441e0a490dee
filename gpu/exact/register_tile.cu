// The part of the engine that all methods share: how the sequence is cut, and the states that the pieces start from.
#include "gpu/base/device.hpp"
#include "gpu/exact/register_tile.cuh"

namespace causeway::gpu::tile {

std::int64_t segments_of(const CausalArgs& a) {
    constexpr std::int64_t min_tokens = 256, max_segments = 32;
    if (empty(a)) return 1;
    if (a.splits > 0) return std::min<std::int64_t>(a.splits, (a.N + tokens - 1) / tokens);
    const std::int64_t blocks = a.B * a.H * ((a.d + width - 1) / width),
                       longest = std::clamp<std::int64_t>(a.N / min_tokens, 1, max_segments);
    // Two blocks on a multiprocessor hide more of each other's latencies than one; that pays where the states cost next
    // to nothing.
    double reach = 0;
    for (std::int64_t h = 0; h < a.H; ++h)
        reach = std::max(reach, a.decay_of(h) < 1 ? unseen_bits / -std::log2(a.decay_of(h)) : INFINITY);
    const std::int64_t two = std::clamp<std::int64_t>(2 * device().multiprocessors / blocks, 1, longest);
    if (reach < 0.25 * static_cast<double>(a.N / two)) return two;
    return std::clamp<std::int64_t>(device().multiprocessors / blocks, 1, longest);
}

std::size_t workspace(const CausalArgs& a, std::int64_t segments) {
    return segments > 1 ? static_cast<std::size_t>(a.B * a.H * segments * a.r * a.d) * sizeof(float) : 0;
}

std::size_t shared_memory() {
    int current = 0, bytes = 0;
    check(cudaGetDevice(&current), "asking for the current device");
    check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, current),
          "asking for the shared memory of a block");
    return static_cast<std::size_t>(bytes);
}

void run_states(const CausalArgs& a, const Args& x, cudaStream_t stream) {
    run_order<Order::state>("launching the states of causal_tile", a, x,
                            a.B * x.heads * x.column_blocks * (x.segments - 1), stream);
}

}  // namespace causeway::gpu::tile
