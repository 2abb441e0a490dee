// Any call of CUDA, cuBLAS and NCCL may fail: a sample of what causeway-gpu-faults runs (tests/faults/gpu/main.cpp).
#include "tests/faults/sample.hpp"
#include "tests/gpu/device.hpp"

using causeway::test::check_options;
using causeway::test::run_sample;

namespace {

constexpr const char *program = "causeway-gpu-faults", *what = "tests of calls of CUDA that fail";

}  // namespace

TEST_CASE("any call of CUDA may fail: a sample, on devices that do not exist", "[gpu][gpu-faults]") {
    run_sample(program, "--pretend --most 4", what);
}

TEST_CASE("any call of CUDA may fail: a sample", "[gpu][gpu-faults]") {
    if (causeway::test::on_gpu()) run_sample(program, "--most 4", what);
}

TEST_CASE("causeway-gpu-faults says its options", "[gpu][gpu-faults]") { check_options(program, what); }
