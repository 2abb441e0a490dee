// Checks of proofs/backward.md: claims F10 and G7 to G10, and the chunkwise backward of the gated delta rule.
#include <stdexcept>
#include <string>

#include "core/measure/counting.hpp"
#include "tests/catch.hpp"
#include "tests/proofs/causal.hpp"
#include "tests/proofs/claims.hpp"

using namespace causeway;
using namespace causeway::proofs;

namespace {

// ---- The gated delta rule. Gradients by position like the inputs: dQ, dK, dV, da, dβ, dS_0.

// F10: the recurrence reversed. dO = gradient of O, E of the last state.
template <class T>
Inputs<T> recurrent_backward(const Inputs<T>& x, const Mat<T>& dO, const Mat<T>& E) {
    const Index n = x[iQ].rows();
    std::vector<Mat<T>> S{x[iS]};  // S_0 .. S_n
    const auto row = [](const Mat<T>& A, Index t) -> Mat<T> { return A.row(t).transpose(); };
    const auto residual = [&](Index t, const Mat<T>& decayed) -> Mat<T> {
        return row(x[iV], t) - product(decayed.transpose(), row(x[iK], t));
    };
    for (Index t = 0; t < n; ++t) {
        const Mat<T> decayed = x[iA](t, 0) * S.back();
        S.push_back(decayed + x[iBeta](t, 0) * product(row(x[iK], t), residual(t, decayed).transpose()));
    }
    Inputs<T> d = x;
    Mat<T> R = E;
    for (Index t = n - 1; t >= 0; --t) {
        const auto at = static_cast<std::size_t>(t);
        const T a = x[iA](t, 0), beta = x[iBeta](t, 0);
        const Mat<T> q = row(x[iQ], t), k = row(x[iK], t), g = row(dO, t);
        const Mat<T> decayed = a * S[at], rest = residual(t, decayed), u = beta * rest;
        R += product(q, g.transpose());
        d[iQ].row(t) = product(S[at + 1], g).transpose();
        const Mat<T> du = product(R.transpose(), k);
        d[iV].row(t) = beta * du.transpose();
        d[iBeta](t, 0) = inner(du, rest);
        d[iK].row(t) =
            (product(R, u) - T(faulty("F10: dk without what k erases", 1.0, 0.0)) * beta * product(decayed, du))
                .transpose();
        const Mat<T> dDecayed = R - beta * product(k, du.transpose());
        d[iA](t, 0) = inner(dDecayed, S[at]);
        R = a * dDecayed;
    }
    d[iS] = R;
    return d;
}

// What a chunk computes forward (F8).
template <class T>
struct Chunk {
    Mat<T> Q, K, V, beta, S0, M, A, Qe, Ke, Kw, X, U;
    Gates<T> gates;

    Chunk(const Inputs<T>& x, const Mat<T>& S, Index start, Index c)
        : Q(x[iQ].middleRows(start, c)),
          K(x[iK].middleRows(start, c)),
          V(x[iV].middleRows(start, c)),
          beta(x[iBeta].middleRows(start, c)),
          S0(S),
          gates(x[iA].middleRows(start, c)) {
        M = lower<T>(gates.lambda.cwiseProduct(product(K, K.transpose())), -1);
        A = lower<T>(gates.lambda.cwiseProduct(product(Q, K.transpose())));
        Qe = scale_rows(gates.e, Q), Ke = scale_rows(gates.e, K), Kw = scale_rows(gates.w, K);
        X = V - product(Ke, S0);
        U = substitute<T>(scale_rows(beta, M), scale_rows(beta, X));
    }
    T e_last() const { return gates.e(gates.e.rows() - 1, 0); }
    Mat<T> S1() const { return e_last() * S0 + product(Kw.transpose(), U); }
};

// The chunkwise backward, chunks of C in reverse. The place of da holds d ln a = a da.
template <class T>
Inputs<T> chunkwise_backward(const Inputs<T>& x, const Mat<T>& dO_all, Mat<T> E, Index C) {
    const Index n = x[iQ].rows();
    std::vector<Mat<T>> states{x[iS]};
    for (Index start = 0; start + C < n; start += C) states.push_back(Chunk<T>(x, states.back(), start, C).S1());
    Inputs<T> d = x;
    for (auto i = static_cast<Index>(states.size()) - 1; i >= 0; --i) {
        const Index start = i * C, c = std::min(C, n - start);
        const Chunk<T> f(x, states[static_cast<std::size_t>(i)], start, c);
        const Mat<T> dO = dO_all.middleRows(start, c);
        const Mat<T>& L = f.gates.lambda;
        const Mat<T> dU = product(f.A.transpose(), dO) + product(f.Kw, E);
        const Mat<T> dA = lower<T>(product(dO, f.U.transpose())), dQe = product(dO, f.S0.transpose());
        const Mat<T> dKw = product(f.U, E.transpose());
        Mat<T> dR = dU;  // (I + T)ᵀ dR = dU: backward substitution
        for (Index t = c - 1; t >= 0; --t)
            for (Index j = t + 1; j < c; ++j) dR.row(t) -= f.beta(j, 0) * f.M(j, t) * dR.row(j);
        const Mat<T> dX = scale_rows(f.beta, dR), dKe = -product(dX, f.S0.transpose());
        const Mat<T> dM = -lower<T>(product(dX, f.U.transpose()), -1);
        const Mat<T> LdA = L.cwiseProduct(dA), LdM = L.cwiseProduct(dM), dRU = product(dR, f.U.transpose());
        d[iQ].middleRows(start, c) = scale_rows(f.gates.e, dQe) + product(LdA, f.K);
        d[iK].middleRows(start, c) = scale_rows(f.gates.e, dKe) + scale_rows(f.gates.w, dKw) +
                                     product(LdA.transpose(), f.Q) + product(LdM, f.K) + product(LdM.transpose(), f.K);
        d[iV].middleRows(start, c) = dX;
        const T carried = f.e_last() * inner(f.S0, E);
        for (Index s = 0; s < c; ++s) {
            T beta = dR.row(s).cwiseProduct(f.X.row(s)).sum(), gate = carried;
            for (Index j = 0; j < s; ++j) {
                beta -= dRU(s, j) * f.M(s, j);
                gate += dKw.row(j).cwiseProduct(f.Kw.row(j)).sum();
            }
            for (Index t = s; t < c; ++t) {
                gate += dQe.row(t).cwiseProduct(f.Qe.row(t)).sum() + dKe.row(t).cwiseProduct(f.Ke.row(t)).sum();
                for (Index j = 0; j < s; ++j) gate += dA(t, j) * f.A(t, j) + dM(t, j) * f.M(t, j);
            }
            d[iBeta](start + s, 0) = beta;
            d[iA](start + s, 0) = gate;
        }
        E = f.e_last() * E + product(f.Qe.transpose(), dO) - product(f.Ke.transpose(), dX);
    }
    d[iS] = E;
    return d;
}

const char* const names[] = {"dQ", "dK", "dV", "da", "dβ", "dS_0"};

Inputs<double> delta_problem(Index n, Index dk, Index dv, double low, unsigned seed) {
    Random random(seed);
    const Matrix Q = random.normal(n, dk), K = random.unit_rows(n, dk), V = random.normal(n, dv);
    const Matrix a = random.uniform(n, 1, low, 1), beta = random.uniform(n, 1, 0, 1.5), S = random.normal(dk, dv);
    return {Q, K, V, a, beta, S};
}

}  // namespace

