#include "gpu/gradient/lightning.hpp"

#include <algorithm>

#include "gpu/base/error.hpp"
#include "gpu/exact/lightning.hpp"
#include "gpu/exact/lightning/call.hpp"

namespace causeway::gpu {

namespace {

struct Tensor {
    const void* data;
    Strides stride;
    int width;
};

CausalArgs attention(const CausalArgs& a, Tensor q, Tensor k, Tensor v, void* o, Strides o_stride) {
    CausalArgs x = a;
    x.q = q.data, x.k = k.data, x.v = v.data, x.o = o;
    x.q_stride = q.stride, x.k_stride = k.stride, x.v_stride = v.stride, x.o_stride = o_stride;
    x.r = q.width, x.d = v.width;
    x.workspace = {};
    return x;
}

// Calls f with one call for all three, or with one for dQ and dK and one for dV. dK and dV read Q and dO at the same
// time.
template <class F>
void each_call(const CausalArgs& a, const void* dO, void* dq, void* dk, void* dv, const F& f) {
    la::check_args("lightning_grad", a);
    if (a.state) fail("lightning_grad: a state was given, expected none");
    const Tensor Q{a.q, a.q_stride, a.r}, K{a.k, a.k_stride, a.r}, V{a.v, a.v_stride, a.d}, D{dO, a.o_stride, a.d};
    const CausalArgs for_q = attention(a, D, V, K, dq, a.q_stride), for_k = attention(a, V, D, Q, dk, a.k_stride);
    const CausalArgs for_v = attention(a, K, Q, D, dv, a.v_stride);
    const bool alike = la::padded(a.r) == la::padded(a.d);
    la::Call call;
    call.workspace = a.workspace;
    call.problem = {for_q, for_k, for_v};
    call.count = alike ? 3 : 2;
    call.reversed = 0b110;
    f(call);
    if (alike) return;
    call.problem = {for_v, {}, {}};
    call.count = 1;
    call.reversed = 1;
    f(call);
}

// The attention whose states are Σ_j q_jᵀ dO_j; its outputs are not made.
CausalArgs state_attention(const CausalArgs& a, const void* dO) {
    CausalArgs x = attention(a, {a.q, a.q_stride, a.r}, {a.q, a.q_stride, a.r}, {dO, a.o_stride, a.d},
                             const_cast<void*>(dO), a.o_stride);
    x.workspace = a.workspace;
    return x;
}

}  // namespace

std::size_t lightning_grad_workspace(const CausalArgs& a) {
    std::size_t bytes = 0;
    // Where tensors that are not known yet lie does not change what a call needs on tensor cores.
    const auto asked = [&](const la::Call& call) { bytes = std::max(bytes, la::workspace(call)); };
    each_call(a, a.o, const_cast<void*>(a.q), const_cast<void*>(a.k), const_cast<void*>(a.v), asked);
    return bytes;
}

void lightning_grad(const CausalArgs& a, const void* dO, void* dq, void* dk, void* dv, cudaStream_t stream) {
    each_call(a, dO, dq, dk, dv, [&](const la::Call& call) { la::run(call, stream); });
}

bool lightning_grad_reaches(const CausalArgs& a, const void* dO, void* dq, void* dk, void* dv) {
    bool reaches = !a.gamma && lightning_in_steps(state_attention(a, dO));
    each_call(a, dO, dq, dk, dv, [&](const la::Call& call) { reaches = reaches && la::tensor_cores_reach(call); });
    return reaches;
}

std::size_t lightning_grad_state_workspace(const CausalArgs& a, const void* dO) {
    return lightning_steps_workspace(state_attention(a, dO), true);
}

void lightning_grad_state(const CausalArgs& a, const void* dO, float* dstate, cudaStream_t stream) {
    lightning_states(state_attention(a, dO), dstate, stream);
}

}  // namespace causeway::gpu
