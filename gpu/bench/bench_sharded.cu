// One sequence on several GPUs against the same on one, over NCCL: linear attention with its states handed on, softmax
// attention round a ring, and one query against a cache.
//
//   bench_sharded [p [word]]     on p GPUs, else on all; the rows whose name has the word
//
// Width 128, BFloat16, batch 1; 32 heads, of softmax attention 16. Every GPU has its part of the tokens in its memory.
// Times are those of the slowest rank, from a barrier until its last kernel has ended, the median of some calls. The
// outputs around the boundary and at the end are compared with those of one GPU first.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/bench/gated_problem.hpp"
#include "gpu/distributed/queue.hpp"
#include "gpu/sharded/decode.hpp"
#include "gpu/sharded/forward.hpp"
#include "gpu/sharded/gradient.hpp"
#include "gpu/sharded/softmax_ring.hpp"

using namespace causeway;
using namespace causeway::gpu;
using causeway::distributed::Communicator;
using causeway::gpu::sharded::Exchange;
using causeway::gpu::sharded::Starts;
using causeway::gpu::sharded::Tokens;

namespace {

constexpr Index heads = 32, width = 128;

struct Case {
    std::string name;
    double least;  // times as fast on two GPUs as on one
    bool causal = false, delta = false;
    int gates = 0;
    double gate = 0.1;
    Index keepers = 0;                   // heads that never forget
    std::optional<Exchange> exchange{};  // none: that which a call takes
    bool back = false;                   // the gradient
};

// Of ALiBi's slopes, the slowest head e^(-1/256) a token; and RetNet's, of which most never forget.
std::vector<double> decays(bool alibi) {
    std::vector<double> gamma;
    for (Index h = 0; h < heads; ++h) {
        const auto i = static_cast<double>(h);
        gamma.push_back(alibi ? std::exp(-std::exp2(-8 * (i + 1) / heads)) : 1 - std::exp2(-5 - i));
    }
    return gamma;
}

const std::vector<Case>& cases() {
    static const std::vector<Case> list{
        {"causal linear attention, decay (ALiBi's slopes)", 1.85, true, false, 1, 1},
        {"causal linear attention, decay (RetNet's)", 1.85, true, false, 1},
        {"causal linear attention, 0-1 mask", 1.7, true},
        {"the same by the scan: ALiBi's slopes", 1.85, true, false, 1, 1, 0, Exchange::all_scan},
        {"the same by the ring: RetNet's", 1.85, true, false, 1, 0.1, 0, Exchange::ring},
        {"the same by the ring: 0-1 mask", 1.7, true, false, 0, 0.1, 0, Exchange::ring},
        {"the same by the ring: delta rule without gates", 1.7, false, true, 0, 0.1, 0, Exchange::ring},
        {"gated delta rule, heads that forget", 1.85, false, true, 1},
        {"gated delta rule, a quarter of the heads never forgets", 1.7, false, true, 1, 0.1, heads / 4},
        {"delta rule without gates", 1.7, false, true, 0},
        {"gate per channel (GLA)", 1.75, false, false, width},
        {"gate per channel, delta rule (KDA)", 1.75, false, true, width},
        {"gradient of the gated delta rule, heads that forget", 1.75, false, true, 1, 0.1, 0, {}, true},
    };
    return list;
}

// What a rank has of all tokens [all_heads, N, width]: the whole tensors, of which it reads its own tokens.
struct Inputs {
    gpu::Buffer q, k, v, o, beta;

