#include "gpu/sharded/run.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "core/base/text.hpp"
#include "core/distributed/collectives.hpp"
#include "core/distributed/devices.hpp"
#include "core/sharded/run.hpp"
#include "gpu/base/copy.hpp"
#include "gpu/base/error.hpp"

namespace causeway::gpu::sharded {

int current_device() {
    int device = 0;
    check(cudaGetDevice(&device), "asking for the device");
    return device;
}

Workers workers_of(const Sharding& o) {
    if (!o.engine.empty() && o.engine != "nccl")
        fail("engine: ", in_quotes(o.engine), ", expected \"nccl\" for tensors on the GPU");
    if (o.shards < 0) fail("shards: ", o.shards, ", expected 1 or more");
    Workers out;
    out.parts = o.sharded;
    if (o.sharded && !o.sizes.empty())
        fail("sizes: given with sharded = true, expected none: every rank's part is as long as its tensors");
    if (distributed::mpi_size() > 1) {
        out.processes = true, out.p = distributed::mpi_size();
        distributed::nccl().check_processes();
        out.timeout = std::make_shared<const distributed::MpiTimeout>(o.timeout);
        if (o.shards != 0 && o.shards != out.p)
            fail("shards: ", o.shards, ", expected ", out.p, ", the number of MPI ranks, or none");
        return out;
    }
    if (o.sharded && o.shards > 1)
        fail("sharded: true with shards = ", o.shards,
             ", expected false: one process has all GPUs and the whole tensors; under mpirun each has its part");
    const int devices = distributed::nccl().devices();
    out.p = o.sharded ? 1 : o.shards > 0 ? o.shards : o.sizes.empty() ? devices : static_cast<int>(o.sizes.size());
    if (out.p > devices) fail("shards: ", out.p, ", expected at most ", devices, ", the number of GPUs");
    return out;
}

namespace {

// Of up to 256 elements, spread over all.
std::int64_t sampled_checksum(const Tensor& x, cudaStream_t stream) {
    const Index samples = std::min<Index>(x.size(), 256);
    const std::size_t element = size_of(x.dtype());
    std::vector<std::uint32_t> bits(static_cast<std::size_t>(samples), 0);
    if (samples == 0) return 0;
    const std::size_t step = static_cast<std::size_t>(x.size() / samples) * element;
    copy_rows({bits.data(), sizeof bits[0], x.data(), step, element, bits.size()}, stream, "comparing tensors");
    check(cudaStreamSynchronize(stream), "comparing tensors");
    return distributed::checksum(bits.data(), samples);
}

}  // namespace

void meet(const distributed::Program& program) {
    distributed::run_mpi([&](distributed::Communicator& comm) {
        comm.heed_ends();
        program(comm);
    });
}

void agree(const Workers& workers, distributed::Call call, const std::vector<Index>& cu_seqlens,
           const std::vector<distributed::Given>& given,
           const std::vector<std::pair<const char*, const Tensor*>>& values, const std::vector<Index>& sizes,
           cudaStream_t stream) {
    if (!workers.processes) return;
    std::vector<distributed::Given> of_values;
    if (!workers.parts)
        for (const auto& [name, x] : values) of_values.push_back({name, sampled_checksum(*x, stream)});
    meet([&](distributed::Communicator& comm) {
        // Each says how much is compared next.
        causeway::sharded::agree_on_call(comm, workers.parts, call, cu_seqlens);
        distributed::agree(comm, given);
        distributed::agree(comm, of_values);
        distributed::agree(comm, causeway::sharded::given_offsets(cu_seqlens));
        distributed::agree(comm, causeway::sharded::given_sizes(sizes));
    });
}

Starts starts_of(const Workers& workers, const Sharding& o, Index N, Index chunk) {
    if (!workers.parts) return causeway::sharded::starts_of(o, N, workers.p, chunk);
    Starts starts{0, N};
    if (workers.processes)
        meet([&](distributed::Communicator& comm) {
            causeway::sharded::Team team;
            team.parts = true;
            starts = causeway::sharded::starts_of(comm, team, o, N, chunk);
        });
    return starts;
}

bool on_all(const Workers& workers, bool holds) {
    if (!workers.processes) return holds;
    meet([&](distributed::Communicator& comm) {
        const char mine = holds ? 1 : 0;
        std::vector<char> all(static_cast<std::size_t>(comm.size()));
        distributed::all_gather(comm, distributed::all_ranks(comm), &mine, 1, all.data());
        holds = std::all_of(all.begin(), all.end(), [](char x) { return x != 0; });
    });
    return holds;
}

namespace {

ShardReport report_of(const std::string& method, const std::string& exchange, Index element_bytes, int p) {
    ShardReport report;
    report.method = method, report.engine = "nccl", report.algorithm = exchange;
    report.element_bytes = element_bytes, report.sum_bytes = sizeof(float);
    report.of_ranks(p);
    return report;
}

constexpr const char* copying = "copying a part from one GPU to another";

}  // namespace

ShardReport idle_report(const std::string& method, const std::string& exchange, DType type, const Workers& workers) {
    return report_of(method, exchange, static_cast<Index>(size_of(type)), workers.p);
}

ShardReport run(const std::string& method, const std::string& exchange, Index element_bytes, const Workers& workers,
                cudaStream_t stream, const Program& program, const Share& share) {
    check(cudaStreamSynchronize(stream), "running what the call needs");
    ShardReport report = report_of(method, exchange, element_bytes, workers.p);
    if (workers.processes) {
        distributed::nccl().run_processes([&](distributed::Communicator& rank) {
            QueuedCommunicator comm(dynamic_cast<NcclCommunicator&>(rank));
            const double seconds = program(comm);
            comm.settle();
            distributed::gather_accounts(comm, comm.host(), seconds, report);
            share(comm);
            comm.settle();
        });
        return report;
    }
    std::vector<double> seconds(static_cast<std::size_t>(workers.p));
    distributed::nccl().run(workers.p, [&](distributed::Communicator& rank) {
        QueuedCommunicator comm(dynamic_cast<NcclCommunicator&>(rank));
        seconds[static_cast<std::size_t>(comm.rank())] = program(comm);
        comm.settle();
        report.take(comm);
    });
    report.slowest(seconds);
    return report;
}

Local::Local(QueuedCommunicator& comm, Held held, const Whole& x, Index first, Index n, bool in)
    : comm_(comm),
      whole_(x),
      first_(first),
      n_(n),
      row_(x.N * x.width),
      data_(static_cast<char*>(x.data) + static_cast<std::size_t>(first * x.width) * x.element),
      here_(current_device()),
      holding_(comm, held, x.rows * n * x.width, x.element) {
    if (here_ == x.device) return;
    row_ = n * x.width;
    const std::size_t bytes = static_cast<std::size_t>(row_) * x.element;
    own_ = Buffer(static_cast<std::size_t>(x.rows) * bytes, comm.stream());
    if (in)
        copy_rows({own_.data(), bytes, data_, static_cast<std::size_t>(x.N * x.width) * x.element, bytes,
                   static_cast<std::size_t>(x.rows)},
                  here_, x.device, comm.stream(), copying);
    data_ = own_.data();
}

void Local::give_back() const {
    if (here_ != whole_.device) give_rows(comm_, data_, whole_, first_, n_);
}

void take_rows(QueuedCommunicator& comm, void* to, const Local& from, Index rows, Index n, std::size_t token) {
    const std::size_t bytes = static_cast<std::size_t>(n) * token;
    // A row of a tensor whose tokens have one element each.
    copy_rows(
        {to, bytes, from.data(), static_cast<std::size_t>(from.row()) * token, bytes, static_cast<std::size_t>(rows)},
        comm.stream(), copying);
}

void give_rows(QueuedCommunicator& comm, const void* from, const Whole& to, Index first, Index n) {
    const std::size_t token = static_cast<std::size_t>(to.width) * to.element,
                      bytes = static_cast<std::size_t>(n) * token;
    copy_rows({static_cast<char*>(to.data) + static_cast<std::size_t>(first) * token,
               static_cast<std::size_t>(to.N) * token, from, bytes, bytes, static_cast<std::size_t>(to.rows)},
              to.device, current_device(), comm.stream(), copying);
}

}  // namespace causeway::gpu::sharded
