// Any allocation may fail, and any start of a thread: runs the example of every page of help, and some calls besides,
// once for each of its allocations with that one refused, and once with that one and all that follow refused. The
// process must live; what is said must be one sentence that names memory; a result that comes nevertheless must be the
// right one; the shell must work afterwards; nothing may be left allocated, on the stack of Lua or in the folder.
// The last line of the output counts cases and faults; exit status 1 where there was a fault.
#include "tests/faults/hooks.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/base/memory.hpp"
#include "core/base/parallel.hpp"
#include "core/tensor/random.hpp"
#include "lua/bind/bind.hpp"
#include "lua/shell/display.hpp"
#include "lua/shell/evaluate.hpp"
#include "lua/shell/state.hpp"
#include "tests/faults/children.hpp"
#include "tests/faults/examples.hpp"

namespace causeway::faults {
namespace {

constexpr const char* usage = R"(causeway-faults [OPTION]...

  --most N      at most N places of each example, spread over all of them at random; else every one
  --every K     one example in K, which ones depends on the seed
  --seed S      for what is random (1)
  --only WORD   examples whose names have the word
  --share I/N   the I-th of N shares of the places of each example, for N processes at once
  --threads     starts of threads in the place of allocations
  --at N        only the N-th one of each example, in this process, for a debugger
  --lasting     with --at: and all later ones
  --list        only the names of the examples
  --verbose     a line for each example
  --help        this
)";

struct Request {
    long most = 0;   // places of an example; 0: all
    long every = 1;  // one example in so many
    unsigned seed = 1;
    long share = 1, shares = 1;
    std::string only;
    Call kind = Call::allocation;
    long at = 0;
    bool lasting = false, list = false, verbose = false;
};

struct Silent : lua::Display {
    Silent() { shown.reserve(std::size_t{1} << 20); }
    // Of several values it shows all or, as a terminal does, none: it has its room.
    void show(const lua::Rich& value) override { shown.append(value.text).push_back('\n'); }
    void status(std::string_view) override {}
    int columns() const override { return 80; }
    int rows() const override { return 24; }
    bool colour() const override { return false; }
    std::string shown;
};

using State = std::unique_ptr<lua_State, void (*)(lua_State*)>;

// One allocation to refuse.
struct Place {
    long at;
    bool lasting;
};

std::string text_of(const Place& p) { return std::to_string(p.at) + (p.lasting ? " and all later" : ""); }

struct Outcome {
    std::string message, shown;
    Counts counts;
};

// An example in a shell of its own.
class Runner {
public:
    Runner(const Example& example, Call kind) : example_(example), kind_(kind), L_(lua::new_state(), lua_close) {
        lua::set_display(L_.get(), silent_);
    }

    Outcome run(const Place& place) {
        random::set_seed(1);
        // Another number of threads than before, so that the pool is made in every run.
        if (kind_ == Call::thread) set_threads(threads() == 2 ? 3 : 2);
        silent_.shown.clear();
        alarm(patience);
        Outcome out;
        arm(kind_, place.at, place.lasting);
        try {
            lua::Failure failure = lua::evaluate(L_.get(), example_.code, "example");
            out.counts = disarm();
            out.message = std::move(failure.message);
        } catch (const std::exception& error) {  // as the shell does at its prompt
            out.counts = disarm();
            out.message = error.what();
        }
        alarm(0);
        out.shown = silent_.shown;
        return out;
    }

    // What a call of another function returns.
    std::string other_call() {
        silent_.shown.clear();
        const lua::Failure failure =
            lua::evaluate(L_.get(),
                          "causeway.sum(causeway.causal_linear_attention(causeway.tensor{{1, 2}, {3, 4}, {5, 6}}, "
                          "causeway.tensor{{2, 1}, {0, 1}, {4, 4}}, causeway.tensor{{1}, {2}, {3}}))",
                          "probe");
        return failure ? failure.message : silent_.shown;
    }

    int stack() const { return lua_gettop(L_.get()); }
    void clear_stack() { lua_settop(L_.get(), 0); }

private:
    const Example& example_;
    Call kind_;
    Silent silent_;
    State L_;
};

// The files of the folder: name -> bytes.
using Files = std::map<std::string, std::string>;

Files files_here() {
    Files files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(".")) {
        if (!entry.is_regular_file()) continue;
        std::ifstream in(entry.path(), std::ios::binary);
        files[entry.path().string()] = {std::istreambuf_iterator<char>(in), {}};
    }
    return files;
}

// Files that an interrupted write has left, here or in the folder of caches.
std::string left_parts() {
    for (const auto& entry : std::filesystem::recursive_directory_iterator("..")) {
        const std::string name = entry.path().filename().string();
        if (name.find(".part-") != std::string::npos) return entry.path().string();
    }
    return "";
}

// The first file that is none of those that the example writes: "" where there is none.
std::string damaged_file(const Files& written) {
    for (const auto& [name, bytes] : files_here()) {
        const auto whole = written.find(name);
        if (whole != written.end() && bytes != whole->second) return name;
    }
    return "";
}

void remove_files() {
    for (const auto& entry : std::filesystem::directory_iterator(".")) std::filesystem::remove_all(entry.path());
}

