#include "core/tensor/format.hpp"

#include <limits>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/core/tensor/sample.hpp"

using namespace causeway;

namespace {

std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> out;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) out.push_back(line);
    return out;
}

// Characters, not bytes: continuation bytes of UTF-8 do not count.
std::size_t width(const std::string& line) {
    std::size_t n = 0;
    for (char c : line) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    return n;
}

}  // namespace

TEST_CASE("numbers are written as Julia writes them", "[tensor][format]") {
    const auto text = [](double v) { return format(v, DType::f32); };
    CHECK(text(0) == "0.0");
    CHECK(text(1) == "1.0");
    CHECK(text(-12) == "-12.0");
    CHECK(text(0.1f) == "0.1");
    CHECK(text(1.0 / 3) == "0.333333");
    CHECK(text(123456) == "123456.0");
    CHECK(text(123456.7) == "1.23457e5");
    CHECK(text(1.9999999) == "2.0");
    CHECK(text(-99999.96) == "-100000.0");
    CHECK(text(1e6) == "1.0e6");
    CHECK(text(1.5e-9) == "1.5e-9");
    CHECK(text(1e-4) == "0.0001");
    CHECK(text(-1e-30) == "-1.0e-30");
    CHECK(text(1e300) == "1.0e300");
    CHECK(text(NaN) == "NaN");
    CHECK(text(Inf) == "Inf");
    CHECK(text(-Inf) == "-Inf");
    CHECK(format(static_cast<double>(half(0.1f)), DType::f16) == "0.09998");
    CHECK(format(static_cast<double>(bfloat16(0.1f)), DType::bf16) == "0.1");
    CHECK(format(1234.5, DType::f16) == "1234.5");
    CHECK(format(100.5, DType::bf16) == "100.5");
}

TEST_CASE("a matrix is aligned at the decimal points", "[tensor][format]") {
    CHECK(format(values({1, -22.5, 3, NaN, 1e-9, Inf}, DType::f32).reshape({2, 3}), 80, 24) ==
          "2×3 Tensor{Float32}:\n"
          "   1.0  -22.5       3.0\n"
          " NaN      1.0e-9  Inf");
    CHECK(format(values({1, 0.25}), 80, 24) == "2-element Tensor{Float64}:\n 1.0\n 0.25");
    CHECK(format(Tensor(DType::f32, {0, 3}), 80, 24) == "0×3 Tensor{Float32}");
    CHECK(format(Tensor(DType::f32, {0}), 80, 24) == "0-element Tensor{Float32}");
}

TEST_CASE("what does not fit is elided", "[tensor][format]") {
    CHECK(format(Tensor::zeros(DType::f32, {9}), 80, 8) == "9-element Tensor{Float32}:\n 0.0\n 0.0\n ⋮\n 0.0");
    CHECK(format(Tensor::zeros(DType::f32, {9, 9}), 24, 8) ==
          "9×9 Tensor{Float32}:\n"
          " 0.0  0.0  ⋯  0.0  0.0\n"
          " 0.0  0.0  ⋯  0.0  0.0\n"
          " ⋮    ⋮    ⋱  ⋮    ⋮\n"
          " 0.0  0.0  ⋯  0.0  0.0");
    for (const Shape& shape : {Shape{500}, Shape{7, 9}, Shape{100, 100}, Shape{1, 1000}, Shape{3, 50, 50},
                               Shape{2, 4, 256, 64}, Shape{2, 8, 4096, 128}, Shape{6, 4, 4}, Shape{50, 2, 2}}) {
        const Tensor x = sample(shape, 1, DType::f32);
        for (int columns : {20, 37, 80, 200}) {
            for (int rows : {8, 10, 13, 24, 31, 40, 60}) {
                CAPTURE(columns, rows, shape.text());
                const auto shown = lines(format(x, columns, rows));
                for (const auto& line : shown)
                    CHECK((width(line) <= static_cast<std::size_t>(columns) || &line == &shown[0]));
                // The header stays on the screen; of more dimensions there is at least one slice of three rows.
                CHECK(static_cast<int>(shown.size()) <= (shape.ndim() <= 2 ? rows : std::max(rows, 10)) - 3);
            }
        }
    }
}

TEST_CASE("slices of more dimensions carry their index", "[tensor][format]") {
    CHECK(format(values({1, 2, 3, 4}).reshape({2, 1, 2}), 80, 24) ==
          "2×1×2 Tensor{Float64}:\n[1, :, :] =\n 1.0  2.0\n\n[2, :, :] =\n 3.0  4.0");
    const std::string text = format(Tensor::zeros(DType::f32, {5, 5, 1, 1}), 80, 24);
    CHECK(text.find("[1, 1, :, :] =") != std::string::npos);
    CHECK(text.find("⋮") != std::string::npos);
    CHECK(text.find("[5, 5, :, :] =") != std::string::npos);
}
