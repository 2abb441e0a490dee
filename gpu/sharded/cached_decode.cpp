#include "gpu/sharded/cached_decode.hpp"

#include "gpu/base/error.hpp"

namespace causeway::gpu::sharded {

using distributed::Held;
using distributed::Transfer;

void CachedDecode::attend(const SoftmaxArgs& a, const std::vector<std::int64_t>& lengths, cudaStream_t caller) {
    const auto follow = [](cudaStream_t later, cudaStream_t earlier, Event& event) {
        event.record(earlier);
        check(cudaStreamWaitEvent(later, event), "ordering kernels and messages");
    };
    if (!parts_) parts_.emplace(a, comm_.size());
    follow(stream_, caller, before_);
    if (tree_) tree(a);
    else ring(a, lengths);
    parts_->merge(a.o, nullptr, stream_);
    follow(caller, stream_, after_);
}

void CachedDecode::compute(int place, SoftmaxArgs part) {
    const Buffer workspace(parts_->workspace(part), stream_);
    part.workspace = {workspace.data(), workspace.bytes()};
    parts_->compute(place, part, stream_);
}

void CachedDecode::tree(const SoftmaxArgs& a) {
    compute(comm_.rank(), a);
    if (comm_.size() == 1) return;
    const auto bytes = static_cast<Index>(parts_->block_bytes());
    if (!comm_.gather(parts_->block(comm_.rank()), bytes, parts_->block(0)))
        fail("tree: ranks without an all-gather of their own, expected one");
}

void CachedDecode::ring(const SoftmaxArgs& a, const std::vector<std::int64_t>& lengths) {
    const int p = comm_.size(), me = comm_.rank(), right = (me + 1) % p, left = (me + p - 1) % p;
    // With the room behind the rows of every head, which is small, so that nothing has to be packed.
    const Index sizes[] = {a.batch * a.k_stride.batch * bytes_of(a.type),
                           a.batch * a.v_stride.batch * bytes_of(a.type)};
    for (auto& share : arriving_)
        for (int i = 0; i < 2 && p > 1; ++i)
            if (!share[i]) share[i] = comm_.allocate(Held::incoming, static_cast<std::size_t>(sizes[i]));
    const void* held[] = {a.k, a.v};
    for (int s = 0; s < p; ++s) {
        const int owner = (me + p - s) % p;
        std::shared_ptr<void>* const next = arriving_[s % 2];
        Transfer sent[2], received[2];
        for (int i = 0; i < 2 && s + 1 < p; ++i) {
            sent[i] = comm_.send(static_cast<const char*>(held[i]), sizes[i], right);
            received[i] = comm_.receive(static_cast<char*>(next[i].get()), sizes[i], left);
        }
        if (s + 1 < p) comm_.start();
        SoftmaxArgs part = a;
        part.k = held[0], part.v = held[1], part.M = lengths[static_cast<std::size_t>(owner)];
        compute(owner, part);
        for (int i = 0; i < 2; ++i) {
            received[i].wait(), sent[i].wait();
            held[i] = next[i].get();
        }
    }
}

}  // namespace causeway::gpu::sharded
