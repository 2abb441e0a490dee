#include "core/distributed/mpi.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/base/error.hpp"

#ifdef CAUSEWAY_MPI
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <new>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/interrupt.hpp"
#include "core/distributed/meetings.hpp"
#include "core/tensor/random.hpp"
#endif

namespace causeway::distributed {

bool mpi_launched() noexcept {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"})
        if (std::getenv(name)) return true;
    return false;
}

int mpi_local_rank() noexcept {
    for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
        if (const char* const rank = std::getenv(name)) return std::atoi(rank);
    return mpi_rank();
}

namespace {

constexpr const char* limit_name = "CAUSEWAY_MPI_TIMEOUT";

// Seconds; 0 where it is not set, -1 where it is no possible limit.
double limit_asked_for() {
    const char* const asked = std::getenv(limit_name);
    if (!asked || !*asked) return 0;
    char* end = nullptr;
    const double seconds = std::strtod(asked, &end);
    return *end == '\0' && seconds > 0 && std::isfinite(seconds) ? seconds : -1;
}

}  // namespace

std::string mpi_fault() {
    if (limit_asked_for() >= 0) return "";
    return sentence(limit_name, ": ", std::getenv(limit_name), ", expected a number of seconds above 0");
}

namespace {

// Seconds, by the option timeout of the call that this thread makes; 0: as CAUSEWAY_MPI_TIMEOUT says.
thread_local double most_waiting_in_call = 0;

}  // namespace

MpiTimeout::MpiTimeout(double seconds) : before_(most_waiting_in_call) {
    if (!(seconds >= 0 && std::isfinite(seconds)))
        fail("timeout: ", seconds, ", expected a number of seconds above 0, or 0 for no bound of the call's own");
    if (seconds > 0) most_waiting_in_call = seconds;
}

MpiTimeout::~MpiTimeout() { most_waiting_in_call = before_; }

#ifndef CAUSEWAY_MPI

bool mpi_built() noexcept { return false; }
void start_mpi() {
    fail(
        "engine: \"mpi\" is not built in, expected \"threads\" (libopenmpi-dev was missing when this program was "
        "built)");
}
int mpi_rank() noexcept { return 0; }
int mpi_size() noexcept { return 1; }
std::uint64_t mpi_job() noexcept { return 0; }
void run_mpi(const Program&) { start_mpi(); }
SharedCall::SharedCall(bool shared) : shared_(false) {
    if (shared) start_mpi();
}
SharedCall::~SharedCall() = default;
void SharedCall::begin() {}
void SharedCall::tell_failure(const std::exception*) noexcept {}
void tell_failed_call() noexcept {}
void take_back_failed_call() noexcept {}
void note_reason(const std::string&) noexcept {}

#else

namespace {

int world_rank = 0, world_size = 1;
std::uint64_t job = 0;
bool started = false;
MPI_Comm control;  // on which a rank says that it has ended, given up a call or failed in one
constexpr int ended_tag = 0, given_up_tag = 1, failed_tag = 2;
MPI_Comm beside;          // for messages apart from the others
double most_waiting = 0;  // seconds that a rank waits for another outside of calls with a timeout; 0: without end
int kept_errors = -1, shown_errors = -1;
off_t told = 0;  // so many bytes of the kept errors have been shown

void require(int code, const char* what) {
    if (code != MPI_SUCCESS) fail("engine: \"mpi\", ", what, " failed with error ", code, " of MPI");
}

// Of a wait for a message. False: a rank that makes another call has sent a longer one.
bool require_message(int code) {
    if (code == MPI_SUCCESS) return true;
    int kind = code;
    MPI_Error_class(code, &kind);
    if (kind != MPI_ERR_TRUNCATE) require(code, "waiting");
    return false;
}

std::string waited_sentence(int peer, double seconds, const char* bound) {
    return sentence("engine: \"mpi\", rank ", world_rank, " waited ", seconds, " s (", bound, ") for rank ", peer,
                    ", which neither answered nor ended");
}

// What this rank wrote to stderr since this was last called, each line with its rank in front.
void show_errors() {
    if (kept_errors < 0) return;
    std::fflush(stderr);
    std::string text, out;
    char piece[4096];
    lseek(kept_errors, told, SEEK_SET);
    for (ssize_t n; (n = read(kept_errors, piece, sizeof piece)) > 0;) text.append(piece, static_cast<std::size_t>(n));
    told += static_cast<off_t>(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        out += "rank " + std::to_string(world_rank) + ": " + text.substr(at, end - at) + "\n";
        at = end + 1;
    }
    for (std::size_t done = 0; done < out.size();) {
        const ssize_t n = write(shown_errors, out.data() + done, out.size() - done);
        if (n <= 0) break;
        done += static_cast<std::size_t>(n);
    }
}

void tell_others(int tag) noexcept {
    static const char said = 1;
    for (int r = 0; r < world_size; ++r) {
        MPI_Request request;
        if (r != world_rank) MPI_Isend(&said, 1, MPI_CHAR, r, tag, control, &request), MPI_Request_free(&request);
    }
}

std::optional<Meetings> meetings;    // where there are several ranks
bool cut_off = false;                // in the meeting, a message stayed on its way
int depth = 0;                       // of shared calls, one in the other
bool failed_before_meeting = false;  // the last one, for want of memory, which nobody was told

// With a message travel its round and a number that tells its meeting from those close to it, as far as there is room.
constexpr int rounds_in_tag = 1 << 15;
std::int64_t numbers_in_tag = 1;  // as many as MPI's largest tag leaves room for
int tag_of(Index round) {
    // 2^16 by the golden ratio: the numbers of calls that follow each other lie far apart.
    constexpr std::int64_t apart = 40503;
    const Meeting at = meetings ? meetings->now() : Meeting{};
    const std::int64_t number = (at.call % (1 << 16) * apart + at.place) % numbers_in_tag;
    return static_cast<int>(number * rounds_in_tag + std::min<Index>(round, rounds_in_tag - 1));
}

void hear_of_failures() {
    for (;;) {
        int came = 0, bytes = 0;
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, failed_tag, control, &came, &status);
        if (!came) return;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        std::string text(static_cast<std::size_t>(bytes), '\0');
        MPI_Recv(text.data(), bytes, MPI_BYTE, status.MPI_SOURCE, failed_tag, control, MPI_STATUS_IGNORE);
        std::int64_t numbers[4];
        std::memcpy(numbers, text.data(), sizeof numbers);
        text.erase(0, sizeof numbers);
        meetings->hear({{numbers[0], numbers[1]},
                        status.MPI_SOURCE,
                        numbers[2] != 0,
                        static_cast<int>(numbers[3]),
                        std::move(text)});
    }
}

// A message to all others, which MPI looks at until it is sent.
struct Said {
    std::string text;
    std::vector<MPI_Request> requests;
};

void tell_others(const Failure& failure) {
    static auto& said = *new std::deque<Said>;  // never destroyed: MPI ends after static objects
    constexpr std::size_t longest = 2000;       // bytes of a reason: what is short is received at once
    for (int sent = 1; !said.empty() && sent;) {
        auto& requests = said.front().requests;
        MPI_Testall(static_cast<int>(requests.size()), requests.data(), &sent, MPI_STATUSES_IGNORE);
        if (sent) said.pop_front();
    }
    const std::int64_t numbers[] = {failure.at.call, failure.at.place, failure.none_follows, failure.rank};
    auto& [text, requests] = said.emplace_back();
    text.assign(reinterpret_cast<const char*>(numbers), sizeof numbers);
    text.append(failure.reason, 0, longest);
    if (failure.reason.size() > longest) text += " ...";
    requests.assign(static_cast<std::size_t>(world_size), MPI_REQUEST_NULL);
    for (int r = 0; r < world_size; ++r)
        if (r != world_rank)
            MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_BYTE, r, failed_tag, control,
                      &requests[static_cast<std::size_t>(r)]);
}

