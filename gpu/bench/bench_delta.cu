// The gated delta rule on the GPU: checked against the recurrence in Float64 on the CPU first, then timed against the
// floor: the time to read q, k, v, g and β and to write o once at the copy bandwidth measured in the same run.
//
//   bench_delta                          checks, then times
//   bench_delta check | time | packed | lengths    one of them; a second argument picks the cases whose name contains
//   it
//
// packed: as many tokens as packed sequences in one call, with the bits of deterministic = "prefix" too, as a call for
// each of them, as a batch, and as one sequence. lengths: q and k divided by their lengths within the call, by kernels
// of their own before it, and not at all.

#include "gpu/around/norms.hpp"
#include "gpu/base/copy.hpp"
#include "gpu/bench/delta_inputs.cuh"
#include "gpu/bench/gated_problem.hpp"
#include "gpu/gated/delta.hpp"

using namespace causeway;
using namespace causeway::gpu;
using bench::GatedProblem;
using bench::GatedTensors;
using bench::Gates;
using std::int64_t;

namespace {

using causeway::gpu::Buffer, causeway::gpu::LengthOptions;  // core has others of these names

enum class Keys { independent, correlated };  // correlated: cosines about 0.5

// A problem of the family whose keys have length 1, which the delta rule needs.
struct Problem {
    std::string name;
    Type type = Type::BFloat16;
    int64_t B = 1, H = 1, N = 1;
    int dk = 128, dv = 128;
    Gates gates = Gates::usual;
    bool delta = true, state = false, token_major = false;
    int pad = 0, group = 1;
    Keys keys = Keys::independent;
    double beta_low = 0, beta_high = 1;

