// Every factorisation against the dense matrix: where it is exact, what it is on average, shapes, seeds, threads.
#include "tests/core/lowrank/problems.hpp"
#include "tests/threads.hpp"

#include <limits>

using namespace causeway;
using namespace causeway::test;

namespace {

constexpr double scale = 0.5;  // 1/sqrt(d) for d = 4

}  // namespace

TEST_CASE("factorisations of full rank are exact", "[lowrank]") {
    const Poison poison;
    const Index N = 23;  // prime: no block length divides it
    const Tensor q = normal_tensor({1, 2, N, 4}, 1), k = normal_tensor({1, 2, N, 4}, 2);
    struct Exact {
        const char* name;
        Index rank;
        std::map<std::string, double> own;
        double tolerance;
    };
    for (const Exact& e : {Exact{"nystrom", N, {}, 1e-11},
                           {"svd", N, {}, 1e-12},
                           {"rsvd", N, {}, 1e-12},
                           {"transformer-vq", N, {}, 1e-12},
                           {"skeinformer", N + 1, {}, 1e-12},
                           {"skyformer", 2 * N, {}, 1e-11},
                           {"linformer", N, {{"pooled", 1}}, 1e-12}}) {
        INFO(e.name);
        const LowRank f = low_rank(e.name, q, k, rank_and_seed(e.rank, 3, e.own));
        for (Index h = 0; h < 2; ++h) {
            const Dense A = attention(q, k, scale, h);
            CHECK((product(f, h) - A).norm() <= e.tolerance * A.norm());
        }
    }
}

TEST_CASE("equal tokens, whose matrix has rank 1, are factored exactly", "[lowrank]") {
    for (const Index N : {34, 45}) {
        const Tensor zero = Tensor::zeros(DType::f64, {N, 4}), one = Tensor::full(DType::f64, {N, 4}, 0.4);
        for (const char* name : {"svd", "rsvd", "nystrom", "skyformer"}) {
            for (const Tensor& x : {zero, one}) {
                CAPTURE(N);
                CAPTURE(name);
                const Dense A = attention(x, x, scale);
                CHECK((product(low_rank(name, x, x, rank_and_seed(34))) - A).norm() <= 1e-12 * A.norm());
            }
        }
    }
}

TEST_CASE("random features are exp(qᵀk) on average", "[lowrank]") {
    const Tensor q = normal_tensor({6, 3}, 3, DType::f64, 0.3), k = normal_tensor({6, 3}, 4, DType::f64, 0.3);
    LowRankOptions o = rank_and_seed(6);
    o.scale = 1;
    const Dense A = attention(q, k, 1);
    struct Kind {
        const char* name;
        std::map<std::string, double> own;
    };
    for (const Kind& kind : {Kind{"favor+", {}},
                             {"favor+", {{"orthogonal", 0}}},
                             {"favor+", {{"stabilised", 0}}},
                             {"rfa", {}},
                             {"lara", {{"specific", 0}}}}) {
        INFO(kind.name);
        o.own = kind.own;
        constexpr int draws = 4000;
        Dense mean = Dense::Zero(6, 6), squares = mean;
        for (int s = 0; s < draws; ++s) {
            o.seed = static_cast<std::uint64_t>(s);
            const Dense one = product(low_rank(kind.name, q, k, o));
            mean += one / draws;
            squares += one.cwiseProduct(one) / draws;
        }
        const Dense deviation = ((squares - mean.cwiseProduct(mean)) / draws).cwiseMax(0).cwiseSqrt();
        CHECK(((mean - A).array().abs() <= 5 * deviation.array()).all());
        CHECK((deviation.array() < 0.2 * A.array()).all());  // else the line above says nothing
    }
}

