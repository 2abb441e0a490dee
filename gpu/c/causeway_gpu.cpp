// The calls of causeway_gpu.h: arrays of a device become tensors, the functions of gpu check and compute.
#include "gpu/c/causeway_gpu.h"

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/c/arrays.hpp"
#include "core/c/guard.hpp"
#include "core/c/options.hpp"
#include "gpu/base/current_device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/base/succeeded.hpp"
#include "gpu/calls/linear_attention.hpp"
#include "gpu/exact/causal_linear_attention.hpp"
#include "gpu/gradient/causal_linear_attention_grad.hpp"
#include "gpu/gradient/linear_attention_grad.hpp"
#include "gpu/gradient/softmax_attention_grad.hpp"
#include "gpu/softmax/softmax_attention.hpp"

using namespace causeway;
using c::check_wanted, c::guarded;

namespace {

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

// Results on their way to the caller: all are checked, and have what memory they need, before any is delivered.
class Outputs {
public:
    explicit Outputs(Device& device) : device_(device) {}

    void add(const char* name, const gpu::Tensor& result, causeway_tensor* array) {
        if (!array) return;
        if (array->data) {
            const causeway::Tensor form = c::form_of(name, *array);
            if (form.shape() != result.shape() || form.dtype() != result.dtype())
                fail(name, ": ", form.shape().text(), " ", causeway::name(form.dtype()), ", expected ",
                     result.shape().text(), " ", causeway::name(result.dtype()));
            if (form.size() > 0) device_.enter(name, array->data);
            if (!c::is_contiguous(*array)) fail(name, ": strides with gaps, expected a contiguous array on a GPU");
        }
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
            if (!output.array->data || result.bytes() == 0) continue;
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

// What this interface does not pass on to a GPU, though the struct has it: nothing may be dropped in silence.
template <class Options>
void check_single(const Options& o) {
    constexpr const char* not_there = ": given, but calls on a GPU do not have it in this interface";
    if (o.cu_seqlens_count != 0) fail("cu_seqlens", not_there);
    if constexpr (requires { o.state_indices; }) {
        if (o.state_indices_count != 0) fail("state_indices", not_there);
        if (o.inplace != 0) fail("inplace", not_there);
        if (o.checkpoint_every != 0) fail("checkpoint_every", not_there);
        if (!o.deterministic) return;
        calls::check_determinism(o.deterministic);
        if (o.deterministic == std::string_view("prefix"))
            fail("deterministic: \"prefix\" is not in this interface, expected \"run\"");
    }
}

template <class Options>
Options read_single(const Options* given) {
    const Options o = c::read_options("options", given);
    check_single(o);
    return o;
}

gpu::CausalOptions causal_options(Device& device, const causeway_causal_options* given) {
    auto options = c::causal_options<gpu::CausalOptions>(read_single(given), device.reader());
    options.stream = device.stream();
    return options;
}

gpu::LinearOptions linear_options(Device& device, const causeway_linear_options* given) {
    auto options = c::linear_options<gpu::LinearOptions>(read_single(given), device.reader());
    options.check_gates = false;  // it would wait for the stream
    options.stream = device.stream();
    return options;
}

gpu::SoftmaxOptions softmax_options(const Device& device, const causeway_softmax_options* given) {
    auto options = c::softmax_options<gpu::SoftmaxOptions>(read_single(given));
    options.stream = device.stream();
    return options;
}

}  // namespace

std::int32_t causeway_gpu_devices() {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
    cudaGetLastError();
    return 0;
}

causeway_status causeway_gpu_causal_linear_attention(const causeway_tensor* B, const causeway_tensor* C,
                                                     const causeway_tensor* V, const causeway_causal_options* options,
                                                     causeway_tensor* O, causeway_tensor* state, void* stream) {
    return guarded([&] {
        check_wanted("O", O);
        Device device(stream);
        const auto tB = device.read("B", B), tC = device.read("C", C), tV = device.read("V", V);
        auto o = causal_options(device, options);
        o.return_state = state != nullptr;
        const auto result = gpu::causal_linear_attention(tB, tC, tV, o);
        Outputs outputs(device);
        outputs.add("O", result.O, O);
        outputs.add("state", result.state, state);
        outputs.deliver();
    });
}

causeway_status causeway_gpu_causal_linear_attention_grad(const causeway_tensor* B, const causeway_tensor* C,
                                                          const causeway_tensor* V, const causeway_tensor* dO,
                                                          const causeway_causal_options* options, causeway_tensor* dB,
                                                          causeway_tensor* dC, causeway_tensor* dV,
                                                          causeway_tensor* dstate, void* stream) {
    return guarded([&] {
        Device device(stream);
        const auto tB = device.read("B", B), tC = device.read("C", C), tV = device.read("V", V);
        const auto tdO = device.read("dO", dO);
        const auto result = gpu::causal_linear_attention_grad(tB, tC, tV, tdO, causal_options(device, options), false);
        Outputs outputs(device);
        outputs.add("dB", result.dB, dB);
        outputs.add("dC", result.dC, dC);
        outputs.add("dV", result.dV, dV);
        outputs.add("dstate", result.dstate, dstate);
        outputs.deliver();
    });
}

causeway_status causeway_gpu_linear_attention(const causeway_tensor* q, const causeway_tensor* k,
                                              const causeway_tensor* v, const causeway_linear_options* options,
                                              causeway_tensor* O, causeway_tensor* state, void* stream) {
    return guarded([&] {
        check_wanted("O", O);
        Device device(stream);
        const auto tq = device.read("q", q), tk = device.read("k", k), tv = device.read("v", v);
        const auto result = gpu::linear_attention(tq, tk, tv, linear_options(device, options));
        Outputs outputs(device);
        outputs.add("O", result.O, O);
        outputs.add("state", result.state, state);
        outputs.deliver();
    });
}

causeway_status causeway_gpu_linear_attention_grad(const causeway_tensor* q, const causeway_tensor* k,
                                                   const causeway_tensor* v, const causeway_tensor* dO,
                                                   const causeway_tensor* dstate,
                                                   const causeway_linear_options* options,
                                                   const causeway_linear_gradients* gradients, void* stream) {
    return guarded([&] {
        check_wanted("gradients", gradients);
        const auto wanted = c::read_options("gradients", gradients);
        Device device(stream);
        const auto tq = device.read("q", q), tk = device.read("k", k), tv = device.read("v", v);
        const auto tdO = device.read("dO", dO);
        const auto arriving = device.read_optional("dstate", dstate);
        const auto result = gpu::linear_attention_grad(tq, tk, tv, tdO, linear_options(device, options), arriving);
        Outputs outputs(device);
        outputs.add("dq", result.dq, wanted.dq);
        outputs.add("dk", result.dk, wanted.dk);
        outputs.add("dv", result.dv, wanted.dv);
        outputs.add("dlog_decay", result.dlog_decay, wanted.dlog_decay);
        outputs.add("dbeta", result.dbeta, wanted.dbeta);
        outputs.add("dinitial", result.dstate, wanted.dinitial);
        outputs.deliver();
    });
}

causeway_status causeway_gpu_linear_attention_step(const causeway_tensor* q, const causeway_tensor* k,
                                                   const causeway_tensor* v, const causeway_linear_options* options,
                                                   causeway_tensor* state, causeway_tensor* O, void* stream) {
    return guarded([&] {
        check_wanted("O", O);
        Device device(stream);
        const auto tq = device.read("q", q), tk = device.read("k", k), tv = device.read("v", v);
        const auto o = linear_options(device, options);
        auto advanced = device.read("state", state);
        const auto form = gated::check_sizes(tq.form(), tk.form(), tv.form(), {});
        auto result = O->data ? device.read("O", O) : gpu::Tensor(tq.dtype(), form.output, device.stream());
        gpu::linear_attention_step(tq, tk, tv, advanced, result, o);
        Outputs outputs(device);
        if (!O->data) outputs.add("O", result, O);
        outputs.deliver();
    });
}

causeway_status causeway_gpu_softmax_attention(const causeway_tensor* q, const causeway_tensor* k,
                                               const causeway_tensor* v, const causeway_softmax_options* options,
                                               causeway_tensor* O, causeway_tensor* lse, void* stream) {
    return guarded([&] {
        check_wanted("O", O);
        Device device(stream);
        const auto tq = device.read("q", q), tk = device.read("k", k), tv = device.read("v", v);
        const auto result = gpu::softmax_attention(tq, tk, tv, softmax_options(device, options));
        Outputs outputs(device);
        outputs.add("O", result.O, O);
        outputs.add("lse", result.lse, lse);
        outputs.deliver();
    });
}

causeway_status causeway_gpu_softmax_attention_grad(const causeway_tensor* q, const causeway_tensor* k,
                                                    const causeway_tensor* v, const causeway_tensor* dO,
                                                    const causeway_tensor* O, const causeway_tensor* lse,
                                                    const causeway_softmax_options* options, causeway_tensor* dq,
                                                    causeway_tensor* dk, causeway_tensor* dv, void* stream) {
    return guarded([&] {
        if ((O == nullptr) != (lse == nullptr))
            fail(O ? "lse" : "O", ": NULL, expected both O and lse of the forward pass, or neither");
        Device device(stream);
        const auto tq = device.read("q", q), tk = device.read("k", k), tv = device.read("v", v);
        const auto tdO = device.read("dO", dO);
        std::optional<gpu::SoftmaxResult> forward;
        if (O) forward = gpu::SoftmaxResult{device.read("O", O), device.read("lse", lse)};
        const auto result = gpu::softmax_attention_grad(tq, tk, tv, tdO, softmax_options(device, options), forward);
        Outputs outputs(device);
        outputs.add("dq", result.dq, dq);
        outputs.add("dk", result.dk, dk);
        outputs.add("dv", result.dv, dv);
        outputs.deliver();
    });
}