    GatedProblem gated() const {
        GatedProblem p{name, type, B, H, N, group, dk, dv, gates == Gates::none ? 0 : 1, delta};
        p.state = state, p.token_major = token_major, p.pad = pad;
        p.scale = name == "scale" ? 0.3 : 1;
        return p;
    }
    std::string text() const {
        char more[80];
        std::snprintf(more, sizeof more, " kind of gates=%d keys=%d beta=[%g,%g]", int(gates), int(keys), beta_low,
                      beta_high);
        return gated().text() + more;
    }
};

GatedTensors make(const Problem& p, std::uint64_t seed, cudaStream_t stream) {
    GatedTensors t = bench::make(p.gated(), seed, stream);
    const int64_t rows = p.B * p.H * p.N;
    const auto unit = [&](const Buffer& x, int64_t n, bool correlated) {
        const auto blocks = static_cast<unsigned>((n + 7) / 8);
        if (p.type == Type::BFloat16)
            bench::unit_rows<<<blocks, 256, 0, stream>>>(x.as<__nv_bfloat16>(), n, p.dk, p.dk + p.pad, correlated,
                                                         seed);
        else bench::unit_rows<<<blocks, 256, 0, stream>>>(x.as<__half>(), n, p.dk, p.dk + p.pad, correlated, seed);
    };
    unit(t.q, rows * p.group, false), unit(t.k, rows, p.keys == Keys::correlated);
    const auto blocks = static_cast<unsigned>((rows + 255) / 256);
    if (p.gates != Gates::none)
        bench::fill_gates<<<blocks, 256, 0, stream>>>(t.g.as<float>(), rows, p.N, p.gates, seed);
    if (p.delta)
        bench::fill_beta<<<blocks, 256, 0, stream>>>(t.beta.as<float>(), rows, static_cast<float>(p.beta_low),
                                                     static_cast<float>(p.beta_high), seed);
    check_launch("filling the inputs");
    t.give_workspace(delta_hopper_workspace(t.args), stream);
    return t;
}

// Of the relative Frobenius error; Float16 has eight times BFloat16's precision.
double bound(const Problem& p) {
    const double few = p.N * p.B * p.H * std::min(p.dk, p.dv) < 4096 ? 2.2 : 1;
    return few * (p.type == Type::BFloat16 ? 6e-3 : 1e-3);
}

// Runs once on poisoned output and compares up to `heads` heads of keys; prints what is wrong.
bool right(const Problem& p, int heads, cudaStream_t stream, double* seen, std::uint64_t seed) {
    bench::GatedErrors e;
    try {
        const GatedTensors t = make(p, seed, stream);
        delta_hopper(t.args, stream);
        check(cudaStreamSynchronize(stream), "running delta_hopper");
        e = bench::errors_of(p.gated(), t, heads, true);
    } catch (const Error& error) {
        std::printf("FAILED %s: %s\n", p.text().c_str(), error.what());
        return false;
    }
    *seen = std::max(*seen, e.outputs);
    const bool ok = e.outputs <= bound(p) && e.state <= 1.5 * bound(p);
    if (!ok)
        std::printf("WRONG %s: error %.3e, of the state %.3e, bound %.1e\n", p.text().c_str(), e.outputs, e.state,
                    bound(p));
    return ok;
}

bool check_all(const std::string& only, cudaStream_t stream) {
    bench::Tally tally;
    const auto run = [&](const Problem& p) {
        if (p.name.find(only) == std::string::npos) return;
        ++tally.count;
        tally.wrong += !right(p, 6, stream, &tally.outputs[int(p.type)], static_cast<std::uint64_t>(tally.count));
    };
    const Type bf16 = Type::BFloat16;
    for (const int64_t N : {1, 2, 17, 63, 64, 65, 97, 127, 128, 129, 1000, 4099}) {
        run({.name = "usual", .type = bf16, .H = 3, .N = N});
        run({.name = "no gate", .type = bf16, .H = 2, .N = N, .gates = Gates::none});
        run({.name = "state", .type = bf16, .B = 2, .H = 2, .N = N, .state = true});
        run({.name = "slow", .type = bf16, .H = 2, .N = N, .gates = Gates::slow, .state = true});
        run({.name = "strong", .type = bf16, .H = 2, .N = N, .gates = Gates::strong});
        run({.name = "resets", .type = bf16, .H = 2, .N = N, .gates = Gates::resets, .state = true});
        run({.name = "correlated", .type = bf16, .H = 2, .N = N, .keys = Keys::correlated, .beta_low = 0.9});
    }
    for (const int64_t N : {1, 65, 300}) {
        for (const Type type : {bf16, Type::Float16}) {
            for (const auto& [dk, dv] : {std::pair{128, 128},
                                         {64, 64},
                                         {64, 128},
                                         {128, 64},
                                         {96, 80},
                                         {8, 16},
                                         {72, 120},
                                         {128, 256},
                                         {64, 192}}) {
                run({.name = "shape", .type = type, .B = 2, .H = 2, .N = N, .dk = dk, .dv = dv, .state = true});
                run({.name = "strides",
                     .type = type,
                     .B = 2,
                     .H = 2,
                     .N = N,
                     .dk = dk,
                     .dv = dv,
                     .token_major = true,
                     .pad = 8});
                run({.name = "gates only",
                     .type = type,
                     .B = 1,
                     .H = 3,
                     .N = N,
                     .dk = dk,
                     .dv = dv,
                     .delta = false,
                     .state = true});
            }
            run({.name = "group", .type = type, .B = 2, .H = 2, .N = N, .state = true, .group = 3});
            run({.name = "scale", .type = type, .H = 2, .N = N});
            run({.name = "neither", .type = type, .H = 2, .N = N, .gates = Gates::none, .delta = false, .state = true});
        }
    }
    run({.name = "many heads", .type = bf16, .B = 5, .H = 40, .N = 200, .state = true});
    for (const int group : {1, 2}) {
        for (const auto& [dk, dv] : {std::pair{128, 128}, {64, 64}, {72, 200}, {128, 64}}) {
            for (const Gates gates : {Gates::none, Gates::slow, Gates::quarter}) {
                for (const bool delta : {true, false})
                    run({.name = "long",
                         .type = bf16,
                         .H = gates == Gates::quarter ? 4 : 2,
                         .N = 9000,
                         .dk = dk,
                         .dv = dv,
                         .gates = gates,
                         .delta = delta,
                         .state = true,
                         .group = group});
            }
        }
    }
    run({.name = "long no gate", .type = bf16, .H = 2, .N = 20000, .gates = Gates::none, .state = true});
    // So many heads that a thread block of the scan has 16 or 32 columns of the state.
    for (const int H : {12, 40}) {
        for (const auto& [dk, dv] : {std::pair{128, 128}, {64, 64}, {72, 200}})
            run({.name = "long", .type = bf16, .H = H, .N = 3000, .dk = dk, .dv = dv, .gates = Gates::none});
    }
    return tally.report();
}

struct Case {
    Problem problem;
    double must = 0, aim = 0;  // ms; 0: none set
};

bool time_all(const std::vector<Case>& cases, const std::string& only, cudaStream_t stream) {
    const double bandwidth = bench::copy_bandwidth(std::size_t{3} << 29, stream);
    std::printf("floor: q, k, v, g, beta read and o written once at %.3f TB/s\n", bandwidth * 1e-12);
    std::printf("%-34s %9s %9s %9s %9s %7s %7s %7s %8s %8s %9s\n", "case", "floor ms", "median", "best", "call",
                "x floor", "must ms", "aim ms", "GB/s", "TFLOP/s", "error");
    bool all = true;
    for (const Case& c : cases) {
        const Problem& p = c.problem;
        if (p.name.find(only) == std::string::npos) continue;
        double error = 0;
        all = right(p, 2, stream, &error, 77) && all;
        const double rows = static_cast<double>(p.B * p.H * p.N);
        const double bytes = rows * ((p.group + 1.0) * (p.dk + p.dv) * bytes_of(p.type) +
                                     (p.gates == Gates::none ? 0 : 4) + (p.delta ? 4 : 0));
        const int sets = static_cast<int>(std::clamp(1e9 / bytes, 1.0, 8.0));
        std::vector<GatedTensors> t;
        for (int i = 0; i < sets; ++i) t.push_back(make(p, 100 + static_cast<std::uint64_t>(i), stream));
        const bench::Times ms =
            bench::time([&](int i) { delta_hopper(t[static_cast<std::size_t>(i % sets)].args, stream); }, sets,
                        bytes > 1e9 ? 15 : 41, stream);
        const double floor = bytes / bandwidth * 1e3;
        const double flop = rows * (p.delta ? 64.0 * 2 * (2 * p.dk + 2 * p.dv) + 6.0 * p.dk * p.dv
                                            : 64.0 * 2 * (p.dk + p.dv) + 4.0 * p.dk * p.dv);
        const auto target = [](double x) { return x > 0 ? std::to_string(x).substr(0, 4) : std::string("-"); };
        std::printf("%-34s %9.4f %9.4f %9.4f %9.4f %7.3f %7s %7s %8.0f %8.1f %9.2e\n", p.name.c_str(), floor, ms.median,
                    ms.best, ms.call, ms.median / floor, target(c.must).c_str(), target(c.aim).c_str(),
                    bytes / ms.median * 1e-6, flop / ms.median * 1e-9, error);
    }
    return all;
}

// Milliseconds of one of several calls that are queued one after the other, launches and all: what a program sees that
// does not wait for each.
double each_of(const std::function<void()>& call, cudaStream_t stream) {
    constexpr int calls = 10;
    Event start, stop;
    std::vector<double> ms;
    for (int n = 0; n < 6; ++n) {
        start.record(stream);
        for (int i = 0; i < calls; ++i) call();
        stop.record(stream);
        ms.push_back(stop.since(start) / calls);
    }
    std::sort(ms.begin() + 1, ms.end());  // the first warms up
    return ms[ms.size() / 2];
}

struct Packed {
    int64_t sequences, tokens;  // of each
    bool state;
};

// `n` packed sequences of the problem's tokens, and what a call on each alone is given: gates and β of its own.
struct PackedTensors {
    GatedTensors all;
    Buffer state, alone_out, g, beta;
    std::vector<int64_t> offsets;
    std::vector<GatedArgs> alone;

