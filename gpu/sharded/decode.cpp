#include "gpu/sharded/decode.hpp"

namespace causeway::gpu::sharded {

ShardedDecode::ShardedDecode(NcclCommunicator& comm, const SoftmaxArgs& part, void* o, float* lse)
    : comm_(comm), part_(part), o_(o), lse_(lse), blocks_(part, comm.size()), workspace_(blocks_.workspace(part)) {
    part_.workspace = {workspace_.data(), workspace_.bytes()};
}

void ShardedDecode::queue() {
    blocks_.compute(comm_.rank(), part_, stream());
    comm_.gather_queued(blocks_.block(comm_.rank()), blocks_.block_bytes(), blocks_.block(0), stream());
    blocks_.merge(o_, lse_, stream());
}

void ShardedDecode::replay() {
    if (!graph_) graph_.emplace(stream(), [this] { queue(); });
    graph_->launch(stream());
}

}  // namespace causeway::gpu::sharded