TEST_CASE("the error of favor+ falls like one over the root of the rank", "[lowrank]") {
    const Tensor q = normal_tensor({40, 8}, 5, DType::f64, 0.5), k = normal_tensor({40, 8}, 6, DType::f64, 0.5);
    const Dense A = attention(q, k, 1 / std::sqrt(8.0));
    const auto error = [&](Index rank) {
        double sum = 0;
        for (unsigned s = 0; s < 40; ++s)
            sum += (product(low_rank("favor+", q, k, rank_and_seed(rank, s))) - A).squaredNorm();
        return std::sqrt(sum / 40) / A.norm();
    };
    const double slope = std::log(error(1024) / error(64)) / std::log(16.0);
    CAPTURE(slope);
    CHECK(slope == Approx(-0.5).margin(0.1));
    CHECK(error(1024) < 0.1);
}

TEST_CASE("stabilised features keep the product, by rows the quotient, where plain ones overflow", "[lowrank]") {
    const Tensor q = normal_tensor({30, 6}, 7, DType::f32), k = normal_tensor({30, 6}, 8, DType::f32);
    const Dense plain = product(low_rank("favor+", q, k, rank_and_seed(32, 1, {{"stabilised", 0}})));
    CHECK((product(low_rank("favor+", q, k, rank_and_seed(32))) - plain).norm() <= 1e-5 * plain.norm());
    const LowRank rows = low_rank("favor+", q, k, rank_and_seed(32, 1, {{"rows", 1}}));
    Dense restored = product(rows);
    for (Index i = 0; i < 30; ++i) restored.row(i) *= std::exp(rows.extras.at("log_rows").get(i));
    CHECK((restored - plain).norm() <= 1e-5 * plain.norm());
    const Tensor large = normal_tensor({30, 6}, 7, DType::f32, 40);
    const LowRank kept = low_rank("favor+", large, k, rank_and_seed(32, 1, {{"rows", 1}}));
    for (Index i = 0; i < 30; ++i) CHECK(matrix_of(kept.B).row(i).maxCoeff() == 1);
    // Underflows without, to 0 or to what is left of it in a denormal number.
    CHECK(matrix_of(low_rank("favor+", large, k, rank_and_seed(32)).B).rowwise().maxCoeff().minCoeff() <
          std::numeric_limits<float>::min());
}

TEST_CASE("orthogonal directions are at right angles and lower the error", "[lowrank]") {
    const Tensor q = normal_tensor({30, 8}, 9), k = normal_tensor({30, 8}, 10);
    const Dense A = attention(q, k, 1 / std::sqrt(8.0));
    double orthogonal = 0, independent = 0;
    for (unsigned s = 0; s < 200; ++s) {
        orthogonal += (product(low_rank("favor+", q, k, rank_and_seed(8, s))) - A).squaredNorm();
        independent += (product(low_rank("favor+", q, k, rank_and_seed(8, s, {{"orthogonal", 0}}))) - A).squaredNorm();
    }
    CAPTURE(orthogonal, independent);
    CHECK(orthogonal < independent);
    const Tensor unit = [] {
        Tensor x = Tensor::zeros(DType::f64, {8, 8});
        for (Index i = 0; i < 8; ++i) x.set(9 * i, 1);
        return x;
    }();
    LowRankOptions o = rank_and_seed(8, 1, {{"stabilised", 0}});
    o.scale = 1;
    // log of a feature of e_a: ω_ca − 1/2 − log(8)/2
    const Dense omega = matrix_of(low_rank("favor+", unit, unit, o).B).array().log() + 0.5 + std::log(8.0) / 2;
    Dense gram = omega.transpose() * omega;
    gram.diagonal().setZero();
    CHECK(gram.cwiseAbs().maxCoeff() <= 1e-12);
}

TEST_CASE("the singular value decomposition leaves the tail, the randomised one little more", "[lowrank]") {
    const Index N = 120, r = 12;
    const Tensor q = normal_tensor({N, 6}, 11), k = normal_tensor({N, 6}, 12);
    const Dense A = attention(q, k, 1 / std::sqrt(6.0));
    const Eigen::VectorXd s = singular_values(A);
    const double tail = s.tail(N - r).norm();
    const Dense best = product(low_rank("svd", q, k, rank_and_seed(r))) - A;
    CHECK(best.norm() == Approx(tail).epsilon(1e-10));
    CHECK(largest(best) == Approx(s[r]).epsilon(1e-10));
    for (unsigned seed = 0; seed < 10; ++seed) {
        CAPTURE(seed);
        const Dense near = product(low_rank("rsvd", q, k, rank_and_seed(r, seed))) - A;
        CHECK(near.norm() >= tail * (1 - 1e-10));
        CHECK(near.norm() <= 1.01 * tail);
        CHECK(largest(near) <= 1.05 * s[r]);
    }
    // Without power iterations the bound of Corollary 10.10 on the mean, p = 10: a factor of 17 here; seen far below.
    CHECK(largest(product(low_rank("rsvd", q, k, rank_and_seed(r, 1, {{"power", 0}}))) - A) <= 17 * s[r]);
}

