#include "core/tensor/dense.hpp"
#include "core/tensor/linalg.hpp"
#include "core/tensor/singular.hpp"

namespace causeway {

Svd svd(const Tensor& a) {
    const Tensor x = dense::check_matrix(a, "svd");
    const Index m = x.shape()[0], n = x.shape()[1];
    if (x.size() == 0)
        return {Tensor::zeros(a.dtype(), Shape{m, 0}), Tensor::zeros(a.dtype(), Shape{0}),
                Tensor::zeros(a.dtype(), Shape{n, 0})};
    const auto workspace = dense::room(x, 6);
    const dense::Singular f = dense::singular(dense::view(x), workspace);
    return {dense::matrix(a, f.U), dense::vector(a, f.s), dense::matrix(a, f.V)};
}

Tensor svdvals(const Tensor& a) {
    const Tensor x = dense::check_matrix(a, "svdvals");
    if (x.size() == 0) return Tensor::zeros(a.dtype(), Shape{0});
    const auto workspace = dense::room(x, 4);
    return dense::vector(a, dense::singular_values(dense::view(x), workspace));
}

}  // namespace causeway
