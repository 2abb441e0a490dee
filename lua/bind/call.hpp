// The arguments of a call that core/calls describes: f(A, B, ..., options), or with everything in one table
// f{A = ..., B = ..., option = ...}. The options are read into the struct of the C++ function, for either device.
#pragma once

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "core/calls/description.hpp"
#include "core/calls/sharding.hpp"
#include "lua/bind/gpu.hpp"

namespace causeway::lua {

// Where tensors of type T are, and how one is read. Throws Error naming the argument.
template <class T>
struct Tensors;

template <>
struct Tensors<Tensor> {
    static constexpr calls::Device device = calls::Device::cpu;
    static Tensor at(lua_State* L, int index, const char* name) { return check_tensor(L, index, name); }
};

#ifdef CAUSEWAY_GPU
template <>
struct Tensors<gpu::Tensor> {
    static constexpr calls::Device device = calls::Device::gpu;
    static gpu::Tensor at(lua_State* L, int index, const char* name) { return check_gpu_tensor(L, index, name); }
};
#endif

// What an Option says without its struct.
struct OptionRule {
    const char *name, *type, *why, *cpu_choice;
    std::vector<std::string> (*choices)();
    std::optional<Index> min, max;

    template <class S>
    explicit OptionRule(const calls::Option<S>& o)
        : name(o.name),
          type(o.type),
          why(o.why),
          cpu_choice(o.cpu_choice),
          choices(o.choices),
          min(o.min),
          max(o.max) {}
};

// The value of a given option. Throw Error naming it, for a wrong type, a number out of range, an unknown key.
Index whole_number(const Options& given, const OptionRule& rule);
std::vector<Index> list_of_lengths(lua_State* L, const Options& given, const OptionRule& rule);
std::vector<double> list_of_decays(lua_State* L, const Options& given, const OptionRule& rule);
std::map<std::string, Tensor> table_of_tensors(lua_State* L, const Options& given, const OptionRule& rule);
std::size_t place_of_choice(const Options& given, const OptionRule& rule);

// Throws Error where workers that the call does not ask for have a time limit.
void check_timeout(const calls::Sharding& o);

// Whether the processes of the job share the call that Lua makes, as far as its options say so before they are checked.
bool shared_by_ranks(lua_State* L, const calls::Description& call);

// Throws Error where the device refuses the option, or has not what it is given.
void check_effect(const Options& given, const OptionRule& rule, calls::Effect effect, calls::Device device);

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

// Names among choices that a C++ caller may write too are checked by the C++ function, once for all callers.
template <class T>
void read_value(lua_State* L, const Options& given, const OptionRule& rule, T& to) {
    if constexpr (is_optional<T>) {
        typename T::value_type value{};
        read_value(L, given, rule, value);
        to = std::move(value);
    } else if constexpr (std::is_same_v<T, bool>) {
        to = given.boolean(rule.name, false);
    } else if constexpr (std::is_integral_v<T>) {
        to = static_cast<T>(whole_number(given, rule));
    } else if constexpr (std::is_same_v<T, double>) {
        to = given.number(rule.name, 0);
    } else if constexpr (std::is_same_v<T, std::string>) {
        to = given.string(rule.name, "");
    } else if constexpr (std::is_enum_v<T>) {
        to = static_cast<T>(place_of_choice(given, rule));
    } else if constexpr (std::is_same_v<T, std::vector<Index>>) {
        to = list_of_lengths(L, given, rule);
    } else if constexpr (std::is_same_v<T, std::vector<double>>) {
        to = list_of_decays(L, given, rule);
    } else if constexpr (std::is_same_v<T, std::map<std::string, Tensor>>) {
        to = table_of_tensors(L, given, rule);
    } else {
        given.push(rule.name);
        to = Tensors<T>::at(L, -1, rule.name);
        lua_pop(L, 1);
    }
}

// Options of which a number stands for a Tensor of it with the dimensions of v but the last, the same for all tokens
// and heads, and a list of numbers for one a head.
inline bool takes_constant(std::string_view option) { return option == "log_decay" || option == "beta"; }

// The number, or the list of one for each head, at the top of the stack as a Tensor with the dimensions of v, [..,
// heads, tokens, width], but the last. Throws Error naming the option for another list.
Tensor constant_of(lua_State* L, const char* option, const Shape& v, DType type);

// Sets the members of `out` whose options are given, but those that `taken(option)` says it has set.
template <class S, class Taken>
void read_options(lua_State* L, const Options& given, const std::vector<calls::Option<S>>& options,
                  calls::Device device, S& out, Taken&& taken) {
    for (const auto& option : options) {
        if (!given.has(option.name)) continue;
        const OptionRule rule(option);
        check_effect(given, rule, device == calls::Device::gpu ? option.gpu : option.cpu, device);
        if (taken(option)) continue;
        std::visit(
            [&]<class M>(M member) {
                if constexpr (!std::is_same_v<M, std::monostate>) read_value(L, given, rule, out.*member);
                else if (rule.choices) place_of_choice(given, rule);
            },
            option.member);
    }
    if constexpr (std::is_base_of_v<calls::Sharding, S>) check_timeout(out);
}

template <class S>
void read_options(lua_State* L, const Options& given, const std::vector<calls::Option<S>>& options,
                  calls::Device device, S& out) {
    read_options(L, given, options, device, out, [](const auto&) { return false; });
}

template <class S>
std::vector<std::string_view> names_of(const std::vector<calls::Option<S>>& options) {
    std::vector<std::string_view> names;
    names.reserve(options.size());
    for (const auto& option : options) names.emplace_back(option.name);
    return names;
}

// The arguments of a call, from the stack.
class Arguments {
public:
    template <class S>
    Arguments(lua_State* L, const calls::Call<S>& call)
        : Arguments(L, call.name, call.arguments, names_of(call.options)) {}

