// What the environment asks for.
#pragma once

#include <string>

namespace causeway {

// What is wrong with CAUSEWAY_THREADS, in a sentence, or "": a value that is wrong is not used, and processors() is.
std::string threads_fault();

}  // namespace causeway
