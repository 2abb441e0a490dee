// What nearly every file of core includes, read once: the precompiled header of its targets (CMakeLists.txt). No file
// needs it: without precompiled headers everything compiles as well, only slower.
//
// Eigen's own products, declared here as extern templates and compiled once, took 14 to 19 % more time to run: called
// from outside they lose their constants. core/tensor/product.hpp compiles once what needs none.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/eigen.hpp"
