// The forms of a family by name: what a call offers, what messages list and what tests loop over.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/kit/check.hpp"

namespace causeway::kit {

// Of an entry's functions f32, f64 and counted, the one that computes in T.
template <class T, class Entry>
const auto& computing_in(const Entry& entry) {
    if constexpr (std::is_same_v<T, float>) return entry.f32;
    else if constexpr (std::is_same_v<T, double>) return entry.f64;
    else return entry.counted;
}

// Entries with a field `name`, in the order in which messages list them. `option` is what calls name them with.
template <class Entry>
class Registry {
public:
    Registry(const char* option, std::vector<Entry> entries) : option_(option), entries_(std::move(entries)) {
        for (const Entry& entry : entries_) names_.emplace_back(entry.name);
    }

    // By name. Throws Error that lists the names and points at the nearest. O(number of entries); allocates nothing
    // where the name is known.
    const Entry& operator[](const std::string& name) const { return entries_[check_choice(option_, name, names_)]; }

    const std::vector<std::string>& names() const { return names_; }
    auto begin() const { return entries_.begin(); }
    auto end() const { return entries_.end(); }

private:
    const char* option_;
    std::vector<Entry> entries_;
    std::vector<std::string> names_;
};

}  // namespace causeway::kit
