// The exponential, "spiky" feature map of Hedgehog (Zhang et al. 2024, "The Hedgehog & the porcupine").
//
//   φ(x) = softmax([x, −x]) over the 2d features, or with normalised = false exp([x, −x])
//
// It imitates the low entropy and the monotony of softmax attention, not exp(qᵀk) itself: B Cᵀ is its own kernel. In
// the source a linear map before it is trained to match a given model; here it is the identity, where that training
// starts. rank: fixed, 2d. O(N d). No token sees another one.
#include "core/lowrank/registry.hpp"

namespace causeway::lowrank {
namespace {

template <class T>
void hedgehog(const Head<T>& h) {
    const Index d = h.d();
    const bool normalised = h["normalised"] != 0;
    const auto features = [&](const ConstView<T>& X, View<T> F) {
        each_block(X.rows(), [&](Index first, Index n) {
            for (Index i = first; i < first + n; ++i) {
                const T largest = normalised ? X.row(i).cwiseAbs().maxCoeff() : T(0);
                F.row(i).head(d).array() = (X.row(i).array() - largest).exp();
                F.row(i).tail(d).array() = (-X.row(i).array() - largest).exp();
                if (normalised) F.row(i) /= F.row(i).sum();
            }
        });
    };
    features(h.Q, h.B);
    features(h.K, h.C);
}

}  // namespace

Method hedgehog_method() {
    Method m;
    m.name = "hedgehog";
    m.source = "Zhang et al. 2024 (Hedgehog)";
    m.formula = "softmax([x, −x]) or exp([x, −x]), its own kernel";
    m.text =
        "The exponential (\"spiky\") feature map, softmax([x, −x]) or exp([x, −x]), with the identity where the "
        "source trains a linear map. Its own kernel: B Cᵀ does not approach exp(qᵀk).";
    m.use =
        "As the feature map of a layer that is trained with it, at twice the width; not to replace softmax in a "
        "finished model.";
    m.time = "O(Nd)";
    m.rank = "2d features";
    m.columns = [](const Size& s, const Settings&) { return 2 * s.d; };
    m.options = {{"normalised", 1, 0, 1, true, "softmax over the features; false: the exponentials alone"}};
    m.f32 = hedgehog<float>;
    m.f64 = hedgehog<double>;
    return m;
}

}  // namespace causeway::lowrank
