// A value that is not finite stays behind its token: one NaN, Inf or huge number at token j of one input changes no
// output that does not depend on it, and every output that does is not finite where the value was NaN.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "core/tensor/random.hpp"
#include "gpu/calls/general_linear_attention.hpp"
#include "gpu/calls/linear_attention.hpp"
#include "gpu/exact/causal_linear_attention.hpp"
#include "gpu/exact/registry.hpp"
#include "gpu/gated/registry.hpp"
#include "gpu/gradient/causal_linear_attention_grad.hpp"
#include "gpu/gradient/general_linear_attention_grad.hpp"
#include "gpu/gradient/linear_attention_grad.hpp"
#include "gpu/gradient/softmax_attention_grad.hpp"
#include "gpu/softmax/softmax_attention.hpp"
#include "tests/gpu/device.hpp"

using namespace causeway;

namespace {

struct Input {
    std::string name;  // "q", "k", "v", "beta"
    Tensor x;          // [batch, heads, N, width], or [batch, heads, N]
};
using Inputs = std::vector<Input>;
using Call = std::function<Tensor(const Inputs&)>;  // the output, [batch, heads of q, N, dv]

Tensor normal(DType type, const Shape& shape, std::mt19937_64& generator) {
    std::normal_distribution<double> draw(0, shape.ndim() == 4 ? 1 / std::sqrt(static_cast<double>(shape[3])) : 1);
    Tensor x(type, shape);
    for (Index i = 0; i < x.size(); ++i)
        x.set(i, shape.ndim() == 4 ? draw(generator) : std::abs(std::sin(draw(generator))));
    return x;
}

constexpr double bad_values[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                                 1e30};

// Where a bad value was put.
struct Place {
    Index batch, head, token, column;
};

// Whether an output depends on what stands there: a query is seen by its own row, a value by its own column.
bool depends(const std::string& input, const Place& at, Index group, Index b, Index h, Index i, Index c) {
    if (b != at.batch || (input == "q" ? h : h / group) != at.head) return false;
    if (input == "q") return i == at.token;
    return i >= at.token && (input != "v" || c == at.column);
}

double allowed(DType type) { return type == DType::f32 ? 1e-4 : type == DType::bf16 ? 3e-2 : 4e-3; }

// Counts the calls of this process and the kinds of them with a fault; says so where the long runs ask.
void count(Index calls, std::size_t faults) {
    static Index all_calls = 0;
    static std::size_t all_faults = 0;
    all_calls += calls, all_faults += faults;
    if (std::getenv("CAUSEWAY_POISON_COUNTS"))
        std::printf("gpu-poison: %lld cases, %zu faults\n", static_cast<long long>(all_calls), all_faults);
}

// Poisons one place after the other and remembers the kinds of calls that let a value through.
class Survey {
public:
    Survey() : generator_(random::seed()) {}

    // all_seen: no weight is so small that a kernel may leave it out (2^-24 of those beside it), which would hide a
    // value.
    void run(const std::string& kind, const Call& call, const Inputs& inputs, bool all_seen = true) {
        all_seen_ = all_seen;
        const Tensor clean = call(inputs);
        double largest = 0;
        for (Index i = 0; i < clean.size(); ++i) largest = std::max(largest, std::abs(clean.get(i)));
        if (!std::isfinite(largest)) FAIL(kind << ": not finite without a bad value");
        for (std::size_t x = 0; x < inputs.size(); ++x) {
            for (const double bad : bad_values) {
                for (int n = 0; n < 3; ++n) poison(kind, call, inputs, x, bad, clean, largest);
            }
        }
    }

    void report() const {
        std::string leaks, hidden;
        for (const auto& [kind, n] : leaks_) leaks += "\n  " + kind + ": " + std::to_string(n) + " calls";
        for (const auto& [kind, n] : hidden_) hidden += "\n  " + kind + ": " + std::to_string(n) + " calls";
        count(calls_, leaks_.size() + hidden_.size());
        INFO(calls_ << " calls");
        INFO("reached what it must not:" << leaks);
        INFO("does not reach what it must:" << hidden);
        CHECK(leaks_.empty());
        CHECK(hidden_.empty());
        CHECK(calls_ > 100);
    }

private:
    Index below(Index n) { return static_cast<Index>(generator_() % static_cast<std::uint64_t>(n)); }

