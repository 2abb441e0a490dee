// The floors of core: which folder may include which.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "tests/catch.hpp"
#include "tests/paths.hpp"

namespace {

using Includes = std::map<std::string, std::set<std::string>>;  // folder of core -> folders of core it includes

Includes includes_of_core() {
    Includes found;
    const std::string start = "#include \"core/";
    const std::filesystem::path core = std::filesystem::path(tests::source_dir()) / "core";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(core)) {
        if (entry.path().extension() != ".hpp" && entry.path().extension() != ".cpp") continue;
        const std::string folder = entry.path().parent_path().filename().string();
        std::ifstream in(entry.path());
        for (std::string line; std::getline(in, line);) {
            if (line.rfind(start, 0) != 0) continue;
            const std::string other = line.substr(start.size(), line.find('/', start.size()) - start.size());
            if (other != folder) found[folder].insert(other);
        }
    }
    return found;
}

// Whether `to` is reached from `from`.
bool reaches(const Includes& includes, const std::string& from, const std::string& to,
             std::set<std::string> seen = {}) {
    const auto at = includes.find(from);
    if (at == includes.end() || !seen.insert(from).second) return false;
    for (const auto& next : at->second)
        if (next == to || reaches(includes, next, to, seen)) return true;
    return false;
}

}  // namespace

TEST_CASE("folders of core include what lies below them, and no mechanism another", "[layers]") {
    const Includes includes = includes_of_core();
    REQUIRE(includes.size() > 5);
    for (const auto& [folder, below] : includes) {
        INFO(folder);
        CHECK(!reaches(includes, folder, folder));
    }
    const std::set<std::string> mechanisms{"exact", "gated", "softmax", "lowrank", "distributed"};
    for (const auto& mechanism : mechanisms) {
        REQUIRE(includes.count(mechanism) == 1);
        for (const auto& other : includes.at(mechanism)) {
            INFO(mechanism << " includes " << other);
            CHECK(mechanisms.count(other) == 0);
            CHECK(other != "gradient");
        }
    }
    for (const auto& other : includes.at("kit")) CHECK((other == "base" || other == "tensor" || other == "measure"));
}
