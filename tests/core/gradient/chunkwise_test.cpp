// The chunkwise backward pass in its definition, which the fast form (core/gradient/chunkwise.cpp) is a rewriting of.
#include "core/gradient/chunkwise.hpp"
#include "tests/core/gradient/problems.hpp"

using namespace causeway;
using namespace causeway::test;

TEST_CASE("the definition of the chunkwise gradient agrees with the recurrence differentiated and with the fast form",
          "[gradient]") {
    for (const std::string update : {"linear", "gated", "delta", "gated_delta"}) {
        for (bool channels : {false, true}) {
            GatedCase c;
            c.update = update, c.channels = channels, c.group = 2, c.N = 23, c.dk = 5, c.dv = 3, c.scale = 0.5,
            c.gate = 1, c.seed = 31;
            if (channels && !c.gated()) continue;
            const GradientInputs g = gradient_inputs(c);
            const LinearGradient want = gradient_of(g, "recurrent");
            for (Index chunk : {4, 5, 23}) {
                CAPTURE(c, chunk);
                const gated::Call call = gated::check(g.in.q, g.in.k, g.in.v, g.in.options);
                const Poison poison;
                LinearGradient got{Tensor(DType::f64, g.in.q.shape()),
                                   Tensor(DType::f64, g.in.k.shape()),
                                   Tensor(DType::f64, g.in.v.shape()),
                                   {},
                                   {},
                                   g.dstate->copy()};
                if (c.gated()) got.dlog_decay = Tensor(DType::f64, g.in.options.log_decay->shape());
                if (c.delta()) got.dbeta = Tensor(DType::f64, g.in.options.beta->shape());
                Tensor state = call.state;
                gradient::GradProblem<double> p;
                p.in = gated::problem_of<double>(call);
                p.in.S = state.data<double>();
                p.dO = g.dO.data<double>();
                p.dq = got.dq.data<double>(), p.dk = got.dk.data<double>(), p.dv = got.dv.data<double>(),
                p.dS = got.dstate.data<double>();
                p.dg = got.dlog_decay ? got.dlog_decay->data<double>() : nullptr;
                p.dbeta = got.dbeta ? got.dbeta->data<double>() : nullptr;
                gradient::chunkwise(p.head(0), chunk);
                CHECK(difference(got, want, 1e-12) == "");
                CHECK(difference(gradient_of(g, "chunkwise", chunk), got, 1e-12) == "");
            }
        }
    }
}
