#include <algorithm>
#include <utility>

#include "gpu/base/copy.hpp"
#include "gpu/base/error.hpp"
#include "gpu/kit/copy_list.hpp"
#include "gpu/tensor/places.hpp"

namespace causeway::gpu {

namespace {

using std::int64_t;

constexpr unsigned threads = 256;

// Row i of the states and row slots[i] of the pool, `words` words of type W each, a thread block a row.
template <class W>
__global__ void move_slots(W* states, W* pool, const int64_t* slots, int64_t words, bool to_pool) {
    W* const a = states + int64_t{blockIdx.x} * words;
    W* const b = pool + slots[blockIdx.x] * words;
    for (int64_t i = threadIdx.x; i < words; i += threads) {
        if (to_pool) b[i] = a[i];
        else a[i] = b[i];
    }
}

void move(const Tensor& states, const Tensor& pool, const std::vector<Index>& slots, bool to_pool,
          cudaStream_t stream) {
    if (states.bytes() == 0) return;
    const Buffer places = on_device(slots, stream);
    const auto row = static_cast<int64_t>(states.bytes() / slots.size());
    const auto run = [&]<class W>(W* a) {
        move_slots<<<static_cast<unsigned>(slots.size()), threads, 0, stream>>>(
            a, pool.as<W>(), places.as<int64_t>(), row / static_cast<int64_t>(sizeof(W)), to_pool);
    };
    if (row % 16 == 0) run(states.as<uint4>());
    else run(states.as<uint16_t>());  // no element is smaller
    check_launch("moving states");
}

// Row slots[i] of the pool += row rows[i] of the states, of distinct slots; a thread block a row.
__global__ void add_slots(const float* states, const int64_t* rows, float* pool, const int64_t* slots, int64_t size) {
    const float* const a = states + rows[blockIdx.x] * size;
    float* const b = pool + slots[blockIdx.x] * size;
    for (int64_t i = threadIdx.x; i < size; i += threads) b[i] += a[i];
}

// Copies between rows of `heads.together` heads of x and of `part`, which has these alone.
void move_heads(const Tensor& part, const SomeHeads& heads, const Tensor& x, bool to_part, cudaStream_t stream) {
    if (part.bytes() == 0) return;
    const Shape& s = x.shape();
    const std::size_t head = x.bytes() / static_cast<std::size_t>(s[0] * s[1]),
                      bytes = static_cast<std::size_t>(heads.together) * head,
                      pitch = static_cast<std::size_t>(heads.period) * head;
    char* const first = x.as<char>() + static_cast<std::size_t>(heads.first) * head;
    RowCopy copy{part.data(), bytes, first, pitch, bytes, part.bytes() / bytes};
    if (!to_part) std::swap(copy.to_pitch, copy.from_pitch), copy.to = first, copy.from = part.data();
    copy_rows(copy, stream, "copying heads");
}

// Element (head, token, c) of x lies in its piece at cut · heads + head · n + token - cut.
__global__ void move_tokens(const float* from, float* to, const int64_t* cuts, int pieces, int64_t heads, int64_t N,
                            int64_t width, bool to_heads) {
    const int64_t all = heads * N * width, step = int64_t{gridDim.x} * blockDim.x;
    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < all; i += step) {
        const int64_t token = i / width % N, head = i / width / N, c = i % width;
        int first = 0, last = pieces;
        while (last - first > 1) {
            const int middle = (first + last) / 2;
            (cuts[middle] <= token ? first : last) = middle;
        }
        const int64_t cut = cuts[first], n = cuts[first + 1] - cut,
                      at = (cut * heads + head * n + token - cut) * width + c;
        if (to_heads) to[i] = from[at];
        else to[at] = from[i];
    }
}

Tensor moved(const Tensor& x, const std::vector<Index>& cuts, Index heads, Index width, bool to_heads,
             cudaStream_t stream) {
    Tensor out(DType::f32, x.shape(), stream);
    if (x.size() == 0) return out;
    const Buffer places = on_device(cuts, stream);
    const auto blocks = static_cast<unsigned>(std::min<int64_t>((x.size() + threads - 1) / threads, 4096));
    move_tokens<<<blocks, threads, 0, stream>>>(x.as<float>(), out.as<float>(), places.as<int64_t>(),
                                                static_cast<int>(cuts.size()) - 1, heads, cuts.back(), width, to_heads);
    check_launch("moving tokens");
    return out;
}

}  // namespace

Buffer on_device(const std::vector<Index>& x, cudaStream_t stream) {
    static_assert(sizeof(Index) == sizeof(int64_t));
    Buffer out(x.size() * sizeof(Index), stream);
    copy_list(out.data(), x, stream, "copying numbers");
    return out;
}

Tensor from_slots(const Tensor& pool, const std::vector<Index>& slots, cudaStream_t stream) {
    Shape shape = pool.shape();
    shape[0] = static_cast<Index>(slots.size());
    Tensor out(pool.dtype(), shape, stream);
    move(out, pool, slots, false, stream);
    return out;
}

void to_slots(const Tensor& states, const std::vector<Index>& slots, const Tensor& pool, cudaStream_t stream) {
    move(states, pool, slots, true, stream);
}

Tensor gradient_of_slots(const Tensor& states, const std::vector<Index>& slots, Index count, cudaStream_t stream) {
    Shape shape = states.shape();
    shape[0] = count;
    Tensor out = Tensor::zeros(DType::f32, shape, stream);
    std::vector<Index> rows(slots.size());
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<Index>(i);
    while (!rows.empty() && states.size() > 0) {
        // The first sequence that is left of each slot: no two of a launch have the same.
        std::vector<bool> taken(static_cast<std::size_t>(count), false);
        std::vector<Index> now, places, later;
        for (const Index row : rows) {
            const Index slot = slots[static_cast<std::size_t>(row)];
            if (taken[static_cast<std::size_t>(slot)]) {
                later.push_back(row);
                continue;
            }
            taken[static_cast<std::size_t>(slot)] = true;
            now.push_back(row), places.push_back(slot);
        }
        const Buffer from = on_device(now, stream), to = on_device(places, stream);
        add_slots<<<static_cast<unsigned>(now.size()), threads, 0, stream>>>(
            states.as<float>(), from.as<int64_t>(), out.as<float>(), to.as<int64_t>(),
            states.size() / static_cast<Index>(slots.size()));
        check_launch("adding up gradients of states");
        rows = std::move(later);
    }
    return out;
}

Tensor from_heads(const Tensor& x, const SomeHeads& heads, cudaStream_t stream) {
    Shape shape = x.shape();
    shape[1] = shape[1] / heads.period * heads.together;
    Tensor out(x.dtype(), shape, stream);
    move_heads(out, heads, x, true, stream);
    return out;
}

void to_heads(const Tensor& part, const SomeHeads& heads, const Tensor& x, cudaStream_t stream) {
    move_heads(part, heads, x, false, stream);
}

Tensor by_pieces(const Tensor& x, const std::vector<Index>& cuts, Index heads, Index width, cudaStream_t stream) {
    return moved(x, cuts, heads, width, false, stream);
}

Tensor by_heads(const Tensor& x, const std::vector<Index>& cuts, Index heads, Index width, cudaStream_t stream) {
    return moved(x, cuts, heads, width, true, stream);
}

}  // namespace causeway::gpu
