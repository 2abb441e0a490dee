#include "gpu/gradient/gated_lightning.hpp"

#include <algorithm>

#include "gpu/base/error.hpp"
#include "gpu/gradient/lightning.hpp"
#include "gpu/tensor/elementwise.hpp"

namespace causeway::gpu {

namespace {

CausalArgs causal_args(const GatedArgs& a) {
    CausalArgs c;
    c.q = a.q, c.k = a.k, c.v = a.v, c.type = a.type;
    c.B = a.B, c.H = a.H, c.N = a.N, c.r = a.dk, c.d = a.dv;
    c.q_stride = a.q_stride, c.k_stride = a.k_stride, c.v_stride = a.v_stride, c.o_stride = a.o_stride;
    c.workspace = a.workspace;
    return c;
}

}  // namespace

bool gated_lightning_gradient_takes(const GatedGradArgs& a) {
    const GatedArgs& in = a.in;
    return in.gates == 0 && !in.beta && !in.state && !a.dstate_in && !a.after && in.group == 1 &&
           a.dq_stride.token == 0 && a.dk_stride.token == 0 && in.type == Type::BFloat16 &&
           lightning_grad_reaches(causal_args(in), a.dO, a.dq, a.dk, a.dv);
}

std::size_t gated_lightning_gradient_workspace(const GatedGradArgs& a) {
    const CausalArgs c = causal_args(a.in);
    return std::max(lightning_grad_workspace(c), lightning_grad_state_workspace(c, a.dO));
}

void gated_lightning_gradient(const GatedGradArgs& a, cudaStream_t stream) {
    const GatedArgs& in = a.in;
    const CausalArgs c = causal_args(in);
    lightning_grad(c, a.dO, a.dq, a.dk, a.dv, stream);
    if (a.dstate) lightning_grad_state(c, a.dO, a.dstate, stream);
    if (in.scale == 1) return;
    scale_rows(a.dq, in.type, in.B, in.H, in.N, in.dk, in.q_stride, in.scale, stream);
    scale_rows(a.dk, in.type, in.B, in.H, in.N, in.dk, in.k_stride, in.scale, stream);
    scale_rows(a.dv, in.type, in.B, in.H, in.N, in.dv, in.v_stride, in.scale, stream);
    if (a.dstate) scale_by(a.dstate, Type::Float32, in.B * in.H * in.dk * in.dv, in.scale, stream);
}

}  // namespace causeway::gpu
