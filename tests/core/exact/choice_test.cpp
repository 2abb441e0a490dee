// method = "auto": measured, kept, and forgotten when the program is another.
#include "core/exact/choice.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/core/exact/problems.hpp"

using namespace causeway;
using namespace causeway::test;

TEST_CASE("auto computes the right thing for every kind of call", "[exact][auto]") {
    for (bool normalize : {false, true}) {
        const Case c{1, 2, 300, 16, 16, {0.9}, normalize, 51};
        const Inputs in = inputs(c, DType::f32);
        CHECK(Oracle(c, in).mismatch(causal_linear_attention(in.B, in.C, in.V, options(c, "auto")).O) == "");
    }
    const Case c{1, 1, 40, 8, 8, {}, false, 52};
    const Inputs in = inputs(c, DType::f64);
    auto o = options(c, "auto");
    o.return_state = true;
    CHECK(causal_linear_attention(in.B, in.C, in.V, o).state.size() == 64);
    o = options(c, "auto");
    o.block = 8;
    CHECK(Oracle(c, in).mismatch(causal_linear_attention(in.B, in.C, in.V, o).O) == "");
}

TEST_CASE("the answer of auto is kept in the cache directory with the identity of the program", "[exact][auto]") {
    const exact::Question question{DType::f32, 2, 100, 8, 8, false, false, false, 0};
    const std::string name = exact::fastest(question).name;
    CHECK(exact::fastest(question).name == name);
    std::ifstream in(exact::choice_file());
    std::string identity, line;
    CHECK(std::getline(in, identity));
    CHECK(identity.size() > 40);
    bool found = false;
    while (std::getline(in, line))
        found = found || (line.find("heads=2 N=128 r=8 d=8") != std::string::npos && line.ends_with("\t" + name));
    CHECK(found);
}

TEST_CASE("auto asks with the block that was given, and never the forms that are only compared with", "[exact][auto]") {
    for (Index block : {Index{0}, Index{9}, Index{1} << 50}) {
        CAPTURE(block);
        const exact::Method& m = exact::fastest({DType::f32, 1, 100, 4, 4, false, false, true, block});
        CHECK(m.candidate);
        CHECK((block == 0 || m.block > 0));
    }
    std::ifstream in(exact::choice_file());
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    CHECK(text.find("N=128 r=4 d=4 state block=16 ") != std::string::npos);
    CHECK(text.find("N=128 r=4 d=4 state block=128 ") != std::string::npos);
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(exact::choice_file()).parent_path()))
        CHECK(entry.path().filename() == "choices");
}
