// The way of the states of the gated and delta-rule family through the ranks, and what a rank computes with one.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "core/sharded/handed.hpp"
#include "core/sharded/split.hpp"
#include "core/sharded/states.hpp"

namespace causeway::sharded {

// Of states numbered sequence by sequence, `heads` of each; elements and carry are the caller's to set.
inline Route route_of(const std::vector<gated::Sequence>& sequences, Index heads, const Starts& starts, int rank) {
    Route z;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
        const gated::Sequence& s = sequences[i];
        z.packed = z.packed || (i > 0 && s.batch == sequences[i - 1].batch);
        const Piece piece = piece_of(s, starts, rank);
        // It leaves the rank that has its first token, if that does not have the last one too.
        const int begins = s.n > 0 ? first_rank(s, starts) : 0;
        const int ends = s.n > 0 ? first_rank({s.batch, s.first + s.n - 1, 1}, starts) : 0;
        const bool leaves = ends > begins;
        for (Index h = 0; h < heads; ++h) {
            const Index slot = leaves ? z.slots++ : -1;
            if (piece.here)
                z.stops.push_back({static_cast<Index>(i) * heads + h, piece.before, piece.after, begins, ends, slot});
        }
    }
    return z;
}

// The ranks that have the first and the last tokens of every state.
inline std::vector<int> owners_of(const std::vector<gated::Sequence>& sequences, Index heads, const Starts& starts,
                                  bool last) {
    std::vector<int> owners;
    for (const gated::Sequence& s : sequences)
        for (Index h = 0; h < heads; ++h)
            owners.push_back(s.n == 0 ? 0 : first_rank({s.batch, last ? s.first + s.n - 1 : s.first, 1}, starts));
    return owners;
}

template <class T>
std::vector<gated::Sequence> sequences_of(const gated::Problem<T>& p) {
    std::vector<gated::Sequence> out;
    for (Index i = 0; i < p.all_sequences(); ++i) out.push_back(p.sequence(i));
    return out;
}

// The rank's tokens of state i as a problem of their own.
template <class T>
gated::Problem<T> alone(const gated::Problem<T>& p, Index i, const Piece& piece, T* S) {
    gated::Head<T> h = p.head(i);
    gated::Problem<T> one;
    one.N = h.step, one.dk = h.dk, one.dv = h.dv, one.group = h.group, one.gates = h.gates;
    one.sequences = {{0, 0, piece.n}};
    one.q = h.q ? h.q + piece.offset * h.dk : nullptr;
    one.k = h.k + piece.offset * h.dk, one.v = h.v + piece.offset * h.dv;
    one.g = h.g ? h.g + piece.offset * h.gates : nullptr;
    one.beta = h.beta ? h.beta + piece.offset : nullptr;
    one.O = h.O ? h.O + piece.offset * h.dv : nullptr;
    one.S = S;
    one.scale = h.scale;
    one.chunk = std::max<Index>(1, std::min(p.chunk, piece.n));
    return one;
}

// How many elements A of a problem has.
template <class T>
Index carry_of(const gated::Problem<T>& p) {
    return p.beta ? p.dk * p.dk : p.gates;
}

// A state and the tokens of a rank: what all parts of the family have in common. `run` computes a problem.
template <class T>
class StatePiece {
public:
    using Run = std::function<void(const gated::Problem<T>&)>;

    StatePiece(const gated::Problem<T>& p, Run run, const Starts& starts, int rank) : p_(p), run_(std::move(run)) {
        for (const gated::Sequence& s : sequences_of(p)) pieces_.push_back(piece_of(s, starts, rank));
    }

    const Piece& piece(Index i) const { return pieces_[static_cast<std::size_t>(i / p_.heads)]; }
    void outputs(Index i, T* S) const {
        if (piece(i).n > 0) run_(alone(p_, i, piece(i), S));
    }
    void state_alone(Index i, T* S) const { state_of(i, piece(i), S); }
    // A: what the rule makes of the unit matrix with values of zero; of a diagonal the products of the gates.
    void map(Index i, T* A) const {
        const Index n = piece(i).n, dk = p_.dk;
        gated::Problem<T> one = alone(p_, i, piece(i), A);
        if (!p_.beta) {
            for (Index c = 0; c < p_.gates; ++c) A[c] = static_cast<T>(left_after(one, n, c));
            return;
        }
        for (Index e = 0; e < dk; ++e)
            for (Index c = 0; c < dk; ++c) A[e * dk + c] = e == c ? T(1) : T(0);
        if (n == 0) return;
        Buffer<T> zeros(n * dk);
        std::fill_n(zeros.data(), zeros.size(), T(0));
        one.group = 0, one.q = nullptr, one.O = nullptr;
        one.v = zeros.data(), one.dv = dk;
        run_(one);
    }

