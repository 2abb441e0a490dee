// What a public call accepts, as data. The struct of its options and one list that describes them stand side by side in
// a file of this folder; the shell's parser, its "did you mean", completion and the tables of ?help read that list, and
// so does who reads the C++ struct. README.md says how an option is added.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/calls/precision.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway::calls {

enum class Device { cpu, gpu };

// What an option does on a device.
enum class Effect {
    works,
    none,     // it is checked there and does nothing, so that one script runs on both devices
    refused,  // it is an error there
};

// Where the value goes: a member of the struct S. None: the parser only checks the option, which others read, as the
// dispatcher does with `device`. S::TensorType is the type of the tensors of S: Tensor, or that of the GPU.
template <class S>
using Member = std::variant<std::monostate, bool S::*, int S::*, Index S::*, double S::*, std::string S::*,
                            Precision S::*, std::optional<Index> S::*, std::optional<std::uint64_t> S::*,
                            std::optional<double> S::*, std::vector<Index> S::*, std::vector<double> S::*,
                            std::optional<typename S::TensorType> S::*, std::map<std::string, Tensor> S::*>;

// An option of a call. Its default is that of the struct.
template <class S>
struct Option {
    const char* name;
    Member<S> member;
    const char* text;                // one line: what it means, with the shape of a tensor
    const char* type = nullptr;      // what a value may be, where the type of the member does not say it
    const char* standard = nullptr;  // the default in words, where the struct has an empty one
    std::vector<std::string> (*choices)() = nullptr;  // the strings it may be; of a table, its keys
    const char* listed_by = nullptr;                  // the Lua call that shows the choices, where they are many
    const char* cpu_choice = nullptr;                 // the one of them that the GPU does not have
    std::optional<Index> min{}, max{};                // of a whole number
    Effect cpu = Effect::works, gpu = Effect::works;
    const char* why = nullptr;       // with Effect::refused: `block: given, but on the GPU WHY`
    const char* in_place = nullptr;  // true overwrites the argument of this name, which must be where the call runs
    // For its page of help: the option with a value, in Lua, and what it needs besides. None: another of its choices.
    const char* example = nullptr;
};

// A tensor that stands before the options; in the form f{q = ..., k = ...} a field.
struct Argument {
    const char* name;
    const char* alias = nullptr;  // another name of the field
};

template <class S>
struct Call {
    const char* name;
    std::vector<Argument> arguments;
    std::vector<Option<S>> options;
    std::string inputs{};  // Lua that makes the arguments, under the names or the other names that they have here
};

// Inputs of several calls: a text, a query against a cache, and what a gradient takes besides.
inline constexpr const char* text_inputs = "q, k, v = randn(1, 2, 100, 8), randn(1, 2, 100, 8), randn(1, 2, 100, 8)";
inline constexpr const char* query_inputs = "q, k, v = randn(1, 2, 1, 8), randn(1, 2, 100, 8), randn(1, 2, 100, 8)";
inline std::string gradient_inputs() { return std::string(text_inputs) + "\ndO = randn(1, 2, 100, 8)"; }

// The option that says where a call runs, of a call that the GPU has too or, `cpu_alone`, of one that it has not.
template <class S>
Option<S> device_option(bool cpu_alone = false) {
    Option<S> device{.name = "device", .member = {}, .text = "where the call runs", .standard = "where the inputs are"};
    if (cpu_alone) device.choices = [] { return std::vector<std::string>{"cpu"}; };
    else device.choices = [] { return std::vector<std::string>{"cpu", "gpu"}; };
    device.example = "device = \"cpu\"";
    return device;
}

// The option timeout of calls that may run on MPI.
inline constexpr const char* mpi_timeout =
    "the most seconds that an MPI rank waits for another, which may loop without end; no call that ranks share can "
    "follow one that ended so";
inline constexpr const char* mpi_timeout_default = "CAUSEWAY_MPI_TIMEOUT, or no end";

// Options one list after the other.
template <class S>
std::vector<Option<S>> joined(std::vector<Option<S>> first, const std::vector<Option<S>>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

}  // namespace causeway::calls
