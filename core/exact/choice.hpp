// method = "auto": which method is the fastest here, found by measuring.
#pragma once

#include "core/exact/registry.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::exact {

// What the choice depends on.
struct Question {
    DType dtype;  // Float32 or Float64
    Index heads;  // batch × heads
    Index N, r, d;
    bool decay, normalize;
    bool state;   // only methods that carry one
    Index block;  // only methods that have a block length, timed with this one; 0: each with its own
};

// The fastest method for the shape class of the question: sizes rounded to powers of two, length up to 4096, width up
// to 256, blocks up to the length, heads up to four per thread. A class is measured once, on random inputs of its size
// (well under a second for most, a few for the largest); the answer is kept in the user's cache directory, under the
// identity of this build, processor and number of threads, so another version measures anew, and a forked child has
// what its parent knew. An unreadable or unwritable cache only costs the measurement. Throws OutOfMemory.
const Method& fastest(const Question&);

// The file the answers are kept in: $XDG_CACHE_HOME/causeway/choices, or under ~/.cache; "" without a home.
std::string choice_file();

}  // namespace causeway::exact
