#include "gpu/features/directions.hpp"

#include <algorithm>
#include <tuple>

#include "core/base/parallel.hpp"
#include "core/lowrank/features.hpp"
#include "gpu/kit/recent.hpp"

namespace causeway::gpu {

namespace {

causeway::Tensor drawn(std::uint64_t seed, Index heads, Index m, Index d, bool orthogonal) {
    causeway::Tensor all(DType::f32, Shape{heads, m, d});
    parallel_for(heads, [&](Index h) {
        const lowrank::Matrix<double> omega = lowrank::directions(lowrank::Random(seed, h), m, d, orthogonal);
        std::transform(omega.data(), omega.data() + omega.size(), all.data<float>() + h * m * d,
                       [](double x) { return static_cast<float>(x); });
    });
    return all;
}

}  // namespace

Tensor random_directions(std::uint64_t seed, Index heads, Index m, Index d, bool orthogonal, cudaStream_t stream) {
    // A model asks for the same ones at every layer, which take longer to draw than to use.
    constexpr Index most_kept = Index{1} << 21;
    constexpr std::size_t kept = 4;
    if (heads * m * d > most_kept) return Tensor(drawn(seed, heads, m, d, orthogonal), stream);
    using Key = std::tuple<std::uint64_t, Index, Index, Index, bool>;
    static thread_local Recent<Key, causeway::Tensor, kept> recent;
    return Tensor(recent.get({seed, heads, m, d, orthogonal}, [&] { return drawn(seed, heads, m, d, orthogonal); }),
                  stream);
}

}  // namespace causeway::gpu
