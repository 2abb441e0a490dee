#include "gpu/exact/fleet.hpp"

#include "gpu/exact/register_tile.cuh"

namespace causeway::gpu {

std::size_t fleet_workspace(const CausalArgs& a) {
    check_causal("fleet", a);
    return tile::workspace(a, tile::cut_of(a));
}

void fleet(const CausalArgs& a, cudaStream_t stream) {
    check_causal("fleet", a);
    tile::fleet(a, tile::cut_of(a), stream);
}

void tile::fleet(const CausalArgs& a, const Cut& cut, cudaStream_t stream) {
    run<Order::fleet>("fleet", a, cut, stream);
}

}  // namespace causeway::gpu
