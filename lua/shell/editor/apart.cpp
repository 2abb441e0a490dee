#include "lua/shell/editor/apart.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "core/base/interrupt.hpp"
#include "lua/shell/editor/terminal.hpp"

namespace causeway::lua {
namespace {

using Clock = std::chrono::steady_clock;

// What the session asks of its editor, and what that answers or asks meanwhile.
enum class Kind : unsigned char {
    read,      // the prompt; answered by one of LineReader::Result
    remember,  // an entry; answered by `done`
    line,      // what was read
    interrupted,
    end,
    done,
    none,        // there is no editor; else it begins with `done`
    complete,    // text up to the cursor; answered by `completion`
    completion,  // where the word begins, and the words, each behind a character 0
    pause,       // Ctrl-Z: the terminal is as it was; answered by `done` when the session goes on
};

struct Message {
    Kind kind{};
    std::string text;
};

// One end of two pipes.
class Channel {
public:
    Channel(int from, int to) : from_(from), to_(to) {}
    ~Channel() {
        close(from_);
        close(to_);
    }
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    int from() const { return from_; }

    // False where nobody is at the other end.
    bool send(Kind kind, const std::string& text = {}) const {
        const std::uint64_t length = text.size();
        std::string bytes(1, static_cast<char>(kind));
        bytes.append(reinterpret_cast<const char*>(&length), sizeof length).append(text);
        for (std::size_t sent = 0; sent < bytes.size();) {
            const ssize_t n = write(to_, bytes.data() + sent, bytes.size() - sent);
            if (n < 0 && errno != EINTR) return false;
            sent += n > 0 ? static_cast<std::size_t>(n) : 0;
        }
        return true;
    }

    // Waits for a message. Empty where nobody is at the other end any more.
    std::optional<Message> receive() const {
        char kind = 0;
        std::uint64_t length = 0;
        if (!fill(&kind, 1) || !fill(reinterpret_cast<char*>(&length), sizeof length)) return {};
        Message message{static_cast<Kind>(kind), std::string(length, '\0')};
        if (!fill(message.text.data(), length)) return {};
        return message;
    }

private:
    bool fill(char* bytes, std::size_t count) const {
        for (std::size_t taken = 0; taken < count;) {
            const ssize_t n = ::read(from_, bytes + taken, count - taken);
            if (n == 0 || (n < 0 && errno != EINTR)) return false;
            taken += n > 0 ? static_cast<std::size_t>(n) : 0;
        }
        return true;
    }

    int from_, to_;
};

std::string packed(const Completion& completion) {
    std::string text = std::to_string(completion.begin);
    for (const auto& word : completion.words) text += '\0' + word;
    return text;
}

Completion unpacked(const std::string& text) {
    Completion completion{std::stoul(text), {}};
    for (std::size_t at = text.find('\0'); at != std::string::npos;) {
        const std::size_t next = text.find('\0', at + 1);
        completion.words.push_back(text.substr(at + 1, next - at - 1));
        at = next;
    }
    return completion;
}

// The child: the editor, up to the end of the session.
void serve(const Channel& session) {
    const auto ask = [&](Kind kind, const std::string& text) {
        std::fflush(stdout);
        if (!session.send(kind, text)) _exit(0);
        std::optional<Message> answer = session.receive();
        if (!answer) _exit(0);
        return std::move(answer->text);
    };
    Host host;
    host.completer = [&](const std::string& before) { return unpacked(ask(Kind::complete, before)); };
    host.pause = [&] { ask(Kind::pause, {}); };
    host.session = session.from();
    const std::unique_ptr<LineReader> editor = open_line_editor(std::move(host));
    if (!session.send(editor ? Kind::done : Kind::none)) return;
    while (const std::optional<Message> request = session.receive()) {
        Message answer{Kind::done, {}};
        if (request->kind == Kind::remember) {
            editor->remember(request->text);
        } else {
            interrupt::clear();
            const auto result = editor->read(request->text, answer.text);
            answer.kind = result == LineReader::Result::line  ? Kind::line
                          : result == LineReader::Result::end ? Kind::end
                                                              : Kind::interrupted;
        }
        std::fflush(stdout);
        if (!session.send(answer.kind, answer.text)) return;
    }
}

void only_return(int) {}

// While the editor reads, Ctrl-C arrives only while we wait for it, and Ctrl-Z is the editor's to hear, which asks to
// pause then. It is not held back, as a thread of the pool would take it.
class Signals {
public:
    Signals() {
        sigset_t held;
        sigemptyset(&held);
        sigaddset(&held, SIGINT);
        pthread_sigmask(SIG_BLOCK, &held, &outside_);
        struct sigaction action {};
        sigemptyset(&action.sa_mask);
        action.sa_handler = only_return;
        sigaction(SIGTSTP, &action, &pause_before_);
    }
    ~Signals() {
        sigaction(SIGTSTP, &pause_before_, nullptr);
        pthread_sigmask(SIG_SETMASK, &outside_, nullptr);
    }
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;

