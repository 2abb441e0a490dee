#include "core/model/byte_pairs.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/interrupt.hpp"

namespace causeway::model {
namespace {

constexpr std::size_t joins_between_checks = 1 << 16;

std::uint64_t pair_of(Token left, Token right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

// Where the search for a pair begins, before it is cut to the size of the table.
std::size_t hash(std::uint64_t pair) {
    pair *= 0x9E3779B97F4A7C15u;
    return static_cast<std::size_t>(pair ^ (pair >> 32));
}

// A token of the word that is being joined, in a list from left to right; -1 ends it.
struct Symbol {
    Token token;
    std::int32_t before, after;
};

// Two neighbours that can be joined. It is void once one of them is no longer what it was.
struct Candidate {
    std::uint32_t rank;
    std::int32_t at;  // of the left one
    Token left, right, whole;

    // The heap has the largest in front, which is to be the lowest rank and then the leftmost.
    bool operator<(const Candidate& other) const { return std::pair(rank, at) > std::pair(other.rank, other.at); }
};

// Memory that words use one after the other.
struct Work {
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
};

}  // namespace

void BytePairs::grow(std::size_t places) {
    std::vector<Join> old(places, Join{0, 0, -1});
    std::swap(old, joins_);
    for (const Join& join : old)
        if (join.whole >= 0) joins_[place(join.pair)] = join;
}

void BytePairs::reserve(std::size_t joins) {
    const std::size_t places = std::bit_ceil(2 * std::max<std::size_t>(joins, 8));
    if (places > joins_.size()) grow(places);
}

std::size_t BytePairs::place(std::uint64_t pair) const {
    const std::size_t mask = joins_.size() - 1;
    std::size_t i = hash(pair) & mask;
    while (joins_[i].whole >= 0 && joins_[i].pair != pair) i = (i + 1) & mask;
    return i;
}

void BytePairs::add(Token left, Token right, Token whole) {
    reserve(used_ + 1);
    const std::uint64_t pair = pair_of(left, right);
    Join& join = joins_[place(pair)];
    if (join.whole < 0) ++used_;
    join = {pair, next_rank_++, whole};
}

const BytePairs::Join* BytePairs::find(Token left, Token right) const {
    if (joins_.empty()) return nullptr;
    const Join& join = joins_[place(pair_of(left, right))];
    return join.whole < 0 ? nullptr : &join;
}

std::size_t BytePairs::append(std::string_view word, std::vector<Token>& out) const {
    thread_local Work work;
    std::vector<Symbol>& symbols = work.symbols;
    std::vector<Candidate>& heap = work.heap;
    symbols.clear();
    heap.clear();
    std::size_t lost = 0;
    bool after_unknown = false;
    for (const char c : word) {
        Token token = byte_tokens[static_cast<unsigned char>(c)];
        const bool is_unknown = token < 0;
        if (is_unknown) {
            ++lost;
            if (!unknown || (fuse_unknown && after_unknown)) continue;
            token = *unknown;
        }
        after_unknown = is_unknown;
        const auto at = static_cast<std::int32_t>(symbols.size());
        symbols.push_back({token, at - 1, at + 1});
    }
    if (symbols.empty()) return lost;
    symbols.back().after = -1;

    const auto candidate = [&](std::int32_t at) -> std::optional<Candidate> {
        if (at < 0 || symbols[at].after < 0) return std::nullopt;
        const Token left = symbols[at].token, right = symbols[symbols[at].after].token;
        const Join* join = find(left, right);
        if (!join) return std::nullopt;
        return Candidate{join->rank, at, left, right, join->whole};
    };
    for (std::int32_t at = 0; at < static_cast<std::int32_t>(symbols.size()); ++at)
        if (const auto c = candidate(at)) heap.push_back(*c);
    std::make_heap(heap.begin(), heap.end());

    for (std::size_t joined = 0; !heap.empty(); ++joined) {
        if (joined % joins_between_checks == joins_between_checks - 1) interrupt::check();
        std::pop_heap(heap.begin(), heap.end());
        const Candidate c = heap.back();
        heap.pop_back();
        Symbol& left = symbols[c.at];
        if (left.token != c.left || left.after < 0 || symbols[left.after].token != c.right) continue;
        Symbol& right = symbols[left.after];
        left.token = c.whole;
        right.token = -1;
        left.after = right.after;
        if (left.after >= 0) symbols[left.after].before = c.at;
        for (const std::int32_t at : {left.before, c.at}) {
            if (const auto next = candidate(at)) {
                heap.push_back(*next);
                std::push_heap(heap.begin(), heap.end());
            }
        }
    }
    for (std::int32_t at = 0; at >= 0; at = symbols[at].after) out.push_back(symbols[at].token);
    return lost;
}

}  // namespace causeway::model
