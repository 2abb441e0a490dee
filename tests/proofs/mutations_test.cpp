// Whether the checks of the proofs can fail. A fault is a deliberate error in a statement (a wrong constant, a term left
// out, an index shifted) or in a form that a check computes; the checks that know it, by its name, are run once more
// with it, and the claims of which a row goes red must be those named here and no other. No fault is in the library: a
// wrong method is registered by a test, or is a copy in the test.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/proofs/claims.hpp"

using namespace causeway::proofs;

namespace {

struct Mutation {
    std::string claim, what;                // the fault's name is "claim: what"
    std::vector<std::string> red_as_well;  // claims that rest on the same statement

    std::string fault() const { return claim + ": " + what; }
    std::set<std::string> expected() const {
        std::set<std::string> out(red_as_well.begin(), red_as_well.end());
        out.insert(claim);
        return out;
    }
};

const std::vector<Mutation>& mutations() {
    static const std::vector<Mutation> all{
        //MUTATIONS
    };
    return all;
}

// Claims none of whose rows has a fault yet.
const std::set<std::string>& without_fault() {
    static const std::set<std::string> all{};
    return all;
}

// The checks of the proofs, by the name of their test.
using Checks = std::map<std::string, std::function<void()>>;

Checks checks_of_proofs() {
    Checks out;
    for (const auto& test : Catch::getAllTestCasesSorted(*Catch::getCurrentContext().getConfig())) {
#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
        const auto& info = test.getTestCaseInfo();
        std::set<std::string> tags;
        for (const auto& tag : info.tags) tags.insert(std::string(tag.original.begin(), tag.original.end()));
        const std::string name = info.name;
#else
        const std::set<std::string> tags(test.tags.begin(), test.tags.end());
        const std::string name = test.name;
#endif
        if (tags.count("proofs") && !tags.count("mutations")) out[name] = [test] { test.invoke(); };
    }
    return out;
}

std::string listed(const std::set<std::string>& names) {
    std::string out;
    for (const auto& name : names) out += (out.empty() ? "" : ", ") + name;
    return out.empty() ? "none" : out;
}

}  // namespace
