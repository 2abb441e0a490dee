// Calls the library from outside, and uses Eigen's aligned matrices beside it.
#include <Eigen/Dense>
#include <cmath>
#include <cstdio>

#include "core/exact/causal_linear_attention.hpp"

#if defined(__x86_64__) && defined(__AVX__)
#error "-march of the library has reached a project that uses it"
#endif

int main() {
    using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const causeway::Index N = 200, r = 24, d = 17;
    const double gamma = 0.95;
    const auto float32 = causeway::DType::f32;
    causeway::Tensor B(float32, {1, 1, N, r}), C(float32, {1, 1, N, r}), V(float32, {1, 1, N, d});
    Eigen::Map<Matrix> b(B.data<float>(), N, r), c(C.data<float>(), N, r), v(V.data<float>(), N, d);
    b.setRandom();
    c.setRandom();
    v.setRandom();
    const auto result = causeway::causal_linear_attention(B, C, V, {.method = "block-based", .decay = {gamma}});

    Matrix masked = b * c.transpose();
    for (causeway::Index i = 0; i < N; ++i)
        for (causeway::Index j = 0; j < N; ++j)
            masked(i, j) *= i < j ? 0 : static_cast<float>(std::pow(gamma, static_cast<double>(i - j)));
    const Matrix expected = masked * v;
    const double error = (Eigen::Map<const Matrix>(result.O.data<float>(), N, d) - expected).norm() / expected.norm();
    { [[maybe_unused]] const int error = 0; }  // -Wshadow, which is ours, would complain
    std::printf("relative error of causal_linear_attention from another project: %.1e\n", error);
    return error < 1e-5 ? 0 : 1;
}