// A pool of so many threads, each of which has run a task: a thread allocates at its first one.
void warm_pool(int size) {
    set_threads(size);
    std::atomic<int> started{0};
    parallel_for(size, [&](Index) {
        for (++started; started < size;) std::this_thread::yield();
    });
}

// The blocks that stay when a shell is closed, large ones that wait for the next request not among them.
long blocks_at_rest() {
    for (const int size : {3, 2}) warm_pool(size);
    try {
        memory::release(memory::allocate(std::size_t{1} << 61));
    } catch (const OutOfMemory&) {  // as it must be; what was kept for the next request was given back before
    }
    return live_blocks();
}

// Files and pipes that this process has open.
long open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
}

bool is_one_sentence_of_memory(const std::string& message) {
    if (message.find('\n') != std::string::npos) return false;
    // A thread needs memory of its own: the system refuses to start it then.
    for (const char* word : {"memory", "allocate", "threads"}) {
        if (message.find(word) != std::string::npos) return true;
    }
    return false;
}

// ---- in the process of an example ----

void try_place(Runner& runner, const Place& place, const Outcome& reference, bool repeats, const Files& written,
               Report& report) {
    const Outcome out = runner.run(place);
    ++report.tried;
    if (out.counts.refused > 0) ++report.refused;
    const auto fault = [&](const std::string& what) { report.fault(text_of(place) + ": " + what); };
    if (!out.message.empty() && out.counts.refused == 0) fault("an error without a cause: " + out.message);
    else if (!out.message.empty() && !is_one_sentence_of_memory(out.message)) fault("says: " + out.message);
    if (out.message.empty() && repeats && out.shown != reference.shown)
        fault("another result: " + out.shown.substr(0, 200) + " for " + reference.shown.substr(0, 200));
    if (runner.stack() != 0) {
        fault("left " + std::to_string(runner.stack()) + " values on Lua's stack");
        runner.clear_stack();
    }
    if (const std::string part = left_parts(); !part.empty()) {
        fault("left the file " + part);
        std::filesystem::remove(part);
    }
    if (const std::string file = damaged_file(written); !file.empty()) fault("neither the old nor the new: " + file);
}

void run_example(const Example& example, const std::vector<Place>& places, Report& report, const Request& request) {
    long before = 0, descriptors = 0;
    bool repeats = false;
    Outcome reference;
    Files written;  // those that every run writes alike
    std::string probe;
    for (int round = 0; round < 2; ++round) {  // the first one fills what lives as long as the process
        {
            Runner runner(example, request.kind);
            for (const int size : {3, 2}) {  // method = "auto" keeps an answer for each number of threads
                warm_pool(size);
                probe = runner.other_call();
            }
            reference = runner.run({0, false});
            written = files_here();
            // Times differ from run to run, however equal two of them look.
            repeats = runner.run({0, false}).shown == reference.shown &&
                      reference.shown.find(" seconds") == std::string::npos;
            const Files now = files_here();
            std::erase_if(written, [&](const auto& file) {
                const auto same = now.find(file.first);
                return same == now.end() || same->second != file.second;
            });
            if (!reference.message.empty()) report.fault("with nothing refused: " + reference.message);
        }
        before = blocks_at_rest();
        descriptors = open_descriptors();
    }
    {
        Runner runner(example, request.kind);
        runner.other_call();
        int since = 0;
        for (; report.next < places.size(); ++report.next) {
            try_place(runner, places[report.next], reference, repeats, written, report);
            if (const std::string now = runner.other_call(); now != probe)
                report.fault(text_of(places[report.next]) + ": another call then says: " + now);
            if (++since % run_again_every != 0 && report.next + 1 < places.size()) continue;
            const Outcome again = runner.run({0, false});
            if (!again.message.empty())
                report.fault(text_of(places[report.next]) + ": without a fault then: " + again.message);
            else if (repeats && again.shown != reference.shown)
                report.fault(text_of(places[report.next]) + ": without a fault then another result");
        }
    }
    if (const long after = blocks_at_rest(); after > before)
        report.fault(std::to_string(after - before) + " blocks were left allocated");
    if (const long after = open_descriptors(); after > descriptors)
        report.fault(std::to_string(after - descriptors) + " files were left open");
}

// Only one allocation refused, in this process: what is said then, and how many blocks stay.
void run_once(const Example& example, const Request& request) {
    long before = 0;
    Outcome out;
    for (const Place place : {Place{0, false}, Place{0, false}, Place{request.at, request.lasting}}) {
        before = blocks_at_rest();
        Runner runner(example, request.kind);
        runner.other_call();
        out = runner.run(place);
        runner.run({0, false});
    }
    std::printf("%s: %s%s%ld blocks left\n", example.name.c_str(), out.message.c_str(), out.message.empty() ? "" : ", ",
                blocks_at_rest() - before);
}

// ---- in the process that waits ----

// Nothing that the examples print is seen.
void hide_output() {
    const int nothing = open("/dev/null", O_RDWR);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nothing, stream);
    close(nothing);
}

