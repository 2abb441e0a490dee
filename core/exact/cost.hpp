// What the methods cost, in closed form: operations and memory of one head as functions of N, r, d and the block
// length. The counting scalar run through the definitions gives exactly these numbers
// (tests/core/exact/counts_test.cpp).
#pragma once

#include "core/base/memory.hpp"  // Index
#include "core/measure/counting.hpp"

namespace causeway::exact {

struct Method;

// One head without a state given or returned. Sizes are at least 1 and at most 2^40.
struct Work {
    Index N = 1, r = 1, d = 1;
    Index block = 0;  // 0: the method's own
    bool decay = false, normalize = false;
};

// Of one head.
struct Cost {
    OperationCount operations;  // a multiply-add is one multiply and one add
    Index memory = 0;           // scalars held beyond inputs and output
};

// Of the method's definition. Normalised: that of V' = [V, 1], Nd divisions, and the 2N(d+1) scalars of V' and P'.
// O(log N). (By reference: GCC 12.2 at -O2 for AVX2 fills the fourth member of a Work{64, 64, 64} passed by value
// with 64.) Throws Error for sizes out of range, a block given to a method that has none, and counts from 2^63 on.
Cost cost(const Method&, const Work&);

// What the form that runs holds: scalars beyond inputs and output of one head on one thread, unnormalised, N <= 2048, d
// and the block whole panels of the widest vectors; what Eigen's products pack for themselves is not among them (claims
// B1). Throws as cost().
Index running_memory(const Method&, const Work&);

// Roundings that one term of an entry of the form that runs can meet, without decay: the error of an entry of P is at
// most k u / (1 - k u) of Π = (|B||C|ᵀ ⊙ M)|V|, u half a unit in the last place (claims B7). Throws as cost().
Index roundings(const Method&, const Work&);

// What the closed forms of the methods are written with. Each stands beside its method as `Method::cost`: unnormalised,
// for 1 <= block <= N (claims B1, where nothing else is said).
namespace closed_form {

__extension__ typedef __int128 Wide;  // sizes up to 2^40 cannot overflow it

// Throws Error from 2^63 on.
Index narrow(Wide count);

Cost of(Wide multiply_adds, Wide more_multiplies, Wide memory);

// The recurrence, one token after the other: 2Nrd multiply-adds; rd scalars.
Cost of_recurrence(const Work&);

// τ(n): entries of a triangle of n rows.
constexpr Wide triangle(Wide n) { return n * (n + 1) / 2; }

// N tokens in T = ⌈N/b⌉ blocks, s the length of the last: q = (T-1)τ(b) + τ(s) entries of their triangles, dense =
// (T-1)b² + s² of their squares.
struct Blocks {
    Wide b, T, s, q, dense;
    Blocks(Index N, Index block);

    // Tokens that a carry of [r, d] is multiplied with or collected from, where the empty first carry and the last
    // update are skipped: 2N - b - s, or 0.
    Wide carried(Index N) const { return T > 1 ? 2 * Wide(N) - b - s : 0; }
};

}  // namespace closed_form

// S(N, t): the sum of the sizes of all nodes that recursion halves, 0 for N <= t (claims C1).
Index halved(Index N, Index t);

// Whether the products with a triangle of scores are taken as squares or as triangles.
enum class Tiles { dense, triangular };

// The smallest length from which on the hybrid form takes fewer multiply-adds than the inner-product form: for every N
// >= it,
//   q'(r+d) + 2Nrd < N²(r+d)   (dense; for r = d = b: N > 2d, claims G11)
//   q(r+d) + 2Nrd < τ(N)(r+d)  (triangular; for r = d = b: N > 3d)
// Found by exact search below a bound on N: past b + 2rd/(r+d), or b + 4rd/(r+d), the inequality holds since q' <= Nb
// and q <= N(b+1)/2. `decay` is not looked at. Throws as cost().
Index crossover(const Work&, Tiles);

}  // namespace causeway::exact
