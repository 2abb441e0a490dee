// What a rank computes of causal linear attention with its tokens of a state, and of its gradient.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "core/exact/registry.hpp"
#include "core/gated/forms.hpp"
#include "core/gradient/causal_linear_attention_grad.hpp"
#include "core/gradient/chunk_passes.hpp"
#include "core/sharded/gradients.hpp"
#include "core/sharded/handed.hpp"
#include "core/sharded/route.hpp"
#include "core/sharded/run.hpp"

namespace causeway::sharded {

// Chunks of passes over keys and values alone, and of splits for methods without a block of that size.
inline constexpr Index causal_chunk = 64;

inline Index unit_of(Index block) { return block >= 1 && block <= 256 ? block : causal_chunk; }

// What all states of a call have in common, in the terms of core/exact/problem.hpp; numbered sequence by sequence.
template <class T>
struct CausalSizes {
    Index heads = 1, N = 0, r = 0, d = 0;  // heads of a sequence
    bool normalize = false;
    std::function<double(Index)> decay;  // of a state
    const T *C = nullptr, *V = nullptr;
    std::vector<gated::Sequence> sequences;
    Index chunk = causal_chunk;  // of passes over keys and values alone
    Index unit = causal_chunk;   // a multiple of which is where a part begins

    Index states() const { return static_cast<Index>(sequences.size()) * heads; }
    const gated::Sequence& sequence(Index i) const { return sequences[static_cast<std::size_t>(i / heads)]; }
    // Of [batch, heads, N], the first token of a state's sequence.
    Index first_row(Index i) const { return (sequence(i).batch * heads + i % heads) * N + sequence(i).first; }
    Index width() const { return d + (normalize ? 1 : 0); }
    Index elements() const { return r * width(); }

    // What a piece leaves of the state before it.
    T left_after(Index i, const Piece& piece) const {
        return static_cast<T>(std::pow(decay(i), static_cast<double>(piece.n)));
    }
    // How many tokens forget what is before them: the decay leaves less than a place behind the last of a state no
    // larger than what they make. More than n, the tokens there are, where they do not.
    Index forgetting(Index i, Index n) const {
        const double gamma = decay(i);
        if (!(gamma < 1) || n == 0) return n + 1;
        const double tokens = std::max(1.0, std::ceil(std::log(unseen<T>) / std::log(gamma)));
        return tokens <= static_cast<double>(n) ? static_cast<Index>(tokens) : n + 1;
    }
    // The last ones of a piece, from the first one of a block on, and the first ones, up to the last one of a block.
    Index last_forgetting(Index i, const Piece& piece) const {
        const Index n = forgetting(i, piece.n);
        return n > piece.n ? n : last_in_units(n, piece.n, unit);
    }
    Index first_forgetting(Index i, const Piece& piece) const {
        const Index n = forgetting(i, piece.n);
        return n > piece.n ? n : first_in_units(n, piece.n, unit);
    }
    // S <- what the last n tokens of a piece make, from zeros before them.
    void advance_last(Index i, Piece piece, Index n, T* S) const {
        std::fill_n(S, elements(), T(0));
        piece.offset += piece.n - n, piece.n = n;
        advance(i, piece, S);
    }

    // S <- γ^n S + Σ_j γ^(n-j) c_jᵀ v_j over the tokens of a piece.
    void advance(Index i, const Piece& piece, T* S) const {
        if (piece.n == 0) return;
        const Index row = first_row(i) + piece.offset, w = width();
        gated::Problem<T> one;
        one.N = piece.n, one.dk = r, one.dv = w, one.group = 0, one.chunk = std::min(chunk, piece.n);
        one.k = C + row * r, one.v = V + row * d, one.S = S;
        Buffer<T> wide(normalize ? piece.n * w : 0), gates;
        for (Index t = 0; t < piece.n && normalize; ++t) {
            std::copy_n(V + (row + t) * d, d, wide.data() + t * w);
            wide[t * w + d] = T(1);
        }
        if (normalize) one.v = wide.data();
        if (const double gamma = decay(i); gamma != 1) {
            gates = Buffer<T>(piece.n);
            std::fill_n(gates.data(), piece.n, static_cast<T>(std::log(gamma)));
            one.gates = 1, one.g = gates.data();
        }
        gated::run_chunkwise(one);
    }
    Work work(const Piece& piece, double products) const {
        const auto n = static_cast<double>(piece.n), key = static_cast<double>(r), value = static_cast<double>(d);
        return {2 * n * (key * value * products + static_cast<double>(chunk) / 2 * (key + value) * (products - 1)),
                n * (key + value) * products, 1};
    }
};

// The tokens that a rank has of every sequence, among those of its own tensors.
inline std::vector<Piece> pieces_of(const Team& team, const std::vector<gated::Sequence>& sequences,
                                    const Starts& starts, int rank) {
    std::vector<Piece> pieces;
    for (const gated::Sequence& s : sequences) {
        pieces.push_back(piece_of(s, starts, rank));
        if (team.parts) pieces.back().offset = 0;
    }
    return pieces;
}

template <class T>
class CausalPart final : public ByState<T> {
public:
    // states: of all sequences, in and out.
    CausalPart(const exact::Method& method, const exact::Problem<T>& p, const CausalSizes<T>& sizes,
               std::vector<Piece> pieces, T* states, bool may_forget)
        : ByState<T>(sizes.elements(), 1),
          method_(method),
          p_(p),
          sizes_(sizes),
          pieces_(std::move(pieces)),
          states_(states),
          may_forget_(may_forget) {}