    // scale: of queries and keys, else that of keys of length 1.
    Inputs(Index all_heads, Index N, cudaStream_t stream, double scale = 1 / std::sqrt(static_cast<double>(width))) {
        const auto n = static_cast<std::size_t>(all_heads * N * width);
        q = gpu::Buffer(2 * n), k = gpu::Buffer(2 * n), v = gpu::Buffer(2 * n), o = gpu::Buffer(2 * n);
        fill_normal(q.data(), Type::BFloat16, n, 1, scale, stream);
        fill_normal(k.data(), Type::BFloat16, n, 2, scale, stream);
        fill_normal(v.data(), Type::BFloat16, n, 3, 1, stream);
        const auto tokens = static_cast<std::size_t>(all_heads * N);
        beta = gpu::Buffer(4 * tokens);
        fill_normal(beta.data(), Type::Float32, tokens, 4, 1, stream);
        bench::detail::make_betas<<<1024, 256, 0, stream>>>(beta.as<float>(), tokens);
        check_launch("making betas");
    }
};

// [heads, tokens, columns] of [heads, N, columns].
gpu::Buffer part_of(const float* all, Index N, Index first, Index tokens, Index columns, cudaStream_t stream) {
    const auto bytes = [&](Index n) { return static_cast<std::size_t>(n * columns) * sizeof(float); };
    gpu::Buffer out(bytes(heads * tokens));
    check(cudaMemcpy2DAsync(out.data(), bytes(tokens), all + first * columns, bytes(N), bytes(tokens), heads,
                            cudaMemcpyDeviceToDevice, stream),
          "cutting out gates");
    return out;
}

gpu::Buffer make_gates(const Case& c, Index N, cudaStream_t stream) {
    const auto n = static_cast<std::size_t>(heads * N * c.gates);
    gpu::Buffer g(4 * n);
    fill_normal(g.data(), Type::Float32, n, 5, 1, stream);
    bench::detail::make_gates<<<1024, 256, 0, stream>>>(g.as<float>(), n, static_cast<float>(c.gate), 0);
    check_launch("making gates");
    if (c.keepers > 0)
        check(cudaMemsetAsync(g.as<float>() + (heads - c.keepers) * N * c.gates, 0,
                              static_cast<std::size_t>(c.keepers * N * c.gates) * sizeof(float), stream),
              "making gates");
    return g;
}

// What is compared: of three heads the tokens after every sixteenth of the text, by the first of them, where a rank has
// them all.
constexpr Index shown = 512;
using Outputs = std::map<Index, std::vector<float>>;

Outputs looked_at(const gpu::Buffer& o, Index all_heads, Index N, Index from, Index to) {
    Outputs out;
    for (Index t = 0; t + shown <= N; t += N / 16) {
        if (t < from || t + shown > to) continue;
        for (const Index h : {Index{0}, all_heads / 2, all_heads - 1}) {
            std::vector<bfloat16> x(static_cast<std::size_t>(shown * width));
            check(cudaMemcpy(x.data(), o.as<bfloat16>() + (h * N + t) * width, x.size() * 2, cudaMemcpyDeviceToHost),
                  "reading outputs");
            for (const bfloat16 y : x) out[t].push_back(static_cast<float>(y));
        }
    }
    return out;
}

struct Result {
    double median = 0, best = 0, waited = 0;  // seconds
    distributed::Traffic traffic;             // of all ranks
    Outputs outputs;                          // that are compared
};

// What the ranks of a team measure, one row after the other.
class Rows {
public:
    Rows(std::size_t rows, int p) : ranks_(static_cast<std::size_t>(p)) {
        for (auto& rank : ranks_) rank.resize(rows);
    }

    // `once` some times on this rank, which returns its seconds.
    template <class F>
    void measure(QueuedCommunicator& comm, std::size_t row, int tries, F&& once) {
        constexpr int unmeasured = 3;
        Mine& mine = at(comm, row);
        for (int n = 0; n < tries + unmeasured; ++n) {
            const double took = once();
            if (n >= unmeasured) mine.seconds.push_back(took);
        }
        mine.waited = comm.waited, mine.traffic = comm.traffic;
    }
    void outputs(QueuedCommunicator& comm, std::size_t row, const Outputs& x) {
        at(comm, row).outputs.insert(x.begin(), x.end());
    }

