// Gradients of the gated and delta-rule family. In the same run two identities in Float64 first, for the
// function f = <O, dO> + <S_N, dS>: it is linear in q up to <S_N, dS>, and linear in v and the first state together, so
//   <q, dq> = <O, dO>  and  <v, dv> + <S_0, dS_0> = f;
// agreement element by element is the tests' part. Then times, beside the forward pass and N·dk·dv multiply-adds for
// each product with a state that the formulas have.
#include "gpu/bench/gated_problem.hpp"
#include "gpu/gated/portable.hpp"
#include "gpu/gradient/gated.hpp"

using namespace causeway;
using namespace causeway::gpu;
using bench::GatedProblem;
using bench::GatedTensors;
using std::int64_t;

namespace {

struct GradientTensors {
    GatedTensors in;
    Buffer dO, dq, dk, dv, dg, dbeta, dstate, last, workspace, forward_workspace;
    GatedGradArgs args;
};

GradientTensors make_gradient(const GatedProblem& p, std::uint64_t seed, cudaStream_t stream) {
    GradientTensors t;
    t.in = bench::make(p, seed, stream);
    const auto like = [](const Buffer& x) { return Buffer(x.bytes()); };
    t.dO = like(t.in.o), t.dq = like(t.in.q), t.dk = like(t.in.k), t.dv = like(t.in.v), t.dg = like(t.in.g),
    t.dbeta = like(t.in.beta);
    t.dstate = Buffer(static_cast<std::size_t>(4 * p.B * p.H * p.dk * p.dv)), t.last = like(t.in.state);
    bench::fill_normal(t.dO.data(), p.type, t.dO.bytes() / static_cast<std::size_t>(bytes_of(p.type)), 16 * seed + 9, 1,
                       stream);
    if (p.state) bench::fill_normal(t.last.data(), Type::Float32, t.last.bytes() / 4, 16 * seed + 10, 1, stream);
    for (const Buffer* x : {&t.dq, &t.dk, &t.dv}) bench::poison(*x, stream);
    GatedGradArgs& a = t.args;
    a.in = t.in.args;
    a.dO = t.dO.data(), a.dq = t.dq.data(), a.dk = t.dk.data(), a.dv = t.dv.data();
    if (p.gates > 0) a.dg = t.dg.as<float>();
    if (p.delta) a.dbeta = t.dbeta.as<float>();
    if (p.state) a.dstate_in = t.last.as<float>();
    a.dstate = t.dstate.as<float>();
    t.workspace = Buffer(gated_gradient_workspace(a)),
    t.forward_workspace = Buffer(gated_portable_workspace(t.in.args));
    a.in.workspace = {t.workspace.data(), t.workspace.bytes()};
    t.in.args.workspace = {t.forward_workspace.data(), t.forward_workspace.bytes()};
    return t;
}

// Of the first head of keys: the greater relative difference of the two identities.
double difference(const GatedProblem& p, cudaStream_t stream) {
    const GradientTensors t = make_gradient(p, 7, stream);
    gated_gradient(t.args, stream);
    gated_portable(t.in.args, stream);
    check(cudaStreamSynchronize(stream), "gated_gradient");
    const auto inner = [](const std::vector<double>& x, const std::vector<double>& y) {
        double sum = 0;
        for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
        return sum;
    };
    const GatedArgs& a = t.in.args;
    double through_q = 0, outputs = 0, size = 0;
    for (int i = 0; i < p.group; ++i) {
        const auto q = bench::rows(a.q, p.type, a.q_stride, 0, i, p.N, p.dk),
                   dq = bench::rows(t.args.dq, p.type, a.q_stride, 0, i, p.N, p.dk);
        const auto o = bench::rows(a.o, p.type, a.o_stride, 0, i, p.N, p.dv),
                   dO = bench::rows(t.args.dO, p.type, a.o_stride, 0, i, p.N, p.dv);
        through_q += inner(q, dq), outputs += inner(o, dO),
            size += std::sqrt(inner(o, o) * inner(dO, dO) / static_cast<double>(o.size()));
    }
    const auto v = bench::rows(a.v, p.type, a.v_stride, 0, 0, p.N, p.dv),
               dv = bench::rows(t.args.dv, p.type, a.v_stride, 0, 0, p.N, p.dv);
    const int n = p.dk * p.dv;
    const auto state = [&](const Buffer& x) { return bench::rows(x.data(), Type::Float32, {0, n, n}, 0, 0, 1, n); };
    const double f = outputs + (p.state ? inner(state(t.in.state), state(t.last)) : 0),
                 through_v = inner(v, dv) + (p.state ? inner(state(t.in.first_state), state(t.dstate)) : 0);
    return std::max(std::abs(through_q - outputs), std::abs(through_v - f)) / size;
}

}  // namespace

