// (I + T)⁻¹ of a chunk of the gated delta rule, in extended precision (claim F9).
#pragma once

#include "core/bounds/claim.hpp"

namespace causeway::bounds {

// T_tj = β_t Λ_tj k_t·k_j below the diagonal; k [C, dk], β and a [C, 1].
struct DeltaInverse {
    LongMatrix inverse;
    Matrix beta;

    DeltaInverse(const Matrix& k, const Matrix& beta, const Matrix& a);

    Row entries() const;        // max |((I + T)⁻¹)_tj| / β_t for j < t, against 1
    Row operator_norm() const;  // ‖(I + T)⁻¹‖ against 1 + C max β
};

}  // namespace causeway::bounds