    PackedTensors(const Problem& p, const Packed& c, cudaStream_t stream) : all(make(p, 5, stream)) {
        GatedArgs& a = all.args;
        const auto size = [](int64_t n) { return static_cast<std::size_t>(n); };
        const int64_t per_state = p.H * p.dk * p.dv;
        for (int64_t i = 0; i <= c.sequences; ++i) offsets.push_back(i * c.tokens);
        if (c.state) {
            state = Buffer(size(c.sequences * per_state) * 4);
            fill_normal(state.data(), Type::Float32, size(c.sequences * per_state), 77, 0.3, stream);
            a.state = state.as<float>();
        }
        alone_out = Buffer(all.o.bytes()), g = Buffer(all.g.bytes()), beta = Buffer(all.beta.bytes());
        for (int64_t i = 0; i < c.sequences; ++i) {
            GatedArgs one = a;
            const int64_t first = offsets[size(i)];
            const auto from = [&](const void* x, Strides s) { return from_token(x, p.type, s, first); };
            one.q = from(a.q, a.q_stride), one.k = from(a.k, a.k_stride), one.v = from(a.v, a.v_stride);
            one.o = from(alone_out.data(), a.o_stride), one.N = c.tokens;
            if (c.state) one.state = a.state + i * per_state;
            const auto cut = [&](const float* x, const Buffer& to) {
                float* const at = to.as<float>() + first * p.H;
                copy_rows({at, size(c.tokens) * 4, x + first, size(p.N) * 4, size(c.tokens) * 4, size(p.H)}, stream,
                          "cutting gates");
                return at;
            };
            if (a.g) one.g = cut(a.g, g);
            if (a.beta) one.beta = cut(a.beta, beta);
            alone.push_back(one);
        }
        all.give_workspace(std::max({delta_hopper_packed_workspace(a, sequences()), delta_hopper_workspace(alone[0]),
                                     delta_hopper_prefix_workspace(a, sequences())}),
                           stream);
        for (GatedArgs& one : alone) one.workspace = a.workspace;
    }
    Sequences sequences() const { return {offsets.data(), static_cast<int64_t>(offsets.size()) - 1}; }
};

std::vector<unsigned char> on_host(const Buffer& x, std::size_t most, cudaStream_t stream) {
    check(cudaStreamSynchronize(stream), "running delta_hopper");
    std::vector<unsigned char> out(std::min(x.bytes(), most));
    check(cudaMemcpy(out.data(), x.data(), out.size(), cudaMemcpyDeviceToHost), "copying from the GPU");
    return out;
}

bool time_packed(const std::vector<Problem>& problems, const std::string& only, cudaStream_t stream) {
    std::printf("%-34s %9s %9s %9s %9s %9s %6s\n", "packed", "ms", "prefix", "each", "batch", "one", "bits");
    bool all = true;
    for (const Problem& kind : problems) {
        for (const Packed& c : {Packed{1, 8192, true},
                                {8, 1024, true},
                                {8, 1024, false},
                                {64, 128, true},
                                {1000, 8, true},
                                {1000, 8, false},
                                {1, 100000, false}}) {
            Problem p = kind;
            p.name += " " + std::to_string(c.sequences) + "x" + std::to_string(c.tokens) + (c.state ? " states" : "");
            if (p.name.find(only) == std::string::npos) continue;
            p.N = c.sequences * c.tokens;
            const PackedTensors t(p, c, stream);
            const auto packed = [&] { delta_hopper_packed(t.all.args, t.sequences(), stream); };
            const auto each = [&] {
                for (const GatedArgs& one : t.alone) delta_hopper(one, stream);
            };
            // The same states to begin with for both.
            const auto states = [&] {
                if (c.state) fill_normal(t.state.data(), Type::Float32, t.state.bytes() / 4, 77, 0.3, stream);
            };
            constexpr std::size_t most = std::size_t{1} << 28;
            states(), packed();
            const auto O = on_host(t.all.o, most, stream), S = on_host(t.state, most, stream);
            states(), each();
            const bool same = O == on_host(t.alone_out, most, stream) && S == on_host(t.state, most, stream);
            all = all && same;
            const auto prefix = [&] { delta_hopper_prefix(t.all.args, t.sequences(), stream); };
            const double ms = each_of(packed, stream), of_prefix = each_of(prefix, stream),
                         of_each = each_of(each, stream);
            Problem batch = kind, one = kind;
            batch.B = c.sequences, batch.N = c.tokens, batch.state = c.state;
            one.N = p.N, one.state = c.state;
            const auto unpacked = [&](const Problem& x) {
                const GatedTensors u = make(x, 6, stream);
                return each_of([&] { delta_hopper(u.args, stream); }, stream);
            };
            std::printf("%-34s %9.4f %9.4f %9.4f %9.4f %9.4f %6s\n", p.name.c_str(), ms, of_prefix, of_each,
                        unpacked(batch), unpacked(one), same ? "same" : "OTHER");
        }
    }
    return all;
}

// x := x / √(Σ x² + ε) of contiguous rows, into `to`.
void divide_by_lengths(const void* x, const Buffer& to, Type type, int64_t rows, int width, cudaStream_t stream) {
    around::NormArgs n{};
    n.x = x, n.type = type, n.rows = rows, n.width = width, n.eps = static_cast<float>(LengthOptions().eps);
    around::norm(n, to.data(), stream);
}

bool time_lengths(const std::vector<Problem>& problems, const std::string& only, cudaStream_t stream) {
    std::printf("%-34s %9s %9s %9s %9s %9s\n", "lengths", "without", "within", "before", "norms", "apart");
    bool all = true;
    for (const Problem& p : problems) {
        if (p.name.find(only) == std::string::npos) continue;
        const GatedTensors t = make(p, 9, stream);
        const int64_t keys = p.B * p.H * p.N, queries = keys * p.group;
        // Rows of length 2^-4 ... 2^4, so that dividing by it matters.
        const auto stretch = [&](const Buffer& x, int64_t rows) {
            bench::stretch_rows<<<static_cast<unsigned>((rows + 7) / 8), 256, 0, stream>>>(x.as<__nv_bfloat16>(), rows,
                                                                                           p.dk);
            check_launch("stretching rows");
        };
        stretch(t.q, queries), stretch(t.k, keys);
        const Buffer unit_q(t.q.bytes()), unit_k(t.k.bytes()), o(t.o.bytes());
        GatedArgs within = t.args, before = t.args;
        within.length_eps = static_cast<float>(LengthOptions().eps);
        before.q = unit_q.data(), before.k = unit_k.data(), before.o = o.data();
        const auto norms = [&] {
            divide_by_lengths(t.args.q, unit_q, p.type, queries, p.dk, stream);
            divide_by_lengths(t.args.k, unit_k, p.type, keys, p.dk, stream);
        };
        const auto run_within = [&] { delta_hopper(within, stream); };
        const auto run_before = [&] { norms(), delta_hopper(before, stream); };
        run_within(), run_before();
        check(cudaStreamSynchronize(stream), "running delta_hopper");
        // All columns of the first head, beside what kernels of their own give.
        const auto head = [&](const Buffer& x) { return bench::numbers(x.data(), p.type, 0, p.N * p.dv); };
        const double apart = bench::deviation(head(t.o), head(o)).relative();
        all = all && apart <= bound(p);
        const auto ms = [&](auto&& call) { return each_of(call, stream); };
        std::printf("%-34s %9.4f %9.4f %9.4f %9.4f %9.2e\n", p.name.c_str(), ms([&] { delta_hopper(before, stream); }),
                    ms(run_within), ms(run_before), ms(norms), apart);
    }
    return all;
}

}  // namespace