// This rank's, with messages left on their way where it is `left`.
void tell_failure_for(const char* reason, bool left) noexcept {
    if (!meetings->untold()) return;
    ++met_others;
    try {
        tell_others(meetings->fail_here(reason, left));
    } catch (...) {
        meetings->fail_untold();
    }
}

std::string last_reason;  // that was noted in this call

// Null: an error that is no std::exception, as one of Lua's.
const char* reason_of(const std::exception* error) {
    if (error) return sentence_of(*error);
    return last_reason.empty() ? "an error of its own" : last_reason.c_str();
}

// At the end of the process.
void finish_mpi(int status, void*) {
    if (status != 0) {
        // An error that all ranks run into is told once, by rank 0, which ends the others meanwhile.
        if (world_rank != 0) std::this_thread::sleep_for(std::chrono::seconds(2));
        show_errors();
        std::fflush(nullptr);
        _exit(status);  // mpirun ends the others; MPI_Abort of two ranks at once can hang Open MPI 4.1's mpirun
    }
    show_errors();
    tell_others(ended_tag);
    // Only together into MPI_Finalize: where a rank fails while another is in it, Open MPI 4.1's mpirun may hang or
    // crash.
    const double begun = MPI_Wtime();
    for (int r = 0; r < world_size; ++r) {
        for (int came = r == world_rank; !came;) {
            MPI_Iprobe(r, ended_tag, control, &came, MPI_STATUS_IGNORE);
            if (came) break;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            if (most_waiting == 0 || MPI_Wtime() < begun + most_waiting) continue;
            std::fprintf(stderr, "error: %s\n", waited_sentence(r, most_waiting, limit_name).c_str());
            show_errors();
            std::fflush(nullptr);
            _exit(1);
        }
    }
    MPI_Finalize();
}

