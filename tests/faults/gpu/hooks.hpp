// Calls of CUDA, cuBLAS and NCCL that fail on purpose: the linker puts a function of hooks.cpp in the place of each
// that the GPU library calls, and of each that it loads (calls.cmake makes their list). Or all of them are those of
// devices that do not exist and compute nothing: then everything but results is tried without a GPU.
#pragma once

#include <map>
#include <string>

namespace causeway::faults {

// From now on the `first`-th call is refused (counted from 1; 0: none), and where `lasting` every later one too, in all
// threads, until disarm(). `memory`: it says that there is no memory, else that something unknown went wrong.
struct Place {
    long first = 0;
    bool lasting = false, memory = false;
};
void arm(const Place&);

// Calls made since arm(), the refused ones, and the name of the last of these.
struct Calls {
    long made = 0, refused = 0;
    const char* name = "";
};
Calls disarm();

// What was made by a call and not given back: memory, streams, events, graphs ..., by the name of what makes them.
std::map<std::string, long> held();

// A call that makes something and has no partner that gives it back in the list of held(); empty: there is none.
std::string unpaired();

// So many devices that do not exist take all calls from now on.
void pretend(int devices);
// Then another function stands in the place of this one.
void stand_in(const char* name, void* function);
bool pretending();

}  // namespace causeway::faults
