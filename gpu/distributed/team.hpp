// GPUs that send one another messages: the communicator of engine = "nccl".
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/distributed/communicator.hpp"
#include "gpu/base/buffer.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/distributed/nccl.hpp"

namespace causeway::gpu {

// Memory of the CPU that kernels and NCCL read and write too. Taking it from the system costs milliseconds, so what is
// given back is used again: blocks of up to 4 MiB are kept from call to call, larger ones until trim(). For one thread
// at a time.
class SharedMemory {
public:
    // Where the system has no more, all blocks that are not in use go back to it first. Throws OutOfMemory.
    std::shared_ptr<void> take(std::size_t bytes);
    // Gives the large blocks that are not in use back to the system, which may wait for all GPUs: not while messages
    // are on their way.
    void trim() noexcept { release(kept); }
    SharedMemory() = default;
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;
    ~SharedMemory() { release(0); }

private:
    static constexpr std::size_t kept = std::size_t{4} << 20;
    void release(std::size_t above) noexcept;  // the free blocks of more bytes

    std::multimap<std::size_t, void*> free_;  // by size, a power of two or a multiple of `kept`
};

// What a rank has on its device, from call to call.
struct Rank {
    int number, device;
    ncclComm_t comm = nullptr;
    bool silent = false;  // nothing of it is on its way any more, for good in this run
    std::unique_ptr<Stream> messages, kernels;
    SharedMemory shared;
};

// Ranks that are connected: threads of this process, 0 ... p - 1 on devices 0 ... p - 1, or processes that mpirun has
// started, of which this one has its rank, on the device that it has chosen. Making it takes a second, so the engine
// keeps it for the next call, with its connections, streams and small blocks of shared memory.
class Team {
public:
    explicit Team(int p);  // stops for Ctrl-C while the ranks connect
    // A rank of `meeting`, whose processes make theirs at the same time. Throws Error where two have the same device.
    explicit Team(distributed::Communicator& meeting);
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;
    // Ends what is still running and gives everything back.
    ~Team();

    // Each rank is a thread, as in distributed::run_threads, or a process, as in run_mpi. After an exception the team
    // runs again if it is usable().
    void run(const distributed::Program& program);
    // No rank has failed since messages were started, which others may wait for in vain.
    bool usable() const { return !ended_; }
    int size() const { return size_; }
    bool processes() const { return processes_; }

private:
    friend class NcclCommunicator;
    friend class QueuedCommunicator;
    friend class Board;
    Team() = default;
    void begin(const std::function<void()>& make_ranks);
    Rank& add_rank(int number, int device);
    // Of this process.
    Rank& rank(int number) { return *ranks_[processes_ ? 0 : static_cast<std::size_t>(number)]; }
    void run_rank(distributed::Communicator& meeting, const distributed::Program& program);
    void connect();
    void end() noexcept;
    void silence(Rank& rank) noexcept;  // what is on the way of the rank has ended
    void settle() noexcept;             // after a run
    // Waits for all ranks, which are awake; look() is called meanwhile.
    template <class Look>
    void meet(Look&& look) {
        const int p = size(), all = met_++ / p * p + p;
        while (met_ < all) look();
    }

    int size_ = 0;
    bool processes_ = false;
    std::vector<std::unique_ptr<Rank>> ranks_;  // of this process
    std::atomic<bool> ended_{true};             // a rank has failed, or not all are connected yet
    std::atomic<bool> talked_{false};           // messages were started in this run
    std::atomic<int> begun_{0}, silent_{0};     // ranks that have begun this run, and those of them that are silent
    std::atomic<int> met_{0};                   // ranks that have come to meet() in this run, one meeting after another
    std::vector<std::vector<char>> board_;      // of every rank, what it shows the others between two meetings
    std::mutex mutex_;                          // of what follows
    std::vector<std::vector<Index>> rounds_;    // of the messages from rank a to b, in order, at a·p + b
};

// Messages go by ncclSend and ncclRecv: those posted and not started yet together in one group, so that no order of
// sending and receiving can block. Their data lie in memory that the GPU reaches: allocate() gives that of the device
// to keys and values, which it keeps for the next that asks for so much until this communicator ends, and shared memory
// to all else, where the CPU combines it. The all-gather is NCCL's own.
class NcclCommunicator : public distributed::Communicator {
public:
    NcclCommunicator(Team& team, distributed::Communicator& meeting);
    ~NcclCommunicator() override;  // where an exception passes, abandons what is on its way

    void barrier() override { meeting_.barrier(); }
    double now() const override { return meeting_.now(); }
    void start() override;
    bool gathers() const override { return true; }
    std::shared_ptr<void> allocate(distributed::Held kind, std::size_t bytes) override;
    Communicator& host() override { return meeting_; }

    Rank& mine() { return mine_; }
    Team& team() { return team_; }
    // Queues an all-gather of `bytes` bytes of every rank; `mine` may be the rank's place in `out`. Not counted.
    void gather_queued(const void* mine, std::size_t bytes, void* out, cudaStream_t stream);
    // Waits for the work of a stream on which messages are; stops for Ctrl-C and where another rank has failed.
    void wait_for(cudaStream_t stream);

protected:
    int post_send(const void* data, std::size_t bytes, int to, Index round) override;
    int post_receive(void* data, std::size_t bytes, int from) override;
    Index finish(int posted) override;
    void cancel(int posted) noexcept override;
    void all_blocks(const void* mine, std::size_t bytes, void* out) override;
    struct Message {
        void* data;  // of a sent one it is not written
        std::size_t bytes;
        int peer;
        bool received;
        Index group;   // in which it is started, from 1; 0: free
        Index number;  // among the messages from this peer, or all that are sent
    };
    // The round of a message, from the memory of one process to that of another.
    struct SaidRound {
        Index round = 0;
        distributed::Transfer transfer;
    };
    int remember(const Message&);
    // Ends what the rank has on its way, for good, and waits until all others have ended theirs: what is on its way on
    // one GPU reads and writes the memory of another, which may go to others only afterwards.
    void abandon() noexcept;
    // The round of a received message that its sender has posted; -1: it has not yet.
    Index round_of(const Message&);
    void finish_said(const Message&);  // of a sent one
    void look();                       // ends this rank where another has failed

    Team& team_;
    distributed::Communicator& meeting_;
    Rank& mine_;
    std::multimap<std::size_t, Buffer> blocks_;  // of the device, not in use, by size
    std::vector<Message> posted_;
    std::vector<int> waiting_;     // of them, those of the group that is not started yet, in order
    std::vector<Index> received_;  // messages asked for, by peer
    // Of processes: who says the rounds, those of the messages sent, and of those asked for, by peer and number.
    std::unique_ptr<distributed::Communicator> teller_;
    std::deque<SaidRound> rounds_sent_;
    std::vector<std::deque<SaidRound>> rounds_received_;
    Index sent_ = 0;                // messages
    Index started_ = 0, done_ = 0;  // groups
    const int exceptions_;          // that were on their way when this was made
};

}  // namespace causeway::gpu
