#include "gpu/tensor/tensor.hpp"

#include "gpu/base/error.hpp"
#include "gpu/base/wait.hpp"
#include "gpu/tensor/elementwise.hpp"

namespace causeway::gpu {

Type type_of(DType t) {
    switch (t) {
        case DType::f32: return Type::Float32;
        case DType::f16: return Type::Float16;
        case DType::bf16: return Type::BFloat16;
        default: fail("gpu: Float64, expected Float32, BFloat16 or Float16: the GPU has no tensors of it");
    }
}

Tensor::Tensor(DType t, const Shape& shape, cudaStream_t stream) : dtype_(t), shape_(shape) {
    type_of(t);
    storage_ = std::make_shared<Buffer>(bytes(), stream);
    if (memory::poison() && bytes() > 0) check(cudaMemsetAsync(data(), 0xFF, bytes(), stream), "poisoning a tensor");
}

Tensor Tensor::zeros(DType t, const Shape& shape, cudaStream_t stream) {
    Tensor out(t, shape, stream);
    if (out.bytes() > 0) check(cudaMemsetAsync(out.data(), 0, out.bytes(), stream), "clearing a tensor");
    return out;
}

Tensor Tensor::view(DType t, const Shape& shape, void* data) {
    Tensor out(t, Shape{0});
    out.shape_ = shape;
    out.storage_ = std::make_shared<Buffer>(Buffer::view(data, out.bytes()));
    return out;
}

Tensor::Tensor(const causeway::Tensor& x, cudaStream_t stream) : Tensor(x.dtype(), x.shape(), stream) {
    if (bytes() == 0) return;
    wait_for(stream, "running kernels");
    check(cudaMemcpyAsync(data(), x.raw(), bytes(), cudaMemcpyHostToDevice, stream), "copying to the GPU");
    check(cudaStreamSynchronize(stream), "copying to the GPU");
}

causeway::Tensor Tensor::cpu(cudaStream_t stream) const {
    causeway::Tensor out(dtype_, shape_);
    if (bytes() == 0) return out;
    wait_for(stream, "running kernels");
    check(cudaMemcpyAsync(out.raw(), data(), bytes(), cudaMemcpyDeviceToHost, stream), "copying from the GPU");
    check(cudaStreamSynchronize(stream), "copying from the GPU");
    return out;
}

Tensor Tensor::copy(cudaStream_t stream) const {
    Tensor out(dtype_, shape_, stream);
    if (bytes() > 0)
        check(cudaMemcpyAsync(out.data(), data(), bytes(), cudaMemcpyDeviceToDevice, stream), "copying on the GPU");
    return out;
}

Tensor Tensor::to(DType t, cudaStream_t stream) const {
    if (t == dtype_) return *this;
    Tensor out(t, shape_, stream);
    convert(data(), type(), out.data(), out.type(), size(), stream);
    return out;
}

Tensor Tensor::own(DType t, cudaStream_t stream) const { return t == dtype_ ? copy(stream) : to(t, stream); }

Tensor Tensor::reshape(const Shape& s) const {
    if (s.size() != size())
        fail("reshape: ", shape_.text(), " to ", s.text(), ", expected the same number of elements");
    Tensor out = *this;
    out.shape_ = s;
    return out;
}

std::string Tensor::summary() const { return sentence(shape_.text(), " gpu Tensor{", name(dtype_), "}"); }

}  // namespace causeway::gpu
