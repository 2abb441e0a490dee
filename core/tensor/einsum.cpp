#include "core/tensor/einsum.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>

#include "core/base/interrupt.hpp"
#include "core/base/parallel.hpp"
#include "core/tensor/elementwise.hpp"  // promote
#include "core/tensor/product.hpp"

namespace causeway {
namespace {

using Letters = std::string;
using Lengths = std::array<Index, 128>;  // of each letter

std::size_t at(char letter) { return static_cast<std::size_t>(letter); }

bool has(const Letters& letters, char letter) { return letters.find(letter) != Letters::npos; }

// The formula taken apart, and the length that each letter stands for.
struct Formula {
    std::vector<Letters> inputs;
    Letters output;
    Lengths length{};

    Formula(const std::string& text, const std::vector<Tensor>& operands) : text_(text) {
        parse();
        if (inputs.size() != operands.size())
            refuse(inputs.size(), inputs.size() == 1 ? " operand" : " operands", ", got ", operands.size(),
                   operands.size() == 1 ? " Tensor" : " Tensors");
        for (std::size_t k = 0; k < operands.size(); ++k) read_lengths(k, operands);
        check_output();
    }

private:
    template <class... Why>
    [[noreturn]] void refuse(const Why&... why) const {
        fail("einsum: \"", text_, "\": ", why...);
    }

    void parse() {
        Letters side;
        bool arrow = false;
        const auto end_side = [&] {
            if (arrow) output = side;
            else inputs.push_back(side);
            side.clear();
        };
        for (std::size_t i = 0; i < text_.size(); ++i) {
            const char c = text_[i];
            if (std::isspace(static_cast<unsigned char>(c))) continue;
            if (c == '-' && i + 1 < text_.size() && text_[i + 1] == '>' && !arrow) {
                end_side();
                arrow = true;
                ++i;
            } else if (c == ',' && !arrow) {
                end_side();
            } else if (std::isalpha(static_cast<unsigned char>(c)) && at(c) < length.size()) {
                side += c;
            } else if (c == '.') {
                refuse("\".\", expected a letter for every dimension");
            } else {
                refuse("\"", c, "\", expected letters, commas and one \"->\"");
            }
        }
        end_side();
        if (!arrow) output = letters_that_occur_once();
    }

    Letters letters_that_occur_once() const {
        Letters all;
        for (const Letters& input : inputs) all += input;
        Letters once;
        for (char c : all)
            if (std::count(all.begin(), all.end(), c) == 1) once += c;
        std::sort(once.begin(), once.end());
        return once;
    }

    void read_lengths(std::size_t k, const std::vector<Tensor>& operands) {
        const Letters& letters = inputs[k];
        const Tensor& a = operands[k];
        if (static_cast<int>(letters.size()) != a.ndim())
            refuse("operand ", k + 1, ": \"", letters, "\" names ", letters.size(),
                   letters.size() == 1 ? " dimension" : " dimensions", ", got a ", a.summary());
        for (int i = 0; i < a.ndim(); ++i) {
            const char c = letters[static_cast<std::size_t>(i)];
            const Index n = a.shape()[i];
            if (first_[at(c)] == 0) {
                first_[at(c)] = k + 1;
                length[at(c)] = n;
            } else if (length[at(c)] != n) {
                refuse("index ", c, ": ", length[at(c)], " in operand ", first_[at(c)], " and ", n, " in operand ",
                       k + 1, ", expected the same length");
            }
        }
    }

    void check_output() const {
        for (std::size_t i = 0; i < output.size(); ++i) {
            const char c = output[i];
            if (first_[at(c)] == 0) refuse("output index ", c, ": in no operand");
            if (output.find(c) != i) refuse("output index ", c, ": named twice, expected each once");
        }
        if (output.size() > static_cast<std::size_t>(Shape::max_ndim))
            refuse(output.size(), " output indices, expected at most ", Shape::max_ndim);
    }

