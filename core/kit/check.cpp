#include "core/kit/check.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/text.hpp"
#include "core/base/unknown_name.hpp"
#include "core/kit/callers_order.hpp"

namespace causeway::kit {

std::array<Index, 4> four_sizes(const Tensor& A, const char* name) {
    const int n = A.ndim();
    if (n < 2 || n > 4)
        fail(name, ": a ", A.summary(),
             ", expected [batch, heads, length, width], [heads, length, width] or [length, width]");
    const auto& s = A.shape();
    return {n > 3 ? s[0] : 1, n > 2 ? s[n - 3] : 1, s[n - 2], s[n - 1]};
}

void check_like(const char* name, const Tensor& A, const Tensor& B, const char* like) {
    if (A.ndim() != B.ndim())
        fail(name, ": ", A.ndim(), " dimensions (", callers_sizes(A.shape()), "), expected ", B.ndim(), " like ", like,
             " (", callers_sizes(B.shape()), ")");
    if (A.dtype() != B.dtype())
        fail(name, ": ", causeway::name(A.dtype()), ", expected ", causeway::name(B.dtype()), " like ", like);
}

void check_equal(const char* name, const char* what, Index got, Index expected, const char* like) {
    if (got != expected) fail(name, ": ", what, " ", got, ", expected ", expected, " like ", like);
}

void check_scale(double scale, DType type) {
    const bool finite = type == DType::f64 ? std::isfinite(scale) : std::isfinite(static_cast<float>(scale));
    if (!finite) fail("scale: ", scale, ", expected a finite number");
}

void check_apart(const char* name, const Tensor& A, const char* other, const Tensor& B) {
    const auto before = [](const Tensor& X, const Tensor& Y) {
        return !std::less<>()(Y.raw(), X.raw() + X.bytes());  // X ends where Y begins, or before it
    };
    if (A.size() > 0 && B.size() > 0 && !before(A, B) && !before(B, A))
        fail(name, ": has elements of ", other, ", expected a tensor of its own");
}

std::size_t check_choice(const char* option, const std::string& value, const std::vector<std::string>& choices) {
    const auto at = std::find(choices.begin(), choices.end(), value);
    if (at == choices.end())
        throw UnknownName(sentence(option, ": ", in_quotes(value), expected_one_of(choices)), value, choices);
    return static_cast<std::size_t>(at - choices.begin());
}

namespace {

using Four = std::array<Index, 4>;

// Everything but the numbers of heads.
void check_but_heads(const Tensor& q, const Tensor& k, const Tensor& v, const Four& Q, const Four& K, const Four& V,
                     bool one_length) {
    check_like("k", k, q, "q");
    check_like("v", v, q, "q");
    check_equal("k", "batch", K[0], Q[0], "q");
    if (one_length) check_equal("k", "length", K[2], Q[2], "q");
    check_equal("k", "width", K[3], Q[3], "q");
    check_equal("v", "batch", V[0], K[0], "k");
    check_equal("v", "length", V[2], K[2], "k");
}

// Whether `many` heads are a multiple of `few`: none of none.
bool is_multiple(Index many, Index few) { return few == 0 ? many == 0 : many % few == 0; }

}  // namespace

AttentionSizes check_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool one_length) {
    const Four Q = four_sizes(q, "q"), K = four_sizes(k, "k"), V = four_sizes(v, "v");
    check_but_heads(q, k, v, Q, K, V, one_length);
    check_equal("v", "heads", V[1], K[1], "k");
    if (!is_multiple(Q[1], K[1])) fail("q: heads ", Q[1], ", expected a multiple of the ", K[1], " of k and v");
    return {Q[0], K[1], K[1] == 0 ? 1 : Q[1] / K[1], Q[2], K[2], Q[3], V[3]};
}

HeadGroups check_head_groups(Index queries, Index keys, Index values, const std::array<const char*, 3>& names) {
    if (!is_multiple(values, keys))
        fail(names[2], ": heads ", values, ", expected ", keys, " like ", names[1],
             ", or a multiple for grouped values");
    const bool none = queries == 0 || values == 0;
    if (none ? queries != values : !is_multiple(queries, values) && !is_multiple(values, queries))
        fail(names[0], ": heads ", queries, ", expected a multiple of the ", values, " of ", names[2],
             ", or a divisor of them");
    if (values == 0) return {0, 1, 1, 1};
    return {values, std::max<Index>(queries / values, 1), std::max<Index>(values / queries, 1), values / keys};
}

GroupedSizes check_grouped(const Tensor& q, const Tensor& k, const Tensor& v) {
    const Four Q = four_sizes(q, "q"), K = four_sizes(k, "k"), V = four_sizes(v, "v");
    check_but_heads(q, k, v, Q, K, V, true);
    const HeadGroups g = check_head_groups(Q[1], K[1], V[1], {"q", "k", "v"});
    return {Q[0], g.values, g.group, g.shared_queries, g.shared_keys, Q[2], Q[3], V[3]};
}

}  // namespace causeway::kit
