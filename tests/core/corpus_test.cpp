// Replays what the fuzzers have found worth keeping; see tests/fuzz/CMakeLists.txt.
#include <filesystem>
#include <utility>

#include "tests/catch.hpp"
#include "tests/fuzz/readers.hpp"
#include "tests/paths.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::testing;

TEST_CASE("every input of the corpus is read or refused", "[fuzz][files]") {
    using Reader = bool (*)(Bytes);
    for (const auto& [format, reader] : {std::pair<const char*, Reader>{"npy", fuzz::npy},
                                         {"npz", fuzz::npz},
                                         {"safetensors", fuzz::safetensors},
                                         {"csv", fuzz::csv},
                                         {"json", fuzz::json},
                                         {"gguf", fuzz::gguf},
                                         {"model_json", fuzz::model_json}}) {
        int accepted = 0, refused = 0;
        for (const auto& file : std::filesystem::directory_iterator(source_dir() + "/tests/fuzz/corpus/" + format)) {
            INFO(file.path().string());
            const std::string bytes = read_bytes(file.path().string());
            REQUIRE_NOTHROW(reader({reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()}) ? ++accepted
                                                                                                         : ++refused);
        }
        INFO(format);
        CHECK(accepted > 0);
        CHECK(refused > 0);
    }
}