TEST_CASE("F10: the backward of the gated delta rule", "[proofs][backward]") {
    auto x = delta_problem(13, 4, 3, 0.2, 101);
    x[iA](5, 0) = 0;  // a gate that forgets everything
    Random random(102);
    const Matrix G = random.normal(13, 3), E = random.normal(4, 3);
    const auto loss = [&](const auto& z) {
        using T = typename std::decay_t<decltype(z[0])>::Scalar;
        const auto out = recurrence<T>(z);
        return inner<T>(out.O, G.cast<T>()) + inner<T>(out.S, E.cast<T>());
    };
    const auto exact = complex_step(x, loss), numeric = central_differences(x, loss);
    const auto recurrent = recurrent_backward<double>(x, G, E);
    for (std::size_t i = 0; i < x.size(); ++i) {
        claim("F10", std::string(names[i]) + " against the complex step", "n = 13, dk = 4, dv = 3, a_6 = 0",
              relative(recurrent[i], exact[i]), 1e-13);
        claim("F10", std::string(names[i]) + " against central differences", "n = 13, dk = 4, dv = 3, a_6 = 0",
              relative(recurrent[i], numeric[i]), 1e-7);
    }
    auto logs = exact;
    logs[iA] = logs[iA].cwiseProduct(x[iA]);
    for (std::size_t i = 0; i < x.size(); ++i) {
        double most = 0;
        for (Index C : {1, 4, 5, 13, 20})
            most = worst(most, relative(chunkwise_backward<double>(x, G, E, C)[i], logs[i]));
        claim("F10", std::string("chunkwise ") + (i == iA ? "d ln a" : names[i]) + " against the complex step",
              "the same, chunks of 1, 4, 5, 13, 20", most, 1e-13);
    }
    claim("F10", "chunkwise d ln a_t where a_t = 0", "the same, chunks of 5",
          std::abs(chunkwise_backward<double>(x, G, E, 5)[iA](5, 0)), 0);
}

