// Two pipes and a thread that waits for what comes through them.
#include "lua/notebook/streams.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "core/base/error.hpp"

namespace causeway::lua {
namespace {

constexpr int room = 1 << 20;  // bytes that a pipe holds where the system allows it
constexpr int patience_ms = 100;
// What is printed in a loop comes in pieces of that many, not in one message a line.
constexpr std::chrono::milliseconds gathering{20};

// How many bytes at the end of the text begin a character of UTF-8 that goes on.
std::size_t unfinished(const std::string& text) {
    for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
        const auto byte = static_cast<unsigned char>(text[text.size() - back]);
        if ((byte & 0xC0) == 0x80) continue;
        const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
        return length > back ? back : 0;
    }
    return 0;
}

}  // namespace

Streams::Streams(Sink sink)
    : sink_(std::move(sink)), streams_{{"stdout", STDOUT_FILENO, -1, -1, {}}, {"stderr", STDERR_FILENO, -1, -1, {}}} {
    std::fflush(nullptr);
    for (Stream& stream : streams_) redirect(stream);
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // to a pipe it would come in pages
    reader_ = std::thread(&Streams::listen, this);
}

Streams::~Streams() {
    end();
    ended_ = true;
    reader_.join();
    for (Stream& stream : streams_) restore(stream);
}

void Streams::redirect(Stream& stream) {
    int ends[2];
    stream.original = fcntl(stream.number, F_DUPFD_CLOEXEC, 3);
    if (pipe2(ends, O_CLOEXEC) != 0) throw Error(sentence("a pipe could not be made: ", std::strerror(errno)));
    fcntl(ends[1], F_SETPIPE_SZ, room);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    dup2(ends[1], stream.number);
    close(ends[1]);
    stream.pipe = ends[0];
}

void Streams::restore(Stream& stream) {
    if (stream.original >= 0) dup2(stream.original, stream.number);
    close(stream.original);
    close(stream.pipe);
}

void Streams::begin() {
    const std::lock_guard lock(mutex_);
    read_all(true);
    open_ = true;
}

void Streams::drain() {
    std::fflush(stdout);
    const std::lock_guard lock(mutex_);
    read_all(false);
}

void Streams::end() {
    std::fflush(stdout);
    const std::lock_guard lock(mutex_);
    read_all(true);
    open_ = false;
}

void Streams::listen() {
    pollfd files[] = {{streams_[0].pipe, POLLIN, 0}, {streams_[1].pipe, POLLIN, 0}};
    while (!ended_) {
        if (poll(files, 2, patience_ms) <= 0) continue;
        {
            const std::lock_guard lock(mutex_);
            read_all(false);
        }
        std::this_thread::sleep_for(gathering);
    }
}

// Reads what there is, with the lock held.
void Streams::read_all(bool to_the_end) {
    char buffer[1 << 16];
    for (Stream& stream : streams_) {
        for (ssize_t n = 0; (n = read(stream.pipe, buffer, sizeof buffer)) > 0;) {
            stream.rest.append(buffer, static_cast<std::size_t>(n));
            deliver(stream, false);
        }
        deliver(stream, to_the_end);
    }
}

void Streams::deliver(Stream& stream, bool to_the_end) {
    const std::size_t kept = to_the_end ? 0 : unfinished(stream.rest);
    const std::string text = stream.rest.substr(0, stream.rest.size() - kept);
    stream.rest.erase(0, text.size());
    if (text.empty()) return;
    if (open_) sink_(stream.name, text);
    else [[maybe_unused]] const auto written = write(stream.original, text.data(), text.size());
}

}  // namespace causeway::lua
