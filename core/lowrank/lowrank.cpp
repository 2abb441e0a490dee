#include "core/lowrank/lowrank.hpp"

#include <algorithm>
#include <type_traits>

#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/text.hpp"
#include "core/base/unknown_name.hpp"
#include "core/tensor/visit.hpp"

namespace causeway {
namespace lowrank {

namespace {

std::optional<Index> first_not_finite(const Tensor& x) {
    constexpr Index block = 1 << 15;
    const Index size = x.size();
    std::vector<char> wrong(static_cast<std::size_t>((size + block - 1) / block), 0);
    visit(x.dtype(), [&](auto zero) {
        using T = decltype(zero);
        using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;
        const T* data = x.data<T>();
        each_block(
            size,
            [&](Index first, Index n) {
                const Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>> part(data + first, n);
                const Computed sum =
                    (part.template cast<Computed>() * Computed(0)).sum();  // 0, or NaN where an entry is not finite
                wrong[static_cast<std::size_t>(first / block)] = sum != 0;
            },
            block);
    });
    const auto at = std::find(wrong.begin(), wrong.end(), 1);
    if (at == wrong.end()) return {};
    Index i = (at - wrong.begin()) * block;
    while (std::isfinite(x.get(i))) ++i;
    return i;
}

}  // namespace

void check_finite(const char* argument, const Tensor& x) {
    const auto at = first_not_finite(x);
    if (!at) return;
    Index i = *at;
    std::string place;
    for (int k = x.ndim() - 1; k >= 0; --k) {
        place = std::to_string(i % x.shape()[k] + 1) + (place.empty() ? "" : ", ") + place;
        i /= x.shape()[k];
    }
    fail(argument, ": entry (", place, ") is ", number_text(x.get(*at)), ", expected finite numbers");
}

void check_rows(const char* argument, const Tensor& x, const Tensor& q) {
    if (x.ndim() != q.ndim())
        fail(argument, ": ", x.shape().text(), ", expected ", q.ndim(), " dimensions like q (", q.shape().text(), ")");
    for (int i = 0; i + 1 < q.ndim(); ++i) {
        if (x.shape()[i] != q.shape()[i])
            fail(argument, ": ", x.shape().text(), ", expected ", q.shape().text(),
                 " like q but for the last dimension");
    }
    check_finite(argument, x);
}

Heads check_inputs(const Tensor& q, const Tensor& k) {
    if (q.ndim() < 2)
        fail("q: a ", q.summary(),
             ", expected [batch, heads, length, width], [heads, length, width] or [length, width]");
    if (k.shape() != q.shape()) fail("k: ", k.shape().text(), ", expected ", q.shape().text(), " like q");
    if (k.dtype() != q.dtype()) fail("k: ", name(k.dtype()), ", expected ", name(q.dtype()), " like q");
    const Index N = q.shape().back(1), d = q.shape().back();
    if (N == 0 || d == 0) fail("q: ", q.shape().text(), ", expected a length and a width of at least 1");
    check_finite("q", q);
    check_finite("k", k);
    return {q.size() / (N * d), N, d};
}

double check_scale(const std::optional<double>& scale, Index d) {
    const double value = scale.value_or(1 / std::sqrt(static_cast<double>(d)));
    if (!(value > 0 && std::isfinite(value))) fail("scale: ", value, ", expected a finite number above 0");
    return value;
}

}  // namespace lowrank

namespace {

using kit::Scratch;
using lowrank::Head;
using lowrank::Method;
using lowrank::Settings;
using lowrank::Size;

Settings settings_of(const Method& m, const LowRankOptions& o) {
    Settings settings;
    std::vector<std::string> names;
    for (const auto& option : m.options) {
        settings[option.name] = option.default_value;
        names.push_back(option.name);
    }
    for (const auto& [name, value] : o.own) {
        const auto at = std::find(names.begin(), names.end(), name);
        if (at == names.end())
            throw UnknownName(sentence("lowrank: ", m.name, " has no option \"", name, "\""), name, names);
        const auto& option = m.options[static_cast<std::size_t>(at - names.begin())];
        if (!(value >= option.min && value <= option.max) || value != std::floor(value)) {
            if (option.flag) fail(name, ": ", value, ", expected true or false");
            fail(name, ": ", value, ", expected a whole number from ", static_cast<Index>(option.min), " to ",
                 static_cast<Index>(option.max));
        }
        settings[name] = value;
    }
    return settings;
}

Index rank_of(const Method& m, const Size& size, const Settings& settings, const LowRankOptions& o) {
    if (o.rank && *o.rank < 1) fail("rank: ", *o.rank, ", expected 1 or more");
    if (m.default_rank == 0) {
        const Index columns = m.columns(size, settings);
        if (o.rank && *o.rank != columns)
            fail("rank: ", *o.rank, ", expected ", columns, " or nothing: ", m.name, " has ", m.rank, " for width ",
                 size.d);
        return columns;
    }
    const Index max_rank = m.max_rank(size);
    if (o.rank && *o.rank > max_rank) fail("rank: ", *o.rank, ", expected at most ", max_rank, ", ", m.max_rank_text);
    return o.rank.value_or(std::min(m.default_rank, max_rank));
}

// The queries or keys of a head times the square root of the scale, as T.
template <class T>
void scaled(const Tensor& x, Index head, double root, Scratch<T>& out) {
    visit(x.dtype(), [&](auto zero) {
        const auto* from = x.data<decltype(zero)>() + head * out.size();
        T* to = out.data();
        kit::each_block(
            out.size(),
            [&](Index first, Index n) {
                for (Index i = first; i < first + n; ++i) to[i] = static_cast<T>(from[i]) * static_cast<T>(root);
            },
            1 << 15);
    });
}

// |v_j| for each token of all heads.
std::vector<double> lengths(const Tensor& v, Index tokens) {
    const Index w = v.shape().back();
    const Tensor V = v.to(DType::f64);
    std::vector<double> out(static_cast<std::size_t>(tokens));
    for (Index j = 0; j < tokens; ++j)
        out[static_cast<std::size_t>(j)] = Eigen::Map<const Eigen::VectorXd>(V.data<double>() + j * w, w).norm();
    return out;
}

// Returns whether B and C are known to be finite.
template <class T>
bool run(const std::function<void(const Head<T>&)>& f, const Tensor& q, const Tensor& k, const Size& size, Index heads,
         Index r, double scale, const Settings& settings, std::uint64_t seed, LowRank& out,
         const std::vector<std::string>& extras, const std::vector<double>& sizes) {
    bool all_finite = true;
    const Index N = size.N, d = size.d;
    const bool rounded = out.B.dtype() != dtype_of<T>;
    Scratch<T> Q(N, d), K(N, d), B(rounded ? N : 0, r), C(rounded ? N : 0, r);
    const double root = std::sqrt(scale);
    for (Index h = 0; h < heads; ++h) {
        interrupt::check();
        scaled(q, h, root, Q);
        scaled(k, h, root, K);
        T* b = rounded ? B.data() : out.B.data<T>() + h * N * r;
        T* c = rounded ? C.data() : out.C.data<T>() + h * N * r;
        std::vector<double*> beside;
        for (const auto& name : extras) beside.push_back(out.extras.at(name).data<double>() + h * N);
        bool finite = false;
        f(Head<T>{{Q.data(), N, d},
                  {K.data(), N, d},
                  {b, N, r},
                  {c, N, r},
                  beside,
                  sizes.empty() ? nullptr : sizes.data() + h * N,
                  settings,
                  lowrank::Random(seed, h),
                  finite});
        all_finite = all_finite && finite && !rounded;
        if (!rounded) continue;
        for (const auto& [from, to] : {std::pair<const T*, float*>{b, out.B.data<float>()}, {c, out.C.data<float>()}}) {
            const T* source = from;
            float* target = to + h * N * r;
            kit::each_block(
                N * r,
                [&](Index first, Index n) {
                    std::transform(source + first, source + first + n, target + first,
                                   [](T x) { return static_cast<float>(x); });
                },
                1 << 15);
        }
    }
    return all_finite;
}

}  // namespace

namespace lowrank {

Settled settle(const Method& m, const Size& size, const LowRankOptions& o) {
    Settled c;
    c.scale = check_scale(o.scale, size.d);
    c.settings = settings_of(m, o);
    c.rank = rank_of(m, size, c.settings, o);
    if (m.check) m.check(size, c.rank, c.settings);
    if (o.v && !m.values) fail("v: given, expected none: ", m.name, " does not look at values");
    // Drawn from the sequence of calls, so that seed(n) makes it the same again.
    c.seed =
        o.seed
            ? *o.seed
            : static_cast<std::uint64_t>(std::ldexp(m.seeded ? random::uniform(DType::f64, Shape{1}).get(0) : 0.0, 53));
    return c;
}

}  // namespace lowrank

LowRank low_rank(const std::string& name, const Tensor& q, const Tensor& k, const LowRankOptions& o) {
    const random::Retaken if_it_fails;
    const Method& m = lowrank::method(name);
    const auto heads = lowrank::check_inputs(q, k);
    const Size size{heads.N, heads.d};
    if (o.v && m.values) lowrank::check_rows("v", *o.v, q);
    const auto [scale, settings, r, seed] = lowrank::settle(m, size, o);
    const auto sizes = o.v ? lengths(*o.v, heads.count * heads.N) : std::vector<double>{};

    Shape wide = q.shape(), one;
    wide[wide.ndim() - 1] = r;
    for (int i = 0; i + 1 < q.ndim(); ++i) one.push_back(q.shape()[i]);
    const DType type = q.dtype() == DType::f64 ? DType::f64 : DType::f32;
    LowRank out{Tensor(type, wide), Tensor(type, wide), {}};
    const auto extras = m.extras ? m.extras(settings) : std::vector<std::string>{};
    for (const auto& extra : extras) out.extras.emplace(extra, Tensor(DType::f64, one));
    const bool finite = type == DType::f32 && m.f32
                            ? run<float>(m.f32, q, k, size, heads.count, r, scale, settings, seed, out, extras, sizes)
                            : run<double>(m.f64, q, k, size, heads.count, r, scale, settings, seed, out, extras, sizes);
    if (!finite && (lowrank::first_not_finite(out.B) || lowrank::first_not_finite(out.C))) lowrank::overflows();
    return out;
}

}  // namespace causeway
