// The loop over lines: the editor reads, evaluate runs, history keeps.
#include "lua/shell/repl.hpp"

#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstring>
#include <exception>
#include <set>
#include <string>

#include "core/base/interrupt.hpp"
#include "lua/bind/bind.hpp"
#include "lua/shell/about.hpp"
#include "lua/shell/complete.hpp"
#include "lua/shell/display.hpp"
#include "lua/shell/editor/editor.hpp"
#include "lua/shell/evaluate.hpp"
#include "lua/shell/hints.hpp"
#include "lua/shell/names.hpp"
#include "lua/shell/script.hpp"
#include "lua/shell/signals.hpp"
#include "lua/shell/tokens.hpp"

namespace causeway::lua {
namespace {

const std::string prompt_text = "causeway> ";
const std::string continuation = "        > ";

// An editor counts no columns for what stands between \001 and \002, and wants a character behind it.
std::string coloured_prompt(bool colour) {
    return colour ? "\001\033[1;32m\002causeway>\001\033[0m\002 " : prompt_text;
}

// Of an entry that begins with the prompt it was pasted from a page that shows the shell: only what stands behind the
// prompts counts of it.
bool has_prompts(const std::string& entry) { return entry.rfind(prompt_text, 0) == 0; }

std::string behind_prompts(const std::string& entry) {
    std::string typed;
    for (std::size_t begin = 0; begin < entry.size();) {
        const std::size_t end = std::min(entry.find('\n', begin), entry.size());
        const std::string line = entry.substr(begin, end - begin);
        for (const std::string& prompt : {prompt_text, continuation}) {
            if (line.rfind(prompt, 0) != 0) continue;
            if (!typed.empty()) typed += '\n';
            typed.append(line, prompt.size());
        }
        begin = end + 1;
    }
    return typed;
}

// `local x = 1` alone is over at the end of the line: say so, as newcomers to Lua stumble over it.
bool only_declares_local(const std::string& entry) {
    const auto tokens = tokenize(entry);
    return !tokens.empty() && tokens.front().text(entry) == "local" && entry.find('\n') == std::string::npos &&
           entry.find(';') == std::string::npos;
}

class Shell {
public:
    explicit Shell(lua_State* L)
        : L_(L),
          terminal_(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)),
          prompt_(coloured_prompt(display(L).colour())),
          reader_(open_line_reader([this](const std::string& line) { return complete_entry(line); })) {}

    int run() {
        if (terminal_) {
            std::printf("%s\n", banner_text(display(L_).columns(), display(L_).colour()).c_str());
            tell_hidden_names();  // of the script of -i
        }
        bool failed = false;
        const int base = lua_gettop(L_);
        for (bool more = true; more;) {
            try {
                more = run_entry(failed);
            } catch (const std::exception&) {  // memory that ran out between two entries
                lua_settop(L_, base);
                std::fputs("error: out of memory\n", stderr);
                failed = true;
            }
        }
        return failed && !isatty(STDIN_FILENO);
    }

private:
    // Reads an entry and evaluates it. False at the end of the input.
    bool run_entry(bool& failed) {
        std::string entry;
        if (!read_entry(entry)) return false;
        if (entry.find_first_not_of(" \t\r\n") == std::string::npos) return true;
        reader_->remember(entry);
        const Failure failure = evaluate_entry(has_prompts(entry) ? behind_prompts(entry) : entry);
        interrupt::clear();
        if (failure) report(L_, failure);
        else if (terminal_ && only_declares_local(entry))
            std::printf("(a local variable ends with its line; without `local` it stays)\n");
        if (terminal_) tell_hidden_names();
        failed = failed || failure;
        if (terminal_) std::putchar('\n');
        std::fflush(stdout);
        return true;
    }

    // Reads lines until they are complete. False at the end of the input.
    bool read_entry(std::string& entry) {
        entry.clear();
        pending_.clear();
        EntryReader lines(L_);
        bool told = false;  // of an `else if`
        for (std::string line;;) {
            const auto result = reader_->read(pending_.empty() ? prompt_ : continuation, line);
            if (result == LineReader::Result::end && pending_.empty()) return false;
            if (result == LineReader::Result::interrupted) {
                interrupted_at_prompt();
                lines = EntryReader(L_);
                told = false;
                continue;
            }
            if (result == LineReader::Result::line) pending_ += line;
            if (result == LineReader::Result::end ||
                !lines.wants_more_after(has_prompts(pending_) ? behind_prompts(line) : line)) {
                entry = pending_;
                while (!entry.empty() && entry.back() == '\n') entry.pop_back();
                return true;
            }
            if (terminal_ && !told && has_else_if(pending_)) {
                std::printf("note: else if begins a condition with an end of its own; elseif, one word, needs none\n");
                told = true;
            }
            pending_ += '\n';
        }
    }

    // A name of the library's that is a variable of the user's now is easily called in its old meaning: says so, once.
    void tell_hidden_names() {
        for (const auto& note : notes_on_hidden_names(L_, told_names_)) std::printf("%s\n", note.c_str());
    }

    void interrupted_at_prompt() {
        pending_.clear();
        interrupt::clear();
    }

    Failure evaluate_entry(const std::string& entry) {
        return evaluate(L_, entry, "input[" + std::to_string(++count_) + "]");
    }

    // The lines before this one belong to what is completed.
    Completion complete_entry(const std::string& line) {
        Completion found = complete(L_, pending_ + line);
        if (found.begin < pending_.size()) return {};
        found.begin -= pending_.size();
        return found;
    }

    lua_State* L_;
    bool terminal_;
    std::string prompt_;
    std::string pending_;  // the lines of an entry that is not complete yet
    std::unique_ptr<LineReader> reader_;
    int count_ = 0;
    std::set<std::string> told_names_;  // whose note has been shown
};

}  // namespace

int run_shell(lua_State* L) {
    handle_signals(Patience::shell);
    // Characters of several bytes are one to the line editor; numbers keep their point.
    if (const char* locale = std::setlocale(LC_CTYPE, ""); !locale || std::strcmp(locale, "C") == 0)
        std::setlocale(LC_CTYPE, "C.UTF-8");
    return Shell(L).run();
}

}  // namespace causeway::lua
