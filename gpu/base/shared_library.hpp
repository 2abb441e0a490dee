// A library (cuBLAS, NCCL) that is loaded by the first call that needs it: a program that links it would not start
// where it is missing, and would start slowly where it is there.
#pragma once

#include <initializer_list>
#include <string>

namespace causeway::gpu {

class SharedLibrary {
public:
    // The first of the files that can be loaded; it stays. Throws Error, `trouble` and why the first of them could not
    // be.
    SharedLibrary(std::string trouble, std::initializer_list<std::string> files);

    // The library's function of that name. Throws Error where it has none.
    template <class Function>
    void find(Function*& function, const char* name) const {
        function = reinterpret_cast<Function*>(symbol(name));
    }

private:
    void* symbol(const char* name) const;

    std::string trouble_;
    void* file_ = nullptr;
};

}  // namespace causeway::gpu
