#include "tests/faults/gpu/hooks.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "tests/faults/gpu/c_headers.hpp"
#include "tests/faults/gpu/pretended.hpp"

// What nvcc makes of <<<...>>>, which no header has for other compilers.
extern "C" {
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t);
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*);
unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, cudaStream_t);
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*);
}

namespace causeway::faults {
namespace {

enum Number {
#define LINKED(name) number_##name,
#define LOADED(name) number_##name,
#include "calls.inc"
#undef LINKED
#undef LOADED
    call_count
};

constexpr std::string_view names[] = {
#define LINKED(name) #name,
#define LOADED(name) #name,
#include "calls.inc"
#undef LINKED
#undef LOADED
};

// A call of the list: what the library gets in its place, the function that does the work, and one that does nothing.
struct Known {
    void *refusing = nullptr, *real = nullptr, *idle = nullptr;
};
Known known[call_count];

// ---- which call is refused ----

std::atomic<bool> armed{false}, lasting{false}, for_memory{false}, no_device{false};
std::atomic<long> first_refused{0}, made{0}, refused{0};
std::atomic<int> last_refused{0};
// CUDA keeps the code of a call that failed until it is asked for, and kernels that were not launched are told so
// alone.
thread_local cudaError_t pending = cudaSuccess;

constexpr bool has(std::string_view name, std::string_view part) { return name.find(part) != name.npos; }

// What gives something back, ends something or waits is done before it says that it failed: what CUDA reports there is
// an error of work that was queued before.
constexpr bool is_done_first(std::string_view name) {
    for (const char* part : {"Free", "Destroy", "Abort", "End", "Synchronize", "TrimTo"})
        if (has(name, part)) return true;
    return false;
}

// The rest of <<<...>>> keeps notes within the process, and is not refused.
constexpr bool is_note(std::string_view name) { return name.starts_with("__cuda") && !has(name, "Launch"); }

// Asked again and again until something has happened, as often as time has it: one call, here.
constexpr bool is_poll(std::string_view name) { return has(name, "Query") || has(name, "AsyncError"); }

bool is_refused(int number, bool poll) {
    thread_local int last_poll = -1;
    const bool again = poll && last_poll == number;
    last_poll = poll ? number : -1;
    if (!armed || again) return false;
    const long now = ++made, first = first_refused;
    if (first == 0 || (now != first && !(lasting && now > first))) return false;
    ++refused;
    last_refused = number;
    return true;
}

template <class R>
R code_of_refusal() {
    const bool memory = for_memory;
    if constexpr (std::is_same_v<R, cudaError_t>)
        return pending = memory ? cudaErrorMemoryAllocation : cudaErrorUnknown;
    else if constexpr (std::is_same_v<R, CUresult>) return memory ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
    else if constexpr (std::is_same_v<R, cublasStatus_t>)
        return memory ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_INTERNAL_ERROR;
#ifdef CAUSEWAY_NCCL
    else if constexpr (std::is_same_v<R, ncclResult_t>) return memory ? ncclSystemError : ncclUnhandledCudaError;
#endif
}

// NCCL notes of a group that one of its calls failed. A refused one does so too: it is made without a communicator.
constexpr bool fails_its_group(std::string_view name) {
    return name == "ncclSend" || name == "ncclRecv" || name == "ncclAllGather" || name == "ncclAllReduce";
}

template <class T>
T without_communicator(T argument) {
#ifdef CAUSEWAY_NCCL
    if constexpr (std::is_same_v<T, ncclComm_t>) return nullptr;
#endif
    return argument;
}

// ---- what is held ----

struct Pair {
    std::string_view makes, gives_back;
};
constexpr Pair pairs[] = {{"cudaMalloc", "cudaFree"},
                          {"cudaMallocFromPoolAsync", "cudaFreeAsync"},
                          {"cudaMallocHost", "cudaFreeHost"},
                          {"cudaHostAlloc", "cudaFreeHost"},
                          {"cudaStreamCreateWithFlags", "cudaStreamDestroy"},
                          {"cudaEventCreate", "cudaEventDestroy"},
                          {"cudaStreamBeginCapture", "cudaStreamEndCapture"},
                          {"cudaStreamEndCapture", "cudaGraphDestroy"},
                          {"cudaGraphInstantiate", "cudaGraphExecDestroy"},
                          {"cublasCreate_v2", "cublasDestroy_v2"},
                          {"ncclCommInitAll", ""}};  // p of them at once, in a team that is kept

std::mutex guard;
std::map<std::string, long> numbers_held;  // by the name of what gives them back

void note(std::string_view name, bool given_back_something) {
    for (const Pair& pair : pairs) {
        if (pair.gives_back.empty()) continue;
        const std::lock_guard lock(guard);
        if (name == pair.makes) ++numbers_held[std::string(pair.gives_back)];
        if (name == pair.gives_back && given_back_something) {
            --numbers_held[std::string(pair.gives_back)];
            if (name != "cudaStreamEndCapture") break;  // cudaFreeHost has two partners
        }
    }
}

template <class First, class... Rest>
bool is_something(First first, Rest...) {
    if constexpr (std::is_pointer_v<First>) return first != nullptr;
    else return true;
}

// ---- the functions in the places of others ----

// The function in the place of one that was looked up by its name.
void* in_place_of(std::string_view name, void* real) {
    for (int i = 0; i < call_count; ++i) {
        if (names[i] != name) continue;
        if (!no_device) known[i].real = real;
        return known[i].refusing;
    }
    return real;
}

template <int number, class F>
struct In;

template <int number, class R, class... A>
struct In<number, R(A...)> {
    static R call(A... a) {
        constexpr std::string_view name = names[number];
        const auto real = reinterpret_cast<R (*)(A...)>(known[number].real);
        if constexpr (name == "cudaGetLastError" || name == "cudaPeekAtLastError") {
            const R kept = pending, code = real(a...);
            if (name == "cudaGetLastError") pending = cudaSuccess;
            return kept != cudaSuccess ? kept : code;
        } else if constexpr (std::is_pointer_v<R> || is_note(name)) {
            return real(a...);  // texts have no code either
        } else {
            const bool is = is_refused(number, is_poll(name));
            if (is && !is_done_first(name)) {
                if constexpr (fails_its_group(name)) real(without_communicator(a)...);
                return code_of_refusal<R>();
            }
            const R code = real(a...);
            if (static_cast<int>(code) == 0) done(a...);
            if (!is) return code;
            // A capture that fails has no graph.
            if constexpr (name == "cudaStreamEndCapture") {
                cudaGraph_t& graph = *std::get<1>(std::tie(a...));
                if (graph) cudaGraphDestroy(graph);
                graph = nullptr;
            }
            return code_of_refusal<R>();
        }
    }
    static R idle(A...) { return R{}; }

private:
    static void done(A... a) {
        constexpr std::string_view name = names[number];
        if constexpr (sizeof...(A) > 0) note(name, is_something(a...));
        if constexpr (name == "cudaGetDriverEntryPointByVersion") {
            void*& found = *std::get<1>(std::tie(a...));
            found = in_place_of(std::get<0>(std::tie(a...)), found);
        }
    }
};

}  // namespace
}  // namespace causeway::faults

