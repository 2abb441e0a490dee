#include "gpu/features/directions.hpp"

#include <algorithm>

#include "core/lowrank/features.hpp"

namespace causeway::gpu {

Tensor random_directions(std::uint64_t seed, Index heads, Index m, Index d, bool orthogonal, cudaStream_t stream) {
    causeway::Tensor all(DType::f32, Shape{heads, m, d});
    for (Index h = 0; h < heads; ++h) {
        const lowrank::Matrix<double> omega = lowrank::directions(lowrank::Random(seed, h), m, d, orthogonal);
        std::transform(omega.data(), omega.data() + omega.size(), all.data<float>() + h * m * d,
                       [](double x) { return static_cast<float>(x); });
    }
    return Tensor(all, stream);
}

}  // namespace causeway::gpu
