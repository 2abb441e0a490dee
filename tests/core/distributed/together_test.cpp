#include "core/distributed/together.hpp"

#include "core/distributed/threads.hpp"
#include "tests/catch.hpp"

namespace causeway::test {

TEST_CASE("what fails on one rank fails on all, with its sentence and its kind", "[distributed]") {
    const auto kinds = [](int ranks, const std::exception& error, auto&& raise) {
        std::vector<std::string> out(static_cast<std::size_t>(ranks));
        distributed::run_threads(ranks, [&](distributed::Communicator& comm) {
            try {
                distributed::together(comm, [&] {
                    if (comm.rank() == ranks - 1) raise();
                });
            } catch (const std::exception& caught) {
                CHECK(dynamic_cast<const Error*>(&caught));
                out[static_cast<std::size_t>(comm.rank())] = sentence(text_of(kind_of(caught)), ": ", caught.what());
            }
        });
        for (const std::string& text : out)
            CHECK(text.starts_with(sentence(text_of(kind_of(error)), ": ", error.what())));
        CHECK(out.back().ends_with(" (said by rank 1)") == (ranks == 2));
    };
    for (const int ranks : {1, 2}) {
        for (const ErrorKind kind : all_error_kinds) {
            CAPTURE(ranks, text_of(kind));
            try {
                distributed::fail_of_kind(kind, "why");
            } catch (const Error& error) {
                CHECK(kind_of(error) == kind);
                kinds(ranks, error, [&] { distributed::fail_of_kind(kind, "why"); });
            }
        }
        // Of the standard library, which no rank waits for either.
        kinds(ranks, OutOfMemory("out of memory"), [] { throw std::bad_alloc(); });
        kinds(ranks, SystemError("strange"), [] { throw std::runtime_error("strange"); });
    }
}

}  // namespace causeway::test