    void poison(const std::string& kind, const Call& call, Inputs inputs, std::size_t which, double bad,
                const Tensor& clean, double largest) {
        Tensor& x = inputs[which].x = inputs[which].x.copy();
        const Shape &s = x.shape(), &o = clean.shape();
        const Index width = s.ndim() == 4 ? s[3] : 1;
        const Place at{below(s[0]), below(s[1]), 2 + below(s[2] - 2), below(width)};
        x.set(((at.batch * s[1] + at.head) * s[2] + at.token) * width + at.column, bad);
        const Tensor got = call(inputs);
        ++calls_;
        Index leaked = 0, hidden = 0, index = 0;
        const Index group = inputs[which].name == "q" ? 1 : o[1] / s[1];
        for (Index b = 0; b < o[0]; ++b)
            for (Index h = 0; h < o[1]; ++h)
                for (Index i = 0; i < o[2]; ++i)
                    for (Index c = 0; c < o[3]; ++c, ++index) {
                        const double now = got.get(index), before = clean.get(index);
                        if (depends(inputs[which].name, at, group, b, h, i, c))
                            hidden += all_seen_ && std::isnan(bad) && std::isfinite(now);
                        else leaked += !(std::abs(now - before) <= allowed(clean.dtype()) * largest);
                    }
        const std::string name = kind + ", " + inputs[which].name;
        if (leaked) ++leaks_[name];
        if (hidden) ++hidden_[name];
    }

    std::mt19937_64 generator_;
    Index calls_ = 0;
    bool all_seen_ = true;
    std::map<std::string, int> leaks_, hidden_;
};

struct Size {
    Index N, dk, dv;
};
const std::vector<Size> sizes = {{200, 40, 33}, {333, 64, 64}, {150, 128, 128}};
const std::vector<DType> types = {DType::f32, DType::bf16, DType::f16};

std::string described(DType type, const Size& n) {
    return std::string(name(type)) + " N=" + std::to_string(n.N) + " d=" + std::to_string(n.dk) + "," +
           std::to_string(n.dv);
}

}  // namespace

TEST_CASE("GPU: a bad value stays behind its token in every method of causal linear attention", "[gpu][gpu-poison]") {
    if (!test::on_gpu()) return;
    Survey survey;
    std::mt19937_64 generator(random::seed());
    for (const gpu::CausalMethod& m : gpu::causal_methods()) {
        for (const DType type : types) {
            for (const Size& n : sizes) {
                const Inputs inputs = {{"q", normal(type, {1, 2, n.N, n.dk}, generator)},
                                       {"k", normal(type, {1, 2, n.N, n.dk}, generator)},
                                       {"v", normal(type, {1, 2, n.N, n.dv}, generator)}};
                for (const char* decays : {"", " decay", " strong decay"}) {
                    for (const bool carried : {false, true}) {
                        if (carried && !m.state) continue;
                        const Tensor start = normal(DType::f32, {1, 2, n.dk, n.dv}, generator);
                        const Call call = [&](const Inputs& in) {
                            gpu::CausalOptions o;
                            o.method = m.name;
                            if (*decays) o.decay = {0.97, std::string(decays) == " decay" ? 0.99 : 0.5};
                            if (carried) o.state = gpu::Tensor(start);
                            return gpu::causal_linear_attention(gpu::Tensor(in[0].x), gpu::Tensor(in[1].x),
                                                                gpu::Tensor(in[2].x), o)
                                .O.cpu();
                        };
                        survey.run(m.name + " " + described(type, n) + decays + (carried ? " state" : ""), call, inputs,
                                   std::string(decays) != " strong decay");
                    }
                }
            }
        }
    }
    survey.report();
}

