// What the proofs check, on record. Every check names its claim (index in proofs/README.md), what was checked on which
// input, and the measured value against its bound. An input that begins with "the same" goes on from that of the check
// before it. A run of chosen tests (./lab test proofs) closes with them as a table.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <set>
#include <string>

namespace causeway::proofs {

// What a row is evidence of.
enum class Kind {
    bound,       // the right side follows from the statement and its proof: red refutes it, or the library
    regression,  // the right side was measured here once: red says that something moved, green proves nothing more
    note         // holds by the way it is set up: a figure for the reader, evidence of nothing
};
inline constexpr Kind regression = Kind::regression, note = Kind::note;

// The claim holds: measured <= bound. NaN on either side fails.
void claim(const std::string& id, const std::string& checked, const std::string& input, double measured, double bound,
           Kind kind = Kind::bound);

// An erratum, or a form to avoid: it is wrong by at least `at_least`. An error that is NaN or infinite fails, as that
// of a loop that never ran; count NaN entries instead.
void published_fails(const std::string& id, const std::string& checked, const std::string& input, double error,
                     double at_least, Kind kind = Kind::bound);

// A count, equal to its closed form.
void exactly(const std::string& id, const std::string& checked, const std::string& input, std::int64_t measured,
             std::int64_t expected, Kind kind = Kind::bound);

// All checks so far, ordered by claim, in aligned columns, on a terminal too narrow for them in paragraphs; nothing
// where there were none.
void print_claims(std::FILE* out);

// A count as a term of a bound.
inline double real(std::int64_t n) { return static_cast<double>(n); }

// Larger of two numbers; NaN stays.
inline double worst(double a, double b) { return a > b || std::isnan(a) ? a : b; }
// Smaller of two numbers; NaN stays.
inline double fewest(double a, double b) { return a < b || std::isnan(a) ? a : b; }

// A deliberate error, named "CLAIM: what", in a statement or in a form that the proofs write themselves: off, but where
// mutations_test.cpp runs the checks once more with it, to see that they can fail.
bool fault(const char* name);
template <class T>
T faulty(const char* name, T right, T wrong) {
    return fault(name) ? wrong : right;
}

// Runs checks with one fault, or with none (""). Their rows are neither put on record nor required to hold.
struct Trial {
    std::set<std::string> asked;  // faults that the checks could have had
    std::set<std::string> red;    // claims of which a row fails
    std::set<std::string> bound;  // those of which a row of kind bound does
};
Trial run_with_fault(const std::string& name, const std::function<void()>& checks);

}  // namespace causeway::proofs
