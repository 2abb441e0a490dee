#include "core/base/text.hpp"

#include "core/base/unknown_name.hpp"

#include "tests/catch.hpp"

using causeway::closest;

TEST_CASE("the nearest name is suggested, and none where nothing is near", "[base]") {
    const std::vector<std::string> names{"vanilla", "fleet", "block-based", "recursion"};
    CHECK(closest("fleat", names) == "fleet");
    CHECK(closest("recurson", names) == "recursion");
    CHECK(closest("block", names) == "block-based");
    CHECK(closest("xyzzy", names).empty());
    CHECK(closest("xpos", {"cos", "copy"}).empty());  // of a short word two other letters make another one
    CHECK(closest("smu", {"sum", "cos"}) == "sum");
    CHECK(closest("sorted", {"outer"}).empty());
    CHECK(closest("license", {"ifelse"}).empty());
    CHECK(closest("remove_method", {"chosen_method"}).empty());
    CHECK(closest("cross_attention", {"tree_attention", "flashattention"}).empty());  // a part is another word
    CHECK(closest("causal_linear_atention", {"causal_linear_attention"}) == "causal_linear_attention");
    CHECK(closest("logdecay", {"log_decay"}) == "log_decay");
    CHECK(closest("blocks", {"method", "block", "scale"}) == "block");
}

TEST_CASE("an unknown name is told with the nearest one, or with what its caller knows of it", "[base]") {
    const causeway::UnknownName near("method: \"fleat\"", "fleat", {"vanilla", "fleet"}, ", expected one of two");
    CHECK(std::string(near.what()) == "method: \"fleat\" (did you mean \"fleet\"?)");
    CHECK(near.sentence_with(" (see ?fleat)") == "method: \"fleat\" (see ?fleat)");
    const causeway::UnknownName far("method: \"xyzzy\"", "xyzzy", {"vanilla", "fleet"}, ", expected one of two");
    CHECK(std::string(far.what()) == "method: \"xyzzy\", expected one of two");
    CHECK(far.sentence_with("") == far.what());
}