int main(int argc, char** argv) try {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what was found stays known if the rest does not end
    if (!bench::on_gpu()) return 2;
    const std::string what = argc > 1 ? argv[1] : "", only = argc > 2 ? argv[2] : "";
    Stream stream;
    bool ok = true;
    if (what.empty() || what == "check") ok = check_all(what == "check" ? only : "", stream);
    if (what.empty() || what == "packed") {
        ok = time_packed({{.name = "gated delta", .H = 32},
                          {.name = "delta", .H = 32, .gates = Gates::none},
                          {.name = "quarter", .H = 32, .gates = Gates::quarter}},
                         only, stream) &&
             ok;
    }
    if (what.empty() || what == "lengths") {
        ok = time_lengths({{.name = "gated delta N=8192", .H = 32, .N = 8192},
                           {.name = "gated delta N=100000", .H = 32, .N = 100000},
                           {.name = "h=16 of q and k, 32 of v, N=8192", .B = 16, .H = 2, .N = 8192},
                           {.name = "quarter h=32 N=8192", .H = 32, .N = 8192, .gates = Gates::quarter},
                           {.name = "delta N=8192", .H = 32, .N = 8192, .gates = Gates::none},
                           {.name = "d=64 gated delta N=8192", .H = 32, .N = 8192, .dk = 64, .dv = 64}},
                          only, stream) &&
             ok;
    }
    if (what.empty() || what == "time") {
        const std::vector<Case> cases = {
            {{.name = "gated delta N=100000", .H = 32, .N = 100000}, 2.2, 1.2},
            {{.name = "gated delta N=8192", .H = 32, .N = 8192}, 0.22, 0.12},
            {{.name = "gated delta B=4 N=8192", .B = 4, .H = 32, .N = 8192}},
            {{.name = "gated delta h=8 N=100000", .H = 8, .N = 100000}},
            {{.name = "slow gates N=100000", .H = 32, .N = 100000, .gates = Gates::slow}},
            {{.name = "delta N=100000", .H = 32, .N = 100000, .gates = Gates::none}, 1.7, 1.2},
            {{.name = "delta N=8192", .H = 32, .N = 8192, .gates = Gates::none}, 0, 0.22},
            {{.name = "delta h=4 N=100000", .H = 4, .N = 100000, .gates = Gates::none}, 0.6, 0.35},
            {{.name = "delta h=8 N=8192", .H = 8, .N = 8192, .gates = Gates::none}},
            {{.name = "delta h=1 N=100000", .H = 1, .N = 100000, .gates = Gates::none}},
            {{.name = "quarter h=8 N=8192", .H = 8, .N = 8192, .gates = Gates::quarter}},
            {{.name = "quarter h=8 N=32768", .H = 8, .N = 32768, .gates = Gates::quarter}},
            {{.name = "quarter h=8 N=100000", .H = 8, .N = 100000, .gates = Gates::quarter}},
            {{.name = "quarter h=32 N=8192", .H = 32, .N = 8192, .gates = Gates::quarter}},
            {{.name = "quarter h=32 N=100000", .H = 32, .N = 100000, .gates = Gates::quarter}},
            {{.name = "f16 gated delta N=100000", .type = Type::Float16, .H = 32, .N = 100000}},
            {{.name = "gated N=100000", .H = 32, .N = 100000, .delta = false}},
            {{.name = "d=64 gated delta N=100000", .H = 32, .N = 100000, .dk = 64, .dv = 64}},
        };
        ok = time_all(cases, only, stream) && ok;
    }
    return ok ? 0 : 1;
} catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
