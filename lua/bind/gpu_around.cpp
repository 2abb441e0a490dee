#include "lua/bind/gpu_around.hpp"

#ifdef CAUSEWAY_GPU

#include "gpu/around/decay_gate.hpp"
#include "gpu/around/norms.hpp"
#include "gpu/around/short_convolution.hpp"
#include "gpu/base/wait.hpp"
#include "lua/bind/around.hpp"

namespace causeway::lua {
namespace around {

template <>
struct Place<gpu::Tensor> {
    using Convolution = gpu::ConvolutionOptions;
    using Length = gpu::LengthOptions;
    using Norm = gpu::NormOptions;
    using Gate = gpu::DecayGateOptions;
    static void done() {
        if (GpuWaits::now()) gpu::wait_for(nullptr, "running kernels");
    }
};

}  // namespace around

lua_CFunction gpu_around_call(const char* name) { return around::call<gpu::Tensor>(name); }

}  // namespace causeway::lua

#endif
