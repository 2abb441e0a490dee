// The general rule in the C interface.
#include "core/gated/general/general_linear_attention.hpp"

#include "core/c/arrays.hpp"
#include "core/c/guard.hpp"
#include "core/c/options.hpp"
#include "core/gradient/general_linear_attention_grad.hpp"

using namespace causeway;
using c::check_wanted, c::guarded, c::Outputs, c::read, c::read_optional;

namespace {

GeneralOptions general_options(const causeway_general_options& o) {
    return c::general_options<GeneralOptions>(o, read_optional);
}

}  // namespace

causeway_status causeway_general_linear_attention(const causeway_tensor* q, const causeway_tensor* k,
                                                  const causeway_tensor* v, const causeway_general_options* options,
                                                  causeway_tensor* O, causeway_tensor* state) {
    return guarded([&] {
        check_wanted("O", O);
        const auto given = c::read_options("options", options);
        const Tensor tq = read("q", q), tk = read("k", k), tv = read("v", v);
        const GeneralOptions o = general_options(given);
        c::check_results(gated::check_general_sizes(tq, tk, tv, o), o, given, O, state);
        c::deliver_sequences(general_linear_attention(tq, tk, tv, o), given, O, state);
    });
}

causeway_status causeway_general_linear_attention_grad(const causeway_tensor* q, const causeway_tensor* k,
                                                       const causeway_tensor* v, const causeway_tensor* dO,
                                                       const causeway_tensor* dstate,
                                                       const causeway_general_options* options,
                                                       const causeway_general_gradients* gradients) {
    return guarded([&] {
        check_wanted("gradients", gradients);
        const auto wanted = c::read_options("gradients", gradients);
        const auto result = general_linear_attention_grad(read("q", q), read("k", k), read("v", v), read("dO", dO),
                                                          general_options(c::read_options("options", options)),
                                                          read_optional("dstate", dstate));
        c::deliver_gradients(Outputs(), result, wanted);
    });
}

causeway_status causeway_general_linear_attention_step(const causeway_tensor* q, const causeway_tensor* k,
                                                       const causeway_tensor* v,
                                                       const causeway_general_options* options, causeway_tensor* state,
                                                       causeway_tensor* O) {
    return guarded([&] {
        check_wanted("O", O);
        const Tensor tq = read("q", q), tk = read("k", k), tv = read("v", v);
        const GeneralOptions o = general_options(c::read_options("options", options));
        c::step(tq, gated::check_general_sizes(tq, tk, tv, o).output, state, O, [&](Tensor& advanced, Tensor& result) {
            general_linear_attention_step(tq, tk, tv, advanced, result, o);
        });
    });
}
