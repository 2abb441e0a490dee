// Ranks that share a sequence: threads of this process, or processes under mpirun.
#pragma once

#include <bit>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/text.hpp"
#include "core/distributed/agree.hpp"
#include "core/distributed/mpi.hpp"
#include "core/distributed/report.hpp"
#include "core/sharded/exchange.hpp"
#include "core/sharded/split.hpp"

namespace causeway::sharded {

using distributed::Communicator;
using distributed::Given;

// Who computes a call, and on how many ranks.
struct Team {
    bool mpi = false;
    int ranks = 1;
    bool parts = false;  // every rank has its own part of the tensors, and not the whole ones
    std::shared_ptr<const distributed::MpiTimeout> timeout{};  // that of the call, while the team lives
};

// Whether processes share the call.
bool on_mpi(const Sharding& o);

// Checks the options, and starts MPI where it is asked for. Throws Error naming the option.
Team team_of(const Sharding& o);

// A report without its numbers; `elements` of the type that is computed in.
ShardReport report_of(const Team& team, const std::string& method, const std::string& exchange, DType compute);

// Runs `program` on every rank of this process and takes the account of all; a rank that is a thread computes on that
// thread alone. `share` runs afterwards, where ranks share no memory: what it sends is not in the report.
void run(const Team& team, const distributed::Program& program, const distributed::Program& share, ShardReport& report);

// Where the parts begin: of whole tensors by the options, else one part after the other as the ranks have them.
Starts starts_of(Communicator& comm, const Team& team, const Sharding& o, Index N, Index unit);

// What ranks compare first: the call, whether they make it on parts, which say less and other things of themselves, and
// how many offsets of packed sequences it has.
void agree_on_call(Communicator& comm, bool parts, distributed::Call call, const std::vector<Index>& cu_seqlens);

// Of a call on parts, the offsets of packed sequences in the rank's own N tokens: those of all tokens, which every rank
// is given, less what is on other ranks. A sequence of which it has nothing has no tokens then. Throws Error on all
// ranks where they do not make the same call, or the offsets are not those of all tokens.
std::vector<Index> own_offsets(Communicator& comm, distributed::Call call, const std::vector<Index>& cu_seqlens,
                               Index N);

// The threads of the rank that has the fewest, and of the one that has the most.
struct Threads {
    int least = 1, most = 1;
};
Threads threads_of(Communicator& comm);

// The options of a call for the tensors that the rank has, queries and keys of as many tokens: where they are parts
// that ranks which `meet` put together, with its own offsets. Where the tokens are not as many the call's own checks
// say so.
template <class Options, class T, class Meet>
Options own_options(bool parts, Meet&& meet, distributed::Call call, const Options& o, const T& q, const T& k) {
    Options own = o;
    const auto tokens = [](const T& x) { return x.ndim() > 1 ? x.shape()[x.ndim() - 2] : 0; };
    if (parts && !o.cu_seqlens.empty() && tokens(q) == tokens(k))
        meet([&](Communicator& comm) { own.cu_seqlens = own_offsets(comm, call, o.cu_seqlens, tokens(k)); });
    return own;
}
template <class Options>
Options own_options(const Team& team, distributed::Call call, const Options& o, const Tensor& q, const Tensor& k) {
    return own_options(team.parts && team.mpi, distributed::run_mpi, call, o, q, k);
}

// The exchange of states that a call has, chosen_exchange's, by the least threads of any rank: ranks that have others
// take the same one; and the most threads, where ranks compute as many states at once as they have threads.
// agree_on(comm, exchange): what ranks compare beside which call it is. Throws Error.
struct Agreed {
    std::string exchange;
    int most_together = 1;
};
template <class Agree>
Agreed agreed_exchange(const Team& team, const Sharding& sharding, bool same_bits, Index states, distributed::Call call,
                       const std::vector<Index>& cu_seqlens, Agree&& agree_on) {
    const auto chosen = [&](int together) {
        return chosen_exchange(sharding.exchange, same_bits, states, team.ranks, together);
    };
    Agreed agreed{chosen(1), 1};
    if (team.mpi)
        distributed::run_mpi([&](Communicator& comm) {
            agree_on_call(comm, team.parts, call, cu_seqlens);
            const Threads threads = threads_of(comm);
            agreed = {chosen(threads.least), threads.most};
            agree_on(comm, agreed.exchange);
        });
    return agreed;
}

// A type and a number as what ranks compare.
inline Given given_type(const char* name, DType type) {
    return {name, static_cast<std::int64_t>(type),
            [](std::int64_t x) -> std::string { return causeway::name(static_cast<DType>(x)); }};
}
inline Given given_number(const char* name, double x) {
    return {name, std::bit_cast<std::int64_t>(x),
            [](std::int64_t bits) { return number_text(std::bit_cast<double>(bits)); }};
}

// The exchange of a call, by its place in the registry.
Given given_exchange(const std::string& name);

// The values of tensors that every rank should have alike, as what ranks compare: of up to 256 elements of each.
using Named = std::vector<std::pair<const char*, const Tensor*>>;
std::vector<Given> sampled(const Named& tensors);

// The offsets of packed sequences, as what ranks compare.
std::vector<Given> given_offsets(const std::vector<Index>& cu_seqlens);
// The same of the lengths of parts.
std::vector<Given> given_sizes(const std::vector<Index>& sizes);

// Rows [rows, N, width] of which every rank has made its tokens: each gets the others'. p - 1 rounds.
template <class T>
void gather_shares(Communicator& comm, const Shares& shares, T* x, Index rows, Index N, Index width);
template <class T>
void gather_parts(Communicator& comm, const Starts& starts, T* x, Index rows, Index width) {
    gather_shares(comm, shares_of(starts), x, rows, starts.back(), width);
}

// Of n entries of `size` elements each gets those of its owner's.
template <class T>
void gather_owned(Communicator& comm, const std::vector<int>& owners, T* x, Index size);

}  // namespace causeway::sharded