class MpiCommunicator final : public Communicator {
public:
    explicit MpiCommunicator(MPI_Comm ranks) : Communicator(world_rank, world_size), ranks_(ranks) {}

    // By messages, as those of MPI's own would not tell that ranks make other calls.
    void barrier() override {
        static char out, in;
        for (int step = 1; step < size(); step *= 2) {
            const int sent = post_send(&out, 1, (rank() + step) % size(), 0),
                      received = post_receive(&in, 1, (rank() + size() - step) % size());
            try {
                finish(received);
                finish(sent);
            } catch (...) {
                cancel(received);
                cancel(sent);
                throw;
            }
        }
    }

    double now() const override { return MPI_Wtime(); }

    std::unique_ptr<Communicator> apart() override { return std::make_unique<MpiCommunicator>(beside); }
    void end_waits() noexcept override { tell_others(given_up_tag); }
    void heed_ends() override {
        heeds_ = true;
        int given_up = 0;
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, given_up_tag, control, &given_up, &status);
        if (!given_up) return;
        cut_off = true;
        fail("engine: rank ", status.MPI_SOURCE, " has given up a call that it shares with rank ", world_rank,
             ", for the reason that it says itself; no such call can follow in this job");
    }

protected:
    // Messages between two ranks keep their order whatever their tags.
    int post_send(const void* data, std::size_t bytes, int to, Index round) override {
        Posted posted{{}, data, bytes, to, false, true};
        const int tag = tag_of(round);
        in_pieces(bytes, [&](std::size_t at, int n) {
            posted.requests.emplace_back();
            require(
                MPI_Isend(static_cast<const char*>(data) + at, n, MPI_CHAR, to, tag, ranks_, &posted.requests.back()),
                "sending");
        });
        return remember(std::move(posted));
    }

    int post_receive(void* data, std::size_t bytes, int from) override {
        Posted posted{{}, data, bytes, from, true, true};
        in_pieces(bytes, [&](std::size_t at, int n) {
            posted.requests.emplace_back();
            require(MPI_Irecv(static_cast<char*>(data) + at, n, MPI_CHAR, from, MPI_ANY_TAG, ranks_,
                              &posted.requests.back()),
                    "receiving");
        });
        return remember(std::move(posted));
    }

    Index finish(int posted) override {
        Posted& mine = posted_[static_cast<std::size_t>(posted)];
        const int tag = wait_for(mine.requests, mine.peer);
        mine.used = false;
        if (!mine.received) return 0;
        if (tag - tag % rounds_in_tag != tag_of(0)) refuse_message(mine.peer);
        return tag % rounds_in_tag;
    }

    // What has not begun to come is not received any more. What is on its way stays with MPI, which reads and writes
    // there whenever it is called, at the end of the process too: that memory is never used again.
    void cancel(int posted) noexcept override {
        Posted& mine = posted_[static_cast<std::size_t>(posted)];
        for (MPI_Request& request : mine.requests) {
            if (request == MPI_REQUEST_NULL) continue;
            cut_off = true;
            if (mine.received) MPI_Cancel(&request);
            int done = 0;
            for (int i = 0; i < 100 && !done; ++i) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
            if (done) continue;
            memory::keep_for_ever(mine.data, mine.bytes);
            MPI_Request_free(&request);
        }
        mine.used = false;
    }

