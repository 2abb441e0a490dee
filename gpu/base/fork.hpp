// Streams beside a stream, for work that needs nothing of each other.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "gpu/base/stream.hpp"

namespace causeway::gpu {

// `count` streams of the current device that begin behind what `stream` has queued. What is queued on `stream` after
// the fork ends begins behind all of theirs, whether it ends well or by an exception. May be captured into a graph.
class Fork {
public:
    Fork(cudaStream_t stream, std::size_t count);
    Fork(const Fork&) = delete;
    Fork& operator=(const Fork&) = delete;
    ~Fork() { end(); }

    cudaStream_t operator[](std::size_t i) const { return side_[i]; }
    // Joins the streams; throws Error where that fails.
    void join();

private:
    void end();

    cudaStream_t stream_;
    bool captured_;
    int device_ = 0;
    Event now_;
    std::vector<cudaStream_t> side_;
    bool joined_ = false;
};

}  // namespace causeway::gpu
