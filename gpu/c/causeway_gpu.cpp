// The calls of causeway_gpu.h: arrays of a device become tensors, the functions of gpu check and compute.
#include "gpu/c/causeway_gpu.h"

#include <optional>

#include "core/c/guard.hpp"
#include "core/c/options.hpp"
#include "gpu/c/device.hpp"
#include "gpu/calls/linear_attention.hpp"
#include "gpu/exact/causal_linear_attention.hpp"
#include "gpu/gradient/causal_linear_attention_grad.hpp"
#include "gpu/gradient/linear_attention_grad.hpp"
#include "gpu/gradient/softmax_attention_grad.hpp"
#include "gpu/softmax/softmax_attention.hpp"

using namespace causeway;
using c::check_wanted, c::guarded, c_gpu::Device, c_gpu::Outputs, c_gpu::queued;

namespace {

gpu::CausalOptions causal_options(Device& device, const causeway_causal_options& given) {
    return queued(c::causal_options<gpu::CausalOptions>(given, device.reader()), device);
}

gpu::LinearOptions linear_options(Device& device, const causeway_linear_options& given) {
    auto options = c::linear_options<gpu::LinearOptions>(given, device.reader());
    options.check_gates = false;  // it would wait for the stream
    return queued(options, device);
}

gpu::SoftmaxOptions softmax_options(const Device& device, const causeway_softmax_options* given) {
    return queued(c::softmax_options<gpu::SoftmaxOptions>(c::read_options("options", given)), device);
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
        const auto given = c::read_options("options", options);
        auto o = causal_options(device, given);
        o.return_state = state != nullptr;
        const auto n = exact::check_grouped_inputs(tB.form(), tC.form(), tV.form());
        c::check_causal_results(n, tV.form(), o, given, O, state, device.checker());
        c_gpu::deliver_sequences(device, gpu::causal_linear_attention(tB, tC, tV, o), given, O, state);
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
        const auto o = causal_options(device, c::read_options("options", options));
        const auto result = gpu::causal_linear_attention_grad(tB, tC, tV, tdO, o, false);
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
        const auto given = c::read_options("options", options);
        const auto o = linear_options(device, given);
        const auto n = gated::check_sizes(tq.form(), tk.form(), tv.form(), gpu::gated::forms_of(o));
        c::check_results(n, o, given, O, state, device.checker());
        c_gpu::deliver_sequences(device, gpu::linear_attention(tq, tk, tv, o), given, O, state);
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
        const auto o = linear_options(device, c::read_options("options", options));
        const auto result = gpu::linear_attention_grad(tq, tk, tv, tdO, o, arriving);
        c::deliver_gradients(Outputs(device), result, wanted);
    });
}

causeway_status causeway_gpu_linear_attention_step(const causeway_tensor* q, const causeway_tensor* k,
                                                   const causeway_tensor* v, const causeway_linear_options* options,
                                                   causeway_tensor* state, causeway_tensor* O, void* stream) {
    return guarded([&] {
        check_wanted("O", O);
        Device device(stream);
        const auto tq = device.read("q", q), tk = device.read("k", k), tv = device.read("v", v);
        const auto o = linear_options(device, c::read_options("options", options));
        const auto n = gated::check_sizes(tq.form(), tk.form(), tv.form(), gpu::gated::forms_of(o));
        c_gpu::step(device, tq, n.output, state, O, [&](gpu::Tensor& advanced, gpu::Tensor& result) {
            gpu::linear_attention_step(tq, tk, tv, advanced, result, o);
        });
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
