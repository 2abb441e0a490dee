// A model whose keys and values are shared out among GPUs: tokens by tree and by ring decoding have the logits of the
// model that shares nothing. On one GPU too, where there is one share.
#include "gpu/sharded/cached_decode.hpp"

#include "core/model/known_sizes.hpp"
#include "core/model/layout.hpp"
#include "gpu/distributed/queue.hpp"
#include "gpu/model/texts.hpp"
#include "tests/core/model/tiny.hpp"
#include "tests/gpu/distributed/ranks.hpp"

using namespace causeway;
using namespace causeway::test;
using testing::message_of;

namespace {

using Lengths = std::vector<std::int64_t>;

// Tokens 50 ... of some texts on a rank, by `method`, or by the model alone where it is empty: their logits, one token
// after the other. The first 50 run together.
std::vector<Tensor> decode(gpu::QueuedCommunicator& comm, const model::Network& network, gpu::Type type, Index batch,
                           const std::string& method) {
    constexpr Index before = 50, behind = 9;
    const auto layers = std::make_shared<const gpu::models::Layers>(gpu::models::layers_of(network, type));
    const auto swaps = std::make_shared<const model::Swaps>(network.layers.size());
    const auto columns = [&](Index first, Index n) {
        model::Ids ids;
        for (Index i = 0; i < batch; ++i) {
            const model::Ids text = held_out(100 * i + first, n);
            ids.insert(ids.end(), text.begin(), text.end());
        }
        return ids;
    };
    gpu::models::Texts text(layers, batch, true, swaps);
    text.likeliest(columns(0, before), {});
    std::optional<gpu::sharded::CachedDecode> by;
    if (!method.empty()) {
        by.emplace(comm, comm.stream(), method == "tree");
        text.share({comm.rank(), comm.size(),
                    [&](const gpu::SoftmaxArgs& a, const Lengths& lengths, cudaStream_t stream) {
                        by->attend(a, lengths, stream);
                    }},
                   behind);
    }
    std::vector<Tensor> out;
    for (Index t = 0; t < behind; ++t) {
        comm.begin();
        out.push_back(text.last_logits(columns(before + t, 1), {}));
    }
    comm.begin();
    if (!method.empty() && comm.size() == 1)
        CHECK(message_of([&] { text.last_logits(columns(0, 1), {}); }) ==
              "ids: token 60 has no room among shared keys and values, expected fewer behind them");
    return out;
}

// The greatest difference over the largest number.
double off_by(const Tensor& got, const Tensor& want) {
    double most = 0, largest = 0;
    for (Index i = 0; i < want.size(); ++i) {
        largest = std::max(largest, std::abs(want.get(i)));
        const double off = std::abs(got.get(i) - want.get(i));
        if (!(off <= most)) most = off;
    }
    return most / largest;
}

}  // namespace

TEST_CASE("tokens of a model over shared keys and values have its logits", "[gpu][nccl][gpu-model]") {
    const int p = gpus(1);
    if (p == 0) return;
    for (const char* name : {"tiny-llama", "qwen3_next"}) {
        const auto checkpoint = std::string(name) == "tiny-llama"
                                    ? tiny_llama().checkpoint()
                                    : model::random_model(name, "tiny", model::WeightType::f32, 5, 3);
        const model::Network network = model::build(checkpoint);
        for (const gpu::Type type : {gpu::Type::Float32, gpu::Type::BFloat16}) {
            for (const Index batch : {1, 3}) {
                std::vector<double> off(static_cast<std::size_t>(p), INFINITY);
                distributed::nccl().run(p, [&](distributed::Communicator& rank) {
                    gpu::QueuedCommunicator comm(dynamic_cast<gpu::NcclCommunicator&>(rank));
                    const auto expected = decode(comm, network, type, batch, "");
                    double most = 0;
                    for (const char* method : {"tree", "ring"}) {
                        const auto found = decode(comm, network, type, batch, method);
                        for (std::size_t t = 0; t < expected.size(); ++t)
                            most = std::max(most, off_by(found[t], expected[t]));
                    }
                    off[static_cast<std::size_t>(comm.rank())] = most;
                });
                CAPTURE(name, p, batch, gpu::bytes_of(type));
                for (const double x : off) CHECK(x < (type == gpu::Type::Float32 ? 1e-4 : 3e-2));
            }
        }
    }
}