TEST_CASE("F10: the gate gradient without cancellation", "[proofs][backward]") {
    // Gated linear attention as the delta rule's recurrence with u_t = v_t; d ln a_s = Σ_{t>=s} (q_t·dq_t - k_t·dk_t),
    // or the sum over everything that contains a_s. With small gates the first is a small difference of large sums.
    Random random(103);
    const Index n = 64, dk = 4, dv = 4;
    const Matrix Q = rounded(random.normal(n, dk)), K = rounded(random.normal(n, dk)),
                 V = rounded(random.normal(n, dv)), G = rounded(random.normal(n, dv));
    const Matrix a = rounded(random.uniform(n, 1, 1e-4, 1e-2));
    // In the arithmetic of T, rounded as written.
    const auto both = [&]<class T>(T) {
        using F = Unfused<T>;
        const Mat<F> q = Q.cast<F>(), k = K.cast<F>(), L = Gates<F>(a.cast<F>()).lambda,
                     A = L.cwiseProduct(product(q, k.transpose()));
        const Mat<F> P = lower<F>(product(G.cast<F>(), V.cast<F>().transpose())), dA = L.cwiseProduct(P);
        const Mat<F> dQ = product(dA, k), dK = product(dA.transpose(), q);
        Matrix sums = zeros<double>(n, 1), direct = sums;
        F sum(0);
        for (Index s = n - 1; s >= 0; --s) {
            for (Index e = 0; e < dk; ++e) sum += q(s, e) * dQ(s, e) + F(-1) * (k(s, e) * dK(s, e));
            F products(0);
            for (Index t = s; t < n; ++t)
                for (Index j = 0; j < s; ++j) products += P(t, j) * A(t, j);
            sums(s, 0) = static_cast<double>(sum.value), direct(s, 0) = static_cast<double>(products.value);
        }
        return std::pair(sums, direct);
    };
    const auto [exact_sums, exact] = both(0.0);
    const auto [sums, direct] = both(0.0f);
    const auto entrywise = [&](const Matrix& got) {
        double most = 0;
        for (Index s = 1; s < n; ++s) most = worst(most, std::abs(got(s, 0) / exact(s, 0) - 1));
        return most;
    };
    claim("F10", "both formulas of d ln a in Float64", "n = 64, a in [1e-4, 1e-2]", relative(exact_sums, exact), 1e-10);
    published_fails("F10", "d ln a by suffix sums of q·dq - k·dk: relative error of an entry",
                    "Float32, nothing fused, the same", entrywise(sums), 0.06, regression);
    claim("F10", "d ln a by products: relative error of an entry", "Float32, nothing fused", entrywise(direct), 2e-6,
          regression);
}

// ---- Normalised attention (tpu).

namespace {

struct Repairs {
    bool accumulate = false;  // G7-b: the carry gradients are added to
    bool dK = false;          // G7-a: line for dK
    bool before =
        false;  // G7-d, the indices of lines 20, 23 and 24 as printed: this block's carry gradients, set before line 20
};

// Algorithm 2 of tpu line by line; the ones matrices are b × width: printed width b, repaired d_v. The final carries
// come from the forward pass; eps: line 12. What no line writes is NaN. Throws std::invalid_argument in a line that
// does not conform.
template <class T>
Inputs<T> algorithm_2(const Mat<T>& Q, const Mat<T>& K, const Mat<T>& V, const Mat<T>& dY, Index b, Index width,
                      double eps, Repairs repairs = {}) {
    const Index n = Q.rows(), dk = Q.cols(), dv = V.cols();
    const Mat<T> one = Mat<T>::Constant(b, width, T(1)), oneT = one.transpose();
    Mat<T> C_KV = zeros<T>(dk, dv), C_K = zeros<T>(dk, width), dC_KV = C_KV, dC_K = C_K;
    for (Index start = 0; start < n; start += b) {  // lines 10 and 11 of Algorithm 1
        C_KV += product(K.middleRows(start, b).transpose(), V.middleRows(start, b));
        C_K += product(K.middleRows(start, b).transpose(), one);
    }
    const bool counting = std::is_same_v<T, Counted>;
    if (counting) counted = {};  // of the backward pass alone
    const T nan(std::numeric_limits<double>::quiet_NaN());
    Inputs<T> out{Mat<T>::Constant(n, dk, nan), Mat<T>::Constant(n, dk, nan), Mat<T>::Constant(n, dv, nan)};
    for (Index start = n - b; start >= 0; start -= b) {
        const Mat<T> q = Q.middleRows(start, b), k = K.middleRows(start, b), v = V.middleRows(start, b),
                     dy = dY.middleRows(start, b);
        const Mat<T> qT = q.transpose(), kT = k.transpose(), vT = v.transpose();
        C_KV -= times<T>(kT, v);                                         // 6
        C_K -= times<T>(kT, one);                                        // 7
        const Mat<T> A = lower<T>(times<T>(q, kT)), AT = A.transpose();  // 9
        const Mat<T> N = plus<T>(times<T>(A, v), times<T>(q, C_KV));     // 11
        Mat<T> D = plus<T>(times<T>(A, one), times<T>(q, C_K));          // 12
        if (!counting) D = (D.array() + T(eps)).matrix();
        const Mat<T> dN = over<T>(dy, D);                                                    // 14
        const Mat<T> dD = zeros<T>(b, dv) - dy.cwiseProduct(over<T>(N, D.cwiseProduct(D)));  // 15
        const auto update = [&] {                                                            // 23, 24
            const Mat<T> forKV = times<T>(qT, dN), forK = times<T>(qT, dD);
            dC_KV = repairs.accumulate ? plus<T>(dC_KV, forKV) : forKV;
            dC_K = repairs.accumulate ? plus<T>(dC_K, forK) : forK;
        };
        if (repairs.before) update();
        const Mat<T> dA = lower<T>(plus<T>(times<T>(dN, vT), times<T>(dD, oneT))), dAT = dA.transpose();  // 17, 18, 19
        out[iV].middleRows(start, b) = plus<T>(times<T>(AT, dN), times<T>(k, dC_KV));                     // 20
        const Mat<T> inside = plus<T>(times<T>(dA, k), times<T>(dN, C_KV.transpose()));
        out[iQ].middleRows(start, b) = plus<T>(inside, times<T>(dD, C_K.transpose()));  // 21
        if (repairs.dK) {
            const Mat<T> own = plus<T>(times<T>(dAT, q), times<T>(v, dC_KV.transpose()));
            out[iK].middleRows(start, b) = plus<T>(own, times<T>(one, dC_K.transpose()));
        }
        if (!repairs.before) update();
    }
    return out;
}

struct Divided {
    Matrix Q, K, V, G;
    Divided(Index n, Index dk, Index dv, unsigned seed) {
        Random random(seed);
        Q = random.positive(n, dk), K = random.positive(n, dk), V = random.normal(n, dv), G = random.normal(n, dv);
    }
    // Gradients by the complex step: dQ, dK, dV and, with gates, da.
    Inputs<double> gradients(double eps = 0, const Matrix& a = {}) const {
        const auto loss = [&](const auto& z) {
            using T = typename std::decay_t<decltype(z[0])>::Scalar;
            const Mat<T> gates = z.size() > 3 ? z[3] : Mat<T>(Mat<T>::Constant(Q.rows(), 1, T(1)));
            return inner<T>(normalised<T>(z[0], z[1], z[2], gates, eps), G.cast<T>());
        };
        Inputs<double> x{Q, K, V};
        if (a.size() > 0) x.push_back(a);
        return complex_step(x, loss);
    }
};

}  // namespace

