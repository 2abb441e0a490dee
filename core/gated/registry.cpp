#include "core/gated/registry.hpp"

#include "core/calls/linear_attention.hpp"
#include "core/gated/chunkwise.hpp"
#include "core/gated/forms.hpp"
#include "core/gated/recurrent.hpp"
#include "core/kit/spread.hpp"

namespace causeway::gated {
namespace {

// f(head) for every head; counts belong to one thread.
template <class T, class F>
void each(const Problem<T>& p, F&& f) {
    if constexpr (std::is_same_v<T, Counted>) each_head_in_turn(p, f);
    else each_head(p, f);
}

template <class T>
void run_recurrent(const Problem<T>& p) {
    each(p, [](const auto& h) { recurrent(h); });
}

template <class T>
void run_parallel(const Problem<T>& p) {
    each(p, [](const auto& h) { parallel(h); });
}

void count_chunkwise(const Problem<Counted>& p) {
    each_head_in_turn(p, [&](const auto& h) { chunkwise(h, p.chunk); });
}

}  // namespace

const Registry<Rule>& updates() {
    static const Registry<Rule> list("update", {{"linear", Update::linear, "Katharopoulos et al. 2020"},
                                                {"gated", Update::gated, "gates; Yang et al. 2023 (GLA)"},
                                                {"delta", Update::delta, "Schlag et al. 2021; Yang et al. 2024"},
                                                {"gated_delta", Update::gated_delta, "Yang, Kautz, Hatamizadeh 2025"}});
    return list;
}

const Registry<Mode>& modes() {
    static const Registry<Mode> list(
        "mode", {{"recurrent", "the definition; gates, \"Putting them together\"; Yang et al. 2024, eq. 10",
                  "O(N d_k d_v)", "d_v", false, run_recurrent<float>, run_recurrent<double>, run_recurrent<Counted>},
                 {"chunkwise", "gates; Yang et al. 2024, §3", "O(N (d_k d_v + C (d_k + d_v)))", "C (d_k + d_v) + C²",
                  true, run_chunkwise<float>, run_chunkwise<double>, count_chunkwise},
                 {"parallel", "gates, C = n_seq", "O(N² (d_k + d_v))", "N²", false, run_parallel<float>,
                  run_parallel<double>, run_parallel<Counted>}});
    return list;
}

}  // namespace causeway::gated

std::vector<std::string> causeway::calls::linear_updates() { return gated::updates().names(); }
std::vector<std::string> causeway::calls::linear_modes() { return gated::modes().names(); }
