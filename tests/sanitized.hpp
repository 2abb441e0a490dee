// Whether the tests are built with the address or the thread sanitizer. Instrumented code takes up to a hundred times
// as long, so what computes for seconds without it takes smaller sizes there, or is skipped where a size is part of the
// claim.
#pragma once

namespace causeway::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace causeway::test
