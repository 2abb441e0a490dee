// Several GPUs: what a collective of 8 KB takes, and tree against ring decoding, over NCCL.
//
//   bench_nccl [p]     on p GPUs, else on all; decoding on one beside it
//
// 16 heads of width 128, one query. Partial results of a rank: [n, l, m] of every head, 16 · 130 Float32 = 8.3 KB; as
// three collectives the maximum and two sums, 16, 16 and 2048 Float32. Times are those of the slowest rank.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "core/distributed/ring.hpp"
#include "gpu/base/buffer.hpp"
#include "gpu/base/device.hpp"
#include "gpu/engine/worker.hpp"
#include "gpu/tensor/random.hpp"

using namespace causeway;
using namespace causeway::gpu;
using namespace causeway::distributed;

namespace {

constexpr int heads = 16, width = 128;

struct Times {
    double median, best, first;  // seconds
};

// `once` on every rank, some times; it returns the seconds of its rank. The first three are not of the median.
Times time(Team& team, int tries, const std::function<std::function<double()>(NcclCommunicator&)>& prepare) {
    std::vector<std::vector<double>> all(static_cast<std::size_t>(team.size()));
    team.run([&](Communicator& comm) {
        const auto once = prepare(dynamic_cast<NcclCommunicator&>(comm));
        for (int i = 0; i < tries + 3; ++i) all[static_cast<std::size_t>(comm.rank())].push_back(once());
        comm.barrier();
    });
    std::vector<double> slowest = all[0];
    for (const auto& mine : all)
        for (std::size_t i = 0; i < slowest.size(); ++i) slowest[i] = std::max(slowest[i], mine[i]);
    const double first = slowest[0];
    slowest.erase(slowest.begin(), slowest.begin() + 3);
    std::sort(slowest.begin(), slowest.end());
    return {slowest[slowest.size() / 2], slowest[0], first};
}

enum class Form { gather, three, sums };

// A message of 256 MB to the next rank around the ring, with all ranks sending.
void messages(Team& team) {
    static constexpr Index n = Index{1} << 28;
    const auto prepare = [](Index bytes) {
        return [=](NcclCommunicator& comm) -> std::function<double()> {
            const auto out = std::make_shared<Room<char>>(comm, Held::shard, n),
                       in = std::make_shared<Room<char>>(comm, Held::incoming, n);
            return [&comm, out, in, bytes] {
                const int p = comm.size(), me = comm.rank();
                comm.begin();
                comm.exchange(out->data(), bytes, (me + 1) % p, in->data(), bytes, (me + p - 1) % p);
                return comm.now() - comm.begun;
            };
        };
    };
    const Times little = time(team, 200, prepare(8)), much = time(team, 20, prepare(n));
    const auto rate = [](double seconds) { return static_cast<double>(n) / seconds * 1e-9; };
    std::printf(
        "\n%d GPUs: to the next around the ring, all at once: 8 bytes %.1f µs, best %.1f; 268 MB %.0f GB/s each way, "
        "best %.0f\n",
        team.size(), little.median * 1e6, little.best * 1e6, rate(much.median), rate(much.best));
}

void collectives(Team& team) {
    const int p = team.size();
    std::printf("\n%d GPUs, µs          each waited for: median  best    a hundred in a row, one:  median  best\n", p);
    for (const bool shared : {false, true}) {
        for (const Form form : {Form::gather, Form::three, Form::sums}) {
            const auto prepare = [&](int row) {
                return [=](NcclCommunicator& comm) -> std::function<double()> {
                    constexpr std::size_t packed = heads * (width + 2);
                    const Held where = shared ? Held::work : Held::shard;
                    const auto from = comm.allocate(where, packed * 4),
                               to = comm.allocate(where, packed * 4 * static_cast<std::size_t>(p));
                    check(cudaMemset(from.get(), 0, packed * 4), "clearing");
                    return [&comm, from, to, form, row] {
                        const cudaStream_t stream = *comm.mine().messages;
                        ncclComm_t c = comm.mine().comm;
                        auto *x = static_cast<float*>(from.get()), *y = static_cast<float*>(to.get());
                        const auto reduce = [&](std::size_t n, ncclRedOp_t op, bool last) {
                            check(gpu::nccl().all_reduce(x, y, n, ncclFloat, op, c, stream), "reducing");
                            if (row == 1 && !last) comm.wait_for(stream);  // its result is needed before what follows
                        };
                        comm.begin();
                        for (int i = 0; i < row; ++i) {
                            if (form == Form::gather)
                                check(gpu::nccl().all_gather(x, y, packed, ncclFloat, c, stream), "gathering");
                            if (form == Form::three) reduce(heads, ncclMax, false);
                            if (form != Form::gather)
                                reduce(heads, ncclSum, true), reduce(heads * width, ncclSum, true);
                        }
                        comm.wait_for(stream);
                        return (comm.now() - comm.begun) / row;
                    };
                };
            };
            const Times alone = time(team, 200, prepare(1)), chain = time(team, 20, prepare(100));
            const char* name = form == Form::gather  ? "one all-gather of [n, l, m]"
                               : form == Form::three ? "a maximum, then two sums"
                                                     : "two sums";
            std::printf("  %-28s %-14s %8.1f %7.1f %30.1f %7.1f\n", name, shared ? "shared memory" : "GPU's memory",
                        alone.median * 1e6, alone.best * 1e6, chain.median * 1e6, chain.best * 1e6);
        }
    }
}

struct Method {
    const char* name;
    bool is_tree;
    TreePlan tree;
    RingPlan ring;
};

using E = std::uint16_t;

// The same keys and values for every p: each GPU makes all, and takes its share.
void decoding(Team& team, Index M, std::vector<float>& reference) {
    const int p = team.size();
    Sizes z;
    z.query_heads = z.heads = heads, z.dk = z.dv = width, z.M = M, z.scale = 1 / std::sqrt(static_cast<double>(width));
    const double bytes = 2.0 * 2 * heads * width * static_cast<double>(M) / p;
    const std::vector<Method> methods{{"tree, packed: all-gather", true, {0, Topology::automatic, 8}, {}},
                                      {"tree, packed: doubling", true, {0, Topology::recursive_doubling, 8}, {}},
                                      {"tree, algorithm 3: all-gathers", true, {3, Topology::automatic, 8}, {}},
                                      {"tree, algorithm 3: doubling", true, {3, Topology::recursive_doubling, 8}, {}},
                                      {"ring, overlapped", false, {}, {true, false}},
                                      {"ring, one after the other", false, {}, {false, false}}};
    for (const Method& method : methods) {
        if (p == 1 && &method != methods.data()) continue;
        std::vector<float> result(heads * width);
        const Times t = time(team, method.is_tree ? 40 : 10, [&](NcclCommunicator& comm) -> std::function<double()> {
            std::vector<Index> starts;
            for (int r = 0; r <= p; ++r) starts.push_back(r * M / p);
            const Stream& stream = *comm.mine().kernels;
            const auto n = static_cast<std::size_t>(heads * M * width);
            const gpu::Buffer q(heads * width * 2), k(n * 2), v(n * 2);
            fill_normal(q.data(), Type::BFloat16, heads * width, 1, 1.0, stream);
            fill_normal(k.data(), Type::BFloat16, n, 2, 1.0, stream);
            fill_normal(v.data(), Type::BFloat16, n, 3, 1.0, stream);
            stream.wait();
            const auto r = static_cast<std::size_t>(comm.rank());
            const Index first = starts[r] * width;
            const Shard<E> all{k.as<E>() + first, v.as<E>() + first, M * width,
                               M * width,         starts[r],         starts[r + 1] - starts[r]};
            const Share<E> share{z, DType::bf16, q.as<E>(), all};
            const std::shared_ptr<OnDevice<E>> worker = flash_worker(comm.mine(), Type::BFloat16, share);
            // The block stays with the worker; all keys and values do not.
            const Shard<E> mine = worker->take();
            const auto out = std::make_shared<std::vector<float>>(heads * width);
            return [&comm, &method, &result, z, worker, mine, starts, out] {
                const Task<float, E> task{z, worker.get(), mine, out->data(), nullptr};
                if (method.is_tree) tree(comm, task, method.tree);
                else ring(comm, task, starts, method.ring);
                const double seconds = comm.now() - comm.begun;
                if (comm.rank() == 0) result = *out;
                return seconds;
            };
        });
        if (reference.empty()) reference = result;
        double error = 0, norm = 0;
        for (std::size_t i = 0; i < result.size(); ++i)
            error += std::pow(result[i] - reference[i], 2), norm += reference[i] * reference[i];
        std::printf(
            "  %7td keys, %d GPU%s  %-32s %9.1f µs, best %9.1f, first %9.1f   reading the shard at 4.6 TB/s %7.1f   "
            "off one GPU's %.1e\n",
            M, p, p > 1 ? "s" : " ", method.name, t.median * 1e6, t.best * 1e6, t.first * 1e6, bytes / 4.6e12 * 1e6,
            std::sqrt(error / norm));
        std::fflush(stdout);
    }
}

}  // namespace

int main(int argc, char** argv) try {
    std::string why;
    if (!device_available(&why)) {
        std::printf("no GPU: %s\n", why.c_str());
        return 0;
    }
    int count = 0, version = 0;
    check(cudaGetDeviceCount(&count), "counting the GPUs");
    check(gpu::nccl().version(&version), "asking for the version");
    const int p = argc > 1 ? std::atoi(argv[1]) : count;
    if (p < 1 || p > count) {
        std::printf("p: %d, expected from 1 to %d, the number of GPUs\n", p, count);
        return 1;
    }
    std::printf("%d × %s, NCCL %d.%d.%d\n", count, device().name.c_str(), version / 10000, version / 100 % 100,
                version % 100);
    std::vector<float> short_cache, long_cache;
    {
        Team one(1);
        decoding(one, 80000, short_cache);
        decoding(one, 640000, long_cache);
    }
    if (p == 1) return 0;
    Team team(p);
    collectives(team);
    messages(team);
    std::printf("\n");
    decoding(team, 80000, short_cache);
    decoding(team, 640000, long_cache);
} catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
