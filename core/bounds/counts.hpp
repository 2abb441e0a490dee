// What a method of causal linear attention executes and holds, by running it (claims B1, C1).
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/bounds/numbers.hpp"
#include "core/exact/registry.hpp"
#include "core/measure/counted_tensor.hpp"

namespace causeway::bounds {

// Scalars held at the peak of f beyond those before it, by the counting allocator.
template <class T, class F>
std::int64_t peak_scalars(F&& f) {
    memory::reset_peak();
    const auto before = memory::current();
    f();
    return static_cast<std::int64_t>((memory::peak() - before) / sizeof(T));
}

// The operations on numbers that count which f executes.
template <class F>
OperationCount count(F&& f) {
    const CountsOfThisCall restored;
    f();
    return counted;
}

// Scratch scalars of a method on one head of ones, its definition where T counts, with what it executes in
// `operations`.
template <class T>
Index peak_of_run(const exact::Method& m, const exact::Work& w, OperationCount* operations = nullptr) {
    const std::vector<T> x(static_cast<std::size_t>(w.N * std::max(w.r, w.d)), T(1));
    std::vector<T> O(static_cast<std::size_t>(w.N * w.d));
    const double half = 0.5;
    exact::Problem<T> p;
    p.N = w.N, p.r = w.r, p.d = w.d;
    p.B = p.C = p.V = x.data();
    p.O = O.data();
    p.gamma = w.decay ? &half : nullptr;
    p.normalize = w.normalize;
    p.block = std::min(w.block > 0 ? w.block : m.block, w.N);
    return peak_scalars<T>([&] {
        const OperationCount executed = count([&] { exact::run(m, p); });
        if (operations) *operations = executed;
    });
}

// Operations and scratch of a method's definition on one head of ones.
inline exact::Cost measured(const exact::Method& m, const exact::Work& w) {
    exact::Cost out;
    out.memory = peak_of_run<Counted>(m, w, &out.operations);
    return out;
}

}  // namespace causeway::bounds
