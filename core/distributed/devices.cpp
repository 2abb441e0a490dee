#include "core/distributed/devices.hpp"

#include "core/base/error.hpp"

namespace causeway::distributed {
namespace {

// Never destroyed: it owns threads, which the end of the program must not wait for.
std::unique_ptr<DeviceEngine>& entered() {
    static auto& engine = *new std::unique_ptr<DeviceEngine>;
    return engine;
}

}  // namespace

void enter_nccl(std::unique_ptr<DeviceEngine> engine) { entered() = std::move(engine); }

DeviceEngine* entered_nccl() noexcept { return entered().get(); }

DeviceEngine& nccl() {
    if (!entered())
        fail(
            "engine: \"nccl\" is not built in, expected \"threads\" or \"mpi\" (this program was built without CUDA; "
            "./lab build gpu builds it in)");
    return *entered();
}

}  // namespace causeway::distributed