    const sigset_t& outside() const { return outside_; }

private:
    sigset_t outside_;
    struct sigaction pause_before_;
};

class ReaderApart : public LineReader {
public:
    explicit ReaderApart(const Completer& completer) : completer_(completer) {
        tcgetattr(STDIN_FILENO, &terminal_);
        start();
    }
    ~ReaderApart() override { finish(); }

    bool has_editor() const { return child_ > 0 || here_; }

    Result read(const std::string& prompt, std::string& line) override {
        if (!has_editor()) start();
        if (here_) return here_->read(prompt, line);
        std::optional<Message> answer = ask(Kind::read, prompt);
        if (!answer) return Result::interrupted;
        line = std::move(answer->text);
        return answer->kind == Kind::line  ? Result::line
               : answer->kind == Kind::end ? Result::end
                                           : Result::interrupted;
    }

    void remember(const std::string& entry) override {
        if (here_) return here_->remember(entry);
        if (child_ > 0) ask(Kind::remember, entry);
    }

private:
    static constexpr std::chrono::seconds patience_after_interrupt{5};

    // Empty where the editor has not answered, and was replaced.
    std::optional<Message> ask(Kind kind, const std::string& text) {
        std::fflush(stdout);
        std::clearerr(stdout);  // a write that Ctrl-C cut short
        interrupt::clear();
        const Signals signals;
        std::optional<Message> answer;
        bool late = false;
        if (channel_->send(kind, text)) answer = wait_for_answer(signals, late);
        interrupt::clear();
        if (!answer) replace(late);
        return answer;
    }

    // What the editor answers at last: what it asks for meanwhile is given to it. Empty where it has ended, or is
    // `late`: it has not answered a Ctrl-C in time.
    std::optional<Message> wait_for_answer(const Signals& signals, bool& late) {
        std::optional<Clock::time_point> limit;
        for (;;) {
            if (interrupt::requested() && !limit) {
                kill(child_, SIGINT);  // again: it forgets one from before it began to read
                limit = Clock::now() + patience_after_interrupt;
            }
            late = limit && Clock::now() > *limit;
            if (late) return {};
            pollfd messages{channel_->from(), POLLIN, 0};
            const timespec look{0, 100'000'000};
            if (ppoll(&messages, 1, limit ? &look : nullptr, &signals.outside()) <= 0) continue;
            std::optional<Message> message = channel_->receive();
            if (!message) return {};
            if (message->kind == Kind::complete) {
                if (!channel_->send(Kind::completion, packed(completer_(message->text)))) return {};
            } else if (message->kind == Kind::pause) {
                stop_process(signals.outside());
                if (!channel_->send(Kind::done)) return {};
            } else {
                return message;
            }
        }
    }

    // Starts a child with an editor, or takes one in this process where none can be started.
    void start() {
        int to_child[2], to_session[2];
        if (pipe2(to_child, O_CLOEXEC) != 0) return stay();
        if (pipe2(to_session, O_CLOEXEC) != 0) {
            close(to_child[0]);
            close(to_child[1]);
            return stay();
        }
        std::fflush(stdout);
        child_ = fork();
        if (child_ == 0) be_child(to_child[0], to_session[1]);
        close(to_child[0]);
        close(to_session[1]);
        channel_ = std::make_unique<Channel>(to_session[0], to_child[1]);
        if (child_ < 0) return stay();
        const std::optional<Message> first = channel_->receive();
        if (first && first->kind == Kind::done) return;
        finish();
        if (!first) stay();
    }

    // It keeps nothing open that the session may want to close: a lock ends with the last who has its file.
    [[noreturn]] static void be_child(int from_session, int to_session) try {
        constexpr int first_unused = 5;
        const int from = fcntl(from_session, F_DUPFD, first_unused), to = fcntl(to_session, F_DUPFD, first_unused);
        dup2(from, 3);
        dup2(to, 4);
        close_range(first_unused, ~0U, 0);
        serve(Channel(3, 4));
        _exit(0);
    } catch (...) {
        _exit(1);
    }

    void stay() {
        child_ = -1;
        here_ = open_line_editor(Host{completer_, {}, -1});
    }

    // Waits for the end of the child, which its closed pipes tell it.
    int finish() {
        int status = 0;
        channel_.reset();
        if (child_ > 0) {
            while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {}
        }
        child_ = -1;
        return status;
    }

    // The child has ended, or is to end; the next read() has another.
    void replace(bool late) {
        kill(child_, SIGKILL);
        const int status = finish();
        tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal_);
        const std::string how = late                  ? "did not answer Ctrl-C"
                                : WIFSIGNALED(status) ? std::string("ended: ") + strsignal(WTERMSIG(status))
                                                      : "ended by itself";
        std::printf("\033[?2004l\n(the line editor %s; the line is lost, and another editor goes on)\n", how.c_str());
        std::fflush(stdout);
    }

    Completer completer_;
    termios terminal_{};  // as it was before any editor
    std::unique_ptr<Channel> channel_;
    pid_t child_ = -1;
    std::unique_ptr<LineReader> here_;
};

}  // namespace

std::unique_ptr<LineReader> open_line_editor_apart(const Completer& completer) {
    auto reader = std::make_unique<ReaderApart>(completer);
    if (!reader->has_editor()) return nullptr;
    return reader;
}

}  // namespace causeway::lua
