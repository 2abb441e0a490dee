// A value that is not finite stays behind its token on the CPU: one NaN, Inf or huge number at token j of one input
// changes no bit of an earlier row, of another head, of another sequence of the batch or, from v, of another column;
// and a NaN shows in its own row. Random cases of every method; the long search is hidden.
//
//     causeway-tests "[.poison-long]"      CAUSEWAY_POISON_CASES of them (100000), and a line with their number
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/exact/causal_linear_attention.hpp"
#include "core/exact/registry.hpp"
#include "core/gated/linear_attention.hpp"
#include "core/gated/registry.hpp"
#include "core/softmax/softmax_attention.hpp"
#include "core/tensor/random.hpp"
#include "tests/catch.hpp"

using namespace causeway;

namespace {

class Cases {
public:
    explicit Cases(std::uint64_t seed) : draw_(seed) {}

    void run(long count) {
        for (long i = 0; i < count; ++i) {
            switch (below(3)) {
                case 0: exact(); break;
                case 1: gated(); break;
                default: softmax(); break;
            }
        }
    }

    // Calls by their kind, and how often a value came through or did not show.
    std::map<std::string, long> leaked, hidden;

private:
    struct Input {
        std::string name;  // "q", "k", "v", "beta"
        Tensor x;          // [batch, heads, N, width] or [batch, heads, N]
    };

    Index below(Index n) { return static_cast<Index>(draw_() % static_cast<std::uint64_t>(n)); }
    bool coin() { return draw_() % 2 == 0; }

    Tensor normal(DType type, const Shape& shape) {
        std::normal_distribution<double> numbers;
        Tensor x(type, shape);
        for (Index i = 0; i < x.size(); ++i) x.set(i, numbers(draw_));
        return x;
    }

    Tensor strengths(DType type, const Shape& shape) {
        Tensor x = normal(type, shape);
        for (Index i = 0; i < x.size(); ++i) x.set(i, std::abs(std::sin(x.get(i))));
        return x;
    }

    // q, k, v of random sizes; `group` heads of q share one of k and v.
    std::vector<Input> inputs(Index group) {
        const DType type = coin() ? DType::f32 : DType::f64;
        const Index b = 1 + below(2), h = 1 + below(2), N = 2 + below(150), r = 1 + below(24), d = 1 + below(24);
        return {{"q", normal(type, {b, h * group, N, r})},
                {"k", normal(type, {b, h, N, r})},
                {"v", normal(type, {b, h, N, d})}};
    }

    void exact() {
        const auto& list = exact::methods();
        const exact::Method& m = *std::next(list.begin(), below(static_cast<Index>(list.size())));
        const std::vector<Input> in = inputs(1);
        CausalOptions o;
        o.method = m.name;
        if (coin()) o.decay = {0.5 + 0.5 / static_cast<double>(1 + below(100))};
        if (m.block > 0 && coin()) o.block = 1 + below(70);
        o.normalize = below(4) == 0;
        poison(m.name + (o.normalize ? ", normalised" : ""), in,
               [&](const std::vector<Input>& x) { return causal_linear_attention(x[0].x, x[1].x, x[2].x, o).O; });
    }

    void gated() {
        const auto& rules = gated::updates().names();
        const auto& modes = gated::modes().names();
        LinearOptions o;
        o.update = rules[static_cast<std::size_t>(below(static_cast<Index>(rules.size())))];
        o.mode = modes[static_cast<std::size_t>(below(static_cast<Index>(modes.size())))];
        std::vector<Input> in = inputs(1 + below(2));
        const Shape &k = in[1].x.shape(), gates{k[0], k[1], k[2]};
        if (o.mode == "chunkwise") o.chunk = 1 + below(70);
        if (o.update.starts_with("gated")) {
            Tensor g = strengths(in[1].x.dtype(), coin() && o.mode != "parallel" ? k : gates);
            for (Index i = 0; i < g.size(); ++i) g.set(i, -g.get(i));
            o.log_decay = g;
        }
        if (o.update.ends_with("delta")) {
            // Keys of length 1, as the rule has them: with longer ones states grow without bound.
            Tensor& keys = in[1].x;
            for (Index i = 0; i < keys.size(); ++i)
                keys.set(i, keys.get(i) / (3 * std::sqrt(static_cast<double>(k[3]))));
            in.push_back({"beta", strengths(in[1].x.dtype(), gates)});
        }
        poison(o.update + " " + o.mode, in, [&](const std::vector<Input>& x) {
            LinearOptions with = o;
            if (x.size() > 3) with.beta = x[3].x;
            return linear_attention(x[0].x, x[1].x, x[2].x, with).O;
        });
    }

