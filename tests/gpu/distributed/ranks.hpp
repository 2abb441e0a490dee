// Ranks for tests: on a GPU each over NCCL, and several that share one GPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/distributed/collectives.hpp"
#include "core/distributed/devices.hpp"
#include "gpu/base/error.hpp"
#include "gpu/engine/engine.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

namespace causeway::test {

// A rank of a thread whose data are in memory that the CPU and the GPU share: messages wait for the stream. NCCL has
// one rank a GPU; so the text of an exchange can be tried with one GPU, though not its messages.
class SharedGpu final : public distributed::Communicator {
public:
    SharedGpu(distributed::Communicator& thread, cudaStream_t stream)
        : distributed::Communicator(thread.rank(), thread.size()), thread_(thread), stream_(stream) {}

    void barrier() override { thread_.barrier(); }
    double now() const override { return thread_.now(); }
    distributed::Communicator& host() override { return thread_; }
    bool gathers() const override { return true; }
    std::shared_ptr<void> allocate(distributed::Held, std::size_t bytes) override {
        void* block = nullptr;
        gpu::check(cudaHostAlloc(&block, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "shared memory");
        return {block, [this](void* given) {
                    cudaStreamSynchronize(stream_);
                    cudaFreeHost(given);
                }};
    }

protected:
    int post_send(const void* data, std::size_t bytes, int to, Index) override {
        gpu::check(cudaStreamSynchronize(stream_), "kernels before a message");
        posted_.push_back(thread_.send(static_cast<const char*>(data), static_cast<Index>(bytes), to));
        return static_cast<int>(posted_.size()) - 1;
    }
    int post_receive(void* data, std::size_t bytes, int from) override {
        posted_.push_back(thread_.receive(static_cast<char*>(data), static_cast<Index>(bytes), from));
        return static_cast<int>(posted_.size()) - 1;
    }
    Index finish(int posted) override {
        gpu::check(cudaStreamSynchronize(stream_), "kernels before a message");
        posted_[static_cast<std::size_t>(posted)].wait();
        return 0;
    }
    void cancel(int) noexcept override {}
    void all_blocks(const void* mine, std::size_t bytes, void* out) override {
        gpu::check(cudaStreamSynchronize(stream_), "kernels before a message");
        all_gather(thread_, all_ranks(thread_), static_cast<const char*>(mine), static_cast<Index>(bytes),
                   static_cast<char*>(out));
    }

private:
    distributed::Communicator& thread_;
    cudaStream_t stream_;
    std::vector<distributed::Transfer> posted_;
};

// GPUs that the engine has; 0, and the test is counted as skipped, where it has fewer than it needs.
inline int gpus(int needed) {
    gpu::enter_nccl();
    int have = 0;
    const std::string why = testing::message_of([&] { have = distributed::nccl().devices(); });
    if (have >= needed) return have;
    skip("tests of NCCL", !why.empty() ? why : "a test needs " + std::to_string(needed) + " GPUs, there is one");
    return 0;
}

}  // namespace causeway::test
