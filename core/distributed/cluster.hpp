// A cluster in simulated time: the real schedule of an algorithm, its messages and its work, on a model of the machine.
#pragma once

#include <string>
#include <vector>

#include "core/distributed/communicator.hpp"

namespace causeway::distributed {

// Between two devices.
struct Link {
    double latency = 0;  // seconds from sending to the first byte's arrival
    double rate = 1e9;   // bytes a second in each direction, for each device
};

// Devices in nodes of per_node. A message leaves when its sender's port is free, takes bytes / rate on it, arrives
// after the latency, and takes as long at the receiver's port, where messages wait for one another. Computing and
// sending overlap where the algorithm posts a message before it computes.
struct Cluster {
    std::string name;
    int per_node = 8;
    Link within, between;
    double memory_rate = 1e12;  // bytes a second that a device reads
    double flop_rate = 1e14;    // operations a second
    double start = 0;           // seconds to start a kernel or a library call
    Index element_bytes = 2;    // of the number type
};

// Where each figure comes from stands in proofs/tree.md.
const std::vector<Cluster>& clusters();           // "h100", "mi300x", "rtx4090"
const Cluster& cluster(const std::string& name);  // throws Error naming the nearest

// What p ranks of a cluster have done.
struct Simulated {
    double seconds = 0;            // from the last begin() to the last rank's end
    std::vector<Traffic> traffic;  // by rank
    std::vector<Memory> memory;
    std::vector<double> waited;  // seconds
};

// Runs `program` on p ranks in simulated time, deterministically; dry: without data. p up to 4096. Throws what a rank
// throws, and Error where all ranks wait for one another.
Simulated run_simulated(const Cluster&, int p, bool dry, const Program& program);

}  // namespace causeway::distributed
