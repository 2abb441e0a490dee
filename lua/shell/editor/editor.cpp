// Standard input line by line, and the choice between that and a line editor.
#include "lua/shell/editor/editor.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/interrupt.hpp"
#include "lua/shell/editor/apart.hpp"

namespace causeway::lua {
namespace {

// A pipe, a file, or a terminal that cannot move its cursor or has no editor.
class PlainReader : public LineReader {
public:
    Result read(const std::string& prompt, std::string& line) override {
        if (isatty(STDIN_FILENO)) {
            write_prompt(prompt);
            std::fflush(stdout);
        }
        line.clear();
        if (isatty(STDIN_FILENO) && !wait_for_input()) return interrupted();
        for (int c; (c = std::getc(stdin)) != '\n';) {
            if (c == EOF && interrupt::requested()) return interrupted();
            if (c == EOF) return line.empty() ? Result::end : Result::line;
            line += static_cast<char>(c);
        }
        return Result::line;
    }

    void remember(const std::string&) override {}

private:
    // Without the marks that tell an editor what takes no columns.
    static void write_prompt(const std::string& prompt) {
        for (const char c : prompt)
            if (c != '\001' && c != '\002') std::fputc(c, stdout);
    }

    // False after Ctrl-C, which is seen even when it comes just before the wait.
    static bool wait_for_input() {
        sigset_t interrupts, outside;
        sigemptyset(&interrupts);
        sigaddset(&interrupts, SIGINT);
        pthread_sigmask(SIG_BLOCK, &interrupts, &outside);
        pollfd input{STDIN_FILENO, POLLIN, 0};
        while (!interrupt::requested() && ppoll(&input, 1, nullptr, &outside) < 0 && errno == EINTR) {}
        pthread_sigmask(SIG_SETMASK, &outside, nullptr);
        return !interrupt::requested();
    }

    static Result interrupted() {
        std::clearerr(stdin);
        std::fputc('\n', stdout);
        return Result::interrupted;
    }
};

}  // namespace

std::unique_ptr<LineReader> open_line_reader(const Completer& completer) {
    const char* term = std::getenv("TERM");
    const bool dumb = !term || !*term || std::strcmp(term, "dumb") == 0;
    std::unique_ptr<LineReader> editor;
    if (!dumb && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) editor = open_line_editor_apart(completer);
    return editor ? std::move(editor) : std::make_unique<PlainReader>();
}

}  // namespace causeway::lua
