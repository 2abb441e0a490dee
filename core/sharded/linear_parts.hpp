// What a rank computes of linear attention with gates and delta rules with its tokens of a state, and of its gradient.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/gradient/chunk_passes.hpp"
#include "core/sharded/gradients.hpp"
#include "core/sharded/handed.hpp"
#include "core/sharded/route.hpp"

namespace causeway::sharded {

template <class T>
class LinearPart final : public ByState<T> {
public:
    LinearPart(const gated::Problem<T>& p, typename StatePiece<T>::Run run, const Starts& starts, int rank,
               bool may_forget)
        : ByState<T>(p.dk * p.dv, carry_of(p)),
          p_(p),
          piece_(p, std::move(run), starts, rank),
          elements_(p.dk * p.dv),
          may_forget_(may_forget) {}

    void first(Index i, T* S) const override { std::copy_n(p_.S + i * elements_, elements_, S); }
    void last(Index i, const T* S) override { std::copy_n(S, elements_, p_.S + i * elements_); }
    void run(Index i, T* S) override { piece_.outputs(i, S); }
    void advance(Index i, T* S) const override { piece_.state_alone(i, S); }
    void map(Index i, T* A) const override { piece_.map(i, A); }

    bool may_forget() const override { return may_forget_; }
    // A head counts as one that forgets where that takes at most half of the part, which is computed twice.
    std::vector<char> forgets(Stops stops) override {
        reach_.resize(static_cast<std::size_t>(p_.all_heads()));
        std::vector<char> out;
        for (const Stop& s : stops) {
            Index& n = reach_[static_cast<std::size_t>(s.state)];
            if (s.after) n = piece_.reach_back(s.state);
            out.push_back(s.after && 2 * n <= piece_.piece(s.state).n);
        }
        return out;
    }
    void last_tokens_of(Index i, T* S) const override {
        piece_.state_of_last(i, reach_[static_cast<std::size_t>(i)], S);
    }
    std::vector<char> differ(Stops stops, const T* S, const T* handed) override {
        return differing(stops.size(), S, handed, p_.dk, p_.dv, p_.beta != nullptr);
    }

    Work run_work(Index i) const override { return piece_.work(i, static_cast<double>(p_.group)); }
    Work advance_work(Index i) const override { return piece_.work(i, 0); }
    Work map_work(Index i) const override { return piece_.map_work(i); }

private:
    const gated::Problem<T>& p_;
    StatePiece<T> piece_;
    Index elements_;
    bool may_forget_;
    std::vector<Index> reach_;  // of every state, the last tokens that make what is handed on
};

template <class T>
class LinearGradPart final : public GradByState<T> {
public:
    using Back = std::function<void(const gradient::GradProblem<T>&)>;

    // in_chunks: `back` is the chunkwise form.
    LinearGradPart(const gradient::GradProblem<T>& p, typename StatePiece<T>::Run run, Back back, bool in_chunks,
                   const Starts& starts, int rank, bool may_forget)
        : GradByState<T>(p.in.dk * p.in.dv, carry_of(p.in)),
          p_(p),
          piece_(p.in, std::move(run), starts, rank),
          back_(std::move(back)),
          elements_(p.in.dk * p.in.dv),
          in_chunks_(in_chunks),
          passes_(static_cast<std::size_t>(in_chunks ? p.in.all_heads() : 0)) {
        if (may_forget) given_.assign(p.dS, p.dS + p.in.all_heads() * elements_);
    }

    void first(Index i, T* S) const override { std::copy_n(p_.in.S + i * elements_, elements_, S); }
    void last(Index, const T*) override {}
    void run(Index i, T* S) override { piece_.state_alone(i, S); }
    void advance(Index i, T* S) const override { piece_.state_alone(i, S); }
    void map(Index i, T* A) const override { piece_.map(i, A); }
    void last_gradient(Index i, T* dS) const override {
        std::copy_n((given_.empty() ? p_.dS : given_.data()) + i * elements_, elements_, dS);
    }
    void first_gradient(Index i, const T* dS) override { std::copy_n(dS, elements_, p_.dS + i * elements_); }
    void forth(Index i, const T* S, T* dS) override {
        if (in_chunks_ && piece_.piece(i).n > 0) {
            auto& passes = passes_[static_cast<std::size_t>(i)];
            const gradient::GradProblem<T> one = tokens(i, S, dS);
            passes = std::make_unique<gradient::ChunkPasses<T>>(one.head(0), one.in.chunk);
            passes->forward(dS);
            return;
        }
        std::copy_n(S, elements_, dS);
        piece_.state_alone(i, dS);
    }
    void back(Index i, const T* S, T* dS) override {
        if (piece_.piece(i).n == 0) return;
        const gradient::GradProblem<T> one = tokens(i, S, dS);
        clear_sums(one);
        if (!in_chunks_ || !passes_[static_cast<std::size_t>(i)]) return back_(one);
        auto& passes = passes_[static_cast<std::size_t>(i)];
        passes->backward();
        passes.reset();
    }

