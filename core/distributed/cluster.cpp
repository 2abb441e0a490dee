#include "core/distributed/cluster.hpp"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>

#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/text.hpp"
#include "core/base/unknown_name.hpp"
#include "core/calls/decode_model.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace causeway::distributed {
namespace {

// A stack of its own on which a rank runs until it has to wait. One thread runs all of them, so a thousand ranks take a
// thousand small stacks and no scheduler of the system's.
class Fiber {
public:
    // 256 KiB: of which the system gives the pages that are touched.
    static constexpr std::size_t stack_bytes = std::size_t{1} << 18;

    template <class F>
    explicit Fiber(F body) : body_(std::move(body)) {
        stack_ = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stack_ == MAP_FAILED) throw OutOfMemory("shards: no memory for the stacks of so many simulated ranks");
        getcontext(&inside_);
        inside_.uc_stack.ss_sp = stack_;
        inside_.uc_stack.ss_size = stack_bytes;
        inside_.uc_link = nullptr;
        const auto self = reinterpret_cast<std::uintptr_t>(this);
        makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::enter), 2, static_cast<unsigned>(self >> 32),
                    static_cast<unsigned>(self));
#if defined(__SANITIZE_THREAD__)
        tsan_ = __tsan_create_fiber(0);
#endif
    }
    ~Fiber() {
#if defined(__SANITIZE_THREAD__)
        __tsan_destroy_fiber(tsan_);
#endif
        munmap(stack_, stack_bytes);
    }
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    bool done() const { return done_; }

    // Runs it until it waits or ends.
    void resume() {
#if defined(__SANITIZE_THREAD__)
        tsan_outside_ = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(tsan_, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
        void* fake = nullptr;
        __sanitizer_start_switch_fiber(&fake, stack_, stack_bytes);
#endif
        swapcontext(&outside_, &inside_);
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
    }

    // From inside: gives way until the next resume.
    void wait() { leave(false); }

private:
    static void enter(unsigned high, unsigned low) {
        auto* self = reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(high) << 32 | low);
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_finish_switch_fiber(nullptr, &self->outside_stack_, &self->outside_bytes_);
#endif
        self->body_();  // throws nothing
        self->done_ = true;
        self->leave(true);
    }

    void leave([[maybe_unused]] bool last) {
#if defined(__SANITIZE_THREAD__)
        __tsan_switch_to_fiber(tsan_outside_, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
        void* fake = nullptr;
        __sanitizer_start_switch_fiber(last ? nullptr : &fake, outside_stack_, outside_bytes_);
#endif
        swapcontext(&inside_, &outside_);
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_finish_switch_fiber(fake, &outside_stack_, &outside_bytes_);
#endif
    }

    std::function<void()> body_;
    void* stack_ = nullptr;
    ucontext_t inside_{}, outside_{};
    bool done_ = false;
#if defined(__SANITIZE_ADDRESS__)
    const void* outside_stack_ = nullptr;
    std::size_t outside_bytes_ = 0;
#endif
#if defined(__SANITIZE_THREAD__)
    void *tsan_ = nullptr, *tsan_outside_ = nullptr;
#endif
};

struct Letter {
    int from;
    Index round;
    double arrival, duration;         // when its last byte can have arrived, and its time on a port
    std::vector<unsigned char> data;  // empty in a dry run
    std::size_t bytes;
};

class SimulatedCommunicator;

struct World {
    const Cluster& cluster;
    std::vector<std::unique_ptr<SimulatedCommunicator>> ranks;
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::deque<int> ready;  // ranks that can go on
    int at_barrier = 0;
    bool ended = false;
};

class SimulatedCommunicator final : public Communicator {
public:
    SimulatedCommunicator(World& world, int rank, int size, bool dry) : Communicator(rank, size, dry), world_(world) {
        if (dry) element_bytes = world.cluster.element_bytes;
    }

    double now() const override { return clock_; }

    // All clocks meet at the latest.
    void barrier() override {
        if (++world_.at_barrier == size()) {
            world_.at_barrier = 0;
            double latest = 0;
            for (const auto& r : world_.ranks) latest = std::max(latest, r->clock_);
            for (auto& r : world_.ranks) {
                r->clock_ = latest;
                if (r->meeting_) world_.ready.push_back(r->rank());
                r->meeting_ = false;
            }
            return;
        }
        meeting_ = true;
        while (meeting_) pause();
    }

    bool work(const Work& w) override {
        const Cluster& c = world_.cluster;
        clock_ += w.starts * c.start + std::max(w.operations / c.flop_rate,
                                                w.elements * static_cast<double>(c.element_bytes) / c.memory_rate);
        return true;
    }

protected:
    int post_send(const void* data, std::size_t bytes, int to, Index round) override {
        const Cluster& c = world_.cluster;
        const bool near = rank() / c.per_node == to / c.per_node;
        const Link& link = near ? c.within : c.between;
        const double duration = static_cast<double>(bytes) / link.rate, leaves = std::max(clock_, out_[near]);
        out_[near] = leaves + duration;
        Letter letter{rank(), round, leaves + link.latency + duration, duration, {}, bytes};
        if (!dry())
            letter.data.assign(static_cast<const unsigned char*>(data),
                               static_cast<const unsigned char*>(data) + bytes);
        SimulatedCommunicator& receiver = *world_.ranks[static_cast<std::size_t>(to)];
        receiver.letters_.push_back(std::move(letter));
        if (receiver.waits_for_ == rank()) {
            receiver.waits_for_ = -1;
            world_.ready.push_back(to);
        }
        return remember({nullptr, bytes, -1, out_[near], near});
    }

