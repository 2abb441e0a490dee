// Chains of work in which each link needs what the one before it has added to something that they share.
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "core/base/interrupt.hpp"
#include "core/base/parallel.hpp"

namespace causeway::kit {

// `links` links of each of `chains` chains by all threads: D. Merrill and M. Garland, Single-pass Parallel Prefix Scan
// with Decoupled Look-back, NVR-2016-002. make() gives a thread what it computes links with:
//   void prepare(chain, i)   what hangs on no other link
//   void add(chain, i)       called when links 0 ... i - 1 of the chain have added, by one thread at a time
//   void finish(chain, i)    what is left, while the next link adds
// Every link is computed as on one thread. A link that is waited for has been taken by a thread that runs.
template <class Make>
void chained_scan(Index chains, Index links, Make&& make) {
    struct alignas(64) Added {
        std::atomic<Index> links{0};
    };
    std::vector<Added> added(static_cast<std::size_t>(chains));
    const Index all = chains * links;
    std::atomic<Index> next{0};
    std::atomic<bool> ended{false};  // by an error
    parallel_for(std::min<Index>(threads_here(), all), [&](Index) {
        try {
            auto link = make();
            for (Index k; !ended && (k = next.fetch_add(1)) < all;) {
                interrupt::check();
                const Index i = k / chains, chain = k % chains;  // chains being the fast index, neighbours wait less
                auto& before = added[static_cast<std::size_t>(chain)].links;
                link.prepare(chain, i);
                for (int polls = 0; before.load(std::memory_order_acquire) < i; ++polls) {
                    if (ended) return;
                    if (polls > 100) std::this_thread::yield();
                }
                link.add(chain, i);
                before.store(i + 1, std::memory_order_release);
                link.finish(chain, i);
            }
        } catch (...) {
            ended = true;
            throw;
        }
    });
}

}  // namespace causeway::kit