TEST_CASE("taylor features are the polynomial, near exp for small arguments", "[lowrank]") {
    const Tensor q = normal_tensor({20, 5}, 13, DType::f64, 0.6), k = normal_tensor({20, 5}, 14, DType::f64, 0.6);
    const Dense s = matrix_of(q) * matrix_of(k).transpose() / std::sqrt(5.0);
    for (double full : {0.0, 1.0}) {
        const LowRank f = low_rank("taylor", q, k, rank_and_seed(0, 1, {{"full", full}}));
        CHECK(f.B.shape().back() == (full != 0 ? 31 : 21));
        const Dense P = product(f);
        CHECK((P.array() - (1 + s.array() + s.array().square() / 2)).abs().maxCoeff() <= 1e-13);
        CHECK(
            ((P.array() - s.array().exp()).abs() <= s.array().abs().cube() / 6 * s.array().exp().max(1) + 1e-15).all());
        CHECK(P.minCoeff() >= 0.5 - 1e-13);
    }
}

// What the pseudo-inverse amplifies is shared by both factors: products of Float32 factors do not cancel.
TEST_CASE("nystrom and skyformer: few dimensions, nearly dependent landmarks", "[lowrank]") {
    for (const char* name : {"nystrom", "skyformer"}) {
        for (const auto& [N, d, r] : {std::tuple<Index, Index, Index>{64, 1, 16}, {200, 2, 32}, {17, 1, 17}}) {
            CAPTURE(name, N, d, r);
            const Tensor q32 = normal_tensor({N, d}, 11, DType::f32), k32 = normal_tensor({N, d}, 12, DType::f32);
            const Dense wide = product(low_rank(name, q32.to(DType::f64), k32.to(DType::f64), rank_and_seed(r)));
            CHECK((product(low_rank(name, q32, k32, rank_and_seed(r))) - wide).norm() <= 1e-5 * wide.norm());
        }
    }
}

TEST_CASE("nystrom: landmarks that do not divide the length, and the iterated inverse", "[lowrank]") {
    const Tensor q = normal_tensor({50, 4}, 15), k = normal_tensor({50, 4}, 16);
    const Dense exact = product(low_rank("nystrom", q, k, rank_and_seed(7)));
    CHECK(exact.allFinite());
    CHECK((product(low_rank("nystrom", q, k, rank_and_seed(7, 1, {{"iterations", 60}}))) - exact).norm() <=
          1e-6 * exact.norm());
    CHECK((product(low_rank("nystrom", q, k, rank_and_seed(7, 1, {{"iterations", 1}}))) - exact).norm() >
          1e-3 * exact.norm());
}

TEST_CASE("transformer-vq replaces a key by its nearest code", "[lowrank]") {
    const Index N = 200, r = 9;
    const Tensor q = normal_tensor({N, 3}, 17), k = normal_tensor({N, 3}, 18);
    const LowRank f = low_rank("transformer-vq", q, k, rank_and_seed(r));
    const Dense C = matrix_of(f.C), keys = matrix_of(k);
    // At Lloyd's fixed point each code is the mean of its keys, and no other code is nearer.
    const LowRank settled = low_rank("transformer-vq", q, k, rank_and_seed(r, 1, {{"iterations", 1000}}));
    const Dense Z = matrix_of(settled.C);
    const Dense codes = Z.colwise().sum().transpose().asDiagonal().inverse() * (Z.transpose() * keys);
    for (Index j = 0; j < N; ++j) {
        Index nearest = 0;
        (codes.rowwise() - keys.row(j)).rowwise().squaredNorm().minCoeff(&nearest);
        CHECK(Z(j, nearest) == 1);
        CHECK(settled.extras.at("code").get(j) == static_cast<double>(nearest + 1));
    }
    CHECK((C.rowwise().sum().array() == 1).all());
    CHECK((matrix_of(settled.B) - Dense((matrix_of(q) * codes.transpose() / std::sqrt(3.0)).array().exp())).norm() <=
          1e-10);
    // Fewer different keys than codes.
    const Tensor same = Tensor::full(DType::f64, {10, 3}, 0.5);
    CHECK(
        (product(low_rank("transformer-vq", same, same, rank_and_seed(4))) - attention(same, same, 1 / std::sqrt(3.0)))
            .norm() <= 1e-12);
}

