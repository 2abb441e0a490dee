// The calls of causeway.h: arguments become tensors and options, the functions of core check and compute.
#include "core/c/causeway.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/parallel.hpp"
#include "core/c/arrays.hpp"
#include "core/c/guard.hpp"
#include "core/c/options.hpp"
#include "core/exact/causal_linear_attention.hpp"
#include "core/gated/linear_attention.hpp"
#include "core/gated/step.hpp"
#include "core/gradient/causal_linear_attention_grad.hpp"
#include "core/gradient/linear_attention_grad.hpp"
#include "core/gradient/softmax_attention_grad.hpp"
#include "core/kit/check.hpp"
#include "core/lowrank/lowrank.hpp"
#include "core/softmax/softmax_attention.hpp"

using namespace causeway;
using c::check_wanted, c::guarded, c::Outputs, c::read, c::read_optional;

namespace {

CausalOptions causal_options(const causeway_causal_options& o) {
    return c::causal_options<CausalOptions>(o, read_optional);
}
LinearOptions linear_options(const causeway_linear_options& o) {
    return c::linear_options<LinearOptions>(o, read_optional);
}
SoftmaxOptions softmax_options(const causeway_softmax_options* given) {
    return c::softmax_options<SoftmaxOptions>(c::read_options("options", given));
}

LowRankOptions lowrank_options(const causeway_lowrank_options* given) {
    const auto o = c::read_options("options", given);
    LowRankOptions options;
    if (o.rank != 0) options.rank = static_cast<Index>(o.rank);
    if (o.seed) options.seed = *o.seed;
    options.scale = c::read_number(o.scale);
    options.v = read_optional("v", o.v);
    if (o.count < 0) fail("count: ", o.count, ", expected 0 or more");
    if (o.count > 0 && (!o.names || !o.values)) fail("names: NULL, or values, expected ", o.count, " of both");
    for (std::int64_t i = 0; i < o.count; ++i) {
        if (!o.names[i]) fail("names[", i, "]: NULL, expected the name of an option");
        options.own[o.names[i]] = o.values[i];
    }
    return options;
}

std::vector<const char*> names_of(const std::string& list) {
    std::vector<const char*> names;
    const auto add = [&](const auto& entries) {
        for (const auto& entry : entries) names.push_back(entry.name.c_str());
    };
    const std::vector<std::string> lists = {"methods", "updates", "modes", "softmax_methods", "lowrank"};
    switch (kit::check_choice("list", list, lists)) {
        case 0: add(exact::methods()); break;
        case 1: add(gated::updates()); break;
        case 2: add(gated::modes()); break;
        case 3: add(attention::methods()); break;
        default: add(lowrank::methods()); break;
    }
    return names;
}

}  // namespace

const char* causeway_version() { return CAUSEWAY_VERSION; }

const char* causeway_name(const char* list, std::int64_t i) {
    const char* name = nullptr;
    guarded([&] {
        if (!list) fail("list: NULL, expected the name of a list");
        const auto names = names_of(list);
        if (i < 0) fail("i: ", i, ", expected 0 or more");
        if (i < static_cast<std::int64_t>(names.size())) name = names[static_cast<std::size_t>(i)];
    });
    return name;
}

std::int32_t causeway_threads() { return threads(); }

causeway_status causeway_set_threads(std::int32_t n) {
    return guarded([&] { set_threads(n); });
}

causeway_status causeway_causal_linear_attention(const causeway_tensor* B, const causeway_tensor* C,
                                                 const causeway_tensor* V, const causeway_causal_options* options,
                                                 causeway_tensor* O, causeway_tensor* state) {
    return guarded([&] {
        check_wanted("O", O);
        const auto given = c::read_options("options", options);
        CausalOptions o = causal_options(given);
        o.return_state = state != nullptr;
        const Tensor tB = read("B", B), tC = read("C", C), tV = read("V", V);
        c::check_causal_results(exact::check_grouped_inputs(tB, tC, tV), tV, o, given, O, state);
        c::deliver_sequences(causal_linear_attention(tB, tC, tV, o), given, O, state);
    });
}

causeway_status causeway_causal_linear_attention_grad(const causeway_tensor* B, const causeway_tensor* C,
                                                      const causeway_tensor* V, const causeway_tensor* dO,
                                                      const causeway_causal_options* options, causeway_tensor* dB,
                                                      causeway_tensor* dC, causeway_tensor* dV, double* ddecay,
                                                      causeway_tensor* dstate) {
    return guarded([&] {
        const auto result = causal_linear_attention_grad(read("B", B), read("C", C), read("V", V), read("dO", dO),
                                                         causal_options(c::read_options("options", options)));
        Outputs outputs;
        outputs.add("dB", result.dB, dB);
        outputs.add("dC", result.dC, dC);
        outputs.add("dV", result.dV, dV);
        outputs.add("dstate", result.dstate, dstate);
        outputs.deliver();
        if (ddecay) std::copy(result.ddecay.begin(), result.ddecay.end(), ddecay);
    });
}

