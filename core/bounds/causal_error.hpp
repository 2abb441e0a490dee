// The error of causal linear attention against its definition (claims B7, C3, F3, F4).
#pragma once

#include <array>
#include <functional>

#include "core/bounds/claim.hpp"

namespace causeway::bounds {

// One head: P = (B Cᵀ ⊙ M) V, M_ij = g^(i-j) for i >= j, and Π, the same of absolute values, in extended precision by
// plain loops. O(N² (r + d)).
struct CausalReference {
    LongMatrix P, Pi;
    Long largest = 0;            // of Π, of |B||C|ᵀ and of the sums of |c||v|
    Long lost_to_underflow = 0;  // what an entry may be off where products underflow, in least positive numbers
    CausalReference(const Matrix& B, const Matrix& C, const Matrix& V, double g);

    // max |out - P| / Π against the budget of k roundings u; an entry of which Π is 0 has to be 0. What underflow takes
    // is no part of the error. Throws Error where a sum overflows, of which the claims say nothing.
    Row error(const std::string& what, const Tensor& out, double k, double u) const;
};

// The terms of the claims whose error it is.
inline const char* terms_over_pi =
    "measured: the largest |error| over Π = (|B||C|ᵀ ⊙ M)|V|, the same sums of absolute values; k: the roundings that "
    "an output may meet; the bound is ku/(1-ku), u = 2^-24 in Float32 and 2^-53 in Float64";

// O of one head's B, C and V.
using CausalCall = std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>;

// The error of a call against the budget of k roundings, of all heads the nearest to it. names: of B, C and V among the
// inputs; form: what the row calls the call.
Row worst_head(const Given&, const std::array<std::string, 3>& names, const std::string& form, double k, double g,
               const CausalCall&);

}  // namespace causeway::bounds
