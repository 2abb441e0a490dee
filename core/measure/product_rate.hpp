// The yardstick of every speed: how fast this machine multiplies matrices.
#pragma once

#include "core/tensor/tensor.hpp"

namespace causeway {

// What it takes unless told otherwise.
inline constexpr double product_rate_seconds = 0.25;

// Floating-point operations a second of Eigen's n×n×n product, each of threads() threads busy with a product of its
// own, 2n³ operations each: the median over repetitions after a warm-up. Takes about `seconds`, at least 5 repetitions
// of 5 ms and at most 50; 3n² numbers a thread. Throws Error unless 1 <= n <= 4096 and the type computes.
double product_rate(Index n = 512, DType type = DType::f32, double seconds = product_rate_seconds);

}  // namespace causeway
