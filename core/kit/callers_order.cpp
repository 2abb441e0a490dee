#include "core/kit/callers_order.hpp"

#include <utility>

namespace causeway::kit {
namespace {

thread_local int swapped_heads = -1;  // below 0: nothing is swapped

}  // namespace

CallersOrder::CallersOrder(int heads) noexcept : before_(std::exchange(swapped_heads, heads)) {}

CallersOrder::~CallersOrder() { swapped_heads = before_; }

std::string callers_sizes(const Shape& shape) {
    Shape sizes = shape;
    const int heads = swapped_heads;
    if (heads >= 0 && sizes.ndim() >= heads + 2) std::swap(sizes[heads], sizes[heads + 1]);
    return sizes.text();
}

}  // namespace causeway::kit
