// What may fail on one rank alone, such as writing a file, without the others waiting for it for ever.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/distributed/collectives.hpp"

namespace causeway::distributed {

// The Error of a kind.
[[noreturn]] inline void fail_of_kind(ErrorKind kind, const std::string& message) {
    switch (kind) {
        case ErrorKind::bad_argument: throw Error(message);
        case ErrorKind::out_of_memory: throw OutOfMemory(message);
        case ErrorKind::timeout: throw Timeout(message);
        case ErrorKind::interrupted: throw Interrupted(message);
        case ErrorKind::io: throw IoError(message);
        case ErrorKind::system: break;
    }
    throw SystemError(message);
}

// The text of rank `root` on all ranks.
inline std::string from_rank(Communicator& comm, int root, const std::string& text) {
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(comm.size()));
    const auto mine = static_cast<std::int64_t>(text.size());
    all_gather(comm, all_ranks(comm), &mine, 1, lengths.data());
    const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    std::string padded = text, all(static_cast<std::size_t>(longest * comm.size()), '\0');
    padded.resize(static_cast<std::size_t>(longest));
    all_gather(comm, all_ranks(comm), padded.data(), longest, all.data());
    return all.substr(static_cast<std::size_t>(root * longest),
                      static_cast<std::size_t>(lengths[static_cast<std::size_t>(root)]));
}

// Runs f on every rank. Where it fails on some, all throw the sentence of the first of them, as an Error of its kind.
template <class F>
void together(Communicator& comm, F&& f) {
    std::string fault;
    std::int64_t mine = 0;  // one more than the kind of what went wrong
    try {
        f();
    } catch (const std::exception& error) {
        mine = static_cast<std::int64_t>(kind_of(error)) + 1;
        fault = sentence_of(error);
    }
    std::vector<std::int64_t> failed(static_cast<std::size_t>(comm.size()));
    all_gather(comm, all_ranks(comm), &mine, 1, failed.data());
    const auto first = std::find_if(failed.begin(), failed.end(), [](std::int64_t x) { return x != 0; });
    if (first == failed.end()) return;
    const auto rank = static_cast<int>(first - failed.begin());
    const std::string said = from_rank(comm, rank, fault);
    fail_of_kind(static_cast<ErrorKind>(*first - 1),
                 comm.size() == 1 ? said : sentence(said, " (said by rank ", rank, ")"));
}

}  // namespace causeway::distributed
