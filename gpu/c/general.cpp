// The general rule in the C interface on arrays of a GPU.
#include "core/c/guard.hpp"
#include "core/c/options.hpp"
#include "gpu/c/causeway_gpu.h"
#include "gpu/c/device.hpp"
#include "gpu/calls/general_linear_attention.hpp"
#include "gpu/gradient/general_linear_attention_grad.hpp"

using namespace causeway;
using c::check_wanted, c::guarded, c_gpu::Device, c_gpu::Outputs;

namespace {

gpu::GeneralOptions general_options(Device& device, const causeway_general_options& given) {
    return c_gpu::queued(c::general_options<gpu::GeneralOptions>(given, device.reader()), device);
}

auto sizes_of(const gpu::Tensor& q, const gpu::Tensor& k, const gpu::Tensor& v, const gpu::GeneralOptions& o) {
    return gated::check_general_sizes(q.form(), k.form(), v.form(), gpu::gated::forms_of(o));
}

}  // namespace

causeway_status causeway_gpu_general_linear_attention(const causeway_tensor* q, const causeway_tensor* k,
                                                      const causeway_tensor* v, const causeway_general_options* options,
                                                      causeway_tensor* O, causeway_tensor* state, void* stream) {
    return guarded([&] {
        check_wanted("O", O);
        Device device(stream);
        const auto tq = device.read("q", q), tk = device.read("k", k), tv = device.read("v", v);
        const auto given = c::read_options("options", options);
        const auto o = general_options(device, given);
        c::check_results(sizes_of(tq, tk, tv, o), o, given, O, state, device.checker());
        c_gpu::deliver_sequences(device, gpu::general_linear_attention(tq, tk, tv, o), given, O, state);
    });
}

causeway_status causeway_gpu_general_linear_attention_grad(const causeway_tensor* q, const causeway_tensor* k,
                                                           const causeway_tensor* v, const causeway_tensor* dO,
                                                           const causeway_tensor* dstate,
                                                           const causeway_general_options* options,
                                                           const causeway_general_gradients* gradients, void* stream) {
    return guarded([&] {
        check_wanted("gradients", gradients);
        const auto wanted = c::read_options("gradients", gradients);
        Device device(stream);
        const auto tq = device.read("q", q), tk = device.read("k", k), tv = device.read("v", v);
        const auto tdO = device.read("dO", dO);
        const auto arriving = device.read_optional("dstate", dstate);
        const auto o = general_options(device, c::read_options("options", options));
        const auto result = gpu::general_linear_attention_grad(tq, tk, tv, tdO, o, arriving);
        c::deliver_gradients(Outputs(device), result, wanted);
    });
}

causeway_status causeway_gpu_general_linear_attention_step(const causeway_tensor* q, const causeway_tensor* k,
                                                           const causeway_tensor* v,
                                                           const causeway_general_options* options,
                                                           causeway_tensor* state, causeway_tensor* O, void* stream) {
    return guarded([&] {
        check_wanted("O", O);
        Device device(stream);
        const auto tq = device.read("q", q), tk = device.read("k", k), tv = device.read("v", v);
        const auto o = general_options(device, c::read_options("options", options));
        c_gpu::step(device, tq, sizes_of(tq, tk, tv, o).output, state, O,
                    [&](gpu::Tensor& advanced, gpu::Tensor& result) {
                        gpu::general_linear_attention_step(tq, tk, tv, advanced, result, o);
                    });
    });
}
