// Any call of CUDA, cuBLAS and NCCL may fail: runs calls of every family of the GPU library once for each of the CUDA
// calls they make with that one refused, and once with that one and all that follow refused, each for want of memory
// and for a reason unknown. The process must live; what is said must be one sentence that names the GPU; a result that
// comes nevertheless must be the right one; the thread must be on the device it was on; another call, and the same one
// again, must then be right; memory, streams, events and graphs must be given back. The last line of
// the output counts cases and faults; exit status 1 where there was a fault, 3 where there is no GPU.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "core/base/error.hpp"
#include "gpu/base/buffer.hpp"
#include "gpu/base/device.hpp"
#include "tests/faults/children.hpp"
#include "tests/faults/gpu/cases.hpp"
#include "tests/faults/gpu/hooks.hpp"

namespace causeway::faults {
namespace {

constexpr const char* usage = R"(causeway-gpu-faults [OPTION]...

  --pretend     on devices that do not exist, whose kernels do nothing (a result that then differs from run to run is
                not looked at); else on the GPUs here
  --most N      at most N places of each call, spread over all of them, and a tenth of that where NCCL has to connect
                GPUs anew; else every one
  --only WORD   calls whose names have the word
  --share I/N   the I-th of N shares of the calls, for N processes at once
  --devices P   GPUs that may be used (all; 2 that do not exist)
  --at N        only the N-th call of CUDA in each, in this process, for a debugger
  --lasting     with --at: and all later ones
  --memory      with --at: for want of memory
  --list        only the names of the calls
  --verbose     a line for each call
  --help        this
)";

struct Request {
    long most = 0;  // places of a case; 0: all
    int devices = 0;
    std::string only;
    std::size_t share = 1, shares = 1;
    Place at;
    bool pretend = false, list = false, verbose = false;
};

struct Outcome {
    std::string message;
    bool of_ours = false;  // the message is that of an Error
    Results results;
    Calls calls;
    int moved_to = -1;  // the device that the thread was left on, where it is another
};

Outcome run(const Call& call, const Place& place) {
    Outcome out;
    int before = 0, after = 0;
    cudaGetDevice(&before);
    alarm(patience / 4);
    arm(place);
    try {
        out.results = call();
        out.calls = disarm();
    } catch (const std::exception& error) {
        out.calls = disarm();
        out.message = error.what();
        out.of_ours = dynamic_cast<const Error*>(&error) != nullptr;
        if (out.message.empty()) out.message = "an exception without a sentence";
    }
    alarm(0);
    cudaGetDevice(&after);
    if (after != before) {
        out.moved_to = after;
        cudaSetDevice(before);
    }
    return out;
}

bool same(const Results& a, const Results& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Tensor& x, const Tensor& y) {
        return x.dtype() == y.dtype() && x.shape() == y.shape() && std::memcmp(x.raw(), y.raw(), x.bytes()) == 0;
    });
}

bool is_one_sentence_of_the_gpu(const Outcome& out) {
    if (!out.of_ours || out.message.find('\n') != std::string::npos) return false;
    for (const char* word : {"gpu: ", "engine: \"nccl\""})
        if (out.message.find(word) != std::string::npos) return true;
    return false;
}

std::string text_of(const Place& p) {
    return std::to_string(p.first) + (p.lasting ? " and all later" : "") + (p.memory ? ", memory" : "");
}

// What a call has not given back, in words; empty: nothing. Memory that a pool keeps for the next call does not count.
class Balance {
public:
    Balance() : buffers_(gpu::bytes_in_use()), held_(held()), pool_(used_of_pool()) {}
    std::string lost_since() const {
        const Balance now;
        std::string out;
        const auto add = [&](const std::string& what, long before, long after) {
            if (after > before) out += (out.empty() ? "" : ", ") + std::to_string(after - before) + " " + what;
        };
        add("bytes of buffers", static_cast<long>(buffers_), static_cast<long>(now.buffers_));
        add("bytes of the device's pool", static_cast<long>(pool_), static_cast<long>(now.pool_));
        for (const auto& [name, n] : now.held_) {
            const auto before = held_.find(name);
            add("calls of " + name, before == held_.end() ? 0 : before->second, n);
        }
        return out;
    }

private:
    static std::uint64_t used_of_pool() {
        cudaDeviceSynchronize();
        cudaMemPool_t pool = nullptr;
        std::uint64_t used = 0;
        if (pretending() || cudaDeviceGetDefaultMemPool(&pool, 0) != cudaSuccess) return 0;
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used);
        return used;
    }

    std::size_t buffers_;
    std::map<std::string, long> held_;
    std::uint64_t pool_;
};

