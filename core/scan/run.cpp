#include "core/scan/run.hpp"

#include <cstring>

#include "core/base/interrupt.hpp"
#include "core/base/parallel.hpp"
#include "core/scan/kernels.hpp"
#include "core/tensor/product.hpp"

namespace causeway::scan {
namespace {

// What all heads share: where values are in the scratch of a head, and constants.
template <class T>
struct Layout {
    std::vector<Index> offset;     // of each value with memory of its own in the scratch, else -1
    std::vector<Tensor> constant;  // of each constant value, in the type of the computation
    Tensor ones;                   // as many as the longest row
    Index size = 0;

    explicit Layout(const Problem& p) : constant(static_cast<std::size_t>(p.code.program.size())) {
        Index longest = 1;
        for (Id id = 0; id < p.code.program.size(); ++id) {
            const Value& v = p.code.program[id];
            if (v.kind == Kind::constant) constant[static_cast<std::size_t>(id)] = v.elements.to(p.type);
            if (v.shape.ndim() > 0) longest = std::max(longest, v.shape.back());
            offset.push_back(-1);
        }
        ones = Tensor::full(p.type, {longest}, 1);
        for (Id id = 0; id < p.code.program.size(); ++id)
            if (p.code.program[id].kind == Kind::state) reserve(p, id);
        for (const Instruction& i : p.code.instructions)
            if (p.code.place[static_cast<std::size_t>(i.out)] == i.out) reserve(p, i.out);
    }

private:
    void reserve(const Problem& p, Id id) {
        constexpr Index line = 64 / sizeof(T);
        offset[static_cast<std::size_t>(id)] = size;
        size += (p.code.program[id].shape.size() + line - 1) / line * line;
    }
};

template <class T>
class Head {
public:
    Head(Problem& p, const Layout<T>& layout, Index index)
        : p_(p), layout_(layout), batch_(index / p.heads), head_(index % p.heads), scratch_(layout.size) {
        const Id values = p.code.program.size();
        memory_.resize(static_cast<std::size_t>(values));
        for (Id id = 0; id < values; ++id) {
            const Value& v = program()[id];
            const auto at = static_cast<std::size_t>(id);
            if (layout.offset[at] >= 0) memory_[at] = scratch_.data() + layout.offset[at];
            if (v.kind == Kind::constant) memory_[at] = const_cast<T*>(layout.constant[at].template data<T>());
            if (v.kind == Kind::input) inputs_.push_back(id);
            if (v.kind == Kind::state) states_.push_back(id);
        }
    }

    void run() {
        for (Id id : states_) {
            const auto& from = p_.initial[slot(id)];
            copy(write(id), place(from, 0), program().shape(id).size());
        }
        for (Index i = 0; i < p_.tokens; ++i) {
            interrupt::check();
            token(p_.reverse ? p_.tokens - 1 - i : i);
        }
        for (std::size_t s = 0; s < states_.size(); ++s)
            copy(place(p_.final[s], 0), read(states_[s]), program().shape(states_[s]).size());
    }

private:
    const Program& program() const { return p_.code.program; }
    std::size_t slot(Id id) const { return static_cast<std::size_t>(program()[id].slot); }
    T* write(Id id) const { return memory_[static_cast<std::size_t>(p_.code.place[static_cast<std::size_t>(id)])]; }
    const T* read(Id id) const { return write(id); }

    T* place(const Problem::Place& a, Index token) const {
        return const_cast<T*>(a.tensor.template data<T>()) + batch_ * a.steps.batch + head_ * a.steps.head +
               token * a.steps.token;
    }

    static void copy(T* to, const T* from, Index n) { std::memcpy(to, from, sizeof(T) * static_cast<std::size_t>(n)); }

    void token(Index t) {
        for (Id id : inputs_) memory_[static_cast<std::size_t>(id)] = place(p_.inputs[slot(id)], t);
        for (const Instruction& i : p_.code.instructions) {
            if (i.sum.empty()) operation(i.out);
            else sum(i);
        }
        for (std::size_t o = 0; o < p_.outputs.size(); ++o) {
            const Id id = p_.code.outputs[o];
            copy(place(p_.outputs[o], t), read(id), program().shape(id).size());
        }
        // The new states, where they are not in place of the old ones already.
        for (std::size_t s = 0; s < states_.size(); ++s) {
            const T* from = read(p_.code.states[s]);
            T* const to = write(states_[s]);
            if (from != to) copy(to, from, program().shape(states_[s]).size());
        }
    }

