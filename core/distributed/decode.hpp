// Decoding against a sharded cache of keys and values: the public functions, where everything is checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/calls/decode.hpp"
#include "core/distributed/cluster.hpp"
#include "core/distributed/partial.hpp"
#include "core/distributed/report.hpp"
#include "core/tensor/tensor.hpp"

namespace causeway {

struct DecodeResult {
    Tensor O;    // like q, with the width d_v
    Tensor lse;  // ln Σ e^{scale q·k}, [batch, heads, N]: the energy at ζ = 0
    ShardReport report;
};

// softmax(scale · q kᵀ) v, exactly: q [b, h_q, N, d_k], k [b, h, M, d_k], v [b, h, M, d_v], h_q a multiple of h; or
// without b, or without b and heads. Float16 and BFloat16 are computed in Float32 (on "nccl" by the GPU's kernels: no
// Float64, widths to 256; core/distributed/devices.hpp). shards = 0 there: as many as there are GPUs. Throws Error
// naming the argument, OutOfMemory, Interrupted, Timeout; a worker that fails ends all. O(N·M·(d_k + d_v)/p) time a
// worker, and the rounds of one all-reduce (core/distributed/tree.hpp).
DecodeResult tree_decode(const Tensor& q, const Tensor& k, const Tensor& v, const DecodeOptions& = {});
// O(N·M·(d_k + d_v)) time a worker and p - 1 rounds (core/distributed/ring.hpp).
DecodeResult ring_decode(const Tensor& q, const Tensor& k, const Tensor& v, const DecodeOptions& = {});

// The same schedules in simulated time on a cluster, without data: method "tree" or "ring", `sizes` of the call, the
// options above but engine and scale.
ShardReport decode_model(const std::string& method, const distributed::Sizes& sizes,
                         const distributed::Cluster& cluster, const DecodeOptions&);

// Constants of an engine on this machine, from messages of 8 bytes and of `bytes`, the least time of some tries: to and
// fro between two ranks; among more, sent by all at once around a ring, as ring decoding does, so that what they share
// is in it. Throws Error where ranks < 2 or more than MPI has.
distributed::Link measured_link(const std::string& engine, int ranks = 2, Index bytes = 1 << 22);

}  // namespace causeway
