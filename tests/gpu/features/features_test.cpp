// The feature maps on the GPU against those of core in Float64.
#include "gpu/features/features.hpp"
#include "core/lowrank/features.hpp"
#include "core/lowrank/lowrank.hpp"
#include "gpu/base/stream.hpp"
#include "gpu/features/directions.hpp"
#include "tests/core/lowrank/problems.hpp"
#include "tests/gpu/device.hpp"

using namespace causeway;
using namespace causeway::test;

namespace {

struct FeatureCase {
    Index B = 1, H = 1, N = 1, d = 1, r = 1;
    bool token_major = false;  // q, k, B and C lie as [B, N, H, width]
    unsigned seed = 1;
};

gpu::Strides strides(const FeatureCase& c, Index width) {
    if (c.token_major) return {c.N * c.H * width, width, c.H * width};
    return gpu::contiguous(c.H, c.N, static_cast<int>(width));
}

Tensor moved(const FeatureCase& c, const Tensor& x, bool back) {
    const Index width = x.shape().back();
    const gpu::Strides s = strides(c, width);
    Tensor out(x.dtype(), x.shape());
    Index i = 0;
    for (Index b = 0; b < c.B; ++b)
        for (Index h = 0; h < c.H; ++h)
            for (Index n = 0; n < c.N; ++n)
                for (Index e = 0; e < width; ++e, ++i) {
                    const Index lies = b * s.batch + h * s.head + n * s.token + e;
                    if (back) out.set(i, x.get(lies));
                    else out.set(lies, x.get(i));
                }
    return out;
}

struct Features {
    Tensor B, C, log_rows;
};

template <class Call>
Features on_device(const FeatureCase& c, const Tensor& q, const Tensor& k, DType out, const gpu::Tensor* omega,
                   Call call) {
    const Poison poison;
    const gpu::Stream stream;
    const Shape wide{c.B, c.H, c.N, c.r};
    const gpu::Tensor Q(moved(c, q, false)), K(moved(c, k, false)), B(out, wide), C(out, wide),
        log_rows(DType::f32, {c.B, c.H, c.N});
    gpu::FeatureArgs a;
    a.q = Q.data(), a.k = K.data(), a.b = B.data(), a.c = C.data();
    a.type = Q.type(), a.feature_type = B.type(), a.batch = c.B, a.heads = c.H, a.N = c.N, a.d = static_cast<int>(c.d),
    a.r = static_cast<int>(c.r);
    a.q_stride = a.k_stride = strides(c, c.d), a.b_stride = a.c_stride = strides(c, c.r);
    a.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c.d)));
    if (omega) a.omega = omega->as<float>();
    const gpu::Buffer workspace(omega ? gpu::random_features_workspace(a) : 0);
    a.workspace = {workspace.data(), workspace.bytes()};
    settle();
    call(a, log_rows.as<float>(), static_cast<cudaStream_t>(stream));
    stream.wait();
    return {moved(c, B.cpu(), true), moved(c, C.cpu(), true), log_rows.cpu()};
}

// Relative to the size of the features of the row: exponentials and powers carry the rounding of their arguments.
void compare(const Tensor& got, const Tensor& want, double allowed) {
    const Index r = want.shape().back();
    const double stored = got.dtype() == DType::f32   ? 0
                          : got.dtype() == DType::f16 ? std::ldexp(1.0, -11)
                                                      : std::ldexp(1.0, -8);
    double worst = 0;
    for (Index row = 0; row < want.size() / r; ++row) {
        double size = 0;
        for (Index e = 0; e < r; ++e) size = std::max(size, std::abs(want.get(row * r + e)));
        for (Index e = 0; e < r; ++e) {
            const double x = want.get(row * r + e);
            if (got.dtype() == DType::f16 && std::abs(x) > 65000) continue;  // beyond Float16
            const double off =
                std::abs(got.get(row * r + e) - x) / (allowed * size + 1.01 * stored * std::abs(x) + 1e-7);
            if (!(off <= worst)) worst = off;
        }
    }
    CHECK(worst <= 1);
}