    // The slowest rank's times; what all ranks have of the outputs.
    std::vector<Result> results() const {
        std::vector<Result> out(ranks_[0].size());
        for (std::size_t i = 0; i < out.size(); ++i) {
            Result& all = out[i];
            std::vector<double> slowest = ranks_[0][i].seconds;
            for (const auto& rank : ranks_) {
                const Mine& mine = rank[i];
                for (std::size_t n = 0; n < slowest.size(); ++n) slowest[n] = std::max(slowest[n], mine.seconds[n]);
                all.waited = std::max(all.waited, mine.waited);
                all.traffic.messages += mine.traffic.messages, all.traffic.bytes += mine.traffic.bytes;
                all.outputs.insert(mine.outputs.begin(), mine.outputs.end());
            }
            if (slowest.empty()) continue;
            std::sort(slowest.begin(), slowest.end());
            all.median = slowest[slowest.size() / 2], all.best = slowest[0];
        }
        return out;
    }

private:
    struct Mine {
        std::vector<double> seconds;
        double waited = 0;
        distributed::Traffic traffic;
        Outputs outputs;
    };
    Mine& at(const QueuedCommunicator& comm, std::size_t row) {
        return ranks_[static_cast<std::size_t>(comm.rank())][row];
    }
    std::vector<std::vector<Mine>> ranks_;
};

// Where the gradients of a rank's tokens go: those of q, k and v of all tokens, those of gates and steps of its own.
struct Gradients {
    gpu::Buffer dq, dk, dv, dg, dbeta;

