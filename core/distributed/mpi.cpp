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
#include <optional>
#include <random>
#include <thread>

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
SharedCall::SharedCall(bool) : shared_(false) {}
SharedCall::~SharedCall() = default;
void SharedCall::tell_failure(const std::exception&) noexcept {}

#else

namespace {

int world_rank = 0, world_size = 1;
std::uint64_t job = 0;
bool started = false;
MPI_Comm control;  // on which a rank says that it has ended, or given up a call
constexpr int ended_tag = 0, given_up_tag = 1, failed_tag = 2;
MPI_Comm beside;          // for messages apart from the others
double most_waiting = 0;  // seconds that a rank waits for another outside of calls with a timeout; 0: without end
int kept_errors = -1, shown_errors = -1;
off_t told = 0;  // so many bytes of the kept errors have been shown

void require(int code, const char* what) {
    if (code != MPI_SUCCESS) fail("engine: \"mpi\", ", what, " failed with error ", code, " of MPI");
}

// Of a wait for a message of rank `peer` (-1: any). Ranks that make other calls send messages of other lengths.
void require_message(int code, int peer) {
    if (code == MPI_SUCCESS) return;
    int kind = code;
    MPI_Error_class(code, &kind);
    if (kind != MPI_ERR_TRUNCATE) require(code, "waiting");
    fail("engine: \"mpi\", ", peer < 0 ? "another rank" : sentence("rank ", peer), " sent a longer message than rank ",
         world_rank, " waits for; every rank has to make the same calls");
}

// peer: -1 for any.
std::string waited_sentence(int peer, double seconds, const char* bound) {
    return sentence("engine: \"mpi\", rank ", world_rank, " waited ", seconds, " s (", bound, ") for ",
                    peer < 0 ? "the others" : sentence("rank ", peer), ", which neither answered nor ended");
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

std::optional<Meetings> meetings;  // where there are several ranks
bool cut_off = false;              // in the meeting, a message stayed on its way
std::int64_t meetings_in_tag = 1;  // as many as MPI's largest tag leaves room for

// With a message travel its round and, as far as it fits, the number of the meeting that it belongs to.
constexpr int rounds_in_tag = 1 << 15;
int tag_of(Index round) {
    const std::int64_t meeting = meetings ? meetings->number() % meetings_in_tag : 0;
    return static_cast<int>(meeting * rounds_in_tag + std::min<Index>(round, rounds_in_tag - 1));
}

int calls = 0;  // that are shared and have begun, one in the other

void hear_of_failures() {
    for (;;) {
        int came = 0, bytes = 0;
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, failed_tag, control, &came, &status);
        if (!came) return;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        std::string text(static_cast<std::size_t>(bytes), '\0');
        MPI_Recv(text.data(), bytes, MPI_BYTE, status.MPI_SOURCE, failed_tag, control, MPI_STATUS_IGNORE);
        std::int64_t numbers[3];
        std::memcpy(numbers, text.data(), sizeof numbers);
        meetings->hear({numbers[0], status.MPI_SOURCE, numbers[1] != 0, static_cast<int>(numbers[2]),
                        text.substr(sizeof numbers)});
    }
}

void tell_others(const Failure& failure) {
    static std::deque<std::string> said;  // MPI may look at what it sends for long
    const std::int64_t numbers[] = {failure.meeting, failure.cut_off, failure.rank};
    std::string& text = said.emplace_back(reinterpret_cast<const char*>(numbers), sizeof numbers);
    text += failure.reason;
    for (int r = 0; r < world_size; ++r) {
        MPI_Request request;
        if (r == world_rank) continue;
        MPI_Isend(text.data(), static_cast<int>(text.size()), MPI_BYTE, r, failed_tag, control, &request);
        MPI_Request_free(&request);
    }
}

// failure_of(reason): this rank's, for the reason that the error gives.
template <class F>
void tell_failure_to_others(const std::exception& error, F&& failure_of) noexcept {
    const bool memory = dynamic_cast<const std::bad_alloc*>(&error);
    try {
        tell_others(failure_of(memory ? text_of(ErrorKind::out_of_memory) : error.what()));
    } catch (...) {
        meetings->fail_untold();
    }
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

    void barrier() override {
        Requests request(1);
        require(MPI_Ibarrier(ranks_, &request[0]), "a barrier");
        wait_for(request, -1);
    }

    double now() const override { return MPI_Wtime(); }

    std::unique_ptr<Communicator> apart() override { return std::make_unique<MpiCommunicator>(beside); }
    void end_waits() noexcept override { tell_others(given_up_tag); }
    void heed_ends() override {
        heeds_ = true;
        int given_up = 0;
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, given_up_tag, control, &given_up, &status);
        if (given_up)
            fail("engine: rank ", status.MPI_SOURCE, " has given up a call that it shares with rank ", world_rank,
                 ", for the reason that it says itself; no such call can follow in this job");
    }

protected:
    // Messages between two ranks keep their order whatever their tags.
    int post_send(const void* data, std::size_t bytes, int to, Index round) override {
        Posted posted{{}, to, false, true};
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
        Posted posted{{}, from, true, true};
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

    // After an error this process ends, and the job with it, or the script has caught it, and no message follows. What
    // has not begun to come is not received any more; what is sent and has not left stays with MPI.
    void cancel(int posted) noexcept override {
        Posted& mine = posted_[static_cast<std::size_t>(posted)];
        for (MPI_Request& request : mine.requests) {
            if (request == MPI_REQUEST_NULL) continue;
            cut_off = true;
            if (mine.received) MPI_Cancel(&request);
            MPI_Request_free(&request);
        }
        mine.used = false;
    }

private:
    using Requests = std::vector<MPI_Request>;
    struct Posted {
        Requests requests;
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

    // The tag of the last message. Stops for Ctrl-C, when the rank that is waited for (-1: any) has failed or ended its
    // script, and after the longest wait that was asked for.
    int tag_of_last(Requests& requests, int peer) {
        int tag = 0, polls_after_end = 0;
        double noticed = 0;
        for (MPI_Request& request : requests) {
            double first = 0;  // when the wait began to be long
            for (long polls = 0;; ++polls) {
                int done = 0;
                MPI_Status status;
                require_message(MPI_Test(&request, &done, &status), peer);
                if (done) {
                    tag = status.MPI_TAG;
                    break;
                }
                if (polls < 2000) continue;
                sched_yield();  // ranks may share a core
                if (polls % 16 != 0) continue;
                interrupt::check();
                if (first == 0) first = MPI_Wtime();
                rest(MPI_Wtime() - first, peer);
                int ended = 0;
                if (heeds_) heed_ends();
                MPI_Iprobe(peer < 0 ? MPI_ANY_SOURCE : peer, ended_tag, control, &ended, &status);
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

    // One that belongs to another meeting, as a rank that has failed in this one sends it: its reason is on its way
    // too.
    [[noreturn]] static void refuse_message(int peer) {
        cut_off = true;
        for (const double first = MPI_Wtime(); MPI_Wtime() < first + 0.1;)
            if (const Failure* const failure = failure_of(-1)) meetings->give_up(*failure);
        fail("engine: \"mpi\", rank ", peer, " makes another call than rank ", world_rank,
             "; every rank has to make the same calls");
    }

    static const Failure* failure_of(int peer) {
        if (!meetings) return nullptr;
        hear_of_failures();
        return meetings->failure_of(peer);
    }

    // A rank that has waited long leaves the core to others, at a cost of at most a thousandth of the wait.
    static void rest(double waited, int peer) {
        if (waited > 0.1) std::this_thread::sleep_for(std::chrono::microseconds(waited > 2 ? 2000 : 100));
        const bool own = most_waiting_in_call > 0;
        const double most = own ? most_waiting_in_call : most_waiting;
        if (most > 0 && waited > most) fail(waited_sentence(peer, most, own ? "timeout" : limit_name));
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
    if (world_size > 1) meetings.emplace(world_rank);
    int* largest_tag = nullptr;
    int found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&largest_tag), &found);
    if (found) meetings_in_tag = std::max<std::int64_t>(1, (std::int64_t{*largest_tag} + 1) / rounds_in_tag);
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
    meetings->refuse_if_over();
    cut_off = false;
    try {
        hear_of_failures();
        meetings->begin();
        run();
        hear_of_failures();
        meetings->end();
    } catch (const std::exception& error) {
        tell_failure_to_others(error, [](const char* why) { return meetings->fail_in_meeting(why, cut_off); });
        throw;
    }
}

SharedCall::SharedCall(bool shared) : shared_(shared && world_size > 1) {
    if (shared_ && calls++ == 0) meetings->begin_call();
}

SharedCall::~SharedCall() { calls -= shared_; }

void SharedCall::tell_failure(const std::exception& error) noexcept {
    if (!shared_ || meetings->told()) return;
    tell_failure_to_others(error, [](const char* why) { return meetings->fail_between_meetings(why); });
}

#endif

}  // namespace causeway::distributed
