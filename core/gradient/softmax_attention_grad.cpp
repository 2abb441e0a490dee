// Tiles of 128 queries by 128 keys: scores and dO Vᵀ of a tile, its weights P and dS, then its share of dq, dk and dv,
// each a product. Where a tile is cut by the causal diagonal, its rows go in strips: what all rows of a strip attend to
// is one product, the rest of each row is added key by key, so later tokens do not meet earlier ones, not even times
// zero.
#include "core/gradient/softmax_attention_grad.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/interrupt.hpp"
#include "core/base/parallel.hpp"
#include "core/gradient/forms.hpp"
#include "core/gradient/registry.hpp"
#include "core/kit/callers_order.hpp"
#include "core/kit/exp.hpp"
#include "core/kit/packed.hpp"
#include "core/kit/product.hpp"
#include "core/kit/spread.hpp"
#include "core/softmax/forms.hpp"

namespace causeway {
namespace gradient {
namespace {

constexpr Index side = 128;  // queries and keys of a tile
constexpr Index strip = 16;  // rows of a tile on the diagonal that are taken together

template <class T>
class Tiles {
    static constexpr Index L = simd::lanes<T>;
    using Matrix = kit::Matrix<T>;
    using Part = Eigen::Map<Matrix, 0, Eigen::OuterStride<>>;
    using ConstPart = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;

public:
    // D [rows] holds dO_i·o_i.
    Tiles(const SoftmaxGradHead<T>& h, const T* D) : h_(h), D_(D), P_(side * side), dS_(side * side) {}

    Index blocks_of_queries() const { return h_.in.rows / std::max<Index>(h_.in.N, 1) * blocks(h_.in.N); }
    Index blocks_of_keys() const { return blocks(h_.in.M); }

    void clear_queries(Index query) {
        const auto [from, count] = queries(query);
        std::fill_n(h_.dq + from * h_.in.d, count * h_.in.d, T(0));
    }

    void clear_keys(Index key) {
        const Index from = key * side, count = std::min(side, h_.in.M - from);
        std::fill_n(h_.dk + from * h_.in.d, count * h_.in.d, T(0));
        std::fill_n(h_.dv + from * h_.in.dv, count * h_.in.dv, T(0));
    }

    // Adds the tile's share to dq, or to dk and dv, or to all three.
    void add(Index query, Index key, bool to_queries, bool to_keys) {
        const auto& in = h_.in;
        const auto [from, rows] = queries(query);
        const Index first = key * side, keys = std::min(side, in.M - first);
        const Index seen = std::min(keys, in.limit(from + rows - 1) - first);  // keys that the last row attends to
        if (seen <= 0) return;
        interrupt::check();
        const ConstPart Q = part(in.q, from, rows, in.d), K = part(in.k, first, seen, in.d),
                        V = part(in.v, first, seen, in.dv), G = part(h_.dO, from, rows, in.dv);
        Part S(P_.data(), rows, seen, Eigen::OuterStride<>(side)),
            dP(dS_.data(), rows, seen, Eigen::OuterStride<>(side));
        kit::set_product(S, Q, K.transpose());
        kit::set_product(dP, G, V.transpose());
        for (Index r = 0; r < rows; ++r) weigh(r, from + r, std::min(keys, in.limit(from + r) - first));
        const bool cut = in.limit(from) - first < keys;
        for (Index r = 0; r < rows; r += cut ? strip : rows)
            share(from, r, cut ? std::min(strip, rows - r) : rows, first, keys, to_queries, to_keys);
    }

private:
    static Index blocks(Index n) { return (n + side - 1) / side; }

    // Block of queries of one head of q: first row of the group, and rows.
    std::pair<Index, Index> queries(Index block) const {
        const Index N = h_.in.N, per_head = blocks(N), start = block % per_head * side;
        return {block / per_head * N + start, std::min(side, N - start)};
    }

    static ConstPart part(const T* A, Index first, Index rows, Index width) {
        return {A + first * width, rows, width, Eigen::OuterStride<>(width)};
    }

    // Scores and dO Vᵀ of row r become P and scale · dS, for the n keys it attends to (and whole vectors of what is not
    // read).
    void weigh(Index r, Index row, Index n) {
        const auto& in = h_.in;
        const T shift = kit::shift_of(in.m[row]), one_over = T(1) / in.l[row], D = D_[row];
        T *p = P_.data() + r * side, *ds = dS_.data() + r * side;
        for (Index j = 0; j < n; j += L) {
            const simd::Vector<T> weight = simd::exp<T>(simd::load(p + j) * in.scale - shift) * one_over;
            simd::store(p + j, weight);
            simd::store(ds + j, weight * (simd::load(ds + j) - D) * in.scale);
        }
    }

