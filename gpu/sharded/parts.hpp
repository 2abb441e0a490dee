// What the calls on a part of the tokens have in common.
#pragma once

#include <algorithm>

#include "core/gated/linear_attention.hpp"
#include "gpu/base/copy.hpp"
#include "gpu/sharded/run.hpp"

namespace causeway::gpu::sharded {

// Whole chunks of all kernels, in tokens.
inline constexpr Index unit = 64;

// Throws Error where heads of v share those of q or k.
inline void refuse_shared(const causeway::gated::Sizes& n) {
    if (n.shared_keys > 1 || n.shared_queries > 1)
        fail("v: heads ", n.heads, ", expected no more than those of q, and those of k, on several GPUs");
}

// A tensor [rows, N, width] that the caller has on a GPU.
inline Whole whole(const Tensor& x, Index rows, Index N, int device) {
    return {x.data(), rows, N, rows * N > 0 ? x.size() / (rows * N) : 0, size_of(x.dtype()), device};
}

// Strides of [batch, heads, N, width] whose heads are `row` elements apart.
inline Strides head_strides(Index heads, Index row, Index width) { return {heads * row, row, width}; }

// Contiguous gates [rows, n, width] of the part: kernels take no strides of them.
class Gates {
public:
    Gates(QueuedCommunicator& comm, const Whole& x, Index first, Index n)
        : holding_(comm, Held::shard, x.rows * n * x.width, x.element) {
        if (n > 0 && n == x.N && current_device() == x.device) {
            data_ = static_cast<const float*>(x.data);
            return;
        }
        const Local part(comm, Held::shard, x, first, n, true);
        // Not null where the rank has no tokens: that would be another rule.
        own_ = Buffer(std::max<std::size_t>(static_cast<std::size_t>(x.rows * n * x.width), 1) * sizeof(float),
                      comm.stream());
        const auto bytes = [&](Index tokens) { return static_cast<std::size_t>(tokens * x.width) * sizeof(float); };
        copy_rows({own_.data(), bytes(n), part.data(), static_cast<std::size_t>(part.row()) * sizeof(float), bytes(n),
                   static_cast<std::size_t>(x.rows)},
                  comm.stream(), "copying gates");
        data_ = own_.as<float>();
    }
    const float* data() const { return data_; }

private:
    Holding holding_;
    Buffer own_;
    const float* data_ = nullptr;
};

}  // namespace causeway::gpu::sharded