    void sum(const Instruction& i) {
        products_.clear();
        int based = 0;
        for (const Term& t : i.sum) {
            Product<T> p{static_cast<T>(t.sign), nullptr, nullptr, nullptr, 0};
            if (t.base >= 0) p.base = read(t.base), ++based;
            if (t.rows >= 0) p.rows = read(t.rows), p.row_step = program().shape(t.rows).size() > 1 ? 1 : 0;
            if (t.columns >= 0) p.columns = read(t.columns);
            else if (t.base < 0) p.columns = layout_.ones.template data<T>();
            products_.push_back(p);
        }
        const Shape& shape = program().shape(i.out);
        sum_of_products(write(i.out), products_.data(), based, static_cast<int>(products_.size()), shape[0], shape[1]);
    }

    // Rows and columns of a value: a vector is a row.
    std::pair<Index, Index> sides(Id id) const {
        const Shape& shape = program().shape(id);
        return {shape.ndim() > 1 ? shape[0] : 1, shape.ndim() > 0 ? shape.back() : 1};
    }

    void operation(Id id) {
        const Value& v = program()[id];
        T* const out = write(id);
        const T* const a = read(v.a);
        const Index n = v.shape.size(), from = program().shape(v.a).size();
        const auto [rows, columns] = sides(v.a);
        switch (v.kind) {
            case Kind::unary: return apply(v.unary, out, a, n);
            case Kind::binary: return binary(v, out);
            case Kind::clamp: {
                const T low = static_cast<T>(v.low), high = static_cast<T>(v.high);
                for (Index i = 0; i < n; ++i) out[i] = a[i] < low ? low : a[i] > high ? high : a[i];
                return;
            }
            case Kind::product: return product(v, out);
            case Kind::transpose:
                for (Index i = 0; i < rows; ++i)
                    for (Index j = 0; j < columns; ++j) out[j * rows + i] = a[i * columns + j];
                return;
            case Kind::diagonal:
                std::fill_n(out, n, T(0));
                for (Index i = 0; i < from; ++i) out[i * from + i] = a[i];
                return;
            case Kind::reduce: return reduce(v, out, a);
            case Kind::dot: *out = dot(a, read(v.b), from); return;
            case Kind::norm: *out = norm(a, from); return;
            case Kind::softmax: return softmax(out, a, rows, columns);
            default: return;  // what is given or reshaped has no instruction
        }
    }

    void binary(const Value& v, T* out) {
        const Shape &a = program().shape(v.a), &b = program().shape(v.b);
        Index rows = v.shape.ndim() > 1 ? v.shape[0] : 1, columns = v.shape.ndim() > 0 ? v.shape.back() : 1;
        Repeated<T> x(read(v.a), a, rows, columns), y(read(v.b), b, rows, columns);
        if (columns == 1) {  // a column of numbers is as good as a row
            x.column = x.row, y.column = y.row;
            x.row = y.row = 0;
            std::swap(rows, columns);
        }
        functions::with_function(v.binary, [&](auto f) { each(out, x, y, rows, columns, f); });
    }

    void product(const Value& v, T* out) {
        const Shape &a = program().shape(v.a), &b = program().shape(v.b);
        const T *x = read(v.a), *y = read(v.b);
        const Index depth = a.back(), columns = b.ndim() > 1 ? b[1] : 1, rows = a.ndim() > 1 ? a[0] : 1;
        if (b.ndim() == 1 || columns == 1) matrix_vector(out, x, y, rows, depth);
        else if (rows == 1) vector_matrix(out, x, y, depth, columns);
        else matrix_product<T>(out, columns, x, depth, y, columns, rows, columns, depth, false);
    }

    void reduce(const Value& v, T* out, const T* a) {
        const Shape& shape = program().shape(v.a);
        if (v.dim < 0) {
            *out = reduced(v.reduction, a, 1, shape.size());
            return;
        }
        const bool along_rows = shape.ndim() == 2 && v.dim == 0;  // from row to row, for every column
        const Index n = shape[v.dim], count = v.shape.size(), width = shape.back();
        for (Index i = 0; i < count; ++i)
            out[i] = along_rows ? reduced(v.reduction, a + i, width, n) : reduced(v.reduction, a + i * width, 1, n);
    }

    Problem& p_;
    const Layout<T>& layout_;
    Index batch_, head_;
    Buffer<T> scratch_;
    std::vector<T*> memory_;  // where each value is
    std::vector<Id> inputs_, states_;
    std::vector<Product<T>> products_;
};

template <class T>
void run_all(Problem& p) {
    const Layout<T> layout(p);
    parallel_for(p.batch * p.heads, [&](Index i) { Head<T>(p, layout, i).run(); });
}

}  // namespace

void run(Problem& p) {
    if (p.type == DType::f64) run_all<double>(p);
    else run_all<float>(p);
}

}  // namespace causeway::scan
