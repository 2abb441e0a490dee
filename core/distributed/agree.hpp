// How ranks that each make the same call find out that they do.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/error.hpp"
#include "core/distributed/collectives.hpp"

namespace causeway::distributed {

// What a rank was given, and how a message shows it.
struct Given {
    const char* name;
    std::int64_t value;
    std::string (*text)(std::int64_t) = [](std::int64_t x) { return std::to_string(x); };
};

inline std::string truth(std::int64_t x) { return x ? "true" : "false"; }

// Before any work every rank compares what it was given with what rank 0 was given; all fail alike.
inline void agree(Communicator& comm, const std::vector<Given>& mine) {
    const auto n = static_cast<Index>(mine.size());
    std::vector<std::int64_t> values, all(static_cast<std::size_t>(n * comm.size()));
    for (const Given& given : mine) values.push_back(given.value);
    all_gather(comm, all_ranks(comm), values.data(), n, all.data());
    for (int r = 1; r < comm.size(); ++r)
        for (Index i = 0; i < n; ++i)
            if (const auto got = all[static_cast<std::size_t>(r * n + i)], expected = all[static_cast<std::size_t>(i)];
                got != expected) {
                const Given& given = mine[static_cast<std::size_t>(i)];
                fail(given.name, " ", given.text(got), " on rank ", r, ", expected ", given.text(expected),
                     " like rank 0; every rank has to make the same call");
            }
}

enum class Call {
    ring,
    tree,
    link_speed,
    linear,
    linear_grad,
    causal,
    causal_grad,
    softmax,
    softmax_grad,
    move,
    save,
    gpu_tree,
    gpu_linear,
    gpu_linear_grad,
    gpu_causal,
    gpu_causal_grad,
    gpu_softmax,
    gpu_softmax_grad,
    gpu_move
};

// What ranks compare first, for other calls compare more and other things.
inline void agree_on_call(Communicator& comm, Call mine) {
    agree(comm, {{"call:", static_cast<std::int64_t>(mine), [](std::int64_t x) -> std::string {
                      static constexpr const char* names[] = {"ring_decode",
                                                              "tree_decode",
                                                              "link_speed",
                                                              "linear_attention",
                                                              "linear_attention_grad",
                                                              "causal_linear_attention",
                                                              "causal_linear_attention_grad",
                                                              "softmax_attention",
                                                              "softmax_attention_grad",
                                                              "shard or unshard",
                                                              "save",
                                                              "tree_decode on a GPU",
                                                              "linear_attention on a GPU",
                                                              "linear_attention_grad on a GPU",
                                                              "causal_linear_attention on a GPU",
                                                              "causal_linear_attention_grad on a GPU",
                                                              "softmax_attention on a GPU",
                                                              "softmax_attention_grad on a GPU",
                                                              "unshard on a GPU"};
                      return x >= 0 && x < static_cast<std::int64_t>(std::size(names)) ? names[x] : "another";
                  }}});
}

// Of the bits of all values, by Fowler, Noll and Vo. O(n).
template <class T>
std::int64_t checksum(const T* x, Index n) {
    std::uint64_t sum = 0xcbf29ce484222325;
    for (Index i = 0; i < n; ++i)
        sum = (sum ^ std::bit_cast<std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>(x[i])) *
              0x100000001b3;
    return static_cast<std::int64_t>(sum);
}

// The same of up to 256 of n values at(i), spread over all.
template <class T, class At>
std::int64_t sampled_checksum(Index n, At&& at) {
    const Index samples = std::min<Index>(n, 256);
    std::vector<T> values;
    for (Index i = 0; i < samples; ++i) values.push_back(at(i * (n / samples)));
    return checksum(values.data(), samples);
}
template <class T>
std::int64_t sampled_checksum(const T* x, Index n) {
    return sampled_checksum<T>(n, [&](Index i) { return x[i]; });
}

}  // namespace causeway::distributed
