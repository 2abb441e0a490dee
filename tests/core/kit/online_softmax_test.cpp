// Partial sums of softmax attention over pieces of the keys, against plain loops.
#include "core/kit/online_softmax.hpp"

#include <cmath>
#include <random>
#include <vector>

#include "tests/catch.hpp"

using namespace causeway;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Queries, keys and values of one head, and the partial sums by plain loops.
struct Problem {
    std::vector<double> q, k, v;
    kit::AttentionHead<double> head;

    Problem(Index group, Index N, Index M, Index d, Index dv, bool causal) {
        std::mt19937_64 generator(5);
        std::normal_distribution<double> normal;
        q.resize(static_cast<std::size_t>(group * N * d));
        k.resize(static_cast<std::size_t>(M * d));
        v.resize(static_cast<std::size_t>(M * dv));
        for (auto* x : {&q, &k, &v})
            for (double& element : *x) element = normal(generator);
        head.rows = group * N, head.N = N, head.M = M, head.d = d, head.dv = dv, head.causal = causal;
        head.q = q.data(), head.k = k.data(), head.v = v.data();
        head.scale = 0.5;
    }

    double score(Index row, Index key) const {
        double sum = 0;
        for (Index e = 0; e < head.d; ++e)
            sum += q[static_cast<std::size_t>(row * head.d + e)] * k[static_cast<std::size_t>(key * head.d + e)];
        return sum * head.scale;
    }

    // The largest relative error of m, l and the numerators, or quotients, of all rows over the keys [first, last).
    double error(Index first, Index last, bool divide) const {
        const auto rows = static_cast<std::size_t>(head.rows), wide = rows * static_cast<std::size_t>(head.dv);
        std::vector<double> O(wide, NAN), m(rows, NAN), l(rows, NAN);
        kit::online_softmax(head, 0, head.rows, first, last, divide, O.data(), m.data(), l.data());
        double worst = 0;
        const auto compare = [&](double got, double want) {
            if (got == want) return;
            const double relative = std::abs(got - want) / std::max(std::abs(want), 1.0);
            worst = relative <= worst ? worst : relative;
        };
        for (Index row = 0; row < head.rows; ++row) {
            const Index end = std::min(last, head.limit(row));
            double top = -infinity, sum = 0;
            for (Index j = first; j < end; ++j) top = std::max(top, score(row, j));
            for (Index j = first; j < end; ++j) sum += std::exp(score(row, j) - top);
            compare(m[static_cast<std::size_t>(row)], top);
            compare(l[static_cast<std::size_t>(row)], sum);
            for (Index e = 0; e < head.dv; ++e) {
                double n = 0;
                for (Index j = first; j < end; ++j)
                    n += std::exp(score(row, j) - top) * v[static_cast<std::size_t>(j * head.dv + e)];
                compare(O[static_cast<std::size_t>(row * head.dv + e)], divide ? n / sum : n);
            }
        }
        return worst;
    }
};

}  // namespace

TEST_CASE("partial sums of rows over a piece of the keys", "[kit][softmax]") {
    for (bool causal : {false, true}) {
        for (Index N : {1, 2, 3, 4, 17, 60}) {
            const Problem p(2, N, 100, 7, 9, causal);
            CAPTURE(causal, N);
            CHECK(p.error(0, 100, false) < 1e-13);
            CHECK(p.error(0, 100, true) < 1e-13);
            CHECK(p.error(0, 33, false) < 1e-13);
            CHECK(p.error(64, 100, false) < 1e-13);
        }
    }
}

TEST_CASE("a row that attends to no key of the piece has the neutral element", "[kit][softmax]") {
    const Problem p(1, 50, 50, 4, 4, true);
    std::vector<double> O(4 * 50, NAN), m(50, NAN), l(50, NAN);
    kit::online_softmax(p.head, 0, 50, 30, 50, false, O.data(), m.data(), l.data());
    CHECK(m[0] == -infinity);
    CHECK(l[0] == 0);
    CHECK(O[0] == 0);
    CHECK(l[49] > 0);
    CHECK(kit::shift_of(-infinity) == 0);
    CHECK(kit::shift_of(3.0) == 3.0);
}
