// What distributed algorithms are written in: ranks, point-to-point messages, work, memory. Every engine counts the
// same way.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/memory.hpp"

namespace causeway::distributed {

// Thrown in the ranks that wait for one that failed; never leaves the engine that runs them.
struct WorldEnded {};

// What a rank has sent. rounds: when it had its last message, where every message takes one round and a rank sends one
// and receives one at a time.
struct Traffic {
    Index messages = 0, elements = 0, bytes = 0, rounds = 0;
};

// What a worker holds, in elements of the number type: its keys and values, those on their way to it, its queries, its
// partial result (m, D, n), the buffers of collectives, and of linear attention its states and the maps of its part.
enum class Held { shard, incoming, query, partial, work, state };
inline constexpr std::size_t held_kinds = 6;

// Of one worker, in elements; bytes too, for keys and values may be of a narrower type than partial results.
struct Memory {
    std::array<Index, held_kinds> now{}, peak{};  // by kind; the peaks of two kinds need not coincide
    Index total = 0, peak_total = 0, bytes = 0, peak_bytes = 0;

    void add(Held kind, Index elements, Index element_bytes) {
        Index& held = now[static_cast<std::size_t>(kind)];
        held += elements, total += elements, bytes += elements * element_bytes;
        peak[static_cast<std::size_t>(kind)] = std::max(peak[static_cast<std::size_t>(kind)], held);
        peak_total = std::max(peak_total, total), peak_bytes = std::max(peak_bytes, bytes);
    }
    Index peak_of(Held kind) const { return peak[static_cast<std::size_t>(kind)]; }
};

// One step of a worker: floating-point operations, elements read and written, kernels or library calls that a device
// starts.
struct Work {
    double operations = 0, elements = 0;
    int starts = 0;
};

class Transfer;

// One rank's end of a group of `size` ranks. Messages between two ranks arrive in the order in which they were sent. A
// posted message reads or writes the given elements until its Transfer has been waited for. A rank that fails ends the
// waits of all others. A dry communicator runs the schedule without data: pointers are null and no memory is taken.
class Communicator {
public:
    Communicator(int rank, int size, bool dry = false) : rank_(rank), size_(size), dry_(dry) {}
    virtual ~Communicator() = default;
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;

    int rank() const { return rank_; }
    int size() const { return size_; }
    bool dry() const { return dry_; }

    template <class T>
    Transfer send(const T* data, Index n, int to);  // an empty message is none
    template <class T>
    Transfer receive(T* data, Index n, int from);
    // Both at once, which cannot deadlock where every rank of a cycle does it.
    template <class T>
    void exchange(const T* out, Index n_out, int to, T* in, Index n_in, int from);
    // What was posted may go on its way now: an engine may else wait for more, until the first of it is waited for.
    virtual void start() {}
    // Blocks of n elements of all ranks, in their order, by an operation of the engine's own; false: it has none. What
    // the engine sends for it nobody sees: counted is what Bruck's algorithm sends.
    template <class T>
    bool gather(const T* mine, Index n, T* out);
    virtual bool gathers() const { return false; }
    // Counts one such operation, of n elements of T of every rank.
    template <class T>
    void count_gather(Index n);
    // Waits for what this rank has queued, where what it computes and its messages only are. Ends with a rank that
    // fails.
    virtual void finish_queued() {}
    // The same ranks for messages in the memory of the CPU, where this one's are elsewhere.
    virtual Communicator& host() { return *this; }
    // Memory that messages of this engine are sent from and received in; null: any is.
    virtual std::shared_ptr<void> allocate(Held, std::size_t /*bytes*/) { return nullptr; }
    // What an element of this size takes: on a model's wire it may be another number.
    Index bytes_of(std::size_t element) const {
        return element_bytes > 0 ? element_bytes : static_cast<Index>(element);
    }

    // Waits for all ranks. Not counted: it stands around what is timed.
    virtual void barrier() = 0;
    // The waits of all ranks end as they do where a rank has failed: for one that is about to fail and first waits for
    // what the others have on their way elsewhere.
    virtual void end_waits() noexcept {}
    // Throws where another rank has ended the waits; from the first such call on a wait ends so too.
    virtual void heed_ends() {}
    // The same ranks, for messages that keep an order of their own; null: it has no such thing.
    virtual std::unique_ptr<Communicator> apart() { return nullptr; }
    virtual double now() const = 0;  // seconds
    // Tells the clock of a model what is computed next; true: the caller has to compute it.
    virtual bool work(const Work&) { return true; }

    // The data are in place: from here on time is taken, and traffic and peaks of memory counted.
    void begin() {
        barrier();
        traffic = {};
        sent_until = received_until = 0;
        memory.peak = memory.now;
        memory.peak_total = memory.total, memory.peak_bytes = memory.bytes;
        waited = 0;
        begun = now();
    }

