// A decode over MPI: every rank is given whole tensors and uses its shard.
#pragma once

#include "core/distributed/plan.hpp"

namespace causeway::distributed {

// On one rank, for T = float, double: compares the call with that of rank 0, runs the plan, and gathers every rank's
// account into `report`. task.shard holds all keys. Throws Error where the calls differ.
template <class T>
void run_on_mpi(Communicator& comm, const Plan& plan, const T* q, Task<T> task, const DecodeOptions& o,
                ShardReport& report);

}  // namespace causeway::distributed
