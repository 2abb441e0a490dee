// Which kernels run flash attention.
#include "gpu/softmax/flash.hpp"

#include "gpu/base/device.hpp"
#include "gpu/kit/tensor_map.hpp"
#include "gpu/softmax/params.hpp"

namespace causeway::gpu {

namespace softmax {

bool hopper_reaches(const SoftmaxArgs& a) {
    // TMA takes no stride of 0 (one head shared by broadcasting).
    const auto reached = [&](const void* data, Strides s, std::int64_t heads, std::int64_t tokens) {
        return tma_reaches(data, a.type, s) && (a.batch == 1 || s.batch > 0) && (heads == 1 || s.head > 0) &&
               (tokens == 1 || s.token > 0);
    };
    return device().hopper() && bytes_of(a.type) == 2 && a.d == a.dv && (a.d == 64 || a.d == 128) && a.M > 0 &&
           reached(a.q, a.q_stride, a.heads * a.group, a.N) && reached(a.k, a.k_stride, a.heads, a.M) &&
           reached(a.v, a.v_stride, a.heads, a.M) && reached(a.o, a.o_stride, a.heads * a.group, a.N);
}

namespace {

// A block has 128 queries of one head and all their keys: this pays where there are queries for most of a block, and
// half as many blocks as multiprocessors.
bool use_hopper(const SoftmaxArgs& a) {
    return a.N >= 64 && 2 * a.batch * a.heads * a.group * ((a.N + 127) / 128) >= device().multiprocessors &&
           hopper_reaches(a);
}

}  // namespace
}  // namespace softmax

std::size_t flash_attention_workspace(const SoftmaxArgs& a) {
    softmax::check_args("flash_attention", a);
    return softmax::use_hopper(a) ? 0 : softmax::flash_portable_workspace(a);
}

void flash_attention(const SoftmaxArgs& a, cudaStream_t stream) {
    softmax::check_args("flash_attention", a);
    if (softmax::use_hopper(a)) softmax::flash_on_hopper(a, stream);
    else softmax::flash_portable(a, 0, stream);
}

}  // namespace causeway::gpu