// Calls f in a process of its own in an empty folder. The status that waitpid tells.
template <class F>
int in_empty_folder(F f) {
    return in_child([&] {
        hide_output();
        remove_files();
        f();
    });
}

// The share of all places, or of some: one of each of `most` parts of the same length, at random inside of it.
std::vector<Place> places_of(long allocations, const Request& request, std::mt19937& random) {
    std::vector<Place> places;
    const long most = request.most > 0 ? std::min(request.most, 2 * allocations) : 2 * allocations;
    for (long i = 0; i < most; ++i) {
        const long from = i * 2 * allocations / most, to = (i + 1) * 2 * allocations / most;
        const long at = from + static_cast<long>(random() % static_cast<unsigned long>(std::max(1L, to - from)));
        if (i % request.shares == request.share - 1) places.push_back({at / 2 + 1, at % 2 == 1});
    }
    return places;
}

struct Totals {
    long examples = 0, calls = 0, tried = 0, refused = 0;
    int deaths = 0, faults = 0;
};

void run_in_children(const Example& example, const Request& request, std::mt19937& random, Totals& totals) {
    static auto& allocations = shared<long>();
    static auto& report = shared<Report>();
    allocations = -1;
    in_empty_folder([&] {
        Runner runner(example, request.kind);
        runner.run({0, false});
        runner.run({0, false});
        allocations = runner.run({0, false}).counts.made;
    });
    std::memset(static_cast<void*>(&report), 0, sizeof report);
    if (allocations < 0) report.fault("the example ended the process with nothing refused");
    const std::vector<Place> places = places_of(std::max(0L, allocations), request, random);
    int deaths = 0;
    while (allocations >= 0) {
        const int status = in_empty_folder([&] { run_example(example, places, report, request); });
        if (ended_well(status)) break;
        ++deaths;
        const std::string place = report.next < places.size() ? text_of(places[report.next]) : "at the end";
        report.fault(place + ": " + death(status));
        ++report.tried;
        ++report.refused;
        if (report.next++ >= places.size()) break;
    }
    ++totals.examples;
    totals.calls += allocations;
    totals.tried += report.tried;
    totals.refused += report.refused;
    totals.deaths += deaths;
    totals.faults += report.faults;
    if (report.faults > 0 || request.verbose)
        std::printf("  %s: %ld calls, %ld cases, %d faults, %d of them deaths\n%s", example.name.c_str(), allocations,
                    report.tried, report.faults, deaths, report.text);
    std::fflush(stdout);
}

int run(const Request& request) {
    std::vector<Example> examples = all_examples();
    std::erase_if(examples, [&, i = static_cast<long>(request.seed)](const Example&) mutable {
        return i++ % request.every != 0;
    });
    std::erase_if(examples, [&](const Example& e) { return e.name.find(request.only) == std::string::npos; });
    std::string folder = (std::filesystem::temp_directory_path() / "causeway-faults-XXXXXX").string();
    if (!mkdtemp(folder.data()) || mkdir((folder + "/work").c_str(), 0700) != 0 ||
        mkdir((folder + "/home").c_str(), 0700) != 0 || chdir((folder + "/work").c_str()) != 0) {
        std::perror(folder.c_str());
        return 2;
    }
    for (const char* name : {"HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"}) setenv(name, (folder + "/home").c_str(), 1);
    std::mt19937 random(request.seed);
    Totals totals;
    for (const Example& example : examples) {
        if (request.list) std::printf("%s\n", example.name.c_str());
        else if (request.at > 0) run_once(example, request);
        else run_in_children(example, request, random, totals);
    }
    std::error_code ignored;
    std::filesystem::current_path("/", ignored);
    std::filesystem::remove_all(folder, ignored);
    if (request.list || request.at > 0) return 0;
    std::printf("%s: %ld examples, %ld calls in them, %ld cases, %ld refused, %d faults, %d of them deaths\n",
                request.kind == Call::thread ? "threads" : "allocations", totals.examples, totals.calls, totals.tried,
                totals.refused, totals.faults, totals.deaths);
    return totals.faults == 0 ? 0 : 1;
}

}  // namespace
}  // namespace causeway::faults

int main(int argc, char** argv) {
    causeway::faults::Request request;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const auto value = [&]() -> const char* { return i + 1 < argc ? argv[++i] : "0"; };
        if (word == "--most") request.most = std::atol(value());
        else if (word == "--every") request.every = std::max(1L, std::atol(value()));
        else if (word == "--seed") request.seed = static_cast<unsigned>(std::atol(value()));
        else if (word == "--only") request.only = value();
        else if (word == "--share" && std::sscanf(value(), "%ld/%ld", &request.share, &request.shares) == 2 &&
                 1 <= request.share && request.share <= request.shares)
            continue;
        else if (word == "--threads") request.kind = causeway::faults::Call::thread;
        else if (word == "--at") request.at = std::atol(value());
        else if (word == "--lasting") request.lasting = true;
        else if (word == "--list") request.list = true;
        else if (word == "--verbose") request.verbose = true;
        else return causeway::faults::told_usage("causeway-faults", word, causeway::faults::usage);
    }
    return causeway::faults::run(request);
}
