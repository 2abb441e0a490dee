// Linear attention with what stands around the rule in the layers of models, within one call: gates that are made of a
// projection (core/around/decay_gate.hpp), and a gated norm of the outputs (core/around/norms.hpp).
#pragma once

#include "core/around/decay_gate.hpp"
#include "core/gated/linear_attention.hpp"

namespace causeway::gated {

// Throws Error, naming the option, where gates are to be made or outputs normed and something does not fit. Looks at
// shapes and types alone, and allocates nothing where neither is asked for.
void check_around(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions&);

// The shape that decay_gate takes the projection in, whatever the call left out: [b, h, N], or [b, h, N, d_k]; h is 1
// where one head serves all.
Shape projection_shape(const Shape& log_decay, const Shape& v, const Sizes&);

// The options of the call on gates that are made, in the type of computation whatever that of the projection is; the
// options as they are where none are to be made. Neither has a norm.
LinearOptions within(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions&);

}  // namespace causeway::gated
