// Weights in device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "gpu/base/buffer.hpp"
#include "gpu/base/error.hpp"
#include "gpu/kit/layout.hpp"

namespace causeway::model {
struct Linear;
struct Norm;
struct Weight;
}  // namespace causeway::model

namespace causeway::gpu::models {

// rows × columns, row-major, and what is added to its products.
struct Matrix {
    Type type = Type::BFloat16;
    std::int64_t rows = 0, columns = 0;
    Buffer data, bias;  // bias: Float32 [rows], or none

    std::size_t bytes() const { return data.bytes() + bias.bytes(); }
};

class Staging;

// Brings matrices to the device: those of checkpoints are unpacked on the way, those that are made up are made up
// there.
class Loader {
public:
    Loader(Type type, cudaStream_t stream);
    ~Loader();

    // The rows of several, one behind the other. Waits for the copies.
    Matrix load(const std::vector<const causeway::model::Linear*>& parts);
    Matrix load(const causeway::model::Weight& weight);

private:
    Matrix load(const std::vector<const causeway::model::Weight*>& parts);
    void fill(const causeway::model::Weight& weight, unsigned char* to);

    Type type_;
    cudaStream_t stream_;
    std::unique_ptr<Staging> staging_;
};

// Of rows of x in Float32; see causeway::model::Norm.
struct Norm {
    std::int64_t width = 0;
    float eps = 0;
    bool centred = false;
    Buffer weight, bias;  // Float32 [width] (the weight of a norm in groups: of one group or of all), or none
};
Norm norm_of(const causeway::model::Norm& norm, cudaStream_t stream);

// n numbers in device memory; none where n is 0. Waits for the copy.
template <class T>
Buffer numbers_of(const T* data, std::int64_t n, cudaStream_t stream) {
    Buffer out(static_cast<std::size_t>(n) * sizeof(T));
    if (n == 0) return out;
    check(cudaMemcpyAsync(out.data(), data, out.bytes(), cudaMemcpyHostToDevice, stream), "copying weights");
    check(cudaStreamSynchronize(stream), "copying weights");
    return out;
}

}  // namespace causeway::gpu::models
