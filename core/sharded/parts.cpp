#include "core/sharded/parts.hpp"

#include "core/distributed/mpi.hpp"
#include "core/sharded/run.hpp"

namespace causeway {
namespace {

using sharded::Communicator;
using sharded::Starts;

constexpr Index chunk = 64;

Shape with_length(Shape shape, int dim, Index n) {
    shape[dim] = n;
    return shape;
}

}  // namespace

void check_part_dimension(const Shape& shape, int dim) {
    if (dim < 0 || dim >= shape.ndim())
        fail("dim: ", dim + 1, ", expected from 1 to ", shape.ndim(), ", the dimensions of a tensor of ", shape.text());
}

TensorPart shard_of(const Shape& shape, int dim, int rank, int ranks) {
    check_part_dimension(shape, dim);
    const Starts starts = sharded::starts_of({}, shape[dim], ranks, chunk);
    const Index first = starts[static_cast<std::size_t>(rank)];
    return {dim, first, starts[static_cast<std::size_t>(rank) + 1] - first};
}

Tensor shard(const Tensor& x, int dim) {
    check_part_dimension(x.shape(), dim);
    const int p = distributed::mpi_size();
    if (p == 1) return x;
    const Along all(x.shape(), dim, size_of(x.dtype()));
    const TensorPart mine = shard_of(x.shape(), dim, distributed::mpi_rank(), p);
    Tensor out(x.dtype(), with_length(x.shape(), dim, mine.n));
    for (Index i = 0; i < all.rows; ++i)
        std::copy_n(x.raw() + (i * all.length + mine.first) * all.width, mine.n * all.width,
                    out.raw() + i * mine.n * all.width);
    return out;
}

namespace {

Tensor unshard_on_ranks(const Tensor& x, int dim) {
    check_part_dimension(x.shape(), dim);
    Tensor out;
    distributed::run_mpi([&](Communicator& comm) {
        distributed::agree_on_call(comm, distributed::Call::move);
        std::vector<sharded::Given> mine{
            sharded::given_type("x:", x.dtype()), {"x: dimensions", x.ndim()}, {"dim:", dim + 1}};
        agree(comm, mine);
        std::vector<sharded::Given> lengths;
        for (int i = 0; i < x.ndim(); ++i)
            if (i != dim) lengths.push_back({"x: another dimension of", x.shape()[i]});
        agree(comm, lengths);
        sharded::Team team;
        team.parts = true;
        const Along part(x.shape(), dim, size_of(x.dtype()));
        const Starts starts = sharded::starts_of(comm, team, {}, part.length, 1);
        out = Tensor(x.dtype(), with_length(x.shape(), dim, starts.back()));
        const Index first = starts[static_cast<std::size_t>(comm.rank())];
        for (Index i = 0; i < part.rows; ++i)
            std::copy_n(x.raw() + i * part.length * part.width, part.length * part.width,
                        out.raw() + (i * starts.back() + first) * part.width);
        sharded::gather_parts(comm, starts, out.raw(), part.rows, part.width);
    });
    return out;
}

}  // namespace

Tensor unshard(const Tensor& x, int dim) {
    if (distributed::mpi_size() > 1) return distributed::shared_call(true, [&] { return unshard_on_ranks(x, dim); });
    check_part_dimension(x.shape(), dim);
    return x;
}

}  // namespace causeway
