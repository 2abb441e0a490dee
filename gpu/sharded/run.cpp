#include "gpu/sharded/run.hpp"

#include <cuda_runtime_api.h>

#include "core/base/text.hpp"
#include "core/distributed/devices.hpp"
#include "core/distributed/mpi.hpp"
#include "gpu/base/copy.hpp"
#include "gpu/base/error.hpp"

namespace causeway::gpu::sharded {

int current_device() {
    int device = 0;
    check(cudaGetDevice(&device), "asking for the device");
    return device;
}

int ranks_of(const Sharding& o) {
    if (!o.engine.empty() && o.engine != "nccl")
        fail("engine: ", in_quotes(o.engine), ", expected \"nccl\" for tensors on the GPU");
    if (o.sharded) fail("sharded: true, expected false: one process has all GPUs and the whole tensors");
    if (o.timeout != 0)
        fail("timeout: ", o.timeout, ", expected none: one process has all GPUs and waits for no other");
    if (distributed::mpi_size() > 1)
        fail(
            "engine: \"nccl\" under mpirun, expected one process that has all GPUs, or tensors on the CPU: processes "
            "do "
            "not share a sequence on GPUs");
    const int devices = distributed::nccl().devices();
    const int p = o.shards > 0 ? o.shards : o.sizes.empty() ? devices : static_cast<int>(o.sizes.size());
    if (o.shards < 0) fail("shards: ", o.shards, ", expected 1 or more");
    if (p > devices) fail("shards: ", p, ", expected at most ", devices, ", the number of GPUs");
    return p;
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

ShardReport idle_report(const std::string& method, const std::string& exchange, DType type, int p) {
    return report_of(method, exchange, static_cast<Index>(size_of(type)), p);
}

ShardReport run(const std::string& method, const std::string& exchange, Index element_bytes, int p, cudaStream_t stream,
                const Program& program) {
    check(cudaStreamSynchronize(stream), "running what the call needs");
    ShardReport report = report_of(method, exchange, element_bytes, p);
    std::vector<double> seconds(static_cast<std::size_t>(p));
    distributed::nccl().run(p, [&](distributed::Communicator& rank) {
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
