// The journal that sweep keeps its rows in: a file that only grows, whose lines survive a crash.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "lua/bind/bind.hpp"
#include "lua/bind/families.hpp"

namespace causeway::lua {
namespace {

constexpr const char* journal_type = "causeway.Journal";

// A file that only grows, held by one process at a time. What append() has returned from is on the disk.
class Journal {
public:
    explicit Journal(const std::string& path)
        : path_(path), file_(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
        if (file_ < 0) fail_as<IoError>("cannot write ", path, ": ", std::strerror(errno));
        if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
            close_file();
            fail_as<IoError>(path, " is in use by another process, expected to be the only one that writes it");
        }
        sync_folder();
    }
    ~Journal() { close_file(); }
    Journal(const Journal&) = delete;
    Journal& operator=(const Journal&) = delete;

    void append(const std::string& text) {
        require_open();
        for (std::size_t done = 0; done < text.size();) {
            const ssize_t n = write(file_, text.data() + done, text.size() - done);
            if (n < 0 && errno != EINTR) fail_as<IoError>("cannot write ", path_, ": ", std::strerror(errno));
            if (n > 0) done += static_cast<std::size_t>(n);
        }
        if (fsync(file_) != 0) fail_as<IoError>("cannot write ", path_, ": ", std::strerror(errno));
    }

    // Drops what lies behind the first `size` bytes.
    void cut(Index size) {
        require_open();
        if (ftruncate(file_, size) != 0 || fsync(file_) != 0)
            fail_as<IoError>("cannot write ", path_, ": ", std::strerror(errno));
    }

    void close_file() {
        if (file_ >= 0) close(file_);
        file_ = -1;
    }

private:
    void require_open() const {
        if (file_ < 0) fail(path_, ": the journal is closed");
    }

    // A new name is only safe when its folder is on the disk too.
    void sync_folder() const {
        const std::string folder = std::filesystem::absolute(path_).parent_path().string();
        const int handle = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (handle < 0) return;
        fsync(handle);
        close(handle);
    }

    std::string path_;
    int file_;
};

Journal& check_journal(lua_State* L) { return *static_cast<Journal*>(luaL_checkudata(L, 1, journal_type)); }

// _open_journal(path) -> journal with the methods append(text), cut(size), close()
int new_journal(lua_State* L) {
    const std::string path = check_string(L, 1, "path");
    void* place = lua_newuserdatauv(L, sizeof(Journal), 0);
    new (place) Journal(path);
    luaL_setmetatable(L, journal_type);
    return 1;
}

int append_to_journal(lua_State* L) {
    check_journal(L).append(check_string(L, 2, "text"));
    return 0;
}

int cut_journal(lua_State* L) {
    check_journal(L).cut(check_integer(L, 2, "size"));
    return 0;
}

int close_journal(lua_State* L) {
    check_journal(L).close_file();
    return 0;
}

int destroy_journal(lua_State* L) {
    check_journal(L).~Journal();
    return 0;
}

}  // namespace

void open_journal(lua_State* L) {
    luaL_newmetatable(L, journal_type);
    lua_pushcfunction(L, guarded<destroy_journal>);
    lua_setfield(L, -2, "__gc");
    const luaL_Reg methods[] = {{"append", guarded<append_to_journal>},
                                {"cut", guarded<cut_journal>},
                                {"close", guarded<close_journal>},
                                {nullptr, nullptr}};
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    add_functions(L, {{"_open_journal", guarded<new_journal>}});
}

}  // namespace causeway::lua
