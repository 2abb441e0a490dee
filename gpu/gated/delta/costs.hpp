// What the plans of the delta rule know of times and thread blocks.
#pragma once

#include "gpu/gated/delta/plan.hpp"

namespace causeway::gpu::gated_delta {

// In units of the time of one chunk with outputs of 128 columns, 2.65 µs (docs/kernels/delta.md): a chunk without them,
// what a thread block needs to start, a guess of how many chunks gates reach back, and what the launches for maps take
// besides.
constexpr double replay_cost = 0.7, start_cost = 3, expected_reach = 4, launch_cost = 8;
// Which heads forget is known on the device alone: how likely it is that all do.
constexpr double all_forget = 0.75;
constexpr int max_finer = 4;
// Where 128 columns are two thread blocks, which takes turns away from the tensor cores and work from the chain of a
// chunk: what it takes then, with half of the device and with all of it.
constexpr double halved_cost = 0.79, halved_full_cost = 0.88;

inline std::int64_t ceil_div(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

// What a wave of so many thread blocks takes for a chunk, in those units.
inline double chunk_cost(const Blocks& p, std::int64_t blocks, int at_once) {
    if (!p.halved) return 1;
    return 2 * blocks <= at_once ? halved_cost : halved_full_cost;
}

// What a step of the scan over so many states at once takes, in those units.
inline double scan_cost(const GatedArgs& a, const Blocks& p, std::int64_t states, int at_once) {
    const int columns = scan_columns(states, a.dv, p.rows, at_once);
    const double each = columns == 8 ? 0.8 : columns == 16 ? 1.1 : 1.8;
    return each * static_cast<double>(ceil_div(states * ceil_div(a.dv, columns), at_once));
}

// halved: with two thread blocks for 128 columns.
inline Blocks blocks_of(const GatedArgs& a, bool halved = false) {
    Blocks p;
    p.halved = halved;
    p.columns = a.dv <= 64 || halved ? 64 : 128;
    p.column_blocks = ceil_div(a.dv, p.columns);
    p.state_heads = a.B * a.H;
    p.batch_heads = p.state_heads * a.group;
    p.rows = a.dk <= 64 ? 64 : 128;
    if (a.beta) p.identity_blocks = ceil_div(p.rows, p.columns);
    return p;
}

// Whether 128 columns may be two thread blocks. What it takes is known for the delta rule alone.
inline bool may_be_halved(const GatedArgs& a) { return a.beta && a.dv > 64; }

// How a call on one sequence of n chunks is cut, and into which blocks.
struct Choice {
    Cut cut;
    bool halved = false;
};
Choice choice_of(const GatedArgs& a, std::int64_t n);

}  // namespace causeway::gpu::gated_delta