    void softmax() {
        const auto& names = attention::methods().names();
        SoftmaxOptions o;
        o.method = names[static_cast<std::size_t>(below(static_cast<Index>(names.size())))];
        o.causal = true;
        poison("softmax " + o.method, inputs(1 + below(2)),
               [&](const std::vector<Input>& x) { return softmax_attention(x[0].x, x[1].x, x[2].x, o).O; });
    }

    template <class Call>
    void poison(const std::string& kind, std::vector<Input> in, const Call& call) {
        constexpr double inf = std::numeric_limits<double>::infinity();
        constexpr double bad_values[] = {std::numeric_limits<double>::quiet_NaN(), inf, -inf, 1e30};
        const Tensor clean = call(in);
        const auto which = static_cast<std::size_t>(below(static_cast<Index>(in.size())));
        const double bad = bad_values[below(4)];
        Input& changed = in[which];
        const Shape &s = changed.x.shape(), &o = clean.shape();
        const Index width = s.ndim() == 4 ? s[3] : 1;
        const Index batch = below(s[0]), head = below(s[1]), token = below(s[2]), column = below(width);
        changed.x.set(((batch * s[1] + head) * s[2] + token) * width + column, bad);
        const Tensor got = call(in);
        const Index shared = changed.name == "q" ? 1 : o[1] / s[1];
        long through = 0, unseen = 0;
        Index at = 0;
        for (Index b = 0; b < o[0]; ++b)
            for (Index h = 0; h < o[1]; ++h)
                for (Index i = 0; i < o[2]; ++i)
                    for (Index c = 0; c < o[3]; ++c, ++at) {
                        const bool there = b == batch && h / shared == head && (changed.name != "v" || c == column);
                        if (!there || (changed.name == "q" ? i != token : i < token)) {
                            through += std::bit_cast<std::uint64_t>(got.get(at)) !=
                                       std::bit_cast<std::uint64_t>(clean.get(at));
                        } else if (i == token && std::isnan(bad)) {
                            unseen += !std::isnan(got.get(at));
                        }
                    }
        const std::string name = kind + ", " + changed.name;
        if (through > 0) ++leaked[name];
        if (unseen > 0) ++hidden[name];
    }

    std::mt19937_64 draw_;
};

long faults(const Cases& cases) {
    long n = 0;
    for (const auto& [kind, calls] : cases.leaked) {
        n += calls;
        FAIL_CHECK(kind << ": reached what it must not in " << calls << " calls");
    }
    for (const auto& [kind, calls] : cases.hidden) {
        n += calls;
        FAIL_CHECK(kind << ": does not show in its own row in " << calls << " calls");
    }
    return n;
}

}  // namespace

TEST_CASE("a bad value stays behind its token on the CPU", "[poison]") {
    Cases cases(random::seed());
    cases.run(600);
    CHECK(faults(cases) == 0);
}

TEST_CASE("a bad value stays behind its token on the CPU, for long", "[.poison-long]") {
    const char* asked = std::getenv("CAUSEWAY_POISON_CASES");
    const long count = asked ? std::atol(asked) : 100000;
    Cases cases(random::seed());
    cases.run(count);
    const long found = faults(cases);
    std::printf("poison: %ld cases, %ld faults\n", count, found);
    CHECK(found == 0);
}
