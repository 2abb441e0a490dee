// What a rank on a GPU computes with its keys and values: o and log-sum-exp by the kernels of softmax attention.
#pragma once

#include "core/distributed/devices.hpp"
#include "gpu/distributed/team.hpp"
#include "gpu/kit/layout.hpp"

namespace causeway::gpu {

// Throws Error where the widths of k and v are not 1 to 256, which is what the kernels take.
void check_widths(const distributed::Sizes&);

// The worker of a share, whose pointers may be of the CPU's or the device's memory. Widths of 1 to 256. One pass over
// the keys gives (lse, 1, o), the triple of a shard (flash-decoding, or flash attention where there are many queries):
// algorithms 1 and 2 need no other, for their shift is lse in place of the largest score, which cancels. o is rounded
// to the type of q. Throws Error, OutOfMemory.
template <class E>
std::unique_ptr<distributed::OnDevice<E>> flash_worker(Rank&, Type, const distributed::Share<E>&);

}  // namespace causeway::gpu
