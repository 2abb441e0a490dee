#include "core/exact/registry.hpp"

#include <iterator>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/unknown_name.hpp"
#include "core/calls/causal_linear_attention.hpp"
#include "core/exact/all_methods.hpp"
#include "core/kit/registry.hpp"

namespace causeway::exact {

namespace {

// The built-in methods, then those of the callers. A list, so that references to its elements stay when it grows.
std::list<Method>& all() {
#define CAUSEWAY_CALL(NAME) NAME##_method(),
    static auto& list = *new std::list<Method>{CAUSEWAY_EXACT_METHODS(CAUSEWAY_CALL)};
#undef CAUSEWAY_CALL
    return list;
}

#define CAUSEWAY_COUNT(NAME) +1
constexpr std::ptrdiff_t built_in = 0 CAUSEWAY_EXACT_METHODS(CAUSEWAY_COUNT);
#undef CAUSEWAY_COUNT

}  // namespace

const std::list<Method>& methods() { return all(); }

void register_method(Method added) {
    const std::string& name = added.name;
    if (name.empty()) fail("register_method: the method has no name");
    for (const Method& m : all())
        for (const std::string& taken : {m.name, m.short_name})
            if (!taken.empty() && (taken == name || taken == added.short_name))
                fail("register_method: a method is named \"", taken, "\" already");
    const auto need = [&](bool there, const char* what) {
        if (!there) fail("register_method: the method \"", name, "\" has no ", what);
    };
    need(added.f32 != nullptr, "f32");
    need(added.f64 != nullptr, "f64");
    need(added.counted != nullptr, "counted");
    need(added.cost != nullptr, "cost");
    need(added.running_memory != nullptr, "running_memory");
    need(added.roundings != nullptr, "roundings");
    all().push_back(std::move(added));
}

void unregister_method(const std::string& name) {
    auto at = std::next(all().begin(), built_in);
    while (at != all().end() && at->name != name) ++at;
    if (at == all().end()) fail("unregister_method: no method was registered as \"", name, "\"");
    all().erase(at);
}

const Method& method(const std::string& name) {
    std::vector<std::string> names;
    for (const Method& m : methods()) {
        if (m.name == name || m.short_name == name) return m;
        names.push_back(m.name);
    }
    throw UnknownName(sentence("method: no method is named \"", name, "\""), name, names, expected_one_of(names));
}

namespace {

// Normalised output of any method, for one head: the method runs on V' = [V, 1], and the last column of P' is the
// divisor. One head at a time: its V' and P' start at an aligned address whatever the number of threads, on which
// Eigen's order of sums depends.
template <class T>
void run_with_ones(const Method& m, const Problem<T>& p, Index h) {
    const Index N = p.N, d = p.d, wide = d + 1;
    Buffer<T> V(N * wide), P(N * wide);
    const T* const values = p.V_of(h);
    const auto each_row = [&](auto&& f) {
        const auto rows = [&](Index first, Index n) {
            for (Index row = first; row < first + n; ++row) f(row);
        };
        each_block(N, rows, 1024);
    };
    each_row([&](Index i) {
        std::copy_n(values + i * d, d, V.data() + i * wide);
        V[i * wide + d] = T(1);
    });
    const double gamma = p.decay_of(h);
    Problem<T> q = p;
    q.batch = q.heads = 1;
    q.d = wide;
    q.shared_B = q.shared_C = q.shared_V = 1;
    q.B = p.B_of(h);
    q.C = p.C_of(h);
    q.V = V.data();
    q.O = P.data();
    q.gamma = p.gamma ? &gamma : nullptr;
    q.normalize = false;
    q.state = p.state ? p.state + h * p.r * wide : nullptr;
    kit::computing_in<T>(m)(q);
    const auto divide = [&](Index i) {
        const T divisor = P[i * wide + d];
        for (Index k = 0; k < d; ++k) p.O[(h * N + i) * d + k] = P[i * wide + k] / divisor;
    };
    // Counts belong to the thread that asks for them.
    if constexpr (std::is_same_v<T, Counted>)
        for (Index i = 0; i < N; ++i) divide(i);
    else each_row(divide);
}

}  // namespace

template <class T>
void run(const Method& m, const Problem<T>& p) {
    // The counting definitions know nothing of division: all of them go the way of V' = [V, 1].
    if (!p.normalize || (m.normalizes && !std::is_same_v<T, Counted>)) return kit::computing_in<T>(m)(p);
    for (Index h = 0; h < p.all_heads(); ++h) run_with_ones(m, p, h);
}

template void run<float>(const Method&, const Problem<float>&);
template void run<double>(const Method&, const Problem<double>&);
template void run<Counted>(const Method&, const Problem<Counted>&);

}  // namespace causeway::exact

std::vector<std::string> causeway::calls::causal_methods() {
    std::vector<std::string> names{"auto"};
    for (const auto& m : exact::methods()) names.push_back(m.name);
    return names;
}
