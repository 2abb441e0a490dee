#include <Eigen/SVD>

#include "core/tensor/dense.hpp"
#include "core/tensor/linalg.hpp"

namespace causeway {

Svd svd(const Tensor& a) {
    const Tensor x = dense::check_matrix(a, "svd");
    const Index m = x.shape()[0], n = x.shape()[1];
    if (x.size() == 0) return {Tensor::zeros(a.dtype(), Shape{m, 0}), Tensor::zeros(a.dtype(), Shape{0}), Tensor::zeros(a.dtype(), Shape{n, 0})};
    const auto workspace = dense::room(x, 5);
    const Eigen::BDCSVD<Eigen::MatrixXd> factors(dense::view(x), Eigen::ComputeThinU | Eigen::ComputeThinV);
    return {dense::matrix(a, factors.matrixU()), dense::vector(a, factors.singularValues()), dense::matrix(a, factors.matrixV())};
}

Tensor svdvals(const Tensor& a) {
    const Tensor x = dense::check_matrix(a, "svdvals");
    if (x.size() == 0) return Tensor::zeros(a.dtype(), Shape{0});
    const auto workspace = dense::room(x, 3);
    return dense::vector(a, Eigen::BDCSVD<Eigen::MatrixXd>(dense::view(x)).singularValues());
}

}  // namespace causeway
