// Gradients of linear_attention on the GPU in one type beside those in another.
#pragma once

#include "gpu/gradient/linear_attention_grad.hpp"
#include "tests/gpu/sequences.hpp"

namespace causeway::test::sequences {

inline gpu::LinearGradient gradients_of(const Problem& c, DType type, const Tensor& dO) {
    return gpu::linear_attention_grad(moved(c.q, type), moved(c.k, type), moved(c.v, type), moved(dO, type), c.on_gpu(),
                                      {});
}

// Every gradient that there is, largest element by largest element.
inline void check_gradients(const gpu::LinearGradient& got, const gpu::LinearGradient& exact, double bound) {
    CHECK(relative_error(got.dq.cpu(), exact.dq.cpu()) <= bound);
    CHECK(relative_error(got.dk.cpu(), exact.dk.cpu()) <= bound);
    CHECK(relative_error(got.dv.cpu(), exact.dv.cpu()) <= bound);
    if (got.dbeta) CHECK(relative_error(got.dbeta->cpu(), exact.dbeta->cpu()) <= bound);
    if (got.dlog_decay) CHECK(relative_error(got.dlog_decay->cpu(), exact.dlog_decay->cpu()) <= bound);
    CHECK(relative_error(got.dstate.cpu(), exact.dstate.cpu()) <= bound);
}

}  // namespace causeway::test::sequences