    // After how many tokens of the rank, in whole chunks, the gates have left less than a place behind the last of a
    // state before them that is no larger than what the tokens make; more than there are where they do not.
    Index reach(Index i) const {
        const Index n = tokens_that_forget(i, false);
        return n > piece(i).n ? n : first_in_units(n, piece(i).n, p_.chunk);
    }
    // The same for the last tokens, from the first one of a chunk on.
    Index reach_back(Index i) const {
        const Index all = piece(i).n, n = tokens_that_forget(i, true);
        return n > all ? n : last_in_units(n, all, p_.chunk);
    }
    // S <- the state after the last n tokens, from zeros before them.
    void state_of_last(Index i, Index n, T* S) const {
        std::fill_n(S, p_.dk * p_.dv, T(0));
        Piece last = piece(i);
        last.offset += last.n - n, last.n = n;
        state_of(i, last, S);
    }

    // Multiplications and additions, and elements read and written, of the chunkwise form.
    Work work(Index i, double group) const {
        const auto n = static_cast<double>(piece(i).n), dk = static_cast<double>(p_.dk),
                   dv = static_cast<double>(p_.dv), chunk = static_cast<double>(std::min(p_.chunk, piece(i).n));
        const double delta = p_.beta ? 1 : 0;
        return {2 * n * (dk * dv * (1 + group + delta) + chunk / 2 * (dk + dv) * (group + delta)),
                n * ((1 + group) * dk + (1 + group) * dv + static_cast<double>(p_.gates) + delta), 1};
    }
    Work map_work(Index i) const {
        const auto n = static_cast<double>(piece(i).n), dk = static_cast<double>(p_.dk);
        return p_.beta ? Work{6 * n * dk * dk, n * dk, 1} : Work{};
    }

private:
    void state_of(Index i, const Piece& tokens, T* S) const {
        if (tokens.n == 0) return;
        gated::Problem<T> one = alone(p_, i, tokens, S);
        one.group = 0, one.q = nullptr, one.O = nullptr;
        run_(one);
    }
    // After how many of the rank's tokens, from the first or from the last one on, less than `unseen` is left of a
    // state before them; more than there are where that is never so, without gates, and with the delta rule where a
    // token makes a state longer, unless 0 <= β |k|² <= 2. O(n d_k).
    Index tokens_that_forget(Index i, bool from_end) const {
        const Index n = piece(i).n, dk = p_.dk;
        const double forgotten = std::log(unseen<T>);
        const gated::Problem<T> one = alone<T>(p_, i, piece(i), nullptr);
        std::vector<double> left(static_cast<std::size_t>(p_.beta ? 1 : p_.gates));  // its logarithm, of each column
        Index found = n + 1;
        for (Index j = 0; j < n && p_.gates > 0; ++j) {
            const Index t = from_end ? n - 1 - j : j;
            const T* const g = one.g + t * p_.gates;
            if (p_.beta) {
                const double shortens = sum_of_squares(one.k + t * dk, dk) * static_cast<double>(one.beta[t]);
                if (!(shortens >= 0 && shortens <= 2)) return n + 1;
                left[0] += static_cast<double>(*std::max_element(g, g + p_.gates));
            } else {
                for (std::size_t c = 0; c < left.size(); ++c) left[c] += static_cast<double>(g[c]);
            }
            if (found > n && *std::max_element(left.begin(), left.end()) <= forgotten) found = j + 1;
            if (found <= n && !p_.beta) break;
        }
        return found;
    }
    // In lanes: one sum after the other would wait for itself.
    static double sum_of_squares(const T* x, Index n) {
        std::array<double, 16> lanes{};
        const auto width = static_cast<Index>(lanes.size());
        const auto square = [x](Index e) { return static_cast<double>(x[e]) * static_cast<double>(x[e]); };
        Index e = 0;
        for (; e + width <= n; e += width)
            for (Index j = 0; j < width; ++j) lanes[static_cast<std::size_t>(j)] += square(e + j);
        double sum = 0;
        for (; e < n; ++e) sum += square(e);
        for (const double lane : lanes) sum += lane;
        return sum;
    }
    // What the gates of column c leave after n tokens.
    static double left_after(const gated::Problem<T>& one, Index n, Index c) {
        double sum = 0;
        for (Index t = 0; t < n; ++t) sum += static_cast<double>(one.g[t * one.gates + c]);
        return std::exp(sum);
    }

    const gated::Problem<T>& p_;
    Run run_;
    std::vector<Piece> pieces_;
};

}  // namespace causeway::sharded
