// Language models with random weights in BFloat16: the prefill of a long text beside the rate of cuBLAS's own products,
// and one text token by token beside the time to read the weights once at the copy rate, both measured in the same run.
// Before that the products of one token alone, beside the same rate.
//
//   bench_model
#include <span>
#include <utility>

#include "core/base/clock.hpp"
#include "core/model/known_sizes.hpp"
#include "core/model/layout.hpp"
#include "gpu/base/blas.hpp"
#include "gpu/bench/bench.hpp"
#include "gpu/model/model.hpp"
#include "gpu/model/product.hpp"

namespace causeway::gpu {
namespace {

using model::Ids;
using model::Session;

constexpr Index tokens = 8192;

// Operations a second of the square product of 8192 rows, the best of a few.
double product_rate(cudaStream_t stream) {
    constexpr std::int64_t n = 8192;
    const Buffer a(n * n * 2), b(n * n * 2), c(n * n * 2), room(blas_workspace);
    fill_normal(a.data(), Type::BFloat16, n * n, 1, 1, stream);
    fill_normal(b.data(), Type::BFloat16, n * n, 2, 1, stream);
    const bench::Times ms = bench::time(
        [&](int) {
            multiply_transposed(blas(stream, room.data()), Type::BFloat16, n, n, n, a.data(), n, b.data(), c.data(),
                                Type::BFloat16, n);
        },
        1, 10, stream);
    return 2.0 * n * n * n / (ms.median * 1e-3);
}

struct Work {
    double products = 0, attention = 0;  // operations
    double read = 0;                     // bytes of weights that a token reads
};

// Of a text of n tokens: two operations for every weight of a layer and token, and 4 d for every pair of a query and a
// key that it sees; the head is multiplied for the last token alone.
Work work_of(const model::Model& m, Index n) {
    const model::Description& about = m.about();
    const double embedding = static_cast<double>(about.vocabulary * about.width);  // and the head, as large
    Work w;
    w.products = 2.0 * (static_cast<double>(about.parameters) - 2 * embedding) * static_cast<double>(n);
    for (const model::LayerInfo& l : m.layers())
        if (l.decay.empty())
            w.attention +=
                4.0 * static_cast<double>(l.heads * l.width) * static_cast<double>(n) * static_cast<double>(n + 1) / 2;
    w.read = 2.0 * (static_cast<double>(about.parameters) - embedding);
    return w;
}

double median(std::vector<double> x) {
    std::sort(x.begin(), x.end());
    return x[x.size() / 2];
}

// The products of one token with matrices of the 8B shape, each time with another matrix so that none is in the cache.
void time_products(double copy, cudaStream_t stream) {
    const std::pair<std::int64_t, std::int64_t> shapes[] = {
        {6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096}};
    const Buffer blas_room(blas_workspace), x(14336 * 4), y(128256 * 4);
    fill_normal(x.data(), Type::Float32, 14336, 3, 1, stream);
    for (const auto& [rows, columns] : shapes) {
        const double bytes = 2.0 * static_cast<double>(rows * columns);
        const int sets = static_cast<int>(std::clamp(1e9 / bytes, 2.0, 16.0));
        std::vector<models::Matrix> w(static_cast<std::size_t>(sets));
        for (models::Matrix& m : w) {
            m.rows = rows, m.columns = columns, m.data = Buffer(static_cast<std::size_t>(rows * columns * 2));
            fill_normal(m.data.data(), Type::BFloat16, static_cast<std::size_t>(rows * columns), 4, 1, stream);
        }
        models::Norm norm;
        norm.width = columns;
        const auto print = [&](const char* what, const auto& call) {
            const bench::Times ms = bench::time([&](int i) { call(w[static_cast<std::size_t>(i)]); }, sets, 11, stream);
            std::printf("product %6lld x %5lld, %-6s %7.2f us, %5.1f %% of the copy rate\n",
                        static_cast<long long>(rows), static_cast<long long>(columns), what, ms.median * 1e3,
                        100 * bytes / (ms.median * 1e-3) / copy);
        };
        const models::Result result{y.data(), Type::BFloat16, rows};
        print("plain",
              [&](const models::Matrix& m) { multiply(m, x.data(), columns, 1, result, blas_room.data(), stream); });
        print("normed", [&](const models::Matrix& m) { multiply_normed(m, norm, x.as<float>(), 1, result, stream); });
        print("cuBLAS", [&](const models::Matrix& m) {
            multiply_transposed(blas(stream, blas_room.data()), Type::BFloat16, 1, rows, columns, x.data(), columns,
                                m.data.data(), y.data(), Type::BFloat16, rows);
        });
    }
}

// Prefill and decoding of a model.
void time_model(const char* architecture, const char* size, double rate, double copy) {
    const double start = steady_seconds();
    const model::Model m(model::random_model(architecture, size, model::WeightType::bf16, 1, 0, false),
                         [](const model::Network& network) { return on_gpu(network); });
    std::printf("%s %s, %lld layers, %.2f GB on the device, built in %.2f s\n", architecture, size,
                static_cast<long long>(m.about().layers), static_cast<double>(m.accelerator()->bytes()) * 1e-9,
                steady_seconds() - start);
    Ids ids;
    for (Index i = 0; i < tokens; ++i) ids.push_back(static_cast<std::int32_t>(i * 7919 % m.about().vocabulary));
    const Work work = work_of(m, tokens);
    std::vector<double> times;
    for (int i = 0; i < 4; ++i) {
        Session session(m);
        const double from = steady_seconds();
        session.likeliest(ids);
        if (i > 0) times.push_back(steady_seconds() - from);
    }
    const double prefill = median(times);
    std::printf("  prefill of %lld tokens: %.1f ms, %.0f tokens/s; products %.1f %% of cuBLAS's rate",
                static_cast<long long>(tokens), prefill * 1e3, static_cast<double>(tokens) / prefill,
                100 * work.products / prefill / rate);
    if (work.attention > 0)
        std::printf(", with attention %.1f %%", 100 * (work.products + work.attention) / prefill / rate);
    std::printf("\n");
    for (const Index before : {Index(16), Index(2000), tokens}) {
        Session session(m);
        Ids next = session.likeliest(std::span(ids).first(static_cast<std::size_t>(before)));
        for (int i = 0; i < 3; ++i) next = session.likeliest(next);
        std::vector<double> steps;
        for (int i = 0; i < 100; ++i) {
            const double from = steady_seconds();
            next = session.likeliest(next);
            steps.push_back(steady_seconds() - from);
        }
        const double step = median(steps), kept = static_cast<double>(session.bytes());
        std::printf(
            "  a token behind %4lld: %.3f ms, %.1f tokens/s; the weights, %.2f GB, at %.1f %% of the copy rate\n",
            static_cast<long long>(before), step * 1e3, 1 / step, work.read * 1e-9, 100 * work.read / step / copy);
        if (before == tokens) std::printf("  the text keeps %.2f GB\n", kept * 1e-9);
    }
    std::fflush(stdout);
}

int run() {
    if (!bench::on_gpu()) return 2;
    const Stream stream;
    const double rate = product_rate(stream), copy = bench::copy_bandwidth(std::size_t{1} << 30, stream);
    std::printf("cuBLAS, BFloat16, 8192 cubed: %.0f TFLOP/s; copies: %.3f TB/s\n", rate * 1e-12, copy * 1e-12);
    time_products(copy, stream);
    time_model("llama", "8b", rate, copy);
    time_model("transnormer", "7b", rate, copy);
    time_model("retnet", "1.3b", rate, copy);
    return 0;
}

}  // namespace
}  // namespace causeway::gpu

int main() try { return causeway::gpu::run(); } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
}
