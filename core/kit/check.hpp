// Checks that the calls on queries, keys and values share, with one sentence for each fault.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/tensor/tensor.hpp"

namespace causeway::kit {

// Sizes of a tensor [batch, heads, length, width] with leading dimensions left out. Throws Error for another number of
// them.
std::array<Index, 4> four_sizes(const Tensor& A, const char* name);

// Throws Error unless A has as many dimensions as B, and its element type.
void check_like(const char* name, const Tensor& A, const Tensor& B, const char* like);

// Throws Error unless the two are equal: `k: length 9, expected 8 like q`.
void check_equal(const char* name, const char* what, Index got, Index expected, const char* like);

// Throws Error unless the number is finite as computed: in Float64 for Float64 tensors, else in Float32.
void check_scale(double scale, DType type);

// Throws Error where `A`, which is written, has memory in common with another argument.
void check_apart(const char* name, const Tensor& A, const char* other, const Tensor& B);

// The place of `value` among the choices. Throws Error that lists them and names the nearest.
std::size_t check_choice(const char* option, const std::string& value, const std::vector<std::string>& choices);

// q [batch, heads · group, N, d], k [batch, heads, M, d], v [batch, heads, M, dv].
struct AttentionSizes {
    Index batch, heads, group, N, M, d, dv;
};
// Throws Error unless the three belong together; with `one_length` N and M too must be equal. Allocates nothing where
// all is well.
AttentionSizes check_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool one_length);

// How heads are shared: those of values, each with a state of its own; the heads of queries that read a state, or the
// states that share a head of queries; and those that share a head of keys.
struct HeadGroups {
    Index values = 1, group = 1, shared_queries = 1, shared_keys = 1;
};
// Throws Error unless values are a multiple of keys, and queries of values or values of queries; the names are those of
// the arguments queries, keys and values. Allocates nothing where all is well.
HeadGroups check_head_groups(Index queries, Index keys, Index values, const std::array<const char*, 3>& names);

// q [batch, heads · group / shared_queries, N, d], k [batch, heads / shared_keys, N, d], v [batch, heads, N, dv]: v too
// may have a multiple of the heads of k. Heads of q are a multiple of those of v, or v of q.
struct GroupedSizes {
    Index batch, heads, group, shared_queries, shared_keys, N, d, dv;
};
// Throws Error unless the three belong together. Allocates nothing where all is well.
GroupedSizes check_grouped(const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace causeway::kit
