// The C interface and the Python module on it, as programs that use them: what they hold, they hold themselves.
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/temporary.hpp"

using namespace causeway::testing;

namespace {

std::string build_dir() { return std::filesystem::path(program_path()).parent_path().string(); }

// What the command prints; "" where it ends with another status than 0, and its output is then shown.
std::string output_of(const std::string& command) {
    const TemporaryFolder folder;
    const int status = std::system((command + " >" + folder / "out" + " 2>&1").c_str());
    const std::string out = read_bytes(folder / "out");
    if (status == 0) return out;
    UNSCOPED_INFO(command << ":\n" << out);
    return "";
}

std::string with_python(const std::string& modules, const std::string& script) {
    return "HF_HUB_OFFLINE=1 CAUSEWAY_LIBRARY=" + build_dir() + "/libcauseway.so " + python_with(modules) + " " +
           source_dir() + "/tests/core/c/" + script + " " + source_dir() + "/core/c/python";
}

// Why the Python module cannot be tried here with these modules, or "".
std::string cannot_import(const std::string& modules) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return "a library under a sanitizer cannot be loaded by python3";
#endif
    if (!emulator().empty()) return "python3 is of another processor than the library";
    return python_with(modules).empty() ? "there is no python3 with " + modules : "";
}

}  // namespace

TEST_CASE("a program in C gets from the C interface what plain loops compute", "[c]") {
    CHECK(output_of(emulator() + " " + build_dir() + "/tests/causeway-c-test") == "the C interface holds\n");
}

TEST_CASE("the shared library exports the functions of causeway.h and nothing else", "[c]") {
    const std::string names = output_of("nm -D --defined-only " + build_dir() + "/libcauseway.so");
    CHECK(names.find(" causeway_linear_attention\n") != std::string::npos);
    for (std::size_t at = 0; at < names.size();) {
        const std::size_t end = names.find('\n', at);
        const std::string line = names.substr(at, end - at);
        INFO(line);
        CHECK(line.find(" T causeway_") != std::string::npos);
        at = end + 1;
    }
}

TEST_CASE("the Python module computes on arrays of NumPy where they lie", "[c][python]") {
    if (const std::string why = cannot_import("numpy"); !why.empty()) {
        causeway::test::skip("tests of the Python module", why);
        return;
    }
    CHECK(output_of(with_python("numpy", "module_numpy.py")) == "the module holds\n");
}

TEST_CASE("the Python module has PyTorch's gradients", "[c][python]") {
    if (const std::string why = cannot_import("numpy, torch"); !why.empty()) {
        causeway::test::skip("tests against PyTorch", why);
        return;
    }
    CHECK(output_of(with_python("numpy, torch", "module_torch.py")) == "the module holds with torch\n");
}

TEST_CASE("a model of Transformers computes the same with our kernels in it", "[c][python]") {
    if (const std::string why = cannot_import("torch, transformers"); !why.empty()) {
        causeway::test::skip("tests of the hook for Transformers", why);
        return;
    }
    CHECK(output_of(with_python("torch, transformers", "module_transformers.py")) == "the hook holds\n");
}

TEST_CASE("a program gets from the C interface on a GPU what it gets on the CPU", "[c][gpu]") {
    const std::string program = build_dir() + "/tests/causeway-c-gpu-test";
    const char* why = "the CUDA library is not built";
    if (std::filesystem::exists(program)) {
        const TemporaryFolder folder;
        constexpr int no_gpu = 77;
        const int status = std::system((program + " >" + folder / "out" + " 2>&1").c_str());
        if (!WIFEXITED(status) || WEXITSTATUS(status) != no_gpu) {
            CHECK(read_bytes(folder / "out") == "the C interface holds on a GPU\n");
            CHECK(status == 0);
            return;
        }
        why = "there is no GPU";
    }
    causeway::test::skip("tests of the C interface on a GPU", why);
}

TEST_CASE("the Python module computes on CUDA tensors where they are", "[c][python][gpu]") {
    const std::string library = build_dir() + "/libcauseway_gpu.so";
    const std::string modules = "torch; assert torch.cuda.is_available()";
    if (!std::filesystem::exists(library) || python_with(modules).empty()) {
        causeway::test::skip("tests of the Python module on a GPU",
                             "there is no libcauseway_gpu.so, or no python3 with PyTorch that finds a GPU");
        return;
    }
    const std::string said =
        output_of("HF_HUB_OFFLINE=1 CAUSEWAY_LIBRARY=" + library + " " + python_with(modules) + " " + source_dir() +
                  "/tests/gpu/c/module_cuda.py " + source_dir() + "/core/c/python");
    CHECK(said.find("the module holds on a GPU\n") != std::string::npos);
}

TEST_CASE("without the shared library, or with another file, the Python module says so", "[c][python]") {
    const std::string python = python_with("numpy");
    if (python.empty()) {
        causeway::test::skip("tests of the Python module", "there is no python3 with numpy");
        return;
    }
    const auto said = [&](const std::string& library) {
        return output_of("CAUSEWAY_LIBRARY=" + library + " PYTHONPATH=" + source_dir() + "/core/c/python " + python +
                         " -c '\ntry:\n    import causeway\nexcept ImportError as error:\n    print(error)'");
    };
    CHECK(said("/nowhere/libcauseway.so").find("libcauseway.so was not found: build it") == 0);
    CHECK(said("/nowhere/libcauseway.so").find("looked for /nowhere/libcauseway.so\n") != std::string::npos);
    CHECK(said(source_dir() + "/lab").find(source_dir() + "/lab cannot be loaded: ") == 0);
}
