#include "core/base/file.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/catch.hpp"
#include "tests/limits.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::testing;

namespace {

std::string fault_of(const std::string& path) {
    return message_of([&] { Source{path}; });
}

std::string read_all(const std::string& path) {
    const Buffer<char> text = Source(path).text();
    return {text.data(), static_cast<std::size_t>(text.size())};
}

}  // namespace

TEST_CASE("what is not a readable regular file is named", "[file][files]") {
    const TemporaryFolder folder;
    CHECK(fault_of("") == "the file name is empty");
    CHECK(fault_of(std::string("a\0b", 3)) == "a: a file name cannot contain a zero byte");
    CHECK(fault_of(folder / "none") == folder / "none" + ": cannot be read: No such file or directory");
    CHECK(fault_of(folder.path()) == folder.path() + ": is a directory, expected a regular file");
    CHECK(fault_of("/dev/zero") == "/dev/zero: is a device, expected a regular file");
    REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
    CHECK(fault_of(folder / "pipe") == folder / "pipe" + ": is a pipe, expected a regular file");
    if (::geteuid() != 0) {
        write_bytes(folder / "secret", "x");
        ::chmod((folder / "secret").c_str(), 0);
        CHECK(fault_of(folder / "secret") == folder / "secret" + ": cannot be read: Permission denied");
    }
}

TEST_CASE("a source gives the bytes that are there and no others", "[file][files]") {
    const TemporaryFolder folder;
    write_bytes(folder / "a", "0123456789");
    const std::string memory = "0123456789";
    const auto check = [](const Source& source) {
        unsigned char got[4] = {};
        source.read(6, got);
        CHECK(std::memcmp(got, "6789", 4) == 0);
        CHECK(message_of([&] { source.read(7, got); }) ==
              source.name() + ": ends after 10 bytes, but 4 more are needed from byte 7 on");
        CHECK(message_of([&] { source.read(~std::uint64_t{0}, got); }) ==
              source.name() + ": ends after 10 bytes, but 4 more are needed from byte 18446744073709551615 on");
        CHECK(message_of([&] { source.read(10, {}); }).empty());
    };
    check(Source(folder / "a"));
    check(Source(Bytes(reinterpret_cast<const unsigned char*>(memory.data()), memory.size()), "memory"));
    CHECK(read_all(folder / "a") == memory);
}

TEST_CASE("a file that shrinks while it is read is an error", "[file][files]") {
    const TemporaryFolder folder;
    write_bytes(folder / "a", "0123456789");
    const Source source(folder / "a");
    write_bytes(folder / "a", "0123");
    CHECK(message_of([&] { source.text(); }) ==
          folder / "a" + ": ended after 4 bytes while it was read, 10 were there before");
}

TEST_CASE("a file that is overwritten in place while it is read is an error", "[file][files]") {
    const TemporaryFolder folder;
    const std::string path = folder / "a";
    unsigned char half[5] = {};
    write_bytes(path, "0123456789");
    const Source source(path);
    source.read(0, half);
    write_bytes(path, "abcdefghij");
    // The clock of the file system ticks a few hundred times a second.
    std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
    CHECK(message_of([&] { source.read(5, half); }) == path + ": was changed while it was read");

    // One that is replaced whole is read as it was.
    const Source old(path);
    old.read(0, half);
    Writer out(path);
    out.write("new");
    out.commit();
    old.read(5, half);
    CHECK(std::memcmp(half, "fghij", 5) == 0);
}

TEST_CASE("what killed writers have left can be removed", "[file][files]") {
    const TemporaryFolder folder;
    for (const char* name : {"a", "a.part-12-0", "a.part-7-31", "a.part-", "a.part-x-1", "ab.part-1-0"})
        write_bytes(folder / name, "x");
    remove_parts(folder / "a");
    std::vector<std::string> left;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
        left.push_back(entry.path().filename().string());
    std::sort(left.begin(), left.end());
    CHECK(left == std::vector<std::string>{"a", "a.part-", "a.part-x-1", "ab.part-1-0"});
    remove_parts(folder / "none/a");
}

TEST_CASE("a writer leaves the old file until it is done", "[file][files]") {
    const TemporaryFolder folder;
    write_bytes(folder / "a", "old");
    {
        Writer out(folder / "a");
        out.write("new");
        CHECK(read_all(folder / "a") == "old");
    }
    CHECK(read_all(folder / "a") == "old");
    Writer out(folder / "a");
    out.write("new");
    out.commit();
    CHECK(read_all(folder / "a") == "new");
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a full disk is reported and leaves the old file", "[file][files]") {
    const TemporaryFolder folder;
    write_bytes(folder / "a", "old");
    std::string message;
    {
        const FileSizeLimit limit(1000);
        message = message_of([&] {
            Writer out(folder / "a");
            out.write(std::string(5000, 'x'));
            out.commit();
        });
    }
    CHECK(message == folder / "a" + ": cannot be written: File too large");
    CHECK(read_all(folder / "a") == "old");
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a writer keeps modes and links", "[file][files]") {
    const TemporaryFolder folder;
    write_bytes(folder / "a", "old");
    ::chmod((folder / "a").c_str(), 0640);
    REQUIRE(::symlink("a", (folder / "link").c_str()) == 0);
    Writer out(folder / "link");
    out.write("new");
    out.commit();
    CHECK(std::filesystem::is_symlink(folder / "link"));
    CHECK(read_all(folder / "a") == "new");
    struct stat info {};
    REQUIRE(::stat((folder / "a").c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0640);
}

TEST_CASE("what cannot be written is named", "[file][files]") {
    const TemporaryFolder folder;
    const auto fault = [](const std::string& path) { return message_of([&] { Writer{path}; }); };
    CHECK(fault("") == "the file name is empty");
    CHECK(fault(folder / "none/a") == folder / "none/a" + ": cannot be written: No such file or directory");
    CHECK(fault(folder.path()) == folder.path() + ": cannot be written: it is a directory");
    CHECK(fault("/dev/full") == "/dev/full: cannot be written: it is a device");
}