// Bytes that are free on the device, with nothing kept for later.
long free_bytes() {
    cudaMemPool_t pool = nullptr;
    std::size_t free = 0, total = 0;
    cudaDeviceSynchronize();
    if (cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess) cudaMemPoolTrimTo(pool, 0);
    cudaMemGetInfo(&free, &total);
    return static_cast<long>(free);
}

// All places of so many calls, or `most` spread over them.
std::vector<Place> places_of(long calls, long most) {
    std::vector<Place> places;
    const long all = 4 * calls, n = most > 0 ? std::min(most, all) : all;
    for (long i = 0; i < n; ++i) {
        const long at = i * all / n + (n < all ? i % 4 : 0);
        if (at < all) places.push_back({at / 4 + 1, at % 4 >= 2, at % 2 == 1});
    }
    return places;
}

// What is known of a case from process to process: where to go on after one that died.
struct Progress {
    std::size_t at_case;
    long cases, calls, deaths, free_before, free_after;
    Report report;
    Place place;  // that is being tried
};

// Results of devices that do not exist may be whatever was in their memory.
using Expected = std::optional<Results>;

void try_place(const Call& call, const Place& place, const Expected& expected, Progress& p) {
    Report& report = p.report;
    p.place = place;
    const Outcome out = run(call, place);
    ++report.tried;
    if (out.calls.refused > 0) ++report.refused;
    const auto fault = [&](const std::string& what) {
        report.fault(text_of(place) + " (" + out.calls.name + "): " + what);
    };
    if (!out.message.empty() && out.calls.refused == 0) fault("an error without a cause: " + out.message);
    else if (!out.message.empty() && !is_one_sentence_of_the_gpu(out)) fault("says: " + out.message);
    if (out.message.empty() && expected && !same(out.results, *expected)) fault("another result");
    if (out.moved_to >= 0) fault("the thread is then on device " + std::to_string(out.moved_to));
}

void check_again(const char* what, const Call& call, const Expected& expected, Progress& p) {
    const Outcome out = run(call, {});
    if (!out.message.empty()) p.report.fault(text_of(p.place) + ": " + what + " then says: " + out.message);
    else if (expected && !same(out.results, *expected))
        p.report.fault(text_of(p.place) + ": " + what + " then has another result");
}

void run_case(const Case& c, const Request& request, Progress& p) {
    Balance before;
    {
        const Call call = c.prepare(), other = other_case().prepare();
        Expected expected, of_other;
        long calls = 0;
        bool repeats = true;
        for (int warm = 0; warm < 3; ++warm) {  // the first one fills what lives as long as the process
            before = Balance();
            const Outcome out = run(call, {});
            if (!out.message.empty()) return p.report.fault("with nothing refused: " + out.message);
            repeats = repeats && (warm == 0 || same(out.results, *expected));
            expected = out.results, calls = out.calls.made;
            of_other = run(other, {}).results;
        }
        if (!repeats && !pretending()) return p.report.fault("does not repeat");
        if (!repeats) expected.reset();
        const std::vector<Place> places = places_of(calls, c.connects ? (request.most + 9) / 10 : request.most);
        p.calls = calls;
        int since = 0;
        for (; p.report.next < places.size();) {
            try_place(call, places[p.report.next], expected, p);
            ++p.report.next;
            check_again("another call", other, of_other, p);
            if (++since % run_again_every == 0 || p.report.next >= places.size())
                check_again("the same call", call, expected, p);
        }
        if (const std::string lost = before.lost_since(); !lost.empty()) p.report.fault("not given back: " + lost);
    }
}

// One call refused, in this process: what is said then.
void run_once(const Case& c, const Place& place) {
    const Call call = c.prepare();
    for (const Place& each : {Place{}, Place{}, place, Place{}}) {
        const Balance before;
        const Outcome out = run(call, each);
        std::printf("%s, %ld: %ld calls, %s%s%s\n", c.name.c_str(), each.first, out.calls.made, out.calls.name,
                    out.message.empty() ? "" : ": ", out.message.c_str());
        if (const std::string lost = before.lost_since(); !lost.empty())
            std::printf("  not given back: %s\n", lost.c_str());
    }
}

struct Totals {
    long cases = 0, calls = 0, tried = 0, refused = 0, deaths = 0, skipped = 0;
    int faults = 0;

