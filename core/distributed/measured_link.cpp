#include <algorithm>

#include "core/base/interrupt.hpp"
#include "core/distributed/agree.hpp"
#include "core/distributed/decode.hpp"
#include "core/distributed/devices.hpp"
#include "core/distributed/engines.hpp"
#include "core/distributed/mpi.hpp"

namespace causeway {

using namespace distributed;

namespace {

// The least seconds of a message of n bytes, of some tries of `together` each: between two ranks to and fro, among more
// around the ring at once.
double one_way(Communicator& comm, int ranks, char* out, char* in, Index n, int tries, int together) {
    const int me = comm.rank(), right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;
    double fastest = 1e300;
    for (int i = 0; i < tries; ++i) {
        interrupt::check();
        comm.barrier();
        const double begun = comm.now();
        for (int s = 0; s < together && me < ranks; ++s) {
            if (ranks > 2) {
                comm.exchange(out, n, right, in, n, left);
            } else if (s % 2 == me) {
                comm.send(out, n, right).wait();
            } else {
                comm.receive(in, n, left).wait();
            }
        }
        fastest = std::min(fastest, (comm.now() - begun) / together);  // rank 0 is the last to receive
        comm.barrier();
    }
    return fastest;
}

}  // namespace

int distributed::max_mpi_ranks() {
    start_mpi();
    if (mpi_size() < 2) fail("engine: \"mpi\" with one rank, expected two or more (mpirun -n 2 causeway ...)");
    return mpi_size();
}

int distributed::max_devices() {
    const int devices = nccl().devices();
    if (devices < 2) fail("engine: \"nccl\" with one GPU, expected two or more");
    return devices;
}

// Where rank 0 has measured, all know it.
void distributed::measure_on_mpi(int ranks, Index bytes, const Program& program, Link& link) {
    run_mpi([&](Communicator& comm) {
        agree_on_call(comm, Call::link_speed);
        agree(comm, {{"ranks:", ranks}, {"bytes:", bytes}});
        program(comm);
        broadcast_binomial(comm, all_ranks(comm), &link.latency, 1);
        broadcast_binomial(comm, all_ranks(comm), &link.rate, 1);
    });
}

namespace {

Link measured_on_ranks(const std::string& engine, int ranks, Index bytes) {
    const Engine& way = engines()[engine];
    if (bytes < 1024 || bytes > Index{1} << 40) fail("bytes: ", bytes, ", expected from 1024 to 2^40");
    const int max_ranks = way.max_ranks();
    if (ranks < 2 || ranks > max_ranks) fail("ranks: ", ranks, ", expected from 2 to ", max_ranks);
    Link link;
    const Program program = [&](Communicator& comm) {
        Room<char> out(comm, Held::shard, bytes), in(comm, Held::incoming, bytes);
        comm.barrier();  // before any is filled, all ranks have their memory
        constexpr Index piece = Index{1} << 26;
        for (Index at = 0; at < bytes && way.host_memory; at += piece) {  // that of a device is there once it is taken
            interrupt::check();
            std::fill_n(out.data() + at, std::min(piece, bytes - at), 0);
        }
        const double small = one_way(comm, ranks, out.data(), in.data(), 8, 20, 16),
                     large = one_way(comm, ranks, out.data(), in.data(), bytes, 5, 4);
        if (comm.rank() == 0) link = {small, static_cast<double>(bytes) / std::max(large - small, 1e-9)};
    };
    way.measure(ranks, bytes, program, link);
    return link;
}

}  // namespace

Link measured_link(const std::string& engine, int ranks, Index bytes) {
    return shared_call(engine == "mpi", [&] { return measured_on_ranks(engine, ranks, bytes); });
}

}  // namespace causeway
