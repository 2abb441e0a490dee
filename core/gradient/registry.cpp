#include "core/gradient/registry.hpp"

#include <algorithm>

#include "core/gradient/forms.hpp"
#include "core/gradient/recurrent.hpp"
#include "core/kit/spread.hpp"

namespace causeway::gradient {
namespace {

template <class T>
void run_recurrent(const GradProblem<T>& p) {
    each_head(p, [](const auto& h) { recurrent(h); });
}

// The sequence as one chunk.
template <class T>
void run_parallel(const GradProblem<T>& p) {
    GradProblem<T> whole = p;
    whole.in.chunk = std::max<Index>(p.in.N, 1);
    run_chunkwise_grad(whole);
}

template <class T>
void run_standard(const SoftmaxGradProblem<T>& p) {
    each_head(p, [](const auto& h) { softmax_gradient(h); });
}

}  // namespace

const Registry<LinearForm>& linear_forms() {
    static const auto& list = *new Registry<LinearForm>(
        "mode",
        {{"recurrent", "the definition, differentiated; claims F10", "O(N d_k d_v)", "N d_k d_v", run_recurrent<float>,
          run_recurrent<double>},
         {"chunkwise", "claims F8, G9", "O(N (d_k d_v + C (d_k + d_v)))", "N/C d_k d_v", run_chunkwise_grad<float>,
          run_chunkwise_grad<double>},
         {"parallel", "claims F8, one chunk", "O(N² (d_k + d_v))", "N²", run_parallel<float>, run_parallel<double>}});
    return list;
}

const Registry<SoftmaxForm>& softmax_forms() {
    static const auto& list =
        *new Registry<SoftmaxForm>("method", {{"flash", "Dao et al. 2022", "O(N M (d + d_v))", "a tile", true,
                                               run_flash_grad<float>, run_flash_grad<double>},
                                              {"standard", "the definition, differentiated", "O(N M (d + d_v))", "M",
                                               false, run_standard<float>, run_standard<double>}});
    return list;
}

}  // namespace causeway::gradient
