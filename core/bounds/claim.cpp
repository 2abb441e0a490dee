#include "core/bounds/claim.hpp"

#include <algorithm>
#include <cctype>
#include <limits>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace causeway::bounds {
namespace {

// "[..., N, r]" as "…", "N", "r".
std::vector<std::string> dimensions_of(const std::string& form) {
    std::vector<std::string> out(1);
    for (const char c : form.substr(1, form.size() - 2)) {
        if (c == ',') out.emplace_back();
        else if (c != ' ') out.back() += c;
    }
    return out;
}

std::string kind_of_value(const std::variant<Tensor, double, bool, std::string>& value) {
    static const char* const kinds[] = {"a Tensor", "a number", "a truth value", "a text"};
    return kinds[value.index()];
}

bool is_tensor_form(const std::string& form) { return form[0] == '['; }

// The index of the one of Values' kinds that an input takes.
std::size_t kind_of_form(const std::string& form) {
    if (is_tensor_form(form)) return 0;
    if (form == "true or false") return 2;
    return form == "text" ? 3 : 1;
}

// Letters of the other case are what is mixed up most: v for V. "" where nothing is near.
std::string nearest_of(const std::string& name, const std::vector<std::string>& names) {
    const auto same = [](char a, char b) { return std::tolower(a) == std::tolower(b); };
    for (const std::string& other : names)
        if (std::equal(name.begin(), name.end(), other.begin(), other.end(), same))
            return sentence(" (did you mean ", in_quotes(other), "?)");
    return did_you_mean(name, names);
}

// "; F9 takes k [C, r], beta [C], optional a [C]" behind what is wrong with one of several inputs.
std::string all_of(const Claim& claim) {
    return claim.inputs.size() > 1 ? sentence("; ", claim.id, " takes ", inputs_text(claim)) : "";
}

bool all_are_finite(const Tensor& x) {
    for (Index i = 0; i < x.size(); ++i)
        if (!std::isfinite(x.get(i))) return false;
    return true;
}

}  // namespace

std::string inputs_text(const Claim& claim) {
    std::string out;
    bool optional = false;
    for (std::size_t i = 0; i < claim.inputs.size(); ++i) {
        const Input& input = claim.inputs[i];
        if (!out.empty()) out += ", ";
        if (input.optional && !optional) out += "optional ";
        optional = input.optional;
        out += input.name;
        const bool shared = i + 1 < claim.inputs.size() && claim.inputs[i + 1].form == input.form &&
                            claim.inputs[i + 1].optional == input.optional;
        if (!shared) out += is_tensor_form(input.form) ? " " + input.form : " (" + input.form + ")";
    }
    return out;
}

Given::Given(const Claim& claim, const Values& values) : values_(values) {
    const std::string where = claim.id + ": ", all = all_of(claim);
    std::vector<std::string> names;
    for (const Input& input : claim.inputs) names.push_back(input.name);
    for (const auto& [name, value] : values)
        if (std::find(names.begin(), names.end(), name) == names.end())
            fail(where, "has no input ", in_quotes(name), nearest_of(name, names),
                 all.empty() ? ", expected " + inputs_text(claim) : all);
    for (const Input& input : claim.inputs) {
        const auto at = values_.find(input.name);
        if (at == values_.end()) {
            if (!input.optional) fail(where, input.name, ": missing, expected ", input.text, ", ", input.form, all);
            continue;
        }
        if (at->second.index() != kind_of_form(input.form))
            fail(where, input.name, ": got ", kind_of_value(at->second), ", expected ", input.text, ", ", input.form,
                 all);
        if (const Tensor* x = std::get_if<Tensor>(&at->second)) {
            if (x->dtype() == DType::f64) type_ = DType::f64;
            try {
                check_form(input, *x);
            } catch (const Error& error) {
                fail(where, error.what(), all);
            }
            if (not_finite_.empty() && !all_are_finite(*x)) not_finite_ = input.name;
        } else if (const double* number = std::get_if<double>(&at->second)) {
            if (input.form == "whole number" && !(*number >= 1 && *number <= 0x1p40 && *number == std::floor(*number)))
                fail(where, input.name, ": ", number_text(*number), ", expected a whole number from 1 on");
            if (not_finite_.empty() && !std::isfinite(*number)) not_finite_ = input.name;
        }
    }
}

