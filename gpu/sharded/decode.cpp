#include "gpu/sharded/decode.hpp"

#include <cmath>

#include "gpu/base/error.hpp"
#include "gpu/sharded/merge.hpp"
#include "gpu/softmax/decode.hpp"
#include "gpu/tensor/elementwise.hpp"

namespace causeway::gpu::sharded {

namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

ShardedDecode::ShardedDecode(NcclCommunicator& comm, const SoftmaxArgs& part, void* o, float* lse)
    : comm_(comm), part_(part), o_(o), lse_(lse) {
    const auto rows = static_cast<std::size_t>(part.batch * part.heads * part.rows());
    lse_at_ = aligned(rows * static_cast<std::size_t>(part.dv * bytes_of(part.type)));
    bytes_ = lse_at_ + aligned(rows * sizeof(float));
    blocks_ = Buffer(bytes_ * static_cast<std::size_t>(comm.size()));
    char* const mine = blocks_.as<char>() + static_cast<std::size_t>(comm.rank()) * bytes_;
    part_.o = mine, part_.lse = reinterpret_cast<float*>(mine + lse_at_);
    part_.o_stride = contiguous(part.heads * part.group, part.N, part.dv);
    if (part_.M > 0) {
        workspace_ = Buffer(flash_decoding_workspace(part_));
        part_.workspace = {workspace_.data(), workspace_.bytes()};
    }
}

void ShardedDecode::queue() {
    const std::int64_t rows = part_.batch * part_.heads * part_.rows();
    if (part_.M > 0) {
        flash_decoding(part_, stream());
    } else {  // no key: zeros without weight
        check(cudaMemsetAsync(part_.o, 0, lse_at_, stream()), "clearing a partial result");
        fill(part_.lse, rows, -INFINITY, stream());
    }
    comm_.gather_queued(part_.o, bytes_, blocks_.data(), stream());
    GatheredParts parts;
    parts.blocks = blocks_.data(), parts.bytes = bytes_, parts.lse_at = lse_at_;
    parts.count = comm_.size(), parts.dv = part_.dv, parts.rows = rows, parts.type = part_.type;
    parts.o = o_, parts.lse = lse_;
    merge_gathered(parts, stream());
}

void ShardedDecode::replay() {
    if (!graph_) graph_.emplace(stream(), [this] { queue(); });
    graph_->launch(stream());
}

}  // namespace causeway::gpu::sharded