TEST_CASE("hyper: exact inside of blocks, unbiased outside, exact for one block", "[lowrank]") {
    const Index N = 40;
    const Tensor q = normal_tensor({N, 4}, 19, DType::f64, 0.5), k = normal_tensor({N, 4}, 20, DType::f64, 0.5);
    const Dense A = attention(q, k, scale);
    const auto error = [&](const LowRankOptions& o) {
        const LowRank f = low_rank("hyper", q, k, o);
        Dense delta = A - product(f);
        for (Index i = 0; i < N; ++i) {
            for (Index j = 0; j < N; ++j) {
                if (f.extras.at("query_block").get(i) == f.extras.at("key_block").get(j)) delta(i, j) = 0;
            }
        }
        return delta;
    };
    CHECK(error(rank_and_seed(5)).norm() == 0);  // the block of 64 holds all
    const LowRankOptions small = rank_and_seed(64, 1, {{"block", 8}});
    CHECK((error(small).array() == 0).count() >= 8 * N);
    LowRankErrorOptions with;
    with.extras = low_rank("hyper", q, k, small).extras;
    const LowRank f = low_rank("hyper", q, k, small);
    CHECK(lowrank_error(q, k, f.B, f.C, with).all.frobenius.error == Approx(error(small).norm()).epsilon(1e-12));
    Dense mean = Dense::Zero(N, N);
    for (unsigned s = 0; s < 400; ++s)
        mean += product(low_rank("hyper", q, k, rank_and_seed(40, s, {{"block", 8}}))) / 400;
    CHECK((mean - A).norm() <= 0.1 * A.norm());
    CHECK(low_rank("hyper", q, k, rank_and_seed(5)).B.shape() == Shape{N, 5});
}

TEST_CASE("lara is its definition at the directions it has drawn", "[lowrank]") {
    const Index N = 14, r = 12, d = 3;
    const Tensor q = normal_tensor({N, d}, 41, DType::f64, 2), k = normal_tensor({N, d}, 42);
    LowRankOptions o = rank_and_seed(r);
    o.scale = 1;
    const Dense Q = matrix_of(q), K = matrix_of(k);
    const auto means = [&](const Dense& X) {
        Dense out(r, d);
        for (Index c = 0; c < r; ++c) {
            const Index first = c * N / r, last = (c + 1) * N / r;
            out.row(c) = X.middleRows(first, last - first).colwise().sum() / static_cast<double>(last - first);
        }
        return out;
    };
    const Dense near = means(Q), mu = near + means(K);
    const Dense towards = (Q * near.transpose()).unaryExpr([](double x) { return std::exp(x); });
    for (double specific : {1.0, 0.0}) {
        CAPTURE(specific);
        o.own["specific"] = specific;
        const LowRank f = low_rank("lara", q, k, o);
        const Dense B = matrix_of(f.B), C = matrix_of(f.C);
        // log C_jc = ω_cᵀk_j − |k_j|²/2 − log x_c, of which the largest is 0
        const Dense exponents = C.array().log().matrix().colwise() + Eigen::VectorXd(K.rowwise().squaredNorm() / 2);
        Dense unknown(N, d + 1);
        unknown << K, Eigen::VectorXd::Ones(N);
        const Dense solved = unknown.colPivHouseholderQr().solve(exponents);
        const Dense omega = solved.topRows(d).transpose();
        CHECK(C.colwise().maxCoeff() == Eigen::RowVectorXd::Ones(r));
        const auto density = [&](Index c, const Eigen::RowVectorXd& mean) {
            return std::exp(-(omega.row(c) - mean).squaredNorm() / 2);
        };
        Dense want(N, r);
        Index least = 0;
        for (Index i = 0; i < N; ++i) {
            Eigen::VectorXd t(r);
            for (Index c = 0; c < r; ++c) t[c] = towards(i, c) / towards.col(c).sum();
            for (Index c = 0; c < r; ++c) {
                double all = 0;
                for (Index other = 0; other < r; ++other) all += density(c, mu.row(other));
                const double alpha = density(c, mu.row(c)) / all + (specific != 0 ? t[c] - t.mean() : 0);
                least += alpha < 1e-8;
                want(i, c) = std::max(alpha, 1e-8) * density(c, Eigen::RowVectorXd::Zero(d)) / density(c, mu.row(c)) *
                             std::exp(omega.row(c).dot(Q.row(i)) - Q.row(i).squaredNorm() / 2 - solved(d, c));
            }
        }
        CHECK((B - want).cwiseAbs().maxCoeff() <= 1e-9 * want.cwiseAbs().maxCoeff());
        CHECK((least > 0) == (specific != 0));  // the least weight is met
        CHECK(B.minCoeff() > 0);
    }
}

