// What every factorisation computes, and the views it works on: B Cᵀ ≈ A = exp(Q Kᵀ), one head at a time, with
// B, C [N, r] and Q, K the queries and keys times the square root of the scale.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/kit/product.hpp"
#include "core/kit/spread.hpp"
#include "core/kit/views.hpp"
#include "core/tensor/random.hpp"

namespace causeway::lowrank {

using namespace kit;  // views, products and panels by their plain names

using Vector = Eigen::VectorXd;

// What may be set beside rank, seed and scale. Truth values are 0 and 1.
struct Option {
    std::string name;
    double default_value;  // where it is not given
    double min, max;
    bool flag = false;  // a truth value; otherwise a whole number
    std::string text;
};
using Settings = std::map<std::string, double>;

// Of one head.
struct Size {
    Index N, d;
};

// Random numbers of one head: each purpose has its own stream.
class Random {
public:
    Random(std::uint64_t seed, Index head) : seed_(seed), head_(static_cast<std::uint64_t>(head)) {}

    Matrix<double> normals(unsigned purpose, Index rows, Index columns) const {
        Matrix<double> x(rows, columns);
        random::normals(seed_, stream(purpose), x.data(), x.size());
        return x;
    }
    std::vector<double> uniforms(unsigned purpose, Index n) const {
        std::vector<double> x(static_cast<std::size_t>(n));
        random::uniforms(seed_, stream(purpose), x.data(), n);
        return x;
    }

private:
    std::uint64_t stream(unsigned purpose) const { return head_ << 16 | purpose; }
    std::uint64_t seed_, head_;
};

// One head of a call, and where its factors go.
template <class T>
struct Head {
    ConstView<T> Q, K;            // [N, d]
    View<T> B, C;                 // [N, r], to be written
    std::vector<double*> extras;  // [N] each, in the order of the method's names
    const double* sizes;          // |v_j|, [N]; none where no values were given
    const Settings& settings;
    Random random;
    bool& finite;  // to be set where B and C cannot have overflowed; otherwise every entry is looked at

    Index N() const { return Q.rows(); }
    Index d() const { return Q.cols(); }
    Index r() const { return B.cols(); }
    double operator[](const char* option) const { return settings.at(option); }
};

// Y = exp(Q Kᵀ) X in tiles, never the whole matrix. Q [M, d], K [N, d], X [N, l], Y [M, l]. O(MN(d + l)).
void kernel_product(const ConstView<double>& Q, const ConstView<double>& K, const Matrix<double>& X, View<double> Y);

// Throws the Error for factors that are not finite.
[[noreturn]] void overflows();

// X⁺ = left · right, V Σ^-½ and Σ^-½ Uᵀ of X = U Σ Vᵀ; singular values up to `tolerance` times the largest count as 0.
// Each half takes the root of what X⁺ amplifies: F X⁺ made as one factor has entries that cancel in (F X⁺) Gᵀ, (F
// left)(right Gᵀ) has not. O(r³); Ctrl-C and time limits are heeded before and after it, not within. Throws Error for
// an X that is not finite.
struct PseudoInverse {
    Matrix<double> left, right;
};
PseudoInverse pseudo_inverse(const Matrix<double>& X, double tolerance);

// The means of r segments of X, the i-th from row ⌊iN/r⌋ up to ⌊(i+1)N/r⌋: segments of two sizes where r does not
// divide N.
Matrix<double> segment_means(const ConstView<double>& X, Index r);

// r different numbers below n, each set equally likely, in the order of their drawing. O(n).
std::vector<Index> sample(const std::vector<double>& uniforms, Index n, Index r);

}  // namespace causeway::lowrank
