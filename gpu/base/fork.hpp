// Streams beside a stream, for work that needs nothing of each other.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "gpu/base/error.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/base/succeeded.hpp"

namespace causeway::gpu {

// `count` streams of the current device that begin behind what `stream` has queued. What is queued on `stream` after
// the fork ends begins behind all of theirs, whether it ends well or by an exception. May be captured into a graph.
class Fork {
public:
    Fork(cudaStream_t stream, std::size_t count) : stream_(stream) {
        now_.record(stream);
        side_.reserve(count);
        try {
            while (side_.size() < count) {
                cudaStream_t side = nullptr;
                check(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking), "creating a stream");
                side_.push_back(side);
                check(cudaStreamWaitEvent(side, now_), "waiting for a stream");
            }
        } catch (...) {
            end();
            throw;
        }
    }
    Fork(const Fork&) = delete;
    Fork& operator=(const Fork&) = delete;
    ~Fork() { end(); }

    cudaStream_t operator[](std::size_t i) const { return side_[i]; }
    // Joins the streams; throws Error where that fails.
    void join() {
        for (const cudaStream_t side : side_) {
            now_.record(side);
            check(cudaStreamWaitEvent(stream_, now_), "waiting for a stream");
        }
        joined_ = true;
    }

private:
    void end() {
        for (const cudaStream_t side : side_) {
            // Where joining fails, waiting is what is left.
            if (!joined_ && !(succeeded(cudaEventRecord(now_, side)) && succeeded(cudaStreamWaitEvent(stream_, now_))))
                succeeded(cudaStreamSynchronize(side));
            succeeded(cudaStreamDestroy(side));
        }
    }

    cudaStream_t stream_;
    Event now_;
    std::vector<cudaStream_t> side_;
    bool joined_ = false;
};

}  // namespace causeway::gpu
