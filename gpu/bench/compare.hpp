// How the benches compare with their references in Float64: errors, which heads are looked at, what must stay
// untouched. Every bench compares first; what is wrong is printed, and ends the program with 1.
#pragma once

#include <cmath>
#include <future>
#include <limits>
#include <string>

#include "gpu/bench/bench.hpp"

namespace causeway::gpu::bench {

using Numbers = std::vector<double>;

inline const char* name_of(Type t) {
    static constexpr const char* names[] = {"f32", "bf16", "f16"};
    return names[static_cast<int>(t)];
}

// Strides of [batch, heads, N, width], or token by token: [batch, N, heads, width]; `pad` unused columns behind each
// row.
inline Strides strides_of(std::int64_t heads, std::int64_t N, int width, bool token_major = false, int pad = 0) {
    const std::int64_t w = width + pad;
    return token_major ? Strides{N * heads * w, w, heads * w} : Strides{heads * N * w, N * w, w};
}

// Of some outputs: ‖got - want‖² and ‖want‖², which may cancel to almost nothing, and what it is taken for at least.
struct Deviation {
    double error = 0, norm = 0, least = 0;
    bool clean = true;  // no NaN or Inf

    void add(double got, double want) {
        if (!std::isfinite(got)) clean = false;
        error += (got - want) * (got - want), norm += want * want;
    }
    // The relative error; Inf where something is not finite, or differs from zeros.
    double relative() const {
        const double of = std::max(norm, least);
        if (!clean || !(of > 0 || error == 0)) return std::numeric_limits<double>::infinity();
        return of > 0 ? std::sqrt(error / of) : 0;
    }
};

inline Deviation deviation(const Numbers& got, const Numbers& want, double least = 0) {
    Deviation x;
    x.least = least;
    for (std::size_t i = 0; i < want.size(); ++i) x.add(got[i], want[i]);
    return x;
}

// Up to `count` of `all` heads, from the first to the last.
inline std::vector<std::int64_t> chosen_heads(std::int64_t all, std::int64_t count) {
    std::vector<std::int64_t> chosen;
    for (std::int64_t i = 0; i < std::min(all, count); ++i)
        chosen.push_back(count >= all ? i : i * (all - 1) / std::max<std::int64_t>(1, count - 1));
    return chosen;
}

// f(i) for i < n, eight at a time on threads of their own.
template <class F>
void on_threads(std::size_t n, const F& f) {
    for (std::size_t first = 0; first < n; first += 8) {
        std::vector<std::future<void>> threads;
        for (std::size_t i = first; i < std::min(n, first + 8); ++i)
            threads.push_back(std::async(std::launch::async, [&f, i] { f(i); }));
        for (auto& thread : threads) thread.get();
    }
}

inline void poison(const Buffer& x, cudaStream_t stream) {
    if (x.bytes() > 0) check(cudaMemsetAsync(x.data(), 0xFF, x.bytes(), stream), "poisoning memory");
}

// Whether the `pad` columns behind each row of a tensor are still poisoned.
inline bool padding_untouched(const Buffer& x, Type type, int width, int pad) {
    if (pad == 0) return true;
    std::vector<unsigned char> raw(x.bytes());
    check(cudaMemcpy(raw.data(), x.data(), raw.size(), cudaMemcpyDeviceToHost), "copying from the GPU");
    const auto bytes = static_cast<std::size_t>(bytes_of(type)), used = static_cast<std::size_t>(width) * bytes,
               row = static_cast<std::size_t>(width + pad) * bytes;
    for (std::size_t i = 0; i < raw.size(); ++i)
        if (i % row >= used && raw[i] != 0xFF) return false;
    return true;
}

// n numbers from `first` on of a tensor in device memory.
inline Numbers numbers(const void* data, Type type, std::int64_t first, std::int64_t n) {
    const auto bytes = bytes_of(type);
    std::vector<unsigned char> raw(static_cast<std::size_t>(n * bytes));
    check(cudaMemcpy(raw.data(), static_cast<const char*>(data) + first * bytes, raw.size(), cudaMemcpyDeviceToHost),
          "copying from the GPU");
    Numbers x(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = value_at(raw, type, i);
    return x;
}

// The worst relative errors seen, by element type, and how many checks were wrong.
struct Tally {
    int count = 0, wrong = 0;
    double outputs[3] = {}, state[3] = {};

    void add(Type type, double output_error, double state_error = 0) {
        const auto i = static_cast<int>(type);
        outputs[i] = std::max(outputs[i], output_error), state[i] = std::max(state[i], state_error);
    }
    // Prints both; true where nothing was wrong.
    bool report(const std::string& name = "") const {
        std::printf(
            "%schecks: %d, wrong: %d; worst error (outputs, state) f32 %.2e %.2e, bf16 %.2e %.2e, f16 %.2e "
            "%.2e\n",
            name.empty() ? "" : (name + ": ").c_str(), count, wrong, outputs[0], state[0], outputs[1], state[1],
            outputs[2], state[2]);
        return wrong == 0;
    }
};

}  // namespace causeway::gpu::bench
