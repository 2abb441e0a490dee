// No sequence of keys ends the shell or takes it where Ctrl-C does not help: a sample of what causeway-keys tries
// (tests/keys/main.cpp), with each editor.
#include "core/tensor/random.hpp"
#include "tests/faults/sample.hpp"

TEST_CASE("no sequence of keys ends the shell: a sample", "[lua][shell][keys]") {
    const std::string seed = std::to_string(causeway::random::seed() % 1000000);
    for (const std::string& program : {program_path(), program_with_libedit()}) {
        if (!program.empty())
            causeway::test::run_sample("causeway-keys", "--sequences 1000 --seconds 20 --seed " + seed + " " + program,
                                       "tests of keys at the prompt");
    }
}

TEST_CASE("causeway-keys says its options", "[lua][shell][keys]") {
    causeway::test::check_options("causeway-keys", "tests of keys at the prompt");
}
