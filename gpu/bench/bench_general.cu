// The general rule S ← (diag(a) - u wᵀ) S + k vᵀ: checked against the recurrence in Float64 first, then timed against
// two floors: the time to read q, k, v, u, w, a and write o once at the copy bandwidth of the same run, and the
// multiply-adds of the recurrence (for what is written, for each query, for what w reads and for what is taken out) at
// the rate of the FMA units.
//
//   bench_general                 checks, then times
//   bench_general check | time    one of them; a second argument picks the cases whose name contains it
#include <algorithm>

#include "gpu/bench/compare.hpp"
#include "gpu/gated/general/chunks.hpp"
#include "gpu/gated/general/recurrent.hpp"
#include "gpu/gradient/general_recurrent.hpp"

using namespace causeway;
using namespace causeway::gpu;
using std::int64_t;

namespace {

struct Problem {
    std::string name;
    Type type = Type::BFloat16;
    int64_t B = 1, H = 1, N = 1;
    int group = 1, dk = 128, dv = 128;
    int gates = 0;  // 0, 1 or dk
    bool erases = true;
    double decay = 0.1;     // factors are e^(-decay |normal|)
    double reset = 0;       // share of factors of 0
    int64_t sequences = 0;  // packed, of N / sequences tokens each and what is left over

    std::string text() const {
        char line[200];
        std::snprintf(
            line, sizeof line,
            "%s %s B=%lld H=%lld group=%d N=%lld dk=%d dv=%d gates=%d erases=%d decay=%g reset=%g sequences=%lld",
            name.c_str(), bench::name_of(type), (long long)B, (long long)H, group, (long long)N, dk, dv, gates,
            int(erases), decay, reset, (long long)sequences);
        return line;
    }
};

__global__ void make_factors(float* a, std::size_t n, float decay, float reset) {
    const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
    for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n; i += step) {
        const auto hash = static_cast<uint32_t>((i * 2654435761u) ^ (i >> 7) * 40503u) >> 8;
        a[i] = static_cast<float>(hash & 0xFFFF) * 0x1p-16f < reset ? 0.0f : expf(-decay * fabsf(a[i]));
    }
}

struct Tensors {
    Buffer q, k, v, u, w, a, o, state, first_state, workspace;
    GeneralArgs args;
    std::vector<int64_t> offsets;

    Sequences sequences() const {
        return {offsets.data(), offsets.empty() ? 0 : static_cast<int64_t>(offsets.size()) - 1};
    }
};

Tensors make(const Problem& p, std::uint64_t seed, cudaStream_t stream) {
    Tensors t;
    const auto size = [](int64_t n) { return static_cast<std::size_t>(n); };
    const int64_t HQ = p.H * p.group;
    const auto drawn = [&](int64_t heads, int width, std::uint64_t s, double scale) {
        const std::size_t n = size(p.B * heads * p.N * width);
        Buffer x(n * size(bytes_of(p.type)));
        fill_normal(x.data(), p.type, n, 16 * seed + s, scale, stream);
        return x;
    };
    const double unit = 1 / std::sqrt(p.dk);
    t.q = drawn(HQ, p.dk, 0, unit), t.k = drawn(p.H, p.dk, 1, unit), t.v = drawn(p.H, p.dv, 2, 1);
    t.o = drawn(HQ, p.dv, 3, 1);
    bench::poison(t.o, stream);
    // u is half of w: the same numbers, drawn again.
    if (p.erases) t.w = drawn(p.H, p.dk, 4, unit), t.u = drawn(p.H, p.dk, 4, 0.5 * unit);
    const auto input = [&](const Buffer& x, int64_t heads, int width) {
        return GeneralInput{x.data(), p.type, contiguous(heads, p.N, width), 1};
    };
    GeneralArgs& a = t.args;
    a.q = input(t.q, HQ, p.dk), a.k = input(t.k, p.H, p.dk), a.v = input(t.v, p.H, p.dv);
    if (p.erases) a.u = input(t.u, p.H, p.dk), a.w = input(t.w, p.H, p.dk);
    a.o = t.o.data(), a.type = p.type, a.o_stride = contiguous(HQ, p.N, p.dv);
    a.B = p.B, a.H = p.H, a.N = p.N, a.group = p.group, a.dk = p.dk, a.dv = p.dv, a.gates = p.gates;
    if (p.gates > 0) {
        const std::size_t n = size(p.B * p.H * p.N * p.gates);
        t.a = Buffer(4 * n);
        fill_normal(t.a.data(), Type::Float32, n, 16 * seed + 5, 1, stream);
        make_factors<<<1024, 256, 0, stream>>>(t.a.as<float>(), n, static_cast<float>(p.decay),
                                               static_cast<float>(p.reset));
        a.a = {t.a.data(), Type::Float32, contiguous(p.H, p.N, p.gates), 1};
    }
    for (int64_t i = 0; p.sequences > 0 && i <= p.sequences; ++i)
        t.offsets.push_back(i < p.sequences ? i * (p.N / p.sequences) : p.N);
    const std::size_t states = size(std::max<int64_t>(p.sequences, p.B) * p.H * p.dk * p.dv);
    t.state = Buffer(4 * states), t.first_state = Buffer(4 * states);
    fill_normal(t.state.data(), Type::Float32, states, 16 * seed + 6, 0.3, stream);
    check(cudaMemcpyAsync(t.first_state.data(), t.state.data(), 4 * states, cudaMemcpyDeviceToDevice, stream),
          "copying the states");
    a.state = t.state.as<float>();
    check_launch("making a problem");
    return t;
}

