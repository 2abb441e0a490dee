// Any allocation may fail, and any start of a thread: runs the example of every page of help, and some calls besides,
// and refuses each allocation in it once alone, and once with all that follow, each time in a copy of the process that
// is made where the allocation stands (snapshots.hpp). The copy must live; what it says must be one sentence that names
// memory; a result that comes nevertheless must be the right one; the shell must work afterwards; nothing may be left
// allocated, open, on the stack of Lua or in the folder. What stands where no copy can be made, as in a task of the
// pool, is refused in a copy made at the start of the example.
// The last line of the output counts cases and faults; exit status 1 where there was a fault.
#include "tests/faults/snapshots.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <latch>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
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
#include "tests/faults/hooks.hpp"

namespace causeway::faults {
namespace {

constexpr const char* usage = R"(causeway-faults [OPTION]...

  --most N      at most N places of each example, spread over all of them at random; else every one
  --every K     one example in K, which ones depends on the seed
  --seed S      for what is random (1)
  --only WORD   examples whose names have the word
  --from NAME   that example, in the order of --list, and those behind it
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
    std::string only, from;
    Call kind = Call::allocation;
    long at = 0;
    bool lasting = false, list = false, verbose = false;
};

constexpr int usual_threads = 2;  // of the pool

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

struct Outcome {
    std::string message, shown;
    Counts counts;
};

// An example in a shell of its own.
class Runner {
public:
    Runner(const Example& example, Call kind) : example_(example), kind_(kind), L_(lua::new_state(), lua_close) {
        lua::set_display(L_.get(), silent_);
        // In the folder that is looked at.
        lua::evaluate(L_.get(), "os.tmpname = function() return 'temporary' end", "names");
    }

    Outcome run(const Place& place) {
        return run([&] { arm(kind_, place.at, place.lasting); });
    }