TEST_CASE("G7: Algorithm 2 of tpu as printed", "[proofs][backward]") {
    const Index b = 4;
    double dQ = 0, few = 0, many = INFINITY, before = INFINITY, repaired = 0;
    double mismatch = INFINITY, mismatched_most = 0, matched = 0;
    Index unwritten = 0, other = 0, keys = 0;
    for (Index blocks = 1; blocks <= 6; ++blocks) {
        const Divided p(blocks * b, b, b, 70 + static_cast<unsigned>(blocks));
        const auto exact = p.gradients(), printed = algorithm_2<double>(p.Q, p.K, p.V, p.G, b, b, 0,
                                                                        {false, fault("G7-a: a line for dK"), false});
        dQ = worst(dQ, relative(printed[iQ], exact[iQ]));
        const double dV = relative(printed[iV], exact[iV]);
        (blocks <= faulty("G7: three blocks are few", 2, 3) ? few = worst(few, dV) : many = fewest(many, dV));
        unwritten += printed[iK].array().isNaN().count(),
            other += printed[iQ].array().isNaN().count() + printed[iV].array().isNaN().count();
        keys += blocks * b * b;
        before =
            fewest(before, relative(algorithm_2<double>(p.Q, p.K, p.V, p.G, b, b, 0,
                                                        {true, true, !fault("G7-d: the gradient of later blocks")})[iV],
                                    exact[iV]));
        const auto right = algorithm_2<double>(p.Q, p.K, p.V, p.G, b, b, 0, {!fault("G7-b: overwritten"), true, false});
        for (std::size_t i : {iQ, iK, iV}) repaired = worst(repaired, relative(right[i], exact[i]));
        const auto eps_backward = algorithm_2<double>(p.Q, p.K, p.V, p.G, b, b, 1e-3, {true, true, false});
        const auto eps_both = p.gradients(faulty("G7-c: EPS twice as large in the forward pass", 1e-3, 2e-3));
        for (std::size_t i : {iQ, iK, iV}) {
            mismatch = fewest(mismatch, relative(eps_backward[i], exact[i]));
            mismatched_most = worst(mismatched_most, relative(eps_backward[i], exact[i]));
            matched = worst(matched, relative(eps_backward[i], eps_both[i]));
        }
    }
    const std::string input = "b = d = 4, EPS = 0, 1 to 6 blocks";
    claim("G7", "printed dQ", input, dQ, 1e-11);
    claim("G7", "printed dV, 1 and 2 blocks: no test of so few sees b", "b = d = 4, EPS = 0", few, 1e-11);
    published_fails("G7-a", "entries of dK that no printed line writes, of all 336", input,
                    static_cast<double>(unwritten), static_cast<double>(keys), note);
    exactly("G7-a", "entries of dQ and dV that none writes", input, other, 0, note);
    published_fails("G7-b", "printed dV from 3 blocks on (carry gradients overwritten), least error",
                    "b = d = 4, EPS = 0, 3 to 6 blocks", many, 0.02);
    claim("G7-b", "with += in lines 23 and 24 and dK added: dQ, dK, dV", input, repaired, 1e-11);
    published_fails("G7-c", "EPS in the backward pass only, least error", "b = d = 4, EPS = 1e-3", mismatch, 1e-6);
    claim("G7-c", "its largest error: of the order of EPS / D", "b = d = 4, EPS = 1e-3", mismatched_most, 1e-2,
          regression);
    claim("G7-c", "EPS in both passes", "b = d = 4, EPS = 1e-3", matched, 1e-11);
    published_fails("G7-d", "line 20 with this block's own dC (indices as printed), else repaired: dV, least error",
                    input, before, 0.02);

    const Mat<Counted> ones = Mat<Counted>::Constant(12, b, Counted(1));
    algorithm_2<Counted>(ones, ones, ones, ones, b, b, 0);
    const Index elementwise = 2 * b * b;  // D², and dY times the quotient in line 15
    exactly("G8", "Algorithm 2 as printed: 16 d³ multiply-adds a block", "b = d = 4, 3 blocks", counted.multiplies,
            3 * (16 * b * b * b + elementwise));
    algorithm_2<Counted>(ones, ones, ones, ones, b, b, 0, {true, true, false});
    exactly("G8", "with dK: 19 d³", "b = d = 4, 3 blocks", std::exchange(counted, {}).multiplies,
            3 * (19 * b * b * b + elementwise));
}

