// The file of earlier entries. Plain C++: neither Lua nor the terminal.
#include "lua/shell/history.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/file.hpp"

namespace causeway::lua {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_entries = 5000;
constexpr std::uint64_t most_bytes = 32u << 20;  // that are read; a file of more is cut to its last entries

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

// The last most_bytes of the file, from the beginning of a line on. What is no regular file holds no entries.
std::string end_of_file(const std::string& path, bool& whole) {
    const Source source(path);
    const std::uint64_t from = source.size() > most_bytes ? source.size() - most_bytes : 0;
    whole = from == 0;
    std::string text(static_cast<std::size_t>(source.size() - from), '\0');
    source.read(from, {reinterpret_cast<unsigned char*>(text.data()), text.size()});
    if (!whole) text.erase(0, std::min(text.find('\n'), text.size() - 1) + 1);
    return text;
}

// Appends to the file, which is made for its owner alone where it is not there. One that is there keeps its mode, and
// what is no regular file is not opened: it may be anybody's, or keep us waiting. Returns what is wrong, or "".
std::string append_to_file(const std::string& path, const std::string& text) {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return "it is not a regular file";
    const int file =
        ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file < 0) return std::strerror(errno);
    std::string fault;
    for (std::size_t done = 0; done < text.size() && fault.empty();) {
        const ssize_t n = ::write(file, text.data() + done, text.size() - done);
        if (n > 0) done += static_cast<std::size_t>(n);
        else if (n == 0 || errno != EINTR) fault = n == 0 ? "nothing is taken" : std::strerror(errno);
    }
    ::close(file);
    return fault;
}

// One that was there keeps its mode.
void replace_file(const std::string& path, const std::string& text) {
    Writer file(path);
    file.write(text);
    file.commit();
}

// A file of someone else would become ours where it is replaced.
bool is_ours(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && info.st_uid == ::geteuid();
}

// /dev/null, as file or as home: nothing is to be kept.
bool kept_nowhere(const fs::path& path) {
    struct stat nowhere {
    }, info{};
    if (::stat("/dev/null", &nowhere) != 0) return false;
    for (fs::path part = path; !part.empty() && part != part.root_path(); part = part.parent_path())
        if (::stat(part.c_str(), &info) == 0) return S_ISCHR(info.st_mode) && info.st_rdev == nowhere.st_rdev;
    return false;
}

}  // namespace

std::vector<std::string> History::load() {
    const std::string path = history_path();
    std::vector<std::string> entries;
    bool whole = true;
    try {
        const std::string text = path.empty() ? "" : end_of_file(path, whole);
        for (std::size_t begin = 0; begin < text.size();) {
            const std::size_t end = std::min(text.find('\n', begin), text.size());
            entries.push_back(unescape(text.substr(begin, end - begin)));
            begin = end + 1;
        }
        if (entries.size() > 2 * most_entries || !whole) {
            entries.erase(entries.begin(),
                          entries.end() - static_cast<std::ptrdiff_t>(std::min(entries.size(), most_entries)));
            std::string shorter;
            for (const auto& entry : entries) shorter += escape(entry) + "\n";
            if (is_ours(path)) replace_file(path, shorter);
        }
    } catch (const std::exception&) {
        // No entries, or a file that stays long: add() says what is wrong with it.
    }
    if (!entries.empty()) last_ = entries.back();
    return entries;
}

bool History::add(const std::string& entry) {
    if (entry == last_) return false;
    last_ = entry;
    const fs::path path = history_path();
    if (path.empty() || kept_nowhere(path)) return true;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    const std::string fault = error ? error.message() : append_to_file(path, escape(entry) + "\n");
    if (!fault.empty() && !std::exchange(told_, true))
        note_ = sentence("the history is not kept: ", path.string(), ": ", fault);
    return true;
}

std::string History::note() { return std::exchange(note_, ""); }

}  // namespace causeway::lua
