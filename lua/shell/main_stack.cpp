#include "lua/shell/main_stack.hpp"

#include <alloca.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>

namespace causeway::lua {

[[gnu::noinline]] void take_main_stack() {
    constexpr std::size_t bytes = std::size_t{1} << 20;
    rlimit limit{};
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur < 4 * bytes) return;
    auto* const pages = static_cast<volatile char*>(alloca(bytes));
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (std::size_t end = bytes; end > 0; end -= end < page ? end : page)
        pages[end - 1] = 0;  // downwards, as it grows
}

}  // namespace causeway::lua
