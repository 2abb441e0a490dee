// Random keys at the prompt: no sequence of them ends the shell, and none takes it where Ctrl-C does not lead back to a
// prompt that answers. Keys, key sequences and halves of them, counts, texts in UTF-8 and what is none, pastes, pieces
// of Lua and new sizes of the terminal arrive faster than they are read. The last line counts sequences, faults, and
// line editors that ended by themselves and were replaced; what was typed since the shell last answered stands above it
// for each fault, in Lua's notation. Exit status 1 where there was one.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/faults/children.hpp"
#include "tests/lua/pty.hpp"

namespace causeway::testing {
namespace {

constexpr const char* usage = R"(causeway-keys PROGRAM [OPTION]...

PROGRAM is one whose shell is typed to, as in build/causeway.

  --seconds S     ends after so many seconds (60),
  --sequences N   or N sequences of keys in each process (no end), whichever is first
  --seed N        of what is typed (another one each time)
  --at-once K     so many processes, each with a shell (1)
  --help          this
)";

struct Request {
    std::string program;
    long seconds = 60, sequences = 1L << 60;
    unsigned seed = std::random_device{}();
    int at_once = 1;
};

using Clock = std::chrono::steady_clock;

constexpr int sequences_between_looks = 20;
constexpr int looks_of_a_session = 100;  // the next one has a history of its own
constexpr int most_faults = 10;

// Whole keys, halves of them, and words. No Ctrl-S: the terminal itself stops then, and behind more keys than it holds
// it hears no Ctrl-C. No semicolon: behind one at the beginning of an entry stands a command of the system, which is
// not for chance to write.
const std::vector<std::string> words{
    "\033[A",
    "\033[B",
    "\033[C",
    "\033[D",
    "\033[H",
    "\033[F",
    "\033[3~",
    "\033[1;5C",
    "\033[1;5D",
    "\033[",
    "\033",
    "\033O",
    "\033OA",
    "\033[5~",
    "\033[200~",
    "\033[201~",
    "\0339",
    "\033-",
    "\0331\0330\0330",
    "\0332147483648",
    "\033\033",
    "\033\r",
    "\033\t",
    "\033\177",
    "\033\035",
    "\030\030",
    "\030(",
    "\030)",
    "\030e",
    "\030\025",
    "\030\177",
    "\025\025\025",
    "\026",
    "\026\033",
    "\035",
    "\035\033a",
    "\022",
    "\022a",
    "\007",
    "\t",
    "\t\t",
    "\r",
    "\r",
    "\r",
    "\n",
    "\177",
    "\177\177\177",
    "\003",
    "\034",
    "\032",
    "\021",
    "\017",
    "\031",
    "\033y",
    "\033.",
    "\033_",
    "\037",
    "\030*",
    "\033*",
    "\033?",
    "\033#",
    "\033&",
    "\033~",
    "\033<",
    "\033>",
    "\033\\",
    "\033t",
    "\033u",
    "\033l",
    "\033c",
    "\xc3\xa4",
    "\xe2\x82\xac",
    "\xf0\x9f\x99\x82",
    "\xc3",
    "\xff",
    "e\xcc\x81",
    "x = 1",
    "x",
    "1 + 1",
    "?display",
    "?",
    "for i = 1, 3 do",
    " end",
    "function f(",
    "(",
    ")",
    "{",
    "}",
    "\"",
    "[[",
    "]]",
    "--",
    "while true do end\r\003",
    "cau",
    "string.",
    "math.f",
    "x:",
    " = ",
    "@",
    "nil",
    "causeway> ",
    "local ",
    ".",
    ",",
    "#",
    "'",
    "\\",
};

class Keys {
public:
    explicit Keys(unsigned seed) : generator_(seed) {}

    std::size_t below(std::size_t n) { return generator_() % n; }

    std::string sequence() {
        std::string keys;
        for (std::size_t n = 1 + below(10); n > 0; --n) keys += key();
        if (below(2000) == 0) keys += "\033[200~" + text(100000) + "\033[201~";
        if (below(500) == 0) keys += "\rwhile true do end\r";
        if (below(20) == 0) keys += "\033[200~" + text(below(300)) + "\033[201~";
        return keys;
    }

    // A size with 0 rows or columns is what a terminal has that does not know its own.
    winsize size() {
        winsize out{};
        out.ws_row = static_cast<unsigned short>(below(100));
        out.ws_col = static_cast<unsigned short>(below(below(2) ? 300 : 12));
        return out;
    }

private:
    std::string key() {
        const std::size_t kind = below(100);
        if (kind < 50) return words[below(words.size())];
        if (kind < 60) return "\033" + character();
        if (kind == 60) return "\004";  // ends the session on an empty line
        if (kind < 75) return control();
        return character();
    }
    std::string control() {
        const char c = static_cast<char>(1 + below(31));
        return std::string(1, c == '\004' || c == '\023' ? '\t' : c);
    }
    std::string character() {
        const char c = static_cast<char>(' ' + below(95));
        return std::string(1, c == ';' ? ' ' : c);
    }
    std::string text(std::size_t length) {
        std::string out;
        while (out.size() < length) out += below(8) ? character() : below(2) ? "\r" : words[below(words.size())];
        return out;
    }

    std::mt19937 generator_;
};

std::string in_notation_of_lua(const std::string& keys) {
    std::string out;
    for (const char c : keys) {
        char code[8];
        std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned char>(c));
        out += c >= ' ' && c <= '~' && c != '\\' && c != '"' ? std::string(1, c) : code;
    }
    return out.size() > 3000 ? out.substr(0, 3000) + " ..." : out;
}

