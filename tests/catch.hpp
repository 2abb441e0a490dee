// Catch2 of either generation under one name.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <cstdio>
#include <set>
#include <string>

namespace causeway::test {

// How many tests of this run found that what they need is not here. The program's last line counts them apart from the
// passed.
inline int& skipped_tests() {
    static int count = 0;
    return count;
}

// For a test that cannot run here: counts it, and says why once.
inline void skip(const std::string& what, const std::string& why) {
    static std::set<std::string> told;
    ++skipped_tests();
    if (told.insert(what).second) std::printf("%s are skipped: %s\n", what.c_str(), why.c_str());
}

#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
using Catch::Approx;
inline auto contains_text(const std::string& part) { return Catch::Matchers::ContainsSubstring(part); }
#else
using Catch::Detail::Approx;
inline auto contains_text(const std::string& part) { return Catch::Contains(part); }
#endif
}  // namespace causeway::test
