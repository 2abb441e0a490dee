// Every exception has a kind, by its type and not by its text.
#include "core/base/error.hpp"

#include <unistd.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "core/base/file.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/utf8.hpp"
#include "core/tensor/tensor.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::testing;

namespace {

template <class F>
ErrorKind kind_thrown(F&& f) {
    try {
        f();
    } catch (const std::exception& error) {
        return kind_of(error);
    }
    FAIL("nothing was thrown");
    return {};
}

}  // namespace

TEST_CASE("an exception has the kind of what went wrong", "[errors]") {
    CHECK(kind_thrown([] { fail("out of memory, interrupted: only words"); }) == ErrorKind::bad_argument);
    CHECK(kind_thrown([] { Tensor(DType::f64, {Index{1} << 40, 1 << 10}); }) == ErrorKind::out_of_memory);
    CHECK(kind_thrown([] { throw std::bad_alloc(); }) == ErrorKind::out_of_memory);
    CHECK(kind_thrown([] { Source("/there/is/no such file"); }) == ErrorKind::io);
    CHECK(kind_thrown([] { Writer("/there/is/no such folder"); }) == ErrorKind::io);
    CHECK(kind_thrown([] { fail_as<SystemError>("the device is gone"); }) == ErrorKind::system);
    CHECK(kind_thrown([] { throw std::logic_error("not ours"); }) == ErrorKind::system);
    interrupt::request();
    CHECK(kind_thrown([] { interrupt::check(); }) == ErrorKind::interrupted);
    interrupt::clear();
    interrupt::set_deadline(1e-9);
    usleep(10);
    CHECK(kind_thrown([] { interrupt::check(); }) == ErrorKind::timeout);
    interrupt::set_deadline(0);
}

TEST_CASE("the kinds have names of their own", "[errors]") {
    std::set<std::string> names;
    for (const ErrorKind kind : all_error_kinds) names.insert(text_of(kind));
    CHECK(names.size() == std::size(all_error_kinds));
    CHECK(names.count("out of memory") == 1);
}

TEST_CASE("numbers in a message are nan, inf and -inf, whatever the sign of a NaN", "[errors]") {
    const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
    CHECK(sentence("decay: ", nan, ", ", -nan, ", ", std::copysign(nan, -1.0)) == "decay: nan, nan, nan");
    CHECK(sentence(std::copysign(std::numeric_limits<float>::quiet_NaN(), -1.0f)) == "nan");
    CHECK(sentence(inf, " ", -inf, " ", 0.5f, " ", 3) == "inf -inf 0.5 3");
}

TEST_CASE("a long text in a message is shown by its ends, in whole characters", "[errors]") {
    const auto message = [](const std::string& text) {
        return message_of([&] { fail("method: ", text, ", expected another"); });
    };
    CHECK(message(std::string(2000, 'x')) == "method: " + std::string(2000, 'x') + ", expected another");
    CHECK(message(std::string(100000, 'x')) == "method: " + std::string(500, 'x') + " ... (99000 bytes) ... " +
                                                   std::string(500, 'x') + ", expected another");
    std::string accents = "a";
    for (int i = 0; i < 2000; ++i) accents += "é";
    const std::string shown = message(accents);
    CHECK(utf8_prefix(shown) == shown.size());
    CHECK(shown.size() < 1100);
    CHECK(message_of([] { fail_as<IoError>(std::string(3000, '/'), ": is missing"); }).size() < 1100);
    CHECK(message(std::string(5000, '\x80')).size() < 6000);  // no UTF-8 at all
}