// Whether Ctrl-C leads to a prompt that answers. The terminal drops what was typed before a Ctrl-C, so an answer that
// does not come is asked for again: once soon, and three times in a time in which any machine has given one.
bool answers(Terminal& terminal, long& asked) {
    for (int i = 0; i < 5; ++i) {
        terminal.type("\003");
        if (i > 0 || !terminal.shows("causeway> ", std::chrono::milliseconds(500)))
            terminal.shows("causeway> ", std::chrono::seconds(2 * i));
        const long sum = 1000000 + ++asked;
        terminal.type(std::to_string(sum - 1) + "+1\r");
        if (terminal.shows("\n" + std::to_string(sum) + "\n", std::chrono::seconds(i == 0 ? 1 : 10 * i))) return true;
    }
    return false;
}

struct Totals {
    long sequences = 0, sessions = 0, editors = 0;  // editors that were replaced
    int faults = 0;
};

long count(const std::string& text, const std::string& word) {
    long n = 0;
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
    return n;
}

// One session, up to its end or the first fault.
void run_session(const Request& request, Keys& keys, Clock::time_point end, Totals& totals) {
    const TemporaryFolder home;
    Terminal terminal(home.path(), {}, {"NO_COLOR=1"}, request.program);
    terminal.wait_for_prompt();
    ++totals.sessions;
    long asked = 0;
    std::string typed;
    struct CountsAtEnd {
        Terminal& terminal;
        Totals& totals;
        ~CountsAtEnd() { totals.editors += count(terminal.raw(), "another editor goes on"); }
    } counts{terminal, totals};
    const auto fault = [&](const std::string& what) {
        ++totals.faults;
        const std::string& shown = terminal.raw();
        std::printf("%s; typed before: \"%s\"\nshown last: \"%s\"\n", what.c_str(), in_notation_of_lua(typed).c_str(),
                    in_notation_of_lua(shown.substr(shown.size() - std::min<std::size_t>(shown.size(), 500))).c_str());
        std::fflush(stdout);
    };
    for (int look = 0; look < looks_of_a_session && Clock::now() < end && totals.sequences < request.sequences;
         ++look) {
        typed.clear();
        try {
            for (int i = 0; i < sequences_between_looks; ++i, ++totals.sequences) {
                if (keys.below(50) == 0) terminal.resize(keys.size());
                const std::string sequence = keys.sequence();
                typed += sequence;
                terminal.type(sequence);
            }
            if (answers(terminal, asked)) continue;
        } catch (const std::runtime_error&) {  // it reads no more
        }
        if (!terminal.has_closed()) return fault("Ctrl-C leads to no prompt that answers");
        // Behind a Ctrl-D that has ended the session a Ctrl-C ends the program, while it still puts things away.
        const int status = terminal.wait_for_end();
        const bool left = terminal.signal_at_end() == SIGINT && typed.find('\004') != std::string::npos;
        if (status != 0 && !left) fault("the shell ended with status " + std::to_string(status));
        return;
    }
}

void run(const Request& request, Totals& totals) {
    Keys keys(request.seed);
    const auto end = Clock::now() + std::chrono::seconds(request.seconds);
    while (Clock::now() < end && totals.sequences < request.sequences && totals.faults < most_faults)
        run_session(request, keys, end, totals);
}

// In as many processes as are asked for, each with the next seed.
int run_at_once(Request request) {
    const auto processes = static_cast<std::size_t>(request.at_once);
    auto* const totals = static_cast<Totals*>(
        mmap(nullptr, processes * sizeof(Totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    if (totals == MAP_FAILED) throw std::runtime_error("no memory");
    const unsigned seed = request.seed;
    for (std::size_t i = 0; i < processes; ++i, ++request.seed) {
        if (fork() != 0) continue;
        int status = 0;
        try {
            run(request, totals[i]);
        } catch (const std::exception& error) {
            std::fprintf(stderr, "causeway-keys: %s: %s\n", request.program.c_str(), error.what());
            status = 2;
        }
        std::_Exit(status);
    }
    bool failed = false;
    for (int status; wait(&status) > 0;) failed = failed || status != 0;
    Totals sum;
    for (std::size_t i = 0; i < processes; ++i) {
        sum.sequences += totals[i].sequences;
        sum.sessions += totals[i].sessions;
        sum.editors += totals[i].editors;
        sum.faults += totals[i].faults;
    }
    std::printf("keys: seed %u, %ld sessions, %ld editors replaced, %ld cases, %d faults\n", seed, sum.sessions,
                sum.editors, sum.sequences, sum.faults);
    return failed ? 2 : sum.faults == 0 ? 0 : 1;
}

}  // namespace
}  // namespace causeway::testing

int main(int argc, char** argv) {
    causeway::testing::Request request;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const auto value = [&] { return i + 1 < argc ? std::atol(argv[++i]) : 0; };
        if (word == "--seconds") request.seconds = value();
        else if (word == "--sequences") request.sequences = value();
        else if (word == "--seed") request.seed = static_cast<unsigned>(value());
        else if (word == "--at-once") request.at_once = static_cast<int>(value());
        else if (word.starts_with("-"))
            return causeway::faults::told_usage("causeway-keys", word, causeway::testing::usage);
        else request.program = std::filesystem::absolute(word);  // which runs in a folder of its own
    }
    if (request.program.empty() || request.at_once < 1) {
        std::fprintf(stderr, "causeway-keys: expected a program, and 1 or more at once\n\n%s",
                     causeway::testing::usage);
        return 2;
    }
    try {
        return causeway::testing::run_at_once(request);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "causeway-keys: %s: %s\n", request.program.c_str(), error.what());
        return 2;
    }
}