    std::string text_;
    std::array<std::size_t, 128> first_{};  // the operand in which a letter was first seen, from 1
};

Index count_of(const Letters& letters, const Lengths& length) {
    Index n = 1;
    for (char c : letters) n *= length[at(c)];
    return n;
}

// Elements under letters, each with its stride. Intermediate results may have more letters than a Tensor dimensions.
template <class T>
struct Named {
    Letters letters;
    std::array<Index, 128> stride{};  // 0 for a letter that it has not
    T* data = nullptr;
    std::shared_ptr<Buffer<T>> owner;  // of an intermediate result
};

template <class T>
Named<T> contiguous(const Letters& letters, const Lengths& length, T* data) {
    Named<T> out;
    out.letters = letters;
    out.data = data;
    Index step = 1;
    for (std::size_t i = letters.size(); i-- > 0;) {
        out.stride[at(letters[i])] = step;
        step *= length[at(letters[i])];
    }
    return out;
}

template <class T>
Named<T> new_named(const Letters& letters, const Lengths& length) {
    auto owner = std::make_shared<Buffer<T>>(count_of(letters, length));
    Named<T> out = contiguous(letters, length, owner->data());
    out.owner = std::move(owner);
    return out;
}

// An operand; a letter that occurs twice steps along the diagonal.
template <class T>
Named<T> named(const Letters& letters, Tensor& a) {
    Named<T> out;
    out.data = a.data<T>();
    Index step = 1;
    for (std::size_t i = letters.size(); i-- > 0;) {
        if (!has(out.letters, letters[i])) out.letters.insert(out.letters.begin(), letters[i]);
        out.stride[at(letters[i])] += step;
        step *= a.shape()[static_cast<int>(i)];
    }
    return out;
}

// Indices of several letters, counted together, the last one fastest; with the offsets they mean in K operands.
template <std::size_t K>
class Odometer {
public:
    using Offsets = std::array<Index, K>;

    template <class T>
    Odometer(const Letters& letters, const Lengths& length, const std::array<const Named<T>*, K>& operands) {
        for (char c : letters) {
            if (length[at(c)] == 1) continue;
            Wheel wheel{length[at(c)], {}};
            for (std::size_t k = 0; k < K; ++k) wheel.stride[k] = operands[k]->stride[at(c)];
            wheels_.push_back(wheel);
            size_ *= wheel.length;
        }
    }

    Index size() const { return size_; }

