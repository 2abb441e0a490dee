#include "gpu/gradient/softmax_hopper.hpp"

#include "gpu/kit/tensor_map.hpp"
#include "gpu/softmax/flash.hpp"

namespace causeway::gpu::softmax {

bool gradient_hopper_reaches(const SoftmaxGradArgs& a) {
    const SoftmaxArgs& in = a.in;
    return !in.empty() && hopper_reaches(in) && tma_reaches(a.dO, in.type, in.o_stride) &&
           tma_reaches(a.dq, in.type, in.q_stride) && tma_reaches(a.dk, in.type, in.k_stride) &&
           tma_reaches(a.dv, in.type, in.v_stride);
}

}  // namespace causeway::gpu::softmax
