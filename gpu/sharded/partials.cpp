#include "gpu/sharded/partials.hpp"

#include <cmath>

#include "gpu/base/error.hpp"
#include "gpu/sharded/merge.hpp"
#include "gpu/softmax/decode.hpp"
#include "gpu/tensor/elementwise.hpp"

namespace causeway::gpu::sharded {

namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

Partials::Partials(const SoftmaxArgs& a, int count)
    : count_(count), dv_(a.dv), type_(a.type), rows_(a.batch * a.heads * a.rows()) {
    const auto rows = static_cast<std::size_t>(rows_);
    lse_at_ = aligned(rows * static_cast<std::size_t>(dv_ * bytes_of(type_)));
    bytes_ = lse_at_ + aligned(rows * sizeof(float));
    blocks_ = Buffer(bytes_ * static_cast<std::size_t>(count));
}

SoftmaxArgs Partials::in_block(int place, const SoftmaxArgs& part) const {
    SoftmaxArgs a = part;
    a.o = block(place), a.lse = reinterpret_cast<float*>(block(place) + lse_at_);
    a.o_stride = contiguous(a.heads * a.group, a.N, a.dv);
    return a;
}

std::size_t Partials::workspace(const SoftmaxArgs& part) const {
    return part.M > 0 ? flash_decoding_workspace(in_block(0, part)) : 0;
}

void Partials::compute(int place, const SoftmaxArgs& part, cudaStream_t stream) const {
    const SoftmaxArgs a = in_block(place, part);
    if (a.M > 0) return flash_decoding(a, stream);
    check(cudaMemsetAsync(a.o, 0, lse_at_, stream), "clearing a partial result");
    fill(a.lse, rows_, -INFINITY, stream);
}

void Partials::merge(void* o, float* lse, cudaStream_t stream) const {
    GatheredParts parts;
    parts.blocks = blocks_.data(), parts.bytes = bytes_, parts.lse_at = lse_at_;
    parts.count = count_, parts.dv = dv_, parts.rows = rows_, parts.type = type_;
    parts.o = o, parts.lse = lse;
    merge_gathered(parts, stream);
}

}  // namespace causeway::gpu::sharded
