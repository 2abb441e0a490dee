#include "core/scan/code.hpp"

#include <algorithm>
#include <set>

namespace causeway::scan {
namespace {

std::size_t at(Id id) { return static_cast<std::size_t>(id); }

class Compiler {
public:
    Compiler(Program program, std::vector<Id> outputs, std::vector<Id> states) : recorded_(program.size()) {
        code_.program = std::move(program);
        code_.program.end_recording();
        code_.outputs = std::move(outputs);
        code_.states = std::move(states);
    }

    Code run() {
        count_uses();
        expand();
        mark_needed();
        for (Id id = 0; id < recorded_; ++id)
            if (needed_[at(id)]) emit(id);
        for (Id id = 0; id < code_.program.size(); ++id) code_.place.push_back(origin(id));
        for (std::size_t slot = 0; slot < code_.states.size(); ++slot) write_in_place(slot);
        return std::move(code_);
    }

private:
    using Terms = std::vector<Term>;

    const Value& value(Id id) const { return code_.program[id]; }

    // How often each value is an operand of a needed one, or a result.
    void count_uses() {
        uses_.assign(at(recorded_), 0);
        for (const auto* results : {&code_.outputs, &code_.states})
            for (Id id : *results) ++uses_[at(id)];
        for (Id id = recorded_; id-- > 0;) {
            if (uses_[at(id)] == 0) continue;
            for (Id operand : {value(id).a, value(id).b})
                if (operand >= 0) ++uses_[at(operand)];
        }
    }

    // Every matrix that is a sum of terms, as these terms. Operands come first, so there is no recursion: a step may be
    // thousands of operations deep.
    void expand() {
        terms_.resize(at(recorded_));
        for (Id id = 0; id < recorded_; ++id) {
            const Value v = value(id);
            if (uses_[at(id)] == 0 || !v.is_matrix()) continue;
            Terms& out = terms_[at(id)];
            if (v.kind == Kind::unary && v.unary == Unary::negate) out = terms(v.a, -1);
            if (v.kind != Kind::binary) continue;
            if (v.binary == Binary::multiply) out = scaled_terms(v);
            if (v.binary == Binary::add) out = added_terms(v, 1);
            if (v.binary == Binary::subtract) out = added_terms(v, -1);
        }
    }

    // The terms of an operand: one, itself, where others need it too and it has memory of its own.
    Terms terms(Id id, double sign) const {
        if (uses_[at(id)] > 1 || terms_[at(id)].empty()) return {{sign, id, -1, -1}};
        Terms out = terms_[at(id)];
        for (Term& t : out) t.sign *= sign;
        return out;
    }

    // The same of an operand of v, which is repeated to its shape where it is smaller.
    Terms part(const Value& v, Id operand, double sign) {
        if (same_shape(v, operand)) return terms(operand, sign);
        Term t{sign, -1, -1, -1};
        multiply(t, v, operand);
        return {t};
    }

    Terms added_terms(const Value& v, double sign) {
        Terms out = part(v, v.a, 1);
        const Terms second = part(v, v.b, sign);
        out.insert(out.end(), second.begin(), second.end());
        return out;
    }

    // A product element by element with a factor of rows or columns, or with an outer product. None for another.
    Terms scaled_terms(const Value& v) {
        const bool a_full = same_shape(v, v.a), b_full = same_shape(v, v.b);
        if (a_full && b_full) return scaled_by_outer(v, terms(v.a, 1), terms(v.b, 1));
        const Id matrix = b_full ? v.b : v.a, factor = b_full ? v.a : v.b;
        Terms out = part(v, matrix, 1);
        if (out.size() > 1) out = {{1, matrix, -1, -1}};  // a factor is not taken into a sum
        multiply(out[0], v, factor);
        return out;
    }

    Terms scaled_by_outer(const Value& v, Terms x, Terms y) {
        if (x.size() != 1 || y.size() != 1) return {};
        if (y[0].base >= 0) std::swap(x, y);
        if (y[0].base >= 0) return {};
        x[0].sign *= y[0].sign;
        if (y[0].rows >= 0) multiply(x[0], v, y[0].rows);
        if (y[0].columns >= 0) multiply(x[0], v, y[0].columns);
        return x;
    }

    bool same_shape(const Value& v, Id operand) const { return value(operand).shape == v.shape; }

    // The term times a number or a vector along the rows or the columns of v.
    void multiply(Term& t, const Value& v, Id factor) {
        const Shape& shape = value(factor).shape;
        const bool per_column = shape.ndim() > 0 && shape.back() == v.shape[1];
        Id& place = per_column ? t.columns : t.rows;
        place = place < 0 ? factor : code_.program.apply(Binary::multiply, place, factor);
    }

