// Random numbers that are the same on every machine and for every number of threads.
// Element i of the k-th call is a pure function of (seed, k, i): Philox4x32-10 keyed with the seed, at the counter (i,
// k) (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). Only IEEE operations follow.
#pragma once

#include <cstdint>

#include "core/tensor/tensor.hpp"

namespace causeway::random {

// Starts the sequence of calls anew. Without a seed of the user's the system gives one.
void set_seed(std::uint64_t seed);

// The seed in use.
std::uint64_t seed();

// A call that fails draws nothing: where an exception leaves the scope of this, the sequence goes on as if there had
// been no call in it. So a call that ran out of memory and is made once more draws the same numbers.
class Retaken {
public:
    Retaken() noexcept;
    Retaken(const Retaken&) = delete;
    Retaken& operator=(const Retaken&) = delete;
    ~Retaken();

private:
    std::uint64_t calls_;
    int exceptions_;
};

// Uniform in [0, 1), on the grid of the type's precision: 2^-53 for Float64, 2^-24 for Float32, 2^-11, 2^-8.
Tensor uniform(DType, const Shape&);

// Standard normal: the inverse of the distribution function at uniform points (Wichura's AS 241, relative error 1e-15).
Tensor normal(DType, const Shape&);

// The numbers 1 to n in random order, each order equally likely. Float32 while it holds n exactly (n <= 2^24),
// Float64 beyond. Throws Error for n < 0.
Tensor permutation(Index n);

// Numbers apart from the sequence of calls, for algorithms that take a seed of their own: element i is a pure function
// of (seed, stream, i), and never one that a call above gives. stream < 2^63.
void uniforms(std::uint64_t seed, std::uint64_t stream, double* x, Index n);
void normals(std::uint64_t seed, std::uint64_t stream, double* x, Index n);

// The inverse of the standard normal distribution function, 0 < p < 1, from IEEE + - * / and square root only.
double normal_quantile(double p) noexcept;

}  // namespace causeway::random
