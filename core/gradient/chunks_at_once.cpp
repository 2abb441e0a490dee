#include "core/gradient/chunks_at_once.hpp"

#include <deque>
#include <memory>
#include <optional>

#include "core/base/parallel.hpp"
#include "core/gated/chunks.hpp"
#include "core/gradient/chunk.hpp"
#include "core/gradient/chunk_states.hpp"

namespace causeway::gradient {
namespace {

// n rows of `columns` numbers, from one stride to another.
template <class T>
void copy_rows(const T* from, Index from_stride, T* into, Index into_stride, Index n, Index columns) {
    for (Index i = 0; i < n; ++i) std::copy_n(from + i * from_stride, columns, into + i * into_stride);
}

// Of all chunks; empty without the delta rule.
template <class T>
using Scores = std::vector<std::optional<ChunkScores<T>>>;
template <class T>
const ChunkScores<T>* of_chunk(const Scores<T>& scores, Index i) {
    return scores.empty() ? nullptr : &*scores[static_cast<std::size_t>(i)];
}

// Columns [from, from + columns) of the values of a head, as a head of their own.
template <class T>
class Columns {
public:
    // q: [group, N, dk], one head behind the other.
    Columns(const GradHead<T>& whole, const T* q, Index c, Index chunks, Index from, Index columns)
        : whole_(whole),
          from_(from),
          c_(c),
          chunks_(chunks),
          v_(whole.in.N * columns),
          dO_(whole.in.group * whole.in.N * columns),
          dv_(whole.in.N * columns),
          S_(whole.in.dk * columns),
          dS_(whole.in.dk * columns),
          own_(whole) {
        const Index N = whole.in.N;
        take(whole.in.v, v_.data(), N, columns);
        for (Index i = 0; i < whole.in.group; ++i)
            take(whole.dO + i * whole.in.step * whole.in.dv, dO_.data() + i * N * columns, N, columns);
        take(whole.in.S, S_.data(), whole.in.dk, columns);
        take(whole.dS, dS_.data(), whole.in.dk, columns);
        own_.in.q = q, own_.in.v = v_.data(), own_.in.S = S_.data(), own_.in.O = nullptr;
        own_.in.dv = columns, own_.in.step = N;
        own_.dO = dO_.data(), own_.dv = dv_.data(), own_.dS = dS_.data();
        own_.dq = own_.dk = own_.dg = own_.dbeta = nullptr;
        before_ = std::make_unique<ChunkStates<T>>(own_.in, chunks);
        after_ = std::make_unique<ChunkStates<T>>(own_.in, chunks);
    }

    // The states before all chunks, and the residuals of the delta rule, where dv will stand.
    void forward(const Scores<T>& scores) {
        gated::Head<T> sweep = own_.in;
        sweep.group = 0;
        const bool delta = sweep.beta != nullptr;
        gated::Chunks<T> pass(sweep, c_, 0, sweep.dv, delta ? dv_.data() : nullptr);
        for (Index i = 0; i < chunks_; ++i) {
            before_->keep(i, pass.state().data());
            const T* const M = delta && sweep.gates < 2 ? of_chunk(scores, i)->M.data() : nullptr;
            if (i + 1 < chunks_ || delta) pass.advance(i * c_, length(i), M);
        }
        if (delta) put(dv_.data(), whole_.dv, sweep.N);
    }

    // The gradients of the states after all chunks, and dS.
    void backward(const Scores<T>& scores) {
        ChunkOperands<T> op(own_, c_, true);
        for (Index i = chunks_ - 1; i >= 0; --i) {
            after_->keep(i, op.E.data());
            state_backward(op, i * c_, length(i), of_chunk(scores, i));
        }
        op.write_state();
        put(dS_.data(), whole_.dS, whole_.in.dk);
    }

    // Of chunk i, to the panels of all columns.
    void copy_to(Index i, T* before, T* after) const {
        before_->copy_to(i, before, from_);
        after_->copy_to(i, after, from_);
    }

private:
    Index length(Index i) const { return std::min(c_, own_.in.N - i * c_); }
    void take(const T* from, T* into, Index n, Index columns) const {
        copy_rows(from + from_, whole_.in.dv, into, columns, n, columns);
    }
    void put(const T* from, T* into, Index n) const {
        copy_rows(from, own_.in.dv, into + from_, whole_.in.dv, n, own_.in.dv);
    }

