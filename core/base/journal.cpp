#include "core/base/journal.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/digest.hpp"
#include "core/base/error.hpp"
#include "core/base/file.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/process.hpp"

namespace causeway {
namespace {

constexpr std::uint64_t piece = 1u << 20;

// No file is so long that these are bytes of it.
constexpr std::int64_t write_byte = std::int64_t{1} << 62, presence_byte = write_byte + 1;
constexpr std::int64_t first_claim = std::int64_t{1} << 61;

// Keys are told apart by 60 bits of a digest: two that share them would wait for each other, and lose nothing.
std::int64_t byte_of(std::string_view key) {
    Digest digest;
    digest.add(key);
    return first_claim + static_cast<std::int64_t>(std::stoull(digest.text(), nullptr, 16) & (first_claim / 2 - 1));
}

// The files that this process writes, for its own locks do not tell that it waits for itself.
class OpenFiles {
public:
    bool add(std::uint64_t device, std::uint64_t inode) {
        const std::lock_guard lock(mutex_);
        return files_.emplace(device, inode).second;
    }
    void remove(std::uint64_t device, std::uint64_t inode) {
        const std::lock_guard lock(mutex_);
        files_.erase({device, inode});
    }

    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }

private:
    std::mutex mutex_;
    std::set<std::pair<std::uint64_t, std::uint64_t>> files_;
};

OpenFiles& open_files() {
    static auto& files = *[] {  // never destroyed: a thread may outlive main
        auto made = std::make_unique<OpenFiles>();
        process::around_fork([] { open_files().lock(); }, [] { open_files().unlock(); });
        return made.release();
    }();
    return files;
}

// A new name is only safe when its folder is on the disk too.
void sync_folder_of(const std::string& path) {
    const std::string folder = std::filesystem::absolute(path).parent_path().string();
    const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle < 0) return;
    ::fsync(handle);
    ::close(handle);
}

}  // namespace

Journal::Journal(const std::string& path, Access access)
    : path_(path),
      file_(open_regular(path, access == Access::read ? O_RDONLY : O_RDWR | O_CREAT,
                         access == Access::read ? "read" : "written")) {
    struct stat info {};
    ::fstat(file_, &info);
    device_ = info.st_dev, inode_ = info.st_ino;
    if (access == Access::read) return;
    try {
        if (!open_files().add(device_, inode_))
            fail(path, ": a sweep of this program writes it already, expected another folder inside its run function");
        writes_ = true;
        sync_folder_of(path);
    } catch (...) {  // no memory, for one
        if (writes_) open_files().remove(device_, inode_);
        ::close(file_);
        throw;
    }
}

Journal::~Journal() {
    if (writes_) open_files().remove(device_, inode_);
    ::close(file_);
}

void Journal::fail_to_write(int cause) const { fail_as<IoError>(path_, ": cannot be written: ", std::strerror(cause)); }

// -- Locks --------------------------------------------------------------------------------------------------------

bool Journal::set_lock(short type, std::int64_t byte, bool wait) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = byte;
    lock.l_len = 1;
    // Of the open file, not of the process: closing another handle of the same file releases nothing.
    while (::fcntl(file_, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock) != 0) {
        if (errno == EINTR) interrupt::check();
        else if (!wait && (errno == EAGAIN || errno == EACCES)) return false;
        else
            fail_as<IoError>(path_, ": cannot be locked: ", std::strerror(errno),
                             ", expected a folder on a disk that keeps locks");
    }
    return true;
}

void Journal::check_same_file() const {
    struct stat now {};
    if (::stat(path_.c_str(), &now) != 0)
        fail_as<IoError>(path_, ": was deleted or moved while a sweep writes it: ", std::strerror(errno));
    if (now.st_dev != device_ || now.st_ino != inode_)
        fail_as<IoError>(path_, ": was replaced by another file while a sweep writes it");
    if (static_cast<std::uint64_t>(now.st_size) < position_)
        fail_as<IoError>(path_, ": was cut from ", position_, " to ", now.st_size, " bytes while a sweep writes it");
}

