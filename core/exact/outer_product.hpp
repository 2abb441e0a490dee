// The outer-product forms of the tpu document: all prefix states at once, and those of one block at a time.
#pragma once

#include "core/exact/problem.hpp"
#include "core/kit/product.hpp"

namespace causeway::exact {

// S_i = γ S_{i-1} + c_iᵀ v_i for every i, all of them kept; then P_i = b_i S_i   (tpu §3.2, as its baseline does: the
// outer products of all tokens, their prefix sums, one product with the queries). 2Nrd multiply-adds (+ Nrd multiplies
// with decay), Nrd memory.
template <class T>
void outer_product(const Head<T>& h) {
    const Index N = h.N(), r = h.r(), d = h.d();
    Scratch<T> states(N, r * d);
    const auto state = [&](Index i) { return View<T>(states.data() + i * r * d, r, d); };
    for (Index i = 0; i < N; ++i) {
        View<T> S = state(i);
        if (i > 0) S = state(i - 1);
        else if (h.S) S = View<T>(h.S, r, d);
        else S.setConstant(T(0));
        if (h.decays()) S *= T(h.gamma);
        add_product(S, h.C.row(i).transpose(), h.V.row(i));
    }
    auto O = h.O;
    O.setConstant(T(0));
    for (Index i = 0; i < N; ++i) add_product(O.row(i), h.B.row(i), state(i));
    if (h.S && N > 0) View<T>(h.S, r, d) = state(N - 1);
}

// The same in blocks of b tokens: the prefix states of one block, on top of the carry, are kept at a time; the last
// of them is the next carry   (tpu §3.3, with the block starting at b·floor(i/b), claims G2). The printed form sums
// within the block from zero and multiplies the query with sum and carry apart, Nrd multiply-adds more; on top of the
// carry they are those of §3.2: 2Nrd (+ Nrd multiplies with decay), and the roundings of one sum over all tokens, N + r
// (claims B7). Memory rd + b·rd.
template <class T>
void outer_product_blockwise(const Head<T>& h, Index b) {
    const Index N = h.N(), r = h.r(), d = h.d();
    Scratch<T> own(h.S ? 0 : r, d), states(std::min(b, N), r * d);
    View<T> carry(h.S ? h.S : own.data(), r, d);
    if (!h.S) carry.setConstant(T(0));
    const auto state = [&](Index p) { return View<T>(states.data() + p * r * d, r, d); };
    auto O = h.O;
    O.setConstant(T(0));
    for (Index start = 0; start < N; start += b) {
        interrupt::check();
        const Index n = std::min(b, N - start);
        for (Index p = 0; p < n; ++p) {
            View<T> S = state(p);
            if (p > 0) S = state(p - 1);
            else S = carry;
            if (h.decays()) S *= T(h.gamma);
            add_product(S, h.C.row(start + p).transpose(), h.V.row(start + p));
        }
        for (Index p = 0; p < n; ++p) add_product(O.row(start + p), h.B.row(start + p), state(p));
        carry = state(n - 1);
    }
}

}  // namespace causeway::exact