    const GradHead<T>& whole_;
    Index from_, c_, chunks_;
    Buffer<T> v_, dO_, dv_, S_, dS_;
    GradHead<T> own_;
    std::unique_ptr<ChunkStates<T>> before_, after_;
};

// A head and its columns in as many parts as there are tasks for them.
template <class T>
class SpreadHead {
public:
    SpreadHead(const GradHead<T>& head, Index c, Index tasks)
        : head_(head), c_(std::min(c, std::max<Index>(head.in.N, 1))), chunks_((head.in.N + c_ - 1) / c_) {
        width_ = range_width<T>(head.in.dv, tasks);
        if (head.in.beta) scores_.resize(static_cast<std::size_t>(chunks_));
        columns_.resize(static_cast<std::size_t>(std::max<Index>((head.in.dv + width_ - 1) / width_, 1)));
        if (head.in.group < 2) return;
        q_ = Buffer<T>(head.in.group * head.in.N * head.in.dk);
        for (Index i = 0; i < head.in.group; ++i)
            std::copy_n(head.in.q + i * head.in.step * head.in.dk, head.in.N * head.in.dk,
                        q_.data() + i * head.in.N * head.in.dk);
    }

    Index chunks() const { return chunks_; }
    Index parts() const { return static_cast<Index>(columns_.size()); }

    // Of chunks [first, last), where they are wanted.
    void scores(Index first, Index last) {
        if (scores_.empty() || first >= last) return;
        ChunkOperands<T> op(head_, c_, true);
        for (Index i = first; i < last; ++i)
            scores_[static_cast<std::size_t>(i)] = scores_of(op, i * c_, std::min(c_, head_.in.N - i * c_));
    }

    void states(Index part) {
        if (chunks_ == 0) return;
        const Index from = part * width_;
        auto& own = columns_[static_cast<std::size_t>(part)];
        own = std::make_unique<Columns<T>>(head_, q_.size() > 0 ? q_.data() : head_.in.q, c_, chunks_, from,
                                           std::clamp<Index>(head_.in.dv - from, 0, width_));
        own->forward(scores_);
        own->backward(scores_);
    }

    // All else, of chunks [first, last).
    void gradients(Index first, Index last) const {
        if (first >= last) return;
        ChunkOperands<T> op(head_, c_, true);
        Buffer<T> before(head_.in.dk * op.wide_v);
        std::fill_n(before.data(), before.size(), T(0));
        for (Index i = last - 1; i >= first; --i) {
            for (const auto& own : columns_) own->copy_to(i, before.data(), op.E.data());
            token_gradients<T>(op, i * c_, std::min(c_, head_.in.N - i * c_), before.data(), of_chunk(scores_, i));
        }
    }

private:
    GradHead<T> head_;
    Index c_, chunks_, width_ = 0;
    Buffer<T> q_;
    Scores<T> scores_;
    std::vector<std::unique_ptr<Columns<T>>> columns_;
};

}  // namespace

template <class T>
void run_chunks_at_once(const GradProblem<T>& p) {
    const Index heads = p.all_heads(), each = heads > 0 ? (threads_here() + heads - 1) / heads : 0;
    std::deque<SpreadHead<T>> all;
    std::vector<std::pair<Index, Index>> parts;  // head and part
    for (Index h = 0; h < heads; ++h) {
        all.emplace_back(p.head(h), p.in.chunk, each);
        for (Index part = 0; part < all.back().parts(); ++part) parts.emplace_back(h, part);
    }
    const auto head = [&](Index h) -> SpreadHead<T>& { return all[static_cast<std::size_t>(h)]; };
    // f(head, first, last) for as many ranges of the chunks of every head as it has threads.
    const auto each_range = [&](auto&& f) {
        parallel_for(heads * each, [&](Index task) {
            SpreadHead<T>& own = head(task / each);
            const Index i = task % each;
            f(own, own.chunks() * i / each, own.chunks() * (i + 1) / each);
        });
    };
    each_range([](SpreadHead<T>& own, Index first, Index last) { own.scores(first, last); });
    parallel_for(static_cast<Index>(parts.size()), [&](Index task) {
        const auto [h, part] = parts[static_cast<std::size_t>(task)];
        head(h).states(part);
    });
    each_range([](SpreadHead<T>& own, Index first, Index last) { own.gradients(first, last); });
}

template void run_chunks_at_once<float>(const GradProblem<float>&);
template void run_chunks_at_once<double>(const GradProblem<double>&);

}  // namespace causeway::gradient
