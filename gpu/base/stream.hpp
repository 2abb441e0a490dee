// Streams and events that destroy themselves, and whether a stream is captured.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/base/choose_device.hpp"
#include "gpu/base/error.hpp"
#include "gpu/base/succeeded.hpp"

namespace causeway::gpu {

class Stream {
public:
    Stream() {
        enter_chosen_device();
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream() { succeeded(cudaStreamDestroy(stream_)); }
    operator cudaStream_t() const { return stream_; }
    void wait() const { check(cudaStreamSynchronize(stream_), "running kernels"); }

private:
    cudaStream_t stream_ = nullptr;
};

// Whether what is queued on the stream goes to a CUDA graph.
inline bool is_captured(cudaStream_t stream) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(stream, &capture), "asking whether a graph is captured");
    return capture != cudaStreamCaptureStatusNone;
}

class Event {
public:
    Event() { check(cudaEventCreate(&event_), "creating an event"); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    ~Event() { succeeded(cudaEventDestroy(event_)); }
    operator cudaEvent_t() const { return event_; }
    void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "recording an event"); }
    // Milliseconds from `start` to this event, once both have happened.
    float since(const Event& start) const {
        float ms = 0;
        check(cudaEventSynchronize(event_), "running kernels");
        check(cudaEventElapsedTime(&ms, start.event_, event_), "reading an event");
        return ms;
    }

private:
    cudaEvent_t event_ = nullptr;
};

}  // namespace causeway::gpu
