// Which tokens a rank has, and which sequences go on in its neighbours' parts.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/calls/sharding.hpp"
#include "core/gated/problem.hpp"
#include "core/kit/packed.hpp"

namespace causeway::sharded {

// Where the part of every rank begins, and the end: starts[r] <= token < starts[r + 1].
using Starts = std::vector<Index>;

// Parts as equal as can be whose boundaries are multiples of `unit` tokens, or those of `sizes`. A chunk then has the
// same tokens on one worker and on p of them. Throws Error.
inline Starts starts_of(const Sharding& o, Index N, int p, Index unit) {
    Starts starts{0};
    if (o.sizes.empty()) {
        const Index units = (N + unit - 1) / unit;
        for (int r = 1; r <= p; ++r) starts.push_back(std::min(r * units / p * unit, N));
        starts.back() = N;
        return starts;
    }
    if (static_cast<int>(o.sizes.size()) != p)
        fail("sizes: ", o.sizes.size(), " lengths, expected one for each of the ", p, " shards");
    for (const Index n : o.sizes) {
        if (n < 0) fail("sizes: ", n, ", expected lengths of 0 or more");
        if (n > N) fail("sizes: ", n, ", expected at most ", N, ", the tokens there are");
        starts.push_back(starts.back() + n);
    }
    if (starts.back() != N) fail("sizes: ", starts.back(), " tokens together, expected ", N, " like q");
    return starts;
}

// At least the first or the last n of `all` tokens, up to a multiple of `unit` or from one on, counted from the first.
inline Index first_in_units(Index n, Index all, Index unit) { return std::min(all, (n + unit - 1) / unit * unit); }
inline Index last_in_units(Index n, Index all, Index unit) { return all - (all - n) / unit * unit; }

// The tokens that every rank has, in pieces.
using Shares = std::vector<std::vector<kit::Span>>;

inline Shares shares_of(const Starts& starts) {
    Shares out;
    for (std::size_t r = 0; r + 1 < starts.size(); ++r) out.push_back({{starts[r], starts[r + 1] - starts[r]}});
    return out;
}

// Two pieces a rank, the r-th from the front and the r-th from the back: every rank then has the same number of pairs
// of a query and a key before it.
inline Shares zigzag(Index N, int p) {
    Shares out;
    const auto start = [&](Index i) { return i * N / (2 * p); };
    for (int r = 0; r < p; ++r) {
        out.emplace_back();
        for (const Index i : {Index{r}, Index{2 * p - 1 - r}})
            out.back().push_back({start(i), start(i + 1) - start(i)});
    }
    return out;
}

// Of packed sequences the tokens that every rank has of each: a zigzag of each of them, or what of it lies between
// `starts`.
inline Shares packed_zigzag(const std::vector<kit::Span>& sequences, int p) {
    Shares out(static_cast<std::size_t>(p));
    for (const kit::Span& s : sequences) {
        const Shares own = zigzag(s.n, p);
        for (std::size_t r = 0; r < out.size(); ++r)
            for (const kit::Span& piece : own[r]) out[r].push_back({s.first + piece.first, piece.n});
    }
    return out;
}
inline Shares packed_shares(const std::vector<kit::Span>& sequences, const Starts& starts) {
    Shares out;
    for (std::size_t r = 0; r + 1 < starts.size(); ++r) {
        out.emplace_back();
        for (const kit::Span& s : sequences) {
            const Index first = std::clamp(starts[r], s.first, s.first + s.n);
            out.back().push_back({first, std::clamp(starts[r + 1], s.first, s.first + s.n) - first});
        }
    }
    return out;
}

inline Index length_of(const std::vector<kit::Span>& pieces) {
    Index n = 0;
    for (const kit::Span& t : pieces) n += t.n;
    return n;
}

// The sequences of a call of `batch` entries, or those that are packed into one, in the tokens of all ranks. Throws
// Error.
inline std::vector<gated::Sequence> whole_sequences(const std::vector<Index>& cu_seqlens, Index batch, Index tokens) {
    std::vector<gated::Sequence> out;
    if (cu_seqlens.empty())
        for (Index b = 0; b < batch; ++b) out.push_back({b, 0, tokens});
    else
        for (const kit::Span& s : kit::packed_spans(cu_seqlens, batch, tokens)) out.push_back({0, s.first, s.n});
    return out;
}

// Of one sequence, what a rank has: n tokens from `offset` on; and whether the sequence has tokens before and after
// them, so that a state arrives and goes on. A rank without tokens hands it through. A sequence without tokens is the
// first rank's.
struct Piece {
    Index offset = 0, n = 0;
    bool before = false, after = false, here = false;
};

inline Piece piece_of(const gated::Sequence& s, const Starts& starts, int rank) {
    const Index from = starts[static_cast<std::size_t>(rank)], to = starts[static_cast<std::size_t>(rank) + 1];
    const Index first = std::clamp<Index>(from - s.first, 0, s.n), last = std::clamp<Index>(to - s.first, 0, s.n);
    Piece piece{first, last - first, s.first < from && from < s.first + s.n, s.first < to && to < s.first + s.n, false};
    piece.here = piece.n > 0 || piece.before || piece.after || (s.n == 0 && rank == 0);
    return piece;
}

// The rank that has the first token of a sequence with tokens.
inline int first_rank(const gated::Sequence& s, const Starts& starts) {
    return static_cast<int>(std::upper_bound(starts.begin(), starts.end(), s.first) - starts.begin()) - 1;
}

}  // namespace causeway::sharded
