// Reading lines from a person: with editing, history and completion on a terminal, plainly from anything else.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lua/shell/complete.hpp"

namespace causeway::lua {

// Where the entries of the shell come from.
class LineReader {
public:
    enum class Result { line, interrupted, end };

    virtual ~LineReader() = default;
    // Reads a line, which has several where they were pasted or recalled, without its end.
    virtual Result read(const std::string& prompt, std::string& line) = 0;
    // Keeps an entry for the arrow keys and for the next run.
    virtual void remember(const std::string& entry) = 0;
};

// What Tab offers for the text between the beginning of the line and the cursor.
using Completer = std::function<Completion(const std::string& before_cursor)>;

// What a line editor asks of the session that it reads for.
struct Host {
    Completer completer;
    std::function<void()> pause;  // Ctrl-Z: returns when the session goes on; empty where the editor stops itself
    int session = -1;             // a pipe that the session closes at its end, where it is another process; else -1
};

// Standard input with the line editor where it is a terminal that can move its cursor, else line by line.
std::unique_ptr<LineReader> open_line_reader(const Completer& completer);

// The line editor of a terminal. CAUSEWAY_EDITOR chooses one of the files that define it: readline.cpp, libedit.cpp, or
// none.cpp, which has none to give.
std::unique_ptr<LineReader> open_line_editor(Host host);

}  // namespace causeway::lua
