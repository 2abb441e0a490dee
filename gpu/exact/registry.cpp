#include "gpu/exact/registry.hpp"

#include "core/base/error.hpp"
#include "core/base/unknown_name.hpp"
#include "gpu/exact/block_based.hpp"
#include "gpu/exact/causal_dot_product.hpp"
#include "gpu/exact/check.hpp"
#include "gpu/exact/fleet.hpp"
#include "gpu/exact/fleet_thrust.hpp"
#include "gpu/exact/hybrid.hpp"
#include "gpu/exact/inner_product.hpp"
#include "gpu/exact/lightning.hpp"
#include "gpu/exact/lightning/call.hpp"
#include "gpu/exact/outer_product.hpp"
#include "gpu/exact/recursion.hpp"
#include "gpu/exact/register_tile.hpp"
#include "gpu/exact/row_based.hpp"
#include "gpu/exact/vanilla.hpp"

namespace causeway::gpu {

namespace {

constexpr CausalSteps lightning_steps{lightning_in_steps, lightning_steps_workspace, lightning_states,
                                      lightning_outputs, la::chunk};

}  // namespace

const std::vector<CausalMethod>& causal_methods() {
    static const std::vector<CausalMethod> list{
        {"vanilla", false, 0, false, vanilla_workspace, vanilla},
        {"row-based", true, 0, false, row_based_workspace, row_based},
        {"causal-dot-product", true, 0, false, causal_dot_product_workspace, causal_dot_product},
        {"block-based", true, own_block, true, block_based_workspace, block_based},
        {"recursion", false, own_block, true, recursion_workspace, recursion},
        {"lightning-attention-2", true, la::chunk, false, lightning_workspace, lightning_attention_2, 2e-5, 256, true,
         &lightning_steps},
        {"fleet", true, tile::tokens, false, fleet_workspace, fleet},
        {"fleet-untiled", true, 0, false, fleet_thrust_workspace, fleet_thrust},
        {"inner-product", false, 0, false, inner_product_workspace, inner_product},
        {"outer-product", true, 0, false, outer_product_workspace, outer_product},
        {"outer-product-blockwise", true, own_block, true, outer_product_blockwise_workspace, outer_product_blockwise},
        {"hybrid", true, own_block, true, hybrid_workspace, hybrid},
    };
    return list;
}

const CausalMethod* find_causal_method(const std::string& name) {
    for (const CausalMethod& m : causal_methods())
        if (m.name == name) return &m;
    return nullptr;
}

const CausalMethod& causal_method(const std::string& name) {
    if (const CausalMethod* m = find_causal_method(name)) return *m;
    std::vector<std::string> names;
    for (const CausalMethod& m : causal_methods()) names.push_back(m.name);
    throw UnknownName(sentence("method: on the GPU no method is named \"", name, "\""), name, names);
}

}  // namespace causeway::gpu
