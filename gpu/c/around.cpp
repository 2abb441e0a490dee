// Short convolutions, norms and gates in the C interface on arrays of a GPU.
#include "core/c/around_options.hpp"
#include "core/c/guard.hpp"
#include "gpu/around/decay_gate.hpp"
#include "gpu/around/norms.hpp"
#include "gpu/around/short_convolution.hpp"
#include "gpu/c/causeway_gpu.h"
#include "gpu/c/device.hpp"

using namespace causeway;
using c::check_wanted, c::guarded, c_gpu::Device, c_gpu::Outputs, c_gpu::queued;

namespace {

gpu::ConvolutionOptions convolution_options(Device& device, const causeway_tensor* bias, const causeway_tensor* initial,
                                            const char* activation, const std::int64_t* cu_seqlens,
                                            std::int64_t count) {
    return queued(
        c::convolution_options<gpu::ConvolutionOptions>(bias, initial, activation, cu_seqlens, count, device.reader()),
        device);
}

gpu::LengthOptions length_options(const Device& device, const double* eps) {
    return queued(c::length_options<gpu::LengthOptions>(eps), device);
}

gpu::NormOptions norm_options(Device& device, const causeway_tensor* weight, const causeway_tensor* gate,
                              const char* activation, const double* eps) {
    return queued(c::norm_options<gpu::NormOptions>(weight, gate, activation, eps, device.reader()), device);
}

gpu::DecayGateOptions gate_options(Device& device, const causeway_tensor* dt_bias, const double* lower_bound) {
    return queued(c::gate_options<gpu::DecayGateOptions>(dt_bias, lower_bound, device.reader()), device);
}

// Hands out one result.
void deliver(Device& device, const char* name, const gpu::Tensor& result, causeway_tensor* array) {
    check_wanted(name, array);
    Outputs outputs(device);
    outputs.add(name, result, array);
    outputs.deliver();
}

}  // namespace

causeway_status causeway_gpu_short_convolution(const causeway_tensor* x, const causeway_tensor* weight,
                                               const causeway_tensor* bias, const causeway_tensor* initial,
                                               const char* activation, const int64_t* cu_seqlens,
                                               int64_t cu_seqlens_count, causeway_tensor* y, causeway_tensor* state,
                                               void* stream) {
    return guarded([&] {
        check_wanted("y", y);
        Device device(stream);
        const auto tx = device.read("x", x), tw = device.read("weight", weight);
        const auto o = convolution_options(device, bias, initial, activation, cu_seqlens, cu_seqlens_count);
        const auto result = gpu::short_convolution(tx, tw, o);
        Outputs outputs(device);
        outputs.add("y", result.y, y);
        outputs.add("state", result.state, state);
        outputs.deliver();
    });
}

causeway_status causeway_gpu_short_convolution_grad(const causeway_tensor* x, const causeway_tensor* weight,
                                                    const causeway_tensor* bias, const causeway_tensor* initial,
                                                    const char* activation, const int64_t* cu_seqlens,
                                                    int64_t cu_seqlens_count, const causeway_tensor* dy,
                                                    const causeway_tensor* dstate, causeway_tensor* dx,
                                                    causeway_tensor* dweight, causeway_tensor* dbias,
                                                    causeway_tensor* dinitial, void* stream) {
    return guarded([&] {
        Device device(stream);
        const auto tx = device.read("x", x), tw = device.read("weight", weight), tdy = device.read("dy", dy);
        const auto o = convolution_options(device, bias, initial, activation, cu_seqlens, cu_seqlens_count);
        const auto result = gpu::short_convolution_grad(tx, tw, tdy, o, device.read_optional("dstate", dstate));
        Outputs outputs(device);
        outputs.add("dx", result.dx, dx);
        outputs.add("dweight", result.dweight, dweight);
        outputs.add("dbias", result.dbias, dbias);
        outputs.add("dinitial", result.dstate, dinitial);
        outputs.deliver();
    });
}

causeway_status causeway_gpu_l2norm(const causeway_tensor* x, const double* eps, causeway_tensor* y, void* stream) {
    return guarded([&] {
        Device device(stream);
        const auto tx = device.read("x", x);
        deliver(device, "y", gpu::l2norm(tx, length_options(device, eps)), y);
    });
}

causeway_status causeway_gpu_l2norm_grad(const causeway_tensor* x, const double* eps, const causeway_tensor* dy,
                                         causeway_tensor* dx, void* stream) {
    return guarded([&] {
        Device device(stream);
        const auto tx = device.read("x", x), tdy = device.read("dy", dy);
        deliver(device, "dx", gpu::l2norm_grad(tx, tdy, length_options(device, eps)), dx);
    });
}

causeway_status causeway_gpu_rms_norm(const causeway_tensor* x, const causeway_tensor* weight,
                                      const causeway_tensor* gate, const char* activation, const double* eps,
                                      causeway_tensor* y, void* stream) {
    return guarded([&] {
        Device device(stream);
        const auto tx = device.read("x", x);
        deliver(device, "y", gpu::rms_norm(tx, norm_options(device, weight, gate, activation, eps)), y);
    });
}

causeway_status causeway_gpu_rms_norm_grad(const causeway_tensor* x, const causeway_tensor* weight,
                                           const causeway_tensor* gate, const char* activation, const double* eps,
                                           const causeway_tensor* dy, causeway_tensor* dx, causeway_tensor* dweight,
                                           causeway_tensor* dgate, void* stream) {
    return guarded([&] {
        Device device(stream);
        const auto tx = device.read("x", x), tdy = device.read("dy", dy);
        const auto result = gpu::rms_norm_grad(tx, tdy, norm_options(device, weight, gate, activation, eps));
        Outputs outputs(device);
        outputs.add("dx", result.dx, dx);
        outputs.add("dweight", result.dweight, dweight);
        outputs.add("dgate", result.dgate, dgate);
        outputs.deliver();
    });
}

causeway_status causeway_gpu_decay_gate(const causeway_tensor* a, const causeway_tensor* A_log,
                                        const causeway_tensor* dt_bias, const double* lower_bound, causeway_tensor* g,
                                        void* stream) {
    return guarded([&] {
        Device device(stream);
        const auto ta = device.read("a", a), tA = device.read("A_log", A_log);
        deliver(device, "g", gpu::decay_gate(ta, tA, gate_options(device, dt_bias, lower_bound)), g);
    });
}

causeway_status causeway_gpu_decay_gate_grad(const causeway_tensor* a, const causeway_tensor* A_log,
                                             const causeway_tensor* dt_bias, const double* lower_bound,
                                             const causeway_tensor* dg, causeway_tensor* da, causeway_tensor* dA_log,
                                             causeway_tensor* ddt_bias, void* stream) {
    return guarded([&] {
        Device device(stream);
        const auto ta = device.read("a", a), tA = device.read("A_log", A_log), tdg = device.read("dg", dg);
        const auto result = gpu::decay_gate_grad(ta, tA, tdg, gate_options(device, dt_bias, lower_bound));
        Outputs outputs(device);
        outputs.add("da", result.da, da);
        outputs.add("dA_log", result.dA_log, dA_log);
        outputs.add("ddt_bias", result.ddt_bias, ddt_bias);
        outputs.deliver();
    });
}
