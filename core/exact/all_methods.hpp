// The descriptors that the registry lists, each defined beside its fast form.
#pragma once

#include "core/exact/registry.hpp"
#include "core/kit/spread.hpp"

namespace causeway::exact {

// In the order of the registry.
Method vanilla_method();
Method row_based_method();
Method causal_dot_product_method();
Method block_based_method();
Method recursion_method();
Method lightning_attention_2_method();
Method fleet_method();
Method fleet_untiled_method();
Method inner_product_method();
Method outer_product_method();
Method outer_product_blockwise_method();
Method hybrid_method();

}  // namespace causeway::exact