TEST_CASE("GPU: a bad value stays behind its token in the gated family", "[gpu][gpu-poison]") {
    if (!test::on_gpu()) return;
    Survey survey;
    std::mt19937_64 generator(random::seed());
    for (const char* mode : {"chunkwise", "recurrent", "parallel"}) {
        for (const char* update : {"linear", "gated", "delta", "gated_delta"}) {
            const bool gated = std::string(update).find("gated") == 0,
                       delta = std::string(update).find("delta") != std::string::npos;
            for (const bool channels : {false, true}) {
                if (channels && (!gated || std::string(mode) == "parallel")) continue;
                for (const DType type : types) {
                    for (const Size& n : sizes)
                        for (const Index group : {1, 2}) {
                            Inputs inputs = {{"q", normal(type, {1, 2 * group, n.N, n.dk}, generator)},
                                             {"k", normal(type, {1, 2, n.N, n.dk}, generator)},
                                             {"v", normal(type, {1, 2, n.N, n.dv}, generator)}};
                            if (delta) inputs.push_back({"beta", normal(type, {1, 2, n.N}, generator)});
                            Tensor g(DType::f32, channels ? Shape{1, 2, n.N, n.dk} : Shape{1, 2, n.N});
                            std::uniform_real_distribution<double> gate(-0.05, 0);
                            for (Index i = 0; i < g.size(); ++i) g.set(i, gate(generator));
                            const Call call = [&](const Inputs& in) {
                                gpu::LinearOptions o;
                                o.update = update, o.mode = mode;
                                if (gated) o.log_decay = gpu::Tensor(g);
                                if (delta) o.beta = gpu::Tensor(in[3].x);
                                return gpu::linear_attention(gpu::Tensor(in[0].x), gpu::Tensor(in[1].x),
                                                             gpu::Tensor(in[2].x), o)
                                    .O.cpu();
                            };
                            survey.run(std::string(mode) + " " + update + (channels ? " channels " : " ") +
                                           "group=" + std::to_string(group) + " " + described(type, n),
                                       call, inputs);
                        }
                }
            }
        }
    }
    survey.report();
}

TEST_CASE("GPU: a bad value stays behind its token in the general rule", "[gpu][gpu-poison]") {
    if (!test::on_gpu()) return;
    Survey survey;
    std::mt19937_64 generator(random::seed());
    for (const char* mode : {"chunkwise", "recurrent"}) {
        for (const bool channels : {false, true}) {
            for (const DType type : types) {
                for (const Size& n : sizes) {
                    for (const Index group : {1, 2}) {
                        const Shape keys{1, 2, n.N, n.dk};
                        Inputs inputs = {{"q", normal(type, {1, 2 * group, n.N, n.dk}, generator)},
                                         {"k", normal(type, keys, generator)},
                                         {"v", normal(type, {1, 2, n.N, n.dv}, generator)},
                                         {"u", normal(DType::f32, keys, generator)},
                                         {"w", normal(DType::f32, keys, generator)},
                                         {"a", Tensor(DType::f32, channels ? keys : Shape{1, 2, n.N})}};
                        std::uniform_real_distribution<double> factor(0.9, 1);
                        for (Index i = 0; i < inputs[5].x.size(); ++i) inputs[5].x.set(i, factor(generator));
                        const Call call = [&](const Inputs& in) {
                            gpu::GeneralOptions o;
                            o.mode = mode;
                            o.u = gpu::Tensor(in[3].x), o.w = gpu::Tensor(in[4].x), o.a = gpu::Tensor(in[5].x);
                            return gpu::general_linear_attention(gpu::Tensor(in[0].x), gpu::Tensor(in[1].x),
                                                                 gpu::Tensor(in[2].x), o)
                                .O.cpu();
                        };
                        survey.run(std::string(mode) + " general " + (channels ? "channels " : "") +
                                       "group=" + std::to_string(group) + " " + described(type, n),
                                   call, inputs);
                    }
                }
            }
        }
    }
    survey.report();
}

TEST_CASE("GPU: a bad value stays behind its token in softmax attention", "[gpu][gpu-poison]") {
    if (!test::on_gpu()) return;
    Survey survey;
    std::mt19937_64 generator(random::seed());
    const std::vector<Size> more = {{200, 40, 33},  {333, 64, 64},  {150, 128, 128},
                                    {90, 256, 200}, {1500, 64, 64}, {7, 64, 64}};
    for (const DType type : types) {
        for (const Size& n : more) {
            for (const Index group : {1, 2}) {
                const Inputs inputs = {{"q", normal(type, {1, 2 * group, n.N, n.dk}, generator)},
                                       {"k", normal(type, {1, 2, n.N, n.dk}, generator)},
                                       {"v", normal(type, {1, 2, n.N, n.dv}, generator)}};
                const Call call = [&](const Inputs& in) {
                    return gpu::softmax_attention(gpu::Tensor(in[0].x), gpu::Tensor(in[1].x), gpu::Tensor(in[2].x))
                        .O.cpu();
                };
                survey.run("flash group=" + std::to_string(group) + " " + described(type, n), call, inputs);
            }
        }
    }
    survey.report();
}