struct Form {
    const char* name;
    std::size_t (*workspace)(const GeneralArgs&, const Sequences&);
    void (*run)(const GeneralArgs&, const Sequences&, cudaStream_t);
};
constexpr Form forms[] = {{"chunks", general_chunks_workspace, general_chunks},
                          {"recurrent", general_recurrent_workspace, general_recurrent}};

void give_workspace(Tensors& t, const Form& form, cudaStream_t stream) {
    t.workspace = Buffer(form.workspace(t.args, t.sequences()));
    bench::poison(t.workspace, stream);
    t.args.workspace = {t.workspace.data(), t.workspace.bytes()};
}

struct Found {
    bench::Deviation outputs, state;
    std::string first;  // the first output that is far off, for the eye
};

// Of one head, the recurrence in Float64 over its sequences.
Found deviation(const Problem& p, const Tensors& t, int64_t b, int64_t h) {
    const GeneralArgs& a = t.args;
    const auto rows = [&](const GeneralInput& x, int64_t head, int width) {
        return bench::rows(x.data, x.type, x.stride, b, head, p.N, width);
    };
    const auto k = rows(a.k, h, p.dk), v = rows(a.v, h, p.dv);
    const auto u = p.erases ? rows(a.u, h, p.dk) : bench::Numbers(),
               w = p.erases ? rows(a.w, h, p.dk) : bench::Numbers();
    const auto f = p.gates > 0 ? rows(a.a, h, p.gates) : bench::Numbers();
    std::vector<bench::Numbers> q, o;
    for (int i = 0; i < p.group; ++i) {
        q.push_back(rows(a.q, h * p.group + i, p.dk));
        o.push_back(bench::rows(a.o, p.type, a.o_stride, b, h * p.group + i, p.N, p.dv));
    }
    Found x;
    std::vector<int64_t> offsets = t.offsets;
    if (offsets.empty()) offsets = {0, p.N};
    const int64_t elements = int64_t{p.dk} * p.dv;
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
        const int64_t place = t.offsets.empty() ? b * p.H + h : static_cast<int64_t>(s) * p.H + h;
        const auto state = [&](const Buffer& from) {
            return bench::rows(from.data(), Type::Float32, {0, elements, elements}, 0, place, 1,
                               static_cast<int>(elements));
        };
        auto S = state(t.first_state);
        std::vector<double> y(static_cast<std::size_t>(p.dv));
        for (int64_t n = offsets[s]; n < offsets[s + 1]; ++n) {
            std::fill(y.begin(), y.end(), 0.0);
            for (int i = 0; p.erases && i < p.dk; ++i)
                for (int j = 0; j < p.dv; ++j) y[j] += w[n * p.dk + i] * S[i * p.dv + j];
            double size = 0;
            for (int i = 0; i < p.dk; ++i) {
                const double factor = p.gates == 0 ? 1 : f[n * p.gates + (p.gates > 1 ? i : 0)],
                             out = p.erases ? u[n * p.dk + i] : 0;
                for (int j = 0; j < p.dv; ++j) {
                    double& e = S[i * p.dv + j];
                    e = factor * e - out * y[j] + k[n * p.dk + i] * v[n * p.dv + j];
                    size += e * e;
                }
            }
            for (int query = 0; query < p.group; ++query) {
                double query_size = 0;
                for (int i = 0; i < p.dk; ++i) query_size += q[query][n * p.dk + i] * q[query][n * p.dk + i];
                const double usual = query_size * size / p.dk;
                x.outputs.least += usual;
                std::fill(y.begin(), y.end(), 0.0);
                for (int i = 0; i < p.dk; ++i)
                    for (int j = 0; j < p.dv; ++j) y[j] += q[query][n * p.dk + i] * S[i * p.dv + j];
                for (int j = 0; j < p.dv; ++j) {
                    const double got = o[query][n * p.dv + j];
                    x.outputs.add(got, y[j]);
                    if (x.first.empty() && !(std::abs(got - y[j]) <= 0.1 * std::sqrt(usual / p.dv) + 1e-9)) {
                        char line[160];
                        std::snprintf(line, sizeof line,
                                      "sequence %zu head %lld query %d token %lld column %d: %g, expected %g", s,
                                      (long long)h, query, (long long)n, j, got, y[j]);
                        x.first = line;
                    }
                }
            }
        }
        const auto last = bench::deviation(state(t.state), S);
        x.state.error += last.error, x.state.norm += last.norm, x.state.clean = x.state.clean && last.clean;
    }
    return x;
}

