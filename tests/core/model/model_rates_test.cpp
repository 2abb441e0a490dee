// Prints how fast a model runs, beside how fast this machine multiplies and reads. Hidden, for it measures and checks
// nothing: CAUSEWAY_MODEL=FILE.gguf, and its tag, [model-rates]. With one thread the time is that of the processor,
// which other programs do not take part in.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "core/base/clock.hpp"
#include "core/base/parallel.hpp"
#include "core/model/model.hpp"
#include "core/tensor/product.hpp"
#include "tests/catch.hpp"

using namespace causeway;
using model::Ids;
using model::Model;
using model::Session;

namespace {

double now() {
    if (threads() > 1) return steady_seconds();
    timespec t{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Seconds of a call: the fastest of some.
template <class F>
double fastest(int calls, F&& run) {
    double best = 1e9;
    for (int i = 0; i < calls; ++i) {
        const double begin = now();
        run();
        best = std::min(best, now() - begin);
    }
    return best;
}

// Floating-point operations a second of Eigen's product, every thread busy with its own.
double product_rate_here() {
    constexpr Index n = 512;
    Buffer<float> x(3 * n * n * threads());
    std::fill_n(x.data(), x.size(), 0.5f);
    return 2.0 * n * n * n * threads() / fastest(50, [&] {
               parallel_for(threads(), [&](Index i) {
                   float* p = x.data() + i * 3 * n * n;
                   matrix_product<float>(p, n, p + n * n, n, p + 2 * n * n, n, n, n, n, false);
               });
           });
}

// Bytes a second that all threads read together, from more than the caches hold.
double read_rate() {
    constexpr Index pieces = 256, piece = 1 << 17;
    Buffer<std::uint64_t> x(pieces * piece), sums(pieces);
    std::fill_n(x.data(), x.size(), 1u);
    return static_cast<double>(8 * x.size()) / fastest(20, [&] {
               parallel_for(pieces, [&](Index i) {
                   sums[i] = std::accumulate(x.data() + i * piece, x.data() + (i + 1) * piece, std::uint64_t{0});
               });
           });
}

}  // namespace

TEST_CASE("rates of a model", "[.][model-rates]") {
    const char* path = std::getenv("CAUSEWAY_MODEL");
    if (!path) return test::skip("rates of a model", "CAUSEWAY_MODEL does not name one");
    const Model m = Model::load(path);
    const auto& about = m.about();
    Ids ids;
    for (Index i = 0; i < 512; ++i) ids.push_back(static_cast<std::int32_t>(i * 7919 % about.vocabulary));
    const Ids one{ids.front()};
    std::printf("%td million parameters, %td MB, %d threads\n", about.parameters / 1000000, about.bytes / 1000000,
                threads());

    Session end(m);
    const double prefill = fastest(5, [&] {
        end = Session(m);
        end.hidden(ids);
    });
    // Every parameter but those of the embedding, and of the head, which runs for wanted tokens alone.
    const double flops = 2.0 * 512 * static_cast<double>(about.parameters - about.vocabulary * about.width),
                 product = product_rate_here();
    std::printf("prefill of 512 tokens: %.0f tokens/s, %.1f GFLOP/s, %.0f %% of the product's %.1f\n", 512 / prefill,
                flops / prefill / 1e9, 100 * flops / prefill / product, product / 1e9);

    const double reading = read_rate();
    for (const bool late : {false, true}) {
        Session session = late ? end.copy() : Session(m);
        const double token = fastest(30, [&] { session.advance(one); });
        const double rate = static_cast<double>(about.bytes) / token;
        std::printf("a token after %3d: %.2f ms, %.1f GB/s of weights, %.0f %% of the reading rate of %.1f\n",
                    late ? 512 : 0, 1e3 * token, rate / 1e9, 100 * rate / reading, reading / 1e9);
    }
}
