// method = "auto": measured, kept, and forgotten when the program is another.
#include "core/exact/choice.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latch>
#include <string>
#include <thread>

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

TEST_CASE("methods that are timed keep no thread waiting that asks for an answer which is known", "[exact][auto]") {
    const exact::Question known{DType::f32, 1, 30, 4, 4, false, false, false, 0};
    const std::string answer = exact::fastest(known).name;
    // A method that, where it is timed, waits until the other thread has its answer, or long enough to see it has none.
    static std::latch timed(1);
    static std::atomic<bool> first = true, answered, gave_up;
    exact::Method waiting = exact::method(answer);
    waiting.name = waiting.short_name = "waiting";
    waiting.f32 = [](const auto& p) {
        if (first.exchange(false)) {
            timed.count_down();
            for (int i = 0; i < 10000 && !answered; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            gave_up = !answered;
        }
        exact::method("row-based").f32(p);
    };
    exact::register_method(waiting);
    {
        const std::jthread other([] { exact::fastest({DType::f32, 1, 60, 128, 16, false, false, false, 0}); });
        timed.wait();
        CHECK(exact::fastest(known).name == answer);
        CHECK_FALSE(gave_up);
        answered = true;
    }
    exact::unregister_method("waiting");
}
