// The words of --version and of the banner, from what core measures of the machine and the bindings of the GPU.
#include "lua/shell/about.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/parallel.hpp"
#include "core/measure/machine.hpp"
#include "lua/bind/gpu.hpp"

namespace causeway::lua {
namespace {

// The text in lines of at most `columns` bytes, each with its newline, broken at blanks where there are any.
std::string wrapped(std::string text, int columns) {
    const auto room = static_cast<std::size_t>(std::max(columns, 1));
    std::string lines;
    while (text.size() > room) {
        const std::size_t blank = text.rfind(' ', room);
        const std::size_t end = blank == std::string::npos || blank == 0 ? room : blank;
        lines += text.substr(0, end) + '\n';
        text.erase(0, end + (end == blank));
    }
    return lines + text + '\n';
}

}  // namespace

std::string version_text() {
    const Machine& here = machine();
    return sentence("causeway ", here.version, "\n", "compiler: ", here.compiler, "\n", "SIMD: ", here.simd, "\n",
                    "threads: ", threads(), "\n", gpu_text(), "\n");
}

std::string banner_text(int columns, bool colour) {
    const std::string name = sentence("causeway ", machine().version);
    const std::string workers = sentence(threads(), threads() == 1 ? " thread" : " threads");
    std::string text;
    for (const std::string& line :
         {name + "  causal linear attention: exact, fast, measured",
          sentence(workers, ", ", machine().simd, ", ", gpu_text()),
          std::string("Lua 5.4. Type ? for an overview of help, ?name for a function, Ctrl-D to leave.")})
        text += wrapped(line, columns);
    return colour ? "\033[1m" + text.insert(name.size(), "\033[0m") : text;
}

}  // namespace causeway::lua
