#include "gpu/engine/engine.hpp"

#include "core/distributed/devices.hpp"
#include "gpu/base/error.hpp"

#ifdef CAUSEWAY_NCCL
#include "core/distributed/mpi.hpp"
#include "gpu/base/device.hpp"
#include "gpu/distributed/team.hpp"
#include "gpu/engine/worker.hpp"
#include "gpu/tensor/tensor.hpp"
#endif

namespace causeway::gpu {
namespace {

using distributed::Communicator;
using distributed::OnDevice;
using distributed::Program;
using distributed::Share;

#ifdef CAUSEWAY_NCCL

class NcclEngine final : public distributed::DeviceEngine {
public:
    // When the process ends NCCL and CUDA may be gone already, and the system takes back what the team has.
    ~NcclEngine() override { static_cast<void>(team_.release()), static_cast<void>(processes_.release()); }

    int devices() override {
        std::string why;
        if (!device_available(&why)) fail_as<SystemError>("engine: \"nccl\" cannot run: ", why);
        nccl();
        int count = 0;
        check(cudaGetDeviceCount(&count), "counting the GPUs");
        return count;
    }
    void check_sizes(const distributed::Sizes& z) override { check_widths(z); }

    void run(int p, const Program& program) override {
        if (!team_ || team_->size() != p) {
            team_.reset();
            team_ = std::make_unique<Team>(p);
        }
        try {
            team_->run(program);
        } catch (...) {
            if (!team_->usable()) team_.reset();
            throw;
        }
    }

    void check_processes() override {
        devices();
        if (failed_)
            fail(
                "engine: \"nccl\", a call on the GPUs of several processes has failed in the middle, expected none "
                "that did: no such call can follow in this job");
    }
    // What is on its way when one fails cannot be told from what comes later.
    void run_processes(const Program& program) override {
        check_processes();
        try {
            if (!processes_)
                distributed::run_mpi([&](Communicator& comm) { processes_ = std::make_unique<Team>(comm); });
            processes_->run(program);
        } catch (...) {
            failed_ = !processes_ || !processes_->usable();
            throw;
        }
    }

    std::unique_ptr<OnDevice<float>> worker(Communicator& comm, const Share<float>& share) override {
        return worker_of(comm, share);
    }
    std::unique_ptr<OnDevice<std::uint16_t>> worker(Communicator& comm, const Share<std::uint16_t>& share) override {
        return worker_of(comm, share);
    }

private:
    template <class E>
    static std::unique_ptr<OnDevice<E>> worker_of(Communicator& comm, const Share<E>& share) {
        return flash_worker(dynamic_cast<NcclCommunicator&>(comm).mine(), type_of(share.type), share);
    }

    std::unique_ptr<Team> team_, processes_;
    bool failed_ = false;
};

#else

class NcclEngine final : public distributed::DeviceEngine {
public:
    int devices() override {
        fail(
            "engine: \"nccl\" is not built in, expected \"threads\" or \"mpi\" (nccl.h was missing when this program "
            "was built)");
    }
    void check_sizes(const distributed::Sizes&) override { devices(); }
    void run(int, const Program&) override { devices(); }
    void run_processes(const Program&) override { devices(); }
    void check_processes() override { devices(); }
    std::unique_ptr<OnDevice<float>> worker(Communicator&, const Share<float>&) override { fail("engine: no worker"); }
    std::unique_ptr<OnDevice<std::uint16_t>> worker(Communicator&, const Share<std::uint16_t>&) override {
        fail("engine: no worker");
    }
};

#endif

}  // namespace

void enter_nccl() {
    if (!distributed::entered_nccl()) distributed::enter_nccl(std::make_unique<NcclEngine>());
}

}  // namespace causeway::gpu
