// Causal linear attention whose heads of B, C or V are shared, as calls in which every head has its own.
#pragma once

#include <numeric>
#include <vector>

#include "core/exact/causal_linear_attention.hpp"
#include "gpu/tensor/places.hpp"

namespace causeway::gpu {

// Part j of `parts` has heads j, j + parts, ... of the output: no two of them share anything, and each part has one
// head of what they share with heads of other parts. One part's heads are copied at a time, and no head twice in it.
class GroupedHeads {
public:
    explicit GroupedHeads(const causeway::exact::Dimensions& n)
        : n_(n), parts_(std::lcm(std::lcm(n.shared_B, n.shared_C), n.shared_V)) {}

    bool any() const { return parts_ > 1; }
    Index parts() const { return parts_; }
    // The part's heads of a tensor, of whose heads `shared` consecutive ones of the output share one.
    SomeHeads of(Index shared, Index j) const { return {parts_ / shared, j / shared, 1}; }
    // Whether the states of the part are nobody's before it: heads of the output that share V share their states.
    bool has_states(Index j) const { return j % n_.shared_V == 0; }

    // [batch, heads, N, width] of a tensor as the caller wrote it, sharing its elements.
    Tensor four(const Tensor& x, Index shared) const {
        return x.reshape({n_.batch, n_.heads / shared, n_.N, x.shape()[x.ndim() - 1]});
    }
    Tensor part_of(const Tensor& x, Index shared, Index j, cudaStream_t stream) const {
        return from_heads(four(x, shared), of(shared, j), stream);
    }
    // The decays of the part, of which there are none, one for all heads, or one for each head of V.
    std::vector<double> decay_of(const std::vector<double>& decay, Index j) const {
        if (decay.size() < 2) return decay;
        std::vector<double> out;
        for (Index head = j; head < n_.heads; head += parts_)
            out.push_back(decay[static_cast<std::size_t>(head / n_.shared_V)]);
        return out;
    }

private:
    causeway::exact::Dimensions n_;
    Index parts_;
};

}  // namespace causeway::gpu
