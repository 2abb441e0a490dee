#include "core/distributed/decode.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/base/parallel.hpp"
#include "core/base/text.hpp"
#include "core/distributed/devices.hpp"
#include "core/distributed/mpi.hpp"
#include "core/distributed/registry.hpp"
#include "core/distributed/ring.hpp"
#include "core/distributed/threads.hpp"
#include "core/kit/check.hpp"

namespace causeway {

using namespace distributed;

const std::vector<std::string> decode_topologies = topologies().names();

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

// Where each shard begins, and the end. `whole`: what M is, in a message.
std::vector<Index> starts_of(const DecodeOptions& o, Index M, int p, const char* whole = " like k") {
    std::vector<Index> starts{0};
    if (o.sizes.empty()) {
        for (int r = 1; r <= p; ++r) starts.push_back(r * M / p);
        return starts;
    }
    if (static_cast<int>(o.sizes.size()) != p)
        fail("sizes: ", o.sizes.size(), " lengths, expected one for each of the ", p, " shards");
    for (const Index n : o.sizes) {
        if (n < 0) fail("sizes: ", n, ", expected lengths of 0 or more");
        starts.push_back(starts.back() + n);
    }
    if (starts.back() != M) fail("sizes: ", starts.back(), " keys together, expected ", M, whole);
    return starts;
}

struct Plan {
    bool is_tree;
    TreePlan tree;
    RingPlan ring;
};

Plan plan_of(bool is_tree, const DecodeOptions& o) {
    const Topology topology = topologies()[o.topology].topology;
    tree_algorithm(o.algorithm);
    if (o.per_node < 1) fail("per_node: ", o.per_node, ", expected 1 or more");
    return {is_tree, {o.algorithm, topology, o.per_node}, {o.overlap, o.home}};
}

template <class T, class E>
void run_worker(Communicator& comm, const Plan& plan, const Task<T, E>& task, const std::vector<Index>& starts) {
    if (plan.is_tree) tree(comm, task, plan.tree);
    else ring(comm, task, starts, plan.ring);
}

// element_bytes of keys, values and queries; sum_bytes of partial results and the buffers of collectives. gathers: the
// engine has an all-gather of its own.
DecodeReport report_of(const Plan& plan, const Sizes& z, const std::string& engine, int p, Index element_bytes,
                       Index sum_bytes, bool gathers = false) {
    DecodeReport report;
    report.method = plan.is_tree ? "tree" : "ring";
    report.engine = engine;
    report.shards = p;
    report.element_bytes = element_bytes;
    report.sum_bytes = sum_bytes;
    report.traffic.resize(static_cast<std::size_t>(p));
    report.memory.resize(static_cast<std::size_t>(p));
    if (plan.is_tree) {
        const TreeAlgorithm& algorithm = tree_algorithm(plan.tree.algorithm);
        report.algorithm = algorithm.name;
        const Index largest = z.rows() * (z.dv + algorithm.columns) * sum_bytes;
        report.topology = name_of(chosen(plan.tree.topology, largest, gathers));
    } else {
        report.algorithm = plan.ring.overlap ? "overlapped" : "one after the other";
        report.topology = "ring";
    }
    return report;
}

// What a rank was given, and how a message shows it.
struct Given {
    const char* name;
    std::int64_t value;
    std::string (*text)(std::int64_t) = [](std::int64_t x) { return std::to_string(x); };
};

std::string truth(std::int64_t x) { return x ? "true" : "false"; }

// Before any work every rank compares what it was given with what rank 0 was given; all fail alike.
void agree(Communicator& comm, const std::vector<Given>& mine) {
    const auto n = static_cast<Index>(mine.size());
    std::vector<std::int64_t> values, all(static_cast<std::size_t>(n * comm.size()));
    for (const Given& given : mine) values.push_back(given.value);
    all_gather(comm, all_ranks(comm), values.data(), n, all.data());
    for (int r = 1; r < comm.size(); ++r)
        for (Index i = 0; i < n; ++i)
            if (const auto got = all[static_cast<std::size_t>(r * n + i)], expected = all[static_cast<std::size_t>(i)];
                got != expected) {
                const Given& given = mine[static_cast<std::size_t>(i)];
                fail(given.name, " ", given.text(got), " on rank ", r, ", expected ", given.text(expected),
                     " like rank 0; every rank has to make the same call");
            }
}

enum class Call { ring, tree, link_speed };

// What ranks compare first, for other calls compare more and other things.
void agree_on_call(Communicator& comm, Call mine) {
    agree(comm, {{"call:", static_cast<std::int64_t>(mine), [](std::int64_t x) -> std::string {
                      return x == 0 ? "ring_decode" : x == 1 ? "tree_decode" : "link_speed";
                  }}});
}

// Of the bits of all values, by Fowler, Noll and Vo. O(n).
template <class T>
std::int64_t checksum(const T* x, Index n) {
    std::uint64_t sum = 0xcbf29ce484222325;
    for (Index i = 0; i < n; ++i)
        sum = (sum ^ std::bit_cast<std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>(x[i])) *
              0x100000001b3;
    return static_cast<std::int64_t>(sum);
}

// Of all keys, those of a rank.
template <class E>
void cut_out(Shard<E>& shard, const Sizes& z, const std::vector<Index>& starts, int rank) {
    const auto r = static_cast<std::size_t>(rank);
    shard.start = starts[r], shard.length = starts[r + 1] - starts[r];
    shard.k += starts[r] * z.dk, shard.v += starts[r] * z.dv;
}

template <class T>
void run_on_mpi(Communicator& comm, const Plan& plan, const T* q, Task<T> task, const DecodeOptions& o,
                DecodeReport& report) {
    Sizes& z = task.sizes;
    agree_on_call(comm, plan.is_tree ? Call::tree : Call::ring);
    const std::vector<Given> mine{
        {"q:", sizeof(T), [](std::int64_t x) -> std::string { return x == 4 ? "Float32" : "Float64"; }},
        {"q: batch", z.batch},
        {"q: heads", z.query_heads},
        {"k: heads", z.heads},
        {"q: length", z.N},
        {"k: length", z.M},
        {"q: width", z.dk},
        {"v: width", z.dv},
        {"scale:", std::bit_cast<std::int64_t>(z.scale),
         [](std::int64_t x) { return number_text(std::bit_cast<double>(x)); }},
        {"causal:", z.causal, truth},
        {"algorithm:", plan.tree.algorithm, [](std::int64_t x) { return x == 0 ? "none" : std::to_string(x); }},
        {"topology:", static_cast<std::int64_t>(plan.tree.topology),
         [](std::int64_t x) { return in_quotes(name_of(static_cast<Topology>(x))); }},
        {"per_node:", plan.tree.per_node},
        {"overlap:", plan.ring.overlap, truth},
        {"home:", plan.ring.home, truth},
        {"sizes: number of lengths", static_cast<std::int64_t>(o.sizes.size())}};
    agree(comm, mine);
    agree(comm, {{"q: values with the checksum", checksum(q, z.rows() * z.dk)}});
    std::vector<Given> lengths;
    for (const Index n : o.sizes) lengths.push_back({"sizes: a length of", n});
    agree(comm, lengths);
    const auto starts = starts_of(o, z.M, comm.size());
    cut_out(task.shard, z, starts, comm.rank());
    run_worker(comm, plan, task, starts);
    const double seconds = comm.now() - comm.begun;
    // Every rank's account, to all.
    const Traffic& t = comm.traffic;
    std::vector<std::int64_t> account{t.messages,
                                      t.elements,
                                      t.bytes,
                                      t.rounds,
                                      std::bit_cast<std::int64_t>(seconds),
                                      comm.memory.peak_total,
                                      comm.memory.peak_bytes};
    for (const Index held : comm.memory.peak) account.push_back(held);
    const auto n = static_cast<Index>(account.size());
    std::vector<std::int64_t> all(static_cast<std::size_t>(n * comm.size()));
    all_gather(comm, all_ranks(comm), account.data(), n, all.data());
    for (int i = 0; i < comm.size(); ++i) {
        const std::int64_t* x = all.data() + n * i;
        const auto at = static_cast<std::size_t>(i);
        report.traffic[at] = {x[0], x[1], x[2], x[3]};
        report.seconds = std::max(report.seconds, std::bit_cast<double>(x[4]));
        report.memory[at].peak_total = x[5], report.memory[at].peak_bytes = x[6];
        for (std::size_t kind = 0; kind < held_kinds; ++kind) report.memory[at].peak[kind] = x[7 + kind];
    }
}

// A rank that is a thread, and its account; the time it took. Every rank has the whole result; the caller gets that of
// rank 0.
template <class T, class E>
double run_in_process(Communicator& comm, const Plan& plan, Task<T, E> mine, const std::vector<Index>& starts,
                      DecodeReport& report) {
    const auto r = static_cast<std::size_t>(comm.rank());
    Buffer<T> unused;
    if (r > 0) {
        unused = Buffer<T>(mine.sizes.rows() * mine.sizes.dv);
        mine.out = unused.data(), mine.lse = nullptr;
    }
    run_worker(comm, plan, mine, starts);
    const double seconds = comm.now() - comm.begun;
    report.traffic[r] = comm.traffic;
    report.memory[r] = comm.memory;
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
    result.report.seconds = *std::max_element(seconds.begin(), seconds.end());
    return result;
}

// On one device a rank. The keys and values have the size of E, partial results are Float32.
template <class E>
DecodeResult compute_on_devices(const Tensor& q, const Tensor& k, const Tensor& v, const Sizes& z, const Shape& output,
                                const Plan& plan, const DecodeOptions& o) {
    DeviceEngine& engine = nccl();
    const int most = engine.devices();
    const int p = o.shards > 0      ? o.shards
                  : o.sizes.empty() ? most
                                    : static_cast<int>(std::min<std::size_t>(o.sizes.size(), 1024));
    if (o.shards < 0) fail("shards: ", o.shards, ", expected 1 or more");
    if (p > most) fail("shards: ", p, ", expected at most ", most, ", the number of GPUs, with engine \"nccl\"");
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
    result.report.seconds = *std::max_element(seconds.begin(), seconds.end());
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

int most_mpi_ranks() {
    start_mpi();
    if (mpi_size() < 2) fail("engine: \"mpi\" with one rank, expected two or more (mpirun -n 2 causeway ...)");
    return mpi_size();
}

int most_devices() {
    const int most = nccl().devices();
    if (most < 2) fail("engine: \"nccl\" with one GPU, expected two or more");
    return most;
}

// Where rank 0 has measured, all know it.
void measure_on_mpi(int ranks, Index bytes, const Program& program, Link& link) {
    run_mpi([&](Communicator& comm) {
        agree_on_call(comm, Call::link_speed);
        agree(comm, {{"ranks:", ranks}, {"bytes:", bytes}});
        program(comm);
        broadcast_binomial(comm, all_ranks(comm), &link.latency, 1);
        broadcast_binomial(comm, all_ranks(comm), &link.rate, 1);
    });
}

// What the ranks of a decode are, and how they are run.
struct Engine {
    std::string name;  // "threads"
    std::string ranks;
    bool host_memory;  // of messages: written once before a measurement, so that its pages are there
    DecodeResult (*decode)(const Tensor& q, const Tensor& k, const Tensor& v, const Sizes&, const Shape& output,
                           const Plan&, const DecodeOptions&);
    int (*most_ranks)();  // of a measurement; throws Error where there are not two
    void (*measure)(int ranks, Index bytes, const Program&, Link&);
};

const Registry<Engine>& engines() {
    static const Registry<Engine> list(
        "engine", {{"threads", "threads of this process", true, decode_on_cpu<false>, [] { return 1024; },
                    [](int ranks, Index, const Program& program, Link&) { run_threads(ranks, program); }},
                   {"mpi", "processes, started by mpirun", true, decode_on_cpu<true>, most_mpi_ranks, measure_on_mpi},
                   {"nccl", "GPUs", false, decode_on_nccl, most_devices,
                    [](int ranks, Index, const Program& program, Link&) { nccl().run(ranks, program); }}});
    return list;
}

DecodeResult decode(bool is_tree, const Tensor& q, const Tensor& k, const Tensor& v, const DecodeOptions& o) {
    const Sizes z = check(q, k, v, o);
    const Plan plan = plan_of(is_tree, o);
    Shape output = q.shape();
    output[output.ndim() - 1] = z.dv;
    DecodeResult result = engines()[o.engine].decode(q, k, v, z, output, plan, o);
    result.O = result.O.to(q.dtype());
    return result;
}

}  // namespace

const std::vector<std::string> decode_engines = engines().names();

Traffic DecodeReport::total() const {
    Traffic sum;
    for (const Traffic& t : traffic)
        sum = {sum.messages + t.messages, sum.elements + t.elements, sum.bytes + t.bytes,
               std::max(sum.rounds, t.rounds)};
    return sum;
}

const Memory& DecodeReport::largest() const {
    return *std::max_element(memory.begin(), memory.end(),
                             [](const Memory& a, const Memory& b) { return a.peak_bytes < b.peak_bytes; });
}

DecodeResult tree_decode(const Tensor& q, const Tensor& k, const Tensor& v, const DecodeOptions& o) {
    return decode(true, q, k, v, o);
}
DecodeResult ring_decode(const Tensor& q, const Tensor& k, const Tensor& v, const DecodeOptions& o) {
    return decode(false, q, k, v, o);
}

DecodeReport decode_model(const std::string& method, const Sizes& z, const Cluster& machine, const DecodeOptions& o) {
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
    DecodeReport report =
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
    return report;
}

Link measured_link(const std::string& engine, int ranks, Index bytes) {
    const Engine& way = engines()[engine];
    if (bytes < 1024 || bytes > Index{1} << 40) fail("bytes: ", bytes, ", expected from 1024 to 2^40");
    const int most = way.most_ranks();
    if (ranks < 2 || ranks > most) fail("ranks: ", ranks, ", expected from 2 to ", most);
    Link link;
    const Program program = [&](Communicator& comm) {
        const int me = comm.rank(), right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;
        Room<char> out(comm, Held::shard, bytes), in(comm, Held::incoming, bytes);
        comm.barrier();  // before any is filled, all ranks have their memory
        constexpr Index piece = Index{1} << 26;
        for (Index at = 0; at < bytes && way.host_memory; at += piece) {  // that of a device is there once it is taken
            interrupt::check();
            std::fill_n(out.data() + at, std::min(piece, bytes - at), 0);
        }
        // The least time of a message, of some tries of many: between two ranks to and fro, among more around the ring
        // at once.
        const auto one_way = [&](Index n, int tries, int together) {
            double least = 1e300;
            for (int i = 0; i < tries; ++i) {
                interrupt::check();
                comm.barrier();
                const double begun = comm.now();
                for (int s = 0; s < together && me < ranks; ++s) {
                    if (ranks > 2) {
                        comm.exchange(out.data(), n, right, in.data(), n, left);
                    } else if (s % 2 == me) {
                        comm.send(out.data(), n, right).wait();
                    } else {
                        comm.receive(in.data(), n, left).wait();
                    }
                }
                least = std::min(least, (comm.now() - begun) / together);  // rank 0 is the last to receive
                comm.barrier();
            }
            return least;
        };
        const double small = one_way(8, 20, 16), large = one_way(bytes, 5, 4);
        if (me == 0) link = {small, static_cast<double>(bytes) / std::max(large - small, 1e-9)};
    };
    way.measure(ranks, bytes, program, link);
    return link;
}

}  // namespace causeway
