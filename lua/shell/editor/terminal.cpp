#include "lua/shell/editor/terminal.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "core/base/interrupt.hpp"

namespace causeway::lua {
namespace {

volatile sig_atomic_t resized = 0;
volatile sig_atomic_t asked_to_pause = 0;
void on_resize(int) { resized = 1; }
void on_pause(int) { asked_to_pause = 1; }

}  // namespace

void stop_process(const sigset_t& outside) {
    struct sigaction ours, usual{};
    usual.sa_handler = SIG_DFL;
    sigemptyset(&usual.sa_mask);
    sigaction(SIGTSTP, &usual, &ours);
    sigset_t blocked;
    ::raise(SIGTSTP);
    pthread_sigmask(SIG_SETMASK, &outside, &blocked);  // stops here
    pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
    sigaction(SIGTSTP, &ours, nullptr);
}

TerminalReader::TerminalReader(Host host)
    : host_(std::move(host)),
      // Opened anew: not to wait is a property of the open file, which stdin shares with whoever started us.
      keys_(open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) {}

TerminalReader::~TerminalReader() {
    if (keys_ >= 0) close(keys_);
}

void TerminalReader::remember(const std::string& entry) {
    if (history_.add(entry)) recall(entry);
    if (const std::string note = history_.note(); !note.empty()) std::printf("(%s)\n", note.c_str());
}

bool TerminalReader::wait_for_key() {
    for (;;) {
        pollfd input[]{{STDIN_FILENO, POLLIN, 0}, {host_.session, 0, 0}};
        const int ready = interrupt::requested() ? -1 : ppoll(input, 2, nullptr, &outside_);
        sigset_t inside;  // where a key is there too, ppoll() leaves a signal pending
        pthread_sigmask(SIG_SETMASK, &outside_, &inside);
        pthread_sigmask(SIG_SETMASK, &inside, nullptr);
        if (interrupt::requested()) return false;
        if (resized) resize();
        resized = 0;
        if (asked_to_pause) pause_program();
        asked_to_pause = 0;
        if (ready > 0 && input[1].revents) leave_without_session();
        if (ready > 0) return true;
    }
}

// The terminal forgets what was typed when Ctrl-C comes, also what poll() has just announced: a read that waited for
// it, with signals blocked, would leave the Ctrl-C unheard until the next key.
int TerminalReader::next_key() {
    while (wait_for_key()) {
        unsigned char key;
        const ssize_t n = ::read(keys_ >= 0 ? keys_ : STDIN_FILENO, &key, 1);
        if (n == 1) return key;
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) return -1;
    }
    return -1;
}

// Ctrl-Z: gives the terminal back as it was, stops, and goes on with the same line.
void TerminalReader::pause_program() {
    give_terminal_back();
    if (host_.pause) host_.pause();
    else stop_process(outside_);
    take_terminal();
}

void TerminalReader::leave_without_session() {
    give_terminal_back();
    _exit(0);
}

TerminalReader::Signals::Signals(TerminalReader& reader) : reader_(reader) {
    sigset_t inside;
    sigemptyset(&inside);
    for (const int signal : {SIGINT, SIGWINCH, SIGTSTP}) sigaddset(&inside, signal);
    pthread_sigmask(SIG_BLOCK, &inside, &reader_.outside_);
    struct sigaction action {};
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_resize;
    sigaction(SIGWINCH, &action, &resize_before_);
    action.sa_handler = on_pause;
    sigaction(SIGTSTP, &action, &pause_before_);
}

TerminalReader::Signals::~Signals() {
    sigaction(SIGWINCH, &resize_before_, nullptr);
    sigaction(SIGTSTP, &pause_before_, nullptr);
    pthread_sigmask(SIG_SETMASK, &reader_.outside_, nullptr);
}

}  // namespace causeway::lua
