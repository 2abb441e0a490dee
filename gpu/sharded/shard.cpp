#include "gpu/sharded/shard.hpp"

#include "core/sharded/parts.hpp"
#include "core/sharded/run.hpp"
#include "gpu/base/copy.hpp"
#include "gpu/sharded/given.hpp"
#include "gpu/sharded/moves.hpp"

namespace causeway::gpu {

Tensor shard(const Tensor& x, int dim) {
    const TensorPart mine = causeway::shard_of(x.shape(), dim, distributed::mpi_rank(), distributed::mpi_size());
    if (distributed::mpi_size() == 1) return x;
    const Along all(x.shape(), dim, size_of(x.dtype()));
    Shape shape = x.shape();
    shape[dim] = mine.n;
    const Tensor out(x.dtype(), shape);
    const auto bytes = [&](Index n) { return static_cast<std::size_t>(n * all.width); };
    copy_rows({out.data(), bytes(mine.n), x.as<char>() + bytes(mine.first), bytes(all.length), bytes(mine.n),
               static_cast<std::size_t>(all.rows)},
              nullptr, "cutting out a part");
    return out;
}

namespace {

Tensor unshard_on_ranks(const Tensor& x, int dim) {
    causeway::check_part_dimension(x.shape(), dim);
    sharded::Workers workers;
    workers.p = distributed::mpi_size(), workers.processes = workers.parts = true;
    std::vector<distributed::Given> given{
        sharded::given_type("x:", x.dtype()), {"x: dimensions", x.ndim()}, {"dim:", dim + 1}};
    sharded::agree(workers, distributed::Call::gpu_move, {}, given, {}, {}, nullptr);
    std::vector<distributed::Given> lengths;
    for (int i = 0; i < x.ndim(); ++i)
        if (i != dim) lengths.push_back({"x: another dimension of", x.shape()[i]});
    sharded::agree(workers, distributed::Call::gpu_move, {}, lengths, {}, {}, nullptr);
    const sharded::Starts starts = sharded::starts_of(workers, {}, x.shape()[dim], 1);
    const Along part(x.shape(), dim, size_of(x.dtype()));
    Shape shape = x.shape();
    shape[dim] = starts.back();
    const Tensor out(x.dtype(), shape);
    const auto program = [&](QueuedCommunicator& comm) {
        const sharded::Whole all{out.data(), part.rows, starts.back(), part.width, 1, sharded::current_device()};
        comm.begin();
        sharded::give_rows(comm, x.data(), all, starts[static_cast<std::size_t>(comm.rank())], part.length);
        sharded::gather_tokens(comm, causeway::sharded::shares_of(starts), all);
        return comm.settle();
    };
    sharded::run("unshard", "", 1, workers, nullptr, program, [](QueuedCommunicator&) {});
    return out;
}

}  // namespace

Tensor unshard(const Tensor& x, int dim) {
    if (distributed::mpi_size() > 1) return distributed::shared_call(true, [&] { return unshard_on_ranks(x, dim); });
    causeway::check_part_dimension(x.shape(), dim);
    return x;
}

}  // namespace causeway::gpu