TEST_CASE("skeinformer draws keys by the length of their values, and keeps the rows of its pilot", "[lowrank]") {
    const Index N = 40;
    const Tensor q = normal_tensor({2, N, 4}, 43), k = normal_tensor({2, N, 4}, 44);
    LowRankOptions o = rank_and_seed(6, 1, {{"pilot", 9}});
    Tensor v = Tensor::zeros(DType::f64, {2, N, 3});
    for (Index h = 0; h < 2; ++h) {
        for (Index c = 0; c < 5; ++c)
            v.set((h * N + 7 * c + h) * 3 + 1, 1 + static_cast<double>(c));  // no other key has a value
    }
    o.v = v;
    const LowRank f = low_rank("skeinformer", q, k, o);
    for (Index h = 0; h < 2; ++h) {
        CAPTURE(h);
        for (Index j = 0; j < N; ++j) CHECK((matrix_of(f.C, h)(j, 5) == 0) == (v.get((h * N + j) * 3 + 1) > 0));
        const Dense A = attention(q, k, scale, h);
        Dense delta = A - product(f, h);
        Index exact = 0;
        for (Index i = 0; i < N; ++i) {
            if (f.extras.at("exact_rows").get(h * N + i) == 0) continue;
            ++exact;
            delta.row(i).setZero();
        }
        CHECK(exact == 9);
        LowRankErrorOptions with;
        with.extras = f.extras;
        with.v = v;
        const LowRankErrors e = lowrank_error(q, k, f.B, f.C, with);
        CHECK(e.heads[static_cast<std::size_t>(h)].frobenius.error == Approx(delta.norm()).epsilon(1e-12));
        CHECK(e.heads[static_cast<std::size_t>(h)].frobenius.error_masked ==
              Approx(lower(delta).norm()).epsilon(1e-12));
    }
    // The share of draws of one key, where one is drawn: its weight by its definition from all queries.
    const Tensor q1 = normal_tensor({12, 4}, 45), k1 = normal_tensor({12, 4}, 46), v1 = normal_tensor({12, 2}, 47);
    Dense P = attention(q1, k1, scale);
    const Eigen::VectorXd sums = P.rowwise().sum();
    P = sums.cwiseInverse().asDiagonal() * P;
    Eigen::VectorXd p = P.colwise().norm().transpose().cwiseProduct(matrix_of(v1).rowwise().norm());
    p /= p.sum();
    Eigen::VectorXd drawn = Eigen::VectorXd::Zero(12);
    constexpr int draws = 3000;
    LowRankOptions one = rank_and_seed(2, 1, {{"pilot", 12}});
    one.v = v1;
    for (unsigned s = 0; s < draws; ++s) {
        one.seed = s;
        drawn += (1 - matrix_of(low_rank("skeinformer", q1, k1, one).C).col(1).array()).matrix() / draws;
    }
    CHECK(((drawn - p).array().abs() <= 5 * (p.array() * (1 - p.array()) / draws).sqrt()).all());
}

