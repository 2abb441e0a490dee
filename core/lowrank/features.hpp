// Random directions that the random-feature factorisations share.
#pragma once

#include "core/lowrank/problem.hpp"

namespace causeway::lowrank {

// m directions ω [m, d], each standard normal. Orthogonal ones come in groups of d at right angles: the orthonormal
// rows of a random rotation times independent lengths with the distribution of |ω| (Choromanski et al. 2021,
// section 2.4), which leaves every single ω normal and lowers the variance. O(m d²).
Matrix<double> directions(const Random& random, Index m, Index d, bool orthogonal);

}  // namespace causeway::lowrank
