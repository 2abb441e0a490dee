#include "core/base/file.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"

namespace causeway {
namespace {

constexpr std::size_t piece = 16u << 20;  // bytes between two looks at interrupt::check()

[[noreturn]] void fail_system(const std::string& path, const char* action, int cause) {
    fail_as<IoError>(path, ": cannot be ", action, ": ", std::strerror(cause));
}

const char* kind_of(mode_t mode) {
    if (S_ISDIR(mode)) return "a directory";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISSOCK(mode)) return "a socket";
    return "a device";
}

void check_path(const std::string& path) {
    if (path.empty()) fail("the file name is empty");
    if (path.find('\0') != std::string::npos) fail(path.c_str(), ": a file name cannot contain a zero byte");
}

// The file a chain of symbolic links ends at, so that saving through a link keeps the link.
std::string resolve(const std::string& path) {
    const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
    return real ? std::string(real.get()) : path;
}

// Nanoseconds of the last change of the content. Not that of the inode, which a new name or mode changes too: a file
// that is replaced whole while it is read is read as it was.
std::int64_t changed_at(const struct stat& info) {
    return std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

// The file's bytes reach the disk; `file` is none afterwards.
void flush_and_close(int& file, const std::string& path) {
    if (::fsync(file) != 0 && errno != EINVAL && errno != ENOTSUP) fail_system(path, "written", errno);
    const int status = ::close(std::exchange(file, -1));
    if (status != 0) fail_system(path, "written", errno);
}

}  // namespace

int open_regular(const std::string& path, int flags, const char* action) {
    check_path(path);
    // O_NONBLOCK: opening a pipe must not wait for its other end. It changes nothing for a regular file.
    const int file = ::open(path.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (file < 0) fail_system(path, action, errno);
    struct stat info {};
    const int status = ::fstat(file, &info);
    const int cause = errno;
    if (status == 0 && S_ISREG(info.st_mode)) return file;
    ::close(file);
    if (status != 0) fail_system(path, action, cause);
    fail_as<IoError>(path, ": is ", kind_of(info.st_mode), ", expected a regular file");
}

void remove_parts(const std::string& path) {
    const std::filesystem::path target = resolve(path);
    const std::string beginning = target.filename().string() + ".part-";
    const auto numbers = [](const std::string& text) {
        return !text.empty() && text.find_first_not_of("0123456789-") == std::string::npos;
    };
    std::error_code ignored;
    std::vector<std::filesystem::path> parts;
    for (std::filesystem::directory_iterator at(target.has_parent_path() ? target.parent_path() : ".", ignored), end;
         at != end && !ignored; at.increment(ignored)) {
        const std::string name = at->path().filename().string();
        if (name.starts_with(beginning) && numbers(name.substr(beginning.size()))) parts.push_back(at->path());
    }
    for (const auto& part : parts) std::filesystem::remove(part, ignored);
}

Source::Source(const std::string& path) : name_(path), file_(open_regular(path, O_RDONLY, "read")) {
    struct stat info {};
    if (::fstat(file_, &info) != 0) {
        const int cause = errno;
        ::close(file_);
        fail_system(path, "read", cause);
    }
    size_ = static_cast<std::uint64_t>(info.st_size);
    changed_at_ = changed_at(info);
}

Source::Source(Bytes memory, std::string name) : name_(std::move(name)), size_(memory.size()), memory_(memory) {}

Source::~Source() {
    if (file_ >= 0) ::close(file_);
}

void Source::check_range(std::uint64_t offset, std::size_t bytes) const {
    if (offset > size_ || bytes > size_ - offset) {
        fail_as<IoError>(name_, ": ends after ", size_, " bytes, but ", bytes, " more are needed from byte ", offset,
                         " on");
    }
}

void Source::read(std::uint64_t offset, std::span<unsigned char> into) const {
    check_range(offset, into.size());
    if (file_ < 0) {
        if (!into.empty()) std::memcpy(into.data(), memory_.data() + offset, into.size());
        return;
    }
    while (!into.empty()) {
        interrupt::check();
        const ssize_t n = ::pread(file_, into.data(), std::min(into.size(), piece), static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) fail_system(name_, "read", errno);
        if (n == 0)
            fail_as<IoError>(name_, ": ended after ", offset, " bytes while it was read, ", size_,
                             " were there before");
        into = into.subspan(static_cast<std::size_t>(n));
        offset += static_cast<std::uint64_t>(n);
    }
    struct stat info {};
    if (::fstat(file_, &info) != 0) fail_system(name_, "read", errno);
    if (changed_at(info) != changed_at_ || static_cast<std::uint64_t>(info.st_size) != size_)
        fail_as<IoError>(name_, ": was changed while it was read");
}

Buffer<char> Source::text() const {
    Buffer<char> out(static_cast<Index>(size_));
    read(0, {reinterpret_cast<unsigned char*>(out.data()), static_cast<std::size_t>(size_)});
    return out;
}

Writer::Writer(const std::string& path) : path_(path) {
    check_path(path);
    target_ = resolve(path);
    mode_t mode = 0;
    struct stat info {};
    if (::stat(target_.c_str(), &info) == 0) {
        if (!S_ISREG(info.st_mode)) fail_as<IoError>(path, ": cannot be written: it is ", kind_of(info.st_mode));
        if (::access(target_.c_str(), W_OK) != 0) fail_system(path, "written", errno);
        mode = info.st_mode & 07777;
    }
    static std::atomic<unsigned> count{0};
    do {
        temporary_ = target_ + ".part-" + std::to_string(::getpid()) + "-" + std::to_string(count.fetch_add(1));
        file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (file_ < 0 && errno == EEXIST);
    if (file_ < 0) {
        const int cause = errno;
        temporary_.clear();
        fail_system(path, "written", cause);
    }
    if (mode != 0) (void)!::fchmod(file_, mode);  // a file system without modes is no reason to fail
}

Writer::~Writer() {
    if (file_ >= 0) ::close(file_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void Writer::write(Bytes bytes) {
    while (!bytes.empty()) {
        interrupt::check();
        const ssize_t n = ::write(file_, bytes.data(), std::min(bytes.size(), piece));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) fail_system(path_, "written", errno);
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
}

void Writer::write(std::string_view text) {
    write(Bytes(reinterpret_cast<const unsigned char*>(text.data()), text.size()));
}

void Writer::commit() {
    // The bytes reach the disk before the name does: a full disk or a lost connection shows here, and a power cut
    // leaves the old file or the new one.
    flush_and_close(file_, path_);
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail_system(path_, "written", errno);
    temporary_.clear();
}

PartWriter::PartWriter(const std::string& temporary, const std::string& path)
    : path_(path), file_(::open(temporary.c_str(), O_WRONLY | O_CLOEXEC)) {
    if (file_ < 0) fail_system(path, "written", errno);
}

PartWriter::~PartWriter() {
    if (file_ >= 0) ::close(file_);
}

void PartWriter::write(std::uint64_t offset, Bytes bytes) {
    while (!bytes.empty()) {
        interrupt::check();
        const ssize_t n = ::pwrite(file_, bytes.data(), std::min(bytes.size(), piece), static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) fail_system(path_, "written", errno);
        bytes = bytes.subspan(static_cast<std::size_t>(n));
        offset += static_cast<std::uint64_t>(n);
    }
}

void PartWriter::finish() { flush_and_close(file_, path_); }

}  // namespace causeway
