// The file of earlier entries. Plain C++: neither Lua nor the terminal.
#include "lua/shell/history.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace causeway::lua {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_entries = 5000;

// $XDG_STATE_HOME/causeway/history or ~/.local/state/causeway/history; empty without a home.
fs::path history_path() {
    const char* state = std::getenv("XDG_STATE_HOME");
    const char* home = std::getenv("HOME");
    if (state && fs::path(state).is_absolute()) return fs::path(state) / "causeway" / "history";
    if (home && *home) return fs::path(home) / ".local" / "state" / "causeway" / "history";
    return {};
}

// One entry a line: the end of a line is written \n, a backslash \\.
std::string escape(const std::string& entry) {
    std::string line;
    for (const char c : entry) {
        if (c == '\n') line += "\\n";
        else if (c == '\\') line += "\\\\";
        else line += c;
    }
    return line;
}

std::string unescape(const std::string& line) {
    std::string entry;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\\' && i + 1 < line.size()) entry += line[++i] == 'n' ? '\n' : line[i];
        else entry += line[i];
    }
    return entry;
}

}  // namespace

std::vector<std::string> History::load() {
    const fs::path path = history_path();
    std::vector<std::string> entries;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) entries.push_back(unescape(line));
    in.close();
    if (entries.size() > 2 * most_entries) {
        entries.erase(entries.begin(), entries.end() - static_cast<std::ptrdiff_t>(most_entries));
        const fs::path shorter = path.string() + ".new";
        std::ofstream out(shorter);
        for (const auto& entry : entries) out << escape(entry) << '\n';
        std::error_code ignored;
        if (out.flush()) fs::rename(shorter, path, ignored);
    }
    if (!entries.empty()) last_ = entries.back();
    return entries;
}

bool History::add(const std::string& entry) {
    if (entry == last_) return false;
    last_ = entry;
    const fs::path path = history_path();
    std::error_code ignored;
    fs::create_directories(path.parent_path(), ignored);
    std::ofstream(path, std::ios::app) << escape(entry) << '\n';
    fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write, ignored);  // what one types is one's own
    return true;
}

}  // namespace causeway::lua
