// The device and the stream that a call of causeway_gpu.h works with, and its results on their way to the caller.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/c/arrays.hpp"
#include "core/c/options.hpp"
#include "gpu/base/current_device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/base/succeeded.hpp"
#include "gpu/tensor/tensor.hpp"

namespace causeway::c_gpu {

// What a call works with: the device of its arrays, which is the current one of this thread while this lives, and the
// stream.
class Device {
public:
    explicit Device(void* stream) : stream_(static_cast<cudaStream_t>(stream)) {}
    cudaStream_t stream() const { return stream_; }
    int number() const { return device_; }  // -1: no array has elements

    // Throws Error for what is no contiguous array of that device.
    gpu::Tensor read(const char* name, const causeway_tensor* array) {
        if (!array) fail(name, ": NULL, expected a tensor");
        const causeway::Tensor form = c::form_of(name, *array);
        if (form.size() > 0) enter(name, array->data);
        if (!c::is_contiguous(*array)) fail(name, ": strides with gaps, expected a contiguous array on a GPU");
        return gpu::Tensor::view(form.dtype(), form.shape(), array->data);
    }
    std::optional<gpu::Tensor> read_optional(const char* name, const causeway_tensor* array) {
        if (!array) return {};
        return read(name, array);
    }
    auto reader() {
        return [this](const char* name, const causeway_tensor* array) { return read_optional(name, array); };
    }
    // Throws Error where the caller's array is to be written, and is not like `form`, a contiguous array of that
    // device.
    void check_output(const char* name, const causeway::Tensor& form, const causeway_tensor* array) {
        c::check_output(name, form, array);
        if (!array || !array->data) return;
        if (form.size() > 0) enter(name, array->data);
        if (!c::is_contiguous(*array)) fail(name, ": strides with gaps, expected a contiguous array on a GPU");
    }
    auto checker() {
        return [this](const char* name, const causeway::Tensor& form, const causeway_tensor* array) {
            check_output(name, form, array);
        };
    }
    // Throws Error for what is not in the memory of that device; the first array says which it is.
    void enter(const char* name, const void* data) {
        cudaPointerAttributes attributes;
        const bool known = gpu::succeeded(cudaPointerGetAttributes(&attributes, data));
        if (!known || attributes.type == cudaMemoryTypeUnregistered || attributes.type == cudaMemoryTypeHost)
            fail(name, ": not in the memory of a GPU");
        if (device_ >= 0 && attributes.device != device_)
            fail(name, ": on GPU ", attributes.device, ", expected GPU ", device_, " like the others");
        if (device_ < 0) current_.emplace(attributes.device);
        device_ = attributes.device;
    }

private:
    cudaStream_t stream_;
    std::optional<gpu::CurrentDevice> current_;
    int device_ = -1;
};

// Options of gpu with the stream of the call.
template <class Options>
Options queued(Options options, const Device& device) {
    options.stream = device.stream();
    return options;
}

// Results on their way to the caller: all are checked, and have what memory they need, before any is delivered.
class Outputs {
public:
    explicit Outputs(Device& device) : device_(device) {}

    void add(const char* name, const gpu::Tensor& result, causeway_tensor* array) {
        if (!array) return;
        device_.check_output(name, result.form(), array);
        outputs_.push_back({std::make_unique<Result>(result, device_.number()), array});
    }
    void add(const char* name, const std::optional<gpu::Tensor>& result, causeway_tensor* array) {
        if (!array) return;
        if (!result) fail(name, ": wanted, but this call has none");
        add(name, *result, array);
    }
    // Copies are queued first: what hands memory out cannot fail.
    void deliver() {
        for (const Output& output : outputs_) {
            const gpu::Tensor& result = *output.result->tensor;
            if (!output.array->data || output.array->data == result.data() || result.bytes() == 0) continue;
            gpu::check(cudaMemcpyAsync(output.array->data, result.data(), result.bytes(), cudaMemcpyDeviceToDevice,
                                       device_.stream()),
                       "copying a result");
        }
        for (Output& output : outputs_) {
            const gpu::Tensor& result = *output.result->tensor;
            if (output.array->data) continue;
            *output.array = c::array_of(result.dtype(), result.shape(), result.data(), output.result.release());
        }
    }

private:
    // Its memory goes back in the order of a stream of its device, whichever is current by then.
    struct Result : c::Owned {
        Result(gpu::Tensor given, int where) : tensor(std::move(given)), device(where) {
            cudaPointerAttributes attributes;  // where no input has elements, the state still may
            if (device < 0 && tensor->bytes() > 0 &&
                gpu::succeeded(cudaPointerGetAttributes(&attributes, tensor->data())))
                device = attributes.device;
        }
        ~Result() override {
            int before = 0;
            const bool known =
                device >= 0 && gpu::succeeded(cudaGetDevice(&before)) && gpu::succeeded(cudaSetDevice(device));
            tensor.reset();
            if (known) gpu::succeeded(cudaSetDevice(before));
        }
        std::optional<gpu::Tensor> tensor;
        int device;
    };
    struct Output {
        std::unique_ptr<Result> result;
        causeway_tensor* array;
    };
    Device& device_;
    std::vector<Output> outputs_;
};

// Hands out what a call of whole sequences returned; the states that it wrote in place are where they were given.
template <class Result, class Given>
void deliver_sequences(Device& device, const Result& result, const Given& o, causeway_tensor* O,
                       causeway_tensor* state) {
    Outputs outputs(device);
    outputs.add("O", result.O, O);
    // What the library hands out must not end with the caller's inputs.
    const bool own = o.inplace != 0 && state && !state->data;
    outputs.add("state", own ? result.state.copy(device.stream()) : result.state, state);
    if (o.checkpoints) outputs.add("checkpoints", result.checkpoints, o.checkpoints);
    outputs.deliver();
}

// Runs a step, step(state, O), on the states where they lie; `shape` and q's type are those of the output.
template <class Step>
void step(Device& device, const gpu::Tensor& q, const Shape& shape, causeway_tensor* state, causeway_tensor* O,
          Step&& step) {
    gpu::Tensor advanced = device.read("state", state);
    gpu::Tensor result = O->data ? device.read("O", O) : gpu::Tensor(q.dtype(), shape, device.stream());
    step(advanced, result);
    if (O->data) return;
    Outputs outputs(device);
    outputs.add("O", result, O);
    outputs.deliver();
}

}  // namespace causeway::c_gpu
