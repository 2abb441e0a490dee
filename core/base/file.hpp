// Files as bytes: reading from any position, writing all or nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/memory.hpp"  // Buffer

namespace causeway {

using Bytes = std::span<const unsigned char>;

// Opens what is a regular file, as open(2) does with these flags and O_CLOEXEC. Throws IoError, with the path and the
// cause, for what is missing, not allowed or something else: a pipe would block, a device has no end. `action` is what
// messages say was wanted: "read", "written".
int open_regular(const std::string& path, int flags, const char* action);

// Removes the temporary files that writers of `path` left when they were killed. Nobody may be writing it.
void remove_parts(const std::string& path);

// Bytes with a name, readable from any position: a file, or memory. The parsers of file formats speak to this, so what
// they read goes straight to where it is wanted and no file is held twice.
class Source {
public:
    // Opens a regular file, as open_regular does.
    explicit Source(const std::string& path);
    // Memory that stays alive as long as the source; `name` is what messages call it.
    Source(Bytes memory, std::string name);
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;
    virtual ~Source();

    const std::string& name() const { return name_; }
    std::uint64_t size() const { return size_; }

    // Fills `into` from position `offset`. Throws Error where the bytes are not all there (also when the file has
    // shrunk since it was opened), cannot be read, or the file was written to since it was opened: what was read may
    // be a mixture.
    virtual void read(std::uint64_t offset, std::span<unsigned char> into) const;

    // Everything, as text in counted memory.
    Buffer<char> text() const;

protected:
    // Bytes that a derived class gives by a read() of its own.
    Source(std::string name, std::uint64_t size) : name_(std::move(name)), size_(size) {}
    // Throws Error where these bytes are not all there.
    void check_range(std::uint64_t offset, std::size_t bytes) const;

private:
    std::string name_;
    std::uint64_t size_ = 0;
    std::int64_t changed_at_ = 0;
    int file_ = -1;  // file descriptor; -1: memory
    Bytes memory_;
};

// A file that appears complete or not at all: bytes go to a temporary file beside it, which commit() renames. Until
// then, and for good when writing fails, the old file stays as it is.
class Writer {
public:
    // Throws Error, with the path and the cause, where the file cannot be made.
    explicit Writer(const std::string& path);
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;
    ~Writer();

    // Throw Error, for instance when the disk is full.
    void write(Bytes bytes);
    void write(std::string_view text);
    void commit();
    // The file that the bytes go to until then: others may write into it too (PartWriter).
    const std::string& temporary() const { return temporary_; }

private:
    std::string path_;       // as given, for messages
    std::string target_;     // where links have led
    std::string temporary_;  // empty once renamed
    int file_ = -1;
};

// One of several who write a file together: bytes go to any position of the temporary file that a Writer, of this or
// another process, has made.
class PartWriter {
public:
    // `path` is what messages call the file. Throws Error where there is no such file.
    PartWriter(const std::string& temporary, const std::string& path);
    PartWriter(const PartWriter&) = delete;
    PartWriter& operator=(const PartWriter&) = delete;
    ~PartWriter();

    // Throw Error, for instance when the disk is full.
    void write(std::uint64_t offset, Bytes bytes);
    void finish();  // the bytes are on the disk; nothing is written after it

private:
    std::string path_;
    int file_ = -1;
};

}  // namespace causeway