    // What the instruction for the value reads.
    std::vector<Id> operands(Id id) const {
        std::vector<Id> out;
        if (id < recorded_) {
            for (const Term& t : terms_[at(id)])
                for (Id operand : {t.base, t.rows, t.columns}) out.push_back(operand);
        }
        if (out.empty()) out = {value(id).a, value(id).b};
        out.erase(std::remove(out.begin(), out.end(), -1), out.end());
        return out;
    }

    void mark_needed() {
        needed_.assign(at(recorded_), false);
        for (const auto* results : {&code_.outputs, &code_.states})
            for (Id id : *results) needed_[at(id)] = true;
        for (Id id = recorded_; id-- > 0;)
            if (needed_[at(id)]) mark_operands(id);
    }

    void mark_operands(Id id) {
        for (Id operand : operands(id)) {
            if (operand < recorded_) needed_[at(operand)] = true;
            else mark_operands(operand);  // a product of factors
        }
    }

    // The instruction for the value, behind those for products of factors among its operands.
    void emit(Id id) {
        for (Id operand : operands(id)) {
            if (operand < recorded_ || emitted_.count(operand)) continue;
            emitted_.insert(operand);
            emit(operand);
        }
        const Kind kind = value(id).kind;
        if (kind == Kind::input || kind == Kind::state || kind == Kind::constant || kind == Kind::reshape) return;
        Instruction i{id, id < recorded_ ? terms_[at(id)] : Terms{}};
        std::stable_partition(i.sum.begin(), i.sum.end(), [](const Term& t) { return t.base >= 0; });
        code_.instructions.push_back(std::move(i));
    }

    // The value whose memory a reshaped one shares.
    Id origin(Id id) const {
        while (value(id).kind == Kind::reshape) id = value(id).a;
        return id;
    }

    bool reads(const Instruction& i, Id memory) const {
        const std::vector<Id> all = operands(i.out);
        return std::any_of(all.begin(), all.end(), [&](Id id) { return code_.place[at(id)] == memory; });
    }

    // Lets the instruction that makes a new state element by element write over the old one, where nothing else needs
    // the old one afterwards.
    void write_in_place(std::size_t slot) {
        const Id made = origin(code_.states[slot]), old = old_state(slot);
        const auto& all = code_.instructions;
        const auto maker = std::find_if(all.begin(), all.end(), [&](const auto& i) { return i.out == made; });
        if (old < 0 || maker == all.end() || !element_by_element(*maker) || !may_overwrite(*maker, old)) return;
        if (std::any_of(maker + 1, all.end(), [&](const auto& i) { return reads(i, old); })) return;
        int results = 0;
        for (Id id : code_.outputs)
            if (code_.place[at(id)] == old) return;
        for (Id id : code_.states) {
            if (code_.place[at(id)] == old) return;
            results += origin(id) == made ? 1 : 0;
        }
        if (results > 1) return;
        for (Id& place : code_.place)
            if (place == made) place = old;
    }

    Id old_state(std::size_t slot) const {
        for (Id id = 0; id < recorded_; ++id)
            if (value(id).kind == Kind::state && value(id).slot == static_cast<int>(slot)) return id;
        return -1;
    }

    bool element_by_element(const Instruction& i) const {
        const Kind kind = value(i.out).kind;
        return !i.sum.empty() || kind == Kind::unary || kind == Kind::binary || kind == Kind::clamp;
    }

    // Whether the instruction reads element i of the memory before it writes element i of its result, and not later:
    // of a sum the first matrix, since others are added in further passes (run.cpp).
    bool may_overwrite(const Instruction& i, Id memory) const {
        const auto is_it = [&](Id id) { return id >= 0 && code_.place[at(id)] == memory; };
        const Value& v = value(i.out);
        if (i.sum.empty()) {
            for (Id id : {v.a, v.b})
                if (is_it(id) && value(id).shape.size() != v.shape.size()) return false;
            return true;
        }
        bool first = true;
        for (const Term& t : i.sum) {
            if (is_it(t.rows) || is_it(t.columns) || (is_it(t.base) && !first)) return false;
            if (t.base >= 0) first = false;
        }
        return true;
    }

    Id recorded_;  // values of the user's; those behind them are products of factors
    Code code_;
    std::vector<int> uses_;
    std::vector<Terms> terms_;
    std::vector<bool> needed_;
    std::set<Id> emitted_;
};

}  // namespace

Code compile(Program program, std::vector<Id> outputs, std::vector<Id> states) {
    return Compiler(std::move(program), std::move(outputs), std::move(states)).run();
}

}  // namespace causeway::scan