causeway_status causeway_linear_attention(const causeway_tensor* q, const causeway_tensor* k, const causeway_tensor* v,
                                          const causeway_linear_options* options, causeway_tensor* O,
                                          causeway_tensor* state) {
    return guarded([&] {
        check_wanted("O", O);
        const auto given = c::read_options("options", options);
        const Tensor tq = read("q", q), tk = read("k", k), tv = read("v", v);
        const LinearOptions o = linear_options(given);
        c::check_results(gated::check_sizes(tq, tk, tv, o), o, given, O, state);
        c::deliver_sequences(linear_attention(tq, tk, tv, o), given, O, state);
    });
}

causeway_status causeway_linear_attention_grad(const causeway_tensor* q, const causeway_tensor* k,
                                               const causeway_tensor* v, const causeway_tensor* dO,
                                               const causeway_tensor* dstate, const causeway_linear_options* options,
                                               const causeway_linear_gradients* gradients) {
    return guarded([&] {
        check_wanted("gradients", gradients);
        const auto wanted = c::read_options("gradients", gradients);
        const auto result =
            linear_attention_grad(read("q", q), read("k", k), read("v", v), read("dO", dO),
                                  linear_options(c::read_options("options", options)), read_optional("dstate", dstate));
        c::deliver_gradients(Outputs(), result, wanted);
    });
}

causeway_status causeway_linear_attention_step(const causeway_tensor* q, const causeway_tensor* k,
                                               const causeway_tensor* v, const causeway_linear_options* options,
                                               causeway_tensor* state, causeway_tensor* O) {
    return guarded([&] {
        check_wanted("O", O);
        const Tensor tq = read("q", q), tk = read("k", k), tv = read("v", v);
        const LinearOptions o = linear_options(c::read_options("options", options));
        c::step(tq, gated::check_sizes(tq, tk, tv, o).output, state, O,
                [&](Tensor& advanced, Tensor& result) { linear_attention_step(tq, tk, tv, advanced, result, o); });
    });
}

causeway_status causeway_softmax_attention(const causeway_tensor* q, const causeway_tensor* k, const causeway_tensor* v,
                                           const causeway_softmax_options* options, causeway_tensor* O,
                                           causeway_tensor* lse) {
    return guarded([&] {
        check_wanted("O", O);
        const auto result = softmax_attention(read("q", q), read("k", k), read("v", v), softmax_options(options));
        Outputs outputs;
        outputs.add("O", result.O, O);
        outputs.add("lse", result.lse, lse);
        outputs.deliver();
    });
}

causeway_status causeway_softmax_attention_grad(const causeway_tensor* q, const causeway_tensor* k,
                                                const causeway_tensor* v, const causeway_tensor* dO,
                                                const causeway_tensor* O, const causeway_tensor* lse,
                                                const causeway_softmax_options* options, causeway_tensor* dq,
                                                causeway_tensor* dk, causeway_tensor* dv) {
    return guarded([&] {
        if ((O == nullptr) != (lse == nullptr))
            fail(O ? "lse" : "O", ": NULL, expected both O and lse of the forward pass, or neither");
        std::optional<SoftmaxResult> forward;
        if (O) forward = SoftmaxResult{read("O", O), read("lse", lse)};
        const auto result = softmax_attention_grad(read("q", q), read("k", k), read("v", v), read("dO", dO),
                                                   softmax_options(options), forward);
        Outputs outputs;
        outputs.add("dq", result.dq, dq);
        outputs.add("dk", result.dk, dk);
        outputs.add("dv", result.dv, dv);
        outputs.deliver();
    });
}

causeway_status causeway_lowrank(const char* name, const causeway_tensor* q, const causeway_tensor* k,
                                 const causeway_lowrank_options* options, causeway_tensor* B, causeway_tensor* C) {
    return guarded([&] {
        if (!name) fail("name: NULL, expected the name of a factorisation");
        const auto result = low_rank(name, read("q", q), read("k", k), lowrank_options(options));
        Outputs outputs;
        outputs.add("B", result.B, B);
        outputs.add("C", result.C, C);
        outputs.deliver();
    });
}
