// Errors a caller can see. Every message is one sentence that names the argument, what came and what was expected, for
// people to read; programs decide by the kind.
#pragma once

#include <exception>
#include <limits>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace causeway {

// What went wrong, for programs: an argument of the call, memory, a deadline, a stop from outside, a file, or the
// system.
enum class ErrorKind { bad_argument, out_of_memory, timeout, interrupted, io, system };

// A call that cannot be carried out: bad input, a method that lacks what was asked of it. The kinds that are not a bad
// argument have a type each, below.
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

// A file or a connection: missing, not readable, not writable, or not holding what it should.
struct IoError : Error {
    using Error::Error;
};

// What is nobody's argument: a device, a library or the system refused.
struct SystemError : Error {
    using Error::Error;
};

// Of any exception; what is none of the above (one of the standard library, say) is the system's.
inline ErrorKind kind_of(const std::exception& error) noexcept {
    const std::exception* e = &error;
    if (dynamic_cast<const OutOfMemory*>(e) || dynamic_cast<const std::bad_alloc*>(e)) return ErrorKind::out_of_memory;
    if (dynamic_cast<const Timeout*>(e)) return ErrorKind::timeout;
    if (dynamic_cast<const Interrupted*>(e)) return ErrorKind::interrupted;
    if (dynamic_cast<const IoError*>(e)) return ErrorKind::io;
    if (dynamic_cast<const SystemError*>(e) || !dynamic_cast<const Error*>(e)) return ErrorKind::system;
    return ErrorKind::bad_argument;
}

inline constexpr ErrorKind all_error_kinds[] = {ErrorKind::bad_argument, ErrorKind::out_of_memory,
                                                ErrorKind::timeout,      ErrorKind::interrupted,
                                                ErrorKind::io,           ErrorKind::system};

// "out of memory": what Lua calls the kind.
inline const char* text_of(ErrorKind kind) noexcept {
    constexpr const char* names[] = {"bad argument", "out of memory", "timeout", "interrupted", "I/O", "system"};
    return names[static_cast<int>(kind)];
}

// What an exception says; of std::bad_alloc, whose own text is no sentence, "out of memory".
inline const char* sentence_of(const std::exception& error) noexcept {
    return dynamic_cast<const std::bad_alloc*>(&error) ? text_of(ErrorKind::out_of_memory) : error.what();
}

// A text, or, where it has more than 2000 bytes, its first and last 500 and how many are between, which cut no
// character of UTF-8.
inline std::string ends_of(std::string_view text) {
    constexpr std::size_t longest = 2000, kept = 500;
    if (text.size() <= longest) return std::string(text);
    const auto is_inside = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; };
    std::size_t first = kept, last = text.size() - kept;
    while (first > 0 && is_inside(first)) --first;
    while (last < text.size() && is_inside(last)) ++last;
    return std::string(text.substr(0, first)) + " ... (" + std::to_string(last - first) + " bytes) ... " +
           std::string(text.substr(last));
}

// Writes a part of a message. The sign of a NaN, which streams print, says nothing: numbers are nan, inf, -inf.
template <class T>
void put_part(std::ostream& out, const T& part) {
    if constexpr (std::is_floating_point_v<T>) out << (part == part ? part : std::numeric_limits<T>::quiet_NaN());
    else out << part;
}

// "a", 3, "b" -> "a3b": builds messages from parts. Throws std::bad_alloc rather than cut a message short.
template <class... Parts>
std::string sentence(const Parts&... parts) {
    std::ostringstream out;
    out.exceptions(std::ios::badbit);
    (put_part(out, parts), ...);
    return out.str();
}

// A part of a message as it is, but a text as long as a page by its two ends: it came from a script or a file, and a
// message is one sentence.
template <class T>
decltype(auto) in_message(const T& part) {
    if constexpr (std::is_convertible_v<const T&, std::string_view>) return ends_of(part);
    else return (part);
}

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
    throw Error(sentence(in_message(parts)...));
}

// The same for an error of another kind: fail_as<IoError>(path, ": is empty").
template <class E, class... Parts>
[[noreturn]] void fail_as(const Parts&... parts) {
    throw E(sentence(in_message(parts)...));
}

}  // namespace causeway
