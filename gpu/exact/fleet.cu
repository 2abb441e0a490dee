#include "gpu/exact/fleet.hpp"

#include "gpu/exact/register_tile.cuh"

namespace causeway::gpu {

std::size_t fleet_workspace(const CausalArgs& a) {
    check_causal("fleet", a);
    return tile::workspace(a, tile::segments_of(a));
}

void fleet(const CausalArgs& a, cudaStream_t stream) {
    check_causal("fleet", a);
    tile::run<tile::Order::fleet>("fleet", a, tile::segments_of(a), stream);
}

}  // namespace causeway::gpu