private:
    using Requests = std::vector<MPI_Request>;
    struct Posted {
        Requests requests;
        const void* data;
        std::size_t bytes;
        int peer;
        bool received, used;
    };

    // MPI counts in int.
    template <class F>
    static void in_pieces(std::size_t bytes, F&& f) {
        constexpr std::size_t max_bytes = std::size_t{1} << 30;
        for (std::size_t at = 0; at < bytes; at += max_bytes) f(at, static_cast<int>(std::min(max_bytes, bytes - at)));
    }

    int remember(Posted posted) {
        std::size_t i = 0;
        while (i < posted_.size() && posted_[i].used) ++i;
        if (i == posted_.size()) posted_.emplace_back();
        posted_[i] = std::move(posted);
        return static_cast<int>(i);
    }

    int wait_for(Requests& requests, int peer) {
        try {
            return tag_of_last(requests, peer);
        } catch (...) {
            cut_off = true;
            throw;
        }
    }

    // The tag of the last message. Stops for Ctrl-C, when the rank that is waited for has failed or ended its
    // script, and after the longest wait that was asked for.
    int tag_of_last(Requests& requests, int peer) {
        int tag = 0, polls_after_end = 0;
        double noticed = 0;
        for (MPI_Request& request : requests) {
            double first = 0;  // when the wait began
            for (long polls = 0;; ++polls) {
                int done = 0;
                MPI_Status status;
                if (!require_message(MPI_Test(&request, &done, &status))) refuse_message(peer);
                if (done) {
                    tag = status.MPI_TAG;
                    break;
                }
                if (polls == 0) first = MPI_Wtime();
                // On a busy machine a poll may take as long as other processes have the core.
                if (polls < 2000 && (polls % 16 != 0 || MPI_Wtime() < first + 1e-3)) continue;
                sched_yield();  // ranks may share a core
                if (polls % 16 != 0) continue;
                interrupt::check();
                rest(MPI_Wtime() - first, peer);
                int ended = 0;
                if (heeds_) heed_ends();
                MPI_Iprobe(peer, ended_tag, control, &ended, &status);
                const Failure* const failure = failure_of(peer);
                // What it sent before may still be on its way.
                if ((ended || failure) && polls_after_end++ == 0) noticed = MPI_Wtime();
                if (polls_after_end <= 10 || MPI_Wtime() < noticed + 0.1) continue;
                if (failure) meetings->give_up(*failure);
                fail("engine: \"mpi\", rank ", status.MPI_SOURCE, " has ended its script while rank ", world_rank,
                     " waits for it; every rank has to make the same calls");
            }
        }
        return tag;
    }

    // One that belongs to another meeting: a rank that has failed in this one sends it, and its reason is on its way
    // too, or it was left by a call that has failed on all ranks.
    [[noreturn]] static void refuse_message(int peer) {
        cut_off = true;
        for (const double first = MPI_Wtime(); MPI_Wtime() < first + 0.1; sched_yield())
            if (const Failure* const failure = failure_of(-1)) meetings->give_up(*failure);
        fail("engine: \"mpi\", rank ", world_rank, " got a message of rank ", peer,
             " that belongs to another call; every rank has to make the same calls, and none that has failed in the "
             "middle can be followed by others");
    }

    static const Failure* failure_of(int peer) {
        if (!meetings) return nullptr;
        hear_of_failures();
        meetings->judge();
        return meetings->failure_of(peer);
    }

    // A rank that has waited long leaves the core to others, at a cost of at most a thousandth of the wait.
    static void rest(double waited, int peer) {
        if (waited > 0.1) std::this_thread::sleep_for(std::chrono::microseconds(waited > 2 ? 2000 : 100));
        const bool own = most_waiting_in_call > 0;
        const double most = own ? most_waiting_in_call : most_waiting;
        if (most > 0 && waited > most) fail_as<Timeout>(waited_sentence(peer, most, own ? "timeout" : limit_name));
    }

    MPI_Comm ranks_;
    std::vector<Posted> posted_;
    bool heeds_ = false;
};

}  // namespace