double bound(const Problem& p, const Form& form) {
    if (p.type == Type::Float32) return 4e-6;
    if (p.type == Type::Float16) return 4e-4;
    return &form == forms ? 8e-3 : 2.9e-3;
}
double state_bound(const Problem& p, const Form& form) {
    return p.type == Type::BFloat16 && &form == forms ? 8e-3 : 4e-6;
}

struct Errors {
    double outputs = 0, state = 0;
};

bool right(const Problem& p, const Form& form, int heads, std::uint64_t seed, cudaStream_t stream, Errors* seen) {
    Errors e;
    std::string first;
    try {
        Tensors t = make(p, seed, stream);
        give_workspace(t, form, stream);
        form.run(t.args, t.sequences(), stream);
        check(cudaStreamSynchronize(stream), form.name);
        const auto chosen = bench::chosen_heads(p.B * p.H, heads);
        std::vector<Found> found(chosen.size());
        bench::on_threads(chosen.size(),
                          [&](std::size_t i) { found[i] = deviation(p, t, chosen[i] / p.H, chosen[i] % p.H); });
        for (const Found& x : found) {
            e.outputs = std::max(e.outputs, x.outputs.relative()), e.state = std::max(e.state, x.state.relative());
            if (first.empty()) first = x.first;
        }
    } catch (const Error& error) {
        std::printf("FAILED %s %s: %s\n", form.name, p.text().c_str(), error.what());
        return false;
    }
    *seen = e;
    const bool ok = e.outputs <= bound(p, form) && e.state <= state_bound(p, form);
    if (!ok)
        std::printf("WRONG %s %s: outputs %.3e (bound %.1e), state %.3e (%.1e); %s\n", form.name, p.text().c_str(),
                    e.outputs, bound(p, form), e.state, state_bound(p, form), first.c_str());
    return ok;
}