namespace {

// Which rows of a gradient depend on a bad value at token j: none, that row, those from it on, those up to it, all; and
// whether only its own column does.
enum class Rows { none, own, later, earlier, all };
struct Reach {
    Rows rows = Rows::all;
    bool own_column = false;

    bool contains(Index token, Index column, Index t, Index c) const {
        const bool row = rows == Rows::all || (rows == Rows::own && t == token) ||
                         (rows == Rows::later && t >= token) || (rows == Rows::earlier && t <= token);
        return row && (!own_column || c == column);
    }
};
using Reaches = std::map<std::string, std::map<std::string, Reach>>;  // input -> gradient -> reach

const Reaches of_linear = {
    {"dO", {{"dq", {Rows::own}}, {"dk", {Rows::earlier}}, {"dv", {Rows::earlier, true}}}},
    {"v", {{"dq", {Rows::later}}, {"dk", {Rows::own}}, {"dv", {Rows::none}}}},
    {"k", {{"dq", {Rows::later}}, {"dk", {Rows::none}}, {"dv", {Rows::own}}}},
    {"q", {{"dq", {Rows::none}}, {"dk", {Rows::earlier}}, {"dv", {Rows::earlier}}}},
};
const Reaches of_delta = {
    {"dO", {{"dq", {Rows::own}}, {"dk", {Rows::earlier}}, {"dv", {Rows::earlier, true}}}},
    {"v", {{"dq", {Rows::later}}, {"dk", {Rows::later}}, {"dv", {Rows::none}}}},
    {"k", {{"dq", {Rows::later}}, {"dk", {}}, {"dv", {}}}},
    {"q", {{"dq", {Rows::none}}, {"dk", {Rows::earlier}}, {"dv", {Rows::earlier}}}},
};
const Reaches of_softmax = {
    {"dO", {{"dq", {Rows::own}}, {"dk", {Rows::earlier}}, {"dv", {Rows::earlier, true}}}},
    {"v", {{"dq", {Rows::later}}, {"dk", {}}, {"dv", {Rows::none}}}},
    {"k", {{"dq", {Rows::later}}, {"dk", {}}, {"dv", {}}}},
    {"q", {{"dq", {Rows::own}}, {"dk", {Rows::earlier}}, {"dv", {Rows::earlier}}}},
};

// u, w and a at a token reach states from it on, and what arrives at states before it.
const std::map<std::string, Reach> of_factors = {
    {"dq", {Rows::later}}, {"dk", {Rows::earlier}}, {"dv", {Rows::earlier}}};
const Reaches of_general = {
    {"dO",
     {{"dq", {Rows::own}},
      {"dk", {Rows::earlier}},
      {"dv", {Rows::earlier, true}},
      {"du", {Rows::earlier}},
      {"dw", {Rows::earlier}},
      {"da", {Rows::earlier}}}},
    {"v",
     {{"dq", {Rows::later}},
      {"dk", {Rows::own}},
      {"dv", {Rows::none}},
      {"du", {Rows::later}},
      {"dw", {Rows::later}},
      {"da", {Rows::later}}}},
    {"k",
     {{"dq", {Rows::later}},
      {"dk", {Rows::none}},
      {"dv", {Rows::own}},
      {"du", {Rows::later}},
      {"dw", {Rows::later}},
      {"da", {Rows::later}}}},
    {"q",
     {{"dq", {Rows::none}},
      {"dk", {Rows::earlier}},
      {"dv", {Rows::earlier}},
      {"du", {Rows::earlier}},
      {"dw", {Rows::earlier}},
      {"da", {Rows::earlier}}}},
    {"u", of_factors},
    {"w", of_factors},
    {"a", of_factors},
};

using GradientCall = std::function<std::map<std::string, Tensor>(const Inputs&)>;

class GradientSurvey {
public:
    GradientSurvey() : generator_(random::seed()) {}