void Journal::lock() {
    set_lock(F_WRLCK, write_byte, true);
    check_same_file();
}

void Journal::unlock() { set_lock(F_UNLCK, write_byte, false); }

void Journal::join() {
    set_lock(F_RDLCK, presence_byte, true);  // empty_alone gives it up before the write lock: there is no wait
}

bool Journal::empty_alone() {
    if (!set_lock(F_WRLCK, presence_byte, false)) return false;
    if (::ftruncate(file_, 0) != 0 || ::fsync(file_) != 0) fail_to_write(errno);
    rewind();
    join();
    return true;
}

bool Journal::claim(std::string_view key) {
    release();
    const std::int64_t byte = byte_of(key);
    if (!set_lock(F_WRLCK, byte, false)) return false;
    claimed_ = byte;
    return true;
}

void Journal::release() {
    if (claimed_ >= 0) set_lock(F_UNLCK, std::exchange(claimed_, -1), false);
}

// -- Lines --------------------------------------------------------------------------------------------------------

std::string Journal::read() {
    struct stat info {};
    if (::fstat(file_, &info) != 0) fail_as<IoError>(path_, ": cannot be read: ", std::strerror(errno));
    const auto size = static_cast<std::uint64_t>(info.st_size);
    if (size > most_bytes)
        fail_as<IoError>(path_, ": has ", size, " bytes, expected the rows of a sweep, at most ", most_bytes);
    std::string text;
    for (std::uint64_t end = position_; end < size;) {
        interrupt::check();
        const std::size_t had = text.size();
        text.resize(had + static_cast<std::size_t>(std::min(piece, size - end)));
        const ssize_t n = ::pread(file_, text.data() + had, text.size() - had, static_cast<off_t>(end));
        if (n < 0 && errno != EINTR) fail_as<IoError>(path_, ": cannot be read: ", std::strerror(errno));
        text.resize(had + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
        if (n == 0) break;  // it was cut meanwhile
        end = position_ + text.size();
        std::size_t lines = text.rfind('\n') + 1;  // npos + 1 is 0
        if (end == size && lines == text.size()) {
            const std::size_t last = lines > 1 ? text.rfind('\n', lines - 2) + 1 : 0;
            if (std::memchr(text.data() + last, '\0', lines - last)) lines = last;
        }
        if (lines > 0) {
            text.resize(lines);
            position_ += lines;
            line_ += static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
            return text;
        }
        if (text.size() > longest_line)
            fail_as<IoError>(path_, ", line ", line_, " has more than ", longest_line, " bytes and is not a row");
    }
    return "";
}

void Journal::rewind() { position_ = 0, line_ = 1; }

void Journal::append(std::string_view lines) {
    struct stat info {};
    if (::fstat(file_, &info) != 0) fail_to_write(errno);
    const bool torn = static_cast<std::uint64_t>(info.st_size) > position_;
    if (!torn && lines.empty()) return;
    if (torn && ::ftruncate(file_, static_cast<off_t>(position_)) != 0) fail_to_write(errno);
    for (std::size_t done = 0; done < lines.size();) {
        const ssize_t n =
            ::pwrite(file_, lines.data() + done, lines.size() - done, static_cast<off_t>(position_ + done));
        if (n > 0) done += static_cast<std::size_t>(n);
        if (n > 0 || (n < 0 && errno == EINTR)) continue;
        const int cause = n == 0 ? ENOSPC : errno;
        (void)!::ftruncate(file_, static_cast<off_t>(position_));
        fail_to_write(cause);
    }
    if (::fsync(file_) != 0) fail_to_write(errno);
    position_ += lines.size();
    line_ += static_cast<std::uint64_t>(std::count(lines.begin(), lines.end(), '\n'));
}

}  // namespace causeway
