#include "core/gradient/general_linear_attention_grad.hpp"

#include "core/gated/general/chunks.hpp"
#include "core/gradient/as_given.hpp"
#include "core/gradient/check.hpp"
#include "core/gradient/general_recurrent.hpp"
#include "core/kit/callers_order.hpp"
#include "core/kit/pool.hpp"
#include "core/kit/spread.hpp"

namespace causeway {
namespace {

using gated::GeneralCall;
using gradient::as_given;
using gradient::GeneralGradHead;

// What a call is differentiated into: gradients with a head for each state, to be added up where states share one.
template <class T>
struct GeneralGradProblem {
    gated::GeneralProblem<T> in;
    const T* dO = nullptr;
    T *dq = nullptr, *dk = nullptr, *dv = nullptr, *da = nullptr, *du = nullptr, *dw = nullptr, *dS = nullptr;

    Index all_heads() const { return in.all_heads(); }

    GeneralGradHead<T> head(Index i) const {
        const Index row = in.first_row(i), query_row = in.first_row(i, in.group);
        GeneralGradHead<T> out;
        out.in = in.head(i);
        out.dO = dO + query_row * in.dv;
        out.dq = dq + query_row * in.dk;
        out.dk = dk + row * in.dk;
        out.dv = dv + row * in.dv;
        if (da) out.da = da + row * in.gates;
        if (du) out.du = du + row * in.dk, out.dw = dw + row * in.dk;
        out.dS = dS + i * in.dk * in.dv;
        return out;
    }
};

// With one state kept in c tokens, by the chunks of the forward pass: those of a chunk are made again when its turn
// comes.
template <class T>
void general_chunkwise(const GeneralGradHead<T>& d, Index c) {
    gated::GeneralHead<T> h = d.in;
    const Index chunks = (h.N + c - 1) / c, size = h.dk * h.dv;
    if (chunks == 0) return;
    kit::Scratch<T> states(chunks, size);
    std::copy_n(h.S, size, states.data());
    h.group = 0;  // the outputs are not needed
    gated::GeneralChunks<T> forward(h, std::min(c, h.N), 0, h.dv);
    for (Index i = 0; i + 1 < chunks; ++i) {
        forward.advance(i * c, c);
        forward.write_state(states.data() + (i + 1) * size);
    }
    for (Index i = chunks - 1; i >= 0; --i)
        gradient::recurrent(d.part(i * c, std::min(c, h.N - i * c), states.data() + i * size));
}

void check_general_output_gradient(const Tensor& dO, const GeneralCall& call) {
    if (dO.shape() != call.output)
        fail("dO: ", kit::callers_sizes(dO.shape()), ", expected ", kit::callers_sizes(call.output),
             " like the output");
    if (dO.dtype() != call.dtype) fail("dO: ", name(dO.dtype()), ", expected ", name(call.dtype), " like q");
}

// A copy of the gradient that arrives at the final state, or zeros.
Tensor general_state_gradient(const std::optional<Tensor>& dstate, const Tensor& v, const GeneralCall& call) {
    if (!dstate) return Tensor::zeros(call.compute, call.state_shape);
    const DType type = dstate->dtype();
    if (!gated::is_state_shape(dstate->shape(), v, call))
        fail("dstate: ", dstate->shape().text(), ", expected ", call.state_shape.text(), " like the final state");
    if ((type == DType::f64) != (call.compute == DType::f64))
        fail("dstate: ", name(type), ", expected ", name(call.compute), " like the final state");
    const Tensor converted = dstate->to(call.compute).reshape(call.state_shape);
    return type == call.compute ? converted.copy() : converted;
}

template <class T>
GeneralGradient compute_general(const GeneralCall& call, const Tensor& q, const Tensor& k, const Tensor& v,
                                const Tensor& dO, const GeneralOptions& o, Tensor dstate) {
    constexpr DType type = dtype_of<T>;
    const Shape keys{call.batch, call.heads, call.N, call.dk};
    Tensor dq(type, {call.batch, call.heads * call.group, call.N, call.dk}), dk(type, keys), dv(type, v.shape()), da,
        du, dw, state = call.state;
    const Tensor output_gradient = dO.to(type);
    GeneralGradProblem<T> p;
    p.in = call.problem_of<T>();
    p.in.S = state.data<T>();
    p.dO = output_gradient.data<T>();
    p.dq = dq.data<T>(), p.dk = dk.data<T>(), p.dv = dv.data<T>(), p.dS = dstate.data<T>();
    if (o.a) {
        da = Tensor(type, {call.batch, call.heads, call.N, call.gates});
        p.da = da.data<T>();
    }
    if (o.u) {
        du = Tensor(type, keys), dw = Tensor(type, keys);
        p.du = du.data<T>(), p.dw = dw.data<T>();
    }
    const bool every_state = call.mode->name != "chunkwise";
    kit::each_head(p, [&](const auto& h) {
        if (every_state) gradient::recurrent(h);
        else general_chunkwise(h, p.in.chunk);
    });
    GeneralGradient out{as_given<T>(dq, q), as_given<T>(dk, k), dv.to(call.dtype), {}, {}, {}, dstate};
    if (o.a) out.da = as_given<T>(da, *o.a);
    if (o.u) out.du = as_given<T>(du, *o.u), out.dw = as_given<T>(dw, *o.w);
    if (!call.slots.empty()) out.dstate = kit::gradient_of_slots(dstate, call.slots, o.state->shape()[0]);
    return out;
}

}  // namespace

GeneralGradient general_linear_attention_grad(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                              const GeneralOptions& o, const std::optional<Tensor>& dstate) {
    const GeneralCall call = gated::check_general(q, k, v, o);
    gradient::check_no_states(o);
    check_general_output_gradient(dO, call);
    Tensor dS = general_state_gradient(dstate, v, call);
    return call.compute == DType::f64 ? compute_general<double>(call, q, k, v, dO, o, dS)
                                      : compute_general<float>(call, q, k, v, dO, o, dS);
}

}  // namespace causeway
