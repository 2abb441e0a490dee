// The described calls without their C++ types: what completion, ?help and the dispatcher between devices look at.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/calls/option.hpp"

namespace causeway::calls {

struct OptionDescription {
    std::string name, type, text;
    std::string standard;  // the default as Lua writes it, or in words
    std::vector<std::string> (*choices)() = nullptr;
    std::string listed_by;
    std::string cpu_choice;
    Effect cpu = Effect::works, gpu = Effect::works;
    std::string in_place;
    bool on_host = false;  // read as numbers, wherever a tensor of them is
    std::string example;
};

struct Description {
    std::string name;
    std::vector<Argument> arguments;
    std::vector<OptionDescription> options;
    std::string inputs;

    const OptionDescription* option(std::string_view key) const;  // null: there is none
};

// Every described call, in the order of its files.
const std::vector<Description>& descriptions();

// null: no call of this name is described.
const Description* description(std::string_view name);

}  // namespace causeway::calls
