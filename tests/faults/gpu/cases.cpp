#include "tests/faults/gpu/cases.hpp"

#include <cmath>
#include <set>

#include "core/distributed/decode.hpp"
#include "core/gated/registry.hpp"
#include "core/lowrank/registry.hpp"
#include "core/model/known_sizes.hpp"
#include "core/model/model.hpp"
#include "core/tensor/random.hpp"
#include "gpu/calls/linear_attention.hpp"
#include "gpu/exact/causal_linear_attention.hpp"
#include "gpu/features/low_rank.hpp"
#include "gpu/gated/registry.hpp"
#include "gpu/gradient/causal_linear_attention_grad.hpp"
#include "gpu/gradient/linear_attention_grad.hpp"
#include "gpu/gradient/softmax_attention_grad.hpp"
#include "gpu/measure/copy_bandwidth.hpp"
#include "gpu/model/model.hpp"
#include "gpu/softmax/softmax_attention.hpp"

#ifdef CAUSEWAY_NCCL
#include "gpu/engine/engine.hpp"
#include "gpu/sharded/linear_attention.hpp"
#include "gpu/sharded/linear_attention_grad.hpp"
#include "gpu/sharded/softmax_attention.hpp"
#endif

namespace causeway::faults {
namespace {

constexpr Index heads = 2, N = 130, width = 64;
const Shape of_tokens{1, heads, N, width}, of_states{1, heads, width, width}, of_gates{1, heads, N},
    of_channels{1, heads, N, width};
const std::vector<DType> types{DType::f32, DType::bf16};

Tensor normal(const Shape& shape, double size) {
    Tensor x = random::normal(DType::f32, shape);
    for (Index i = 0; i < x.size(); ++i) x.set(i, size * x.get(i));
    return x;
}
Tensor gates(const Shape& shape) {  // below 0
    Tensor x = random::uniform(DType::f32, shape);
    for (Index i = 0; i < x.size(); ++i) x.set(i, -x.get(i));
    return x;
}
gpu::Tensor on_device(const Tensor& x, DType type = DType::f32) { return gpu::Tensor(x.to(type)); }

// q, k and v on the device, keys of about length 1, and what arrives at the outputs.
struct Text {
    gpu::Tensor q, k, v, dO;

