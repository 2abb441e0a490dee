// The edge between C++ and C: what is thrown becomes a status and a sentence.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
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

// The size of a struct of options in the first version of causeway.h that had it: programs built with that one go on.
template <class Options>
constexpr std::size_t first_size = sizeof(Options);
template <>
inline constexpr std::size_t first_size<causeway_causal_options> = offsetof(causeway_causal_options, cu_seqlens);
template <>
inline constexpr std::size_t first_size<causeway_linear_options> = offsetof(causeway_linear_options, state_indices);
template <>
inline constexpr std::size_t first_size<causeway_softmax_options> = offsetof(causeway_softmax_options, cu_seqlens);

// The caller's struct of options, {} for NULL; what an earlier version of the header did not have is 0. One that is
// larger, of a later version, may be given where what it has besides is 0. Throws Error.
template <class Options>
Options read_options(const char* name, const Options* given) {
    constexpr std::size_t largest = 4096;  // what is beyond is no size of a struct of options
    if (!given) return {};
    if (given->size < first_size<Options> || given->size > largest)
        fail(name, ": size ", given->size, ", expected the sizeof of its struct, ", sizeof(Options));
    const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
    for (std::size_t i = sizeof(Options); i < given->size; ++i)
        if (bytes[i] != 0) fail(name, ": has a member that version ", machine().version, " of the library lacks");
    Options options{};
    std::memcpy(&options, given, std::min(given->size, sizeof(Options)));
    return options;
}

}  // namespace causeway::c