bool check_all(const std::string& only, cudaStream_t stream) {
    bool all = true;
    for (const Form& form : forms) {
        bench::Tally tally;
        const auto run = [&](const Problem& p) {
            if (p.name.find(only) == std::string::npos) return;
            Errors seen;
            tally.wrong += !right(p, form, 4, static_cast<std::uint64_t>(++tally.count), stream, &seen);
            tally.add(p.type, seen.outputs, seen.state);
        };
        const std::pair<int, int> shapes[] = {{128, 128}, {64, 64}, {256, 256}, {64, 128}, {96, 80}, {3, 5}, {200, 33}};
        for (const Type type : {Type::Float32, Type::BFloat16, Type::Float16}) {
            for (const bool erases : {false, true}) {
                for (const int gates : {0, 1, 128}) {
                    for (const int64_t N : {1, 2, 17, 64, 97})
                        run({"length", type, 2, 2, N, 1, 128, 128, gates, erases});
                    run({"strong", type, 1, 2, 300, 1, 128, 64, gates, erases, 20.0});
                    run({"reset", type, 1, 2, 300, 2, 128, 64, gates, erases, 0.3, 0.1});
                    run({"long", type, 1, 2, 9000, 1, 128, 32, gates, erases, 0.02});
                    run({"packed", type, 1, 2, 500, 1, 128, 64, gates, erases, 0.1, 0, 9});
                    for (const auto& [dk, dv] : shapes)
                        run({"shape", type, 2, 2, 100, dk == 64 ? 3 : 1, dk, dv, gates > 1 ? dk : gates, erases});
                }
            }
        }
        all = tally.report(form.name) && all;
    }
    return all;
}

// The gradient, which the tests check.
void time_gradient(const Problem& p, cudaStream_t stream) {
    Tensors t = make(p, 100, stream);
    const auto floats = [](int64_t n) { return Buffer(static_cast<std::size_t>(n) * 4); };
    const int64_t rows = p.B * p.H * p.N;
    const Buffer dq = floats(rows * p.group * p.dk), dk = floats(rows * p.dk), dv = floats(rows * p.dv),
                 du = floats(rows * p.dk), dw = floats(rows * p.dk), da = floats(rows * std::max(p.gates, 1));
    GeneralGradArgs a;
    a.in = t.args;
    a.dO = {t.v.data(), p.type, contiguous(p.H, p.N, p.dv), p.group};
    a.rows = p.N;
    a.dq = dq.as<float>(), a.dk = dk.as<float>(), a.dv = dv.as<float>(), a.dstate = t.first_state.as<float>();
    a.du = du.as<float>(), a.dw = dw.as<float>(), a.da = da.as<float>();
    t.workspace = Buffer(general_recurrent_gradient_workspace(a));
    a.in.workspace = {t.workspace.data(), t.workspace.bytes()};
    const auto ms = bench::time([&](int) { general_recurrent_gradient(a, stream); }, 1, 5, stream);
    std::printf("%-32s %-10s %39.4f %9.4f %19s %7.1f MB\n", p.name.c_str(), "gradient", ms.median, ms.call, "",
                static_cast<double>(t.workspace.bytes()) * 1e-6);
}

// general_chunks in every shape.
void time_shapes(const Problem& p, cudaStream_t stream) {
    for (const int64_t tokens : {8192, 16384, 32768, 65536, 262144}) {
        for (const int columns : {32, 64}) {
            Tensors t = make(p, 100, stream);
            const GeneralShape shape{tokens, columns};
            t.workspace = Buffer(general_chunks_shaped_workspace(t.args, t.sequences(), shape));
            t.args.workspace = {t.workspace.data(), t.workspace.bytes()};
            const auto call = [&](int) { general_chunks_shaped(t.args, t.sequences(), shape, stream); };
            std::printf("  %lld tokens between launches, %d columns: %.4f ms, %.1f MB\n", (long long)tokens, columns,
                        bench::time(call, 1, 7, stream).median, static_cast<double>(t.workspace.bytes()) * 1e-6);
        }
    }
}