bool mpi_built() noexcept { return true; }

void start_mpi() {
    if (started) return;
    if (const std::string fault = mpi_fault(); !fault.empty()) fail(fault);
    most_waiting = limit_asked_for();
    int provided = 0;
    require(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "starting");
    started = true;
    // MPI ends the job at an error unless it is to return it; communicators made of this one do as it does.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    require(MPI_Comm_dup(MPI_COMM_WORLD, &control), "starting");
    require(MPI_Comm_dup(MPI_COMM_WORLD, &beside), "starting");
    if (world_size > 1) meetings.emplace(world_rank, world_size);
    int* largest_tag = nullptr;
    int found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&largest_tag), &found);
    if (found) numbers_in_tag = std::max<std::int64_t>(1, (std::int64_t{*largest_tag} + 1) / rounds_in_tag);
    on_exit(finish_mpi, nullptr);
    std::random_device fresh;
    std::uint64_t shared[] = {random::seed(), std::uint64_t{fresh()} << 32 | fresh()};
    require(MPI_Bcast(shared, 2, MPI_UINT64_T, 0, MPI_COMM_WORLD), "starting");
    random::set_seed(shared[0]);
    job = shared[1];
    if (world_rank == 0) return;
    std::fflush(stdout);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) dup2(nowhere, STDOUT_FILENO);
    shown_errors = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    kept_errors = memfd_create("errors", MFD_CLOEXEC);
    if (kept_errors >= 0) dup2(kept_errors, STDERR_FILENO);
}

int mpi_rank() noexcept { return world_rank; }
int mpi_size() noexcept { return world_size; }
std::uint64_t mpi_job() noexcept { return job; }

void run_mpi(const Program& program) {
    start_mpi();
    const auto run = [&] {
        MpiCommunicator comm(MPI_COMM_WORLD);
        program(comm);
    };
    if (!meetings) return run();
    const SharedCall here(depth == 0);
    meetings->refuse_if_over();
    cut_off = false;
    ++met_others;
    try {
        hear_of_failures();
        meetings->begin();
        run();
        hear_of_failures();
        meetings->end();
    } catch (const std::exception& error) {
        tell_failure_for(reason_of(&error), cut_off);
        throw;
    } catch (...) {
        tell_failure_for(reason_of(nullptr), cut_off);
        throw;
    }
}

SharedCall::SharedCall(bool shared) : shared_(shared) {
    if (shared) start_mpi();
    shared_ = shared && meetings;
    if (shared_ && depth > 0) place_ = meetings->now().place;
    if (!shared_ || depth++ > 0) return;
    tell_failed_call();
    last_reason.clear();
    meetings->begin_call();
}

SharedCall::~SharedCall() {
    if (shared_ && --depth == 0 && !failed_before_meeting) meetings->end_call();
}

void SharedCall::begin() {
    if (!shared_) return;
    meetings->refuse_if_over();
    hear_of_failures();
    meetings->judge();
}

void SharedCall::tell_failure(const std::exception* error) noexcept {
    if (!shared_ || failed_before_meeting) return;
    const bool memory = error && kind_of(*error) == ErrorKind::out_of_memory;
    if (memory && meetings->untold() && meetings->now().place == place_) failed_before_meeting = true;
    else tell_failure_for(reason_of(error), false);
}

void tell_failed_call() noexcept {
    if (std::exchange(failed_before_meeting, false)) tell_failure_for(text_of(ErrorKind::out_of_memory), false);
}

void note_reason(const std::string& reason) noexcept {
    if (depth == 0) return;
    try {
        last_reason = reason;
    } catch (const std::bad_alloc&) {
        last_reason.clear();
    }
}

void take_back_failed_call() noexcept {
    if (std::exchange(failed_before_meeting, false) && depth == 0) meetings->take_back_call();
}

#endif

}  // namespace causeway::distributed
