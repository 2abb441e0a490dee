#include "core/exact/choice.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>

#include "core/base/build_id.hpp"
#include "core/base/error.hpp"
#include "core/base/file.hpp"
#include "core/base/parallel.hpp"
#include "core/base/process.hpp"
#include "core/measure/machine.hpp"

namespace causeway::exact {
namespace {

constexpr Index first_length = 256;              // every candidate is timed at this length first,
constexpr double hopeless = 3;                   // and dropped where it takes this many times the best
constexpr Index largest = 1 << 24;               // elements of an input at most
constexpr std::uint64_t largest_file = 1 << 24;  // bytes: a file of other contents than answers

using Answers = std::map<std::string, std::string>;  // class -> name of the method

struct Choices {
    std::mutex mutex;  // guards the next two; held across fork(), so never for long and never while a file is read
    Answers known;
    bool cache_read = false;
    std::mutex timing;  // held while methods are timed, which is long; taken before the other
};

// Never destroyed: a thread may outlive main.
Choices& the_choices() {
    static auto& one = *new Choices;
    return one;
}

// A forked child has what the process knew; the thread that timed methods does not live there.
Choices& choices() {
    [[maybe_unused]] static const bool registered = [] {
        process::around_fork([] { the_choices().mutex.lock(); }, [] { the_choices().mutex.unlock(); },
                             [] {
                                 the_choices().mutex.unlock();
                                 new (&the_choices().timing) std::mutex;
                             });
        return true;
    }();
    return the_choices();
}

Index power_of_two(Index n) {
    Index p = 1;
    while (p < n) p *= 2;
    return p;
}

// The question for the representative of its class.
Question class_of(Question q) {
    q.N = std::clamp<Index>(power_of_two(q.N), 16, 4096);
    q.r = std::clamp<Index>(power_of_two(q.r), 4, 256);
    q.d = std::clamp<Index>(power_of_two(q.d), 4, 256);
    q.heads = std::clamp<Index>(power_of_two(q.heads), 1, power_of_two(4 * threads()));
    while (q.N > first_length && q.heads * q.N * std::max(q.r, q.d) > largest) q.N /= 2;
    if (q.block > 0) q.block = power_of_two(std::min(q.block, q.N));
    return q;
}

// Not by a stream, which drops without a word what it finds no memory for: half of a text may be that of another class.
std::string text_of(const Question& q) {
    const auto number = [](const char* what, Index n) { return what + std::to_string(n); };
    std::string text(name(q.dtype));
    text += number(" heads=", q.heads) + number(" N=", q.N) + number(" r=", q.r) + number(" d=", q.d);
    for (const auto& [given, what] :
         {std::pair(q.decay, " decay"), std::pair(q.normalize, " normalize"), std::pair(q.state, " state")}) {
        if (given) text += what;
    }
    if (q.block > 0) text += number(" block=", q.block);
    return text + number(" threads=", threads());
}

// Answers are only taken from a file written by this very program on this very processor.
std::string identity() { return build_id() + " on " + machine().processor; }

// The file: a line with the identity, then a line "class", tab, "method" for each answer. Nothing where it cannot be
// read, is no such file or was written by another program. Throws what stops the call, so that methods are not timed
// anew for that.
Answers read_cache() {
    const std::string path = choice_file();
    if (path.empty()) return {};
    Answers answers;
    try {
        const Source file(path);
        if (file.size() > largest_file) return {};
        const Buffer<char> bytes = file.text();
        std::string_view left(bytes.data(), static_cast<std::size_t>(bytes.size()));
        const auto next_line = [&] {
            const std::string_view line = left.substr(0, left.find('\n'));
            left.remove_prefix(std::min(line.size() + 1, left.size()));
            return line;
        };
        if (next_line() != identity()) return {};
        while (!left.empty()) {
            const std::string_view line = next_line();
            const std::size_t tab = line.find('\t');
            if (tab != line.npos) answers.emplace(line.substr(0, tab), line.substr(tab + 1));
        }
    } catch (const IoError&) {
        return {};
    }
    return answers;
}

// By the one who timed: no other writes at the same time.
void write_cache(Choices& c) {
    const std::filesystem::path path = choice_file();
    if (path.empty()) return;
    std::error_code ignored;
    std::filesystem::create_directories(path.parent_path(), ignored);
    std::string text = identity() + "\n";
    {
        std::lock_guard lock(c.mutex);
        for (const auto& [question, answer] : c.known) text += question + "\t" + answer + "\n";
    }
    try {
        Writer out(path.string());
        out.write(text);
        out.commit();
    } catch (const Error&) {
        // Without the file the next run measures again; a request to stop is still there for the computation to see.
    }
}

bool fits(const Question& q, const Method& m) {
    return m.candidate && (!q.state || m.state) && (q.block == 0 || m.block > 0);
}

void read_cache_once(Choices& c) {
    const auto read = [&] {
        std::lock_guard lock(c.mutex);
        return c.cache_read;
    };
    if (read()) return;
    Answers answers = read_cache();
    std::lock_guard lock(c.mutex);
    c.known.merge(answers);
    c.cache_read = true;
}

// Null where methods of this class were not timed yet.
const Method* known_answer(Choices& c, const Question& q, const std::string& text) {
    std::lock_guard lock(c.mutex);
    const auto found = c.known.find(text);
    if (found == c.known.end()) return nullptr;
    const auto& list = methods();
    const auto m = std::find_if(list.begin(), list.end(),
                                [&](const Method& candidate) { return candidate.name == found->second; });
    return m != list.end() && fits(q, *m) ? &*m : nullptr;
}

// Seconds of one call, the best of several.
template <class T>
double seconds(const Method& m, Problem<T> p, Index block) {
    using Clock = std::chrono::steady_clock;
    p.block = std::min(block > 0 ? block : m.block, p.N);
    double best = std::numeric_limits<double>::infinity(), total = 0;
    for (int i = 0; i < 5 && (i < 2 || total < 0.05); ++i) {
        const auto start = Clock::now();
        run(m, p);
        const double t = std::chrono::duration<double>(Clock::now() - start).count();
        best = std::min(best, t);
        total += t;
    }
    return best;
}

template <class T>
std::string measure(const Question& q) {
    auto random = [state = 0x9E3779B97F4A7C15u](Index n) mutable {  // positive, so that row sums are too
        Buffer<T> out(n);
        for (Index i = 0; i < n; ++i) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            out[i] = static_cast<T>(static_cast<double>(state >> 40) / (1 << 24) + 0.1);
        }
        return out;
    };
    const Buffer<T> B = random(q.heads * q.N * q.r), C = random(q.heads * q.N * q.r), V = random(q.heads * q.N * q.d);
    const Buffer<double> gamma = [&] {
        Buffer<double> out(q.heads);
        std::fill_n(out.data(), q.heads, 0.99);
        return out;
    }();
    Buffer<T> O(q.heads * q.N * q.d), state(q.state ? q.heads * q.r * (q.d + 1) : 0);
    std::fill_n(state.data(), state.size(), T(0));
    Problem<T> p;
    p.heads = q.heads;
    p.r = q.r;
    p.d = q.d;
    p.B = B.data();
    p.C = C.data();
    p.V = V.data();
    p.O = O.data();
    p.gamma = q.decay ? gamma.data() : nullptr;
    p.normalize = q.normalize;
    p.state = q.state ? state.data() : nullptr;