    Offsets offsets(Index position) const {
        Offsets out{};
        for (std::size_t i = wheels_.size(); i-- > 0;) {
            const Index index = position % wheels_[i].length;
            position /= wheels_[i].length;
            for (std::size_t k = 0; k < K; ++k) out[k] += index * wheels_[i].stride[k];
        }
        return out;
    }

private:
    struct Wheel {
        Index length;
        std::array<Index, K> stride;
    };
    std::vector<Wheel> wheels_;
    Index size_ = 1;
};

constexpr Index lanes = 16;  // partial sums side by side, which the compiler turns into vectors

// The sum of n products.
template <class T>
T inner_product(const T* x, Index x_step, const T* y, Index y_step, Index n) {
    T sum = 0;
    Index i = 0;
    if (x_step == 1 && y_step <= 1) {
        std::array<T, lanes> partial{};
        for (; i + lanes <= n; i += lanes) {
            if (y_step == 1)
                for (Index k = 0; k < lanes; ++k) partial[static_cast<std::size_t>(k)] += x[i + k] * y[i + k];
            else
                for (Index k = 0; k < lanes; ++k) partial[static_cast<std::size_t>(k)] += x[i + k] * *y;
        }
        for (T p : partial) sum += p;
    }
    for (; i < n; ++i) sum += x[i * x_step] * y[i * y_step];
    return sum;
}

// out[i] += x[i] y[i], or = where `first`.
template <class T, bool first>
void multiply_into(T* out, Index out_step, const T* x, Index x_step, const T* y, Index y_step, Index n) {
    const auto put = [](T& o, T value) { o = first ? value : o + value; };
    if (out_step == 1 && x_step == 1 && y_step == 1) {
        for (Index i = 0; i < n; ++i) put(out[i], x[i] * y[i]);
    } else if (out_step == 1 && x_step == 1 && y_step == 0) {
        const T factor = *y;
        for (Index i = 0; i < n; ++i) put(out[i], x[i] * factor);
    } else if (out_step == 1 && x_step == 0 && y_step == 1) {
        const T factor = *x;
        for (Index i = 0; i < n; ++i) put(out[i], factor * y[i]);
    } else {
        for (Index i = 0; i < n; ++i) put(out[i * out_step], x[i * x_step] * y[i * y_step]);
    }
}

// The letter that the innermost loop runs through: a long one of small steps.
template <class T>
char innermost(const Letters& letters, const Lengths& length, const std::array<const Named<T>*, 3>& operands) {
    char best = 0;
    std::pair<bool, Index> best_rank{false, -1};
    for (char c : letters) {
        const bool small =
            std::all_of(operands.begin(), operands.end(), [&](const Named<T>* a) { return a->stride[at(c)] <= 1; });
        const std::pair<bool, Index> rank{small && length[at(c)] > 1, length[at(c)]};
        if (rank > best_rank) best = c, best_rank = rank;
    }
    return best;
}

Letters without(Letters letters, char c) {
    letters.erase(std::remove(letters.begin(), letters.end(), c), letters.end());
    return letters;
}

// out = the sum of x y over the letters of `summed`, by loops. `out` has all other letters of x and y.
template <class T>
void by_loops(const Named<T>& x, const Named<T>& y, const Named<T>& out, const Letters& summed, const Lengths& length) {
    const std::array<const Named<T>*, 3> operands{&out, &x, &y};
    const char inner = innermost(out.letters + summed, length, operands);
    const Index n = inner ? length[at(inner)] : 1;
    const std::array<Index, 3> step{inner ? out.stride[at(inner)] : 0, inner ? x.stride[at(inner)] : 0,
                                    inner ? y.stride[at(inner)] : 0};
    const Odometer<3> results(without(out.letters, inner), length, operands),
        terms(without(summed, inner), length, operands);
    const bool sums = has(summed, inner) || !inner;
    const Index together = std::max<Index>(1, (1 << 15) / std::max<Index>(1, n * terms.size()));
    parallel_for((results.size() + together - 1) / together, [&](Index task) {
        for (Index r = task * together; r < std::min(results.size(), (task + 1) * together); ++r) {
            const auto place = results.offsets(r);
            T* const o = out.data + place[0];
            T total = 0;
            for (Index t = 0; t < terms.size(); ++t) {
                if (t % 4096 == 4095) interrupt::check();
                const auto term = terms.offsets(t);
                const T* const a = x.data + place[1] + term[1];
                const T* const b = y.data + place[2] + term[2];
                if (sums) total += inner_product(a, step[1], b, step[2], n);
                else if (t == 0) multiply_into<T, true>(o, step[0], a, step[1], b, step[2], n);
                else multiply_into<T, false>(o, step[0], a, step[1], b, step[2], n);
            }
            if (sums) *o = total;
        }
    });
}

// x with its letters in this order, contiguous; those that it has besides are summed over.
template <class T>
void gather(const Named<T>& x, const Named<T>& out, const Lengths& length) {
    static T one = 1;
    Named<T> ones;
    ones.data = &one;
    Letters summed;
    for (char c : x.letters)
        if (!has(out.letters, c)) summed += c;
    by_loops(x, ones, out, summed, length);
}

template <class T>
Named<T> gathered(const Named<T>& x, const Letters& letters, const Lengths& length) {
    Named<T> out = new_named<T>(letters, length);
    gather(x, out, length);
    return out;
}

// The one step with which `a` runs through all indices of the letters, the last letter fastest; 0: there is none.
template <class T>
Index common_step(const Named<T>& a, const Letters& letters, const Lengths& length) {
    Index step = 0, next = 0;
    for (std::size_t i = letters.size(); i-- > 0;) {
        const char c = letters[i];
        if (length[at(c)] == 1) continue;
        if (step == 0) step = a.stride[at(c)];
        else if (a.stride[at(c)] != next) return 0;
        next = a.stride[at(c)] * length[at(c)];
    }
    return step;
}

// A pair of operands and what becomes of their letters.
template <class T>
struct Pair {
    Named<T> x, y;
    Letters batch, left, right, summed;  // in both and kept, in x, in y, in both and summed over

    Pair(Named<T> a, Named<T> b, const Letters& kept, const Lengths& length) : x(std::move(a)), y(std::move(b)) {
        x = only_needed(x, y, kept, length);
        y = only_needed(y, x, kept, length);
        for (char c : x.letters) (has(y.letters, c) ? has(kept, c) ? batch : summed : left) += c;
        for (char c : y.letters)
            if (!has(x.letters, c)) right += c;
    }

