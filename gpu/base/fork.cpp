#include "gpu/base/fork.hpp"

#include <map>
#include <mutex>
#include <utility>

namespace causeway::gpu {

namespace {

// Streams of each device that no Fork has: a new one costs more than what a short text queues on it.
class Kept {
public:
    cudaStream_t take(int device) {
        const std::lock_guard lock(guard_);
        std::vector<cudaStream_t>& of = streams_[device];
        if (of.empty()) return nullptr;
        return take_last(of);
    }
    // False where there are enough.
    bool keep(int device, cudaStream_t stream) {
        constexpr std::size_t most = 32;
        const std::lock_guard lock(guard_);
        std::vector<cudaStream_t>& of = streams_[device];
        if (of.size() >= most) return false;
        of.push_back(stream);
        return true;
    }

private:
    static cudaStream_t take_last(std::vector<cudaStream_t>& of) {
        const cudaStream_t stream = of.back();
        of.pop_back();
        return stream;
    }

    std::mutex guard_;
    std::map<int, std::vector<cudaStream_t>> streams_;
};

// They live as long as the process.
Kept& kept() {
    static Kept all;
    return all;
}

}  // namespace

Fork::Fork(cudaStream_t stream, std::size_t count) : stream_(stream), captured_(is_captured(stream)) {
    check(cudaGetDevice(&device_), "asking for the device");
    now_.record(stream);
    side_.reserve(count);
    try {
        while (side_.size() < count) {
            cudaStream_t side = captured_ ? nullptr : kept().take(device_);
            if (!side) check(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking), "creating a stream");
            side_.push_back(side);
            check(cudaStreamWaitEvent(side, now_), "waiting for a stream");
        }
    } catch (...) {
        end();
        throw;
    }
}

void Fork::join() {
    for (const cudaStream_t side : side_) {
        now_.record(side);
        check(cudaStreamWaitEvent(stream_, now_), "waiting for a stream");
    }
    joined_ = true;
}

void Fork::end() {
    for (const cudaStream_t side : side_) {
        // Where joining fails, waiting is what is left.
        if (!joined_ && !(succeeded(cudaEventRecord(now_, side)) && succeeded(cudaStreamWaitEvent(stream_, now_))))
            succeeded(cudaStreamSynchronize(side));
        // One that is captured belongs to the capture until that ends.
        if (!joined_ || captured_ || !kept().keep(device_, side)) succeeded(cudaStreamDestroy(side));
    }
}

}  // namespace causeway::gpu