void Given::check_form(const Input& input, const Tensor& x) {
    std::vector<std::string> dimensions = dimensions_of(input.form);
    const bool leading = dimensions.front() == "...";
    if (leading) dimensions.erase(dimensions.begin());
    const int n = static_cast<int>(dimensions.size()), more = x.ndim() - n;
    const auto wrong = [&](const std::string& why) {
        fail(input.name, ": ", x.shape().text(), ", expected ", input.form, why);
    };
    if (more < 0 || (more > 0 && !leading)) wrong("");
    for (int i = 0; i < n; ++i) {
        const char letter = dimensions[static_cast<std::size_t>(i)][0];
        const Index size = x.shape()[more + i];
        if (size == 0) wrong(", none of them 0");
        if (letter == '1' && size != 1) wrong(": one query");
        const auto [at, fresh] = sizes_.emplace(letter, size);
        if (fresh) size_of_[letter] = input.name;
        if (at->second != size)
            wrong(
                sentence(" with ", letter, " = ", at->second,
                         size_of_[letter] == input.name ? ", as it has before" : ", as " + size_of_[letter] + " has"));
    }
    if (!leading) return;
    Index heads = 1;
    for (int i = 0; i < more; ++i) heads *= x.shape()[i];
    if (heads == 0) wrong(", with at least one head");
    if (heads_of_.empty()) heads_ = heads, heads_of_ = input.name;
    if (heads != heads_)
        wrong(sentence(" with ", heads_, heads_ == 1 ? " head" : " heads", ", as ", heads_of_, " has"));
}

Matrix Given::matrix(const std::string& name, Index head) const {
    const Tensor& x = std::get<Tensor>(values_.at(name));
    const Index rows = x.shape().back(1), columns = x.shape().back(0);
    Matrix out(rows, columns);
    for (Index i = 0; i < rows; ++i)
        for (Index j = 0; j < columns; ++j) out(i, j) = x.get((head * rows + i) * columns + j);
    return out;
}

Point Given::numbers(const std::string& name) const {
    const Tensor& x = std::get<Tensor>(values_.at(name));
    Point out(static_cast<std::size_t>(x.size()));
    for (Index i = 0; i < x.size(); ++i) out[static_cast<std::size_t>(i)] = x.get(i);
    return out;
}

Tensor Given::head(const std::string& name, Index head) const {
    const Tensor& x = std::get<Tensor>(values_.at(name));
    const Index rows = x.shape().back(1), columns = x.shape().back(0);
    Tensor out(type_, {rows, columns});
    for (Index i = 0; i < out.size(); ++i) out.set(i, x.get(head * out.size() + i));
    return out;
}

double Given::number(const std::string& name, double otherwise) const {
    const auto at = values_.find(name);
    return at == values_.end() ? otherwise : std::get<double>(at->second);
}

Index Given::whole(const std::string& name, Index otherwise) const {
    return static_cast<Index>(number(name, real(otherwise)));
}

bool Given::flag(const std::string& name) const {
    const auto at = values_.find(name);
    return at != values_.end() && std::get<bool>(at->second);
}

std::string Given::text(const std::string& name) const {
    const auto at = values_.find(name);
    return at == values_.end() ? "" : std::get<std::string>(at->second);
}

double Given::decay() const {
    const double g = number("decay", 1);
    if (!(g > 0 && g <= 1)) fail("decay: ", number_text(g), ", expected a number in (0, 1]");
    return g;
}

Point Given::gates(const std::string& name) const {
    Point out = numbers(name);
    for (const double gate : out)
        if (!(gate >= 0 && gate <= 1)) fail(name, ": has ", number_text(gate), ", expected gates in [0, 1]");
    return out;
}

const std::vector<Claim>& claims() {
    static const auto& all = *new std::vector<Claim>([] {
        std::vector<Claim> out;
        for (const auto part : {masking_claims, causal_claims, sum_claims, gated_claims, softmax_claims})
            for (Claim& claim : part()) out.push_back(std::move(claim));
        const auto order = [](const Claim& c) { return std::pair(c.id[0], std::stoi(c.id.substr(1))); };
        std::stable_sort(out.begin(), out.end(), [&](const Claim& a, const Claim& b) { return order(a) < order(b); });
        return out;
    }());
    return all;
}

const Claim& claim(const std::string& id) {
    std::string known;
    for (const Claim& c : claims()) {
        if (c.id == id) return c;
        known += (known.empty() ? "" : " ") + c.id;
    }
    fail("claim: ", in_quotes(id), " is none that can be checked, expected one of ", known);
}

std::vector<Row> check(const Claim& claim, const Values& values) {
    const Given given(claim, values);
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    if (!given.not_finite().empty())
        return {{given.not_finite() + " has numbers that are NaN or infinite", nan, nan, false}};
    try {
        return claim.rows(given);
    } catch (const OutOfMemory&) {
        throw;
    } catch (const Interrupted&) {
        throw;
    } catch (const Timeout&) {
        throw;
    } catch (const Error& error) {
        fail(claim.id, ": ", error.what());
    }
}

}  // namespace causeway::bounds
