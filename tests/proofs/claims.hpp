// What the proofs check, on record. Every check names its claim (index in proofs/README.md), what was checked on which
// input, and the measured value against its bound. An input that begins with "the same" goes on from that of the check
// before it. A run of chosen tests (./lab test proofs) closes with them as a table.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace causeway::proofs {

// The claim holds: measured <= bound. NaN on either side fails.
void claim(const std::string& id, const std::string& checked, const std::string& input, double measured, double bound);

// An erratum, or a form to avoid: it is wrong by at least `at_least`. NaN as an error fails; count NaN entries instead.
void published_fails(const std::string& id, const std::string& checked, const std::string& input, double error,
                     double at_least);

// A count, equal to its closed form.
void exactly(const std::string& id, const std::string& checked, const std::string& input, std::int64_t measured,
             std::int64_t expected);

// All checks so far, ordered by claim, in aligned columns; nothing where there were none.
void print_claims(std::FILE* out);

}  // namespace causeway::proofs
