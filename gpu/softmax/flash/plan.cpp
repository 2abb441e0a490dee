#include "gpu/softmax/flash/plan.hpp"

#include "gpu/kit/tensor_map.hpp"

namespace causeway::gpu::softmax::flash {

Plan plan_of(const SoftmaxArgs& a) {
    const std::int64_t query_heads = a.heads * a.group, tiles = (a.N + tile_tokens - 1) / tile_tokens;
    const auto map = [&](const void* data, std::int64_t heads, std::int64_t N, Strides s, int tokens) {
        return tensor_map(data, a.type, a.batch, heads, N, a.d, s, box_columns, tokens);
    };
    return {{map(a.q, query_heads, a.N, a.q_stride, tile_tokens), map(a.k, a.heads, a.M, a.k_stride, tile_tokens),
             map(a.v, a.heads, a.M, a.v_stride, tile_tokens), map(a.o, query_heads, a.N, a.o_stride, consumer_tokens)},
            params_of(a, 1, tile_tokens),
            check_blocks("flash_attention", a.batch * query_heads * tiles)};
}

}  // namespace causeway::gpu::softmax::flash