TEST_CASE("G7-e: Algorithm 2 with b and d_v of its own", "[proofs][backward]") {
    const Divided p(12, 5, 3, 77);
    const auto exact = p.gradients(),
               got = algorithm_2<double>(p.Q, p.K, p.V, p.G, 4, 3, 0, {!fault("G7-e: overwritten"), true, false});
    for (std::size_t i : {iQ, iK, iV})
        claim("G7-e", std::string("1 of b × d_v, a and b repaired: ") + names[i], "n = 12, b = 4, dk = 5, dv = 3",
              relative(got[i], exact[i]), 1e-11);
    // The printed b × b ones, for which 3.4 sets b = d, make D b columns wide, and dY has d_v.
    const Stopped at = stopped([](Index b, Index dv, Index width) {
        const Mat<Counted> X = Mat<Counted>::Constant(12, 5, Counted(1)),
                           Y = Mat<Counted>::Constant(12, dv, Counted(1));
        algorithm_2<Counted>(X, X, Y, Y, b, width, 0, {true, true, false});
    });
    exactly("G7-e", "1 of b × b: pairs b = dv of 5 for which a line does not conform",
            "n = 12, b and dv of 1, 2, 3, 4, 6", at.square, 0, note);
    exactly("G7-e", "1 of b × dv: pairs of 25 for which a line does not conform", "the same", at.repaired, 0, note);
}

namespace {

// G8 and, with gates, G9. da holds da_s; overwrite: E' of the next block only, as tpu prints it.
template <class T>
Inputs<T> corrected(const Mat<T>& Q, const Mat<T>& K, const Mat<T>& V, const Mat<T>& a, const Mat<T>& G, Index b,
                    double eps, bool overwrite = false) {
    const Index n = Q.rows(), dk = Q.cols(), dv = V.cols();
    const Mat<T> V1 = with_ones(V);
    std::vector<Mat<T>> prefix{zeros<T>(dk, dv + 1)};  // C' before each block, stored
    for (Index start = 0; start + b < n; start += b) {
        const Gates<T> g(Mat<T>(a.middleRows(start, b)));
        prefix.push_back(g.e(b - 1, 0) * prefix.back() +
                         product(scale_rows<T>(g.w, K.middleRows(start, b)).transpose(), V1.middleRows(start, b)));
    }
    Inputs<T> d{zeros<T>(n, dk), zeros<T>(n, dk), zeros<T>(n, dv)};
    Mat<T> E = zeros<T>(dk, dv + 1);
    for (auto i = static_cast<Index>(prefix.size()) - 1; i >= 0; --i) {
        const Index start = i * b, c = std::min(b, n - start);
        const Mat<T> q = Q.middleRows(start, c), k = K.middleRows(start, c), v = V1.middleRows(start, c),
                     C = prefix[static_cast<std::size_t>(i)];
        const Gates<T> g(Mat<T>(a.middleRows(start, c)));
        const Mat<T> A = g.lambda.cwiseProduct(product(q, k.transpose()));
        const Mat<T> N = product(A, v) + scale_rows(g.e, product(q, C));
        Mat<T> dN = zeros<T>(c, dv + 1);
        for (Index t = 0; t < c; ++t) {
            const T D = N(t, dv) + T(eps);
            T sum(0);  // g_t · y_t
            for (Index j = 0; j < dv; ++j) {
                dN(t, j) = G(start + t, j) / D;
                sum += G(start + t, j) * (N(t, j) / D);
            }
            dN(t, dv) = T(faulty("G8: D held constant", 1.0, 0.0)) * -sum / D;
        }
        const Mat<T> dA = g.lambda.cwiseProduct(product(dN, v.transpose()));
        d[iQ].middleRows(start, c) = product(dA, k) + scale_rows(g.e, product(dN, C.transpose()));
        d[iK].middleRows(start, c) = product(dA.transpose(), q) + scale_rows(g.w, product(v, E.transpose()));
        d[iV].middleRows(start, c) = (product(A.transpose(), dN) + scale_rows(g.w, product(k, E))).leftCols(dv);
        const Mat<T> own = product(scale_rows(g.e, q).transpose(), dN);
        E = overwrite ? own : Mat<T>(g.e(c - 1, 0) * E + own);
    }
    return d;
}

// The products of G8 without gates on numbers that count: {forward, backward} multiplies of one block, dense tiles.
std::pair<std::int64_t, std::int64_t> block_products(Index b, Index dk, Index dv) {
    const auto ones = [](Index m, Index n) -> Mat<Counted> { return Mat<Counted>::Constant(m, n, Counted(1)); };
    const Mat<Counted> q = ones(b, dk), k = q, v = ones(b, dv + 1), C = ones(dk, dv + 1), dN = v;
    counted = {};
    const auto forward = [&] {
        const auto A = product(q, k.transpose());
        product(A, v), product(q, C);
        return A;
    };
    forward();
    const auto carried = [&] { product(k.transpose(), v); };
    carried();
    const auto once = std::exchange(counted, {}).multiplies;
    const auto A = forward();
    carried();
    const auto dA = product(dN, v.transpose());
    product(dA, k), product(dN, C.transpose());
    product(dA.transpose(), q), product(v, C.transpose());
    product(A.transpose(), dN), product(k, C);
    product(q.transpose(), dN);
    return {once, std::exchange(counted, {}).multiplies};
}

double row_inner(const Matrix& A, const Matrix& B, Index t) { return A.row(t).dot(B.row(t)); }

}  // namespace

