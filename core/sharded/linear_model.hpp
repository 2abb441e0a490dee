// Linear attention of one sequence on a modelled cluster: the schedules of core/sharded in simulated time.
#pragma once

#include <optional>
#include <string>

#include "core/distributed/cluster.hpp"
#include "core/distributed/report.hpp"

namespace causeway {

// A call of linear_attention without data.
struct LinearModelSizes {
    Index batch = 1, heads = 32, N = 131072, dk = 128, dv = 128, chunk = 64;
    bool delta = false;
    Index gates = 0;        // columns of the gates: 0, 1 or dk
    bool forgets = false;   // the gates of a rank's tokens leave nothing of the state before them
    Index together = 0;     // states that a device computes at once, by one kernel; 0: all
    double token_time = 0;  // seconds of a token of a head; 0: by operations and bytes
};

// linear_attention_sharded on p devices of the cluster, 1 <= p <= 4096, with this exchange: "ring" (LASP), "all-scan"
// (ZeCO), "all-gather" (LASP-2) or "heads" (Ulysses). States and maps travel and are held in Float32, tokens are of the
// cluster's element_bytes. Inputs lie where they are computed with, whole chunks as equal as can be. With `forgets` the
// ring's states go after the outputs and nobody waits for one. Throws Error naming the argument.
ShardReport linear_model(const std::string& exchange, const LinearModelSizes&, const distributed::Cluster&, int p);

}  // namespace causeway