    int post_receive(void* data, std::size_t bytes, int from) override {
        return remember({data, bytes, from, 0, rank() / world_.cluster.per_node == from / world_.cluster.per_node});
    }

    Index finish(int posted) override {
        const Posted mine = posted_[static_cast<std::size_t>(posted)];
        posted_[static_cast<std::size_t>(posted)].used = false;
        if (mine.from < 0) {
            clock_ = std::max(clock_, mine.leaves);
            return 0;
        }
        auto at = letters_.end();
        while ((at = std::find_if(letters_.begin(), letters_.end(),
                                  [&](const Letter& l) { return l.from == mine.from; })) == letters_.end()) {
            waits_for_ = mine.from;
            pause();
        }
        const Letter letter = std::move(*at);
        letters_.erase(at);
        if (letter.bytes != mine.bytes)
            fail("rank ", rank(), ": a message of ", letter.bytes, " bytes from rank ", mine.from, ", expected ",
                 mine.bytes);
        if (!dry()) std::memcpy(mine.data, letter.data.data(), mine.bytes);
        in_[mine.near] = std::max(letter.arrival, in_[mine.near] + letter.duration);
        clock_ = std::max(clock_, in_[mine.near]);
        return letter.round;
    }

    void cancel(int posted) noexcept override { posted_[static_cast<std::size_t>(posted)].used = false; }

private:
    struct Posted {
        void* data = nullptr;
        std::size_t bytes = 0;
        int from = -1;      // -1: a sent message
        double leaves = 0;  // when its sender is rid of it
        bool near = false;
        bool used = true;
    };

    int remember(Posted posted) {
        const auto at = std::find_if(posted_.begin(), posted_.end(), [](const Posted& x) { return !x.used; });
        if (at != posted_.end()) {
            *at = posted;
            return static_cast<int>(at - posted_.begin());
        }
        posted_.push_back(posted);
        return static_cast<int>(posted_.size()) - 1;
    }

    void pause() {
        world_.fibers[static_cast<std::size_t>(rank())]->wait();
        if (world_.ended) throw WorldEnded{};
    }

    World& world_;
    double clock_ = 0;
    double out_[2] = {0, 0}, in_[2] = {0, 0};  // when the ports between and within nodes are free
    std::deque<Letter> letters_;
    std::vector<Posted> posted_;
    int waits_for_ = -1;
    bool meeting_ = false;
};

}  // namespace

// Rates from one device to another in a direction: half of what is quoted for both (NVLink 4 through its switch: 900
// GB/s; Infinity Fabric: 128 GB/s of the one link that two devices share; PCIe 4.0 x16: 64 GB/s).
const std::vector<Cluster>& clusters() {
    static const auto& all = *new std::vector<Cluster>{
        {"h100", 8, {3e-6, 450e9}, {8e-6, 50e9}, 3.35e12, 989e12, 10e-6, 2},
        {"mi300x", 8, {5e-6, 64e9}, {10e-6, 50e9}, 5.3e12, 1307e12, 15e-6, 2},
        {"rtx4090", 2, {10e-6, 32e9}, {30e-6, 12.5e9}, 1.008e12, 165e12, 10e-6, 2},
    };
    return all;
}

const Cluster& cluster(const std::string& name) {
    std::vector<std::string> names;
    for (const Cluster& c : clusters()) {
        if (c.name == name) return c;
        names.push_back(c.name);
    }
    const std::string said =
        sentence("cluster: ", in_quotes(name), ", expected one of \"h100\", \"mi300x\", \"rtx4090\"");
    throw UnknownName(said, name, names);
}

Simulated run_simulated(const Cluster& machine, int p, bool dry, const Program& program) {
    if (p < 1 || p > 4096) fail("shards: ", p, ", expected from 1 to 4096 simulated ranks");
    World world{machine, {}, {}, {}, 0, false};
    std::exception_ptr failure;
    for (int r = 0; r < p; ++r) world.ranks.push_back(std::make_unique<SimulatedCommunicator>(world, r, p, dry));
    for (int r = 0; r < p; ++r) {
        world.fibers.push_back(std::make_unique<Fiber>([&, r] {
            try {
                if (!world.ended) program(*world.ranks[static_cast<std::size_t>(r)]);
            } catch (const WorldEnded&) {
            } catch (...) {
                if (!failure) failure = std::current_exception();
                world.ended = true;
            }
        }));
        world.ready.push_back(r);
    }
    for (Index turns = 0; !world.ready.empty() && !world.ended; ++turns) {
        const int r = world.ready.front();
        world.ready.pop_front();
        world.fibers[static_cast<std::size_t>(r)]->resume();
        if (turns % 1024 == 0 && interrupt::requested()) world.ended = true;
    }
    const bool stuck =
        !world.ended && std::any_of(world.fibers.begin(), world.fibers.end(), [](const auto& f) { return !f->done(); });
    world.ended = world.ended || stuck;
    for (const auto& fiber : world.fibers)
        while (world.ended && !fiber->done()) fiber->resume();  // its frames unwind
    if (failure) std::rethrow_exception(failure);
    interrupt::check();
    if (stuck) fail("all ranks wait for one another, expected messages that are sent and received in pairs");
    Simulated out;
    for (const auto& r : world.ranks) {
        out.seconds = std::max(out.seconds, r->now() - r->begun);
        out.traffic.push_back(r->traffic);
        out.memory.push_back(r->memory);
        out.waited.push_back(r->waited);
    }
    return out;
}

}  // namespace causeway::distributed

std::vector<std::string> causeway::calls::cluster_names() {
    std::vector<std::string> names;
    for (const auto& c : distributed::clusters()) names.push_back(c.name);
    return names;
}
