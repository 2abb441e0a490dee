// What stands in the place of a layer's attention on the GPU, made of the public calls there.
#pragma once

#include <functional>

#include "core/model/model.hpp"
#include "gpu/tensor/tensor.hpp"

namespace causeway::gpu {

// As causeway::model::Replacement::run, of Float32 tensors on the GPU; everything is queued on the stream, on which the
// inputs are too. The output may have any type.
struct Attention : causeway::model::Elsewhere {
    using Run = std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v, double scale, cudaStream_t)>;

    explicit Attention(Run f) : run(std::move(f)) {}
    Run run;
};

// causeway::model::replacement() for a layer: an exact method or an update of linear_attention after a feature map that
// low_rank() has here, such a feature map alone, or "flash". Null for all others, for features and values of more than
// 256 columns and for what only the CPU has of these. Throws Error for a block that the method is not built for here.
std::shared_ptr<const Attention> attention_for(const std::string& with, const causeway::model::SwapOptions& options,
                                               const causeway::model::LayerInfo& layer);

// Whether this exact method, or "auto", runs on the GPU.
bool runs_method(const std::string& method);

}  // namespace causeway::gpu