    // With nothing refused here, and a place in each copy of the process.
    Outcome run_and_look() {
        return run([&] { arm(kind_, look); });
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
    template <class Arm>
    Outcome run(Arm arm_calls) {
        random::set_seed(1);
        // Another number of threads than before, so that the pool is made in every run.
        if (kind_ == Call::thread) set_threads(threads() == usual_threads ? usual_threads + 1 : usual_threads);
        silent_.shown.clear();
        alarm(patience);
        Outcome out;
        arm_calls();
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
    for (const char* folder : {".", "../home"}) {
        for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
            const std::string name = entry.path().filename().string();
            if (name.find(".part-") != std::string::npos) return entry.path().string();
        }
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
    std::latch all(size);
    parallel_for(size, [&](Index) { all.arrive_and_wait(); });
}

// A new pool, as it is at the start of every case.
void renew_pool() {
    warm_pool(usual_threads + 1);
    warm_pool(usual_threads);
}

// The C library keeps stacks of threads that have ended, up to 40 MB of them, and with each a block: how many there are
// depends on how many threads happened to live at once. Stacks larger than that it gives back.
void keep_no_stacks() {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, std::size_t{64} << 20);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
}

// The blocks that stay when a shell is closed, large ones that wait for the next request not among them. In a copy of
// the process the pool is new.
long blocks_at_rest() {
    warm_pool(usual_threads);
    try {
        memory::release(memory::allocate(std::size_t{1} << 61));
    } catch (const OutOfMemory&) {  // as it must be; what was kept for the next request was given back before
    }
    return live_blocks();
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

// Cases for one in which all memory of the shell is given back, not only counted: odd, as a call refused alone and one
// refused with all later ones follow each other.
constexpr long free_every = 7;

// What an example does with nothing refused.
struct Known {
    Outcome reference;
    bool repeats = false;
    Files written;             // those that every run writes alike
    std::string probe;         // what the other call returns
    long run_again_every = 1;  // cases, so that a case takes about a millisecond of this; odd as free_every is
    long blocks = 0;           // at rest behind it, in a copy of the process
    int descriptors = 0;
};

// In a shell of its own. Called twice, as the first time fills what lives as long as the process.
Known known_of(const Example& example, Call kind, Report& report) {
    Known known;
    Runner runner(example, kind);
    // method = "auto" keeps an answer for each number of threads.
    for (const int size : {usual_threads + 1, usual_threads}) {
        warm_pool(size);
        known.probe = runner.other_call();
    }
    known.reference = runner.run({0, false});
    known.written = files_here();
    const auto begun = std::chrono::steady_clock::now();
    // Times differ from run to run, however equal two of them look.
    known.repeats = runner.run({0, false}).shown == known.reference.shown &&
                    known.reference.shown.find(" seconds") == std::string::npos;
    const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun);
    known.run_again_every = static_cast<long>(time.count()) | 1;
    const Files now = files_here();
    std::erase_if(known.written, [&](const auto& file) {
        const auto same = now.find(file.first);
        return same == now.end() || same->second != file.second;
    });
    if (!known.reference.message.empty()) report.fault("with nothing refused: " + known.reference.message);
    return known;
}

void judge(Runner& runner, const Place& place, const Outcome& out, const Known& known, Report& report) {
    if (out.counts.refused > 0) ++report.refused;
    const auto fault = [&](const std::string& what) { report.fault(text_of(place) + ": " + what); };
    if (!out.message.empty() && out.counts.refused == 0) fault("an error without a cause: " + out.message);
    else if (!out.message.empty() && !is_one_sentence_of_memory(out.message)) fault("says: " + out.message);
    if (out.message.empty() && known.repeats && out.shown != known.reference.shown)
        fault("another result: " + out.shown.substr(0, 200) + " for " + known.reference.shown.substr(0, 200));
    if (runner.stack() != 0) {
        fault("left " + std::to_string(runner.stack()) + " values on Lua's stack");
        runner.clear_stack();
    }
    if (const std::string part = left_parts(); !part.empty()) {
        fault("left the file " + part);
        std::filesystem::remove(part);
    }
    if (const std::string file = damaged_file(known.written); !file.empty())
        fault("neither the old nor the new: " + file);
    if (const std::string now = runner.other_call(); now != known.probe) fault("another call then says: " + now);
    if (report.tried % known.run_again_every != 0) return;
    const Outcome again = runner.run({0, false});
    if (!again.message.empty()) fault("without a fault then: " + again.message);
    else if (known.repeats && again.shown != known.reference.shown) fault("without a fault then another result");
}

// The end of a copy of the process: what the refused place came to, and what is left when the shell is closed.
[[noreturn]] void end_copy(std::unique_ptr<Runner> runner, const Place& place, Outcome out, const Known& known,
                           Report& report) {
    judge(*runner, place, Outcome(std::move(out)), known, report);  // whose texts are not left over
    alarm(patience);
    if (report.tried % free_every != 0) only_count_frees();
    runner.reset();
    if (const long more = blocks_at_rest() - known.blocks; more > 0)
        report.fault(text_of(place) + ": " + std::to_string(more) + " blocks were left allocated");
    if (const int more = open_descriptors() - known.descriptors; more > 0)
        report.fault(text_of(place) + ": " + std::to_string(more) + " files were left open");
    _exit(0);
}

// A shell that has done something. Every place is counted from here.
std::unique_ptr<Runner> new_runner(const Example& example, Call kind) {
    auto runner = std::make_unique<Runner>(example, kind);
    runner->other_call();
    return runner;
}

// The blocks that stay at the end of a copy in which nothing is refused; -1 where it does not live so long.
long blocks_of_copy(const Example& example, Call kind, Report& report) {
    static auto& blocks = shared<long>();
    blocks = -1;
    auto runner = new_runner(example, kind);
    if (!in_copy({0, false}, report)) return blocks;
    warm_pool(usual_threads);
    runner->run({0, false});
    runner->other_call();
    runner.reset();
    blocks = blocks_at_rest();
    _exit(0);
}

// The places in one run of the example, then those that no copy could be made at, from its start.
void try_places(const Example& example, Call kind, Places& places, const Known& known, Report& report) {
    auto runner = new_runner(example, kind);
    if (kind == Call::allocation) {
        watch(places, report);
        Outcome out = runner->run_and_look();
        if (const Place* place = place_of_copy()) end_copy(std::move(runner), *place, std::move(out), known, report);
        if (!out.message.empty()) report.fault("with nothing refused: " + out.message);
        runner = new_runner(example, kind);
    }
    for (std::size_t i = 0; i < places.all.size(); ++i) {
        const Place& place = places.all[i];
        if (places.tried[i] || !in_copy(place, report)) continue;
        warm_pool(usual_threads);  // no thread of it lives in a copy
        Outcome out = runner->run(place);
        end_copy(std::move(runner), place, std::move(out), known, report);
    }
}

// The share, in which a place has both its cases, of all places, or of some: one of each of `most` parts of the same
// length, at random inside of it.
std::vector<Place> places_of(long allocations, const Example& example, const Request& request) {
    std::mt19937 random(request.seed + static_cast<unsigned>(std::hash<std::string>{}(example.name)));
    std::vector<Place> places;
    const long most = request.most > 0 ? std::min(request.most, 2 * allocations) : 2 * allocations;
    for (long i = 0; i < most; ++i) {
        const long from = i * 2 * allocations / most, to = (i + 1) * 2 * allocations / most;
        const long at = from + static_cast<long>(random() % static_cast<unsigned long>(std::max(1L, to - from)));
        if (i / 2 % request.shares == request.share - 1) places.push_back({at / 2 + 1, at % 2 == 1});
    }
    return places;
}

void run_example(const Example& example, const Request& request, long& calls, Report& report) {
    known_of(example, request.kind, report);
    Known known = known_of(example, request.kind, report);
    renew_pool();
    calls = known.reference.counts.made;
    Places places(places_of(calls, example, request));
    known.descriptors = open_descriptors();
    known.blocks = blocks_of_copy(example, request.kind, report);
    report.tried = 0;
    try_places(example, request.kind, places, known, report);
}

// Only one allocation refused, in this process: what is said then, and how many blocks stay.
void run_once(const Example& example, const Request& request) {
    long before = 0;
    Outcome out;
    for (const Place place : {Place{0, false}, Place{0, false}, Place{request.at, request.lasting}}) {
        renew_pool();
        before = blocks_at_rest();
        Runner runner(example, request.kind);
        runner.other_call();
        out = runner.run(place);
        runner.run({0, false});
    }
    renew_pool();
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

struct Totals {
    long examples = 0, calls = 0, tried = 0, refused = 0;
    int deaths = 0, faults = 0;
};

void run_in_child(const Example& example, const Request& request, Totals& totals) {
    static auto& calls = shared<long>();
    static auto& report = shared<Report>();
    calls = 0;
    std::memset(static_cast<void*>(&report), 0, sizeof report);
    const int status = in_empty_folder([&] { run_example(example, request, calls, report); });
    if (!ended_well(status)) report.fault("with nothing refused: " + death(status));
    ++totals.examples;
    totals.calls += calls;
    totals.tried += report.tried;
    totals.refused += report.refused;
    totals.deaths += report.deaths;
    totals.faults += report.faults;
    if (report.faults > 0 || request.verbose)
        std::printf("  %s: %ld calls, %ld cases, %d faults, %d of them deaths\n%s", example.name.c_str(), calls,
                    report.tried, report.faults, report.deaths, report.text);
    std::fflush(stdout);
}

int run(const Request& request) {
    std::vector<Example> examples = all_examples();
    std::erase_if(examples, [&, i = static_cast<long>(request.seed)](const Example&) mutable {
        return i++ % request.every != 0;
    });
    std::erase_if(examples, [&](const Example& e) { return e.name.find(request.only) == std::string::npos; });
    if (!request.from.empty()) {
        const auto named = [&](const Example& e) { return e.name == request.from; };
        examples.erase(examples.begin(), std::find_if(examples.begin(), examples.end(), named));
        if (examples.empty()) {
            std::fprintf(stderr, "--from: %s, expected the name of an example, as --list tells them\n",
                         request.from.c_str());
            return 2;
        }
    }
    std::string folder = (std::filesystem::temp_directory_path() / "causeway-faults-XXXXXX").string();
    if (!mkdtemp(folder.data()) || mkdir((folder + "/work").c_str(), 0700) != 0 ||
        mkdir((folder + "/home").c_str(), 0700) != 0 || chdir((folder + "/work").c_str()) != 0) {
        std::perror(folder.c_str());
        return 2;
    }
    keep_no_stacks();
    for (const char* name : {"HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"}) setenv(name, (folder + "/home").c_str(), 1);
    Totals totals;
    for (const Example& example : examples) {
        if (request.list) std::printf("%s\n", example.name.c_str());
        else if (request.at > 0) run_once(example, request);
        else run_in_child(example, request, totals);
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
        else if (word == "--from") request.from = value();
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
