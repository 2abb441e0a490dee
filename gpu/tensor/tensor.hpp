// Dense tensors in the memory of the GPU: shapes and element types of core's, contiguous.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>

#include "core/tensor/tensor.hpp"
#include "gpu/base/buffer.hpp"
#include "gpu/kit/layout.hpp"

namespace causeway::gpu {

// Float32, Float16 and BFloat16. Throws Error for Float64, saying that the GPU has no tensors of it.
Type type_of(DType t);

// A handle: copies share the elements.
class Tensor {
public:
    Tensor() : Tensor(DType::f32, Shape{0}) {}
    // Elements not set. The memory is given back in the order of the stream's work. Throws OutOfMemory.
    Tensor(DType, const Shape&, cudaStream_t stream = nullptr);
    static Tensor zeros(DType, const Shape&, cudaStream_t stream = nullptr);

    // Over memory of the caller's on the device, which must stay while the tensor does.
    static Tensor view(DType, const Shape&, void* data);

    // The elements of a tensor of the CPU; waits until they are there.
    explicit Tensor(const causeway::Tensor& x, cudaStream_t stream = nullptr);
    // The same elements on the CPU, after all work of `stream`.
    causeway::Tensor cpu(cudaStream_t stream = nullptr) const;

    DType dtype() const { return dtype_; }
    Type type() const { return type_of(dtype_); }
    const Shape& shape() const { return shape_; }
    int ndim() const { return shape_.ndim(); }
    Index size() const { return shape_.size(); }
    std::size_t bytes() const { return static_cast<std::size_t>(size()) * size_of(dtype_); }

    void* data() const { return storage_->data(); }
    template <class T>
    T* as() const {
        return static_cast<T*>(data());
    }

    Tensor copy(cudaStream_t stream = nullptr) const;
    Tensor to(DType, cudaStream_t stream = nullptr) const;   // converted; shares the elements if the type is the same
    Tensor own(DType, cudaStream_t stream = nullptr) const;  // converted, and never sharing the elements
    Tensor reshape(const Shape&) const;                      // shares the elements; throws Error if the sizes differ

    // Type and shape alone, for the checks that the calls on the CPU make too.
    causeway::Tensor form() const { return causeway::Tensor::shaped(dtype_, shape_); }

    std::string summary() const;  // "2×3 gpu Tensor{Float32}"

private:
    std::shared_ptr<Buffer> storage_;
    DType dtype_;
    Shape shape_;
};

inline std::optional<causeway::Tensor> form_of(const std::optional<Tensor>& x) {
    if (!x) return {};
    return x->form();
}

}  // namespace causeway::gpu