TEST_CASE("G8: the corrected backward", "[proofs][backward]") {
    for (const auto& [n, b] : {std::pair<Index, Index>{12, 4}, {13, 4}, {13, 5}, {5, 8}}) {
        const Divided p(n, 5, 3, 80 + static_cast<unsigned>(n + b));
        const std::string input = "n = " + std::to_string(n) + ", b = " + std::to_string(b) + ", dk = 5, dv = 3";
        const Matrix all = Matrix::Ones(n, 1);
        for (double eps : {0.0, 0.1}) {
            const auto exact = p.gradients(eps), got = corrected<double>(p.Q, p.K, p.V, all, p.G, b, eps);
            double most = 0;
            for (std::size_t i : {iQ, iK, iV}) most = worst(most, relative(got[i], exact[i]));
            claim("G8", "dQ, dK, dV against the complex step", input + (eps > 0 ? ", EPS = 0.1" : ", EPS = 0"), most,
                  1e-13);
            const Matrix Y = normalised(p.Q, p.K, p.V, all, eps);
            const Matrix D = lower<double>(product(p.Q, p.K.transpose())).rowwise().sum();
            double scale = 0, keys = 0, size = 0;
            for (Index t = 0; t < n; ++t) {
                scale =
                    worst(scale, std::abs(row_inner(p.Q, got[iQ], t) - eps / (D(t, 0) + eps) * row_inner(p.G, Y, t)));
                keys += row_inner(p.K, got[iK], t);
                size += std::abs(row_inner(p.K, got[iK], t));
            }
            claim("G8", "q_t·dq_t - EPS/D_t g_t·y_t, largest", input + (eps > 0 ? ", EPS = 0.1" : ", EPS = 0"), scale,
                  1e-13);
            if (eps == 0)
                claim("G8", "Σ k_t·dk_t, relative to the sum of sizes", input + ", EPS = 0", std::abs(keys) / size,
                      1e-13);
        }
    }
    const Divided p(13, 5, 3, 81);
    const Matrix none = Matrix::Ones(13, 1);
    const auto numeric = central_differences(
        {p.Q, p.K, p.V}, [&](const auto& z) { return inner<double>(normalised<double>(z[0], z[1], z[2], none), p.G); });
    const auto got = corrected<double>(p.Q, p.K, p.V, none, p.G, 4, 0);
    for (std::size_t i : {iQ, iK, iV})
        claim("G8", std::string(names[i]) + " against central differences", "n = 13, b = 4, dk = 5, dv = 3",
              relative(got[i], numeric[i]), 1e-6);
    for (const auto& [b, dk, dv] : {std::array<Index, 3>{4, 5, 3}, {8, 8, 8}}) {
        const auto [forward, backward] = block_products(b, dk, dv);
        const std::string input =
            "b = " + std::to_string(b) + ", dk = " + std::to_string(dk) + ", dv = " + std::to_string(dv);
        exactly("G8", "multiply-adds a block: 3b²(dk+dv+1) + 6b dk(dv+1)", input, backward,
                3 * b * b * (dk + dv + 1) + faulty("G8: E' not counted", 6, 4) * b * dk * (dv + 1));
        exactly("G8", "that is three times the forward", input, backward, 3 * forward);
    }
}