    bool may_forget_both_ways() const override { return !given_.empty(); }
    // A head counts as one that forgets where that takes at most half of the part, which is then computed twice.
    std::vector<char> forgets_both_ways(Stops stops) override {
        reach_.resize(given_.size() / static_cast<std::size_t>(std::max<Index>(elements_, 1)));
        std::vector<char> out;
        for (const Stop& s : stops) {
            auto& [first, last] = reach_[static_cast<std::size_t>(s.state)];
            const Index n = piece_.piece(s.state).n;
            first = s.before ? piece_.reach(s.state) : 0, last = s.after ? piece_.reach_back(s.state) : 0;
            out.push_back(2 * first <= n && 2 * last <= n);
        }
        return out;
    }
    void last_tokens_of(Index i, T* S) const override {
        piece_.state_of_last(i, reach_[static_cast<std::size_t>(i)].second, S);
    }
    void first_tokens_of(Index i, T* dS) override {
        std::fill_n(dS, elements_, T(0));
        state_gradient_of_first(i, reach_[static_cast<std::size_t>(i)].first, dS);
    }
    void state_gradient(Index i, const T*, T* dS) override { state_gradient_of_first(i, piece_.piece(i).n, dS); }
    std::vector<char> differ(Stops stops, const T* S, const T* handed) override {
        return differing(stops.size(), S, handed, p_.in.dk, p_.in.dv, true);
    }
    Index kept(Index i) const override {
        const Index n = piece_.piece(i).n;
        if (!in_chunks_ || n == 0 || (!p_.in.beta && p_.in.gates == 0)) return 0;
        const Index c = std::min(p_.in.chunk, n);
        return (n + c - 1) / c * elements_;
    }
    Work run_work(Index i) const override { return piece_.work(i, 0); }
    Work advance_work(Index i) const override { return piece_.work(i, 0); }
    Work forth_work(Index i) const override { return piece_.work(i, 0); }
    Work back_work(Index i) const override {
        Work work = piece_.work(i, static_cast<double>(p_.in.group));
        work.operations *= 2.5, work.elements *= 2;  // five products for two of the forward pass
        return work;
    }
    // A product of the queries for one of the keys, and with the delta rule the same besides.
    Work state_gradient_work(Index i) const override { return piece_.work(i, p_.in.beta ? 1 : 0); }

private:
    // dS <- Aᵀ dS + C of the first n tokens. It hangs on no state; a form that is not chunkwise makes the gradients of
    // these tokens too, which are written once more later.
    void state_gradient_of_first(Index i, Index n, T* dS) const {
        if (n == 0) return;
        if (in_chunks_) {
            const gradient::GradProblem<T> one = tokens(i, nullptr, dS, n);
            return gradient::run_state_gradient(one.head(0), one.in.chunk);
        }
        Buffer<T> zeros(elements_);
        std::fill_n(zeros.data(), elements_, T(0));
        const gradient::GradProblem<T> one = tokens(i, zeros.data(), dS, n);
        clear_sums(one);
        back_(one);
    }

    // The rank's tokens of state i, or the first n of them, as a problem of their own.
    gradient::GradProblem<T> tokens(Index i, const T* S, T* dS, Index n = -1) const {
        Piece piece = piece_.piece(i);
        if (n >= 0) piece.n = n;
        const gradient::GradHead<T> h = p_.head(i);
        gradient::GradProblem<T> one;
        one.in = alone(p_.in, i, piece, const_cast<T*>(S));  // the backward pass does not change it
        one.dO = h.dO + piece.offset * p_.in.dv;
        one.dq = h.dq + piece.offset * p_.in.dk;
        one.dk = h.dk + piece.offset * p_.in.dk;
        one.dv = h.dv + piece.offset * p_.in.dv;
        one.dg = h.dg ? h.dg + piece.offset * p_.in.gates : nullptr;
        one.dbeta = h.dbeta ? h.dbeta + piece.offset : nullptr;
        one.dS = dS;
        return one;
    }

    // Gradients of gates and steps are added up.
    static void clear_sums(const gradient::GradProblem<T>& one) {
        const Index n = one.in.sequences[0].n;
        if (one.dg) std::fill_n(one.dg, n * one.in.gates, T(0));
        if (one.dbeta) std::fill_n(one.dbeta, n, T(0));
    }

    const gradient::GradProblem<T>& p_;
    StatePiece<T> piece_;
    Back back_;
    Index elements_;
    bool in_chunks_;
    std::vector<T> given_;  // the gradients that arrive at the last states, where heads may forget
    std::vector<std::pair<Index, Index>> reach_;  // of each state, of the first and of the last tokens
    std::vector<std::unique_ptr<gradient::ChunkPasses<T>>> passes_;  // of the states whose first pass is done
};

}  // namespace causeway::sharded
