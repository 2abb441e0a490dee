#include "gpu/exact/causal_dot_product.hpp"

#include "gpu/exact/register_tile.cuh"

namespace causeway::gpu {

std::size_t causal_dot_product_workspace(const CausalArgs& a) {
    check_causal("causal_dot_product", a);
    return tile::workspace(a, tile::segments_of(a));
}

void causal_dot_product(const CausalArgs& a, cudaStream_t stream) {
    check_causal("causal_dot_product", a);
    tile::run<tile::Order::causal_dot_product>("causal_dot_product", a, tile::segments_of(a), stream);
}

}  // namespace causeway::gpu
