// Standard output and standard error of this process, whoever writes them: Lua's print, the library, a program that an
// entry has started.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace causeway::lua {

// While it lives, what is written to the two goes through pipes. Between begin() and end() it reaches the sink as it
// comes; at other times it goes where it went before.
class Streams {
public:
    // Called with "stdout" or "stderr" and whole characters of UTF-8, from a thread of its own or from the one that
    // calls drain() and end(), never from two at once.
    using Sink = std::function<void(const std::string& name, const std::string& text)>;

    explicit Streams(Sink sink);
    ~Streams();
    Streams(const Streams&) = delete;
    Streams& operator=(const Streams&) = delete;

    void begin();
    // All that has been written so far has reached the sink when it returns.
    void drain();
    void end();

private:
    struct Stream {
        const char* name;
        int number;         // of the file
        int original = -1;  // what it was
        int pipe = -1;      // the end to read from
        std::string rest;   // the beginning of a character whose end has not come yet
    };

    void redirect(Stream& stream);
    void restore(Stream& stream);
    void listen();
    void read_all(bool to_the_end);
    void deliver(Stream& stream, bool to_the_end);

    Sink sink_;
    std::mutex mutex_;
    bool open_ = false;  // between begin() and end()
    std::atomic<bool> ended_{false};
    Stream streams_[2];
    std::thread reader_;
};

}  // namespace causeway::lua
