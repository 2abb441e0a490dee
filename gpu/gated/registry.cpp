#include "gpu/gated/registry.hpp"

#include "core/base/error.hpp"
#include "gpu/gated/channels.hpp"
#include "gpu/gated/delta.hpp"
#include "gpu/gated/parallel.hpp"
#include "gpu/gated/portable.hpp"
#include "gpu/gated/recurrent.hpp"

namespace causeway::gpu {
namespace {

bool any(const GatedArgs&) { return true; }
bool one_gate(const GatedArgs& a) { return a.gates <= 1; }

constexpr GatedSteps delta_steps{delta_hopper_in_steps, delta_hopper_steps_workspace, delta_hopper_maps,
                                 delta_hopper_states, delta_hopper_outputs};

void check(const std::string& mode, bool GatedForm::*can, const char* what) {
    std::string others;  // at most one form of a mode says that it can
    for (const GatedForm& form : gated_forms()) {
        if (!(form.*can)) continue;
        if (form.mode == mode) return;
        others += (others.empty() ? "\"" : " or \"") + form.mode + "\"";
    }
    fail("mode: \"", mode, "\" does not run on the GPU ", what, ", expected ", others);
}

}  // namespace

const std::vector<GatedForm>& gated_forms() {
    static const std::vector<GatedForm> list{
        {"delta", "chunkwise", "Yang, Kautz, Hatamizadeh 2025; Yang et al. 2024, §3", false, false, delta_hopper_takes,
         delta_hopper_workspace, delta_hopper, delta_hopper_packed_workspace, delta_hopper_packed, false,
         delta_hopper_prefix_workspace, delta_hopper_prefix, true, nullptr, &delta_steps},
        {"channels", "chunkwise", "Kimi Team 2025; Yang et al. 2024 (GLA), §4", true, false, gated_channels_takes,
         gated_channels_workspace, gated_channels, gated_channels_packed_workspace, gated_channels_packed, false,
         nullptr, nullptr, false, gated_channels_makes_gates},
        {"portable", "chunkwise", "core/gated/chunkwise.hpp", true, true, any, gated_portable_workspace, gated_portable,
         nullptr, nullptr, true},
        {"recurrent", "recurrent", "the definition", true, true, any, gated_recurrent_workspace, gated_recurrent,
         nullptr, nullptr, true},
        {"parallel", "parallel", "core/gated/chunkwise.hpp, one chunk", false, false, one_gate,
         gated_parallel_workspace, gated_parallel},
    };
    return list;
}

const GatedForm& gated_form(const std::string& mode, const GatedArgs& a, bool prefix) {
    for (const GatedForm& form : gated_forms()) {
        const bool can = (!prefix || form.keeps_prefix()) && (a.length_eps == 0 || form.lengths) &&
                         (!a.projection.a || (form.makes_gates && form.makes_gates(a)));
        if (form.mode == mode && can && form.takes(a)) return form;
    }
    fail("mode: no form of \"", mode, "\" on the GPU computes this call");
}

bool takes_lengths(const std::string& mode, const GatedArgs& a, bool prefix) {
    GatedArgs without = a;
    without.length_eps = 0;
    return gated_form(mode, without, prefix).lengths;
}

bool makes_gates(const std::string& mode, const GatedArgs& a, bool prefix) {
    GatedArgs made = a;
    made.projection = {}, made.length_eps = 0;
    const GatedForm& form = gated_form(mode, made, prefix);
    return form.makes_gates && form.makes_gates(a);
}

void check_channels(const std::string& mode) { check(mode, &GatedForm::channels, "with a gate per key channel"); }
void check_gradient(const std::string& mode) { check(mode, &GatedForm::gradient, "for the gradient"); }
void check_prefix(const std::string& mode) { check(mode, &GatedForm::prefix, "with deterministic = \"prefix\""); }

}  // namespace causeway::gpu
