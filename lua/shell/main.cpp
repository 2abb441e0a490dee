// The program: reads the command line and runs code, scripts and the shell in its order.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "core/base/environment.hpp"
#include "core/distributed/mpi.hpp"
#include "lua/bind/bind.hpp"
#include "lua/shell/about.hpp"
#include "lua/shell/display.hpp"
#include "lua/shell/evaluate.hpp"
#include "lua/shell/main_stack.hpp"
#include "lua/shell/repl.hpp"
#include "lua/shell/script.hpp"
#include "lua/shell/signals.hpp"
#include "lua/shell/state.hpp"

namespace {

using namespace causeway;
using namespace causeway::lua;

constexpr int status_of_error = 1, status_of_usage = 2, status_of_interrupt = 130;

constexpr const char* usage = R"(usage: causeway [options] [FILE.lua [arguments]]

  without options or file   the interactive shell
  FILE.lua [arguments]      runs a script; `arg` and `...` hold the arguments
  -                         runs the script on standard input
  -e CODE                   evaluates CODE as if typed at the prompt; repeatable
  -i FILE.lua [arguments]   runs the script, then the shell
  --kernel CONNECTION_FILE  the kernel of a notebook, as Jupyter starts it
  --version                 version, compiler, SIMD level, threads, GPU
  --help                    this text

environment: CAUSEWAY_THREADS=n worker threads, NO_COLOR=1 no colours,
XDG_STATE_HOME where the history is kept, XDG_CACHE_HOME fetched models
)";

struct CommandLine {
    std::vector<std::string> arguments;  // all, the program's name first
    std::vector<std::string> code;       // of -e, in order
    std::size_t script = 0;              // index of the script; 0: none
    bool shell = false;                  // at the end
    bool version = false, help = false;
    std::string connection;  // of --kernel
    std::string fault;       // what is wrong with it, or ""
};

CommandLine read(int argc, char** argv) {
    CommandLine line;
    line.arguments.assign(argv, argv + argc);
    const auto& arguments = line.arguments;
    std::size_t i = 1;
    for (; i < arguments.size(); ++i) {
        const std::string& word = arguments[i];
        if (word == "--version") line.version = true;
        else if (word == "--help" || word == "-h") line.help = true;
        else if (word == "-i") line.shell = true;
        else if (word == "-e" && i + 1 < arguments.size()) line.code.push_back(arguments[++i]);
        else if (word == "-e") line.fault = "-e: expected code after it";
        else if (word == "--kernel" && i + 1 < arguments.size()) line.connection = arguments[++i];
        else if (word == "--kernel") line.fault = "--kernel: expected a connection file after it";
        else if (word.empty()) line.fault = "expected the name of a script, got an empty argument";
        else if (word == "-" || word[0] != '-') break;
        else line.fault = "unknown option " + word;
        if (!line.fault.empty()) return line;
    }
    if (i < arguments.size()) line.script = i;
    const bool file = line.script != 0 && arguments[line.script] != "-";
    if (file && access(arguments[line.script].c_str(), R_OK) != 0)
        line.fault = sentence("cannot open the script ", arguments[line.script], ": ", std::strerror(errno));
    if (line.script == 0 && line.code.empty()) line.shell = true;
    if (line.fault.empty()) line.fault = threads_fault();
    if (line.fault.empty()) line.fault = distributed::mpi_fault();
    return line;
}

int status_of(const Failure& failure) {
    return failure.interrupted ? status_of_interrupt : failure ? status_of_error : 0;
}

// Calls the finalizers that are left, which nothing interrupts in Lua: from here on Ctrl-C ends the program.
void close_state(lua_State* L) {
    leave_interrupts_to_the_system();
    lua_close(L);
}

// Runs what the command line asks for; returns the exit status.
int run(const CommandLine& line) {
    std::unique_ptr<lua_State, void (*)(lua_State*)> state(new_state(), close_state);
    lua_State* L = state.get();
    handle_signals(Patience::script);
    set_arg(L, line.arguments, line.script);
    Failure failure;
    for (const auto& code : line.code) {
        if (!(failure = evaluate(L, code, "(command line)"))) continue;
        report(L, failure);
        return status_of(failure);
    }
    if (line.script != 0) {
        failure = run_file(L, line.arguments, line.script);
        if (failure) report(L, failure);
    }
    return line.shell ? run_shell(L) : status_of(failure);
}

// The kernel is a program of its own beside this one, since it alone needs xeus. Returns only where it is not there.
int become_kernel(const std::string& connection) {
    const std::string kernel = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "causeway-kernel";
    execl(kernel.c_str(), kernel.c_str(), connection.c_str(), nullptr);
    std::fprintf(stderr, "error: %s: %s; ./lab notebook builds the kernel\n", kernel.c_str(), std::strerror(errno));
    return status_of_error;
}

int run_command(int argc, char** argv) {
    try {
        const CommandLine line = read(argc, argv);
        if (!line.fault.empty()) {
            const std::string told = "causeway: " + line.fault + " (--help shows the usage)\n";
            const TerminalDisplay terminal;
            std::fputs((isatty(STDERR_FILENO) ? in_whole_words(told, terminal.columns()) : told).c_str(), stderr);
            return status_of_usage;
        }
        if (line.help) std::fputs(usage, stdout);
        else if (!line.connection.empty()) return become_kernel(line.connection);
        else if (line.version) std::fputs(version_text().c_str(), stdout);
        else return run(line);
        return 0;
    } catch (const std::exception& error) {
        std::fflush(stdout);
        std::fprintf(stderr, "error: %s\n", sentence_of(error));
        return status_of_error;
    }
}

}  // namespace

int main(int argc, char** argv) {
    take_main_stack();
    const int status = run_command(argc, argv);
    // Lua's print does not say when its text could not be written.
    const int reason = std::fflush(stdout) != 0 ? errno : 0;  // 0: an earlier flush failed, and its reason is gone
    if ((reason != 0 || std::ferror(stdout)) && status == 0) {
        std::fprintf(stderr, "error: not everything could be written to standard output%s%s\n", reason ? ": " : "",
                     reason ? std::strerror(reason) : "");
        return status_of_error;
    }
    return status;
}
