#include "core/exact/registry.hpp"

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/exact/all_methods.hpp"

namespace causeway::exact {

const std::vector<Method>& methods() {
    static const std::vector<Method> list{
        vanilla_method(),
        row_based_method(),
        causal_dot_product_method(),
        block_based_method(),
        recursion_method(),
        lightning_attention_2_method(),
        fleet_method(),
        fleet_untiled_method(),
        inner_product_method(),
        outer_product_method(),
        outer_product_blockwise_method(),
        hybrid_method(),
    };
    return list;
}

const Method& method(const std::string& name) {
    std::vector<std::string> names;
    for (const Method& m : methods()) {
        if (m.name == name || m.short_name == name) return m;
        names.push_back(m.name);
    }
    fail("method: no method is named \"", name, "\"", did_you_mean(name, names));
}

namespace {

// Normalised output of any method, for one head: the method runs on V' = [V, 1], and the last column of P' is the
// divisor. One head at a time: its V' and P' start at an aligned address whatever the number of threads, on which
// Eigen's order of sums depends.
template <class T>
void run_with_ones(const Method& m, const Problem<T>& p, Index h) {
    const Index N = p.N, d = p.d, wide = d + 1;
    Buffer<T> V(N * wide), P(N * wide);
    const auto each_row = [&](auto&& f) {
        const auto rows = [&](Index first, Index n) {
            for (Index row = first; row < first + n; ++row) f(row);
        };
        each_block(N, rows, 1024);
    };
    each_row([&](Index i) {
        std::copy_n(p.V + (h * N + i) * d, d, V.data() + i * wide);
        V[i * wide + d] = T(1);
    });
    const double gamma = p.decay_of(h);
    Problem<T> q = p;
    q.batch = q.heads = 1;
    q.d = wide;
    q.B = p.B + h * N * p.r;
    q.C = p.C + h * N * p.r;
    q.V = V.data();
    q.O = P.data();
    q.gamma = p.gamma ? &gamma : nullptr;
    q.normalize = false;
    q.state = p.state ? p.state + h * p.r * wide : nullptr;
    m.forward<T>()(q);
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
    if (!p.normalize || (m.normalizes && !std::is_same_v<T, Counted>)) return m.forward<T>()(p);
    for (Index h = 0; h < p.all_heads(); ++h) run_with_ones(m, p, h);
}

template void run<float>(const Method&, const Problem<float>&);
template void run<double>(const Method&, const Problem<double>&);
template void run<Counted>(const Method&, const Problem<Counted>&);

}  // namespace causeway::exact
