// A value that is not finite stays behind its token on the CPU: one NaN, Inf or huge number at token j of one input
// changes no bit of an earlier row, of another head, of another sequence of the batch or, from v, of another column;
// and a NaN shows in its own row. In gradients, of what does not depend on it: dq of another token from q and dO, of an
// earlier one from k, v and beta; dk and dv of a later one from q and dO. Random cases of every method; the long search
// is hidden.
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
#include "core/gradient/causal_linear_attention_grad.hpp"
#include "core/gradient/linear_attention_grad.hpp"
#include "core/gradient/softmax_attention_grad.hpp"
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
            switch (below(6)) {
                case 0: exact(); break;
                case 1: gated(); break;
                case 2: softmax(); break;
                case 3: exact_gradient(); break;
                case 4: gated_gradient(); break;
                default: softmax_gradient(); break;
            }
        }
    }

    // Calls by their kind, and how often a value came through or did not show.
    std::map<std::string, long> leaked, hidden;

private:
    struct Input {
        std::string name;  // "q", "k", "v", "beta", "dO"
        Tensor x;          // [batch, heads, N, width] or [batch, heads, N]
    };
    // An output, or a gradient by its input's name.
    struct Result {
        std::string of;
        Tensor x;
    };
    using Results = std::vector<Result>;

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

    void exact_gradient() {
        std::vector<Input> in = inputs(1);
        CausalOptions o;
        if (coin()) o.decay = {0.5 + 0.5 / static_cast<double>(1 + below(100))};
        if (coin()) o.block = 1 + below(70);
        add_upstream(in);
        poison("gradient of causal linear attention", in, [&](const std::vector<Input>& x) {
            const CausalGradient g = causal_linear_attention_grad(x[0].x, x[1].x, x[2].x, x[3].x, o);
            return Results{{"dq", g.dB}, {"dk", g.dC}, {"dv", g.dV}};
        });
    }

    void gated() {
        LinearOptions o;
        const std::vector<Input> in = gated_inputs(o);
        poison(o.update + " " + o.mode, in, [&](const std::vector<Input>& x) {
            return linear_attention(x[0].x, x[1].x, x[2].x, with_beta(o, x)).O;
        });
    }

    void gated_gradient() {
        LinearOptions o;
        std::vector<Input> in = gated_inputs(o);
        add_upstream(in);
        poison("gradient of " + o.update + " " + o.mode, in, [&](const std::vector<Input>& x) {
            const LinearGradient g = linear_attention_grad(x[0].x, x[1].x, x[2].x, x.back().x, with_beta(o, x));
            Results out{{"dq", g.dq}, {"dk", g.dk}, {"dv", g.dv}};
            if (g.dbeta) out.push_back({"dbeta", *g.dbeta});
            return out;
        });
    }

    // Of the family, whose gates go into the options.
    std::vector<Input> gated_inputs(LinearOptions& o) {
        const auto& rules = gated::updates().names();
        const auto& modes = gated::modes().names();
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
        return in;
    }
    static LinearOptions with_beta(LinearOptions o, const std::vector<Input>& x) {
        for (const Input& input : x)
            if (input.name == "beta") o.beta = input.x;
        return o;
    }
    // dO, with the shape of the outputs.
    void add_upstream(std::vector<Input>& in) {
        const Shape &q = in[0].x.shape(), &v = in[2].x.shape();
        in.push_back({"dO", normal(in[0].x.dtype(), {q[0], q[1], q[2], v[3]})});
    }

    void softmax() {
        const auto& names = attention::methods().names();
        SoftmaxOptions o;
        o.method = names[static_cast<std::size_t>(below(static_cast<Index>(names.size())))];
        o.causal = true;
        poison("softmax " + o.method, inputs(1 + below(2)),
               [&](const std::vector<Input>& x) { return softmax_attention(x[0].x, x[1].x, x[2].x, o).O; });
    }

    void softmax_gradient() {
        const auto& names = attention::methods().names();
        SoftmaxOptions o;
        o.method = names[static_cast<std::size_t>(below(static_cast<Index>(names.size())))];
        o.causal = true;
        std::vector<Input> in = inputs(1 + below(2));
        add_upstream(in);
        poison("gradient of softmax " + o.method, in, [&](const std::vector<Input>& x) {
            const SoftmaxGradient g = softmax_attention_grad(x[0].x, x[1].x, x[2].x, x[3].x, o);
            return Results{{"dq", g.dq}, {"dk", g.dk}, {"dv", g.dv}};
        });
    }

    // A place in one input, and what of a result depends on it.
    struct Place {
        std::string input;
        Index heads, batch, head, token, column;  // heads: of the input

        bool of_queries() const { return input == "q" || input == "dO"; }
        // Whether row i of a head does. Heads of q, k or v share the same head of the fewer ones.
        bool reaches(const std::string& result, Index result_heads, Index b, Index h, Index i) const {
            if (b != batch) return false;
            if (result_heads >= heads ? h / (result_heads / heads) != head : h != head / (heads / result_heads))
                return false;
            if (result == "O" || result == "dq") return of_queries() ? i == token : i >= token;
            return !of_queries() || i <= token;
        }
        // Of the outputs, of v, the same column alone.
        bool reaches_column(const std::string& result, Index c) const {
            return result != "O" || input != "v" || c == column;
        }
        // Where a NaN has to show: in the outputs of its token, and in dq of that of dO.
        bool shows(const std::string& result, Index i) const {
            return i == token && (result == "O" || (result == "dq" && input == "dO"));
        }
    };

    static Results results(const Tensor& O) { return {{"O", O}}; }
    static Results results(const Results& gradients) { return gradients; }

    template <class Call>
    void poison(const std::string& kind, std::vector<Input> in, const Call& call) {
        constexpr double inf = std::numeric_limits<double>::infinity();
        constexpr double bad_values[] = {std::numeric_limits<double>::quiet_NaN(), inf, -inf, 1e30};
        const Results clean = results(call(in));
        const auto which = static_cast<std::size_t>(below(static_cast<Index>(in.size())));
        const double bad = bad_values[below(4)];
        Input& changed = in[which];
        const Shape& s = changed.x.shape();
        const Index width = s.ndim() == 4 ? s[3] : 1;
        const Place at{changed.name, s[1], below(s[0]), below(s[1]), below(s[2]), below(width)};
        changed.x.set(((at.batch * s[1] + at.head) * s[2] + at.token) * width + at.column, bad);
        const Results got = results(call(in));
        for (std::size_t r = 0; r < got.size(); ++r)
            compare(kind + ", " + changed.name + (got[r].of == "O" ? "" : " in " + got[r].of), at, std::isnan(bad),
                    got[r], clean[r].x);
    }

    void compare(const std::string& name, const Place& at, bool is_nan, const Result& got, const Tensor& clean) {
        const Shape& o = clean.shape();
        const Index width = o.ndim() == 4 ? o[3] : 1;
        long through = 0, unseen = 0;
        Index n = 0;
        for (Index b = 0; b < o[0]; ++b)
            for (Index h = 0; h < o[1]; ++h)
                for (Index i = 0; i < o[2]; ++i) {
                    const bool row = at.reaches(got.of, o[1], b, h, i);
                    for (Index c = 0; c < width; ++c, ++n) {
                        if (!row || !at.reaches_column(got.of, c))
                            through += std::bit_cast<std::uint64_t>(got.x.get(n)) !=
                                       std::bit_cast<std::uint64_t>(clean.get(n));
                        else if (is_nan && at.shows(got.of, i)) unseen += !std::isnan(got.x.get(n));
                    }
                }
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
