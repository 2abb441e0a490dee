// NCCL's messages between processes under mpirun with a GPU each that does not exist: they go by MPI.
// CAUSEWAY_ONE_GPU: all have the same one; CAUSEWAY_FAILING_RANK: the rank none of whose messages can be sent.
#pragma once

namespace causeway::faults {

// The functions of NCCL are these from now on, and each process has a GPU of its own.
void send_between_processes();

}  // namespace causeway::faults
