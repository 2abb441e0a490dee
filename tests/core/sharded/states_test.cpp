// The ring of states where heads may forget, with states of one number: what arrives where, that nobody waits for what
// does not come, and that a state goes round after all that its gates alone would have forgotten.
#include "core/sharded/states.hpp"

#include <random>
#include <set>

#include "core/distributed/threads.hpp"
#include "core/sharded/route.hpp"
#include "tests/catch.hpp"

namespace causeway::test {
namespace {

using sharded::Stops;

// S <- a S + b; a rank takes for forgotten what its gates say, and with a = 0 it is: what it hands on is b. late: it
// says that this was another state when it is asked for all that remains, not at once.
struct Rank {
    std::vector<double> a, b;
    std::vector<char> forgets, late;
};

// What a rank saw before its tokens of each state.
class Numbers final : public sharded::Part<double> {
public:
    Numbers(const Rank& rank, std::vector<double>& last, bool may_forget)
        : rank_(rank), last_(last), may_forget_(may_forget), seen(rank.a.size(), NAN) {}

    void firsts(Stops stops, double* S) const override {
        each(stops, [&](std::size_t i, std::size_t k) { S[k] = 1000.0 + static_cast<double>(i); });
    }
    void lasts(Stops stops, const double* S) override {
        each(stops, [&](std::size_t i, std::size_t k) { last_[i] = S[k]; });
    }
    void runs(Stops stops, double* S) override {
        each(stops, [&](std::size_t i, std::size_t k) { seen[i] = S[k]; });
        advances(stops, S);
    }
    void advances(Stops stops, double* S) const override {
        each(stops, [&](std::size_t i, std::size_t k) { S[k] = rank_.a[i] * S[k] + rank_.b[i]; });
    }
    void maps(Stops stops, double* A) const override {
        each(stops, [&](std::size_t i, std::size_t k) { A[k] = rank_.a[i]; });
    }
    void clear(double* x, Index n) const override { std::fill_n(x, n, 0.0); }
    void copy(const double* from, Index n, double* to) const override { std::copy_n(from, n, to); }
    void applies(const sharded::Route&, Index n, const double* A, const double* B, const double* S,
                 double* out) const override {
        for (Index k = 0; k < n; ++k) out[k] = A[k] * S[k] + B[k];
    }
    bool may_forget() const override { return may_forget_; }
    std::vector<char> forgets(Stops stops) override {
        std::vector<char> out;
        each(stops, [&](std::size_t i, std::size_t) { out.push_back(rank_.forgets[i]); });
        return out;
    }
    void last_tokens(Stops stops, double* S) override {
        each(stops, [&](std::size_t i, std::size_t k) { S[k] = rank_.b[i]; });
    }
    std::vector<char> differ(Stops stops, const double* S, const double* handed) override {
        std::vector<char> out;
        each(stops, [&](std::size_t i, std::size_t k) {
            const bool differs = S[k] != handed[k];
            out.push_back(differs && !rank_.late[i]);
            if (differs && rank_.late[i]) remain_.insert(i);
        });
        return out;
    }
    std::vector<char> remains(Stops stops) override {
        std::vector<char> out;
        each(stops, [&](std::size_t i, std::size_t) { out.push_back(remain_.contains(i)); });
        return out;
    }
    sharded::Work run_work(Index) const override { return {}; }
    sharded::Work advance_work(Index) const override { return {}; }

private:
    template <class F>
    static void each(Stops stops, F&& f) {
        for (std::size_t k = 0; k < stops.size(); ++k) f(static_cast<std::size_t>(stops[k].state), k);
    }
    const Rank& rank_;
    std::vector<double>& last_;
    bool may_forget_;
    std::set<std::size_t> remain_;

public:
    std::vector<double> seen;
};

}  // namespace

TEST_CASE("states arrive where heads forget on some ranks", "[sharded]") {
    std::mt19937_64 random(7);
    const auto draw = [&](Index n) { return static_cast<Index>(random() % static_cast<std::uint64_t>(n)); };
    for (int round = 0; round < 300; ++round) {
        const int p = 1 + static_cast<int>(draw(6));
        const Index heads = 1 + draw(5);
        // Packed sequences that begin and end anywhere, in parts of which some are empty.
        std::vector<gated::Sequence> sequences;
        Index N = 0;
        for (Index i = 0, count = 1 + draw(4); i < count; ++i) {
            const Index n = draw(20);
            sequences.push_back({0, N, n});
            N += n;
        }
        sharded::Starts starts{0};
        for (int r = 1; r < p; ++r) starts.push_back(draw(N + 1));
        starts.push_back(N);
        std::sort(starts.begin(), starts.end());
        const auto states = sequences.size() * static_cast<std::size_t>(heads);
        std::vector<Rank> ranks(static_cast<std::size_t>(p));
        for (Rank& rank : ranks)
            for (std::size_t i = 0; i < states; ++i) {
                rank.a.push_back(draw(2) ? 0 : 1 + static_cast<double>(draw(3)));
                rank.b.push_back(static_cast<double>(draw(100)));
                rank.forgets.push_back(rank.a.back() == 0 || draw(4) == 0);
                rank.late.push_back(draw(2) == 0);
            }
        // A rank without tokens of a sequence leaves its state as it is.
        for (int r = 0; r < p; ++r)
            for (std::size_t i = 0; i < states; ++i) {
                const sharded::Piece piece =
                    sharded::piece_of(sequences[i / static_cast<std::size_t>(heads)], starts, r);
                Rank& rank = ranks[static_cast<std::size_t>(r)];
                if (piece.n == 0) rank.a[i] = 1, rank.b[i] = 0, rank.forgets[i] = 0;
            }
        for (const auto exchange :
             {sharded::Exchange::ring, sharded::Exchange::all_scan, sharded::Exchange::all_gather})
            for (const bool may_forget : {true, false})
                for (const int together : {1, 2, 100}) {
                    CAPTURE(round, p, heads, starts, may_forget, together, static_cast<int>(exchange));
                    std::vector<double> last(states, NAN);
                    std::vector<std::vector<double>> seen(static_cast<std::size_t>(p));
                    std::vector<sharded::Route> routes;
                    for (int r = 0; r < p; ++r) {
                        routes.push_back(sharded::route_of(sequences, heads, starts, r));
                        routes.back().elements = routes.back().rows = 1, routes.back().carry = 1;
                        routes.back().together = together;
                    }
                    distributed::run_threads(p, [&](distributed::Communicator& comm) {
                        const auto r = static_cast<std::size_t>(comm.rank());
                        Numbers part(ranks[r], last, may_forget);
                        sharded::forward(comm, routes[r], part, exchange);
                        seen[r] = part.seen;
                    });
                    for (std::size_t i = 0; i < states; ++i) {
                        double S = 1000.0 + static_cast<double>(i);
                        for (int r = 0; r < p; ++r) {
                            const auto at = static_cast<std::size_t>(r);
                            const sharded::Piece piece =
                                sharded::piece_of(sequences[i / static_cast<std::size_t>(heads)], starts, r);
                            if (!piece.here) continue;
                            CHECK(seen[at][i] == S);
                            S = ranks[at].a[i] * S + ranks[at].b[i];
                        }
                        CHECK(last[i] == S);
                    }
                }
    }
}

}  // namespace causeway::test