// The linker lets what calls `name` call __wrap_name, and __real_name is the function itself.
extern "C" {
using causeway::faults::In;

#define LINKED(name)                                                                                                   \
    decltype(::name) __real_##name;                                                                                    \
    static decltype(&::name) wrap_of_##name() { return &In<causeway::faults::number_##name, decltype(::name)>::call; } \
    decltype(::name) __wrap_##name __attribute__((ifunc("wrap_of_" #name)));
#define LOADED(name)
#include "calls.inc"
#undef LINKED
#undef LOADED

void* __real_dlopen(const char*, int);
void* __real_dlsym(void*, const char*);

void* __wrap_dlopen(const char* file, int flags) {
    return __real_dlopen(causeway::faults::pretending() ? nullptr : file, flags);
}

void* __wrap_dlsym(void* library, const char* name) {
    void* const real = causeway::faults::pretending() ? nullptr : __real_dlsym(library, name);
    return real || causeway::faults::pretending() ? causeway::faults::in_place_of(name, real) : real;
}
}

namespace causeway::faults {
namespace {

// Before anything is called.
const bool filled = [] {
#define FILL(name, function)                                                                                          \
    known[number_##name] =                                                                                            \
        Known{reinterpret_cast<void*>(&In<number_##name, decltype(::name)>::call), reinterpret_cast<void*>(function), \
              reinterpret_cast<void*>(&In<number_##name, decltype(::name)>::idle)};
#define LINKED(name) FILL(name, &__real_##name)
#define LOADED(name) FILL(name, static_cast<decltype(&::name)>(nullptr))
#include "calls.inc"
#undef LINKED
#undef LOADED
    return true;
}();

}  // namespace

void arm(const Place& place) {
    made = refused = 0;
    first_refused = place.first, lasting = place.lasting, for_memory = place.memory;
    armed = true;
}

Calls disarm() {
    armed = false;
    return {made, refused, refused > 0 ? names[last_refused].data() : ""};
}

std::map<std::string, long> held() {
    const std::lock_guard lock(guard);
    return numbers_held;
}

std::string unpaired() {
    for (const std::string_view name : names) {
        bool makes = false, paired = false;
        for (const char* part : {"Create", "Malloc", "Alloc", "Instantiate", "InitAll", "Begin"})
            makes = makes || has(name, part);
        for (const Pair& pair : pairs) paired = paired || pair.makes == name;
        if (makes && !paired) return std::string(name);
    }
    return "";
}

void pretend(int devices) {
    set_pretended_devices(devices);
    no_device = true;
    for (int i = 0; i < call_count; ++i) {
        // Texts of CUDA need no device.
        if (has(names[i], "cudaGetError")) continue;
        void* const function = pretended(names[i].data());
        known[i].real = function ? function : known[i].idle;
    }
}

void stand_in(const char* name, void* function) {
    for (int i = 0; i < call_count; ++i)
        if (names[i] == name) known[i].real = function;
}

bool pretending() { return no_device; }

}  // namespace causeway::faults
