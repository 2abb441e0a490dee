// Decoding with a Llama of random weights in BFloat16 whose keys and values are shared out among GPUs: ten tokens
// behind a prompt with tree and with ring attention in all layers, side by side (tree document, Tables 1 and 2).
//
//   bench_sharded_model [p] [size] [N ...]     on p GPUs (all), of a size (8b), behind prompts of N tokens
//
// Every GPU runs the whole model, all of it but attention alone, and reads the prompt by itself; then it keeps its
// share of the keys and values. Logits are first compared with those of the model that shares nothing, and its time for
// the same tokens on one GPU stands beside. A token's time is that of the slowest GPU.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.hpp"
#include "core/model/known_sizes.hpp"
#include "core/model/layout.hpp"
#include "gpu/base/device.hpp"
#include "gpu/distributed/queue.hpp"
#include "gpu/model/texts.hpp"
#include "gpu/sharded/cached_decode.hpp"

using namespace causeway;
using namespace causeway::gpu;

namespace {

constexpr int warm_up = 3, tokens = 10;

// Of one rank, in seconds; empty: not measured.
struct Times {
    std::vector<double> own, tree, ring;
    double prompt = 0, off[2] = {};  // off: of logits, tree and ring
};

double relative(const causeway::Tensor& a, const causeway::Tensor& b) {
    double off = 0, all = 0;
    for (Index i = 0; i < b.size(); ++i) {
        const double x = static_cast<double>(a.data<float>()[i]), y = static_cast<double>(b.data<float>()[i]);
        off += (x - y) * (x - y), all += y * y;
    }
    return std::sqrt(off / all);
}

class Rank {
public:
    Rank(NcclCommunicator& rank, const std::string& size) : comm_(rank) {
        const auto checkpoint = model::random_model("llama", size, model::WeightType::bf16, 1, 0, false);
        const model::Network network = model::build(checkpoint);
        layers_ = std::make_shared<const models::Layers>(models::layers_of(network, Type::BFloat16));
        swaps_ = std::make_shared<const model::Swaps>(network.layers.size());
    }

    Times measure(Index N) {
        Times out;
        model::Ids ids;
        for (Index i = 0; i < N + warm_up + tokens + 1; ++i)
            ids.push_back(static_cast<std::int32_t>(i * 7919 % layers_->vocabulary));
        models::Texts prompt(layers_, 1, true, swaps_);
        comm_.begin();
        prompt.likeliest(std::span(ids).first(static_cast<std::size_t>(N)), {});
        out.prompt = comm_.now() - comm_.begun;
        const std::span<const std::int32_t> behind = std::span(ids).subspan(static_cast<std::size_t>(N));
        causeway::Tensor expected;
        const auto run = [&](std::vector<double>& seconds, const char* method) {
            const auto copied = prompt.copy();
            auto& text = dynamic_cast<models::Texts&>(*copied);
            std::optional<sharded::CachedDecode> decode;
            if (*method) {
                decode.emplace(comm_, comm_.stream(), std::string(method) == "tree");
                text.share({comm_.rank(), comm_.size(),
                            [&](const SoftmaxArgs& a, const std::vector<std::int64_t>& lengths, cudaStream_t stream) {
                                decode->attend(a, lengths, stream);
                            }},
                           warm_up + tokens + 1);
            }
            for (std::size_t t = 0; t < warm_up + tokens; ++t) {
                comm_.begin();
                text.likeliest(behind.subspan(t, 1), {});
                if (t >= warm_up) seconds.push_back(comm_.now() - comm_.begun);
            }
            const causeway::Tensor logits = text.last_logits(behind.subspan(warm_up + tokens, 1), {});
            comm_.begin();
            if (*method) out.off[std::string(method) == "ring"] = relative(logits, expected);
            else expected = logits;
        };
        run(out.own, ""), run(out.tree, "tree"), run(out.ring, "ring");
        return out;
    }

private:
    QueuedCommunicator comm_;
    std::shared_ptr<const models::Layers> layers_;
    std::shared_ptr<const model::Swaps> swaps_;
};

// Ten tokens, each of the slowest rank.
double sum_of_slowest(const std::vector<Times>& all, std::vector<double> Times::*which) {
    double sum = 0;
    for (std::size_t t = 0; t < tokens; ++t) {
        double slowest = 0;
        for (const Times& one : all) slowest = std::max(slowest, (one.*which)[t]);
        sum += slowest;
    }
    return sum;
}

int run(int p, const std::string& size, const std::vector<Index>& lengths) {
    Team team(p);
    std::vector<std::vector<Times>> found(lengths.size(), std::vector<Times>(static_cast<std::size_t>(p)));
    std::printf("llama %s, random weights in BFloat16, on %d × %s: seconds for ten tokens\n", size.c_str(), p,
                device().name.c_str());
    std::printf("%9s %9s %9s %9s %12s %12s %10s %10s\n", "N", "tree", "ring", "ring/tree", "one GPU", "prompt",
                "tree off", "ring off");
    bool right = true;
    team.run([&](distributed::Communicator& meeting) {
        Rank rank(dynamic_cast<NcclCommunicator&>(meeting), size);
        for (std::size_t i = 0; i < lengths.size(); ++i) {
            found[i][static_cast<std::size_t>(meeting.rank())] = rank.measure(lengths[i]);
            meeting.barrier();
            if (meeting.rank() > 0) continue;
            const std::vector<Times>& all = found[i];
            const double tree = sum_of_slowest(all, &Times::tree), ring = sum_of_slowest(all, &Times::ring);
            double off[2] = {};
            for (const Times& one : all)
                for (int m = 0; m < 2; ++m)
                    if (!(one.off[m] <= off[m])) off[m] = one.off[m];
            std::printf("%9td %9.4f %9.4f %9.2f %12.4f %12.2f %10.1e %10.1e\n", lengths[i], tree, ring, ring / tree,
                        sum_of_slowest(all, &Times::own), all[0].prompt, off[0], off[1]);
            std::fflush(stdout);
            right = right && off[0] < 3e-2 && off[1] < 3e-2;
        }
    });
    if (!right) std::printf("WRONG: logits differ from those of one GPU\n");
    return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
    std::string why;
    if (!device_available(&why)) {
        std::printf("no GPU: %s\n", why.c_str());
        return 2;
    }
    int count = 0;
    check(cudaGetDeviceCount(&count), "counting the GPUs");
    const int p = argc > 1 ? std::atoi(argv[1]) : count;
    if (p < 1 || p > count) {
        std::printf("p: %d, expected from 1 to %d, the number of GPUs\n", p, count);
        return 2;
    }
    std::vector<Index> lengths;
    for (int i = 3; i < argc; ++i) lengths.push_back(std::max(1, std::atoi(argv[i])));
    if (lengths.empty()) lengths = {8192, 32768, 65536, 131072};
    return run(p, argc > 2 ? argv[2] : "8b", lengths);
} catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
