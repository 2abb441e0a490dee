#include "core/exact/registry.hpp"

#include "core/base/error.hpp"
#include "core/base/parallel.hpp"
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
    };
    return list;
}

const Method& method(const std::string& name) {
    std::vector<std::string> names;
    for (const Method& m : methods()) {
        if (m.name == name) return m;
        names.push_back(m.name);
    }
    fail("method: no method is named \"", name, "\"", did_you_mean(name, names));
}

namespace {

// Normalised output of any method: heads [from, from + count) run on V' = [V, 1]; the last column of P' is the divisor.
template <class T>
void run_with_ones(const Method& m, const Problem<T>& p, Index from, Index count) {
    const Index N = p.N, d = p.d, wide = d + 1;
    Buffer<T> V(count * N * wide), P(count * N * wide);
    Buffer<double> gamma(p.gamma ? count : 0);
    for (Index h = 0; h < gamma.size(); ++h) gamma[h] = p.decay_of(from + h);
    const auto rows = [&](auto&& f) {
        parallel_for(count, [&](Index h) {
            for (Index i = 0; i < N; ++i) f((from + h) * N + i, h * N + i);
        });
    };
    rows([&](Index row, Index local) {
        std::copy_n(p.V + row * d, d, V.data() + local * wide);
        V[local * wide + d] = T(1);
    });
    Problem<T> q = p;
    q.batch = 1;
    q.heads = count;
    q.d = wide;
    q.B = p.B + from * N * p.r;
    q.C = p.C + from * N * p.r;
    q.V = V.data();
    q.O = P.data();
    q.gamma = p.gamma ? gamma.data() : nullptr;
    q.normalize = false;
    q.state = p.state ? p.state + from * p.r * wide : nullptr;
    m.forward<T>()(q);
    rows([&](Index row, Index local) {
        const T divisor = P[local * wide + d];
        for (Index k = 0; k < d; ++k) p.O[row * d + k] = P[local * wide + k] / divisor;
    });
}

}  // namespace

template <class T>
void run(const Method& m, const Problem<T>& p) {
    // The counting definitions know nothing of division: all of them go the way of V' = [V, 1].
    if (!p.normalize || (m.normalizes && !std::is_same_v<T, Counted>)) return m.forward<T>()(p);
    constexpr bool in_turn = std::is_same_v<T, Counted>;
    const Index group = in_turn ? 1 : std::max(1, threads());
    for (Index h = 0; h < p.all_heads(); h += group) run_with_ones(m, p, h, std::min(group, p.all_heads() - h));
}

template void run<float>(const Method&, const Problem<float>&);
template void run<double>(const Method&, const Problem<double>&);
template void run<Counted>(const Method&, const Problem<Counted>&);

}  // namespace causeway::exact
