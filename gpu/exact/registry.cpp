#include "gpu/exact/registry.hpp"

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "gpu/exact/block_based.hpp"
#include "gpu/exact/causal_dot_product.hpp"
#include "gpu/exact/fleet.hpp"
#include "gpu/exact/fleet_thrust.hpp"
#include "gpu/exact/lightning.hpp"
#include "gpu/exact/recursion.hpp"
#include "gpu/exact/row_based.hpp"
#include "gpu/exact/vanilla.hpp"

namespace causeway::gpu {

const std::vector<CausalMethod>& causal_methods() {
    static const std::vector<CausalMethod> list{
        {"vanilla", false, vanilla_workspace, vanilla},
        {"row-based", true, row_based_workspace, row_based},
        {"causal-dot-product", true, causal_dot_product_workspace, causal_dot_product},
        {"block-based", true, block_based_workspace, block_based},
        {"recursion", false, recursion_workspace, recursion},
        {"lightning-attention-2", true, lightning_workspace, lightning_attention_2},
        {"fleet", true, fleet_workspace, fleet},
        {"fleet-untiled", true, fleet_thrust_workspace, fleet_thrust},
    };
    return list;
}

const CausalMethod& causal_method(const std::string& name) {
    std::vector<std::string> names;
    for (const CausalMethod& m : causal_methods()) {
        if (m.name == name) return m;
        names.push_back(m.name);
    }
    fail("method: on the GPU no method is named \"", name, "\"", did_you_mean(name, names));
}

}  // namespace causeway::gpu
