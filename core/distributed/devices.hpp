// The engine whose ranks are devices. core knows no device: the library that does enters its engine here.
#pragma once

#include <cstdint>
#include <memory>

#include "core/distributed/communicator.hpp"
#include "core/distributed/local.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::distributed {

// A worker on a device, its queries and its share of the keys and values in the memory of the CPU until they are taken.
template <class E>
class OnDevice : public Local<float, E> {
public:
    // Copies the share to the device, where it stays while this lives; for workers whose keys stay where they are.
    virtual Shard<E> take() = 0;
};

// A share of a call: queries [rows, dk], keys and values as in Shard, all in the memory of the CPU, of this type.
template <class E>
struct Share {
    Sizes sizes;
    DType type;
    const E* q;
    Shard<E> shard;
};

class DeviceEngine {
public:
    virtual ~DeviceEngine() = default;
    // At least 1. Throws Error, one sentence, where the engine cannot run on this machine or was not built.
    virtual int devices() = 0;
    // Throws Error where the engine cannot compute with them; before any rank is at work.
    virtual void check_sizes(const Sizes&) = 0;
    // Runs `program` on p ranks, 1 <= p <= devices(), rank r on device r; like run_threads.
    virtual void run(int p, const Program& program) = 0;
    // Runs `program` on this process's rank of all that mpirun has started, on the device that it has chosen; every
    // rank has to make the same calls. Where a rank fails in the middle, so do all, and no such call can follow.
    virtual void run_processes(const Program& program) = 0;
    virtual void check_processes() = 0;  // throws Error where no such call can follow
    // On the thread of the communicator's rank; what the share points to must outlive it. E has the size of the type.
    virtual std::unique_ptr<OnDevice<float>> worker(Communicator&, const Share<float>&) = 0;
    virtual std::unique_ptr<OnDevice<std::uint16_t>> worker(Communicator&, const Share<std::uint16_t>&) = 0;
};

// The engine "nccl". null: none was entered.
void enter_nccl(std::unique_ptr<DeviceEngine>);
DeviceEngine* entered_nccl() noexcept;
DeviceEngine& nccl();  // throws Error where none was entered

}  // namespace causeway::distributed
