// What the gradients of the gated and delta-rule family work on (core/gradient/problem.hpp).
#pragma once

#include "gpu/gated/problem.hpp"

namespace causeway::gpu {

// From dO [B, H · group, N, dv] (type and strides of o in `in`) and dstate_in to the gradients of all inputs. in.o is
// not read; in.state is the state before the first token and is not changed (null: zeros). dq, dk, dv have the types of
// q, k, v, and dv its strides; they overlap neither each other nor inputs.
struct GatedGradArgs {
    GatedArgs in;
    const void* dO = nullptr;
    void *dq = nullptr, *dk = nullptr, *dv = nullptr;
    Strides dq_stride, dk_stride;  // none: those of q and k; where heads share these, each has a gradient of its own
    // Where all heads of a batch entry share one of q and of k: the sums of dq and of dk over these heads, of the type
    // of q, [B, N, dk] with sum_stride. What dq and dk hold then is not said. null: not wanted, and null where
    // gated_gradient_adds (gated.hpp) says no.
    void *dq_sum = nullptr, *dk_sum = nullptr;
    Strides sum_stride;
    std::int64_t gate_step = 0;  // from head to head of g, beta, dg and dbeta, in tokens; 0: N. See gated.hpp
    float* dg = nullptr;         // like g: with respect to the logarithms; null where g is
    float* dbeta = nullptr;      // like beta; null where beta is
    // Like state: with respect to that after the last token (null: zeros), and to that before the first (null:
    // dropped). Both may be the same memory, which costs a copy; otherwise they do not overlap.
    const float* dstate_in = nullptr;
    float* dstate = nullptr;
    // Like state: that after the last token, where the kernels have it (gated.hpp); null: dropped.
    float* after = nullptr;

    bool alone = true;  // nothing else is known to run on the device meanwhile

    bool dstate_in_place() const { return dstate && dstate == dstate_in; }
    Strides of_dq() const { return dq_stride.token > 0 ? dq_stride : in.q_stride; }
    Strides of_dk() const { return dk_stride.token > 0 ? dk_stride : in.k_stride; }

    // Whether a state of each batch-head, Float32, has room in `tokens` rows of dv of its own, one behind the other:
    // there a method may keep the states before parts of the tokens until it writes dv.
    bool states_fit_in_dv(std::int64_t tokens) const {
        const Strides s = in.v_stride;
        const int bytes = bytes_of(in.type);
        return s.token == in.dv && s.head >= in.N * s.token && s.head * bytes % 16 == 0 &&
               (in.B == 1 || s.batch == in.H * s.head) && reinterpret_cast<std::uintptr_t>(dv) % 16 == 0 &&
               in.dv * bytes * tokens % 16 == 0 && tokens * bytes >= in.dk * std::int64_t{4};
    }
    // That of the first batch-head in the rows from `token` on; the next one's is state_step_in_dv() floats on.
    float* state_in_dv(std::int64_t token) const {
        return reinterpret_cast<float*>(static_cast<char*>(dv) + token * in.v_stride.token * bytes_of(in.type));
    }
    std::int64_t state_step_in_dv() const { return in.v_stride.head * bytes_of(in.type) / 4; }
};

}  // namespace causeway::gpu