    // Rows r ... r + count - 1 of the tile.
    void share(Index from, Index r, Index count, Index first, Index keys, bool to_queries, bool to_keys) {
        const auto& in = h_.in;
        const Index common = std::clamp<Index>(in.limit(from + r) - first, 0, keys), row = from + r;
        const T *p = P_.data() + r * side, *ds = dS_.data() + r * side;
        if (common > 0) {
            const ConstPart dS(ds, count, common, Eigen::OuterStride<>(side)),
                P(p, count, common, Eigen::OuterStride<>(side));
            if (to_queries)
                kit::add_product(Part(h_.dq + row * in.d, count, in.d, Eigen::OuterStride<>(in.d)), dS,
                                 part(in.k, first, common, in.d));
            if (to_keys) {
                kit::add_product(Part(h_.dk + first * in.d, common, in.d, Eigen::OuterStride<>(in.d)), dS.transpose(),
                                 part(in.q, row, count, in.d));
                kit::add_product(Part(h_.dv + first * in.dv, common, in.dv, Eigen::OuterStride<>(in.dv)), P.transpose(),
                                 part(h_.dO, row, count, in.dv));
            }
        }
        for (Index i = 0; i < count; ++i) {
            const Index end = std::min(keys, in.limit(row + i) - first);
            for (Index j = common; j < end; ++j) {
                const T weight = p[i * side + j], slope = ds[i * side + j];
                if (to_queries) add_row(h_.dq + (row + i) * in.d, in.k + (first + j) * in.d, slope, in.d);
                if (to_keys) {
                    add_row(h_.dk + (first + j) * in.d, in.q + (row + i) * in.d, slope, in.d);
                    add_row(h_.dv + (first + j) * in.dv, h_.dO + (row + i) * in.dv, weight, in.dv);
                }
            }
        }
    }

    static void add_row(T* to, const T* x, T factor, Index n) {
        for (Index e = 0; e < n; ++e) to[e] += factor * x[e];
    }

