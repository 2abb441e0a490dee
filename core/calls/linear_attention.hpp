// The options of linear_attention, of one step of it, and of its gradient.
#pragma once

#include "core/calls/around.hpp"
#include "core/calls/sequences.hpp"
#include "core/calls/sharding.hpp"

namespace causeway {
namespace calls {

// What each member means is said once, by its option in linear_attention() below.
template <class Tensor>
struct LinearOptions {
    using TensorType = Tensor;

    std::string update = "linear";
    std::optional<Tensor> log_decay;
    std::optional<Tensor> beta;
    std::string mode = "chunkwise";
    Index chunk = 64;
    double scale = 1;
    bool qk_l2norm = false;
    std::optional<Tensor> state;
    std::vector<Index> cu_seqlens;
    std::vector<Index> state_indices;  // counted from 0; in the shell from 1
    bool inplace = false;
    Index checkpoint_every = 0;
    std::string deterministic =
        std::is_same_v<Tensor, causeway::Tensor> ? "prefix" : "alone";  // on a GPU it costs time
    std::optional<Tensor> A_log, dt_bias;
    std::optional<double> lower_bound;
    std::optional<Tensor> norm_weight, norm_gate;
    std::string norm_activation = "silu";
    double norm_eps = 1e-6;
};

// The options for q and k that were divided by their lengths.
template <class Options>
Options without_l2norm(Options o) {
    o.qk_l2norm = false;
    return o;
}

// Whether the outputs are normed within the call.
template <class Options>
bool has_norm(const Options& o) {
    return o.norm_weight || o.norm_gate;
}
// The options of the norm, and those of the call without one.
template <class Norm, class Options>
Norm norm_of(const Options& o) {
    Norm norm;
    norm.weight = o.norm_weight, norm.gate = o.norm_gate;
    norm.activation = o.norm_activation, norm.eps = o.norm_eps;
    return norm;
}
template <class Options>
Options without_norm(Options o) {
    const Options none;
    o.norm_weight.reset(), o.norm_gate.reset();
    o.norm_activation = none.norm_activation, o.norm_eps = none.norm_eps;
    return o;
}

// The options of the gates that the call makes of a projection, and those of the call with what they are.
template <class Gates, class Options>
Gates gates_of(const Options& o) {
    Gates gates;
    gates.dt_bias = o.dt_bias, gates.lower_bound = o.lower_bound;
    return gates;
}
template <class Options, class Tensor>
Options with_gates(Options o, const Tensor& log_decay) {
    o.log_decay = log_decay;
    o.A_log.reset(), o.dt_bias.reset(), o.lower_bound.reset();
    return o;
}

// Throws Error for an option that belongs to gates or to a norm which the call has not.
template <class Options>
void check_around(const Options& o) {
    const Options none;
    const auto refuse = [](const char* name, const char* missing) {
        fail(name, ": given, but no ", missing, ", expected both or neither");
    };
    if (!o.A_log && o.dt_bias) refuse("dt_bias", "A_log");
    if (!o.A_log && o.lower_bound) refuse("lower_bound", "A_log");
    if (o.A_log && !o.log_decay) refuse("A_log", "log_decay, the projection that the gates are made of");
    if (!o.norm_gate && o.norm_activation != none.norm_activation) refuse("norm_activation", "norm_gate");
    if (!has_norm(o) && o.norm_eps != none.norm_eps) refuse("norm_eps", "norm_weight and no norm_gate");
}
// Throws Error where gates are to be made, or outputs normed, by what does neither.
template <class Options>
void refuse_around(const Options& o, const char* what) {
    if (o.A_log) fail("A_log: given, but ", what, " makes no gates, expected log_decay = decay_gate(a, A_log)");
    if (has_norm(o))
        fail(o.norm_weight ? "norm_weight" : "norm_gate", ": given, but ", what,
             " has no norm, expected rms_norm of its outputs");
}

// A step as the shell calls it: the C++ function always advances the state in place, the shell only when asked to, and
// keeps the states where it is given a place for them.
template <class Tensor>
struct LinearStepOptions : LinearOptions<Tensor> {
    bool keep_states = false;
};

// A whole sequence as the shell calls it, where it may be spread over several workers.
template <class Tensor>
struct LinearCallOptions : LinearOptions<Tensor>, Sharding {};

// The gradient as the shell calls it: what arrives at the final state is an argument of the C++ function, and an option
// here.
template <class Tensor>
struct LinearGradOptions : LinearOptions<Tensor>, Sharding {
    std::optional<Tensor> dstate;
};

// The names of the registries, beside which they are defined (core/gated/registry.cpp).
std::vector<std::string> linear_updates();
std::vector<std::string> linear_modes();

// Options that whole sequences, steps and gradients share.
template <class S>
std::vector<Option<S>> of_all_linear_calls() {
    return {
        {.name = "update",
         .member = &S::update,
         .text = "the rule by which a token changes the state (update_rule in ONNX, where \"gated_delta\" is the "
                 "default)",
         .choices = linear_updates,
         .example = "update = \"delta\", beta = rand(1, 2, size(k, 3))"},
        {.name = "log_decay",
         .member = &S::log_decay,
         .text = "g <= 0, -Inf too: [b, h, N], or with a gate per key channel [b, h, N, d_k]; for the gated updates, "
                 "and only these; one head may serve all",
         .standard = "none",
         .example = "update = \"gated\", log_decay = -rand(1, 2, size(k, 3))"},
        {.name = "beta",
         .member = &S::beta,
         .text = "writing strength β, as a rule from 0 to 1: [b, h, N]; for the delta updates, and only these; one "
                 "head may serve all",
         .standard = "none",
         .example = "update = \"delta\", beta = rand(1, 2, size(k, 3))"},
        {.name = "scale",
         .member = &S::scale,
         .text = "factor on q (in ONNX 1/sqrt(d_k) by default)",
         .example = "scale = 1 / math.sqrt(8)"},
        {.name = "qk_l2norm",
         .member = &S::qk_l2norm,
         .text = "whether q and k are first divided by their lengths, √(Σ x² + 1e-6), as l2norm does; on a GPU within "
                 "the kernel where it runs on tensor cores with at most one gate a head"},
        {.name = "A_log",
         .member = &S::A_log,
         .text = "log_decay is then a projection a, and the gates are decay_gate(a, A_log), made within the call: [h]; "
                 "on a GPU within the kernel of a gate per key channel on tensor cores",
         .standard = "none",
         .example = "update = \"gated\", log_decay = k, A_log = zeros(2)"},
        {.name = "dt_bias",
         .member = &S::dt_bias,
         .text = "beside A_log: added to the projection, [h], or with a gate per key channel [h, d_k]",
         .standard = "zeros",
         .example = "update = \"gated\", log_decay = k, A_log = zeros(2), dt_bias = ones(2, 8)"},
        {.name = "lower_bound",
         .member = &S::lower_bound,
         .text = "beside A_log: L < 0, which no gate's logarithm goes below (?decay_gate)",
         .standard = "none",
         .example = "update = \"gated\", log_decay = k, A_log = zeros(2), lower_bound = -5"},
        {.name = "norm_weight",
         .member = &S::norm_weight,
         .text =
             "the outputs are then rms_norm of the rule's, within the call, each number of a row times one of these: "
             "[d_v]",
         .standard = "none, no norm",
         .example = "norm_weight = ones(8)"},
        {.name = "norm_gate",
         .member = &S::norm_gate,
         .text = "the gate of that norm, with the shape of the outputs",
         .standard = "none",
         .example = "norm_gate = v"},
        {.name = "norm_activation",
         .member = &S::norm_activation,
         .text = "what norm_gate goes through before it multiplies",
         .choices = gate_activations,
         .example = "norm_gate = v, norm_activation = \"sigmoid\""},
        {.name = "norm_eps",
         .member = &S::norm_eps,
         .text = "added to the mean of squares in that norm",
         .example = "norm_weight = ones(8), norm_eps = 1e-5"},
        state_indices_option<S>("the slots of a pool of states that the sequences have, one each, counted from 1; the "
                                "state is then the pool, [slots, h, d_k, d_v]",
                                "state = zeros(4, 2, 8, 8), state_indices = {3}"),
        device_option<S>(),
        layout_option<S>(),
    };
}

// Options that whole sequences and gradients share.
template <class S>
std::vector<Option<S>> of_linear_sequences(const char* mode, bool prefix_on_gpu) {
    return {
        {.name = "mode", .member = &S::mode, .text = mode, .choices = linear_modes},
        {.name = "chunk",
         .member = &S::chunk,
         .text = "tokens in a chunk; on a GPU each kernel has its own",
         .min = 1,
         .gpu = Effect::none,
         .example = "chunk = 32"},
        {.name = "state",
         .member = &S::state,
         .text = "the state to start from, [b, h, d_k, d_v]",
         .standard = "zeros",
         .example = "state = zeros(1, 2, 8, 8)"},
        cu_seqlens_option<S>(
            "where packed sequences begin and end: n + 1 offsets from 0 to N, with batch 1; states are "
            "then [n, h, d_k, d_v]"),
        deterministic_option<S>(
            "\"run\": the same bits in every run; \"alone\": a packed sequence has those of a call on it alone; "
            "\"prefix\": outputs up to a token do not depend on later tokens and gates, on N and on the batch; every "
            "mode keeps all, on a GPU \"parallel\" not the last",
            nullptr, prefix_on_gpu),
    };
}

template <class Tensor>
const Call<LinearCallOptions<Tensor>>& linear_attention() {
    using S = LinearCallOptions<Tensor>;
    static const auto& call = *new Call<S>{
        "linear_attention",
        {{"q"}, {"k"}, {"v"}},
        joined<S>(of_all_linear_calls<S>(),
                  joined<S>(of_linear_sequences<S>("the definition, chunks, or all at once: O(N), O(N) and O(N²) time; "
                                                   "on a GPU \"parallel\" takes no gate per key channel",
                                                   true),
                            joined<S>({inplace_option<S>("state = zeros(1, 2, 8, 8), inplace = true"),
                                       checkpoint_every_option<S>("checkpoint_every = 32")},
                                      joined<S>(sharding_options<S>(), {state_exchange_option<S>()})))),
        text_inputs};
    return call;
}

template <class Tensor>
const Call<LinearStepOptions<Tensor>>& linear_attention_step() {
    using S = LinearStepOptions<Tensor>;
    static const auto& call = *new Call<S>{"linear_attention_step",
                                           {{"q"}, {"k"}, {"v"}, {"state"}},
                                           joined<S>(of_all_linear_calls<S>(), of_steps<S>()),
                                           step_inputs};
    return call;
}

template <class Tensor>
const Call<LinearGradOptions<Tensor>>& linear_attention_grad() {
    using S = LinearGradOptions<Tensor>;
    static const auto& call = *new Call<S>{
        "linear_attention_grad",
        {{"q"}, {"k"}, {"v"}, {"dO"}},
        joined<S>(joined<S>(joined<S>(of_all_linear_calls<S>(),
                                      of_linear_sequences<S>(
                                          "the definition, which stores every state; a state per chunk; or "
                                          "one chunk; on a GPU chunkwise, and \"parallel\" is refused",
                                          false)),
                            {{.name = "dstate",
                              .member = &S::dstate,
                              .text = "what arrives at the final state, [b, h, d_k, d_v]",
                              .standard = "zeros",
                              .example = "dstate = ones(1, 2, 8, 8)"}}),
                  joined<S>(sharding_options<S>(), {grad_exchange_option<S>()})),
        gradient_inputs()};
    return call;
}

}  // namespace calls

using LinearOptions = calls::LinearOptions<Tensor>;

}  // namespace causeway