bool time_all(const std::string& only, cudaStream_t stream) {
    const double bandwidth = bench::copy_bandwidth(std::size_t{1} << 30, stream);
    cudaDeviceProp properties;
    int clock = 0, at = 0;
    check(cudaGetDevice(&at), "asking for the device");
    check(cudaGetDeviceProperties(&properties, at), "asking for the device's properties");
    check(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, at), "asking for the clock");
    const double rate = 128.0 * properties.multiProcessorCount * clock * 1e3;  // multiply-adds a second
    std::printf("floors: %.3f TB/s; %.1f T multiply-adds/s (128 a clock and multiprocessor, %.2f GHz)\n",
                bandwidth * 1e-12, rate * 1e-12, clock * 1e-6);
    std::printf("%-32s %-10s %9s %9s %9s %9s %9s %9s %10s\n", "case", "form", "bytes ms", "FMA ms", "median", "call",
                "error", "state", "workspace");
    const Type bf16 = Type::BFloat16, f32 = Type::Float32, f16 = Type::Float16;
    const Problem cases[] = {
        {"channels N=8192", bf16, 1, 32, 8192, 1, 128, 128, 128},
        {"head N=8192", bf16, 1, 32, 8192, 1, 128, 128, 1},
        {"no factors N=8192", bf16, 1, 32, 8192},
        {"nothing out, channels N=8192", bf16, 1, 32, 8192, 1, 128, 128, 128, false},
        {"channels N=2048 B=4", bf16, 4, 32, 2048, 1, 128, 128, 128},
        {"channels h=8 N=32768", bf16, 1, 8, 32768, 1, 128, 128, 128},
        {"channels group=4 h=8 N=8192", bf16, 1, 8, 8192, 4, 128, 128, 128},
        {"channels d=64 N=8192", bf16, 1, 32, 8192, 1, 64, 64, 64},
        {"channels d=256 h=16 N=8192", bf16, 1, 16, 8192, 1, 256, 256, 256},
        {"channels packed 64 N=8192", bf16, 1, 32, 8192, 1, 128, 128, 128, true, 0.1, 0, 64},
        {"f32 channels N=8192", f32, 1, 32, 8192, 1, 128, 128, 128},
        {"f32 no factors N=8192", f32, 1, 32, 8192},
        {"f16 channels N=8192", f16, 1, 32, 8192, 1, 128, 128, 128},
    };
    bool all = true;
    for (const Problem& p : cases) {
        if (p.name.find(only) == std::string::npos) continue;
        for (const Form& form : forms) {
            if (&form == forms && p.name == cases[0].name) time_shapes(p, stream);
            Errors e;
            all = right(p, form, 2, 77, stream, &e) && all;
            Tensors t = make(p, 100, stream);
            give_workspace(t, form, stream);
            const auto call = [&](int) { form.run(t.args, t.sequences(), stream); };
            const auto milliseconds = [&] {  // of packed sequences, whose lists no graph may copy
                if (p.sequences == 0) return bench::time(call, 1, 7, stream);
                Event start, stop;
                std::vector<double> ms;
                for (int i = -2; i < 7; ++i) {
                    start.record(stream), call(0), stop.record(stream);
                    const double x = stop.since(start);
                    if (i >= 0) ms.push_back(x);
                }
                std::sort(ms.begin(), ms.end());
                return bench::Times{ms[3], ms[0], ms[3]};
            }();
            const double tokens = static_cast<double>(p.B * p.H * p.N), kept = p.erases ? 2.0 : 0.0;
            const double bytes =
                tokens * (((p.group + 1.0 + kept) * p.dk + (p.group + 1.0) * p.dv) * bytes_of(p.type) + 4.0 * p.gates);
            const double products = tokens * p.dk * p.dv * (1.0 + p.group + kept);
            std::printf("%-32s %-10s %9.4f %9.4f %9.4f %9.4f %9.2e %9.2e %7.1f MB\n", p.name.c_str(), form.name,
                        bytes / bandwidth * 1e3, products / rate * 1e3, milliseconds.median, milliseconds.call,
                        e.outputs, e.state, static_cast<double>(t.workspace.bytes()) * 1e-6);
            std::fflush(stdout);
        }
        if (p.sequences == 0 && p.erases) time_gradient(p, stream);
    }
    return all;
}

}  // namespace

int main(int argc, char** argv) try {
    if (!bench::on_gpu()) return 2;
    const std::string what = argc > 1 ? argv[1] : "", only = argc > 2 ? argv[2] : "";
    Stream stream;
    bool ok = true;
    if (what != "time") ok = check_all(what == "check" ? only : "", stream);
    if (what != "check") ok = time_all(only, stream) && ok;
    return ok ? 0 : 1;
} catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