    // In this order, where it has them all.
    void sort_like(const Letters& order) {
        for (Letters* letters : {&batch, &left, &right}) {
            std::sort(letters->begin(), letters->end(), [&](char a, char b) { return order.find(a) < order.find(b); });
        }
    }

    void swap() {
        std::swap(x, y);
        std::swap(left, right);
    }

private:
    // `a` summed over what neither the other operand nor the result needs.
    static Named<T> only_needed(const Named<T>& a, const Named<T>& other, const Letters& kept, const Lengths& length) {
        Letters needed;
        for (char c : a.letters)
            if (has(other.letters, c) || has(kept, c)) needed += c;
        return needed.size() == a.letters.size() ? a : gathered(a, needed, length);
    }
};

// One factor of a matrix product: rows and columns with their steps, one of which is 1.
struct Steps {
    Index row, column;
};

// Those of a matrix with the letters; where memory does not allow them, `a` is first copied into that order.
template <class T>
Steps matrix_steps(Named<T>& a, const Letters& batch, const Letters& rows, const Letters& columns,
                   const Lengths& length) {
    const Steps steps{common_step(a, rows, length), common_step(a, columns, length)};
    if (steps.row > 0 && steps.column > 0 && (steps.row == 1 || steps.column == 1)) return steps;
    a = gathered(a, batch + rows + columns, length);
    return {count_of(columns, length), 1};
}

template <class T>
void multiply_block(T* out, Index out_step, const T* a, Steps x, const T* b, Steps y, Index rows, Index columns,
                    Index depth) {
    const auto call = [&](auto product, Index a_step, Index b_step) {
        product(out, out_step, a, a_step, b, b_step, rows, columns, depth, false);
    };
    if (x.column == 1 && y.column == 1) call(matrix_product<T, false, false>, x.row, y.row);
    else if (x.column == 1) call(matrix_product<T, false, true>, x.row, y.column);
    else if (y.column == 1) call(matrix_product<T, true, false>, x.column, y.row);
    else call(matrix_product<T, true, true>, x.column, y.column);
}

// out = x y as matrix products over the batch, spread over blocks of their results. The last letter of `out` is one of
// p.right and its rows are evenly apart.
template <class T>
void by_products(Pair<T>& p, const Named<T>& out, const Lengths& length) {
    const Steps x = matrix_steps(p.x, p.batch, p.left, p.summed, length);
    const Steps y = matrix_steps(p.y, p.batch, p.summed, p.right, length);
    const Index out_step = common_step(out, p.left, length);
    const Index rows = count_of(p.left, length), columns = count_of(p.right, length),
                depth = count_of(p.summed, length);
    // Where matrices are many they need not be cut for the threads, and the right factor is packed less often.
    const Odometer<3> batch(p.batch, length, std::array<const Named<T>*, 3>{&out, &p.x, &p.y});
    const Index block_rows = batch.size() >= 8 ? 512 : 128;
    constexpr Index block_columns = 512;
    const Index row_blocks = (rows + block_rows - 1) / block_rows,
                column_blocks = (columns + block_columns - 1) / block_columns;
    parallel_for(batch.size() * row_blocks * column_blocks, [&](Index task) {
        const Index j = task % column_blocks * block_columns, i = task / column_blocks % row_blocks * block_rows;
        const auto place = batch.offsets(task / column_blocks / row_blocks);
        multiply_block(out.data + place[0] + i * out_step + j, out_step, p.x.data + place[1] + i * x.row, x,
                       p.y.data + place[2] + j * y.column, y, std::min(block_rows, rows - i),
                       std::min(block_columns, columns - j), depth);
    });
}

// Whether a matrix product can write where the letters of `out` are.
template <class T>
bool takes_products(const Pair<T>& p, const Named<T>& out, const Lengths& length) {
    return common_step(out, p.right, length) == 1 && common_step(out, p.left, length) > 0;
}

// out = x y, summed over the letters that `out` has not.
template <class T>
void contract(Pair<T>& p, const Named<T>& out, const Lengths& length) {
    constexpr Index few = 4;  // below it the product of matrices has too little to do
    if (std::min({count_of(p.left, length), count_of(p.right, length), count_of(p.summed, length)}) < few)
        return by_loops(p.x, p.y, out, p.summed, length);
    p.sort_like(out.letters);
    if (!takes_products(p, out, length)) p.swap();
    if (takes_products(p, out, length)) return by_products(p, out, length);
    const Named<T> between = new_named<T>(p.batch + p.left + p.right, length);
    by_products(p, between, length);
    gather(between, out, length);
}

// The letters of a product of two operands that something later needs: the output or one of the others.
Letters product_letters(const std::vector<Letters>& operands, std::size_t i, std::size_t j, const Letters& output) {
    Letters later = output, kept;
    for (std::size_t k = 0; k < operands.size(); ++k)
        if (k != i && k != j) later += operands[k];
    for (char c : operands[i] + operands[j])
        if (has(later, c) && !has(kept, c)) kept += c;
    return kept;
}

// Multiplications that a pair takes: one for each index of all its letters.
double cost(const Letters& x, const Letters& y, const Lengths& length) {
    double n = 1;
    for (char c : x) n *= static_cast<double>(length[at(c)]);
    for (char c : y)
        if (!has(x, c)) n *= static_cast<double>(length[at(c)]);
    return n;
}

// The operands with the pair in one, which is the last.
std::vector<Letters> joined(const std::vector<Letters>& operands, std::size_t i, std::size_t j, const Letters& output) {
    std::vector<Letters> out;
    for (std::size_t k = 0; k < operands.size(); ++k)
        if (k != i && k != j) out.push_back(operands[k]);
    out.push_back(product_letters(operands, i, j, output));
    return out;
}

struct Choice {
    std::size_t first = 0, second = 1;
    double cost = 0;  // of everything from this pair on
};

// The pair to begin with. Up to six operands every order is looked at, 2700 of them; beyond, the pair that is cheapest
// by itself is taken.
Choice best_pair(const std::vector<Letters>& operands, const Letters& output, const Lengths& length) {
    constexpr std::size_t few = 6;
    Choice best;
    bool found = false;
    for (std::size_t i = 0; i + 1 < operands.size(); ++i) {
        for (std::size_t j = i + 1; j < operands.size(); ++j) {
            double c = cost(operands[i], operands[j], length);
            if (operands.size() > 2 && operands.size() <= few)
                c += best_pair(joined(operands, i, j, output), output, length).cost;
            if (!found || c < best.cost) best = {i, j, c};
            found = true;
        }
    }
    return best;
}

template <class T>
void compute(const Formula& f, std::vector<Tensor>& tensors, Tensor& result) {
    std::vector<Named<T>> operands;
    for (std::size_t k = 0; k < tensors.size(); ++k) operands.push_back(named<T>(f.inputs[k], tensors[k]));
    const Named<T> out = contiguous(f.output, f.length, result.data<T>());
    if (operands.size() == 1) return gather(operands[0], out, f.length);
    while (true) {
        std::vector<Letters> letters;
        for (const Named<T>& a : operands) letters.push_back(a.letters);
        const Choice chosen = best_pair(letters, f.output, f.length);
        Pair<T> pair(operands[chosen.first], operands[chosen.second],
                     product_letters(letters, chosen.first, chosen.second, f.output), f.length);
        if (operands.size() == 2) return contract(pair, out, f.length);
        operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(chosen.second));
        operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(chosen.first));
        operands.push_back(new_named<T>(pair.batch + pair.left + pair.right, f.length));
        contract(pair, operands.back(), f.length);
    }
}

}  // namespace

Tensor einsum(const std::string& formula, const std::vector<Tensor>& operands) {
    const Formula f(formula, operands);
    DType type = DType::f32;
    for (const Tensor& a : operands) type = promote(type, a.dtype());
    Shape shape;
    bool empty = false;
    for (char c : f.output) shape.push_back(f.length[at(c)]);
    std::vector<Tensor> converted;
    for (const Tensor& a : operands) {
        converted.push_back(a.to(type));
        empty = empty || a.size() == 0;
    }
    if (empty) return Tensor::zeros(type, shape);
    Tensor out(type, shape);
    if (type == DType::f64) compute<double>(f, converted, out);
    else compute<float>(f, converted, out);
    return out;
}

}  // namespace causeway
