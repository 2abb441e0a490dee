// The feature maps on the GPU: checked on short inputs against core's in Float64 first, then timed against the floor, q
// and k read and B and C written once at the copy bandwidth measured in the same run.
//
//   bench_features

#include "core/lowrank/lowrank.hpp"
#include "gpu/bench/compare.hpp"
#include "gpu/features/features.hpp"
#include "gpu/features/low_rank.hpp"

using namespace causeway;
using namespace causeway::gpu;
using std::int64_t;

namespace {

// Float32 q and k of this width as tensors, of the size that the bench gives them.
gpu::Tensor drawn(int d, std::uint64_t seed, cudaStream_t stream) {
    gpu::Tensor x(DType::f32, {1, 2, 300, d}, stream);
    bench::fill_normal(x.data(), Type::Float32, static_cast<std::size_t>(x.size()), seed, 1.0, stream);
    return x;
}

bench::Deviation deviation(const gpu::Tensor& got, const causeway::Tensor& want, cudaStream_t stream) {
    const causeway::Tensor x = got.cpu(stream);
    bench::Deviation out;
    for (Index i = 0; i < want.size(); ++i) out.add(x.get(i), want.get(i));
    return out;
}

// The greater relative error of B and C. elu + 1 is no factorisation of core's, its formula is one line.
double error_of(const std::string& method, int d, int r, cudaStream_t stream) {
    const gpu::Tensor q = drawn(d, 1, stream), k = drawn(d, 2, stream);
    const causeway::Tensor q64 = q.cpu(stream).to(DType::f64), k64 = k.cpu(stream).to(DType::f64);
    if (method == "elu + 1") {
        const gpu::Tensor got(DType::f32, q.shape(), stream);
        FeatureArgs a;
        a.q = q.data(), a.b = got.data(), a.heads = 2, a.N = 300, a.d = a.r = d;
        a.q_stride = a.b_stride = contiguous(2, 300, d);
        pointwise_features(a, Pointwise::elu_plus_one, stream);
        causeway::Tensor want = q64.copy();
        for (Index i = 0; i < want.size(); ++i) want.set(i, q64.get(i) > 0 ? q64.get(i) + 1 : std::exp(q64.get(i)));
        return deviation(got, want, stream).relative();
    }
    LowRankOptions options;
    options.scale = 0.1f, options.seed = 3;
    if (method == "favor+" || method == "rfa") options.rank = r;
    const gpu::LowRank got = gpu::low_rank(method, q, k, options, stream);
    const causeway::LowRank want = causeway::low_rank(method, q64, k64, options);
    return std::max(deviation(got.B, want.B, stream).relative(), deviation(got.C, want.C, stream).relative());
}

}  // namespace

int main() try {
    if (!bench::on_gpu()) return 2;
    Stream stream;
    bool ok = true;
    const double bandwidth = bench::copy_bandwidth(std::size_t{1} << 30, stream);
    struct Case {
        std::string name, method;
        Type type;
        int64_t N;
        int d, r;
        double flop;  // for each row
        std::function<void(const FeatureArgs&)> call;
        bool random = false;
    };
    const Type bf16 = Type::BFloat16, f32 = Type::Float32;
    const auto favor = [&](const FeatureArgs& a) { favor_features(a, {}, stream); };
    const auto rfa = [&](const FeatureArgs& a) { rfa_features(a, stream); };
    const std::vector<Case> cases = {
        {"favor+ bf16 d=128 r=256", "favor+", bf16, 50000, 128, 256, 2.0 * 128 * 256, favor, true},
        {"favor+ f32 d=128 r=256", "favor+", f32, 50000, 128, 256, 2.0 * 128 * 256, favor, true},
        {"favor+ bf16 d=64 r=64", "favor+", bf16, 50000, 64, 64, 2.0 * 64 * 64, favor, true},
        {"rfa bf16 d=64 r=128", "rfa", bf16, 50000, 64, 128, 2.0 * 64 * 64, rfa, true},
        {"taylor bf16 d=16 r=153", "taylor", bf16, 50000, 16, 153, 0,
         [&](const FeatureArgs& a) { taylor_features(a, false, stream); }},
        {"taylor bf16 d=64 r=2145", "taylor", bf16, 8192, 64, 2145, 0,
         [&](const FeatureArgs& a) { taylor_features(a, false, stream); }},
        {"hedgehog bf16 d=64 r=128", "hedgehog", bf16, 50000, 64, 128, 0,
         [&](const FeatureArgs& a) { hedgehog_features(a, true, stream); }},
        {"elu + 1 bf16 d=128", "elu + 1", bf16, 50000, 128, 128, 0,
         [&](const FeatureArgs& a) { pointwise_features(a, Pointwise::elu_plus_one, stream); }},
    };
    std::printf("%-28s %9s %9s %9s %7s %9s %9s\n", "case (h = 32)", "floor ms", "median", "call", "ratio", "TFLOP/s",
                "error");
    for (const Case& c : cases) {
        const double error = error_of(c.method, c.d, c.r, stream);
        const bool right = error <= 2e-5;
        ok = ok && right;
        constexpr int64_t H = 32;
        const auto e = static_cast<std::size_t>(bytes_of(c.type)), rows = static_cast<std::size_t>(H * c.N);
        const gpu::Buffer q(rows * c.d * e), k(rows * c.d * e), b(rows * c.r * e), phi(rows * c.r * e),
            omega(c.random ? sizeof(float) * H * c.r * c.d : 0);
        bench::fill_normal(q.data(), c.type, rows * c.d, 1, 1.0, stream);
        bench::fill_normal(k.data(), c.type, rows * c.d, 2, 1.0, stream);
        if (c.random) bench::fill_normal(omega.data(), f32, omega.bytes() / 4, 3, 1.0, stream);
        FeatureArgs a;
        a.q = q.data(), a.k = k.data(), a.b = b.data(), a.c = phi.data(), a.type = a.feature_type = c.type, a.heads = H,
        a.N = c.N, a.d = c.d, a.r = c.r;
        a.q_stride = a.k_stride = contiguous(H, c.N, c.d), a.b_stride = a.c_stride = contiguous(H, c.N, c.r),
        a.scale = 0.1f, a.omega = omega.as<float>();
        const gpu::Buffer workspace(c.random ? random_features_workspace(a) : 0);
        a.workspace = {workspace.data(), workspace.bytes()};
        const bench::Times ms = bench::time([&](int) { c.call(a); }, 1, 9, stream);
        const double floor = 2.0 * static_cast<double>(rows) * (c.d + c.r) * static_cast<double>(e) / bandwidth * 1e3;
        const double rate = 2.0 * static_cast<double>(rows) * c.flop / ms.median * 1e-9;
        std::printf("%-28s %9.4f %9.4f %9.4f %7.2f %9.1f %9.2e%s\n", c.name.c_str(), floor, ms.median, ms.call,
                    ms.median / floor, rate, error, right ? "" : "  WRONG");
        std::fflush(stdout);
    }
    return ok ? 0 : 1;
} catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