    void run(const std::string& kind, const GradientCall& call, const Inputs& inputs, const Reaches& reaches) {
        const auto clean = call(inputs);
        for (std::size_t x = 0; x < inputs.size(); ++x) {
            for (const double bad : bad_values) poison(kind, call, inputs, x, bad, clean, reaches);
        }
    }
    void report() const {
        std::string leaks;
        for (const auto& [kind, n] : leaks_) leaks += "\n  " + kind + ": " + std::to_string(n) + " calls";
        count(calls_, leaks_.size());
        INFO(calls_ << " calls; reached what it must not:" << leaks);
        CHECK(leaks_.empty());
        CHECK(calls_ > 100);
    }

private:
    void poison(const std::string& kind, const GradientCall& call, Inputs inputs, std::size_t which, double bad,
                const std::map<std::string, Tensor>& clean, const Reaches& reaches) {
        Tensor& x = inputs[which].x = inputs[which].x.copy();
        const Shape& s = x.shape();
        const Place at{0, static_cast<Index>(generator_() % static_cast<std::uint64_t>(s[1])),
                       2 + static_cast<Index>(generator_() % static_cast<std::uint64_t>(s[2] - 2)),
                       static_cast<Index>(generator_() % static_cast<std::uint64_t>(s[3]))};
        x.set((at.head * s[2] + at.token) * s[3] + at.column, bad);
        const auto got = call(inputs);
        ++calls_;
        for (const auto& [name, reach] : reaches.at(inputs[which].name)) {
            const Tensor &now = got.at(name), &before = clean.at(name);
            const Shape& o = now.shape();
            double largest = 0;
            for (Index i = 0; i < before.size(); ++i) largest = std::max(largest, std::abs(before.get(i)));
            Index leaked = 0, index = 0;
            for (Index h = 0; h < o[1]; ++h)
                for (Index t = 0; t < o[2]; ++t)
                    for (Index c = 0; c < o[3]; ++c, ++index) {
                        // Heads that share keys: the smaller number of them counts.
                        const bool head = h * std::min(s[1], o[1]) / o[1] == at.head * std::min(s[1], o[1]) / s[1];
                        if (head && reach.contains(at.token, at.column, t, c)) continue;
                        leaked += !(std::abs(now.get(index) - before.get(index)) <= allowed(now.dtype()) * largest);
                    }
            if (leaked) ++leaks_[kind + ", " + inputs[which].name + " -> " + name];
        }
    }

    std::mt19937_64 generator_;
    Index calls_ = 0;
    std::map<std::string, int> leaks_;
};

Inputs gradient_inputs(DType type, const Size& n, Index group, std::mt19937_64& generator) {
    return {{"q", normal(type, {1, 2 * group, n.N, n.dk}, generator)},
            {"k", normal(type, {1, 2, n.N, n.dk}, generator)},
            {"v", normal(type, {1, 2, n.N, n.dv}, generator)},
            {"dO", normal(type, {1, 2 * group, n.N, n.dv}, generator)}};
}

}  // namespace

TEST_CASE("GPU: a bad value stays where it belongs in the gradients of causal linear attention", "[gpu][gpu-poison]") {
    if (!test::on_gpu()) return;
    GradientSurvey survey;
    std::mt19937_64 generator(random::seed());
    for (const DType type : types) {
        for (const Size& n : sizes) {
            for (const int decays : {0, 1, 2}) {
                const GradientCall call = [&](const Inputs& in) {
                    gpu::CausalOptions o;
                    if (decays) o.decay = {0.97, 0.5};
                    const auto g =
                        gpu::causal_linear_attention_grad(gpu::Tensor(in[0].x), gpu::Tensor(in[1].x),
                                                          gpu::Tensor(in[2].x), gpu::Tensor(in[3].x), o, decays == 2);
                    return std::map<std::string, Tensor>{{"dq", g.dB.cpu()}, {"dk", g.dC.cpu()}, {"dv", g.dV.cpu()}};
                };
                survey.run(
                    "gradient " + described(type, n) + (decays ? " decay" : "") + (decays == 2 ? ", its own" : ""),
                    call, gradient_inputs(type, n, 1, generator), of_linear);
            }
        }
    }
    survey.report();
}