// directions: 0 for a map without random numbers.
template <class Call>
void check_map(const FeatureCase& c, const std::string& method, std::map<std::string, double> own, Index directions,
               bool orthogonal, Call call) {
    for (const DType in : {DType::f32, DType::bf16, DType::f16}) {
        const Tensor q = normal_tensor({c.B, c.H, c.N, c.d}, c.seed, DType::f64, 1.5).to(in),
                     k = normal_tensor({c.B, c.H, c.N, c.d}, c.seed + 1).to(in);
        LowRankOptions o = rank_and_seed(directions > 0 ? c.r : 0, c.seed, own);
        o.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c.d)));
        const LowRank want = low_rank(method, q.to(DType::f64), k.to(DType::f64), o);
        gpu::Tensor omega;
        if (directions > 0) omega = gpu::random_directions(c.seed, c.B * c.H, directions, c.d, orthogonal);
        for (const DType out : {DType::f32, in}) {
            INFO(method << " B=" << c.B << " H=" << c.H << " N=" << c.N << " d=" << c.d << " r=" << c.r
                        << " token_major=" << c.token_major);
            INFO(name(in) << " to " << name(out));
            const Features got = on_device(c, q, k, out, directions > 0 ? &omega : nullptr, call);
            compare(got.B, want.B, 2e-5);
            compare(got.C, want.C, 2e-5);
            if (want.extras.count("log_rows") == 0) continue;
            double worst = 0;
            for (Index i = 0; i < got.log_rows.size(); ++i) {
                const double x = want.extras.at("log_rows").get(i),
                             off = std::abs(got.log_rows.get(i) - x) / (1 + std::abs(x));
                if (!(off <= worst)) worst = off;
            }
            CHECK(worst <= 3e-5);
        }
    }
}

}  // namespace

TEST_CASE("gpu: favor+ features are core's", "[gpu][features]") {
    if (!on_gpu()) return;
    unsigned seed = 1;
    for (const auto& [N, d, r] :
         {std::array<Index, 3>{1, 1, 1}, {2, 17, 5}, {65, 64, 64}, {200, 128, 256}, {300, 40, 129}, {130, 256, 300}}) {
        for (const bool token_major : {false, true}) {
            const FeatureCase c{2, 3, N, d, r, token_major, seed++};
            using Args = gpu::FeatureArgs;
            check_map(c, "favor+", {}, r, true,
                      [](const Args& a, float*, cudaStream_t s) { gpu::favor_features(a, {}, s); });
            check_map(c, "favor+", {{"stabilised", 0}, {"orthogonal", 0}}, r, false,
                      [](const Args& a, float*, cudaStream_t s) {
                          gpu::favor_features(a, {false, nullptr}, s);
                      });
            check_map(c, "favor+", {{"rows", 1}}, r, true, [](const Args& a, float* rows, cudaStream_t s) {
                gpu::favor_features(a, {true, rows}, s);
            });
        }
    }
}

TEST_CASE("gpu: trigonometric random features are core's", "[gpu][features]") {
    if (!on_gpu()) return;
    unsigned seed = 50;
    for (const auto& [N, d, r] : {std::array<Index, 3>{1, 1, 2}, {17, 8, 6}, {97, 64, 256}, {200, 128, 130}}) {
        const FeatureCase c{2, 2, N, d, r, N == 97, seed++};
        check_map(c, "rfa", {}, r / 2, true,
                  [](const gpu::FeatureArgs& a, float*, cudaStream_t s) { gpu::rfa_features(a, s); });
    }
}