int main(int argc, char** argv) try {
    if (!bench::on_gpu()) return 2;
    const std::string only = argc > 1 ? argv[1] : "";
    Stream stream;
    int clock = 0, at = 0;
    check(cudaGetDevice(&at), "asking for the device");
    check(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, at), "asking for the clock");
    const double rate = 128.0 * device().multiprocessors * clock * 1e3;
    std::printf("%.1f T multiply-adds/s\n", rate * 1e-12);
    std::printf("%-32s %9s %9s %9s %9s %10s %10s\n", "case", "FMA ms", "forward", "backward", "/ FMA", "workspace",
                "identities");
    const Type bf16 = Type::BFloat16, f16 = Type::Float16, f32 = Type::Float32;
    const GatedProblem cases[] = {
        {"linear N=8192", bf16, 1, 32, 8192},
        {.name = "linear, no states N=8192", .H = 32, .N = 8192, .state = false},
        {"gated N=8192", bf16, 1, 32, 8192, 1, 128, 128, 1},
        {"channels N=8192", bf16, 1, 32, 8192, 1, 128, 128, 128},
        {"delta N=8192", bf16, 1, 32, 8192, 1, 128, 128, 0, true},
        {"gated delta N=8192", bf16, 1, 32, 8192, 1, 128, 128, 1, true},
        {"channels delta N=8192", bf16, 1, 32, 8192, 1, 128, 128, 128, true},
        {"f32 gated delta N=8192", f32, 1, 32, 8192, 1, 128, 128, 1, true},
        {"f32 linear N=8192", f32, 1, 32, 8192},
        {"f32 channels delta N=8192", f32, 1, 32, 8192, 1, 128, 128, 128, true},
        {"f16 gated delta N=8192", f16, 1, 32, 8192, 1, 128, 128, 1, true},
        {.name = "f16 gated d=64 N=8192", .type = f16, .H = 32, .N = 8192, .dk = 64, .dv = 64, .gates = 1},
        {"gated delta group=4 N=8192", bf16, 1, 8, 8192, 4, 128, 128, 1, true},
        {"gated delta d=64 N=8192", bf16, 1, 32, 8192, 1, 64, 64, 1, true},
    };
    bool ok = true;
    for (const GatedProblem& p : cases) {
        if (p.name.find(only) == std::string::npos) continue;
        const double e = difference(p, stream);
        // Sums of products of rounded numbers: a relative rounding of each divided by the root of their count stays far
        // below.
        const bool right = e <= (p.type == f32 ? 1e-4 : 2e-2);
        ok = ok && right;
        const GradientTensors t = make_gradient(p, 3, stream);
        const bench::Times forward = bench::time([&](int) { gated_portable(t.in.args, stream); }, 1, 5, stream);
        const bench::Times backward = bench::time([&](int) { gated_gradient(t.args, stream); }, 1, 5, stream);
        // Forwards K S (delta) and Kᵀ U; backwards K E, Qᵀ D, Kᵀ dV (delta); D S, U E, dV S (delta).
        const double products =
            (2.0 + 2.0 * p.group + (p.delta ? 3.0 : 0.0) + 1.0) * static_cast<double>(p.B * p.H * p.N) * p.dk * p.dv;
        const double floor = products / rate * 1e3;
        std::printf("%-32s %9.3f %9.3f %9.3f %9.2f %7.1f MB %10.2e%s\n", p.name.c_str(), floor, forward.median,
                    backward.median, backward.median / floor, static_cast<double>(t.workspace.bytes()) * 1e-6, e,
                    right ? "" : " WRONG");
        std::fflush(stdout);
    }
    return ok ? 0 : 1;
} catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
