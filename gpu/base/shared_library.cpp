#include "gpu/base/shared_library.hpp"

#include <dlfcn.h>

#include "gpu/base/error.hpp"

namespace causeway::gpu {

SharedLibrary::SharedLibrary(std::string trouble, std::initializer_list<std::string> files)
    : trouble_(std::move(trouble)) {
    std::string why;
    for (const std::string& path : files) {
        file_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (file_) return;
        if (const char* reason = dlerror(); why.empty() && reason) why = reason;
    }
    fail_as<SystemError>(trouble_, why);
}

void* SharedLibrary::symbol(const char* name) const {
    if (void* found = dlsym(file_, name)) return found;
    fail_as<SystemError>(trouble_, "the library that is installed has no ", name);
}

}  // namespace causeway::gpu