    void first(Index i, T* S) const override { std::copy_n(state_of(i), sizes_.elements(), S); }
    void last(Index i, const T* S) override { std::copy_n(S, sizes_.elements(), state_of(i)); }
    void run(Index i, T* S) override {
        const Index n = piece(i).n;
        if (n == 0) return;
        const Index row = sizes_.first_row(i) + piece(i).offset;
        const double gamma = sizes_.decay(i);
        exact::Problem<T> one = p_;
        one.batch = one.heads = 1, one.N = n;
        one.B += row * p_.r, one.C += row * p_.r, one.V += row * p_.d, one.O += row * p_.d;
        one.gamma = p_.gamma ? &gamma : nullptr;
        one.block = std::min(p_.block, n);
        one.state = S;
        exact::run(method_, one);
    }
    void advance(Index i, T* S) const override { sizes_.advance(i, piece(i), S); }
    void map(Index i, T* A) const override { A[0] = sizes_.left_after(i, piece(i)); }

    bool may_forget() const override { return may_forget_; }
    // As of linear attention with a gate per head.
    std::vector<char> forgets(Stops stops) override {
        std::vector<char> out;
        for (const Stop& s : stops) out.push_back(s.after && 2 * reach(s.state) <= piece(s.state).n);
        return out;
    }
    void last_tokens_of(Index i, T* S) const override { sizes_.advance_last(i, piece(i), reach(i), S); }
    std::vector<char> differ(Stops stops, const T* S, const T* handed) override {
        return differing(stops.size(), S, handed, p_.r, sizes_.width(), false);
    }

    Work run_work(Index i) const override { return sizes_.work(piece(i), 2); }
    Work advance_work(Index i) const override { return sizes_.work(piece(i), 1); }

private:
    const Piece& piece(Index i) const { return pieces_[static_cast<std::size_t>(i / sizes_.heads)]; }
    T* state_of(Index i) const { return states_ + i * sizes_.elements(); }
    Index reach(Index i) const { return sizes_.last_forgetting(i, piece(i)); }

    const exact::Method& method_;
    const exact::Problem<T>& p_;
    const CausalSizes<T>& sizes_;
    std::vector<Piece> pieces_;
    T* states_;
    bool may_forget_;
};

template <class T>
class CausalGradPart final : public GradByState<T> {
public:
    // states, gradients: of all sequences, before their first tokens and with respect to those. may_forget: without
    // normalisation, by which the gradient of a state hangs on the state itself.
    CausalGradPart(const gradient::GradProblem<T>& p, const CausalSizes<T>& sizes, std::vector<Piece> pieces,
                   const T* states, T* gradients, bool may_forget)
        : GradByState<T>(sizes.elements(), 1),
          p_(p),
          sizes_(sizes),
          pieces_(std::move(pieces)),
          states_(states),
          gradients_(gradients),
          passes_(static_cast<std::size_t>(sizes.states())) {
        if (may_forget) given_.assign(gradients, gradients + sizes.states() * sizes.elements());
    }

