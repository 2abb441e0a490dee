// Ranks as processes, started together by mpirun.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "core/distributed/communicator.hpp"

namespace causeway::distributed {

bool mpi_built() noexcept;     // MPI was found when the program was built
bool mpi_launched() noexcept;  // this process was started by mpirun

// Starts MPI, once; ranks other than 0 are silent from then on: what they print is dropped, their errors are shown when
// the process ends, unless rank 0 fails too. When this process ends with an error, so do all; when it ends while
// another rank waits for it, that rank fails. The environment variable CAUSEWAY_MPI_TIMEOUT, seconds, bounds how long a
// rank waits for another, which may loop without end, where no MpiTimeout does; without either there is no bound.
// Throws Error where MPI was not built in, or where that variable is no number above 0.
void start_mpi();

// While it lives, a rank of this process waits so many seconds for another at most; 0 leaves the bound as it is. The
// option timeout of the calls that run on MPI. Throws Error for what is no number of seconds.
class MpiTimeout {
public:
    explicit MpiTimeout(double seconds);
    ~MpiTimeout();
    MpiTimeout(const MpiTimeout&) = delete;
    MpiTimeout& operator=(const MpiTimeout&) = delete;

private:
    double before_;
};

// What is wrong with CAUSEWAY_MPI_TIMEOUT, in a sentence, or "".
std::string mpi_fault();

int mpi_rank() noexcept;  // 0 before start_mpi
int mpi_size() noexcept;  // 1 before start_mpi
// The number of this process among those of its host, as mpirun says it; the rank where it does not.
int mpi_local_rank() noexcept;

// A number that the ranks of this job share and no other job has; 0 before start_mpi.
std::uint64_t mpi_job() noexcept;

// Runs `program` on this process's rank of all; every rank has to make the same calls. Starts MPI. Where a rank fails
// in it and another does not, the others fail within a tenth of a second of their next wait for it, with its reason,
// and no such call can follow in this job: messages that were left could be taken for later ones. Throws SystemError
// then.
void run_mpi(const Program& program);

// Times that this process has met others in run_mpi or told them of a failure.
inline std::int64_t met_others = 0;

// A call that processes share while it lives, where `shared` and there are several: what fails in it before or between
// its meetings is told to the other ranks too. Within another it is a part of that.
class SharedCall {
public:
    explicit SharedCall(bool shared);  // starts MPI where `shared`
    ~SharedCall();
    SharedCall(const SharedCall&) = delete;
    SharedCall& operator=(const SharedCall&) = delete;
    void begin();  // throws SystemError where no call can follow
    void tell_failure(const std::exception* error) noexcept;

private:
    bool shared_;
    std::int64_t place_ = 0;  // the meetings before it, of the call that it is a part of
};
template <class F>
auto shared_call(bool shared, F&& f) {
    SharedCall call(shared);
    try {
        call.begin();
        return f();
    } catch (const std::exception& error) {
        call.tell_failure(&error);
        throw;
    } catch (...) {  // an error of Lua's
        call.tell_failure(nullptr);
        throw;
    }
}

// Where a shared call has failed for want of memory before it met others, they are told when the next one begins.
void tell_failed_call() noexcept;       // they are told now
void take_back_failed_call() noexcept;  // they are not told, as the call is made again

// What others are told where the shared call that this process is in, if it is in one, ends by an error that is no
// std::exception: the last reason that was noted in it.
void note_reason(const std::string& reason) noexcept;

}  // namespace causeway::distributed
