#include "core/kit/pool.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/error.hpp"
#include "core/tensor/visit.hpp"

namespace causeway::kit {
namespace {

std::size_t slot_bytes(const Tensor& A) {
    return A.shape()[0] > 0 ? A.bytes() / static_cast<std::size_t>(A.shape()[0]) : 0;
}

void check_distinct(const std::vector<Index>& slots, Index count) {
    std::vector<Index> place(static_cast<std::size_t>(count), 0);  // of the sequence that has a slot, counted from 1
    for (std::size_t i = 0; i < slots.size(); ++i) {
        Index& taken = place[static_cast<std::size_t>(slots[i])];
        if (taken > 0)
            fail("state_indices: places ", taken, " and ", i + 1,
                 " have the same slot, expected one for each sequence, as the states are written there");
        taken = static_cast<Index>(i) + 1;
    }
}

}  // namespace

void check_slots(const std::vector<Index>& slots, Index sequences, const Tensor& pool, bool written) {
    const Index count = pool.shape()[0];
    if (static_cast<Index>(slots.size()) != sequences)
        fail("state_indices: ", slots.size(), " slots, expected ", sequences, ", one for each sequence");
    for (std::size_t i = 0; i < slots.size(); ++i)
        if (slots[i] < 0 || slots[i] >= count)
            fail("state_indices: a slot outside the pool in place ", i + 1, ", expected one of its ", count);
    if (written) check_distinct(slots, count);
}

Tensor from_slots(const Tensor& pool, const std::vector<Index>& slots, DType type) {
    Shape shape = pool.shape();
    shape[0] = static_cast<Index>(slots.size());
    Tensor out(pool.dtype(), shape);
    const std::size_t bytes = slot_bytes(pool);
    for (std::size_t i = 0; i < slots.size(); ++i)
        if (bytes > 0)
            std::memcpy(out.raw() + i * bytes, pool.raw() + static_cast<std::size_t>(slots[i]) * bytes, bytes);
    return out.to(type);
}

void to_slots(const Tensor& states, const std::vector<Index>& slots, Tensor& pool) {
    const Tensor narrow = states.to(pool.dtype());
    const std::size_t bytes = slot_bytes(pool);
    for (std::size_t i = 0; i < slots.size(); ++i)
        if (bytes > 0)
            std::memcpy(pool.raw() + static_cast<std::size_t>(slots[i]) * bytes, narrow.raw() + i * bytes, bytes);
}

void copy_to(const Tensor& states, Tensor& given) {
    const Tensor narrow = states.to(given.dtype());
    if (narrow.bytes() > 0) std::memcpy(given.raw(), narrow.raw(), narrow.bytes());
}

Tensor gradient_of_slots(const Tensor& states, const std::vector<Index>& slots, Index count) {
    Shape shape = states.shape();
    shape[0] = count;
    Tensor out = Tensor::zeros(states.dtype(), shape);
    const Index elements = out.size() / std::max<Index>(count, 1);
    visit(states.dtype(), [&]<class T>(T) {
        for (std::size_t i = 0; i < slots.size(); ++i) {
            T* to = out.data<T>() + slots[i] * elements;
            const T* from = states.data<T>() + static_cast<Index>(i) * elements;
            for (Index e = 0; e < elements; ++e) to[e] += from[e];
        }
    });
    return out;
}

}  // namespace causeway::kit
