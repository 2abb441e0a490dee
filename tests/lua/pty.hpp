// A person at a terminal: the program on a pseudo-terminal, typed to and read from.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/lua/program.hpp"

namespace causeway::testing {

class Terminal {
public:
    // Starts causeway with `home` as HOME and folder; `environment` holds "NAME=value".
    explicit Terminal(const std::string& home, std::vector<std::string> arguments = {},
                      std::vector<std::string> environment = {}, const std::string& program = program_path()) {
        winsize size{};
        size.ws_row = 40;
        size.ws_col = 200;
        environment.insert(environment.begin(), "TERM=xterm-256color");
        const auto argv = command_line(arguments, program);
        child_ = forkpty(&terminal_, nullptr, nullptr, &size);
        if (child_ < 0) throw std::runtime_error("no pseudo-terminal");
        if (child_ > 0) {
            fcntl(terminal_, F_SETFL, O_NONBLOCK);
            return;
        }
        become_program(home, argv, std::move(environment));
    }
    ~Terminal() {
        if (!ended_) {
            kill(child_, SIGKILL);
            waitpid(child_, nullptr, 0);
        }
        close(terminal_);
    }
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    // What the program shows meanwhile is taken from it, or it would wait for us as we for it.
    void type(const std::string& keys) {
        const auto limit = std::chrono::steady_clock::now() + patience;
        for (std::size_t sent = 0; sent < keys.size();) {
            const short events = wait_until(limit, POLLIN | POLLOUT);
            if (events & POLLIN) take_what_is_there();
            const ssize_t n = events & POLLOUT ? write(terminal_, keys.data() + sent, keys.size() - sent) : 0;
            if (n > 0) sent += static_cast<std::size_t>(n);
            if (closed_ || (events & (POLLIN | POLLOUT)) == 0 || (n < 0 && errno != EAGAIN))
                throw std::runtime_error("the program reads no more; it showed:\n" + shown_);
        }
    }
    void enter(const std::string& line) { type(line + "\r"); }

    // Waits until `text` is shown behind everything waited for before; returns what was shown up to its end.
    // Control sequences and carriage returns are left out of both.
    std::string wait_for(const std::string& text) {
        const std::size_t begin = seen_;
        if (!shows(text, patience))
            throw std::runtime_error("\"" + text + "\" was not shown in time, but:\n" + shown_.substr(begin));
        return shown_.substr(begin, seen_ - begin);
    }
    // The same, false where it is not shown in this time.
    bool shows(const std::string& text, std::chrono::milliseconds time) {
        const auto limit = std::chrono::steady_clock::now() + time;
        for (std::size_t from = seen_;;) {
            if (const auto at = shown_.find(text, from); at != std::string::npos) {
                seen_ = at + text.size();
                return true;
            }
            from =
                std::max(seen_, shown_.size() - std::min(shown_.size(), text.size()));  // no need to look there again
            if (!read_more(limit)) return false;
        }
    }
    // The next prompt, behind the answer to what was entered.
    std::string wait_for_prompt() { return wait_for("causeway> "); }
    // Enters a line; returns what is shown up to the next prompt, without the echo of the line.
    std::string answer(const std::string& line) {
        enter(line);
        wait_for("\n");
        const std::string text = wait_for("\ncauseway> ");
        return text.substr(0, text.size() - 11);
    }

    // Waits until the program has ended by itself; its exit status.
    int wait_for_end() {
        const auto limit = std::chrono::steady_clock::now() + patience;
        while (read_more(limit)) {}
        if (std::chrono::steady_clock::now() >= limit || waitpid(child_, &status_, 0) != child_)
            throw std::runtime_error("the program did not end; it showed:\n" + shown_);
        ended_ = true;
        return shell_status(status_);
    }
    // The signal that ended it; 0 where it ended by itself, whatever its status.
    int signal_at_end() const { return WIFSIGNALED(status_) ? WTERMSIG(status_) : 0; }

    void resize(const winsize& size) { ioctl(terminal_, TIOCSWINSZ, &size); }
    void kill_program() { kill(child_, SIGKILL); }

    bool has_closed() const { return closed_; }  // as the program does at its end
    const std::string& shown() const { return shown_; }
    const std::string& raw() const { return raw_; }  // with control sequences

private:
    // What the terminal is ready for; 0 when the time is over.
    short wait_until(std::chrono::steady_clock::time_point limit, short events) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(limit - std::chrono::steady_clock::now()).count();
        pollfd ready{terminal_, events, 0};
        if (left <= 0 || poll(&ready, 1, static_cast<int>(left)) <= 0) return 0;
        return ready.revents & POLLHUP ? static_cast<short>(ready.revents | POLLIN) : ready.revents;
    }

    void take_what_is_there() {
        char bytes[4096];
        const ssize_t n = ::read(terminal_, bytes, sizeof bytes);
        closed_ = n == 0 || (n < 0 && errno != EAGAIN);
        for (ssize_t i = 0; i < n; ++i) take(bytes[i]);
    }

    // False when the program has closed the terminal or the time is over.
    bool read_more(std::chrono::steady_clock::time_point limit) {
        if (closed_ || !(wait_until(limit, POLLIN) & POLLIN)) return false;
        take_what_is_there();
        return !closed_;
    }

    void take(char c) {
        raw_ += c;
        if (in_escape_) {
            in_escape_ = !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '=' || c == '>');
        } else if (c == '\033') {
            in_escape_ = true;
        } else if (c != '\r' && c != '\a') {
            shown_ += c;
        }
    }

    int terminal_ = -1;
    pid_t child_ = -1;
    int status_ = 0;  // of its end, as waitpid gives it
    bool ended_ = false, closed_ = false, in_escape_ = false;
    std::string raw_, shown_;
    std::size_t seen_ = 0;
};

}  // namespace causeway::testing