TEST_CASE("linformer, skeinformer and hedgehog are what they say", "[lowrank]") {
    const Index N = 30;
    const Tensor q = normal_tensor({N, 4}, 21), k = normal_tensor({N, 4}, 22);
    const LowRank lin = low_rank("linformer", q, k, rank_and_seed(6));
    const Dense E = matrix_of(lin.C).transpose();
    CHECK((matrix_of(lin.B) - Dense((scale * matrix_of(q) * (E * matrix_of(k)).transpose()).array().exp())).norm() <=
          1e-10 * matrix_of(lin.B).norm());
    CHECK(E.squaredNorm() / static_cast<double>(N) == Approx(1).epsilon(0.5));

    const Dense A = attention(q, k, scale);
    const LowRank skein = low_rank("skeinformer", q, k, rank_and_seed(6));
    const Dense S = product(skein), C = matrix_of(skein.C);
    for (Index j = 0; j < N; ++j) {
        if (C(j, 5) == 0) CHECK((S.col(j) - A.col(j)).norm() <= 1e-12 * A.col(j).norm());
        else CHECK(S.col(j) == matrix_of(skein.B).col(5));
    }
    CHECK(C.col(5).sum() == N - 5);

    const LowRank spiky = low_rank("hedgehog", q, k, rank_and_seed(8));
    CHECK((matrix_of(spiky.B).rowwise().sum().array() - 1).abs().maxCoeff() <= 1e-14);
    const Dense plain = product(low_rank("hedgehog", q, k, rank_and_seed(0, 1, {{"normalised", 0}})));
    const Dense x = matrix_of(q) * std::sqrt(scale), y = matrix_of(k) * std::sqrt(scale);
    double sum = 0;
    for (Index a = 0; a < 4; ++a) sum += 2 * std::cosh(x(3, a) + y(5, a));
    CHECK(plain(3, 5) == Approx(sum).epsilon(1e-12));
}

TEST_CASE("factors have their shape and type, follow the seed and not the threads", "[lowrank]") {
    const Poison poison;
    const Threads restore;
    for (const auto& m : lowrank::methods()) {
        CAPTURE(m.name);
        const Index rank = m.default_rank > 0 ? 20 : 0;
        for (DType type : {DType::f32, DType::f64, DType::bf16}) {
            const Tensor q = normal_tensor({2, 2, 300, 5}, 23, DType::f64, 0.5).to(type),
                         k = normal_tensor({2, 2, 300, 5}, 24, DType::f64, 0.5).to(type);
            set_threads(1);
            const LowRank one = low_rank(m.name, q, k, rank_and_seed(rank, 5));
            set_threads(3);
            const LowRank three = low_rank(m.name, q, k, rank_and_seed(rank, 5));
            CHECK(one.B.dtype() == (type == DType::f64 ? DType::f64 : DType::f32));
            CHECK(same_bits(one.B, three.B));
            CHECK(same_bits(one.C, three.C));
            const Index r = one.B.shape().back();
            CHECK(one.B.shape() == Shape{2, 2, 300, r});
            CHECK(one.C.shape() == one.B.shape());
            for (Index i = 0; i < one.B.size(); ++i) {
                if (!std::isfinite(one.B.get(i)) || !std::isfinite(one.C.get(i))) FAIL("not finite at " << i);
            }
            if (rank == 0) continue;
            CHECK(r == rank);
            const LowRank other = low_rank(m.name, q, k, rank_and_seed(rank, 6));
            CHECK((same_bits(one.B, other.B) && same_bits(one.C, other.C)) == !m.seeded);
        }
        if (!m.seeded) continue;
        const Tensor q = normal_tensor({30, 5}, 25);
        LowRankOptions o = rank_and_seed(rank);
        o.seed.reset();
        random::set_seed(9);
        const LowRank first = low_rank(m.name, q, q, o), second = low_rank(m.name, q, q, o);
        random::set_seed(9);
        const LowRank again = low_rank(m.name, q, q, o);
        CHECK((same_bits(first.B, again.B) && same_bits(first.C, again.C)));
        CHECK(!(same_bits(first.B, second.B) && same_bits(first.C, second.C)));
    }
}

