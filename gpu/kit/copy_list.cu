#include "gpu/kit/copy_list.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "gpu/base/error.hpp"
#include "gpu/base/stream.hpp"

namespace causeway::gpu {

namespace {

// Arguments of a kernel have 4096 bytes on every device.
constexpr std::size_t words_at_once = 1000, most_launches = 4;

struct Words {
    std::uint32_t word[words_at_once];
};

__global__ void write_words(const __grid_constant__ Words words, unsigned n, std::uint32_t* to) {
    if (threadIdx.x < n) to[threadIdx.x] = words.word[threadIdx.x];
}

}  // namespace

void copy_list(void* to, const void* from, std::size_t bytes, cudaStream_t stream, const char* doing) {
    const std::size_t all = bytes / sizeof(std::uint32_t);
    if (all > most_launches * words_at_once && !is_captured(stream)) {
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), doing);
        return;
    }
    for (std::size_t first = 0; first < all; first += words_at_once) {
        const std::size_t n = std::min(all - first, words_at_once), at = first * sizeof(std::uint32_t);
        Words words;
        std::memcpy(words.word, static_cast<const char*>(from) + at, n * sizeof(std::uint32_t));
        const unsigned threads = static_cast<unsigned>(n + 31) / 32 * 32;
        write_words<<<1, threads, 0, stream>>>(words, static_cast<unsigned>(n),
                                               static_cast<std::uint32_t*>(to) + first);
        check_launch(doing);
    }
}

}  // namespace causeway::gpu