    void add(const Case& c, const Progress& p, bool verbose, double seconds) {
        const Report& r = p.report;
        ++cases, calls += p.calls, tried += r.tried, refused += r.refused, deaths += p.deaths, faults += r.faults;
        if (r.faults > 0 || verbose)
            std::printf("  %s: %ld calls, %ld cases, %d faults, %ld of them deaths, %.2f s\n%s", c.name.c_str(),
                        p.calls, r.tried, r.faults, p.deaths, seconds, r.text);
        std::fflush(stdout);
    }
};

// One child runs case after case, until it dies or is done; another one goes on behind the place of its death.
void run_in_children(const std::vector<Case>& cases, const Request& request, Totals& totals) {
    static auto& progress = shared<Progress>();
    static auto& all = shared<Totals>();
    const auto work = [&] {
        int here = 0;
        if (cudaGetDeviceCount(&here) != cudaSuccess || here == 0) {
            std::printf("gpu-faults: no GPU was found\n");
            std::fflush(stdout);
            _exit(3);
        }
        const int devices = request.devices > 0 ? std::min(request.devices, here) : here;
        for (; progress.at_case < cases.size(); ++progress.at_case) {
            const Case& c = cases[progress.at_case];
            if (c.devices > devices) {
                ++all.skipped;
                continue;
            }
            const auto begun = std::chrono::steady_clock::now();
            run_case(c, request, progress);
            all.add(c, progress, request.verbose,
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
            progress.report = {}, progress.calls = progress.deaths = 0;
            if (progress.at_case == 0) progress.free_before = free_bytes();
        }
        progress.free_after = free_bytes();
    };
    while (progress.at_case < cases.size()) {
        const int status = in_child(work);
        if (ended_well(status)) break;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 3) std::exit(3);
        ++progress.deaths;
        progress.report.fault(text_of(progress.place) + ": " + death(status));
        ++progress.report.tried, ++progress.report.refused, ++progress.report.next;
        if (progress.deaths >= 3) {  // of one case: enough
            all.add(cases[progress.at_case], progress, request.verbose, 0);
            progress.report = {}, progress.calls = progress.deaths = 0;
            ++progress.at_case;
        }
    }
    totals = all;
    if (!request.pretend)
        std::printf("free on device 0, in MiB: %ld after the first case, %ld at the end\n", progress.free_before >> 20,
                    progress.free_after >> 20);
}

int run(const Request& request) {
    if (const std::string name = unpaired(); !name.empty()) {
        std::fprintf(stderr, "causeway-gpu-faults: nothing in hooks.cpp says what gives back what %s makes\n",
                     name.c_str());
        return 2;
    }
    if (request.pretend) pretend(request.devices > 0 ? request.devices : 2);
    std::vector<Case> cases = all_cases();
    std::erase_if(cases, [&](const Case& c) { return c.name.find(request.only) == std::string::npos; });
    for (std::size_t i = cases.size(); i-- > 0;)
        if (i % request.shares != request.share - 1) cases.erase(cases.begin() + static_cast<std::ptrdiff_t>(i));
    if (request.list)
        for (const Case& c : cases) std::printf("%s\n", c.name.c_str());
    if (request.at.first > 0)
        for (const Case& c : cases) run_once(c, request.at);
    if (request.list || request.at.first > 0) return 0;
    Totals totals;
    run_in_children(cases, request, totals);
    if (totals.skipped > 0) std::printf("%ld calls need more GPUs and were not tried\n", totals.skipped);
    std::printf(
        "gpu-faults: %ld calls, %ld CUDA calls in them, %ld cases, %ld refused, %d faults, %ld of them deaths\n",
        totals.cases, totals.calls, totals.tried, totals.refused, totals.faults, totals.deaths);
    return totals.faults == 0 ? 0 : 1;
}

}  // namespace
}  // namespace causeway::faults

int main(int argc, char** argv) {
    causeway::faults::Request request;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const auto value = [&]() -> const char* { return i + 1 < argc ? argv[++i] : "0"; };
        if (word == "--most") request.most = std::atol(value());
        else if (word == "--devices") request.devices = std::atoi(value());
        else if (word == "--only") request.only = value();
        else if (word == "--share" && std::sscanf(value(), "%zu/%zu", &request.share, &request.shares) == 2 &&
                 1 <= request.share && request.share <= request.shares)
            continue;
        else if (word == "--pretend") request.pretend = true;
        else if (word == "--at") request.at.first = std::atol(value());
        else if (word == "--lasting") request.at.lasting = true;
        else if (word == "--memory") request.at.memory = true;
        else if (word == "--list") request.list = true;
        else if (word == "--verbose") request.verbose = true;
        else return causeway::faults::told_usage("causeway-gpu-faults", word, causeway::faults::usage);
    }
    return causeway::faults::run(request);
}
