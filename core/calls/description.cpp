#include "core/calls/description.hpp"

#include <type_traits>

#include "core/base/error.hpp"
#include "core/calls/around.hpp"
#include "core/calls/causal_linear_attention.hpp"
#include "core/calls/decode_model.hpp"
#include "core/calls/general_linear_attention.hpp"
#include "core/calls/linear_attention.hpp"
#include "core/calls/linear_model.hpp"
#include "core/calls/lowrank.hpp"
#include "core/calls/scan.hpp"
#include "core/calls/softmax_attention.hpp"

namespace causeway::calls {
namespace {

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;
template <class T>
constexpr bool is_list = std::is_same_v<T, std::vector<Index>> || std::is_same_v<T, std::vector<double>>;

// What a value of a member of type T may be.
template <class T>
const char* type_of() {
    if constexpr (is_optional<T>) return type_of<typename T::value_type>();
    else if constexpr (std::is_same_v<T, bool>) return "true or false";
    else if constexpr (std::is_integral_v<T>) return "a whole number";
    else if constexpr (std::is_same_v<T, double>) return "a number";
    else if constexpr (is_list<T>) return "a list of numbers";
    else if constexpr (std::is_same_v<T, Tensor>) return "a Tensor";
    else if constexpr (std::is_same_v<T, std::map<std::string, Tensor>>) return "a table of Tensors";
    else return "a string";  // also of an enumeration
}

// A default as Lua writes it; "" for an empty one.
template <class T>
std::string text_of(const T& value) {
    if constexpr (is_optional<T>) return value ? text_of(*value) : "";
    else if constexpr (std::is_same_v<T, bool>) return value ? "true" : "false";
    else if constexpr (std::is_arithmetic_v<T>) return sentence(value);
    else if constexpr (std::is_same_v<T, Precision>)
        return sentence('"', precisions()[static_cast<std::size_t>(value)], '"');
    else if constexpr (std::is_same_v<T, std::string>) return sentence('"', value, '"');
    else return "";
}

// Not inlined: GCC 12 warns falsely about members that the struct at hand has not.
template <class S>
[[gnu::noinline]] const S& defaults_of() {
    static const S& defaults = *new S{};
    return defaults;
}

// A value that is not the default, as Lua writes it; "" where that is not known.
std::string other_than(const OptionDescription& d) {
    if (d.type == "true or false") return d.standard == "true" ? "false" : "true";
    if (!d.choices) return "";
    for (const auto& choice : d.choices()) {
        std::string quoted = sentence('"', choice, '"');
        if (quoted != d.standard) return quoted;
    }
    return d.standard;
}

template <class S>
OptionDescription describe(const Option<S>& o) {
    const S& defaults = defaults_of<S>();
    OptionDescription d;
    d.name = o.name, d.text = o.text, d.choices = o.choices;
    d.cpu = o.cpu, d.gpu = o.gpu;
    if (o.listed_by) d.listed_by = o.listed_by;
    if (o.cpu_choice) d.cpu_choice = o.cpu_choice;
    if (o.in_place) d.in_place = o.in_place;
    if (o.example) d.example = o.example;
    d.type = "a string";
    std::visit(
        [&]<class M>(M member) {
            if constexpr (!std::is_same_v<M, std::monostate>) {
                using T = std::remove_cvref_t<decltype(defaults.*member)>;
                d.type = type_of<T>();
                d.standard = text_of(defaults.*member);
                d.on_host = std::is_same_v<T, std::vector<double>>;
                if (std::is_same_v<T, std::map<std::string, Tensor>>) d.choices = nullptr;  // they are its keys
            }
        },
        o.member);
    if (o.type) d.type = o.type;
    if (o.standard) d.standard = o.standard;
    const std::string other = other_than(d);
    if (d.example.empty() && !other.empty()) d.example = d.name + " = " + other;
    return d;
}

template <class S>
Description describe(const Call<S>& call) {
    Description d{call.name, call.arguments, {}, call.inputs};
    for (const auto& option : call.options) d.options.push_back(describe(option));
    return d;
}

}  // namespace

const OptionDescription* Description::option(std::string_view key) const {
    for (const auto& o : options)
        if (o.name == key) return &o;
    return nullptr;
}

const std::vector<Description>& descriptions() {
    static const auto& all = *new std::vector<Description>{
        describe(causal_linear_attention<Tensor>()),
        describe(causal_linear_attention_grad<Tensor>()),
        describe(linear_attention<Tensor>()),
        describe(linear_attention_step<Tensor>()),
        describe(linear_attention_grad<Tensor>()),
        describe(general_linear_attention<Tensor>()),
        describe(general_linear_attention_step<Tensor>()),
        describe(general_linear_attention_grad<Tensor>()),
        describe(softmax_attention<Tensor>()),
        describe(softmax_attention_grad<Tensor>()),
        describe(energy()),
        describe(energy_grad()),
        describe(energy_hessian()),
        describe(tree_decode()),
        describe(ring_decode()),
        describe(decode_model()),
        describe(linear_model()),
        describe(lowrank()),
        describe(lowrank_error()),
        describe(scan()),
        describe(short_convolution<Tensor>()),
        describe(l2norm<Tensor>()),
        describe(rms_norm<Tensor>()),
        describe(decay_gate<Tensor>()),
    };
    return all;
}

const Description* description(std::string_view name) {
    for (const auto& d : descriptions())
        if (d.name == name) return &d;
    return nullptr;
}

}  // namespace causeway::calls
