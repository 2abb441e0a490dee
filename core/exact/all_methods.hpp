// The descriptors that the registry lists, each defined beside its fast form.
#pragma once

#include "core/base/interrupt.hpp"
#include "core/exact/registry.hpp"

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

// f(head) for one head after the other: the counts belong to one thread.
template <class F>
void each_head_in_turn(const Problem<Counted>& p, F&& f) {
    for (Index h = 0; h < p.all_heads(); ++h) {
        interrupt::check();
        f(p.head(h));
    }
}

}  // namespace causeway::exact
