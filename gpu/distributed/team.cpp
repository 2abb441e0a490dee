#include "gpu/distributed/team.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <exception>
#include <numeric>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/interrupt.hpp"
#include "core/distributed/collectives.hpp"
#include "core/distributed/mpi.hpp"
#include "core/distributed/threads.hpp"
#include "gpu/base/current_device.hpp"

namespace causeway::gpu {

using distributed::Communicator;
using distributed::Held;

std::shared_ptr<void> SharedMemory::take(std::size_t bytes) {
    const std::size_t size =
        bytes > kept ? (bytes + kept - 1) / kept * kept : std::bit_ceil(std::max<std::size_t>(bytes, 4096));
    void* block = nullptr;
    if (const auto it = free_.find(size); it != free_.end()) {
        block = it->second;
        free_.erase(it);
    } else {
        const auto ask = [&] {
            const cudaError_t code = cudaHostAlloc(&block, size, cudaHostAllocPortable | cudaHostAllocMapped);
            succeeded(code);
            return code;
        };
        cudaError_t code = ask();
        if (code == cudaErrorMemoryAllocation && !free_.empty()) {
            release(0);
            code = ask();
        }
        if (code == cudaErrorMemoryAllocation)
            throw OutOfMemory(sentence(
                "gpu: ", size,
                " bytes of memory that the CPU and the GPU share were asked for, which the system does not have"));
        check(code, "taking memory that the CPU and the GPU share");
    }
    return {block, [this, size](void* given) { free_.emplace(size, given); }};
}

void SharedMemory::release(std::size_t above) noexcept {
    const auto first = free_.upper_bound(above);
    for (auto it = first; it != free_.end(); ++it) succeeded(cudaFreeHost(it->second));
    free_.erase(first, free_.end());
}

namespace {

// Waits for the messages on a stream, with an eye on Ctrl-C, on NCCL's errors and on what `look` looks at. What is on
// its way when it throws is still there.
template <class Look>
void watch(const Rank& rank, cudaStream_t stream, const Look& look) {
    for (long polls = 1;; ++polls) {
        const cudaError_t code = cudaStreamQuery(stream);
        if (code == cudaSuccess) break;
        if (code != cudaErrorNotReady) check(code, "sending messages");
        if (polls % 256 != 0) continue;
        interrupt::check();
        ncclResult_t state = ncclSuccess;
        check(nccl().async_error(rank.comm, &state), "asking how messages fare");
        check(state, "sending messages");
        look();
    }
    cudaGetLastError();  // "not ready" is no error to be found by others
}

// Runs f() in a thread of its own. It goes from device to device, as NCCL does when it ends a communicator, and coming
// back may fail: then the caller's next call would run on another device than its tensors are on.
template <class F>
void in_thread_of_its_own(const F& f) {
    std::exception_ptr failure;
    std::thread([&] {
        try {
            f();
        } catch (...) {
            failure = std::current_exception();
        }
    }).join();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace

// From Team() on the team counts as made: where what follows throws, ~Team ends what was begun.
Team::Team(int p) : Team() {
    size_ = p;
    begin([&] {
        rounds_.resize(static_cast<std::size_t>(p * p)), board_.resize(static_cast<std::size_t>(p));
        for (int r = 0; r < p; ++r) add_rank(r, r);
        std::vector<int> devices(static_cast<std::size_t>(p));
        std::iota(devices.begin(), devices.end(), 0);
        std::vector<ncclComm_t> comms(static_cast<std::size_t>(p));
        check(nccl().init_all(comms.data(), p, devices.data()), "starting NCCL");
        for (std::size_t r = 0; r < comms.size(); ++r) ranks_[r]->comm = comms[r];
    });
}

namespace {

// Which device a process has, for others to compare.
struct Place {
    char device[sizeof(cudaUUID_t)] = {};
    char nccl_id[sizeof(ncclUniqueId)] = {};  // of rank 0
};

}  // namespace

Team::Team(Communicator& meeting) : Team() {
    size_ = meeting.size(), processes_ = true;
    enter_chosen_device();
    int device = 0;
    check(cudaGetDevice(&device), "asking for the device");
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, device), "asking for the device");
    Place mine;
    std::memcpy(mine.device, &properties.uuid, sizeof mine.device);
    ncclUniqueId id;
    if (meeting.rank() == 0) {
        check(nccl().unique_id(&id), "starting NCCL");
        std::memcpy(mine.nccl_id, &id, sizeof id);
    }
    std::vector<char> all(static_cast<std::size_t>(size_) * sizeof mine);
    distributed::all_gather(meeting, distributed::all_ranks(meeting), reinterpret_cast<const char*>(&mine),
                            static_cast<Index>(sizeof mine), all.data());
    const auto device_of = [&](int r) { return all.data() + static_cast<std::size_t>(r) * sizeof mine; };
    for (int r = 0; r < size_; ++r)
        for (int other = 0; other < r; ++other)
            if (std::memcmp(device_of(r), device_of(other), sizeof mine.device) == 0)
                fail("engine: \"nccl\", ranks ", other, " and ", r,
                     " have the same GPU, expected a GPU for every process: start as many as there are GPUs");
    std::memcpy(&id, all.data() + offsetof(Place, nccl_id), sizeof id);
    // What may fail on one of them alone comes first, for the others would wait within NCCL.
    Rank& rank = add_rank(meeting.rank(), device);
    meeting.barrier();
    begin([&] {
        const CurrentDevice there(device);
        check(nccl().init_rank(&rank.comm, size_, id, rank.number), "starting NCCL");
    });
}

Rank& Team::add_rank(int number, int device) {
    ranks_.push_back(std::make_unique<Rank>());
    Rank& rank = *ranks_.back();
    rank.number = number, rank.device = device;
    const CurrentDevice there(device);
    rank.messages = std::make_unique<Stream>(), rank.kernels = std::make_unique<Stream>();
    return rank;
}

void Team::begin(const std::function<void()>& make_ranks) {
    enter_chosen_device();
    try {
        in_thread_of_its_own([&] {
            make_ranks();
            connect();
        });
    } catch (const std::system_error&) {
        fail_as<SystemError>("engine: \"nccl\", the system has no thread to begin in");
    }
    ended_ = false;
}

// NCCL connects ranks when they first talk, which takes long, and would hang where one of them fails meanwhile.
void Team::connect() {
    const int p = size();
    std::vector<std::shared_ptr<void>> rooms;
    for (const auto& rank : ranks_) rooms.push_back(rank->shared.take(2 * static_cast<std::size_t>(p) * 64));
    const auto all = [&](auto&& each) {  // each(rank, room(i): its i-th place)
        for (std::size_t i = 0; i < ranks_.size(); ++i) {
            const CurrentDevice there(ranks_[i]->device);
            each(*ranks_[i], [&](int place) { return static_cast<char*>(rooms[i].get()) + 64 * place; });
        }
    };
    NcclGroup pairs("connecting");
    all([&](Rank& rank, auto&& room) {
        for (int peer = 0; peer < p; ++peer) {
            if (peer == rank.number) continue;
            check(nccl().send(room(peer), 64, ncclChar, peer, rank.comm, *rank.messages), "connecting");
            check(nccl().receive(room(p + peer), 64, ncclChar, peer, rank.comm, *rank.messages), "connecting");
        }
    });
    pairs.end();
    NcclGroup together("connecting");
    all([&](Rank& rank, auto&& room) {
        check(nccl().all_gather(room(0), room(p), 64, ncclChar, rank.comm, *rank.messages), "connecting");
    });
    together.end();
    all([](Rank& rank, auto&&) { watch(rank, *rank.messages, [] {}); });
}

Team::~Team() {
    try {
        in_thread_of_its_own([&] { end(); });
    } catch (...) {  // no thread
        end();
    }
}

void Team::end() noexcept {
    for (const auto& rank : ranks_) {
        succeeded(cudaSetDevice(rank->device));
        if (rank->comm) ended_ ? nccl().abort(rank->comm) : nccl().destroy(rank->comm);
        rank->comm = nullptr;
    }
    for (const auto& rank : ranks_) {  // nothing is on its way any more
        succeeded(cudaSetDevice(rank->device));
        rank->messages.reset(), rank->kernels.reset();
    }
}

void Team::run(const distributed::Program& program) {
    for (auto& rounds : rounds_) rounds.clear();
    for (const auto& rank : ranks_) rank->silent = false;
    talked_ = false;
    met_ = begun_ = silent_ = 0;
    try {
        const auto each = [&](Communicator& meeting) { run_rank(meeting, program); };
        if (processes_) distributed::run_mpi(each);
        else distributed::run_threads(size(), each);
        if (ended_) fail_as<SystemError>("engine: \"nccl\", a rank has ended its messages");
    } catch (...) {
        settle();
        throw;
    }
    settle();
}

void Team::run_rank(Communicator& meeting, const distributed::Program& program) {
    Rank& mine = rank(meeting.rank());
    ++begun_;
    try {
        check(cudaSetDevice(mine.device), "going to another device");
        NcclCommunicator comm(*this, meeting);
        program(comm);
        silence(mine);
    } catch (...) {
        // Other processes may wait for what this rank would have sent.
        if (processes_) talked_ = true, meeting.end_waits();
        ended_ = true;
        silence(mine);
        throw;
    }
}

void Team::silence(Rank& rank) noexcept {
    if (!std::exchange(rank.silent, true)) ++silent_;
}

// Where a rank failed before there were messages, nothing but kernels is on its way.
void Team::settle() noexcept {
    if (ended_ && !talked_)
        ended_ = !std::all_of(ranks_.begin(), ranks_.end(),
                              [](const auto& rank) { return succeeded(cudaStreamSynchronize(*rank->kernels)); });
    if (ended_) return;
    for (const auto& rank : ranks_) rank->shared.trim();
}

NcclCommunicator::NcclCommunicator(Team& team, Communicator& meeting)
    : Communicator(meeting.rank(), meeting.size()),
      team_(team),
      meeting_(meeting),
      mine_(team.rank(meeting.rank())),
      received_(static_cast<std::size_t>(meeting.size())),
      rounds_received_(static_cast<std::size_t>(team.processes() ? meeting.size() : 0)),
      exceptions_(std::uncaught_exceptions()) {
    if (!team.processes()) return;
    meeting.heed_ends();
    teller_ = meeting.apart();
    teller_->heed_ends();
}

NcclCommunicator::~NcclCommunicator() {
    if (team_.talked_ && std::uncaught_exceptions() > exceptions_) abandon();
}

std::shared_ptr<void> NcclCommunicator::allocate(Held kind, std::size_t bytes) {
    if (kind != Held::shard && kind != Held::incoming) return mine_.shared.take(bytes);
    const auto kept = blocks_.find(bytes);
    const auto buffer = std::make_shared<Buffer>(kept == blocks_.end() ? Buffer(bytes) : std::move(kept->second));
    if (kept != blocks_.end()) blocks_.erase(kept);
    return {buffer->data(), [this, buffer](void*) { blocks_.emplace(buffer->bytes(), std::move(*buffer)); }};
}

// Where the end of the group fails, messages may be on their way all the same: they count as started, and cancel() ends
// them before their memory goes to others.
void NcclCommunicator::start() {
    if (waiting_.empty()) return;
    team_.talked_ = true;
    ++started_;
    const std::vector<int> messages = std::exchange(waiting_, {});
    NcclGroup group("sending messages");
    for (const int posted : messages) {
        const Message& m = posted_[static_cast<std::size_t>(posted)];
        if (m.received)
            check(nccl().receive(m.data, m.bytes, ncclChar, m.peer, mine_.comm, *mine_.messages), "receiving messages");
        else check(nccl().send(m.data, m.bytes, ncclChar, m.peer, mine_.comm, *mine_.messages), "sending messages");
    }
    group.end();
}

int NcclCommunicator::remember(const Message& message) {
    std::size_t i = 0;
    while (i < posted_.size() && posted_[i].group > 0) ++i;
    if (i == posted_.size()) posted_.emplace_back();
    posted_[i] = message;
    waiting_.push_back(static_cast<int>(i));
    return waiting_.back();
}

int NcclCommunicator::post_send(const void* data, std::size_t bytes, int to, Index round) {
    if (team_.processes()) {
        SaidRound& said = rounds_sent_.emplace_back();
        said.round = round;
        said.transfer = teller_->send(&said.round, 1, to);
    } else {
        const std::lock_guard lock(team_.mutex_);
        team_.rounds_[static_cast<std::size_t>(rank() * size() + to)].push_back(round);
    }
    return remember({const_cast<void*>(data), bytes, to, false, started_ + 1, sent_++});
}

int NcclCommunicator::post_receive(void* data, std::size_t bytes, int from) {
    if (team_.processes()) {
        SaidRound& said = rounds_received_[static_cast<std::size_t>(from)].emplace_back();
        said.transfer = teller_->receive(&said.round, 1, from);
    }
    return remember({data, bytes, from, true, started_ + 1, received_[static_cast<std::size_t>(from)]++});
}

Index NcclCommunicator::finish(int posted) {
    Message& message = posted_[static_cast<std::size_t>(posted)];
    finish_said(message);
    if (message.group > started_) start();
    if (message.group > done_) {
        wait_for(*mine_.messages);
        done_ = started_;
    }
    message.group = 0;
    return message.received ? round_of(message) : 0;  // it has come, so it was posted
}

// Few bytes, which MPI has taken away by now: nothing is waited for.
void NcclCommunicator::finish_said(const Message& message) {
    if (!team_.processes() || message.received) return;
    rounds_sent_[static_cast<std::size_t>(message.number)].transfer.wait();
}

Index NcclCommunicator::round_of(const Message& message) {
    if (team_.processes()) {
        SaidRound& said =
            rounds_received_[static_cast<std::size_t>(message.peer)][static_cast<std::size_t>(message.number)];
        said.transfer.wait();
        return said.round;
    }
    const std::lock_guard lock(team_.mutex_);
    const auto& rounds = team_.rounds_[static_cast<std::size_t>(message.peer * size() + rank())];
    const auto number = static_cast<std::size_t>(message.number);
    return number < rounds.size() ? rounds[number] : -1;
}

void NcclCommunicator::cancel(int posted) noexcept {
    Message& message = posted_[static_cast<std::size_t>(posted)];
    if (message.group > started_) std::erase(waiting_, posted);
    else if (message.group > done_) abandon();
    message.group = 0;
}

void NcclCommunicator::gather_queued(const void* mine, std::size_t bytes, void* out, cudaStream_t stream) {
    if (team_.processes()) meeting_.barrier();  // none waits on its device for one that does not come
    team_.talked_ = true;
    check(nccl().all_gather(mine, out, bytes, ncclChar, mine_.comm, stream), "an all-gather");
}

void NcclCommunicator::all_blocks(const void* mine, std::size_t bytes, void* out) {
    gather_queued(mine, bytes, out, *mine_.messages);
    wait_for(*mine_.messages);
}

void NcclCommunicator::abandon() noexcept {
    team_.ended_ = team_.talked_ = true;
    if (mine_.comm) nccl().abort(mine_.comm);
    succeeded(cudaSetDevice(mine_.device));  // the last of the ranks to abort has been on the devices of all
    mine_.comm = nullptr;
    done_ = started_;
    if (mine_.silent) return;
    succeeded(cudaStreamSynchronize(*mine_.messages));
    succeeded(cudaStreamSynchronize(*mine_.kernels));
    team_.silence(mine_);
    meeting_.end_waits();  // of processes each ends what is its own
    while (team_.silent_ < team_.begun_) std::this_thread::yield();
}

void NcclCommunicator::look() {
    if (team_.processes()) return meeting_.heed_ends();
    if (!team_.ended_) return;
    abandon();
    meeting_.barrier();  // which the rank that failed never reaches: it ends this one too
}

void NcclCommunicator::wait_for(cudaStream_t stream) {
    try {
        watch(mine_, stream, [&] { look(); });
    } catch (...) {
        abandon();
        throw;
    }
}

}  // namespace causeway::gpu
