// One call on several GPUs, those of this process or one of every process under mpirun: the ranks, and how their parts
// of the caller's tensors get to them and back.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/calls/sharding.hpp"
#include "core/distributed/agree.hpp"
#include "core/distributed/mpi.hpp"
#include "core/distributed/report.hpp"
#include "core/sharded/run.hpp"
#include "core/sharded/split.hpp"
#include "gpu/distributed/queue.hpp"
#include "gpu/tensor/tensor.hpp"

namespace causeway::gpu::sharded {

using causeway::sharded::Starts;
using distributed::Held;

// The ranks of a call: threads that share the caller's tensors, or processes, each with the whole tensors or, as
// `parts`, with its own tokens of them.
struct Workers {
    int p = 1;
    bool processes = false, parts = false;
    std::shared_ptr<const distributed::MpiTimeout> timeout{};  // of the call, while this lives

    // The rank's tokens, as places of the tensors that it has.
    kit::Span tokens(const Starts& starts, int rank) const {
        const auto r = static_cast<std::size_t>(rank);
        return {parts ? 0 : starts[r], starts[r + 1] - starts[r]};
    }
    // Whether what one rank makes of whole tensors is to get to the others.
    bool share() const { return processes && !parts && p > 1; }
};
// Throws Error naming the option.
Workers workers_of(const Sharding& o);

// Runs `program` on this process's rank of all, for messages of the CPU alone; ends where another one has given up a
// call.
void meet(const distributed::Program& program);

// Processes compare that they make the same call, with the same options and tensors (`values`, unless they are parts;
// as many as `given` says), which have been written on the stream. Throws Error on all of them where they do not.
void agree(const Workers& workers, distributed::Call call, const std::vector<Index>& cu_seqlens,
           const std::vector<distributed::Given>& given,
           const std::vector<std::pair<const char*, const Tensor*>>& values, const std::vector<Index>& sizes,
           cudaStream_t stream);

// Of a call on parts, core/sharded/run.hpp's.
template <class Options>
Options own_options(const Workers& workers, distributed::Call call, const Options& o, const Tensor& q,
                    const Tensor& k) {
    return causeway::sharded::own_options(workers.parts && workers.processes, meet, call, o, q, k);
}

// Where the parts begin, in whole chunks where neither the options nor the parts say so.
Starts starts_of(const Workers& workers, const Sharding& o, Index N, Index chunk);

// Whether it holds on all ranks.
bool on_all(const Workers& workers, bool holds);

// What a rank does; returns the seconds that it took, its tensors being in place.
using Program = std::function<double(QueuedCommunicator&)>;
// What it gives others afterwards, which is not in the report.
using Share = std::function<void(QueuedCommunicator&)>;

// Runs `program` on every rank of this process and takes the account of all; what was queued on the caller's stream has
// happened before, and everything that the ranks queue when this returns. `share` is for processes alone.
ShardReport run(const std::string& method, const std::string& exchange, Index element_bytes, const Workers& workers,
                cudaStream_t stream, const Program& program, const Share& share);

// Elements of so many bytes that a rank holds while this lives.
class Holding {
public:
    Holding(QueuedCommunicator& comm, Held held, Index n, std::size_t element)
        : comm_(comm), held_(held), n_(n), bytes_(static_cast<Index>(element)) {
        comm.memory.add(held, n, bytes_);
    }
    Holding(const Holding&) = delete;
    Holding& operator=(const Holding&) = delete;
    ~Holding() { comm_.memory.add(held_, -n_, bytes_); }

private:
    QueuedCommunicator& comm_;
    Held held_;
    Index n_, bytes_;
};

// A rank's tokens of a tensor [rows, N, width] that the caller has on one GPU: those themselves where it is the rank's,
// else a copy of their own.
struct Whole {
    void* data;
    Index rows, N, width;
    std::size_t element;  // bytes
    int device;           // that has it
};
class Local {
public:
    // Queues the copy, unless nothing is to be read (`in`). The rank holds the elements as `held` while this lives.
    Local(QueuedCommunicator& comm, Held held, const Whole& x, Index first, Index n, bool in);
    Local(const Local&) = delete;
    Local& operator=(const Local&) = delete;

    void* data() const { return data_; }
    Index row() const { return row_; }  // elements from a row to the next
    void give_back() const;             // queues the copy to where the tokens came from

private:
    QueuedCommunicator& comm_;
    Whole whole_;
    Index first_, n_, row_;
    void* data_;
    int here_ = 0;
    Buffer own_;
    Holding holding_;
};

// Queues a copy of contiguous rows [rows, n, width] to the tokens [first, first + n) of a tensor that the caller has.
void give_rows(QueuedCommunicator& comm, const void* from, const Whole& to, Index first, Index n);

// And one of a rank's tokens, of so many bytes each, to contiguous rows.
void take_rows(QueuedCommunicator& comm, void* to, const Local& from, Index rows, Index n, std::size_t token);

// Of a call that has nothing to compute.
ShardReport idle_report(const std::string& method, const std::string& exchange, DType type, const Workers& workers);

// The GPU that is the thread's current one.
int current_device();

}  // namespace causeway::gpu::sharded