TEST_CASE("G9: the corrected backward with decay", "[proofs][backward]") {
    const Index n = 13, dk = 5, dv = 3;
    const Divided p(n, dk, dv, 90);
    Matrix a = Random(91).uniform(n, 1, 0.4, 1);
    const auto exact = p.gradients(0, a);
    for (Index b : {4, 5, 13}) {
        const auto got = corrected<double>(p.Q, p.K, p.V, a, p.G, b, 0);
        const std::string input = "n = 13, b = " + std::to_string(b) + ", a in [0.4, 1]";
        double most = 0;
        for (std::size_t i : {iQ, iK, iV}) most = worst(most, relative(got[i], exact[i]));
        claim("G9", "dQ, dK, dV against the complex step", input, most, 1e-13);
        // d ln a_s = Σ_{t>=s} h_t, h_t = q_t·dq_t - k_t·dk_t; as q_t·dq_t = 0, also -Σ_{t>=s} k_t·dk_t.
        Matrix by_h(n, 1), by_keys(n, 1);
        double h = 0, keys = 0, queries = 0;
        for (Index t = n - 1; t >= 0; --t) {
            const double later = h;
            h += row_inner(p.Q, got[iQ], t) - row_inner(p.K, got[iK], t);
            keys -= row_inner(p.K, got[iK], t);
            queries = worst(queries, std::abs(row_inner(p.Q, got[iQ], t)));
            by_h(t, 0) = faulty("G9: Σ over t > s", h, later), by_keys(t, 0) = keys;
        }
        const Matrix logs = exact[3].cwiseProduct(a);
        claim("G9", "d ln a_s = Σ_{t>=s} (q_t·dq_t - k_t·dk_t)", input, relative(by_h, logs), 1e-12);
        claim("G9", "d ln a_s = -Σ_{t>=s} k_t·dk_t", input, relative(by_keys, logs), 1e-12);
        claim("G9", "q_t·dq_t, largest; d ln a_1", input, worst(queries, std::abs(by_h(0, 0))), 1e-13);
    }
    published_fails("G9", "E' overwritten: dV from 3 blocks on", "n = 13, b = 4",
                    relative(corrected<double>(p.Q, p.K, p.V, a, p.G, 4, 0, true)[iV], exact[iV]), 1e-3);

    // One g for all tokens.
    const Inputs<double> rate{Matrix::Constant(1, 1, std::log(0.8))};
    const auto fixed = complex_step(rate, [&](const auto& z) {
        using T = typename std::decay_t<decltype(z[0])>::Scalar;
        const Mat<T> gates = Mat<T>::Constant(n, 1, std::exp(z[0](0, 0)));
        return inner<T>(normalised<T>(p.Q.cast<T>(), p.K.cast<T>(), p.V.cast<T>(), gates), p.G.cast<T>());
    });
    const auto got = corrected<double>(p.Q, p.K, p.V, Matrix::Constant(n, 1, 0.8), p.G, 5, 0);
    double sum = 0;
    for (Index t = 0; t < n; ++t)
        sum += static_cast<double>(t + 1) * (row_inner(p.Q, got[iQ], t) - row_inner(p.K, got[iK], t));
    claim("G9", "fixed decay: d ln g = Σ t (q_t·dq_t - k_t·dk_t)", "n = 13, b = 5, g = 0.8",
          std::abs(sum / fixed[0](0, 0) - 1), 1e-12);

    // A gate of 0: da_s = <R_s, C'_{s-1}>, R_s = q_s dn'_sᵀ + a_{s+1} R_{s+1}.
    a(6, 0) = 0;
    const auto forgetting = p.gradients(0, a);
    const Matrix N = product(Gates<double>(a).lambda.cwiseProduct(product(p.Q, p.K.transpose())), with_ones(p.V));
    std::vector<Matrix> C{zeros<double>(dk, dv + 1)};
    for (Index t = 0; t < n; ++t)
        C.push_back(a(t, 0) * C.back() + product(p.K.row(t).transpose(), with_ones(p.V).row(t)));
    Matrix R = zeros<double>(dk, dv + 1), da(n, 1);
    for (Index s = n - 1; s >= 0; --s) {
        Matrix dN(1, dv + 1);
        dN << p.G.row(s) / N(s, dv), -(p.G.row(s).dot(N.row(s).head(dv)) / (N(s, dv) * N(s, dv)));
        R = (product(p.Q.row(s).transpose(), dN) + (s + 1 < n ? a(s + 1, 0) : 0.0) * R).eval();
        da(s, 0) = inner(R, C[static_cast<std::size_t>(s)]);
    }
    claim("G9", "da_s = <R_s, C'_{s-1}>, also where a_s = 0", "n = 13, a_7 = 0", relative(da, forgetting[3]), 1e-12);
    published_fails("G9", "there d ln a_s is 0, da_s is not", "n = 13, a_7 = 0", std::abs(forgetting[3](6, 0)), 1e-3);
}

namespace {

using Single = Unfused<float>;

// The carries of G10 in Float32, every operation rounded as written, in blocks of b tokens: C ← a^b C + what a block
// adds. Keys grow to e^growth.
class Carries {
public:
    static constexpr Index b = 16, dk = 4, dv = 4;

    Carries(Index blocks, double a, double growth)
        : shrink(static_cast<float>(std::pow(a, static_cast<double>(b)))), kept{zeros<Single>(dk, dv)} {
        Random random(100);
        for (Index i = 0; i < blocks; ++i) {
            Matrix k = random.positive(b, dk);
            for (Index t = 0; t < b; ++t) {
                const double grown =
                    std::exp(growth * static_cast<double>(i * b + t) / static_cast<double>(blocks * b));
                k.row(t) *= grown * std::pow(a, static_cast<double>(b - 1 - t));
            }
            added.push_back(product(k.transpose().cast<Single>(), random.normal(b, dv).cast<Single>()));
            kept.push_back(advanced(kept.back(), i));
        }
    }
    Mat<Single> advanced(const Mat<Single>& C, Index i) const {
        return Mat<Single>(shrink * C) + added[static_cast<std::size_t>(i)];
    }
    // The carry before block i from that after it.
    Mat<Single> subtracted(const Mat<Single>& C, Index i) const {
        const Mat<Single> rest = C + Single(-1) * added[static_cast<std::size_t>(i)];
        return rest.unaryExpr([this](Single x) { return Single(x.value / shrink.value); });
    }

    Single shrink;                   // a^b
    std::vector<Mat<Single>> added;  // by block
    std::vector<Mat<Single>> kept;   // before block 0, 1 .., and the last
};

Matrix widened(const Mat<Single>& A) {
    return A.unaryExpr([](Single x) { return static_cast<double>(x.value); });
}

// The repair with less memory than all T prefixes: every s-th is kept, s = ⌈√T⌉, and those of one group of s blocks are
// computed again when the pass in reverse gets there. advance(C, i): the carry after block i, in place; visit(C, i): C
// before block i, i falling.
template <class T, class Advance, class Visit>
void from_checkpoints(Index blocks, Index size, Advance&& advance, Visit&& visit) {
    const Index s = static_cast<Index>(std::ceil(std::sqrt(static_cast<double>(blocks)))), groups = ceil_div(blocks, s);
    kit::Scratch<T> marks(groups, size), group(s, size);
    auto C = group.row(0);  // while marks are set, the running carry
    C.setConstant(T(0));
    for (Index i = 0; i < blocks; ++i) {
        if (i % s == 0) marks.row(i / s) = C;
        if (i < (groups - 1) * s) advance(C, i);
    }
    for (Index g = groups - 1; g >= 0; --g) {
        const Index first = g * s, last = std::min(blocks, first + s) - 1;
        group.row(0) = marks.row(g);
        for (Index i = first; i < last; ++i) {
            group.row(i + 1 - first) = group.row(i - first);
            advance(group.row(i + 1 - first), i);
        }
        for (Index i = last; i >= first; --i) visit(group.row(i - first), i);
    }
}

}  // namespace

