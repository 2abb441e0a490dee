// Files for tests: a folder that goes away, bytes in and out, other programs.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <sys/wait.h>

#include "core/base/error.hpp"
#include "tests/paths.hpp"

namespace causeway::testing {

class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "causeway-test-XXXXXX").string();
        if (!::mkdtemp(pattern.data())) fail(pattern, ": cannot make a folder for the test");
        path_ = pattern;
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    std::string path() const { return path_; }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

inline std::string read_bytes(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) fail(path, ": cannot be read by the test");
    return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string golden(const std::string& name) { return source_dir() + "/tests/data/" + name; }

// The sentence of the Error that f throws, "" when it throws none.
template <class F>
std::string message_of(F&& f) {
    try {
        f();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

// Exit status of a shell command; its output is dropped.
inline int run_command(const std::string& command) {
    const int status = std::system(("( " + command + " ) >/dev/null 2>&1").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The command of a Python that has the modules, as in "numpy, safetensors"; "" where there is none. ./lab test names
// one in CAUSEWAY_PYTHON; of the others, the one that comes first is often not that of the system's packages.
inline std::string python_with(const std::string& modules) {
    const char* named = std::getenv("CAUSEWAY_PYTHON");
    for (const std::string python : {named ? named : "python3", "python3", "/usr/bin/python3"}) {
        if (run_command(python + " -c 'import " + modules + "'") == 0) return python;
    }
    return "";
}

}  // namespace causeway::testing
