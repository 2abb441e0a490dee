#include "core/distributed/decode.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/parallel.hpp"
#include "core/base/text.hpp"
#include "core/distributed/decode_mpi.hpp"
#include "core/distributed/devices.hpp"
#include "core/distributed/engines.hpp"
#include "core/distributed/mpi.hpp"
#include "core/distributed/plan.hpp"
#include "core/distributed/registry.hpp"
#include "core/distributed/threads.hpp"
#include "core/kit/check.hpp"

namespace causeway {

using namespace distributed;
using namespace kit;

namespace {

Sizes check(const Tensor& q, const Tensor& k, const Tensor& v, const DecodeOptions& o) {
    const AttentionSizes n = check_attention(q, k, v, false);
    const Sizes z{n.batch,
                  n.heads * n.group,
                  n.heads,
                  n.N,
                  n.M,
                  n.d,
                  n.dv,
                  o.causal,
                  o.scale.value_or(n.d > 0 ? 1 / std::sqrt(static_cast<double>(n.d)) : 1)};
    check_scale(z.scale, q.dtype());
    return z;
}

void check_lengths(const Sizes& z) {
    if (z.M < 1) fail("k: length 0, expected at least one key");
    if (z.causal && z.N > z.M)
        fail("q: length ", z.N, ", expected at most ", z.M, ", the length of k, with causal = true");
}

// A rank that is a thread, and its account; the time it took. Every rank has the whole result; the caller gets that of
// rank 0.
template <class T, class E>
double run_in_process(Communicator& comm, const Plan& plan, Task<T, E> mine, const std::vector<Index>& starts,
                      ShardReport& report) {
    Buffer<T> unused;
    if (comm.rank() > 0) {
        unused = Buffer<T>(mine.sizes.rows() * mine.sizes.dv);
        mine.out = unused.data(), mine.lse = nullptr;
    }
    run_worker(comm, plan, mine, starts);
    const double seconds = comm.now() - comm.begun;
    report.take(comm);
    return seconds;
}

template <class T>
DecodeResult compute(const Tensor& q, const Tensor& k, const Tensor& v, const Sizes& z, const Shape& output,
                     const Plan& plan, const DecodeOptions& o, bool mpi) {
    DecodeResult result{Tensor(dtype_of<T>, output), Tensor(dtype_of<T>, {z.batch, z.query_heads, z.N}), {}};
    OnCpu<T> local(q.data<T>());
    Task<T> task{z,
                 &local,
                 {k.data<T>(), v.data<T>(), z.M * z.dk, z.M * z.dv, 0, z.M},
                 result.O.data<T>(),
                 result.lse.data<T>()};
    const auto element = static_cast<Index>(sizeof(T));
    if (mpi) {
        start_mpi();
        const int p = mpi_size();
        if (o.shards != 0 && o.shards != p)
            fail("shards: ", o.shards, ", expected ", p, ", the number of MPI ranks, or none");
        check_lengths(z);
        result.report = report_of(plan, z, "mpi", p, element, element);
        run_mpi([&](Communicator& comm) { run_on_mpi(comm, plan, q.data<T>(), task, o, result.report); });
        return result;
    }
    if (o.shards < 0 || o.shards > 1024) fail("shards: ", o.shards, ", expected from 1 to 1024");
    if (o.sizes.size() > 1024) fail("sizes: ", o.sizes.size(), " lengths, expected at most 1024");
    check_lengths(z);
    const int p = o.shards > 0 ? o.shards : o.sizes.empty() ? threads() : static_cast<int>(o.sizes.size());
    const auto starts = starts_of(o, z.M, p);
    result.report = report_of(plan, z, "threads", p, element, element);
    std::vector<double> seconds(static_cast<std::size_t>(p));
    run_threads(p, [&](Communicator& comm) {
        Task<T> mine = task;
        cut_out(mine.shard, z, starts, comm.rank());
        seconds[static_cast<std::size_t>(comm.rank())] = run_in_process(comm, plan, mine, starts, result.report);
    });
    result.report.slowest(seconds);
    return result;
}

// On one device a rank. The keys and values have the size of E, partial results are Float32.
template <class E>
DecodeResult compute_on_devices(const Tensor& q, const Tensor& k, const Tensor& v, const Sizes& z, const Shape& output,
                                const Plan& plan, const DecodeOptions& o) {
    DeviceEngine& engine = nccl();
    const int devices = engine.devices();
    const int p = o.shards > 0      ? o.shards
                  : o.sizes.empty() ? devices
                                    : static_cast<int>(std::min<std::size_t>(o.sizes.size(), 1024));
    if (o.shards < 0) fail("shards: ", o.shards, ", expected 1 or more");
    if (p > devices) fail("shards: ", p, ", expected at most ", devices, ", the number of GPUs, with engine \"nccl\"");
    check_lengths(z);
    engine.check_sizes(z);
    const auto starts = starts_of(o, z.M, p);
    DecodeResult result{Tensor(DType::f32, output), Tensor(DType::f32, {z.batch, z.query_heads, z.N}),
                        report_of(plan, z, "nccl", p, sizeof(E), sizeof(float), true)};
    std::vector<double> seconds(static_cast<std::size_t>(p));
    engine.run(p, [&](Communicator& comm) {
        Share<E> share{z, q.dtype(), q.data<E>(), {k.data<E>(), v.data<E>(), z.M * z.dk, z.M * z.dv, 0, z.M}};
        cut_out(share.shard, z, starts, comm.rank());
        const auto worker = engine.worker(comm, share);
        const bool travels = !plan.is_tree && p > 1;  // the worker packs it into a block
        const Task<float, E> task{z, worker.get(), travels ? share.shard : worker->take(), result.O.data<float>(),
                                  result.lse.data<float>()};
        seconds[static_cast<std::size_t>(comm.rank())] = run_in_process(comm, plan, task, starts, result.report);
    });
    result.report.slowest(seconds);
    return result;
}

// A checked call on the CPU: Float64 as it is, everything else in Float32.
template <bool mpi>
DecodeResult decode_on_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Sizes& z, const Shape& output,
                           const Plan& plan, const DecodeOptions& o) {
    if (q.dtype() == DType::f64) return compute<double>(q, k, v, z, output, plan, o, mpi);
    return compute<float>(q.to(DType::f32), k.to(DType::f32), v.to(DType::f32), z, output, plan, o, mpi);
}

DecodeResult decode_on_nccl(const Tensor& q, const Tensor& k, const Tensor& v, const Sizes& z, const Shape& output,
                            const Plan& plan, const DecodeOptions& o) {
    nccl().devices();  // whether it can run at all comes first
    if (q.dtype() == DType::f64) fail("q: Float64, expected Float32, BFloat16 or Float16 with engine \"nccl\"");
    if (q.dtype() == DType::f32) return compute_on_devices<float>(q, k, v, z, output, plan, o);
    return compute_on_devices<std::uint16_t>(q, k, v, z, output, plan, o);
}

}  // namespace

