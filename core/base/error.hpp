// Errors a caller can see. Every message is one sentence that names the argument, what came and what was expected.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace causeway {

// A call that cannot be carried out: bad input, a missing file, a method that lacks what was asked of it.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Memory that the machine does not have; nothing stays allocated.
struct OutOfMemory : Error {
    using Error::Error;
};

// The computation was stopped from outside; see core/base/interrupt.hpp.
struct Interrupted : Error {
    using Error::Error;
};

// The computation ran past the deadline it was given; see core/base/interrupt.hpp.
struct Timeout : Error {
    using Error::Error;
};

// "a", 3, "b" -> "a3b": builds messages from parts.
template <class... Parts>
std::string sentence(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
    throw Error(sentence(parts...));
}

}  // namespace causeway
