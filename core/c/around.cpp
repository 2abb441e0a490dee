// Short convolutions, norms and gates in the C interface.
#include <utility>

#include "core/around/decay_gate.hpp"
#include "core/around/norms.hpp"
#include "core/around/short_convolution.hpp"
#include "core/c/around_options.hpp"
#include "core/c/arrays.hpp"
#include "core/c/guard.hpp"
#include "core/c/options.hpp"

using namespace causeway;
using c::check_wanted, c::guarded, c::Outputs, c::read, c::read_optional;

namespace {

// Hands out one result.
void deliver(const char* name, const Tensor& result, causeway_tensor* array) {
    check_wanted(name, array);
    Outputs outputs;
    outputs.add(name, result, array);
    outputs.deliver();
}

ConvolutionOptions convolution_options(const causeway_tensor* bias, const causeway_tensor* initial,
                                       const char* activation, const std::int64_t* cu_seqlens, std::int64_t count) {
    return c::convolution_options<ConvolutionOptions>(bias, initial, activation, cu_seqlens, count, read_optional);
}

NormOptions norm_options(const causeway_tensor* weight, const causeway_tensor* gate, const char* activation,
                         const double* eps) {
    return c::norm_options<NormOptions>(weight, gate, activation, eps, read_optional);
}

DecayGateOptions gate_options(const causeway_tensor* dt_bias, const double* lower_bound) {
    return c::gate_options<DecayGateOptions>(dt_bias, lower_bound, read_optional);
}

}  // namespace

causeway_status causeway_short_convolution(const causeway_tensor* x, const causeway_tensor* weight,
                                           const causeway_tensor* bias, const causeway_tensor* initial,
                                           const char* activation, const int64_t* cu_seqlens, int64_t cu_seqlens_count,
                                           causeway_tensor* y, causeway_tensor* state) {
    return guarded([&] {
        check_wanted("y", y);
        const auto result =
            short_convolution(read("x", x), read("weight", weight),
                              convolution_options(bias, initial, activation, cu_seqlens, cu_seqlens_count));
        Outputs outputs;
        outputs.add("y", result.y, y);
        outputs.add("state", result.state, state);
        outputs.deliver();
    });
}

causeway_status causeway_short_convolution_grad(const causeway_tensor* x, const causeway_tensor* weight,
                                                const causeway_tensor* bias, const causeway_tensor* initial,
                                                const char* activation, const int64_t* cu_seqlens,
                                                int64_t cu_seqlens_count, const causeway_tensor* dy,
                                                const causeway_tensor* dstate, causeway_tensor* dx,
                                                causeway_tensor* dweight, causeway_tensor* dbias,
                                                causeway_tensor* dinitial) {
    return guarded([&] {
        const auto result =
            short_convolution_grad(read("x", x), read("weight", weight), read("dy", dy),
                                   convolution_options(bias, initial, activation, cu_seqlens, cu_seqlens_count),
                                   read_optional("dstate", dstate));
        Outputs outputs;
        outputs.add("dx", result.dx, dx);
        outputs.add("dweight", result.dweight, dweight);
        outputs.add("dbias", result.dbias, dbias);
        outputs.add("dinitial", result.dstate, dinitial);
        outputs.deliver();
    });
}

causeway_status causeway_l2norm(const causeway_tensor* x, const double* eps, causeway_tensor* y) {
    return guarded([&] { deliver("y", l2norm(read("x", x), c::length_options<LengthOptions>(eps)), y); });
}

causeway_status causeway_l2norm_grad(const causeway_tensor* x, const double* eps, const causeway_tensor* dy,
                                     causeway_tensor* dx) {
    return guarded(
        [&] { deliver("dx", l2norm_grad(read("x", x), read("dy", dy), c::length_options<LengthOptions>(eps)), dx); });
}

causeway_status causeway_rms_norm(const causeway_tensor* x, const causeway_tensor* weight, const causeway_tensor* gate,
                                  const char* activation, const double* eps, causeway_tensor* y) {
    return guarded([&] { deliver("y", rms_norm(read("x", x), norm_options(weight, gate, activation, eps)), y); });
}

causeway_status causeway_rms_norm_grad(const causeway_tensor* x, const causeway_tensor* weight,
                                       const causeway_tensor* gate, const char* activation, const double* eps,
                                       const causeway_tensor* dy, causeway_tensor* dx, causeway_tensor* dweight,
                                       causeway_tensor* dgate) {
    return guarded([&] {
        const auto result = rms_norm_grad(read("x", x), read("dy", dy), norm_options(weight, gate, activation, eps));
        Outputs outputs;
        outputs.add("dx", result.dx, dx);
        outputs.add("dweight", result.dweight, dweight);
        outputs.add("dgate", result.dgate, dgate);
        outputs.deliver();
    });
}

causeway_status causeway_decay_gate(const causeway_tensor* a, const causeway_tensor* A_log,
                                    const causeway_tensor* dt_bias, const double* lower_bound, causeway_tensor* g) {
    return guarded(
        [&] { deliver("g", decay_gate(read("a", a), read("A_log", A_log), gate_options(dt_bias, lower_bound)), g); });
}

causeway_status causeway_decay_gate_grad(const causeway_tensor* a, const causeway_tensor* A_log,
                                         const causeway_tensor* dt_bias, const double* lower_bound,
                                         const causeway_tensor* dg, causeway_tensor* da, causeway_tensor* dA_log,
                                         causeway_tensor* ddt_bias) {
    return guarded([&] {
        const auto result =
            decay_gate_grad(read("a", a), read("A_log", A_log), read("dg", dg), gate_options(dt_bias, lower_bound));
        Outputs outputs;
        outputs.add("da", result.da, da);
        outputs.add("dA_log", result.dA_log, dA_log);
        outputs.add("ddt_bias", result.ddt_bias, ddt_bias);
        outputs.deliver();
    });
}