    Gradients(const GatedArgs& a, Index N, cudaStream_t stream) {
        for (gpu::Buffer* x : {&dq, &dk, &dv})
            *x = gpu::Buffer(2 * static_cast<std::size_t>(heads * N * width), stream);
        const auto tokens = static_cast<std::size_t>(heads * a.N) * sizeof(float);
        if (a.g) dg = gpu::Buffer(tokens * static_cast<std::size_t>(a.gates), stream);
        if (a.beta) dbeta = gpu::Buffer(tokens, stream);
    }
    GatedGradArgs args(const GatedArgs& a, const void* dO, Index first) const {
        const auto at = [&](const gpu::Buffer& x) { return x.as<bfloat16>() + first * width; };
        GatedGradArgs out;
        out.in = a, out.dO = dO;
        out.dq = at(dq), out.dk = at(dk), out.dv = at(dv), out.dg = dg.as<float>(), out.dbeta = dbeta.as<float>();
        return out;
    }
};

bool wanted(const std::string& name, const std::string& word) { return name.find(word) != std::string::npos; }

// All rows of linear attention on the ranks of a team.
std::vector<Result> linear(Team& team, Index N, const std::string& word) {
    const int p = team.size();
    Rows rows(cases().size(), p);
    team.run([&](Communicator& rank) {
        QueuedCommunicator comm(dynamic_cast<NcclCommunicator&>(rank));
        const auto r = static_cast<std::size_t>(comm.rank());
        const Inputs in(heads, N, comm.stream());
        const std::vector<double> alibi = decays(true), retnet = decays(false);
        const gpu::Buffer last(static_cast<std::size_t>(heads * width * width) * sizeof(float));
        for (std::size_t i = 0; i < cases().size(); ++i) {
            const Case& c = cases()[i];
            if (!wanted(c.name, word)) continue;
            // Heads that no rank forgets, as far as that is known before the call.
            const std::vector<double>& gamma = c.gate == 1 ? alibi : retnet;
            Index kept = 0;
            for (Index h = 0; h < heads && c.causal; ++h) {
                const double decay = c.gates == 0 ? 1 : gamma[static_cast<std::size_t>(h)];
                kept += gpu::sharded::CausalTokens::reach_of(decay, Type::BFloat16, N / p / 4) < 0;
            }
            const bool steps = !c.causal && c.delta && c.gates == 0;
            const Exchange exchange = c.exchange                        ? *c.exchange
                                      : (c.causal && kept > 0) || steps ? Exchange::all_scan
                                                                        : Exchange::ring;
            const bool scanned = c.causal && exchange != Exchange::ring;
            const Starts starts = c.back    ? gpu::sharded::backward_starts(N, p, 64, true)
                                  : scanned ? gpu::sharded::scanned_starts(N, p, 64)
                                            : gpu::sharded::waiting_starts(N, p, 64, heads, kept);
            const gpu::sharded::SharedSequences sequences({}, 1, heads, N);
            const Index first = starts[r], tokens = starts[r + 1] - first;
            const Strides s = contiguous(heads, N, width);
            const auto at = [&](const gpu::Buffer& x) { return x.as<bfloat16>() + first * width; };
            std::unique_ptr<Tokens> part;
            std::unique_ptr<gpu::sharded::GatedGradTokens> back;
            std::optional<Gradients> results;
            gpu::Buffer g, beta;
            if (c.causal) {
                CausalArgs a;
                a.q = at(in.q), a.k = at(in.k), a.v = at(in.v), a.o = at(in.o);
                a.B = 1, a.H = heads, a.N = tokens, a.r = a.d = width;
                a.q_stride = a.k_stride = a.v_stride = a.o_stride = s;
                a.gamma = c.gates == 0 ? nullptr : gamma.data();
                part = std::make_unique<gpu::sharded::CausalTokens>(a, causal_method("lightning-attention-2"),
                                                                    comm.stream());
            } else {
                GatedArgs a;
                a.q = at(in.q), a.k = at(in.k), a.v = at(in.v), a.o = at(in.o);
                a.B = 1, a.H = heads, a.N = tokens, a.dk = a.dv = width;
                a.q_stride = a.k_stride = a.v_stride = a.o_stride = s;
                if (c.gates > 0) {
                    const gpu::Buffer all = make_gates(c, N, comm.stream());
                    g = part_of(all.as<float>(), N, first, tokens, c.gates, comm.stream());
                    comm.stream().wait();
                    a.gates = c.gates, a.g = g.as<float>();
                }
                if (c.delta) {
                    beta = part_of(in.beta.as<float>(), N, first, tokens, 1, comm.stream());
                    a.beta = beta.as<float>();
                }
                if (c.back) {
                    results.emplace(a, N, comm.stream());
                    back = std::make_unique<gpu::sharded::GatedGradTokens>(results->args(a, at(in.v), first),
                                                                           "chunkwise", comm.stream());
                } else {
                    part = std::make_unique<gpu::sharded::GatedTokens>(a, "chunkwise", comm.stream(),
                                                                       std::vector<gpu::sharded::Span>{},
                                                                       exchange == Exchange::all_scan);
                }
            }
            rows.measure(comm, i, 15, [&] {
                if (back)
                    gpu::sharded::backward(comm, sequences, starts, *back, Exchange::ring, nullptr, nullptr,
                                           last.as<float>());
                else gpu::sharded::forward(comm, sequences, starts, *part, exchange, nullptr, last.as<float>());
                return comm.settle();
            });
            rows.outputs(comm, i, looked_at(back ? results->dv : in.o, heads, N, first, first + tokens));
        }
        comm.barrier();
    });
    return rows.results();
}

constexpr Index softmax_heads = 16;

// Causal softmax attention, ring and zigzag; back: its gradient, of the outputs of a forward pass.
Result softmax(Team& team, Index N, bool back) {
    const int p = team.size();
    causeway::sharded::SoftmaxRing z;
    z.heads = softmax_heads, z.d = z.dv = width, z.causal = true, z.scale = 1 / std::sqrt(static_cast<double>(width));
    z.queries = z.keys = causeway::sharded::zigzag(N, p);
    Rows rows(1, p);
    team.run([&](Communicator& rank) {
        QueuedCommunicator comm(dynamic_cast<NcclCommunicator&>(rank));
        const Inputs in(softmax_heads, N, comm.stream(), 1);
        const Strides s = contiguous(softmax_heads, N, width);
        const std::size_t bytes = back ? in.q.bytes() : 0;
        const gpu::Buffer dq(bytes), dk(bytes), dv(bytes);
        gpu::sharded::RingTensors x;
        gpu::sharded::RingGradTensors of_grad;
        std::vector<gpu::Buffer> lse;
        for (const kit::Span& t : z.queries_of(comm.rank())) {
            const auto at = [&](const gpu::Buffer& y) { return y.as<bfloat16>() + t.first * width; };
            lse.emplace_back(static_cast<std::size_t>(softmax_heads * t.n) * sizeof(float));
            x.queries.push_back({at(in.q), at(in.o), s, s, lse.back().as<float>()});
            x.keys.push_back({at(in.k), at(in.v), s, s});
            if (!back) continue;
            of_grad.queries.push_back({at(in.q), at(in.o), at(in.v), at(dq), s, s, lse.back().as<float>()});
            of_grad.keys.push_back(x.keys.back());
            of_grad.dk.push_back(at(dk)), of_grad.dv.push_back(at(dv));
        }
        if (back) {
            comm.begin();
            gpu::sharded::softmax_ring(comm, z, x, comm.stream());
            comm.settle();
        }
        rows.measure(comm, 0, N > 50000 ? 5 : 15, [&] {
            comm.begin();
            if (back) gpu::sharded::softmax_ring_back(comm, z, of_grad, comm.stream());
            else gpu::sharded::softmax_ring(comm, z, x, comm.stream());
            return comm.settle();
        });
        for (const kit::Span& t : z.queries_of(comm.rank()))
            rows.outputs(comm, 0, looked_at(back ? dk : in.o, softmax_heads, N, t.first, t.first + t.n));
        comm.barrier();
    });
    return rows.results()[0];
}

// One query against M keys: waited for each time, and from a graph, where a hundred go in a row.
std::vector<Result> decoding(Team& team, Index M) {
    const int p = team.size();
    Rows rows(3, p);
    team.run([&](Communicator& rank) {
        QueuedCommunicator comm(dynamic_cast<NcclCommunicator&>(rank));
        const Inputs in(softmax_heads, M, comm.stream(), 1);
        const Index first = comm.rank() * M / p, length = (comm.rank() + 1) * M / p - first;
        const auto n = static_cast<std::size_t>(softmax_heads * width);
        const gpu::Buffer o(2 * n);
        SoftmaxArgs a;
        a.q = in.q.data(), a.k = in.k.as<bfloat16>() + first * width, a.v = in.v.as<bfloat16>() + first * width;
        a.heads = softmax_heads, a.N = 1, a.M = length, a.d = a.dv = width, a.causal = false;
        a.scale = 1 / std::sqrt(static_cast<float>(width));
        a.q_stride = contiguous(softmax_heads, 1, width);
        a.k_stride = a.v_stride = contiguous(softmax_heads, M, width);
        gpu::sharded::ShardedDecode decode(comm, a, o.data(), nullptr);
        comm.stream().wait();
        for (const std::size_t row : {0, 1, 2})
            rows.measure(comm, row, row == 2 ? 10 : 60, [&] {
                comm.begin();
                const int calls = row == 2 ? 100 : 1;
                for (int i = 0; i < calls; ++i) row == 0 ? decode.queue() : decode.replay();
                return comm.settle() / calls;
            });
        std::vector<bfloat16> got(n);
        check(cudaMemcpy(got.data(), o.data(), 2 * n, cudaMemcpyDeviceToHost), "reading outputs");
        // Every rank has the result: that of the last one is compared.
        for (const std::size_t row : {0, 1, 2})
            if (comm.rank() == p - 1) rows.outputs(comm, row, {{0, std::vector<float>(got.begin(), got.end())}});
        comm.barrier();
    });
    return rows.results();
}

// Relative error of the outputs, of which several ranks have nearly all.
double difference(const Outputs& got, const Outputs& want) {
    double error = 0, norm = 0;
    if (got.size() + 4 < want.size() || got.empty()) return INFINITY;
    for (const auto& [t, x] : got) {
        const std::vector<float>& expected = want.at(t);
        for (std::size_t i = 0; i < expected.size(); ++i)
            error += std::pow(x.at(i) - expected[i], 2), norm += std::pow(expected[i], 2);
    }
    return std::sqrt(error / norm);
}

// Prints a row; whether its outputs are those of one GPU: both round to BFloat16, of sums in another order.
bool show(const std::string& name, const Result& one, const Result& many, const std::string& must) {
    const double error = difference(many.outputs, one.outputs);
    const bool right = error <= 6e-3;
    std::printf("%-56s %9.4f %9.4f %6.2f× %9s %9.4f %9td %9.2f %9.1e%s   best %.4f, %.4f\n", name.c_str(),
                one.median * 1e3, many.median * 1e3, one.median / many.median, must.c_str(), many.waited * 1e3,
                many.traffic.messages, static_cast<double>(many.traffic.bytes) * 1e-6, error, right ? "" : "   WRONG",
                one.best * 1e3, many.best * 1e3);
    std::fflush(stdout);
    return right;
}

std::string times(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f×", x);
    return text;
}

int run(int p, const std::string& word) {
    int wrong = 0;
    std::printf("\n%-56s %9s %9s %7s %9s %9s %9s %9s %9s\n", "ms, BFloat16, d = 128", "one GPU", "several", "faster",
                "must", "waited", "messages", "MB sent", "error");
    // One GPU first, all rows: the teams do not stand at the same time.
    const std::vector<Index> lengths{131072, 16384}, texts{131072, 32768}, caches{80000, 640000};
    const std::string ring = "causal softmax attention", back = "gradient of " + ring, query = "one query";
    struct All {
        std::vector<std::vector<Result>> linear, decoding;
        std::vector<Result> softmax;
        Result softmax_back;
    };
    const auto measure = [&](int ranks) {
        Team team(ranks);
        All all;
        for (const Index N : lengths) all.linear.push_back(linear(team, N, word));
        for (const Index N : texts) all.softmax.push_back(wanted(ring, word) ? softmax(team, N, false) : Result{});
        if (wanted(back, word)) all.softmax_back = softmax(team, texts.back(), true);
        for (const Index M : caches)
            all.decoding.push_back(wanted(query, word) ? decoding(team, M) : std::vector<Result>(3));
        return all;
    };
    const All one = measure(1), many = measure(p);
    const auto row = [&](const std::string& name, const Result& a, const Result& b, const std::string& must) {
        if (!a.outputs.empty()) wrong += !show(name, a, b, must);
    };
    for (std::size_t j = 0; j < lengths.size(); ++j)
        for (std::size_t i = 0; i < cases().size(); ++i)
            row(cases()[i].name + ", N = " + std::to_string(lengths[j]), one.linear[j][i], many.linear[j][i],
                times(lengths[j] > 20000 ? cases()[i].least : 1.35));
    for (std::size_t j = 0; j < texts.size(); ++j)
        row(ring + ", h = 16, N = " + std::to_string(texts[j]), one.softmax[j], many.softmax[j], j == 0 ? "62" : "4.6");
    row(back + ", h = 16, N = " + std::to_string(texts.back()), one.softmax_back, many.softmax_back, times(1.8));
    for (std::size_t j = 0; j < caches.size(); ++j)
        for (std::size_t i = 0; i < 3; ++i)
            row(query + ", " + std::to_string(caches[j]) + " keys, h = 16" +
                    (i == 0   ? ", a plain call"
                     : i == 1 ? ", a graph"
                              : ", a graph, a hundred in a row"),
                one.decoding[j][i], many.decoding[j][i], j == 0 ? "0.105" : "0.61");
    return wrong;
}

}  // namespace

int main(int argc, char** argv) try {
    if (!bench::on_gpu()) return 0;
    int count = 0;
    check(cudaGetDeviceCount(&count), "counting the GPUs");
    const int p = argc > 1 ? std::atoi(argv[1]) : count;
    if (p < 1 || p > count) {
        std::printf("p: %d, expected from 1 to %d, the number of GPUs\n", p, count);
        return 1;
    }
    return run(p, argc > 2 ? argv[2] : "") > 0;
} catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
