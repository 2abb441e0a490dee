#include "core/sharded/run.hpp"

#include <algorithm>

#include "core/base/parallel.hpp"
#include "core/distributed/threads.hpp"
#include "core/kit/check.hpp"
#include "core/sharded/exchange.hpp"

namespace causeway {

std::vector<std::string> calls::sharding_engines() { return {"threads", "mpi", "nccl"}; }

namespace sharded {

namespace {

std::string engine_of(const Sharding& o) {
    return !o.engine.empty() ? o.engine : distributed::mpi_size() > 1 ? "mpi" : "threads";
}

}  // namespace

bool on_mpi(const Sharding& o) {
    // With "nccl" the tensors of other ranks may be where they should be.
    return engine_of(o) == "mpi" || (distributed::mpi_size() > 1 && engine_of(o) != "threads");
}

Team team_of(const Sharding& o) {
    if (o.shards < 0 || o.shards > calls::max_sequence_shards)
        fail("shards: ", o.shards, ", expected from 1 to ", calls::max_sequence_shards);
    if (o.sizes.size() > static_cast<std::size_t>(calls::max_sequence_shards))
        fail("sizes: ", o.sizes.size(), " lengths, expected at most ", calls::max_sequence_shards);
    Team team;
    team.timeout = std::make_shared<const distributed::MpiTimeout>(o.timeout);
    const std::string engine = engine_of(o);
    team.mpi = kit::check_choice("engine", engine, calls::sharding_engines()) == 1;
    if (engine == "nccl")
        fail("engine: \"nccl\", but the tensors are on the CPU, expected them on the GPU (move them with :gpu())");
    team.parts = o.sharded;
    const bool alone = distributed::mpi_size() == 1 && o.shards <= 1;  // whose part is the whole
    if (team.parts && !team.mpi && !alone)
        fail("sharded: true, but the engine is \"threads\", expected \"mpi\": threads share the whole tensors");
    if (team.parts && !o.sizes.empty())
        fail("sizes: given with sharded = true, expected none: every rank's part is as long as its tensors");
    if (team.mpi) {
        distributed::start_mpi();
        team.ranks = distributed::mpi_size();
        if (o.shards != 0 && o.shards != team.ranks)
            fail("shards: ", o.shards, ", expected ", team.ranks, ", the number of MPI ranks, or none");
    } else {
        team.ranks = team.parts        ? 1
                     : o.shards > 0    ? o.shards
                     : o.sizes.empty() ? threads()
                                       : static_cast<int>(o.sizes.size());
    }
    return team;
}

ShardReport report_of(const Team& team, const std::string& method, const std::string& exchange, DType compute) {
    ShardReport report;
    report.method = method;
    report.engine = team.mpi ? "mpi" : "threads";
    report.algorithm = exchange;
    report.element_bytes = report.sum_bytes = static_cast<Index>(size_of(compute));
    report.of_ranks(team.ranks);
    return report;
}

void run(const Team& team, const distributed::Program& program, const distributed::Program& share,
         ShardReport& report) {
    if (team.mpi) {
        distributed::run_mpi([&](Communicator& comm) {
            program(comm);
            distributed::gather_accounts(comm, comm, comm.now() - comm.begun, report);
            if (comm.size() > 1) share(comm);
        });
        return;
    }
    std::vector<double> seconds(static_cast<std::size_t>(team.ranks));
    distributed::run_threads(team.ranks, [&](Communicator& comm) {
        const Serially serially;
        program(comm);
        seconds[static_cast<std::size_t>(comm.rank())] = comm.now() - comm.begun;
        report.take(comm);
    });
    report.slowest(seconds);
}

Starts starts_of(Communicator& comm, const Team& team, const Sharding& o, Index N, Index unit) {
    if (!team.parts) return starts_of(o, N, comm.size(), unit);
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(comm.size()));
    const std::int64_t mine = N;
    all_gather(comm, all_ranks(comm), &mine, 1, lengths.data());
    Starts starts{0};
    for (const std::int64_t n : lengths) starts.push_back(starts.back() + n);
    return starts;
}

Threads threads_of(Communicator& comm) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(comm.size()));
    const std::int64_t mine = threads();
    all_gather(comm, all_ranks(comm), &mine, 1, all.data());
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    return {static_cast<int>(*least), static_cast<int>(*most)};
}