TEST_CASE("only the factorisations that say so look ahead", "[lowrank]") {
    const Tensor q = normal_tensor({32, 4}, 26), k = normal_tensor({32, 4}, 27);
    const auto changed_at_end = [](const Tensor& x) {
        Tensor y = x.copy();
        for (Index i = 31 * 4; i < 32 * 4; ++i) y.set(i, 3 - x.get(i));
        return y;
    };
    const Tensor q2 = changed_at_end(q), k2 = changed_at_end(k);
    for (const auto& m : lowrank::methods()) {
        CAPTURE(m.name);
        std::map<std::string, double> own;
        if (m.name == "favor+") own["stabilised"] = 0;  // its one factor cancels in B Cᵀ
        const Index rank = m.default_rank > 0 ? 4 : 0;
        const Dense before = product(low_rank(m.name, q, k, rank_and_seed(rank, 1, own))),
                    after = product(low_rank(m.name, q2, k2, rank_and_seed(rank, 1, own)));
        const double change = (before - after).topLeftCorner(16, 16).norm() / before.topLeftCorner(16, 16).norm();
        CAPTURE(change);
        // hyper, skeinformer and skyformer draw a few tokens, hardly ever the last one; the blocks of hyper are not in
        // B Cᵀ.
        if (m.future && m.name != "hyper" && m.name != "skeinformer" && m.name != "skyformer") CHECK(change > 1e-6);
        if (!m.future) CHECK(change <= 1e-12);
    }
}

