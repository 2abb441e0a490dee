#include "gpu/sharded/forward.hpp"

#include <cmath>

namespace causeway::gpu::sharded {

namespace {

// States that a rank which waits computes at a time: without the delta rule kernels are bound by memory and a few heads
// occupy a GPU; with it every head is a walk, and as many as can be go side by side. By maps, which come before the
// outputs, less is waited for, and in a short sequence it costs less than to start more kernels.
Index together(Index states, bool delta) {
    constexpr Index blocks = 4;
    return std::max<Index>(1, delta ? states : (states + blocks - 1) / blocks);
}
Index together_by_maps(Index states, Index tokens) {
    constexpr Index in_two = Index{1} << 20;
    return states * tokens < in_two ? states : (states + 1) / 2;
}

}  // namespace

Starts waiting_starts(std::int64_t N, int p, std::int64_t unit, std::int64_t states, std::int64_t kept) {
    // What a rank waits, as a share of the time of the one before it; its part is shorter by that. Where a rank waits
    // for nearly all that the one before it does, none gains by a shorter part; all keep one, and its memory is shared.
    constexpr double most = 0.5;
    const Index first = std::min<Index>(together(states, false), kept),
                waited = std::max<Index>(0, first - (states - kept));
    const double share = states > 0 ? std::min(most, static_cast<double>(waited) / static_cast<double>(states)) : 0;
    std::vector<double> ends{0};
    for (double length = 1; static_cast<int>(ends.size()) <= p; length *= 1 - share)
        ends.push_back(ends.back() + length);
    Starts starts;
    for (const double end : ends)
        starts.push_back(std::min<std::int64_t>(
            N, std::llround(static_cast<double>(N) * end / ends.back() / static_cast<double>(unit)) * unit));
    starts.back() = N;
    return starts;
}

Starts weighted_starts(std::int64_t N, int p, std::int64_t unit, double of_others, double of_last) {
    const double all = (p - 1) * of_others + of_last;
    Starts starts;
    for (int r = 0; r < p; ++r)
        starts.push_back(std::min<std::int64_t>(
            N, std::llround(static_cast<double>(N) * r * of_others / all / static_cast<double>(unit)) * unit));
    starts.push_back(N);
    return starts;
}

Starts scanned_starts(std::int64_t N, int p, std::int64_t unit) {
    // k and v once for the map, then q, k, v and o; the last rank reads k and v of about half its tokens before.
    return weighted_starts(N, p, unit, 1.0 / 6, 1.0 / 5);
}

SharedSequences::SharedSequences(const std::vector<Index>& cu_seqlens, Index batch, Index of_heads, Index N)
    : list{{0, 0, N}}, heads(batch * of_heads), packed(!cu_seqlens.empty()) {
    if (packed) list = causeway::sharded::whole_sequences(cu_seqlens, batch, N), heads = of_heads;
}

std::vector<Span> SharedSequences::of_rank(const Starts& starts, int rank) const {
    std::vector<Span> out;
    for (const auto& s : list) {
        if (!packed) break;
        const causeway::sharded::Piece piece = causeway::sharded::piece_of(s, starts, rank);
        out.push_back({s.first + piece.offset - starts[static_cast<std::size_t>(rank)], piece.n});
    }
    return out;
}

Route route_of(const Communicator& comm, const Tokens& tokens, const SharedSequences& sequences, const Starts& starts,
               Exchange exchange) {
    Route z = causeway::sharded::route_of(sequences.list, sequences.heads, starts, comm.rank());
    z.elements = tokens.elements(), z.rows = tokens.rows(), z.carry = tokens.carry();
    // Of packed sequences neighbours have one in common, the same heads of it if each takes all at once.
    z.alike = true;
    if (sequences.packed) {
        z.together = static_cast<int>(std::max<Index>(1, z.count()));
        return z;
    }
    const Index tokens_each = starts.back() / comm.size();  // all ranks have the same answer
    z.together =
        static_cast<int>(exchange == Exchange::all_scan && (z.carry <= z.rows || tokens.in_steps()) && z.slots > 0
                             ? together_by_maps(tokens.states(), tokens_each)
                             : together(tokens.states(), z.slots == 0 || z.carry > z.rows));
    return z;
}

Exchange forward(Communicator& comm, const SharedSequences& sequences, const Starts& starts, Tokens& tokens,
                 Exchange exchange, const float* first_states, float* last_states, bool scan_gives_way) {
    const Route z = route_of(comm, tokens, sequences, starts, exchange);
    TokenPart<causeway::sharded::Part<float>> part(tokens, first_states, last_states);
    return causeway::sharded::forward(comm, z, part, exchange, scan_gives_way);
}

}  // namespace causeway::gpu::sharded