void agree_on_call(Communicator& comm, bool parts, distributed::Call call, const std::vector<Index>& cu_seqlens) {
    distributed::agree_on_call(comm, call);
    distributed::agree(comm, {{"sharded:", parts, distributed::truth},
                              {"cu_seqlens: number of offsets", static_cast<std::int64_t>(cu_seqlens.size())}});
}

std::vector<Index> own_offsets(Communicator& comm, distributed::Call call, const std::vector<Index>& cu_seqlens,
                               Index N) {
    agree_on_call(comm, true, call, cu_seqlens);
    agree(comm, given_offsets(cu_seqlens));
    Team team;
    team.parts = true;
    const Starts starts = starts_of(comm, team, {}, N, 1);
    kit::packed_spans(cu_seqlens, 1, starts.back());
    const Index first = starts[static_cast<std::size_t>(comm.rank())];
    std::vector<Index> own;
    for (const Index offset : cu_seqlens) own.push_back(std::clamp<Index>(offset - first, 0, N));
    return own;
}

Given given_exchange(const std::string& name) {
    return {"exchange:", &exchanges()[name] - &*exchanges().begin(),
            [](std::int64_t x) { return in_quotes((&*exchanges().begin() + x)->name); }};
}

std::vector<Given> sampled(const Named& tensors) {
    std::vector<Given> out;
    for (const auto& [name, tensor] : tensors)
        out.push_back(
            {name, distributed::sampled_checksum<double>(tensor->size(), [t = tensor](Index i) { return t->get(i); })});
    return out;
}

namespace {

std::vector<Given> given_as(const char* name, const std::vector<Index>& values) {
    std::vector<Given> out;
    for (const Index value : values) out.push_back({name, value});
    return out;
}

}  // namespace

std::vector<Given> given_offsets(const std::vector<Index>& cu_seqlens) {
    return given_as("cu_seqlens: an offset of", cu_seqlens);
}
std::vector<Given> given_sizes(const std::vector<Index>& sizes) { return given_as("sizes: a length of", sizes); }

template <class T>
void gather_shares(Communicator& comm, const Shares& shares, T* x, Index rows, Index N, Index width) {
    const int p = comm.size(), me = comm.rank();
    const auto tokens = [&](int r) { return length_of(shares[static_cast<std::size_t>(r)]); };
    Index most = 0;
    for (int r = 0; r < p; ++r) most = std::max(most, tokens(r));
    Buffer<T> here(rows * most * width), there(rows * most * width);
    const auto copy = [&](int owner, T* block, bool out) {
        for (const kit::Span& t : shares[static_cast<std::size_t>(owner)])
            for (Index i = 0; i < rows; ++i, block += t.n * width) {
                T* const place = x + (i * N + t.first) * width;
                if (out) std::copy_n(block, t.n * width, place);
                else std::copy_n(place, t.n * width, block);
            }
    };
    T *held = here.data(), *next = there.data();
    copy(me, held, false);
    for (int s = 0; s + 1 < p; ++s, std::swap(held, next)) {
        const int owner = (me + p - s) % p, following = (me + 2 * p - s - 1) % p;
        comm.exchange(held, rows * tokens(owner) * width, (me + 1) % p, next, rows * tokens(following) * width,
                      (me + p - 1) % p);
        copy(following, next, true);
    }
}

template <class T>
void gather_owned(Communicator& comm, const std::vector<int>& owners, T* x, Index size) {
    const auto n = static_cast<Index>(owners.size());
    Buffer<T> all(n * size * comm.size());
    all_gather(comm, all_ranks(comm), x, n * size, all.data());
    for (Index i = 0; i < n; ++i)
        std::copy_n(all.data() + (owners[static_cast<std::size_t>(i)] * n + i) * size, size, x + i * size);
}

template void gather_shares<float>(Communicator&, const Shares&, float*, Index, Index, Index);
template void gather_shares<unsigned char>(Communicator&, const Shares&, unsigned char*, Index, Index, Index);
template void gather_shares<double>(Communicator&, const Shares&, double*, Index, Index, Index);
template void gather_owned<float>(Communicator&, const std::vector<int>&, float*, Index);
template void gather_owned<double>(Communicator&, const std::vector<int>&, double*, Index);

}  // namespace sharded
}  // namespace causeway