    const SoftmaxGradHead<T>& h_;
    const T* D_;
    Buffer<T> P_, dS_;  // [side, side]
};

}  // namespace

// A head is one task, with five products a tile. Where there are fewer heads than threads, blocks of queries (for dq)
// and blocks of keys (for dk and dv) are tasks, with seven. Every sum runs over the same tiles in the same order either
// way.
template <class T>
void run_flash_grad(const SoftmaxGradProblem<T>& p) {
    const Index heads = p.all_heads(), rows = p.in.group * p.in.N;
    Buffer<T> D(heads * rows);
    parallel_for(heads, [&](Index h) {
        for (Index i = h * rows; i < (h + 1) * rows; ++i) {
            using Row = Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>>;
            D[i] = Row(p.dO + i * p.in.dv, p.in.dv).dot(Row(p.in.O + i * p.in.dv, p.in.dv));
        }
    });
    if (heads >= threads()) {
        parallel_for(heads, [&](Index h) {
            const auto head = p.head(h);
            Tiles<T> tiles(head, D.data() + h * rows);
            for (Index key = 0; key < tiles.blocks_of_keys(); ++key) tiles.clear_keys(key);
            for (Index query = 0; query < tiles.blocks_of_queries(); ++query) {
                tiles.clear_queries(query);
                for (Index key = 0; key < tiles.blocks_of_keys(); ++key) tiles.add(query, key, true, true);
            }
        });
        return;
    }
    for (Index h = 0; h < heads; ++h) {
        const auto head = p.head(h);
        const T* sums = D.data() + h * rows;
        const Tiles<T> sizes(head, sums);
        const Index queries = sizes.blocks_of_queries(), keys = sizes.blocks_of_keys();
        parallel_for(queries + keys, [&](Index task) {
            Tiles<T> tiles(head, sums);
            if (task < keys) {
                tiles.clear_keys(task);
                for (Index query = 0; query < queries; ++query) tiles.add(query, task, false, true);
            } else {
                tiles.clear_queries(task - keys);
                for (Index key = 0; key < keys; ++key) tiles.add(task - keys, key, true, false);
            }
        });
    }
}

template void run_flash_grad<float>(const SoftmaxGradProblem<float>&);
template void run_flash_grad<double>(const SoftmaxGradProblem<double>&);

namespace {

// Maxima and sums that give the weights: from the log-sum-exp F, e^{s - F} = e^{s - m} / l with m = F and l = 1.
template <class T>
void set_forward(const attention::Sizes& c, SoftmaxGradProblem<T>& p, const std::optional<SoftmaxResult>& forward,
                 Tensor& O, Tensor& m, Tensor& l) {
    if (forward) {
        O = forward->O.to(dtype_of<T>);
        m = forward->lse.to(dtype_of<T>);
        l = Tensor::full(dtype_of<T>, c.rows, 1);
        p.in.O = O.data<T>(), p.in.m = m.data<T>(), p.in.l = l.data<T>();
    } else {
        O = Tensor(dtype_of<T>, c.output), m = Tensor(dtype_of<T>, c.rows), l = Tensor(dtype_of<T>, c.rows);
        p.in.O = O.data<T>(), p.in.m = m.data<T>(), p.in.l = l.data<T>();
        attention::run_flash(p.in);
    }
}

template <class T>
SoftmaxGradient compute(const attention::Sizes& c, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                        const SoftmaxOptions& o, const std::optional<SoftmaxResult>& forward) {
    constexpr DType type = dtype_of<T>;
    SoftmaxGradient out{Tensor(type, q.shape()), Tensor(type, k.shape()), Tensor(type, v.shape())};
    SoftmaxGradProblem<T> p;
    p.in = attention::problem_of<T>(c, q, k, v);
    p.dO = dO.data<T>();
    p.dq = out.dq.template data<T>(), p.dk = out.dk.template data<T>(), p.dv = out.dv.template data<T>();
    const SoftmaxForm& form = softmax_forms()[o.method];
    Tensor O, m, l;
    if (form.outputs) set_forward(c, p, forward, O, m, l);
    kit::computing_in<T>(form)(p);
    return {out.dq.to(c.dtype), out.dk.to(c.dtype), out.dv.to(c.dtype)};
}

// Each packed sequence as if it were alone.
SoftmaxGradient each_packed(const attention::Sizes& c, const Tensor& q, const Tensor& k, const Tensor& v,
                            const Tensor& dO, const SoftmaxOptions& o, const std::optional<SoftmaxResult>& forward) {
    using namespace kit;
    SoftmaxGradient out{Tensor(c.dtype, q.shape()), Tensor(c.dtype, k.shape()), Tensor(c.dtype, v.shape())};
    SoftmaxOptions one = o;
    one.cu_seqlens.clear();
    each_sequence(packed_spans(o.cu_seqlens, c.batch, c.N), [&](Index, const Span& span) {
        std::optional<SoftmaxResult> ran;
        if (forward) ran = {tokens_of(forward->O, span), tokens_of(forward->lse, span, false)};
        const SoftmaxGradient g = softmax_attention_grad(tokens_of(q, span), tokens_of(k, span), tokens_of(v, span),
                                                         tokens_of(dO, span), one, ran);
        put_tokens(out.dq, span, g.dq), put_tokens(out.dk, span, g.dk), put_tokens(out.dv, span, g.dv);
    });
    return out;
}

}  // namespace
}  // namespace gradient

attention::Sizes gradient::check_softmax_grad(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                              const SoftmaxOptions& o, const std::optional<SoftmaxResult>& forward) {
    const attention::Sizes c = attention::check(q, k, v, o);
    if (dO.shape() != c.output)
        fail("dO: ", kit::callers_sizes(dO.shape()), ", expected ", kit::callers_sizes(c.output), " like the output");
    if (dO.dtype() != c.dtype) fail("dO: ", name(dO.dtype()), ", expected ", name(c.dtype), " like q");
    if (forward) {
        if (forward->O.shape() != c.output)
            fail("O: ", kit::callers_sizes(forward->O.shape()), ", expected ", kit::callers_sizes(c.output),
                 " like the output");
        if (forward->O.dtype() != c.dtype)
            fail("O: ", name(forward->O.dtype()), ", expected ", name(c.dtype), " like the output");
        if (forward->lse.shape() != c.rows)
            fail("lse: ", kit::callers_sizes(forward->lse.shape()), ", expected ", kit::callers_sizes(c.rows));
        if (forward->lse.dtype() != c.compute)
            fail("lse: ", name(forward->lse.dtype()), ", expected ", name(c.compute));
    }
    return c;
}

SoftmaxGradient softmax_attention_grad(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dO,
                                       const SoftmaxOptions& o, const std::optional<SoftmaxResult>& forward) {
    const attention::Sizes c = gradient::check_softmax_grad(q, k, v, dO, o, forward);
    if (!o.cu_seqlens.empty()) return gradient::each_packed(c, q, k, v, dO, o, forward);
    if (c.compute == DType::f64) return gradient::compute<double>(c, q, k, v, dO, o, forward);
    return gradient::compute<float>(c, q.to(DType::f32), k.to(DType::f32), v.to(DType::f32), dO.to(DType::f32), o,
                                    forward);
}

}  // namespace causeway
