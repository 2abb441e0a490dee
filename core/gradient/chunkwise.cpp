// The chunkwise backward pass in register tiles (core/kit/panels.hpp); chunkwise.hpp is its definition, letter by
// letter.
//
// A forward sweep stores the state before every chunk and, with the delta rule, the residuals y_t = v_t - S'ᵀ k_t where
// dv will stand; without gates and delta rule it makes dq instead, the only gradient that needs those states, and
// stores nothing: dA is then computed twice, which costs less than states that come from memory. Then chunks in
// reverse, each at home in the second-level cache: the operands of its products (chunk_operands.hpp), the products in
// tiles (chunk_tiles.hpp), and what is different with a gate per key channel (channel_gradients.hpp).
#include "core/gradient/chunkwise.hpp"

#include "core/gated/chunks.hpp"
#include "core/gradient/channel_gradients.hpp"
#include "core/gradient/chunk_passes.hpp"
#include "core/gradient/chunk_tiles.hpp"
#include "core/gradient/forms.hpp"
#include "core/kit/spread.hpp"

namespace causeway::gradient {
namespace {

// Without gates and delta rule, chunks in order: Sᵀ += Vᵀ K.
template <class T>
void advance_state(ChunkOperands<T>& op) {
    constexpr Index L = simd::lanes<T>, W = panel_width<T>;
    op.each_tile(op.head.dv, op.head.dk, [&](auto rows, auto vectors, Index j, Index at) {
        constexpr int R = decltype(rows)::value, NV = decltype(vectors)::value;
        simd::Tile<T, R, NV> t;
        T* S = op.St.data() + at * op.wide_v + j * W;
        for (int row = 0; row < R; ++row)
            for (int v = 0; v < NV; ++v) t.acc[row][v] = simd::load(S + row * W + v * L);
        t.multiply(op.values() + j, 1, op.head.dv, op.Kp.data() + at * op.c, W, op.n);
        for (int row = 0; row < R; ++row)
            for (int v = 0; v < NV; ++v) simd::store(S + row * W + v * L, t.acc[row][v]);
    });
}

// dq of all tokens of the chunk for query head q, from the products dA.
template <class T>
void query_tiles(ChunkOperands<T>& op, Index q, const T* dA) {
    op.each_tile(op.n, op.head.dk, [&](auto rows, auto vectors, Index i, Index at) {
        query_tile<decltype(rows)::value, decltype(vectors)::value>(op, q, dA, i, at);
    });
}

// Without gates and delta rule, chunks in order: dq of tokens [start, start + n), and Sᵀ goes on.
template <class T>
void forward(ChunkOperands<T>& op, Index start, Index n) {
    op.load(start, n, nullptr);
    op.prefetch_next();
    pack_rows(op.K, n, op.head.dk, op.head.dk, op.Kp.data(), op.c);
    op.pack_values();
    for (Index q = 0; q < op.head.group; ++q) {
        score_gradients<T>(op, op.output_gradient(q), T(1), nullptr, op.dA.data());
        query_tiles<T>(op, q, op.dA.data());
    }
    advance_state(op);
}

// Chunks in reverse: tokens [start, start + n), of which S0 is the state before, in panels [panel][dk][W]; null after
// forward(), where it is not needed.
template <class T>
void backward(ChunkOperands<T>& op, Index start, Index n, const T* S0) {
    const Index square = op.c * op.keys;
    op.load(start, n, S0);
    op.prefetch_previous();
    op.exponentiate_gates();
    const gated::FlushUnderflow flush(op.head.gates > 0);
    op.make_rows();
    op.scores();
    transpose_panels(op.E.data(), op.head.dk, op.head.dv, op.Et.data(), op.wide_v);
    if (!op.plain) transpose_panels(S0, op.head.dk, op.head.dv, op.St.data(), op.wide_v);
    std::fill_n(op.older.data(), n, T(0));
    std::fill_n(op.later.data(), n, T(0));

    op.template each_tile<true>(n, op.head.dv, [&](auto rows, auto vectors, Index i, Index at) {
        value_tile<decltype(rows)::value, decltype(vectors)::value>(op, i, at);
    });
    for (Index q = 0; q < op.head.group; ++q)
        score_gradients<T>(op, op.output_gradient(q), T(1), op.A.data() + q * square, op.dA.data() + q * square);
    if (op.delta) score_gradients<T>(op, op.grad.dv + start * op.head.dv, T(-1), op.M.data(), op.dM.data());
    if (op.per_channel) {
        channel_gradients(op);
        through_channels(op);
    } else {
        for (Index q = 0; !op.plain && q < op.head.group; ++q) query_tiles<T>(op, q, op.dA.data() + q * square);
        op.each_tile(n, op.head.dk, [&](auto rows, auto vectors, Index i, Index at) {
            key_tile<decltype(rows)::value, decltype(vectors)::value>(op, i, at);
        });
    }
    op.through = T(0);
    op.each_tile(op.head.dk, op.head.dv, [&](auto rows, auto vectors, Index e, Index at) {
        state_tile<decltype(rows)::value, decltype(vectors)::value>(op, e, at);
    });
    if (op.per_head) gate_gradients(op);
    if (op.delta) std::copy_n(op.dbeta.data(), n, op.grad.dbeta + start);
}

}  // namespace

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
void run_chunkwise_grad(const GradProblem<T>& p) {
    each_head(p, [&](const GradHead<T>& head) {
        ChunkPasses<T> passes(head, p.in.chunk);
        passes.forward(nullptr);
        passes.backward();
    });
}

template void run_chunkwise_grad<float>(const GradProblem<float>&);
template void run_chunkwise_grad<double>(const GradProblem<double>&);

}  // namespace causeway::gradient
