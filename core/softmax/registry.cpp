#include "core/softmax/registry.hpp"

#include "core/calls/softmax_attention.hpp"
#include "core/kit/spread.hpp"
#include "core/softmax/flash.hpp"
#include "core/softmax/forms.hpp"
#include "core/softmax/standard.hpp"

namespace causeway::attention {
namespace {

void count_flash(const Problem<Counted>& p) {
    each_head_in_turn(p, [](const auto& h) { flash(h, default_tile, 0, h.rows); });
}

void count_standard(const Problem<Counted>& p) {
    each_head_in_turn(p, [](const auto& h) { standard(h, 0, h.rows); });
}

}  // namespace

const Registry<Method>& methods() {
    static const auto& list = *new Registry<Method>(
        "method", {{"flash", "tree, §3; Rabe & Staats 2021; Dao et al. 2022",
                    "m' = max(m, s),  D ← e^(m-m') D + Σ e^(s-m')\n"
                    "n ← e^(m-m') n + Σ e^(s-m') v,  o = n / D at the end",
                    "Tile after tile of the scores s = scale q kᵀ: each query keeps the largest score m so far, the "
                    "denominator D and the numerator n, which are scaled anew when a larger score comes.",
                    "Always; it is the default. No matrix of scores is ever in memory.", "O(N M (d + d_v))", "a tile",
                    run_flash<float>, run_flash<double>, count_flash},
                   {"standard", "the definition", "o_i = Σ_j e^(s_ij - max_j s_ij) v_j / Σ_j e^(s_ij - max_j s_ij)",
                    "The formula, one row of scores at a time.", "To compare with; it does not run on a GPU.",
                    "O(N M (d + d_v))", "M", run_standard<float>, run_standard<double>, count_standard}});
    return list;
}

}  // namespace causeway::attention

std::vector<std::string> causeway::calls::softmax_methods() { return attention::methods().names(); }
