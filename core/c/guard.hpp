// The edge between C++ and C: what is thrown becomes a status and a sentence.
#pragma once

#include <cstddef>
#include <exception>
#include <new>

#include "core/base/error.hpp"
#include "core/c/causeway.h"
#include "core/measure/machine.hpp"

namespace causeway::c {

// Keeps the sentence of this thread's last error; allocates nothing. What is longer than a kilobyte is cut between two
// characters.
causeway_status failed(ErrorKind kind, const char* sentence) noexcept;

// Throws SystemError where the library was built for another processor than this one.
void check_processor();

template <class F>
causeway_status guarded(F&& f) noexcept {
    try {
        check_processor();
        f();
        return CAUSEWAY_OK;
    } catch (const std::bad_alloc&) {
        return failed(ErrorKind::out_of_memory, "out of memory");
    } catch (const std::exception& error) {
        return failed(kind_of(error), error.what());
    } catch (...) {
        return failed(ErrorKind::system, "an error of a kind that is not known");
    }
}

// The caller's struct of options, {} for NULL. One that is larger, of a later version of the header, may be given where
// what it has besides is 0. Throws Error.
template <class Options>
Options read_options(const char* name, const Options* given) {
    constexpr std::size_t largest = 4096;  // what is beyond is no size of a struct of options
    if (!given) return {};
    if (given->size < sizeof(Options) || given->size > largest)
        fail(name, ": size ", given->size, ", expected the sizeof of its struct, ", sizeof(Options));
    const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
    for (std::size_t i = sizeof(Options); i < given->size; ++i)
        if (bytes[i] != 0) fail(name, ": has a member that version ", machine().version, " of the library lacks");
    return *given;
}

}  // namespace causeway::c
