// What H5 and H11 allow, as the library states it (core/bounds/softmax.hpp), with the faults that the checks know.
#pragma once

#include "core/bounds/softmax.hpp"
#include "tests/proofs/claims.hpp"

namespace causeway::proofs {

using bounds::Allowed;
using bounds::Attended;
using bounds::ceil_lg;
using bounds::largest_lse;
using bounds::ln;
using bounds::of_flash;

inline Allowed of_tree(double depth, Index N) {
    const Allowed a = bounds::of_tree(depth, N);
    return {a.mean, faulty("H11: without Σ P|v||ln w|", a.far, 0.0)};
}
// The same without the second sum. It is false.
inline Allowed without_weights(double depth, Index N) { return {2 * (3 * depth + ln(N) + 4), 0}; }

inline Allowed of_decode(int algorithm, Index N, Index p, double largest, Index rounds) {
    if (algorithm == 0) return of_tree(bounds::real(bounds::ceil_div(N, p)) + bounds::real(rounds), N);
    return bounds::of_decode(algorithm, N, p, largest, rounds);
}
inline Allowed of_decode(int algorithm, Index N, Index p, double largest = 0) {
    return of_decode(algorithm, N, p, largest, ceil_lg(p));
}

}  // namespace causeway::proofs
