// The adversary of adversary.hpp: what it found is replayed, and it climbs a little, in every run; the long search is
// hidden.
//
//     causeway-tests "[.adversary-long]"                          climbs every bound for 10 s and keeps what is worse
//     CAUSEWAY_ADVERSARY_SECONDS=60 CAUSEWAY_ADVERSARY=H11 ...    each for a minute; those alone whose names have H11
//     CAUSEWAY_ADVERSARY_KEEPS=no ...                             keeps nothing
#include "tests/proofs/adversary.hpp"

#include <chrono>
#include <cmath>
#include <cstdlib>

#include "tests/catch.hpp"
#include "tests/proofs/claims.hpp"

using namespace causeway::proofs;

namespace {

// An input that uses less than this part of what the list says, on a machine that sums in another order, is none of the
// worst.
constexpr double of_what_is_kept = 0.125;

}  // namespace

TEST_CASE("the worst inputs kept: every stated bound on an error holds for them", "[proofs][bounds]") {
    const Kept kept = kept_inputs();
    std::size_t seen = 0;
    for (const Bound& b : bounds()) {
        const auto found = kept.find(b.name);
        if (found == kept.end()) FAIL("no worst input is kept of " << b.name);
        ++seen;
        const double share = b.share(found->second.x);
        claim(b.id, "worst input kept: error over the bound, " + b.name, "worst_inputs.txt", share, 1);
        published_fails(b.id, "that input is still a bad one: the part of the bound that it uses", "the same", share,
                        of_what_is_kept * found->second.share, regression);
        if (!b.refuted.empty())
            published_fails(b.id, "that input over " + b.refuted, "the same", b.refuted_share(found->second.x), 1);
    }
    exactly("B7", "inputs kept of bounds that are not on the list", "worst_inputs.txt",
            static_cast<std::int64_t>(kept.size() - seen), 0);
}

TEST_CASE("the adversary climbs every stated bound a little", "[proofs][bounds]") {
    for (const Bound& b : bounds()) {
        Generator draw(601);
        Found best;
        for (int start = 0; start < 3; ++start) {
            const Found found = climbed(b, started(b, draw), draw, 60);
            if (!(found.share < best.share)) best = found;
        }
        claim(b.id, "three short climbs: error over the bound, " + b.name, "seed 601, 60 moves each", best.share, 1);
    }
}

TEST_CASE("the adversary, for long: error over bound of every stated bound", "[.adversary-long]") {
    using Clock = std::chrono::steady_clock;
    const char *asked = std::getenv("CAUSEWAY_ADVERSARY_SECONDS"), *only = std::getenv("CAUSEWAY_ADVERSARY");
    const double seconds = asked ? std::atof(asked) : 10;
    constexpr int moves = 400;
    long tried = 0;
    int broken = 0;
    Kept kept = kept_inputs(), all;
    for (const Bound& b : bounds()) {
        Generator draw(static_cast<Generator::result_type>(Clock::now().time_since_epoch().count()));
        const auto known = kept.find(b.name);
        Found best;
        if (known != kept.end()) best = {known->second.x, b.share(known->second.x)};
        const double before = best.share;
        const auto begin = Clock::now();
        const auto left = [&] { return std::chrono::duration<double>(Clock::now() - begin).count() < seconds; };
        for (int climb = 0; (!only || b.name.find(only) != std::string::npos) && left(); ++climb) {
            // One climb in three goes on from the worst.
            Found found = climb % 3 == 2 && !best.x.empty() ? best : started(b, draw);
            for (double share = -1; share != found.share && !std::isnan(found.share) && left();)
                share = found.share, found = climbed(b, found, draw, moves), tried += moves;
            if (!(found.share <= best.share)) best = found;
            if (!(best.share <= 1)) break;
        }
        all[b.name] = best;
        std::printf("%-60s %.4f%s\n", b.name.c_str(), best.share, best.share > before ? "  (worse than before)" : "");
        std::fflush(stdout);
        broken += !(best.share <= 1);
        CHECK(best.share <= 1);
    }
    std::printf("adversary: %ld cases, %d faults\n", tried, broken);
    const char* keeps = std::getenv("CAUSEWAY_ADVERSARY_KEEPS");
    if (!keeps || std::string(keeps) != "no") keep(all);
}