    // Whether argument `i` is given, counted from 0.
    bool has(std::size_t i) const;

    template <class T>
    T tensor(std::size_t i) const {
        push(i);
        T out = Tensors<T>::at(L_, -1, arguments_[i].name);
        lua_pop(L_, 1);
        return out;
    }

    // The first n of them.
    template <class T, std::size_t n>
    std::array<T, n> tensors() const {
        return [this]<std::size_t... i>(std::index_sequence<i...>) { return std::array<T, n>{tensor<T>(i)...}; }
        (std::make_index_sequence<n>());
    }

    // Throws Error for an unknown option, and for anything behind the options.
    Options options() const;

    // The options in the struct of the call; what is not given stays as in `start`.
    template <class S>
    S read(const calls::Call<S>& call, S start = {}) const {
        const Options given = options();
        read_options(L_, given, call.options, Tensors<typename S::TensorType>::device, start,
                     [&](const calls::Option<S>& option) { return set_constant(given, option, start); });
        return start;
    }

private:
    Arguments(lua_State* L, const char* function, const std::vector<calls::Argument>& arguments,
              std::vector<std::string_view> known);

    // Sets the member of an option that is given as numbers for a Tensor of them, and tells whether it is.
    template <class S>
    bool set_constant(const Options& given, const calls::Option<S>& option, S& out) const {
        using T = typename S::TensorType;
        using Value = std::optional<T> S::*;
        if (!takes_constant(option.name) || !std::holds_alternative<Value>(option.member)) return false;
        given.push(option.name);
        const bool numbers = lua_type(L_, -1) == LUA_TNUMBER || lua_istable(L_, -1);
        if (numbers) {
            const T v = tensor<T>(place_of("v"));
            const DType type = v.dtype() == DType::f64 ? DType::f64 : DType::f32;
            out.*std::get<Value>(option.member) = T(constant_of(L_, option.name, v.shape(), type));
        }
        lua_pop(L_, 1);
        return numbers;
    }

    std::size_t place_of(std::string_view argument) const;

    // Pushes argument `i`, whatever it is.
    void push(std::size_t i) const;

    lua_State* L_;
    const char* function_;
    const std::vector<calls::Argument>& arguments_;  // of the call, which is kept
    std::vector<std::string_view> known_;            // names that are kept as long as the calls' descriptions
    bool named_;
};

// Slots of a pool of states count from 1 in the shell and from 0 in C++.
template <class S>
void count_slots_from_zero(S& options) {
    for (Index& slot : options.state_indices) --slot;
}

}  // namespace causeway::lua
