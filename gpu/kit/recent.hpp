// The last few values that were made, by what they were made of.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

namespace causeway::gpu {

// Holds `count` values; the oldest gives way. Of one thread: a static one is thread_local.
template <class Key, class Value, std::size_t count>
class Recent {
public:
    // The value of an equal key, or else what make() gives, which is kept. Where make() throws all stays as it was. The
    // reference holds until `count` others have been made.
    template <class F>
    const Value& get(Key key, F&& make) {
        for (const auto& entry : kept_) {
            if (entry && entry->first == key) return entry->second;
        }
        Value value = make();
        auto& entry = kept_[oldest_];
        oldest_ = (oldest_ + 1) % count;
        entry.emplace(std::move(key), std::move(value));
        return entry->second;
    }

private:
    std::array<std::optional<std::pair<Key, Value>>, count> kept_;
    std::size_t oldest_ = 0;
};

}  // namespace causeway::gpu
