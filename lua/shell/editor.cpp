// Lines from GNU Readline or, where there is no terminal, from standard input. The only file that knows Readline.
#include "lua/shell/editor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

// Order matters: readline's header uses FILE without including it.
#include <readline/history.h>
#include <readline/readline.h>

#include "core/base/interrupt.hpp"
#include "lua/shell/history.hpp"

namespace causeway::lua {
namespace {

// ---- a pipe, a file, or a terminal that cannot move its cursor ----

class PlainReader : public LineReader {
public:
    Result read(const std::string& prompt, std::string& line) override {
        if (isatty(STDIN_FILENO)) {
            std::fputs(prompt.c_str(), stdout);
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

// ---- a terminal: GNU readline through its callback interface, which leaves signals and waiting to us ----

volatile sig_atomic_t resized = 0;
volatile sig_atomic_t asked_to_pause = 0;
void on_resize(int) { resized = 1; }
void on_pause(int) { asked_to_pause = 1; }

// What readline's callbacks, which carry no context, work on.
struct Reading {
    Completer completer;
    bool done = false;
    bool ended = false;
    std::string line;
    sigset_t outside;  // the signal mask while we wait
    bool interruption_told = false;
    int keys = STDIN_FILENO;  // where keys are read without waiting
} reading;

void take_line(char* line) {
    rl_callback_handler_remove();
    reading.done = true;
    reading.ended = line == nullptr;
    reading.line = line ? line : "";
    std::free(line);
}

std::string common_prefix(const std::vector<std::string>& words) {
    std::string prefix = words.front();
    for (const auto& word : words) {
        const auto differs = std::mismatch(prefix.begin(), prefix.end(), word.begin(), word.end());
        prefix.erase(differs.first, prefix.end());
    }
    return prefix;
}

// The candidates in columns below the line, as readline shows its own.
void list_candidates(const std::vector<std::string>& words) {
    std::vector<char*> list{const_cast<char*>("")};
    std::size_t longest = 0;
    for (const auto& word : words) {
        list.push_back(const_cast<char*>(word.c_str()));
        longest = std::max(longest, word.size());
    }
    list.push_back(nullptr);
    std::fputc('\n', rl_outstream);
    rl_display_match_list(list.data(), static_cast<int>(words.size()), static_cast<int>(longest));
    rl_forced_update_display();
}

// Tab: at the beginning of a line two spaces, else what all candidates share; where that is nothing new, the list of
// them.
int complete_here(int, int) {
    const std::string before(rl_line_buffer, static_cast<std::size_t>(rl_point));
    if (before.find_first_not_of(" \t", before.find_last_of('\n') + 1) == std::string::npos)
        return rl_insert_text("  "), 0;
    const Completion found = reading.completer(before);
    if (found.words.empty()) return rl_ding();
    const std::string shared = common_prefix(found.words);
    const std::string typed = before.substr(found.begin);
    if (shared.size() > typed.size() || (found.words.size() == 1 && shared != typed)) {
        rl_begin_undo_group();
        rl_delete_text(static_cast<int>(found.begin), rl_point);
        rl_point = static_cast<int>(found.begin);
        rl_insert_text(shared.c_str());
        rl_end_undo_group();
    } else if (found.words.size() > 1) {
        list_candidates(found.words);
    }
    return 0;
}

// Ctrl-Z: gives the terminal back as it was, stops, and goes on with the same line.
void pause_program() {
    rl_deprep_terminal();
    struct sigaction ours, usual{};
    usual.sa_handler = SIG_DFL;
    sigemptyset(&usual.sa_mask);
    sigaction(SIGTSTP, &usual, &ours);
    sigset_t blocked;
    ::raise(SIGTSTP);
    pthread_sigmask(SIG_SETMASK, &reading.outside, &blocked);  // stops here
    pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
    sigaction(SIGTSTP, &ours, nullptr);
    rl_prep_terminal(1);
    rl_forced_update_display();
}

// Waits for a key and does what other signals ask for meanwhile. False after Ctrl-C.
bool wait_for_key() {
    for (;;) {
        pollfd input{STDIN_FILENO, POLLIN, 0};
        const int ready = interrupt::requested() ? -1 : ppoll(&input, 1, nullptr, &reading.outside);
        if (interrupt::requested()) return false;
        if (resized) rl_resize_terminal();
        resized = 0;
        if (asked_to_pause) pause_program();
        asked_to_pause = 0;
        if (ready > 0) return true;
    }
}

// A key for readline. The terminal forgets what was typed when Ctrl-C comes, also what poll() has just announced: a
// read that waited for it, with signals blocked, would leave the Ctrl-C unheard until the next key. After Ctrl-C
// readline gets a key that does nothing, and the end of the input where it asks on, as it does inside a paste.
int read_key(FILE*) {
    while (wait_for_key()) {
        unsigned char key;
        const ssize_t n = ::read(reading.keys, &key, 1);
        if (n == 1) return key;
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) return EOF;
    }
    return std::exchange(reading.interruption_told, true) ? EOF : 0;
}

class ReadlineReader : public LineReader {
public:
    explicit ReadlineReader(Completer completer) {
        reading.completer = std::move(completer);
        rl_readline_name = "causeway";
        rl_catch_signals = 0;
        rl_catch_sigwinch = 0;
        rl_change_environment = 0;
        rl_bind_key('\t', complete_here);
        // Opened anew: not to wait is a property of the open file, which stdin shares with whoever started us.
        if (const int keys = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); keys >= 0)
            reading.keys = keys;
        rl_getc_function = read_key;
        using_history();
        for (const auto& entry : history_.load()) add_history(entry.c_str());
    }

    Result read(const std::string& prompt, std::string& line) override {
        const Handlers handlers;
        reading.done = reading.ended = reading.interruption_told = false;
        rl_callback_handler_install(prompt.c_str(), take_line);
        while (!reading.done && wait_for_key()) rl_callback_read_char();
        if (interrupt::requested()) return abandon();
        if (reading.ended) {
            std::fputc('\n', stdout);
            std::fflush(stdout);
            return Result::end;
        }
        line = reading.line;
        return Result::line;
    }

    void remember(const std::string& entry) override {
        if (history_.add(entry)) add_history(entry.c_str());
        if (const std::string note = history_.note(); !note.empty()) std::printf("(%s)\n", note.c_str());
    }

private:
    // While a line is read: signals arrive only while we wait, and those of the terminal are ours.
    struct Handlers {
        Handlers() {
            sigset_t inside;
            sigemptyset(&inside);
            for (const int signal : {SIGINT, SIGWINCH, SIGTSTP}) sigaddset(&inside, signal);
            pthread_sigmask(SIG_BLOCK, &inside, &reading.outside);
            struct sigaction action {};
            sigemptyset(&action.sa_mask);
            action.sa_handler = on_resize;
            sigaction(SIGWINCH, &action, &resize_before);
            action.sa_handler = on_pause;
            sigaction(SIGTSTP, &action, &pause_before);
        }
        ~Handlers() {
            sigaction(SIGWINCH, &resize_before, nullptr);
            sigaction(SIGTSTP, &pause_before, nullptr);
            pthread_sigmask(SIG_SETMASK, &reading.outside, nullptr);
        }
        Handlers(const Handlers&) = delete;
        Handlers& operator=(const Handlers&) = delete;

        struct sigaction resize_before, pause_before;
    };

    // Ctrl-C: leaves the line as it stands on the screen, a search for it ended, and forgets it.
    static Result abandon() {
        rl_callback_sigcleanup();
        rl_point = rl_end;
        rl_redisplay();
        std::fputs("^C", rl_outstream);
        std::fflush(rl_outstream);
        rl_free_line_state();
        rl_eof_found = 0;  // which readline was told inside a paste
        rl_callback_handler_remove();
        std::fputc('\n', stdout);
        std::fflush(stdout);
        return Result::interrupted;
    }

    History history_;
};

}  // namespace

std::unique_ptr<LineReader> open_line_reader(Completer completer) {
    const char* term = std::getenv("TERM");
    const bool dumb = !term || !*term || std::strcmp(term, "dumb") == 0;
    if (dumb || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) return std::make_unique<PlainReader>();
    return std::make_unique<ReadlineReader>(std::move(completer));
}

}  // namespace causeway::lua
