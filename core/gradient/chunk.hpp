// What is computed of one chunk of the backward pass, by the tiles of chunk_tiles.hpp.
#pragma once

#include "core/gradient/channel_gradients.hpp"
#include "core/gradient/chunk_tiles.hpp"

namespace causeway::gradient {

// Without gates and delta rule, chunks in order: Sᵀ += Vᵀ K, added up as gated::Chunks does.
template <class T>
void advance_state(ChunkOperands<T>& op) {
    constexpr Index L = simd::lanes<T>, W = panel_width<T>;
    op.each_tile(op.head.dv, op.head.dk, [&](auto rows, auto vectors, Index j, Index at) {
        constexpr int R = decltype(rows)::value, NV = decltype(vectors)::value;
        simd::Tile<T, R, NV> t;
        t.clear();
        T* S = op.St.data() + at * op.wide_v + j * W;
        t.multiply(op.values() + j, 1, op.head.dv, op.Kp.data() + at * op.c, W, op.n);
        for (int row = 0; row < R; ++row)
            for (int v = 0; v < NV; ++v)
                simd::store(S + row * W + v * L, simd::load(S + row * W + v * L) + t.acc[row][v]);
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

// Tokens [start, start + n) come next, of which S0 is the state before; gates down to denormal numbers.
template <class T>
void begin(ChunkOperands<T>& op, Index start, Index n, const T* S0) {
    op.load(start, n, S0);
    op.prefetch_previous();
    op.exponentiate_gates();
    std::fill_n(op.older.data(), n, T(0));
    std::fill_n(op.later.data(), n, T(0));
}

// dv, of gradients of the outputs and of the state after the chunk.
template <class T>
void value_tiles(ChunkOperands<T>& op) {
    op.template each_tile<true>(op.n, op.head.dv, [&](auto rows, auto vectors, Index i, Index at) {
        value_tile<decltype(rows)::value, decltype(vectors)::value>(op, i, at);
    });
}

// E, the gradient of the state after the chunk, becomes that of the state before it.
template <class T>
void state_tiles(ChunkOperands<T>& op) {
    op.each_tile(op.head.dk, op.head.dv, [&](auto rows, auto vectors, Index e, Index at) {
        state_tile<decltype(rows)::value, decltype(vectors)::value>(op, e, at);
    });
}

// A and M of a chunk: they hang on no state, so that they may be made before all else, and once for all columns of
// the values.
template <class T>
struct ChunkScores {
    Buffer<T> A, M;
};

// In any order: those of tokens [start, start + n).
template <class T>
ChunkScores<T> scores_of(ChunkOperands<T>& op, Index start, Index n) {
    begin<T>(op, start, n, nullptr);
    const gated::FlushUnderflow flush(op.head.gates > 0);
    op.make_rows(false);
    op.scores();
    ChunkScores<T> out{Buffer<T>(op.A.size()), Buffer<T>(op.M.size())};
    std::copy_n(op.A.data(), op.A.size(), out.A.data());
    std::copy_n(op.M.data(), op.M.size(), out.M.data());
    return out;
}
template <class T>
void take(ChunkOperands<T>& op, const ChunkScores<T>& scores) {
    std::copy_n(scores.A.data(), op.A.size(), op.A.data());
    std::copy_n(scores.M.data(), op.M.size(), op.M.data());
}

// Chunks in reverse: E alone of tokens [start, start + n). With the delta rule dv, which is written too, is part of it,
// and the scores are; else null.
template <class T>
void state_backward(ChunkOperands<T>& op, Index start, Index n, const ChunkScores<T>* scores) {
    begin<T>(op, start, n, nullptr);
    const gated::FlushUnderflow flush(op.head.gates > 0);
    op.make_rows();
    if (op.delta) {
        take(op, *scores);
        value_tiles(op);
    }
    state_tiles(op);
}

// In any order: all gradients of tokens [start, start + n) but E, of which S0 is the state before, in panels
// [panel][dk][W]; null after forward(), where it is not needed. scores: null where they have not been made.
template <class T>
void token_gradients(ChunkOperands<T>& op, Index start, Index n, const T* S0, const ChunkScores<T>* scores = nullptr) {
    const Index square = op.c * op.keys;
    begin(op, start, n, S0);
    const gated::FlushUnderflow flush(op.head.gates > 0);
    op.make_rows();
    if (scores) take(op, *scores);
    else op.scores();
    transpose_panels(op.E.data(), op.head.dk, op.head.dv, op.Et.data(), op.wide_v);
    if (!op.plain) transpose_panels(S0, op.head.dk, op.head.dv, op.St.data(), op.wide_v);
    value_tiles(op);
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
    if (op.per_head) gate_gradients(op);
    if (op.delta) std::copy_n(op.dbeta.data(), n, op.grad.dbeta + start);
}

// Chunks in reverse: all gradients.
template <class T>
void backward(ChunkOperands<T>& op, Index start, Index n, const T* S0) {
    token_gradients(op, start, n, S0);
    const gated::FlushUnderflow flush(op.head.gates > 0);
    state_tiles(op);
}

}  // namespace causeway::gradient
