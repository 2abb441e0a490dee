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
    static const Registry<Method> list(
        "method", {{"flash", "tree, §3; Rabe & Staats 2021; Dao et al. 2022", "O(N M (d + d_v))", "a tile",
                    run_flash<float>, run_flash<double>, count_flash},
                   {"standard", "the definition", "O(N M (d + d_v))", "M", run_standard<float>, run_standard<double>,
                    count_standard}});
    return list;
}

}  // namespace causeway::attention

std::vector<std::string> causeway::calls::softmax_methods() { return attention::methods().names(); }
