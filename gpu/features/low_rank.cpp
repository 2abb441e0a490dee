#include "gpu/features/low_rank.hpp"

#include "core/kit/check.hpp"
#include "gpu/base/error.hpp"
#include "gpu/features/call.hpp"
#include "gpu/features/directions.hpp"
#include "gpu/features/features.hpp"

namespace causeway::gpu {

bool low_rank_takes(const std::string& name) {
    return name == "favor+" || name == "rfa" || name == "taylor" || name == "hedgehog";
}

LowRank low_rank(const std::string& name, const Tensor& q, const Tensor& k, const LowRankOptions& o,
                 cudaStream_t stream) {
    const auto& method = lowrank::method(name);
    if (!low_rank_takes(method.name))
        fail("device: ", method.name, " does not run on the GPU, expected favor+, rfa, taylor or hedgehog there");
    const auto n = causeway::kit::four_sizes(q.form(), "q");
    causeway::kit::check_like("k", k.form(), q.form(), "q");
    if (k.shape() != q.shape()) fail("k: ", k.shape().text(), ", expected ", q.shape().text(), " like q");
    if (n[2] == 0 || n[3] == 0) fail("q: ", q.shape().text(), ", expected a length and a width of at least 1");
    if (n[3] > features::max_width) fail("q: width ", n[3], ", expected at most ", features::max_width, " on the GPU");
    const auto [scale, settings, rank, seed] = lowrank::settle(method, {n[2], n[3]}, o);

    Shape wide = q.shape(), one;
    wide[wide.ndim() - 1] = rank;
    for (int i = 0; i + 1 < q.ndim(); ++i) one.push_back(q.shape()[i]);
    LowRank out{Tensor(DType::f32, wide, stream), Tensor(DType::f32, wide, stream), {}};
    if (q.size() == 0) return out;
    FeatureArgs a;
    a.q = q.data(), a.k = k.data(), a.b = out.B.data(), a.c = out.C.data();
    a.type = q.type();
    a.batch = n[0], a.heads = n[1], a.N = n[2], a.d = static_cast<int>(n[3]), a.r = static_cast<int>(rank);
    a.q_stride = a.k_stride = contiguous(a.heads, a.N, a.d), a.b_stride = a.c_stride = contiguous(a.heads, a.N, a.r);
    a.scale = static_cast<float>(scale);
    Tensor omega;
    Buffer workspace;
    if (method.seeded) {
        omega = random_directions(seed, n[0] * n[1], method.name == "rfa" ? rank / 2 : rank, n[3],
                                  settings.at("orthogonal") != 0, stream);
        a.omega = omega.as<float>();
        workspace = Buffer(random_features_workspace(a), stream);
        a.workspace = {workspace.data(), workspace.bytes()};
    }
    if (method.name == "favor+") {
        FavorOptions favor;
        favor.stabilised = settings.at("stabilised") != 0;
        if (settings.at("rows") != 0)
            favor.log_rows = out.extras.emplace("log_rows", Tensor(DType::f32, one, stream)).first->second.as<float>();
        favor_features(a, favor, stream);
    } else if (method.name == "rfa") {
        rfa_features(a, stream);
    } else if (method.name == "taylor") {
        taylor_features(a, settings.at("full") != 0, stream);
    } else {
        hedgehog_features(a, settings.at("normalised") != 0, stream);
    }
    return out;
}

}  // namespace causeway::gpu
