// The gradients that go part by part: how many tokens go together between two launches, and where the states before the
// parts lie.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/gradient/problem.hpp"

namespace causeway::gpu::gradient {

// N tokens in parts of `each`, but for the last one, which is taken first; C: tokens of a chunk.
struct Parts {
    std::int64_t N = 0, C = 1, each = 0, count = 0;

    Parts() = default;
    Parts(std::int64_t all, std::int64_t of_chunk, std::int64_t chunks)
        : N(all), C(of_chunk), each(chunks * C), count(each > 0 ? (N + each - 1) / each : 0) {}
    std::int64_t tokens(std::int64_t i) const { return std::min(each, N - i * each); }
    std::int64_t chunks(std::int64_t i) const { return (tokens(i) + C - 1) / C; }
};

// Of at most `most` chunks of a head, and no fewer than `least` where it has so many, those with which the blocks that
// finish chunks, one for each chunk of each of the heads, take the fewest rounds of `at_once` blocks: the last round of
// a part leaves multiprocessors idle. What comes before them, and waits for the part before, counts as half a round.
inline Parts parts_of(std::int64_t N, std::int64_t C, std::int64_t heads, std::int64_t most, std::int64_t at_once,
                      std::int64_t least = 1) {
    const std::int64_t all_chunks = (N + C - 1) / C;
    least = std::max<std::int64_t>(least, 1), most = std::max(most, least);
    if (all_chunks <= most) return {N, C, all_chunks};  // no two parts have fewer rounds than one
    Parts best;
    double best_rounds = 0;
    for (std::int64_t chunks = most; chunks >= least; --chunks) {
        const Parts parts(N, C, chunks);
        const auto rounds = [&](std::int64_t i) { return (parts.chunks(i) * heads + at_once - 1) / at_once; };
        const std::int64_t last = parts.count - 1;
        const double all =
            static_cast<double>(last * rounds(0) + rounds(last)) + 0.5 * static_cast<double>(parts.count);
        if (best.count == 0 || all < best_rounds) best = parts, best_rounds = all;
    }
    return best;
}

// States of all batch-heads, `step` floats apart.
struct States {
    float* data;
    std::int64_t step;
};

// The states before the parts of a call: the first is the caller's. In dv (states_fit_in_dv) each other lies in the
// rows of its own part, which are written last of all that a part writes; else in `kept`, [part, batch-head, dk, dv].
// That before the last part, which may be short of rows, lies in `between`, where the gradient of the state between
// parts will be: it is read before that is written.
struct StatesBefore {
    const GatedGradArgs& a;
    const Parts& parts;
    float *kept, *between;  // kept null: in dv

    States operator()(std::int64_t i) const {
        const std::int64_t step = std::int64_t{a.in.dk} * a.in.dv;
        if (i == 0) return {a.in.state, step};
        if (i + 1 == parts.count) return {between, step};
        if (kept) return {kept + i * a.in.B * a.in.H * step, step};
        return {a.state_in_dv(i * parts.each), a.state_step_in_dv()};
    }
};

}  // namespace causeway::gpu::gradient