TEST_CASE("what lowrank refuses is said in one sentence", "[lowrank]") {
    const Tensor x = normal_tensor({1, 2, 8, 4}, 28);
    const auto refused = [](const std::string& name, const Tensor& q, const Tensor& k, const LowRankOptions& o,
                            const std::string& message) {
        try {
            low_rank(name, q, k, o);
            FAIL("accepted, expected: " << message);
        } catch (const Error& error) {
            CHECK(std::string(error.what()) == message);
        }
    };
    refused("favour+", x, x, {}, "name: no factorisation is named \"favour+\" (did you mean \"favor+\"?)");
    LowRankOptions none;
    none.rank = 0;
    for (const auto& m : lowrank::methods()) {
        INFO(m.name);
        refused(m.name, x, x, none, "rank: 0, expected 1 or more");
    }
    for (const char* name : {"nystrom", "svd", "rsvd", "lara", "linformer", "transformer-vq"})
        refused(name, x, x, rank_and_seed(9), "rank: 9, expected at most 8, the length");
    refused("skyformer", x, x, rank_and_seed(17), "rank: 17, expected at most 16, twice the length");
    refused("skeinformer", x, x, rank_and_seed(10), "rank: 10, expected at most 9, the length and one");
    refused("skeinformer", x, x, rank_and_seed(1),
            "rank: 1, expected 2 or more: a sampled column and the one for all others");
    refused("rfa", x, x, rank_and_seed(5), "rank: 5, expected an even number: a cosine and a sine for each direction");
    refused("taylor", x, x, rank_and_seed(4),
            "rank: 4, expected 15 or nothing: taylor has 1 + d + d(d+1)/2 features; with full 1 + d + d² for width 4");
    refused("favor+", x, normal_tensor({1, 2, 9, 4}, 1), {}, "k: 1×2×9×4, expected 1×2×8×4 like q");
    refused("favor+", x, x.to(DType::f32), {}, "k: Float32, expected Float64 like q");
    refused("favor+", Tensor::zeros(DType::f32, {8}), x, {},
            "q: a 8-element Tensor{Float32}, expected [batch, heads, length, width], [heads, length, width] or "
            "[length, width]");
    refused("favor+", x, x, rank_and_seed(4, 1, {{"orthogonl", 1}}),
            "lowrank: favor+ has no option \"orthogonl\" (did you mean \"orthogonal\"?)");
    refused("nystrom", x, x, rank_and_seed(4, 1, {{"iterations", 101}}),
            "iterations: 101, expected a whole number from 0 to 100");
    Tensor bad = x.copy();
    bad.set(4 * 8 + 6, std::nan(""));
    refused("favor+", bad, x, {}, "q: entry (1, 2, 2, 3) is NaN, expected finite numbers");
    bad = x.to(DType::f16).copy();
    bad.set(5, -INFINITY);
    refused("svd", x.to(DType::f16), bad, {}, "k: entry (1, 1, 2, 2) is -Inf, expected finite numbers");
    // Of every factorisation: entries that are not numbers, factors that are not, and a length that the rank does not
    // divide.
    const Tensor wide = normal_tensor({1, 2, 50, 6}, 29), huge = normal_tensor({1, 2, 50, 6}, 29, DType::f32, 1e30);
    for (const auto& m : lowrank::methods()) {
        CAPTURE(m.name);
        bad = wide.copy();
        bad.set(6 * 57 + 1, std::nan(""));
        refused(m.name, bad, wide, {}, "q: entry (1, 2, 8, 2) is NaN, expected finite numbers");
        refused(m.name, wide, bad, {}, "k: entry (1, 2, 8, 2) is NaN, expected finite numbers");
        if (m.name == "favor+") {
            refused(m.name, huge, huge, {}, "q: the factors overflow, expected smaller queries, keys or scale");
            refused(m.name, huge, huge, rank_and_seed(8, 1, {{"rows", 1}}),
                    "q: the factors overflow, expected smaller queries, keys or scale");
        } else if (m.name != "hedgehog") {
            refused(m.name, huge, huge, {}, "q: the factors overflow, expected smaller queries, keys or scale");
        }
        if (m.default_rank == 0) continue;
        const Index rank = m.name == "rfa" ? 8 : 7;
        const LowRank f = low_rank(m.name, wide, wide, rank_and_seed(rank));
        CHECK(f.B.shape() == Shape{1, 2, 50, rank});
        LowRankErrorOptions with;
        with.extras = f.extras;
        CHECK(std::isfinite(lowrank_error(wide, wide, f.B, f.C, with).all.frobenius.error));
        const Tensor single = normal_tensor({1, 6}, 30);
        const LowRank alone = low_rank(m.name, single, single, {});
        CHECK(std::isfinite(alone.B.get(0) * alone.C.get(0)));
    }
    LowRankOptions o;
    o.v = normal_tensor({1, 2, 8, 3}, 1);
    refused("lara", x, x, o, "v: given, expected none: lara does not look at values");
    o.v = normal_tensor({1, 2, 7, 3}, 1);
    refused("skeinformer", x, x, o, "v: 1×2×7×3, expected 1×2×8×4 like q but for the last dimension");
    o = {};
    o.scale = -1;
    refused("svd", x, x, o, "scale: -1, expected a finite number above 0");
    const Tensor longer = Tensor::zeros(DType::f32, {4097, 1});
    refused("svd", longer, longer, {},
            "q: length 4097, expected at most 4096: svd forms the whole matrix; \"rsvd\" does not");
}

TEST_CASE("what a decomposition takes is asked for before, so that a rank too large for the machine is refused",
          "[lowrank]") {
    const Index N = 96;
    const Tensor q = normal_tensor({N, 4}, 44), k = normal_tensor({N, 4}, 45);
    for (const char* name : {"svd", "rsvd", "nystrom", "skyformer"}) {
        for (const double iterations : {0.0, 6.0}) {
            CAPTURE(name);
            std::map<std::string, double> own;
            if (name == std::string("nystrom")) own["iterations"] = iterations;
            memory::reset_peak();
            const std::size_t before = memory::current();
            low_rank(name, q, k, rank_and_seed(N, 1, own));
            CHECK(memory::peak() - before >= 5 * sizeof(double) * static_cast<std::size_t>(N * N));
        }
    }
}
