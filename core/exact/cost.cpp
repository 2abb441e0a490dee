#include "core/exact/cost.hpp"

#include <algorithm>
#include <limits>

#include "core/base/error.hpp"
#include "core/exact/registry.hpp"

namespace causeway::exact {
namespace closed_form {

Index narrow(Wide count) {
    if (count > std::numeric_limits<Index>::max()) fail("N: the count is 2^63 or more, expected shorter lengths");
    return static_cast<Index>(count);
}

Cost of(Wide multiply_adds, Wide more_multiplies, Wide memory) {
    return {{narrow(multiply_adds + more_multiplies), narrow(multiply_adds), 0, 0}, narrow(memory)};
}

Cost of_recurrence(const Work& w) {
    const Wide rd = Wide(w.r) * w.d;
    return of(2 * w.N * rd, w.decay ? w.N * rd : 0, rd);
}

Blocks::Blocks(Index N, Index block)
    : b(block),
      T((N + b - 1) / b),
      s(N - (T - 1) * b),
      q((T - 1) * triangle(b) + triangle(s)),
      dense((T - 1) * b * b + s * s) {}

}  // namespace closed_form

namespace {

using namespace closed_form;

void check_size(const char* name, Index value) {
    constexpr Index max_size = Index{1} << 40;
    if (value < 1 || value > max_size) fail(name, ": ", value, ", expected a number from 1 to ", max_size);
}

Work checked(const Work& asked, Index default_block) {
    Work w = asked;
    check_size("N", w.N);
    check_size("r", w.r);
    check_size("d", w.d);
    if (w.block != 0) check_size("block", w.block);
    w.block = std::min(w.block != 0 ? w.block : default_block, w.N);
    if (w.normalize) ++w.d;
    return w;
}

// The sizes with the method's own block where none was asked for.
Work checked(const Method& m, const Work& asked) {
    if (asked.block != 0 && m.block == 0) fail("block: the method \"", m.name, "\" has none");
    return checked(asked, m.block);
}

}  // namespace

Index halved(Index N, Index t) {
    if (N <= t) return 0;
    Index D = 0;
    while ((N + (Index{1} << D) - 1) >> D > t) ++D;  // ⌈log2(N/t)⌉
    const Index half = Index{1} << (D - 1);
    return N / half > t ? N * D : N * (D - 1) + (t + 1) * (N - t * half);
}

Cost cost(const Method& m, const Work& asked) {
    const Work w = checked(m, asked);
    Cost out = m.cost(w);
    if (w.normalize) {
        out.operations.divisions = narrow(Wide(asked.N) * asked.d);
        out.memory = narrow(Wide(out.memory) + 2 * Wide(w.N) * w.d);
    }
    return out;
}

Index running_memory(const Method& m, const Work& asked) { return m.running_memory(checked(m, asked)); }

Index roundings(const Method& m, const Work& asked) { return m.roundings(checked(m, asked)); }

Index crossover(const Work& asked, Tiles tiles) {
    const Index block = asked.block != 0 ? asked.block : asked.d;
    Work unbounded = asked;
    unbounded.N = Index{1} << 40;  // so that the block is not cut to the length
    const Work w = checked(unbounded, block);
    const Wide rd = Wide(w.r) * w.d, both = w.r + w.d;
    const bool dense = tiles == Tiles::dense;
    const auto hybrid_is_cheaper = [&](Index N) {
        const Blocks k(N, std::min(w.block, N));
        return (dense ? k.dense : k.q) * both + 2 * N * rd < (dense ? Wide(N) * N : triangle(N)) * both;
    };
    Index N = narrow(w.block + (dense ? 2 : 4) * rd / both + 1);
    while (N > 1 && hybrid_is_cheaper(N - 1)) --N;
    return N;
}

}  // namespace causeway::exact
