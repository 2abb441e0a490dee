#include "gpu/gradient/softmax_hopper/plan.hpp"

#include "gpu/kit/tensor_map.hpp"

namespace causeway::gpu::softmax::backward {

Plan plan_of(const SoftmaxGradArgs& a, bool own_keys) {
    const SoftmaxArgs& in = a.in;
    const std::int64_t query_heads = in.heads * in.group;
    const int query_rows = own_keys ? passing_queries : own_rows, key_rows = own_keys ? own_rows : passing_keys(in.d);
    const auto of_queries = [&](const void* data, Strides s, int rows) {
        return tensor_map(data, in.type, in.batch, query_heads, in.N, in.d, s, box_columns, rows);
    };
    const auto of_keys = [&](const void* data, Strides s, int rows) {
        return tensor_map(data, in.type, in.batch, in.heads, in.M, in.d, s, box_columns, rows);
    };
    const CUtensorMap q = of_queries(in.q, in.q_stride, query_rows), dO = of_queries(a.dO, in.o_stride, query_rows),
                      k = of_keys(in.k, in.k_stride, key_rows), v = of_keys(in.v, in.v_stride, key_rows);
    const auto tiles = [](std::int64_t rows) { return (rows + own_rows - 1) / own_rows; };
    if (own_keys) {
        return {{k, v, q, dO, of_keys(a.dk, in.k_stride, consumer_rows), of_keys(a.dv, in.v_stride, consumer_rows)},
                in.batch * in.heads * tiles(in.M)};
    }
    const CUtensorMap dq = of_queries(a.dq, in.q_stride, consumer_rows);
    return {{q, dO, k, v, dq, dq}, in.batch * query_heads * tiles(in.N)};
}

}  // namespace causeway::gpu::softmax::backward
