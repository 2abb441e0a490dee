// The chunkwise backward pass in register tiles (core/kit/panels.hpp); chunkwise.hpp is its definition, letter by
// letter.
//
// A forward sweep stores the state before every chunk and, with the delta rule, the residuals y_t = v_t - S'ᵀ k_t where
// dv will stand; without gates and delta rule it makes dq instead, the only gradient that needs those states, and
// stores nothing: dA is then computed twice, which costs less than states that come from memory. Then chunks in
// reverse, each at home in the second-level cache: the operands of its products (chunk_operands.hpp), the products in
// tiles (chunk_tiles.hpp), and what is different with a gate per key channel (channel_gradients.hpp).
#include "core/gradient/chunkwise.hpp"

#include <optional>

#include "core/base/parallel.hpp"
#include "core/gated/chunks.hpp"
#include "core/gradient/chunk.hpp"
#include "core/gradient/chunk_passes.hpp"
#include "core/gradient/chunks_at_once.hpp"
#include "core/gradient/forms.hpp"
#include "core/kit/spread.hpp"

namespace causeway::gradient {

template <class T>
ChunkPasses<T>::ChunkPasses(const GradHead<T>& d, Index c)
    : head_(d),
      c_(std::min(c, std::max<Index>(d.in.N, 1))),
      chunks_((d.in.N + c_ - 1) / c_),
      plain_(!d.in.beta && d.in.gates == 0),
      states_(d.in, plain_ ? 0 : chunks_) {}

template <class T>
void ChunkPasses<T>::forward(T* last) {
    const Index N = head_.in.N, size = head_.in.dk * head_.in.dv;
    if (last && last != head_.in.S) std::copy_n(head_.in.S, size, last);
    if (chunks_ == 0) return;
    if (plain_) {
        ChunkOperands<T> op(head_, c_);
        for (Index i = 0; i < chunks_; ++i) gradient::forward(op, i * c_, std::min(c_, N - i * c_));
        if (last) op.write_forward_state(last);
        return;
    }
    gated::Head<T> sweep = head_.in;
    sweep.group = 0;
    if (last) sweep.S = last;
    gated::Chunks<T> pass(sweep, c_, 0, sweep.dv, sweep.beta ? head_.dv : nullptr);
    for (Index i = 0; i < chunks_; ++i) {
        states_.keep(i, pass.state().data());
        if (i + 1 < chunks_ || sweep.beta || last) pass.advance(i * c_, std::min(c_, N - i * c_));
    }
    if (last) pass.finish();
}

template <class T>
void ChunkPasses<T>::backward() {
    if (chunks_ == 0) return;
    ChunkOperands<T> op(head_, c_);
    for (Index i = chunks_ - 1; i >= 0; --i)
        gradient::backward<T>(op, i * c_, std::min(c_, head_.in.N - i * c_), plain_ ? nullptr : states_.get(i));
    op.write_state();
}

template class ChunkPasses<float>;
template class ChunkPasses<double>;

template <class T>
void run_state_gradient(const GradHead<T>& d, Index c) {
    const Index N = d.in.N, longest = std::min(c, std::max<Index>(N, 1));
    GradHead<T> alone = d;
    // With the delta rule the residuals stand in dv, on which dS does not hang, and dv is written over them.
    Buffer<T> dv(d.in.beta ? N * d.in.dv : 0);
    std::fill_n(dv.data(), dv.size(), T(0));
    alone.dv = dv.data();
    ChunkOperands<T> op(alone, longest, true);
    for (Index start = (N - 1) / longest * longest; N > 0 && start >= 0; start -= longest) {
        const Index n = std::min(longest, N - start);
        std::optional<ChunkScores<T>> scores;
        if (d.in.beta) scores = scores_of(op, start, n);
        state_backward<T>(op, start, n, scores ? &*scores : nullptr);
    }
    op.write_state();
}

template void run_state_gradient<float>(const GradHead<float>&, Index);
template void run_state_gradient<double>(const GradHead<double>&, Index);

template <class T>
void run_chunkwise_grad(const GradProblem<T>& p) {
    // The chunks of a head at once cost a third more than one after the other.
    if (4 * p.all_heads() <= 3 * threads_here() && p.in.N > p.in.chunk) return run_chunks_at_once(p);
    each_head(p, [&](const GradHead<T>& head) {
        ChunkPasses<T> passes(head, p.in.chunk);
        passes.forward(nullptr);
        passes.backward();
    });
}

template void run_chunkwise_grad<float>(const GradProblem<float>&);
template void run_chunkwise_grad<double>(const GradProblem<double>&);

}  // namespace causeway::gradient
