// Waiting for a GPU with an eye on Ctrl-C and time limits.
#pragma once

#include <cuda_runtime_api.h>

namespace causeway::gpu {

// Returns when all that was put on the stream is done; `doing` is for the message of what failed. Looks at
// interrupt::check() meanwhile. Where that throws, the kernels run on, and what they use must be given back in the
// order of the stream, as Buffer(bytes, stream) does. So before a copy to memory of the CPU the stream is waited for:
// the copy itself is short, and not to be left alone.
void wait_for(cudaStream_t stream, const char* doing);

}  // namespace causeway::gpu