    void first(Index i, T* S) const override { std::copy_n(states_ + i * sizes_.elements(), sizes_.elements(), S); }
    void last(Index, const T*) override {}
    void run(Index i, T* S) override { advance(i, S); }
    void advance(Index i, T* S) const override { sizes_.advance(i, piece(i), S); }
    void map(Index i, T* A) const override { A[0] = sizes_.left_after(i, piece(i)); }
    void last_gradient(Index i, T* dS) const override {
        std::copy_n((given_.empty() ? gradients_ : given_.data()) + i * sizes_.elements(), sizes_.elements(), dS);
    }
    void first_gradient(Index i, const T* dS) override {
        std::copy_n(dS, sizes_.elements(), gradients_ + i * sizes_.elements());
    }
    void forth(Index i, const T* S, T* dS) override {
        std::copy_n(S, sizes_.elements(), dS);
        if (sizes_.normalize || piece(i).n == 0) return advance(i, dS);
        auto& passes = passes_[static_cast<std::size_t>(i)];
        const gradient::GradProblem<T> one = tokens(i, S, dS);
        passes = std::make_unique<gradient::ChunkPasses<T>>(one.head(0), one.in.chunk);
        passes->forward(dS);
    }
    void back(Index i, const T* S, T* dS) override {
        if (piece(i).n == 0) return;
        auto& passes = passes_[static_cast<std::size_t>(i)];
        if (!passes) return gradient::run_causal_grad(tokens(i, S, dS), sizes_.normalize);
        passes->backward();
        passes.reset();
    }

    bool may_forget_both_ways() const override { return !given_.empty(); }
    // As of linear attention with a gate per head.
    std::vector<char> forgets_both_ways(Stops stops) override {
        std::vector<char> out;
        for (const Stop& s : stops) {
            const Index n = piece(s.state).n;
            out.push_back((!s.before || 2 * first_reach(s.state) <= n) && (!s.after || 2 * last_reach(s.state) <= n));
        }
        return out;
    }
    void last_tokens_of(Index i, T* S) const override { sizes_.advance_last(i, piece(i), last_reach(i), S); }
    void first_tokens_of(Index i, T* dS) override {
        std::fill_n(dS, sizes_.elements(), T(0));
        state_backward(tokens(i, nullptr, dS, first_reach(i)));
    }
    std::vector<char> differ(Stops stops, const T* S, const T* handed) override {
        return differing(stops.size(), S, handed, p_.in.dk, sizes_.width(), false);
    }

    // With normalisation it hangs on the state, and gradients are written that are written once more later.
    void state_gradient(Index i, const T* S, T* dS) override {
        if (piece(i).n == 0) return;
        const gradient::GradProblem<T> one = tokens(i, S, dS);
        if (sizes_.normalize) gradient::run_causal_grad(one, true);
        else state_backward(one);
    }
    Index kept(Index i) const override {
        const Index n = piece(i).n;
        if (sizes_.normalize || n == 0 || !p_.in.g) return 0;
        const Index c = std::min(p_.in.chunk, n);
        return (n + c - 1) / c * sizes_.elements();
    }
    Work run_work(Index i) const override { return sizes_.work(piece(i), 1); }
    Work advance_work(Index i) const override { return sizes_.work(piece(i), 1); }
    Work forth_work(Index i) const override { return sizes_.work(piece(i), 1); }
    Work back_work(Index i) const override { return sizes_.work(piece(i), 5); }
    Work state_gradient_work(Index i) const override {
        return sizes_.normalize ? back_work(i) : sizes_.work(piece(i), 1);
    }

private:
    const Piece& piece(Index i) const { return pieces_[static_cast<std::size_t>(i / sizes_.heads)]; }
    Index first_reach(Index i) const { return sizes_.first_forgetting(i, piece(i)); }
    Index last_reach(Index i) const { return sizes_.last_forgetting(i, piece(i)); }
    static void state_backward(const gradient::GradProblem<T>& one) {
        gradient::run_state_gradient(one.head(0), one.in.chunk);
    }
    // The rank's tokens of state i, or the first `count` of them, as a problem of their own.
    gradient::GradProblem<T> tokens(Index i, const T* S, T* dS, Index count = -1) const {
        const Index n = count >= 0 ? count : piece(i).n, row = sizes_.first_row(i) + piece(i).offset, r = p_.in.dk,
                    d = p_.in.dv;
        gradient::GradProblem<T> one = p_;
        one.in.batch = one.in.heads = 1, one.in.N = n;
        one.in.chunk = std::min(p_.in.chunk, n);
        one.in.q += row * r, one.in.k += row * r, one.in.v += row * d;
        if (one.in.g) one.in.g += row, one.dg += row;
        one.in.S = const_cast<T*>(S);  // the backward pass does not change it
        one.dO += row * d, one.dq += row * r, one.dk += row * r, one.dv += row * d;
        one.dS = dS;
        return one;
    }

    const gradient::GradProblem<T>& p_;
    const CausalSizes<T>& sizes_;
    std::vector<Piece> pieces_;
    const T* states_;
    T* gradients_;
    std::vector<T> given_;  // the gradients that arrive at the last states, where heads may forget
    std::vector<std::unique_ptr<gradient::ChunkPasses<T>>> passes_;  // of the states whose first pass is done
};

}  // namespace causeway::sharded
