// The chunkwise form of the general rule in its definition: products over chunks of tokens, the state handed from chunk
// to chunk.
//
// Unrolled over a chunk that starts from S_0, with D_tj = diag(Π_{s=j+1..t} a_s),
//
//   S_t = D_t0 S_0 + Σ_{j<=t} D_tj (k_j v_jᵀ - u_j y_jᵀ)
//
// so a token has two keys, k_j with the value v_j and -u_j with the value y_j, and
//
//   Y = (D_{t-1,0} w_t)ᵀ S_0 + M V + M' Y,   M_tj = w_tᵀ D_{t-1,j} k_j,  M'_tj = -w_tᵀ D_{t-1,j} u_j   (j < t)
//   O = scale · ((D_t0 q_t)ᵀ S_0 + A V + A' Y),   A_tj = q_tᵀ D_tj k_j,  A'_tj = -q_tᵀ D_tj u_j        (j <= t)
//   S_last = D_last,0 S_0 + Σ_j D_last,j (k_j v_jᵀ - u_j y_jᵀ)
//
// Y by forward substitution. This is the WY form of the delta rule (Yang et al. 2024, §3) with keys of their own for
// what is read, taken out and written. All D are running products of given factors: nothing is divided, a factor of
// exactly 0 is exact, and where |a| <= 1 nothing overflows.
#pragma once

#include <algorithm>

#include "core/gated/general/recurrent.hpp"

namespace causeway::gated {

// Tokens [start, start + n) as one chunk; S is advanced. MACs without a: n·dk·dv for each of the products with S_0 (a
// query head, and w) and those that make S_last (two); triangles n(n+1)/2·(dk + dv) twice a query head, and n(n-1)/2·
// (dk + dv) twice for Y. Row t of scores is made from keys that `a` was applied to up to token t: 2·n·dk multiplies a
// token. Memory 3·n·(dk + dv).
template <class T>
void one_chunk(const GeneralHead<T>& h, Index start, Index n) {
    auto S = h.state();
    const Index values = h.u ? 2 * n : n;  // rows: V, then Y
    Scratch<T> keys(values, h.dk), rows(values, h.dv), e(h.gates > 0 ? 1 : 0, h.dk), x(1, h.dk), scores(1, n);
    keys.topRows(n) = h.K().middleRows(start, n);
    rows.topRows(n) = h.V().middleRows(start, n);
    for (Index t = 0; h.u && t < n; ++t)
        for (Index c = 0; c < h.dk; ++c) keys(n + t, c) = T(0) - h.u[(start + t) * h.dk + c];
    e.setConstant(T(1));
    // xᵀ (D S_0 + what the first `count` tokens have added since), D and the keys being those of the last token.
    const auto read = [&](auto&& out, const auto& row, Index count) {
        x = row;
        for (Index c = 0; h.gates > 0 && c < h.dk; ++c) x(0, c) *= e(0, c);
        out.setConstant(T(0));
        add_product(out, x, S);
        for (Index first = 0; first < values; first += n) {
            auto some = scores.leftCols(count);
            some.setConstant(T(0));
            add_product(some, row, keys.middleRows(first, count).transpose());
            add_product(out, some, rows.middleRows(first, count));
        }
    };
    for (Index t = 0; t < n; ++t) {
        interrupt::check();
        if (h.u) read(rows.row(n + t), h.W().row(start + t), t);
        for (Index c = 0; h.gates > 0 && c < h.dk; ++c) {
            const T a = h.a[(start + t) * h.gates + (h.gates == 1 ? 0 : c)];
            e(0, c) *= a;
            for (Index first = 0; first < values; first += n) keys.col(c).segment(first, t) *= a;
        }
        for (Index i = 0; i < h.group; ++i) {
            auto o = h.out(i).row(start + t);
            read(o, h.Q(i).row(start + t), t + 1);
            if (!(h.scale == T(1))) o *= h.scale;
        }
    }
    for (Index c = 0; h.gates > 0 && c < h.dk; ++c) S.row(c) *= e(0, c);
    add_product(S, keys.transpose(), rows);
}

// O(N·(dk·dv + c·(dk + dv))) time for chunks of c tokens.
template <class T>
void chunkwise(const GeneralHead<T>& h, Index c) {
    for (Index start = 0; start < h.N; start += c) one_chunk(h, start, std::min(c, h.N - start));
}

}  // namespace causeway::gated
