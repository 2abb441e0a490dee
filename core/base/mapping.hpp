// Files that are read where they lie: the pages of a mapped file come from the disk when they are first touched, are
// shared among the processes that map it, and are given up again under pressure, so no file is held twice.
#pragma once

#include <string>

#include "core/base/file.hpp"  // Bytes

namespace causeway {

// A regular file, mapped read-only for as long as this lives.
//
// What is promised where somebody else writes to the file meanwhile: the process goes on. Pages that the file no longer
// has, for it was cut off, would end the process by SIGBUS; the first mapping installs a handler that puts zeros in
// their place (any other SIGBUS goes to the handler before it), and check() and check_mapped() then refuse. Content
// that was overwritten in place is seen or not, page by page; check() says that it happened, from size and time of the
// last change. A file that is replaced by another under its name stays as it was.
class Mapping {
public:
    // Throws Error as open_regular does, and where the system has no room for it.
    explicit Mapping(const std::string& path);
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping();

    const std::string& name() const { return name_; }
    Bytes bytes() const { return bytes_; }

    // Throws IoError where the file was changed since it was mapped. One system call.
    void check() const;

private:
    std::string name_;
    Bytes bytes_;
    std::int64_t changed_at_ = 0;
    int file_ = -1;
    struct Range* range_ = nullptr;
};

// Throws IoError where `address` lies in a mapped file that was cut off, so that zeros may have been read from it.
// While no file was cut off this is one comparison, cheap enough to follow every product.
void check_mapped(const void* address);

}  // namespace causeway
