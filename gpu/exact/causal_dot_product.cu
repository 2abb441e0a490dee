#include "gpu/exact/causal_dot_product.hpp"

#include "gpu/exact/register_tile.cuh"

namespace causeway::gpu {

std::size_t causal_dot_product_workspace(const CausalArgs& a) {
    check_causal("causal_dot_product", a);
    return tile::workspace(a, tile::cut_of(a));
}

void causal_dot_product(const CausalArgs& a, cudaStream_t stream) {
    check_causal("causal_dot_product", a);
    tile::causal_dot_product(a, tile::cut_of(a), stream);
}

void tile::causal_dot_product(const CausalArgs& a, const Cut& cut, cudaStream_t stream) {
    run<Order::causal_dot_product>("causal_dot_product", a, cut, stream);
}

}  // namespace causeway::gpu
