// A recorded step as instructions on arrays: what is not needed is gone, and sums of scaled matrices and outer
// products, of which linear recurrences consist, are one pass over the matrix.
#pragma once

#include <vector>

#include "core/scan/program.hpp"

namespace causeway::scan {

// sign · f_i · base_ij · c_j; what is -1 is left out.
struct Term {
    double sign = 1;
    Id base = -1;     // a matrix of the shape of the sum
    Id rows = -1;     // f: a number, or one a row
    Id columns = -1;  // c: one a column
};

struct Instruction {
    Id out = -1;
    std::vector<Term> sum;  // terms with a base first; empty: the operation of the value itself
};

struct Code {
    Program program;  // with the factors of terms, which the compiler adds
    std::vector<Instruction> instructions;
    std::vector<Id> outputs, states;  // the values at the end of the step, in the order of their slots
    std::vector<Id> place;  // of each value the one in whose memory it is: itself, or another of as many elements
};

// `outputs` and `states` are values of the program; states have the shapes of those they follow.
Code compile(Program program, std::vector<Id> outputs, std::vector<Id> states);

}  // namespace causeway::scan
