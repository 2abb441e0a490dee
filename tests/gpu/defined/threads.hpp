// NCCL's messages between the GPUs of one process, of which none exists: a thread each (pretended.hpp).
#pragma once

namespace causeway::faults {

// The functions of NCCL are these from now on.
void send_between_threads();

}  // namespace causeway::faults
