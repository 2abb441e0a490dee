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

struct Cost {                   // of one head
    OperationCount operations;  // a multiply-add is one multiply and one add
    Index memory = 0;           // scalars held beyond inputs and output
};

// Of the method's definition. Normalised: that of V' = [V, 1], Nd divisions, and the 2N(d+1) scalars of V' and P'.
// O(log N). (By reference: GCC 12.2 at -O2 for AVX2 fills the fourth member of a Work{64, 64, 64} passed by value
// with 64.) Throws Error for sizes out of range, a block given to a method that has none, and counts from 2^63 on.
Cost cost(const Method&, const Work&);

// One closed form a method, unnormalised, for 1 <= block <= N (claims B1, where nothing else is said). With T = ⌈N/b⌉
// blocks, s the length of the last, τ(n) = n(n+1)/2, q = (T-1)τ(b) + τ(s) the triangular and q' = (T-1)b² + s² the
// dense tiles.
namespace cost_of {
Cost vanilla(const Work&);                  // N²(r+d) and N² mask multiplies; N²
Cost row_based(const Work&);                // 2Nrd; rd. Causal-dot-product too
Cost fleet_untiled(const Work&);            // 2Nrd; d
Cost block_based(const Work&);              // q(r+d) + (2N-b-s)rd, the second term for T > 1; rd + b²
Cost lightning(const Work&);                // the same; rd + b
Cost recursion(const Work&);                // rd·S(N,t) + (r+d)Σ τ(leaf); rd + t² (C1)
Cost fleet(const Work&);                    // 2Nrd multiplies, (3N - ⌈N/b⌉)rd adds; rd + bd
Cost inner_product(const Work&);            // τ(N)(r+d); N (G1)
Cost outer_product(const Work&);            // 2Nrd; Nrd (G1, G3)
Cost outer_product_blockwise(const Work&);  // 2Nrd; rd + b·rd (G3)
Cost hybrid(const Work&);                   // q'(r+d) + 2Nrd and q' mask multiplies; rd + b² (F5, G5, G6)
}  // namespace cost_of

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
