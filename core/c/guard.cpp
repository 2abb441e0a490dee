#include "core/c/guard.hpp"

#include <algorithm>
#include <cstring>

namespace causeway::c {
namespace {

thread_local char last_error[1024];

bool continues_a_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

causeway_status failed(ErrorKind kind, const char* sentence) noexcept {
    std::size_t length = std::strlen(sentence);
    if (length >= sizeof last_error) {
        length = sizeof last_error - 1;
        while (length > 0 && continues_a_character(sentence[length])) --length;
    }
    std::copy_n(sentence, length, last_error);
    last_error[length] = '\0';
    switch (kind) {
        case ErrorKind::bad_argument: return CAUSEWAY_BAD_ARGUMENT;
        case ErrorKind::out_of_memory: return CAUSEWAY_OUT_OF_MEMORY;
        case ErrorKind::timeout: return CAUSEWAY_TIMEOUT;
        case ErrorKind::interrupted: return CAUSEWAY_INTERRUPTED;
        case ErrorKind::io: return CAUSEWAY_IO;
        case ErrorKind::system: break;
    }
    return CAUSEWAY_SYSTEM;
}

void check_processor() {
    if (const char* lacking = missing_instructions())
        fail_as<SystemError>("causeway: this library was built for a processor with ", lacking,
                             ", which this one lacks");
}

}  // namespace causeway::c

const char* causeway_last_error() { return causeway::c::last_error; }
