// Claims B1, B7 (proofs/exact.md), C1 and C3 (proofs/recursion.md): causal linear attention by its exact methods.
#include <cstdlib>
#include <limits>

#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/text.hpp"
#include "core/bounds/causal_error.hpp"
#include "core/bounds/counts.hpp"
#include "core/exact/causal_linear_attention.hpp"

namespace causeway::bounds {
namespace {

// The methods that an input asks for: the one named, or all.
std::vector<const exact::Method*> methods_of(const Given& given) {
    if (given.has("method")) return {&exact::method(given.text("method"))};
    std::vector<const exact::Method*> out;
    for (const exact::Method& m : exact::methods()) out.push_back(&m);
    return out;
}

// A block that is given goes to the methods that have one; to one that has none, asked for by name, it is an error.
Index block_of(const Given& given, const exact::Method& m) {
    if (given.has("block") && given.has("method") && m.block == 0)
        fail("block: ", given.whole("block", 1), ", expected none, as ", m.name, " has no blocks");
    return m.block > 0 ? std::min(given.whole("block", m.block), given.size('N')) : 0;
}

exact::Work work_of(const Given& given, const exact::Method& m) {
    exact::Work w;
    w.N = given.size('N'), w.r = given.size('r'), w.d = given.size('d'), w.block = block_of(given, m);
    w.decay = given.number("decay", 1) != 1, w.normalize = given.flag("normalize");
    return w;
}

// The worst entry of all heads, by the method.
Row error_of(const Given& given, const exact::Method& m, double k, double g) {
    CausalOptions o;
    o.method = m.name;
    if (m.block > 0) o.block = block_of(given, m);
    if (g != 1) o.decay = {g};
    return worst_head(given, {"B", "C", "V"}, m.name, k, g, [&](const Tensor& B, const Tensor& C, const Tensor& V) {
        return causal_linear_attention(B, C, V, o).O;
    });
}

std::vector<Row> errors(const Given& given) {
    std::vector<Row> out;
    for (const exact::Method* m : methods_of(given)) {
        const exact::Work w = work_of(given, *m);
        out.push_back(error_of(given, *m, real(exact::roundings(*m, w)), 1));
    }
    return out;
}

std::vector<Row> recursion_with_decay(const Given& given) {
    const exact::Method& m = exact::method("recursion");
    const exact::Work w = work_of(given, m);
    return {error_of(given, m, real(exact::roundings(m, w) + 2 * w.N), given.decay())};
}

// Of one head: counts depend on the sizes alone. All of a method that is named, the multiplies of each otherwise.
std::vector<Row> counts(const Given& given) {
    given.decay();
    std::vector<Row> out;
    const bool one = given.has("method");
    for (const exact::Method* m : methods_of(given)) {
        const exact::Work w = work_of(given, *m);
        const exact::Cost got = measured(*m, w), want = exact::cost(*m, w);
        const std::string name = one ? "" : m->name + ": ";
        out.push_back(counted_row(name + "multiplies", got.operations.multiplies, want.operations.multiplies));
        if (!one) continue;
        out.push_back(counted_row("adds", got.operations.adds, want.operations.adds));
        out.push_back(counted_row("divisions", got.operations.divisions, want.operations.divisions));
        out.push_back(counted_row("numbers held beyond inputs and output", got.memory, want.memory));
    }
    return out;
}

std::vector<Row> recursion_counts(const Given& given) {
    const exact::Method& m = exact::method("recursion");
    const exact::Work w = work_of(given, m);
    const Index N = w.N, t = w.block, S = exact::halved(N, t);
    const double levels = std::log2(real(N) / real(t));
    return {counted_row("multiplies: rd S(N, t) and the leaves", measured(m, w).operations.multiplies,
                        exact::cost(m, w).operations.multiplies),
            {"S(N, t) ≤ N ⌈lg(N/t)⌉", real(S), real(N) * std::max(0.0, std::ceil(levels))},
            {"N lg(N/t) ≤ S(N, t)", real(N) * std::max(0.0, levels), real(S) * own_roundings}};
}

std::vector<Input> with(std::vector<Input> more) {
    std::vector<Input> out{
        {"B", "[..., N, r]", "as queries"}, {"C", "[..., N, r]", "as keys"}, {"V", "[..., N, d]", "the values"}};
    out.insert(out.end(), more.begin(), more.end());
    return out;
}

const std::string terms_of_recursion =
    "S(N, t): the lengths of all blocks that are halved, about N lg(N/t); t: the block of the leaves; lg: the "
    "logarithm "
    "to base 2";
const Input method_input{"method", "text", "a method's name; all where none is given", true};
const Input block_input{"block", "whole number", "block length, of methods that have one", true};
const Input decay_input{"decay", "number", "γ in (0, 1]; 1", true};

}  // namespace

CausalReference::CausalReference(const Matrix& B, const Matrix& C, const Matrix& V, double g)
    : P(LongMatrix::Zero(B.rows(), V.cols())), Pi(P) {
    const Index N = B.rows(), r = B.cols(), d = V.cols();
    // Rows one after the other in memory.
    const Matrix b = B.transpose(), c = C.transpose(), v = V.transpose();
    std::vector<Long> powers(static_cast<std::size_t>(N), 1);
    for (std::size_t k = 1; k < powers.size(); ++k) powers[k] = powers[k - 1] * g;
    std::vector<Long> sum(static_cast<std::size_t>(d)), size(sum);
    const Long most_B = B.cwiseAbs().maxCoeff(), most_C = C.cwiseAbs().maxCoeff(), most_V = V.cwiseAbs().maxCoeff();
    largest = most_C * most_V * static_cast<Long>(N);
    lost_to_underflow = static_cast<Long>(N * (r + 1)) * (most_V + most_B + 2);
    for (Index i = 0; i < N; ++i) {
        interrupt::check();
        std::fill(sum.begin(), sum.end(), 0), std::fill(size.begin(), size.end(), 0);
        for (Index j = 0; j <= i; ++j) {
            Long s = 0, a = 0;
            for (Index k = 0; k < r; ++k) {
                const Long x = static_cast<Long>(b(k, i)) * c(k, j);
                s += x, a += std::abs(x);
            }
            largest = std::max(largest, a);
            s *= powers[static_cast<std::size_t>(i - j)], a *= powers[static_cast<std::size_t>(i - j)];
            for (Index k = 0; k < d; ++k) {
                sum[static_cast<std::size_t>(k)] += s * v(k, j);
                size[static_cast<std::size_t>(k)] += a * std::abs(v(k, j));
            }
        }
        for (Index k = 0; k < d; ++k)
            P(i, k) = sum[static_cast<std::size_t>(k)], Pi(i, k) = size[static_cast<std::size_t>(k)];
    }
    largest = std::max(largest, Pi.maxCoeff());
}

Row CausalReference::error(const std::string& what, const Tensor& out, double k, double u) const {
    const bool single = u == u32;
    const Long top = single ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max(),
               least = single ? std::numeric_limits<float>::denorm_min() : std::numeric_limits<double>::denorm_min();
    if (largest > top)
        fail("V: sums of products reach ", static_cast<double>(largest), ", more than ", single ? "Float32" : "Float64",
             " holds, of which the claim says nothing");
    double most = 0;
    for (Index i = 0; i < P.rows(); ++i)
        for (Index j = 0; j < P.cols(); ++j) {
            const Long off = std::abs(static_cast<Long>(out.get(i * P.cols() + j)) - P(i, j));
            const bool lost = off <= lost_to_underflow * least;  // false of NaN
            most = worst(most, lost ? 0 : static_cast<double>(off / Pi(i, j)));
        }
    return {what, most, budget(k, u)};
}

Row worst_head(const Given& given, const std::array<std::string, 3>& names, const std::string& form, double k, double g,
               const CausalCall& call) {
    const auto& [B, C, V] = names;
    const std::string what = form + ", k = " + std::to_string(static_cast<Index>(k));
    return nearest(given.heads(), [&](Index h) {
        const Tensor O = call(given.head(B, h), given.head(C, h), given.head(V, h));
        return CausalReference(given.matrix(B, h), given.matrix(C, h), given.matrix(V, h), g)
            .error(what, O, k, given.u());
    });
}

std::vector<Claim> causal_claims() {
    return {
        {"B1", "what a method's definition executes and holds", "proofs/exact.md", "fleet Table 1, leet Table 1",
         with(
             {method_input, block_input, decay_input, {"normalize", "true or false", "divided by the row sums", true}}),
         counts},
        {"B7", "every exact method: error over Π, by its roundings", "proofs/exact.md", "fleet 5.2",
         with({method_input, block_input}), errors, terms_over_pi},
        {"C1", "recursion costs N log N: rd S(N, t) and its leaves", "proofs/recursion.md",
         "fleet Lemma 4.2, leet Lemma 3.1", with({block_input}), recursion_counts, terms_of_recursion},
        {"C3", "recursion with decay: error over Π, by its roundings", "proofs/recursion.md", "leet Algorithm 4",
         with({{"decay", "number", "γ in (0, 1]"}, block_input}), recursion_with_decay, terms_over_pi},
    };
}

}  // namespace causeway::bounds
