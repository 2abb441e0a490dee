// Files that several ranks write together, on threads. Those of MPI: tests/lua/bind/sharded_test.cpp.
#include "core/sharded/files.hpp"

#include "core/distributed/threads.hpp"
#include "core/sharded/parts.hpp"
#include "core/tensor/rearrange.hpp"
#include "tests/catch.hpp"
#include "tests/core/tensor/stored_values.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::testing;
using distributed::Communicator;

namespace {

// q, k [1, 3, N, 5] and gates [1, 3, N], in several types.
NamedTensors sequence(Index N) {
    NamedTensors out;
    out.tensors.emplace("q", golden_tensor(DType::f32, {1, 3, N, 5}));
    out.tensors.emplace("k", golden_tensor(DType::bf16, {1, 3, N, 5}));
    out.tensors.emplace("gates", golden_tensor(DType::f64, {1, 3, N}));
    out.metadata["text"] = "whole";
    return out;
}

Tensor part_of(const Tensor& x, const TensorPart& part) {
    Shape shape = x.shape();
    shape[part.dim] = part.n;
    Tensor out(x.dtype(), shape);
    const Along from(x.shape(), part.dim, size_of(x.dtype()));
    for (Index row = 0; row < from.rows; ++row)
        std::copy_n(x.raw() + (row * from.length + part.first) * from.width, part.n * from.width,
                    out.raw() + row * part.n * from.width);
    return out;
}

NamedTensors shares(const NamedTensors& whole, int rank, int ranks) {
    NamedTensors out;
    for (const auto& [name, x] : whole.tensors)
        out.tensors.emplace(name, part_of(x, shard_of(x.shape(), 2, rank, ranks)));
    if (rank == 0) out.metadata = whole.metadata;
    return out;
}

// What each rank's attempt to save `value(rank)` said.
template <class F>
std::vector<std::string> said(int ranks, const std::string& path, F&& value) {
    std::vector<std::string> out(static_cast<std::size_t>(ranks));
    distributed::run_threads(ranks, [&](Communicator& comm) {
        out[static_cast<std::size_t>(comm.rank())] =
            message_of([&] { save_safetensors_sharded(comm, path, value(comm.rank()), 2); });
    });
    return out;
}

}  // namespace

TEST_CASE("a file that ranks write together is that of the whole, byte for byte", "[sharded][safetensors][files]") {
    const TemporaryFolder folder;
    const std::string path = folder / "together.safetensors";
    for (const int ranks : {1, 2, 3, 5, 8})
        for (const Index N : {0, 1, 64, 65, 200, 517}) {
            INFO(ranks << " ranks, " << N << " tokens");
            const NamedTensors whole = sequence(N);
            save_safetensors(folder / "whole.safetensors", whole);
            for (const std::string& fault : said(ranks, path, [&](int r) { return shares(whole, r, ranks); }))
                CHECK(fault.empty());
            CHECK(read_bytes(path) == read_bytes(folder / "whole.safetensors"));
        }
}

TEST_CASE("every rank reads its part of a file alone", "[sharded][safetensors][files]") {
    const TemporaryFolder folder;
    const std::string path = folder / "whole.safetensors";
    for (const Index N : {0, 1, 64, 65, 517}) {
        const NamedTensors whole = sequence(N);
        save_safetensors(path, whole);
        for (const int ranks : {1, 2, 3, 8})
            for (int rank = 0; rank < ranks; ++rank) {
                const NamedTensors got = load_safetensors(path, {{}, [&](const Shape& shape, const std::string&) {
                                                                     return shard_of(shape, 2, rank, ranks);
                                                                 }});
                const NamedTensors expected = shares(whole, rank, ranks);
                for (const auto& [name, x] : expected.tensors) CHECK(same(got.tensors.at(name), x));
            }
        // Of a process that is alone the whole.
        const NamedTensors alone = load_safetensors_sharded(path, {"q", "gates"}, 2);
        CHECK(alone.tensors.size() == 2);
        CHECK(same(alone.tensors.at("gates"), whole.tensors.at("gates")));
    }
}

TEST_CASE("a process that is alone refuses a dimension that several refuse", "[sharded][safetensors][files]") {
    const TemporaryFolder folder;
    const std::string path = folder / "a.safetensors";
    const NamedTensors value = sequence(64);
    CHECK_THROWS_WITH(save_safetensors_sharded(path, value, 3),
                      "\"gates\": dim: 4, expected from 1 to 3, the dimensions of 1×3×64");
    CHECK(!std::filesystem::exists(path));
    save_safetensors_sharded(path, value, 2);
    CHECK_THROWS_WITH(load_safetensors_sharded(path, {"gates"}, 3),
                      causeway::test::contains_text("tensor \"gates\": has 3 dimensions, expected one to share"));
}

TEST_CASE("ranks that differ, or one that cannot write, leave the old file", "[sharded][safetensors][files]") {
    const TemporaryFolder folder;
    const std::string path = folder / "a.safetensors";
    write_bytes(path, "old");
    const NamedTensors whole = sequence(200);
    const auto differs = [&](auto&& change) {
        const auto all = said(3, path, [&](int rank) {
            NamedTensors mine = shares(whole, rank, 3);
            if (rank == 1) change(mine);
            return mine;
        });
        CHECK(all[1] == all[0]);
        CHECK(all[2] == all[0]);
        return all[0];
    };
    const std::string end = " like rank 0; every rank has to make the same call";
    CHECK(differs([](NamedTensors& x) { x.tensors.erase("k"); }) ==
          "value: number of tensors 2 on rank 1, expected 3" + end);
    CHECK(differs([](NamedTensors& x) {
              x.tensors.emplace("l", x.tensors.at("k"));
              x.tensors.erase("k");
          }).starts_with("value: a name with the checksum "));
    CHECK(differs([](NamedTensors& x) { x.tensors.at("k") = x.tensors.at("k").to(DType::f32); }) ==
          "\"k\": Float32 on rank 1, expected BFloat16" + end);
    CHECK(differs([](NamedTensors& x) {
              x.tensors.at("q") = Tensor::zeros(DType::f32, {1, 3, 64, 6});
          }) == "\"q\": dimension 4 6 on rank 1, expected 5" + end);
    CHECK(differs([](NamedTensors& x) {
              x.tensors.at("q") = Tensor::zeros(DType::f32, {3, 64, 5});
          }) == "\"q\": dimensions 3 on rank 1, expected 4" + end);
    CHECK(read_bytes(path) == "old");
    NamedTensors bad = whole;
    bad.metadata["\xFF"] = "";  // of rank 0, which alone writes them
    const auto all = said(2, path, [&](int rank) { return rank == 0 ? bad : shares(whole, rank, 2); });
    CHECK(all[0] == path + ": the names of tensors and the metadata must be UTF-8 (said by rank 0)");
    CHECK(all[1] == all[0]);
    const auto nowhere = said(2, folder / "none" + "/a.safetensors", [&](int rank) { return shares(whole, rank, 2); });
    CHECK(nowhere[1] == nowhere[0]);
    CHECK(nowhere[0].find("cannot be written") != std::string::npos);
    CHECK(read_bytes(path) == "old");
    // Nothing is left beside it.
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator()) ==
          1);
}
