// The calls on several GPUs where nccl.h was missing when this was built: each says so.
#include "core/distributed/devices.hpp"
#include "core/distributed/mpi.hpp"
#include "core/sharded/parts.hpp"
#include "gpu/sharded/linear_attention.hpp"
#include "gpu/sharded/linear_attention_grad.hpp"
#include "gpu/sharded/shard.hpp"
#include "gpu/sharded/softmax_attention.hpp"

namespace causeway::gpu {
namespace {

template <class Result>
Result refused() {
    distributed::nccl().devices();
    return {};
}

}  // namespace

ShardedLinearResult linear_attention_sharded(const Tensor&, const Tensor&, const Tensor&, const LinearOptions&,
                                             const Sharding&) {
    return refused<ShardedLinearResult>();
}

ShardedCausalResult causal_linear_attention_sharded(const Tensor&, const Tensor&, const Tensor&, const CausalOptions&,
                                                    const Sharding&) {
    return refused<ShardedCausalResult>();
}

ShardedCausalGradient causal_linear_attention_grad_sharded(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                           const CausalOptions&, bool, const Sharding&) {
    return refused<ShardedCausalGradient>();
}

ShardedLinearGradient linear_attention_grad_sharded(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                    const LinearOptions&, const std::optional<Tensor>&,
                                                    const Sharding&) {
    return refused<ShardedLinearGradient>();
}

ShardedSoftmaxResult softmax_attention_sharded(const Tensor&, const Tensor&, const Tensor&, const SoftmaxOptions&,
                                               const Sharding&) {
    return refused<ShardedSoftmaxResult>();
}

ShardedSoftmaxGradient softmax_attention_grad_sharded(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                      const SoftmaxOptions&, const std::optional<SoftmaxResult>&,
                                                      const Sharding&) {
    return refused<ShardedSoftmaxGradient>();
}

Tensor shard(const Tensor& x, int dim) { return unshard(x, dim); }

Tensor unshard(const Tensor& x, int dim) {
    causeway::check_part_dimension(x.shape(), dim);
    return distributed::mpi_size() == 1 ? x : refused<Tensor>();
}

ShardedSoftmaxResult tree_decode(const Tensor&, const Tensor&, const Tensor&, const DecodeOptions&) {
    return refused<ShardedSoftmaxResult>();
}

}  // namespace causeway::gpu
