#include "core/gated/around.hpp"

#include "core/around/norms.hpp"

namespace causeway::gated {

Shape projection_shape(const Shape& log_decay, const Shape& v, const Sizes& n) {
    const int lead = v.ndim() - 1;  // dimensions of [b, h, N]
    Shape full{n.batch, lead > 1 ? log_decay[lead - 2] : 1, n.N};
    if (log_decay.ndim() > lead) full.push_back(n.dk);
    return full;
}

void check_around(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& o) {
    calls::check_around(o);
    if (!o.A_log && !calls::has_norm(o)) return;
    const Sizes n = check_sizes(q, k, v, o);
    if (calls::has_norm(o))
        around::check_norm(Tensor::shaped(n.dtype, n.output), calls::norm_of<NormOptions>(o), "norm_");
    if (o.A_log)
        around::check_gate(Tensor::shaped(n.compute, projection_shape(o.log_decay->shape(), v.shape(), n)), *o.A_log,
                           calls::gates_of<DecayGateOptions>(o));
}

LinearOptions within(const Tensor& q, const Tensor& k, const Tensor& v, const LinearOptions& o) {
    check_around(q, k, v, o);
    const LinearOptions rule = calls::without_norm(o);
    if (!o.A_log) return rule;
    const Sizes n = check_sizes(q, k, v, o);
    const Tensor a = o.log_decay->to(n.compute).reshape(projection_shape(o.log_decay->shape(), v.shape(), n));
    const Tensor g = decay_gate(a, *o.A_log, calls::gates_of<DecayGateOptions>(o));
    return calls::with_gates(rule, g.reshape(o.log_decay->shape()));
}

}  // namespace causeway::gated
