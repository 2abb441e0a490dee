// The Lua of the pages runs as it stands there, one block after the other.
#include <filesystem>

#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/paths.hpp"

using causeway::testing::Output;
using causeway::testing::read_bytes;
using causeway::testing::run_in;
using causeway::testing::TemporaryFolder;
using causeway::testing::write_bytes;

namespace {

// All blocks of a page, as one script; those that want a GPU only where there is one.
std::string lua_of(const std::string& page, bool has_gpu) {
    const std::string text = read_bytes(source_dir() + "/" + page), open = "```lua\n", close = "```";
    std::string script;
    for (std::size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
        at += open.size();
        const std::string block = text.substr(at, text.find(close, at) - at);
        if (has_gpu || block.find("gpu") == std::string::npos) script += block;
        else causeway::test::skip("the code on a GPU of " + page, "there is no GPU");
    }
    return script;
}

}  // namespace

TEST_CASE("the code of the pages runs", "[docs]") {
    const TemporaryFolder anywhere;
    const bool has_gpu = run_in(anywhere, {"--version"}).out.find("no GPU") == std::string::npos;
    for (const std::string page : {"README.md", "docs/tutorial.md", "docs/tour.md"}) {
        CAPTURE(page);
        const TemporaryFolder folder;  // in place of that of the sources, which the pages start in
        std::filesystem::create_directory_symlink(source_dir() + "/experiments", folder / "experiments");
        std::string script = lua_of(page, has_gpu);
        REQUIRE(script != "");
        // A model that is there without a network, and has six layers.
        const std::string fetched = "model(\"smollm2\")";
        const std::size_t at = script.find(fetched);
        if (at != std::string::npos) script.replace(at, fetched.size(), "model(\"experiments/data/tiny-llama\")");
        write_bytes(folder / "page.lua", script);
        const Output output = run_in(folder, {"page.lua"});
        CHECK(output.err.find("error") == std::string::npos);
        CHECK(output.status == 0);
    }
}
