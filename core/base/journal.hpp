// A file of lines that only grows, which several processes may share, on one machine or on a disk of several (NFS).
//
// What append() has returned from is on the disk. All coordination is by byte-range locks of the open file, on bytes
// far behind its end, which the kernel, or the server of a shared disk, releases when a process dies, however it dies:
//   the write lock   one holder; the file is read and written under it alone
//   presence         shared by all who have joined; empty_alone() wants it without others
//   a claim          of a piece of work, named by a key; one holder
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace causeway {

class Journal {
public:
    enum class Access { read, write };

    // Opens it, for writing makes it where it is missing. To read takes no lock and changes nothing. Throws IoError for
    // what is no regular file, and Error where this process has it open for writing already: it would wait for itself.
    Journal(const std::string& path, Access access);
    Journal(const Journal&) = delete;
    Journal& operator=(const Journal&) = delete;
    ~Journal();  // releases all locks

    // The next complete lines, about a MiB at once and "" at the end. A last line without its end, or with zero bytes
    // (a crash of the machine), is not there: its writer died. Throws IoError for a line longer than longest_line and
    // a file beyond most_bytes, which hold no rows.
    std::string read();
    void rewind();  // read() begins at the first line again

    // Waits while another holds the write lock; stops for interrupt::check(). Throws IoError where the disk keeps no
    // locks, and where the file has been deleted, replaced or cut since it was opened.
    void lock();
    void unlock();

    // Under the write lock.
    void join();
    bool empty_alone();  // where nobody else has joined: empties the file and joins; false where another has

    // Under the write lock, after read() has come to the end: lines, written through to the disk. A torn line that was
    // there gives way. Where it cannot be written the file is as before.
    void append(std::string_view lines);

    // False where another process holds the claim. A process holds one at a time.
    bool claim(std::string_view key);
    void release();

    static constexpr std::uint64_t longest_line = std::uint64_t{64} << 20, most_bytes = std::uint64_t{4} << 30;

private:
    bool set_lock(short type, std::int64_t byte, bool wait);
    void check_same_file() const;
    [[noreturn]] void fail_to_write(int cause) const;

    std::string path_;
    int file_ = -1;
    bool writes_ = false;
    std::uint64_t device_ = 0, inode_ = 0;
    std::uint64_t position_ = 0;  // of the first byte not read
    std::uint64_t line_ = 1;      // that begins there
    std::int64_t claimed_ = -1;   // byte of the claim held; -1: none
};

}  // namespace causeway
