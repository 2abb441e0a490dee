#include "core/base/journal.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "tests/catch.hpp"
#include "tests/limits.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::testing;

namespace {

using Access = Journal::Access;

// All that is there.
std::string rest(Journal& journal) {
    std::string all;
    for (std::string part; !(part = journal.read()).empty();) all += part;
    return all;
}

// Another process that has the journal open and, once it has done what it is to do, stays until it is killed.
class Neighbour {
public:
    Neighbour(const std::string& path, const std::function<void(Journal&)>& work) {
        int ready[2];
        REQUIRE(::pipe(ready) == 0);
        child_ = ::fork();
        if (child_ == 0) {
            ::alarm(60);
            try {
                Journal journal(path, Access::write);
                work(journal);
                (void)!::write(ready[1], "r", 1);
                for (;;) ::pause();
            } catch (...) {}
            ::_exit(1);
        }
        ::close(ready[1]);
        char byte = 0;
        const bool told = ::read(ready[0], &byte, 1) == 1;
        ::close(ready[0]);
        REQUIRE(told);
    }
    ~Neighbour() { kill(); }
    Neighbour(const Neighbour&) = delete;
    Neighbour& operator=(const Neighbour&) = delete;

    void kill() {
        if (child_ <= 0) return;
        ::kill(child_, SIGKILL);
        ::waitpid(child_, nullptr, 0);
        child_ = -1;
    }

private:
    pid_t child_ = -1;
};

}  // namespace

TEST_CASE("a journal gives the lines that are whole", "[journal][files]") {
    const TemporaryFolder folder;
    const std::string path = folder / "rows";
    {
        Journal journal(path, Access::write);
        CHECK(rest(journal).empty());
        journal.lock();
        journal.append("a\n");
        journal.append("bc\n");
        journal.unlock();
        CHECK(rest(journal).empty());  // what it has written itself
        journal.rewind();
        CHECK(rest(journal) == "a\nbc\n");
    }
    CHECK(read_bytes(path) == "a\nbc\n");

    write_bytes(path, "a\nbc\ntorn");
    Journal journal(path, Access::write);
    CHECK(rest(journal) == "a\nbc\n");
    journal.lock();
    journal.append("");
    CHECK(read_bytes(path) == "a\nbc\n");
    write_bytes(path, std::string("a\nbc\nd\0\n", 8));
    CHECK(rest(journal).empty());
    journal.append("e\n");
    CHECK(read_bytes(path) == "a\nbc\ne\n");
    // Longer than what is read at once.
    std::string lines(3u << 20, 'x');
    lines[5] = '\n';
    lines.back() = '\n';
    journal.append(lines);
    CHECK(rest(*std::make_unique<Journal>(path, Access::read)) == "a\nbc\ne\n" + lines);
}

TEST_CASE("a line that does not fit leaves the journal as it was", "[journal][files]") {
    const TemporaryFolder folder;
    Journal journal(folder / "rows", Access::write);
    journal.append("a\n");
    {
        const FileSizeLimit limit(1000);
        CHECK(message_of([&] { journal.append(std::string(2000, '\n')); }) ==
              folder / "rows" + ": cannot be written: File too large");
    }
    CHECK(read_bytes(folder / "rows") == "a\n");
    journal.append("b\n");
    CHECK(read_bytes(folder / "rows") == "a\nb\n");
}

TEST_CASE("a journal tells what it cannot be", "[journal][files]") {
    const TemporaryFolder folder;
    const std::string path = folder / "rows";
    CHECK(message_of([&] { Journal{path, Access::read}; }) == path + ": cannot be read: No such file or directory");
    CHECK_FALSE(std::filesystem::exists(path));
    Journal journal(path, Access::write);
    CHECK(message_of([&] {
              Journal{path, Access::write};
          }) == path + ": a sweep of this program writes it already, expected another folder inside its run function");
    journal.append("a\n");
    std::filesystem::rename(path, folder / "moved");
    CHECK(message_of([&] { journal.lock(); }) ==
          path + ": was deleted or moved while a sweep writes it: No such file or directory");
    write_bytes(path, "a\n");
    CHECK(message_of([&] { journal.lock(); }) == path + ": was replaced by another file while a sweep writes it");
    std::filesystem::rename(folder / "moved", path);
    journal.lock();
    write_bytes(path, "");
    CHECK(message_of([&] { journal.lock(); }) == path + ": was cut from 2 to 0 bytes while a sweep writes it");
}

TEST_CASE("claims and presence end with the process that holds them", "[journal][files]") {
    const TemporaryFolder folder;
    const std::string path = folder / "rows";
    write_bytes(path, "a\n");
    Neighbour other(path, [](Journal& journal) {
        journal.lock();
        journal.join();
        if (rest(journal) != "a\n") ::_exit(1);
        journal.append("b\n");
        journal.unlock();
        if (!journal.claim("first")) ::_exit(1);
    });
    Neighbour third(path, [](Journal& journal) {
        if (journal.claim("first") || !journal.claim("third")) ::_exit(1);
    });
    Journal journal(path, Access::write);
    CHECK_FALSE(journal.claim("first"));
    CHECK_FALSE(journal.claim("third"));
    CHECK(journal.claim("second"));
    CHECK(rest(journal) == "a\nb\n");
    journal.lock();
    CHECK_FALSE(journal.empty_alone());
    journal.unlock();

    other.kill();
    third.kill();
    CHECK(journal.claim("first"));
    CHECK(journal.claim("third"));
    journal.lock();
    CHECK(journal.empty_alone());
    CHECK(rest(journal).empty());
    CHECK(read_bytes(path).empty());
}

TEST_CASE("the write lock waits for its holder to end", "[journal][files]") {
    const TemporaryFolder folder;
    const std::string path = folder / "rows";
    Neighbour other(path, [](Journal& journal) {
        journal.lock();
        journal.append("begun\ntorn");
        ::alarm(1);  // ends it while the test waits
    });
    Journal journal(path, Access::write);
    journal.lock();
    CHECK(rest(journal) == "begun\n");
    journal.append("mine\n");
    CHECK(read_bytes(path) == "begun\nmine\n");
}