TEST_CASE("G10: carries rebuilt by subtraction", "[proofs][backward]") {
    // From the last carry backwards.
    struct Run {
        std::vector<double> relative_error;  // of the carry before block i, i = 0 .. T-1
        double absolute = 0, largest = 0;
        double first = 0;  // size of the carry before the first block, which is 0
    };
    const auto run = [](const Carries& x) {
        Run out;
        const auto blocks = static_cast<Index>(x.added.size());
        Mat<Single> C = x.kept.back();
        for (const auto& m : x.kept) out.largest = worst(out.largest, widened(m).norm());
        out.relative_error.resize(x.added.size());
        for (Index i = blocks - 1; i >= 0; --i) {
            const auto at = static_cast<std::size_t>(i);
            C = x.subtracted(C, i);
            const Matrix want = widened(x.kept[at]);
            const double difference = (widened(C) - want).norm();
            out.absolute = worst(out.absolute, difference);
            if (i == 0) out.first = widened(C).norm();
            else out.relative_error[at] = difference / want.norm();
        }
        return out;
    };
    const Index T = 64;
    const Carries growing(T, 1, 8), fading(40, 0.9, 0);
    const Run grown = run(growing), decayed = run(fading);
    const std::string input = "Float32, nothing fused, b = 16, 64 blocks, keys grow to exp(8)";
    claim("G10", "no decay: absolute error / (2 u T max‖C‖)", input,
          grown.absolute / (2 * u32 * static_cast<double>(T) * grown.largest), 1);
    published_fails("G10", "no decay: relative error of the carry before block 2", input, grown.relative_error[1], 4e-4,
                    regression);
    const double rounding = u32 * widened(growing.kept.back()).norm() / widened(growing.kept[1]).norm();
    claim("G10", "no decay: it is u‖C_last‖ / ‖C‖ to a factor of 2; |lg of the ratio|", input,
          std::abs(std::log2(grown.relative_error[1] / rounding)), 1);
    published_fails("G10", "no decay: the carry before block 1, which is 0", input, grown.first, 7e-3, regression);

    const double predicted =
        std::log(1 / u32) /
        (faulty("G10: tokens for blocks", static_cast<double>(Carries::b), 1.0) * std::log(1 / 0.9));
    int survived = 0;  // blocks back from the end until the error exceeds the carry
    for (std::size_t i = decayed.relative_error.size() - 1; i > 0 && decayed.relative_error[i] <= 1; --i) ++survived;
    const std::string fades = "Float32, nothing fused, a = 0.9, b = 16, 40 blocks";
    published_fails("G10", "decay: relative error of the carry before block 21, 20 blocks back", fades,
                    decayed.relative_error[20], 9e6, regression);
    claim("G10", "decay: blocks rebuilt before the error is above 1, against ln(1/u)/(b ln(1/a)) = 9.87; difference",
          fades, std::abs(survived - predicted), 1);
    exactly("G10", "decay: their number", fades, survived, 10, regression);

    // The repair from √T checkpoints: the very carries that all prefixes kept would be.
    for (const Carries& x : {growing, fading}) {
        const auto blocks = static_cast<Index>(x.added.size());
        const std::string name = blocks == 64 ? "64 blocks, no decay" : "40 blocks, a = 0.9";
        Index differ = 0, visited = 0;
        const auto held = peak_scalars<Single>([&] {
            from_checkpoints<Single>(
                blocks, Carries::dk * Carries::dv,
                [&](auto&& C, Index i) {
                    const auto& block = x.added[static_cast<std::size_t>(i)];
                    for (Index k = 0; k < C.size(); ++k)
                        C(k) = x.shrink * C(k) + block(k / Carries::dv, k % Carries::dv);
                },
                [&](const auto& C, Index i) {
                    ++visited;
                    const auto& want = x.kept[static_cast<std::size_t>(i)];
                    for (Index k = 0; k < C.size(); ++k)
                        differ += C(k).value != want(k / Carries::dv, k % Carries::dv).value;
                });
        });
        const Index s = blocks == 64 ? 8 : 7, groups = ceil_div(blocks, s);
        exactly("G10", "√T checkpoints: entries of carries that differ from those kept", name,
                differ + std::abs(visited - blocks), 0);
        exactly("G10", "√T checkpoints: scalars held, (⌈T/s⌉ + s) dk dv with s = ⌈√T⌉", name, held,
                (groups + s) * Carries::dk * Carries::dv);
        std::int64_t updates = 0;
        from_checkpoints<Single>(
            blocks, 1, [&](auto&&, Index) { ++updates; }, [](const auto&, Index) {});
        exactly("G10", "√T checkpoints: updates of the state, up to the last mark and then within the groups", name,
                updates, (groups - 1) * s + blocks - groups);
    }
}
