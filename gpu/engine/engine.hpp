// engine = "nccl" of tree_decode and ring_decode: one shard to a GPU, one thread to a shard, in this process. A floor
// above gpu/distributed, whose ranks it uses, and gpu/softmax, whose kernels its workers call.
#pragma once

namespace causeway::gpu {

// Enters the engine into core (core/distributed/devices.hpp). NCCL and CUDA are not touched before the first call that
// asks for the engine; where NCCL was not found when this was built, the engine says so then.
void enter_nccl();

}  // namespace causeway::gpu