    std::vector<std::pair<double, const Method*>> candidates;
    for (const Method& m : methods()) {
        if (fits(q, m)) candidates.emplace_back(0, &m);
    }
    std::vector<Index> lengths{std::min(q.N, first_length)};
    if (q.N > first_length) lengths.push_back(q.N);
    for (Index N : lengths) {
        p.N = N;
        for (auto& [time, m] : candidates) {
            try {
                time = seconds(*m, p, q.block);
            } catch (const OutOfMemory&) {
                time = std::numeric_limits<double>::infinity();
            }
        }
        std::sort(candidates.begin(), candidates.end());
        const double best = candidates.front().first;
        if (std::isinf(best)) throw OutOfMemory("out of memory: no method of causal linear attention could be timed");
        std::erase_if(candidates, [&](const auto& c) { return c.first > hopeless * best; });
    }
    return candidates.front().second->name;
}

}  // namespace

std::string choice_file() {
    const char* cache = std::getenv("XDG_CACHE_HOME");
    const char* home = std::getenv("HOME");
    if (cache && *cache == '/') return std::string(cache) + "/causeway/choices";
    return home && *home ? std::string(home) + "/.cache/causeway/choices" : std::string();
}

const Method& fastest(const Question& asked) {
    const Question q = class_of(asked);
    const std::string text = text_of(q);
    Choices& c = choices();
    read_cache_once(c);
    if (const Method* m = known_answer(c, q, text)) return *m;
    std::lock_guard timing(c.timing);
    // Another thread may have timed them meanwhile.
    if (const Method* m = known_answer(c, q, text)) return *m;
    const std::string name = q.dtype == DType::f64 ? measure<double>(q) : measure<float>(q);
    {
        std::lock_guard lock(c.mutex);
        c.known[text] = name;
    }
    write_cache(c);
    return method(name);
}

}  // namespace causeway::exact
