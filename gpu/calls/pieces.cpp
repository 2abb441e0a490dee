#include "gpu/calls/pieces.hpp"

#include <algorithm>

#include "gpu/base/copy.hpp"

namespace causeway::gpu {

Pieces pieces_of(const std::vector<Index>& cu_seqlens, Index N, Index every) {
    const std::vector<Index> offsets = cu_seqlens.empty() ? std::vector<Index>{0, N} : cu_seqlens;
    Pieces p;
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
        const Index end = offsets[i + 1];
        for (Index first = offsets[i]; first < end;) {
            const Index n = every > 0 ? std::min(every, end - first) : end - first;
            p.cuts.push_back(first);
            p.list.push_back({first, n, static_cast<Index>(i), n == every ? p.kept++ : -1});
            first += n;
        }
    }
    p.cuts.push_back(N);
    return p;
}

void keep_states(const void* states, void* kept_states, Index rows, Index kept, Index checkpoint, std::size_t bytes,
                 cudaStream_t stream) {
    copy_rows({static_cast<char*>(kept_states) + static_cast<std::size_t>(checkpoint) * bytes,
               bytes * static_cast<std::size_t>(kept), states, bytes, bytes, static_cast<std::size_t>(rows)},
              stream, "keeping a state");
}

}  // namespace causeway::gpu