TEST_CASE("GPU: a bad value stays where it belongs in the gradients of the general rule", "[gpu][gpu-poison]") {
    if (!test::on_gpu()) return;
    GradientSurvey survey;
    std::mt19937_64 generator(random::seed());
    for (const DType type : types) {
        for (const Size& n : sizes) {
            for (const Index group : {1, 2}) {
                const Shape keys{1, 2, n.N, n.dk};
                Inputs inputs = gradient_inputs(type, n, group, generator);
                inputs.push_back({"u", normal(DType::f32, keys, generator)});
                inputs.push_back({"w", normal(DType::f32, keys, generator)});
                inputs.push_back({"a", Tensor(DType::f32, keys)});
                std::uniform_real_distribution<double> factor(0.9, 1);
                for (Index i = 0; i < inputs[6].x.size(); ++i) inputs[6].x.set(i, factor(generator));
                const GradientCall call = [&](const Inputs& in) {
                    gpu::GeneralOptions o;
                    o.u = gpu::Tensor(in[4].x), o.w = gpu::Tensor(in[5].x), o.a = gpu::Tensor(in[6].x);
                    const auto g = gpu::general_linear_attention_grad(gpu::Tensor(in[0].x), gpu::Tensor(in[1].x),
                                                                      gpu::Tensor(in[2].x), gpu::Tensor(in[3].x), o);
                    return std::map<std::string, Tensor>{{"dq", g.dq.cpu()},  {"dk", g.dk.cpu()},  {"dv", g.dv.cpu()},
                                                         {"du", g.du->cpu()}, {"dw", g.dw->cpu()}, {"da", g.da->cpu()}};
                };
                survey.run("gradient general group=" + std::to_string(group) + " " + described(type, n), call, inputs,
                           of_general);
            }
        }
    }
    survey.report();
}

TEST_CASE("GPU: a bad value stays where it belongs in the gradients of the gated family", "[gpu][gpu-poison]") {
    if (!test::on_gpu()) return;
    GradientSurvey survey;
    std::mt19937_64 generator(random::seed());
    for (const char* update : {"linear", "gated", "delta", "gated_delta"}) {
        const bool gated = std::string(update).find("gated") == 0,
                   delta = std::string(update).find("delta") != std::string::npos;
        for (const bool channels : {false, true}) {
            if (channels && !gated) continue;
            for (const DType type : types) {
                for (const Size& n : sizes) {
                    Tensor g(DType::f32, channels ? Shape{1, 2, n.N, n.dk} : Shape{1, 2, n.N});
                    std::uniform_real_distribution<double> gate(-0.05, 0);
                    for (Index i = 0; i < g.size(); ++i) g.set(i, gate(generator));
                    const Tensor beta = normal(DType::f32, {1, 2, n.N}, generator);
                    const GradientCall call = [&](const Inputs& in) {
                        gpu::LinearOptions o;
                        o.update = update;
                        if (gated) o.log_decay = gpu::Tensor(g);
                        if (delta) o.beta = gpu::Tensor(beta);
                        const auto d = gpu::linear_attention_grad(gpu::Tensor(in[0].x), gpu::Tensor(in[1].x),
                                                                  gpu::Tensor(in[2].x), gpu::Tensor(in[3].x), o);
                        return std::map<std::string, Tensor>{
                            {"dq", d.dq.cpu()}, {"dk", d.dk.cpu()}, {"dv", d.dv.cpu()}};
                    };
                    for (const Index group : {1, 2})
                        survey.run(std::string("gradient ") + update + (channels ? " channels " : " ") +
                                       described(type, n) + (group > 1 ? ", heads that share keys" : ""),
                                   call, gradient_inputs(type, n, group, generator), delta ? of_delta : of_linear);
                }
            }
        }
    }
    survey.report();
}

TEST_CASE("GPU: a bad value stays where it belongs in the gradient of softmax attention", "[gpu][gpu-poison]") {
    if (!test::on_gpu()) return;
    GradientSurvey survey;
    std::mt19937_64 generator(random::seed());
    for (const DType type : types) {
        for (const Size& n : sizes) {
            for (const Index group : {1, 2}) {
                const GradientCall call = [&](const Inputs& in) {
                    const gpu::Tensor q(in[0].x), k(in[1].x), v(in[2].x);
                    const auto out = gpu::softmax_attention(q, k, v);
                    const auto d = gpu::softmax_attention_grad(q, k, v, gpu::Tensor(in[3].x), {}, out);
                    return std::map<std::string, Tensor>{{"dq", d.dq.cpu()}, {"dk", d.dk.cpu()}, {"dv", d.dv.cpu()}};
                };
                survey.run("gradient flash group=" + std::to_string(group) + " " + described(type, n), call,
                           gradient_inputs(type, n, group, generator), of_softmax);
            }
        }
    }
    survey.report();
}
