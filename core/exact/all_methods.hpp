// What the file of a method includes: its place in the registry's list, and what descriptors share.
#pragma once

#include "core/exact/registry.hpp"
#include "core/kit/spread.hpp"

namespace causeway::exact {

// The built-in methods in the order in which tables list them, one line each: NAME_method(), defined beside the fast
// form, returns the descriptor.
#define CAUSEWAY_EXACT_METHODS(METHOD) \
    METHOD(vanilla)                    \
    METHOD(row_based)                  \
    METHOD(causal_dot_product)         \
    METHOD(block_based)                \
    METHOD(recursion)                  \
    METHOD(lightning_attention_2)      \
    METHOD(fleet)                      \
    METHOD(fleet_untiled)              \
    METHOD(inner_product)              \
    METHOD(outer_product)              \
    METHOD(outer_product_blockwise)    \
    METHOD(hybrid)

#define CAUSEWAY_DECLARE(NAME) Method NAME##_method();
CAUSEWAY_EXACT_METHODS(CAUSEWAY_DECLARE)
#undef CAUSEWAY_DECLARE

// Method::roundings of the forms that add all N terms of an entry into one sum, each a score of r products.
inline Index roundings_of_one_sum(const Work& w) { return w.N + w.r; }

}  // namespace causeway::exact