    Traffic traffic;
    Memory memory;
    double begun = 0;
    double waited = 0;  // seconds since begin() in which the rank waited for messages

protected:
    friend class Transfer;
    // Each returns a number for finish. round: in which the message arrives.
    virtual int post_send(const void* data, std::size_t bytes, int to, Index round) = 0;
    virtual int post_receive(void* data, std::size_t bytes, int from) = 0;
    virtual Index finish(int posted) = 0;          // the round of a received message; 0 for a sent one
    virtual void cancel(int posted) noexcept = 0;  // the data will go away: no other rank may look at it any more
    virtual void all_blocks(const void* /*mine*/, std::size_t /*bytes*/, void* /*out*/) {
    }                                          // of an engine that gathers()
    Index sent_until = 0, received_until = 0;  // rounds up to which the rank is sending and receiving
    Index element_bytes = 0;                   // 0: the size of the type; else what one element takes on the wire

private:
    int rank_, size_;
    bool dry_;
};

// A message on its way. Destroyed without wait, after an error, it is taken back.
class Transfer {
public:
    Transfer() = default;
    Transfer(Communicator& comm, int posted) : comm_(&comm), posted_(posted) {}
    Transfer(Transfer&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)), posted_(other.posted_) {}
    Transfer& operator=(Transfer&& other) noexcept {
        std::swap(comm_, other.comm_);
        std::swap(posted_, other.posted_);
        return *this;
    }
    ~Transfer() {
        if (comm_) comm_->cancel(posted_);
    }
    void wait() {
        if (!comm_) return;
        const double from = comm_->now();
        const Index round = comm_->finish(posted_);
        comm_->waited += comm_->now() - from;
        if (round > 0) {
            comm_->received_until = std::max(round, comm_->received_until + 1);
            comm_->traffic.rounds = std::max(comm_->traffic.rounds, comm_->received_until);
        }
        comm_ = nullptr;
    }

private:
    Communicator* comm_ = nullptr;
    int posted_ = 0;
};

template <class T>
Transfer Communicator::send(const T* data, Index n, int to) {
    if (n == 0) return {};
    const Index bytes = n * bytes_of(sizeof(T));
    ++traffic.messages, traffic.elements += n, traffic.bytes += bytes;
    sent_until = std::max(traffic.rounds, sent_until) + 1;
    return {*this, post_send(data, static_cast<std::size_t>(bytes), to, sent_until)};
}

template <class T>
Transfer Communicator::receive(T* data, Index n, int from) {
    if (n == 0) return {};
    const Index bytes = n * bytes_of(sizeof(T));
    return {*this, post_receive(data, static_cast<std::size_t>(bytes), from)};
}

template <class T>
void Communicator::exchange(const T* out, Index n_out, int to, T* in, Index n_in, int from) {
    Transfer sent = send(out, n_out, to), received = receive(in, n_in, from);
    received.wait();
    sent.wait();
}

template <class T>
void Communicator::count_gather(Index n) {
    for (int have = 1; n > 0 && have < size_; have *= 2) {
        const Index more = n * std::min(have, size_ - have);
        ++traffic.messages, traffic.elements += more, traffic.bytes += more * bytes_of(sizeof(T));
        sent_until = received_until = ++traffic.rounds;
    }
}

template <class T>
bool Communicator::gather(const T* mine, Index n, T* out) {
    if (!gathers()) return false;
    count_gather<T>(n);
    const double from = now();
    if (n > 0) all_blocks(mine, static_cast<std::size_t>(n) * sizeof(T), out);
    waited += now() - from;
    return true;
}

// Room for n elements that a worker holds while this lives, where messages of the communicator can be; data() is null
// on a dry communicator.
template <class T>
class Room {
public:
    Room(Communicator& comm, Held kind, Index n) : comm_(comm), kind_(kind), size_(n) {
        if (!comm.dry() && n > 0) {
            place_ = comm.allocate(kind, static_cast<std::size_t>(n) * sizeof(T));
            if (!place_) buffer_ = Buffer<T>(n);
        }
        comm.memory.add(kind, n, comm.bytes_of(sizeof(T)));
    }
    ~Room() { comm_.memory.add(kind_, -size_, comm_.bytes_of(sizeof(T))); }
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;

    T* data() { return place_ ? static_cast<T*>(place_.get()) : buffer_.data(); }
    Index size() const { return size_; }

private:
    Communicator& comm_;
    Held kind_;
    Index size_;
    std::shared_ptr<void> place_;
    Buffer<T> buffer_;
};

// What a worker holds in the caller's memory, n elements of T.
template <class T>
class Borrowed {
public:
    Borrowed(Communicator& comm, Held kind, Index n) : comm_(comm), kind_(kind), size_(n) {
        comm.memory.add(kind, n, comm.bytes_of(sizeof(T)));
    }
    ~Borrowed() { comm_.memory.add(kind_, -size_, comm_.bytes_of(sizeof(T))); }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;

private:
    Communicator& comm_;
    Held kind_;
    Index size_;
};

// What every rank runs.
using Program = std::function<void(Communicator&)>;

}  // namespace causeway::distributed