    explicit Text(DType type, Index tokens = N)
        : q(on_device(normal({1, heads, tokens, width}, 0.125), type)),
          k(on_device(normal({1, heads, tokens, width}, 0.125), type)),
          v(on_device(normal({1, heads, tokens, width}, 1), type)),
          dO(on_device(normal({1, heads, tokens, width}, 1), type)) {}
};

class Cases {
public:
    template <class Prepare>
    void add(const std::string& name, Prepare prepare, int devices = 1, bool connects = false) {
        all_.push_back({name, devices, connects, [prepare] {
                            random::set_seed(1);
                            return Call(prepare());
                        }});
    }
    std::vector<Case> all() && { return std::move(all_); }

private:
    std::vector<Case> all_;
};

void put(Results& out, const gpu::Tensor& x) { out.push_back(x.cpu()); }
void put(Results& out, const std::optional<gpu::Tensor>& x) {
    if (x) put(out, *x);
}
template <class... T>
Results results(const T&... x) {
    Results out;
    (put(out, x), ...);
    return out;
}

// ---- causal linear attention ----

Results causal(const Text& t, gpu::CausalOptions o) {
    if (o.state) o.state = o.state->copy();  // which may be advanced in place
    const gpu::CausalResult r = gpu::causal_linear_attention(t.q, t.k, t.v, o);
    Results out = results(r.O, r.checkpoints);
    if (o.return_state) put(out, r.state);
    return out;
}

void add_causal(Cases& cases) {
    for (const gpu::CausalMethod& method : gpu::causal_methods()) {
        for (const DType type : types) {
            const std::string name = method.name + " " + causeway::name(type);
            const auto call = [=](auto set) {
                return [=] {
                    gpu::CausalOptions o;
                    o.method = method.name;
                    set(o);
                    return [=, t = Text(type)] { return causal(t, o); };
                };
            };
            cases.add(name, call([](auto&) {}));
            cases.add(name + ", decay, normalize", call([](auto& o) { o.decay = {0.9}, o.normalize = true; }));
            if (!method.state) continue;
            cases.add(name + ", state", call([](auto& o) {
                          o.decay = {0.9, 1}, o.return_state = true;
                          o.state = on_device(normal(of_states, 1));
                      }));
            cases.add(name + ", packed, pool, checkpoints", call([](auto& o) {
                          o.cu_seqlens = {0, 50, N}, o.state_indices = {2, 0}, o.inplace = o.return_state = true;
                          o.state = on_device(normal({3, heads, width, width}, 1)), o.checkpoint_every = 64;
                      }));
        }
    }
    for (const DType type : types) {
        const std::string name = std::string("causal_linear_attention_grad ") + causeway::name(type);
        const auto call = [=](auto set) {
            return [=] {
                gpu::CausalOptions o;
                set(o);
                return [=, t = Text(type)] {
                    const auto g = gpu::causal_linear_attention_grad(t.q, t.k, t.v, t.dO, o);
                    return results(g.dB, g.dC, g.dV, g.ddecay, g.dstate);
                };
            };
        };
        cases.add(name, call([](auto&) {}));
        cases.add(name + ", decay, normalize", call([](auto& o) { o.decay = {0.9}, o.normalize = true; }));
        cases.add(name + ", state", call([](auto& o) { o.state = on_device(normal(of_states, 1)); }));
    }
}

// ---- gates and delta rules ----

bool is_refused(const std::function<void()>& check) {
    try {
        check();
        return false;
    } catch (const Error&) {
        return true;
    }
}

std::set<std::string> gated_modes() {
    std::set<std::string> out;
    for (const gpu::GatedForm& form : gpu::gated_forms()) out.insert(form.mode);
    return out;
}

gpu::LinearOptions linear_options(const gated::Rule& rule, bool channels, Index tokens = N) {
    gpu::LinearOptions o;
    o.update = rule.name;
    if (gated::has_gate(rule.update))
        o.log_decay = on_device(gates(channels ? Shape{1, heads, tokens, width} : Shape{1, heads, tokens}));
    if (gated::has_delta(rule.update)) {
        Tensor beta = gates({1, heads, tokens});
        for (Index i = 0; i < beta.size(); ++i) beta.set(i, -beta.get(i));
        o.beta = on_device(beta);
    }
    return o;
}

Results linear(const Text& t, gpu::LinearOptions o) {
    if (o.state) o.state = o.state->copy();
    const gpu::LinearResult r = gpu::linear_attention(t.q, t.k, t.v, o);
    return results(r.O, r.state, r.checkpoints);
}

void add_steps(Cases& cases, const gated::Rule& rule) {
    for (const Index tokens : {1, 4}) {
        cases.add(sentence(rule.name, " step of ", tokens), [=] {
            const gpu::LinearOptions o = linear_options(rule, false, tokens);
            return [=, t = Text(DType::bf16, tokens), state = on_device(normal(of_states, 1))] {
                gpu::Tensor advanced = state.copy(), O(DType::bf16, t.v.shape());
                std::vector<gpu::Tensor> states;
                gpu::linear_attention_step(t.q, t.k, t.v, advanced, O, o, &states);
                Results out = results(O, advanced);
                for (const gpu::Tensor& each : states) put(out, each);
                return out;
            };
        });
    }
}

void add_gated(Cases& cases) {
    for (const gated::Rule& rule : gated::updates()) {
        add_steps(cases, rule);
        for (const bool channels : {false, true}) {
            if (channels && !gated::has_gate(rule.update)) continue;
            for (const std::string& mode : gated_modes()) {
                if (channels && is_refused([&] { gpu::check_channels(mode); })) continue;
                for (const DType type : types) {
                    const std::string name =
                        rule.name + (channels ? " a channel " : " ") + mode + " " + causeway::name(type);
                    const auto call = [=](auto set) {
                        return [=] {
                            gpu::LinearOptions o = linear_options(rule, channels);
                            o.mode = mode;
                            set(o);
                            return [=, t = Text(type)] { return linear(t, o); };
                        };
                    };
                    cases.add(name, call([](auto&) {}));
                    if (!is_refused([&] { gpu::check_prefix(mode); }))
                        cases.add(name + ", prefix", call([](auto& o) { o.deterministic = "prefix"; }));
                    const auto pool = [](auto& o) {
                        o.cu_seqlens = {0, 50, N}, o.state_indices = {2, 0}, o.inplace = true;
                        o.state = on_device(normal({3, heads, width, width}, 1), DType::bf16);
                    };
                    cases.add(name + ", packed, pool", call(pool));
                    cases.add(name + ", packed, pool, checkpoints", call([=](auto& o) {
                                  pool(o);
                                  o.checkpoint_every = 64;
                              }));
                    if (is_refused([&] { gpu::check_gradient(mode); })) continue;
                    const auto gradient = [=](const std::vector<Index>& cu_seqlens, const Shape& states) {
                        return [=] {
                            gpu::LinearOptions o = linear_options(rule, channels);
                            o.mode = mode, o.state = on_device(normal(states, 1)), o.cu_seqlens = cu_seqlens;
                            return [=, t = Text(type), dstate = on_device(normal(states, 1))] {
                                const auto g = gpu::linear_attention_grad(t.q, t.k, t.v, t.dO, o, dstate);
                                return results(g.dq, g.dk, g.dv, g.dlog_decay, g.dbeta, g.dstate);
                            };
                        };
                    };
                    cases.add(name + " gradient", gradient({}, of_states));
                    cases.add(name + " gradient, packed", gradient({0, 50, 100, N}, {3, heads, width, width}));
                }
            }
        }
    }
}

// ---- softmax attention, features, models, what is measured ----

void add_softmax(Cases& cases) {
    for (const DType type : types) {
        const std::string name = std::string("softmax_attention ") + causeway::name(type);
        cases.add(name, [=] {
            return [t = Text(type)] {
                const auto r = gpu::softmax_attention(t.q, t.k, t.v);
                return results(r.O, r.lse);
            };
        });
        cases.add(name + ", packed", [=] {
            gpu::SoftmaxOptions o;
            o.cu_seqlens = {0, 50, N};
            return [=, t = Text(type)] {
                const auto r = gpu::softmax_attention(t.q, t.k, t.v, o);
                return results(r.O, r.lse);
            };
        });
        cases.add(name + ", one query", [=] {
            return [q = Text(type, 1), t = Text(type)] {
                const auto r = gpu::softmax_attention(q.q, t.k, t.v);
                return results(r.O, r.lse);
            };
        });
        cases.add(name + " gradient", [=] {
            return [t = Text(type)] {
                const auto g = gpu::softmax_attention_grad(t.q, t.k, t.v, t.dO);
                return results(g.dq, g.dk, g.dv);
            };
        });
    }
}

void add_others(Cases& cases) {
    for (const lowrank::Method& method : lowrank::methods()) {
        if (!gpu::low_rank_takes(method.name)) continue;
        cases.add(method.name, [name = method.name] {
            LowRankOptions o;
            if (lowrank::method(name).seeded) o.seed = 3;
            return [=, q = on_device(normal({1, heads, 40, 16}, 1)), k = on_device(normal({1, heads, 40, 16}, 1))] {
                const gpu::LowRank r = gpu::low_rank(name, q, k, o);
                Results out = results(r.B, r.C);
                for (const auto& extra : r.extras) put(out, extra.second);
                return out;
            };
        });
    }
    for (const char* architecture : {"llama", "transnormer", "retnet", "minimax"}) {
        cases.add(std::string("a model, ") + architecture, [=] {
            const auto checkpoint = model::random_model(architecture, "tiny", model::WeightType::f32, 5, 1);
            return [=] {
                const model::Model m(checkpoint, [](const model::Network& network) { return gpu::on_gpu(network); });
                const model::Ids prompt{1, 2, 3, 4, 5};
                Results out{m.logits(prompt)};
                model::GenerateOptions o;
                o.tokens = 3, o.temperature = 0;
                Tensor ids(DType::f32, {o.tokens});
                Index i = 0;
                for (const auto id : m.generate(prompt, o)) ids.set(i++, id);
                out.push_back(ids);
                return out;
            };
        });
    }
    for (const char* architecture : {"llama", "transnormer"}) {
        for (const char* with : {"fleet", "vanilla", "gated", "flash", "nystrom"}) {
            cases.add(std::string("a model, ") + architecture + ", its attention by " + with, [=] {
                const auto checkpoint = model::random_model(architecture, "tiny", model::WeightType::f32, 5, 2);
                return [=] {
                    model::Model m(checkpoint, [](const model::Network& network) { return gpu::on_gpu(network); });
                    model::SwapOptions o;
                    o.features = "hedgehog";
                    m.attention({2}, with, o);
                    const model::Ids text{1, 2, 3, 4, 5, 6, 7, 8};
                    model::Session session(m);
                    session.advance(std::span(text).first(4));
                    Results out{session.advance(std::span(text).subspan(4, 3)),
                                session.copy().advance(std::span(text).last(1))};
                    for (const auto& [what, x] : m.capture(text, 2, {"q", "output", "hidden"})) out.push_back(x);
                    return out;
                };
            });
        }
    }
    cases.add("the rate of memory", [] {
        return [] {
            gpu::copy_bandwidth(1 << 20, nullptr);
            return Results{};
        };
    });
}

// ---- several GPUs ----

#ifdef CAUSEWAY_NCCL
void add_sharded(Cases& cases) {
    for (const int p : {1, 2}) {
        DecodeOptions decode;
        decode.engine = "nccl", decode.shards = p;
        for (const bool tree : {true, false}) {
            cases.add(
                sentence(tree ? "tree_decode" : "ring_decode", " on ", p),
                [=] {
                    gpu::enter_nccl();
                    return
                        [=, q = normal({1, heads, 1, width}, 1), k = normal(of_tokens, 1), v = normal(of_tokens, 1)] {
                            const DecodeResult r = tree ? tree_decode(q, k, v, decode) : ring_decode(q, k, v, decode);
                            return Results{r.O, r.lse};
                        };
                },
                p, true);
        }
    }
    Sharding two;
    two.shards = 2;
    const auto sharded = [&cases](const std::string& name, auto call) {
        cases.add(
            name + " on 2",
            [=] {
                gpu::enter_nccl();
                return [=, t = Text(DType::bf16), q = Text(DType::bf16, 1)] { return call(t, q); };
            },
            2, true);
    };
    // The same of packed sequences with a gate a head.
    const auto packed = [&cases](const std::string& name, auto call) {
        cases.add(
            name + " on 2",
            [=] {
                gpu::enter_nccl();
                gpu::LinearOptions o = linear_options(gated::updates()["gated"], false);
                o.cu_seqlens = {0, 10, 30, N};
                return [=, t = Text(DType::bf16)] { return call(t, o); };
            },
            2, true);
    };
    for (const gated::Rule& rule : gated::updates()) {
        cases.add(
            rule.name + " on 2",
            [=] {
                gpu::enter_nccl();
                return [=, t = Text(DType::bf16), o = linear_options(rule, false)] {
                    const auto r = gpu::linear_attention_sharded(t.q, t.k, t.v, o, two);
                    return results(r.O, r.state);
                };
            },
            2, true);
        for (const std::string exchange : {"ring", "all-scan", "all-gather"}) {
            Sharding sharding = two;
            sharding.exchange = exchange;
            cases.add(
                rule.name + " gradient, " + exchange + " on 2",
                [=] {
                    gpu::enter_nccl();
                    return [=, t = Text(DType::bf16), o = linear_options(rule, false)] {
                        const auto g = gpu::linear_attention_grad_sharded(t.q, t.k, t.v, t.dO, o, {}, sharding);
                        return results(g.dq, g.dk, g.dv, g.dlog_decay, g.dbeta, g.dstate);
                    };
                },
                2, true);
        }
    }
    for (const std::string& exchange : calls::state_exchanges()) {
        Sharding sharding = two;
        sharding.exchange = exchange;
        sharded("causal_linear_attention, " + exchange, [=](const Text& t, const Text&) {
            gpu::CausalOptions o;
            o.decay = {0.9};
            const auto r = gpu::causal_linear_attention_sharded(t.q, t.k, t.v, o, sharding);
            return results(r.O);
        });
    }
    sharded("causal_linear_attention, normalized", [=](const Text& t, const Text&) {
        gpu::CausalOptions o;
        o.decay = {0.9}, o.normalize = true;
        const auto r = gpu::causal_linear_attention_sharded(t.q, t.k, t.v, o, two);
        return results(r.O);
    });
    sharded("causal_linear_attention gradient", [=](const Text& t, const Text&) {
        gpu::CausalOptions o;
        o.decay = {0.9};
        const auto g = gpu::causal_linear_attention_grad_sharded(t.q, t.k, t.v, t.dO, o, true, two);
        return results(g.dB, g.dC, g.dV, g.ddecay);
    });
    sharded("normalized causal_linear_attention gradient", [=](const Text& t, const Text&) {
        gpu::CausalOptions o;
        o.normalize = true;
        const auto g = gpu::causal_linear_attention_grad_sharded(t.q, t.k, t.v, t.dO, o, false, two);
        return results(g.dB, g.dC, g.dV);
    });
    Sharding by_ring = two, by_heads = two;
    by_ring.exchange = "ring", by_heads.exchange = "heads";
    for (const auto& [how, sharding] : {std::pair("", by_ring), std::pair(" by heads", by_heads)}) {
        sharded(std::string("softmax_attention") + how, [=](const Text& t, const Text&) {
            const auto r = gpu::softmax_attention_sharded(t.q, t.k, t.v, {}, sharding);
            return results(r.O, r.lse);
        });
        sharded(std::string("softmax_attention gradient") + how, [=](const Text& t, const Text&) {
            const auto g = gpu::softmax_attention_grad_sharded(t.q, t.k, t.v, t.dO, {}, {}, sharding);
            return results(g.dq, g.dk, g.dv);
        });
        packed(std::string("packed gated attention") + how, [=](const Text& t, const gpu::LinearOptions& o) {
            const auto r = gpu::linear_attention_sharded(t.q, t.k, t.v, o, sharding);
            return results(r.O, r.state);
        });
        packed(std::string("packed gated attention gradient") + how, [=](const Text& t, const gpu::LinearOptions& o) {
            const auto g = gpu::linear_attention_grad_sharded(t.q, t.k, t.v, t.dO, o, {}, sharding);
            return results(g.dq, g.dk, g.dv, g.dlog_decay);
        });
    }
    sharded("packed softmax_attention", [=](const Text& t, const Text&) {
        gpu::SoftmaxOptions o;
        o.cu_seqlens = {0, 10, 30, N};
        const auto r = gpu::softmax_attention_sharded(t.q, t.k, t.v, o, two);
        return results(r.O, r.lse);
    });
    sharded("tree_decode of tensors on the GPU", [](const Text& t, const Text& one) {
        DecodeOptions o;
        o.engine = "nccl", o.shards = 2;
        const auto r = gpu::tree_decode(one.q, t.k, t.v, o);
        return results(r.O, r.lse);
    });
}
#else
void add_sharded(Cases&) {}
#endif

}  // namespace

std::vector<Case> all_cases() {
    Cases cases;
    add_causal(cases);
    add_gated(cases);
    add_softmax(cases);
    add_others(cases);
    add_sharded(cases);
    return std::move(cases).all();
}

Case other_case() {
    Cases cases;
    cases.add("another call", [] { return [t = Text(DType::f32, 3)] { return causal(t, {}); }; });
    return std::move(cases).all().front();
}

}  // namespace causeway::faults
