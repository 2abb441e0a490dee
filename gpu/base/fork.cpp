#include "gpu/base/fork.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "gpu/base/error.hpp"
#include "gpu/base/succeeded.hpp"

namespace causeway::gpu {

namespace {

// Streams that no Fork has now, of each device and stream that they were beside: a new one costs more than a short text
// queues. Those that were beside another stream are not handed out, as their work would be waited for.
class Kept {
public:
    cudaStream_t take(int device, cudaStream_t beside) {
        const std::lock_guard lock(guard_);
        const auto found = streams_.find({device, beside});
        if (found == streams_.end() || found->second.empty()) return nullptr;
        const cudaStream_t stream = found->second.back();
        found->second.pop_back();
        return stream;
    }
    // False where there are enough.
    bool keep(int device, cudaStream_t beside, cudaStream_t stream) noexcept {
        constexpr std::size_t most_streams = 8, most_beside = 64;
        try {
            const std::lock_guard lock(guard_);
            if (streams_.size() >= most_beside && !streams_.contains({device, beside})) return false;
            std::vector<cudaStream_t>& of = streams_[{device, beside}];
            if (of.size() >= most_streams) return false;
            of.push_back(stream);
            return true;
        } catch (...) {
            return false;  // no memory to keep it in
        }
    }

private:
    std::mutex guard_;
    std::map<std::pair<int, cudaStream_t>, std::vector<cudaStream_t>> streams_;
};

// They live as long as the process.
Kept& kept() {
    static auto& all = *new Kept;
    return all;
}

}  // namespace

Fork::Fork(cudaStream_t stream, std::size_t count) : stream_(stream), captured_(is_captured(stream)) {
    check(cudaGetDevice(&device_), "asking for the device");
    now_.record(stream);
    side_.reserve(count);
    try {
        while (side_.size() < count) {
            cudaStream_t side = captured_ ? nullptr : kept().take(device_, stream);
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
        if (!joined_ || captured_ || !kept().keep(device_, stream_, side)) succeeded(cudaStreamDestroy(side));
    }
}

}  // namespace causeway::gpu
