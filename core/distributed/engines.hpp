// What carries out a decode and the measurement of a link: threads, MPI or GPUs.
#pragma once

#include <string>

#include "core/distributed/plan.hpp"
#include "core/kit/registry.hpp"

namespace causeway::distributed {

// What the ranks of a decode are, and how they are run.
struct Engine {
    std::string name;  // "threads"
    std::string ranks;
    bool host_memory;  // of messages: written once before a measurement, so that its pages are there
    DecodeResult (*decode)(const Tensor& q, const Tensor& k, const Tensor& v, const Sizes&, const Shape& output,
                           const Plan&, const DecodeOptions&);
    int (*max_ranks)();  // of a measurement; throws Error where there are not two
    void (*measure)(int ranks, Index bytes, const Program&, Link&);
};
const kit::Registry<Engine>& engines();

// Of Engine, beside the measurement itself (measured_link.cpp).
int max_mpi_ranks();
int max_devices();
void measure_on_mpi(int ranks, Index bytes, const Program& program, Link& link);

}  // namespace causeway::distributed
