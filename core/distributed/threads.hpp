// Ranks as threads of this process: nothing to install.
#pragma once

#include "core/distributed/communicator.hpp"

namespace causeway::distributed {

// Runs `program` on p ranks, 1 <= p <= 1024, each a thread of its own (not one of core/base/parallel.hpp, so p may
// exceed the cores), and returns when all have ended. The first exception of a rank ends the waits of the others and is
// rethrown here.
void run_threads(int p, const Program& program);

}  // namespace causeway::distributed