const Registry<Engine>& distributed::engines() {
    static const auto& list = *new Registry<Engine>(
        "engine", {{"threads", "threads of this process", true, decode_on_cpu<false>, [] { return 1024; },
                    [](int ranks, Index, const Program& program, Link&) { run_threads(ranks, program); }},
                   {"mpi", "processes, started by mpirun", true, decode_on_cpu<true>, max_mpi_ranks, measure_on_mpi},
                   {"nccl", "GPUs", false, decode_on_nccl, max_devices,
                    [](int ranks, Index, const Program& program, Link&) { nccl().run(ranks, program); }}});
    return list;
}

namespace {

DecodeResult decode(bool is_tree, const Tensor& q, const Tensor& k, const Tensor& v, const DecodeOptions& o) {
    return shared_call(o.engine == "mpi", [&] {
        const Sizes z = check(q, k, v, o);
        const Plan plan = plan_of(is_tree, o);
        const MpiTimeout timeout(o.timeout);
        Shape output = q.shape();
        output[output.ndim() - 1] = z.dv;
        DecodeResult result = engines()[o.engine].decode(q, k, v, z, output, plan, o);
        result.O = result.O.to(q.dtype());
        return result;
    });
}

}  // namespace

std::vector<std::string> calls::decode_engine_names() { return engines().names(); }

DecodeResult tree_decode(const Tensor& q, const Tensor& k, const Tensor& v, const DecodeOptions& o) {
    return decode(true, q, k, v, o);
}
DecodeResult ring_decode(const Tensor& q, const Tensor& k, const Tensor& v, const DecodeOptions& o) {
    return decode(false, q, k, v, o);
}

ShardReport decode_model(const std::string& method, const Sizes& z, const Cluster& machine, const DecodeOptions& o) {
    if (method != "tree" && method != "ring") fail("method: ", in_quotes(method), ", expected \"tree\" or \"ring\"");
    DecodeOptions options = o;
    options.per_node = machine.per_node;
    const Plan plan = plan_of(method == "tree", options);
    if (o.sizes.size() > 4096) fail("sizes: ", o.sizes.size(), " lengths, expected at most 4096");
    const int p = o.shards > 0 ? o.shards : static_cast<int>(std::max<std::size_t>(1, o.sizes.size()));
    if (z.M < 1) fail("length: ", z.M, ", expected 1 or more");
    if (z.causal && z.N > z.M) fail("queries: ", z.N, ", expected at most ", z.M, ", the length, with causal = true");
    // Whatever is counted must fit: a rank moves at most all keys and values, or some dozens of partial results.
    const double heads = static_cast<double>(z.batch) * static_cast<double>(z.query_heads),
                 width = static_cast<double>(z.dk) + static_cast<double>(z.dv) + 2;
    const double bytes = heads * (static_cast<double>(z.M) + 64 * static_cast<double>(z.N)) * width * p *
                         static_cast<double>(machine.element_bytes);
    if (bytes > 0x1p62)
        fail("length, queries, heads, batch, dim, shards, element_bytes: up to ", bytes,
             " bytes sent, expected less than 2^62");
    const auto starts = starts_of(o, z.M, p, ", the length");
    ShardReport report =
        report_of(plan, z, machine.name, p, static_cast<Index>(sizeof(float)), static_cast<Index>(sizeof(float)));
    report.element_bytes = report.sum_bytes = machine.element_bytes;
    const Simulated run = run_simulated(machine, p, true, [&](Communicator& comm) {
        const auto r = static_cast<std::size_t>(comm.rank());
        run_worker(
            comm, plan,
            Task<float>{z, nullptr, {nullptr, nullptr, 0, 0, starts[r], starts[r + 1] - starts[r]}, nullptr, nullptr},
            starts);
    });
    report.seconds = run.seconds;
    report.traffic = run.traffic;
    report.memory = run.memory;
    report.waited = run.waited;
    report.communication = *std::max_element(run.waited.begin(), run.waited.end());
    return report;
}

}  // namespace causeway
