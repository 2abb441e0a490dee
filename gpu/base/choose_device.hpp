// Which of the GPUs this process works on.
#pragma once

namespace causeway::gpu {

// Says that this is the i-th process of its host: processes take turns at the GPUs. The GPU becomes the current one of
// the first thread that takes something from it (memory, a stream, its properties); a process that takes nothing leaves
// CUDA alone.
void choose_device(int i) noexcept;

// What those call before they do. Throws Error where that GPU cannot be used.
void enter_chosen_device();

}  // namespace causeway::gpu
