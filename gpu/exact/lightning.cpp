#include "gpu/exact/lightning.hpp"

#include "gpu/exact/lightning/call.hpp"

namespace causeway::gpu {

namespace {

la::Call call_of(const CausalArgs& a) {
    la::check_args("lightning_attention_2", a);
    la::Call call;
    call.problem[0] = a;
    call.state_batch = a.H * a.r * a.d;
    call.workspace = a.workspace;
    return call;
}

}  // namespace

std::size_t lightning_workspace(const CausalArgs& a) { return la::workspace(call_of(a)); }

void lightning_attention_2(const CausalArgs& a, cudaStream_t stream) { la::run(call_of(a), stream); }

}  // namespace causeway::gpu