TEST_CASE("gpu: Taylor and hedgehog features are core's", "[gpu][features]") {
    if (!on_gpu()) return;
    unsigned seed = 70;
    for (const auto& [N, d] : {std::array<Index, 2>{1, 1}, {17, 2}, {40, 3}, {33, 16}, {20, 64}, {5, 129}, {3, 256}}) {
        FeatureCase c{2, 2, N, d, 1 + d + d * (d + 1) / 2, N == 33, seed++};
        check_map(c, "taylor", {}, 0, false,
                  [](const gpu::FeatureArgs& a, float*, cudaStream_t s) { gpu::taylor_features(a, false, s); });
        c.r = 1 + d + d * d;
        check_map(c, "taylor", {{"full", 1}}, 0, false,
                  [](const gpu::FeatureArgs& a, float*, cudaStream_t s) { gpu::taylor_features(a, true, s); });
        c.r = 2 * d;
        check_map(c, "hedgehog", {}, 0, false,
                  [](const gpu::FeatureArgs& a, float*, cudaStream_t s) { gpu::hedgehog_features(a, true, s); });
        check_map(c, "hedgehog", {{"normalised", 0}}, 0, false,
                  [](const gpu::FeatureArgs& a, float*, cudaStream_t s) { gpu::hedgehog_features(a, false, s); });
    }
}

TEST_CASE("gpu: pointwise features", "[gpu][features]") {
    if (!on_gpu()) return;
    for (const auto map : {gpu::Pointwise::elu_plus_one, gpu::Pointwise::relu}) {
        const FeatureCase c{2, 3, 50, 72, 72, true, 5};
        const Tensor q = normal_tensor({c.B, c.H, c.N, c.d}, 1).to(DType::f32),
                     k = normal_tensor({c.B, c.H, c.N, c.d}, 2).to(DType::f32);
        const auto call = [&](const gpu::FeatureArgs& a, float*, cudaStream_t s) {
            gpu::pointwise_features(a, map, s);
        };
        const Features got = on_device(c, q, k, DType::f32, nullptr, call);
        double worst = 0;
        for (Index i = 0; i < q.size(); ++i) {
            for (const auto& [x, y] : {std::pair{q.get(i), got.B.get(i)}, {k.get(i), got.C.get(i)}}) {
                const double scaled = x / std::pow(72.0, 0.25), elu = scaled > 0 ? scaled + 1 : std::exp(scaled);
                const double want = map == gpu::Pointwise::relu ? std::max(scaled, 0.0) : elu;
                if (!(std::abs(y - want) <= worst)) worst = std::abs(y - want);
            }
        }
        CHECK(worst <= 1e-6);
    }
}

TEST_CASE("gpu: random directions are those of their seed, drawn or kept", "[gpu][features]") {
    if (!on_gpu()) return;
    struct Drawn {
        std::uint64_t seed;
        Index heads, m, d;
        bool orthogonal;
    };
    const Drawn calls[] = {{1, 2, 8, 5, true},  {2, 2, 8, 5, true}, {1, 3, 8, 5, true},
                           {1, 2, 8, 5, false}, {1, 2, 5, 8, true}, {3, 1, 2048, 1025, false}};
    for (int round = 0; round < 3; ++round) {
        for (const Drawn& c : calls) {
            if (round > 0 && c.heads * c.m * c.d > 1000) continue;  // not kept, and slow
            const Tensor got = gpu::random_directions(c.seed, c.heads, c.m, c.d, c.orthogonal).cpu();
            CAPTURE(round, c.seed, c.heads, c.m, c.d, c.orthogonal);
            Index differ = 0;
            for (Index h = 0; h < c.heads; ++h) {
                const auto want = lowrank::directions(lowrank::Random(c.seed, h), c.m, c.d, c.orthogonal);
                for (Index i = 0; i < want.size(); ++i)
                    differ += got.get(h * want.size() + i) != static_cast<float>(want.data()[i]);
            }
            CHECK(differ == 0);
        }
    }
}

TEST_CASE("gpu: feature maps say what is wrong", "[gpu][features]") {
    if (!on_gpu()) return;
    gpu::FeatureArgs a;
    a.N = 4, a.d = 8, a.r = 3;
    CHECK_THROWS_WITH(gpu::rfa_features(a, nullptr),
                      "rfa_features: r is 3, expected an even number: a cosine and a sine for each direction");
    CHECK_THROWS_WITH(gpu::hedgehog_features(a, true, nullptr), "hedgehog_features: r is 3, expected 16");
    CHECK_THROWS_WITH(gpu::favor_features(a, {}, nullptr), "favor_features: no directions, expected omega [1, 3, 8]");
}
