// The number of worker threads, set back when a test has ended.
#pragma once

#include "core/base/parallel.hpp"

namespace causeway::test {

struct Threads {
    int before = threads();
    Threads() = default;
    explicit Threads(int n) { set_threads(n); }
    Threads(const Threads&) = delete;
    Threads& operator=(const Threads&) = delete;
    ~Threads() { set_threads(before); }
};

}  // namespace causeway::test
