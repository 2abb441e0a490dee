// What Eigen asks of a number that stands for one of C++'s and does more with each operation.
#pragma once

#include "core/base/eigen.hpp"

namespace causeway {

// Base of Eigen::NumTraits<Number>: Number holds one Plain, and what Eigen makes of a Number is a Number again.
template <class Number, class Plain>
struct NumberTraits : Eigen::NumTraits<Plain> {
    using Real = Number;
    using NonInteger = Number;
    using Nested = Number;
    enum {
        IsComplex = 0,
        IsInteger = 0,
        IsSigned = 1,
        RequireInitialization = 0,
        ReadCost = 1,
        AddCost = 3,
        MulCost = 3
    };
};

}  // namespace causeway
