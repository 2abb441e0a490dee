#include "gpu/gated/rounds.hpp"

#include <algorithm>

#include "gpu/kit/copy_list.hpp"

namespace causeway::gpu::gated {

namespace {

using std::int64_t;

template <class T>
std::size_t bytes(const std::vector<T>& x) {
    return x.size() * sizeof(T);
}

}  // namespace

std::vector<Round> rounds_of(const Sequences& sequences, int64_t each, int C, int64_t most_chunks) {
    std::vector<Round> rounds;
    std::vector<int64_t> left(static_cast<std::size_t>(sequences.count));  // those that have an i-th part
    for (std::size_t i = 0; i < left.size(); ++i) left[i] = static_cast<int64_t>(i);
    const auto u = [](int64_t x) { return static_cast<std::uint32_t>(x); };
    for (int64_t begin = 0;; begin += each) {
        std::erase_if(left, [&](int64_t i) { return sequences.offsets[i + 1] - sequences.offsets[i] <= begin; });
        if (left.empty()) return rounds;
        rounds.emplace_back();
        for (const int64_t i : left) {
            const int64_t first = sequences.offsets[i] + begin,
                          tokens = std::min(each, sequences.offsets[i + 1] - first), chunks = (tokens + C - 1) / C;
            if (rounds.back().chunks() > 0 && rounds.back().chunks() + chunks > most_chunks) rounds.emplace_back();
            Round& round = rounds.back();
            round.part_of_chunk.insert(round.part_of_chunk.end(), static_cast<std::size_t>(chunks),
                                       u(static_cast<int64_t>(round.parts.size())));
            round.parts.push_back({u(first), u(tokens), u(i), u(round.chunks() - chunks)});
        }
    }
}

std::size_t bytes_of(const Round& round) { return bytes(round.parts) + bytes(round.part_of_chunk); }

RoundLists copy_lists(const Round& round, void* to, cudaStream_t stream) {
    char* const at = static_cast<char*>(to);
    const auto copy = [&](char* there, const auto& list) {
        copy_list(there, list, stream, "copying the parts of packed sequences");
    };
    char* const chunks = at + bytes(round.parts);
    copy(at, round.parts), copy(chunks, round.part_of_chunk);
    return {reinterpret_cast<const SequencePart*>(at), reinterpret_cast<const std::uint32_t*>(chunks)};
}

}  // namespace causeway::gpu::gated
