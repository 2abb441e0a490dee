#include "core/sharded/parts.hpp"

#include "core/distributed/mpi.hpp"
#include "core/sharded/run.hpp"

namespace causeway {
namespace {

using sharded::Communicator;
using sharded::Starts;

constexpr Index chunk = 64;

// x as [rows, tokens, bytes of a token of a row].
struct Bytes {
    Index rows = 1, N, width;

    Bytes(const Tensor& x, int dim) : N(x.shape()[dim]), width(static_cast<Index>(size_of(x.dtype()))) {
        for (int i = 0; i < dim; ++i) rows *= x.shape()[i];
        for (int i = dim + 1; i < x.ndim(); ++i) width *= x.shape()[i];
    }
};

void check_dimension(const Tensor& x, int dim) {
    if (dim < 0 || dim >= x.ndim())
        fail("dim: ", dim + 1, ", expected from 1 to ", x.ndim(), ", the dimensions of a tensor of ", x.shape().text());
}

Shape with_length(Shape shape, int dim, Index n) {
    shape[dim] = n;
    return shape;
}

}  // namespace

Tensor shard(const Tensor& x, int dim) {
    check_dimension(x, dim);
    const int p = distributed::mpi_size(), me = distributed::mpi_rank();
    if (p == 1) return x;
    const Bytes all(x, dim);
    const Starts starts = sharded::starts_of({}, all.N, p, chunk);
    const Index first = starts[static_cast<std::size_t>(me)], n = starts[static_cast<std::size_t>(me) + 1] - first;
    Tensor out(x.dtype(), with_length(x.shape(), dim, n));
    for (Index i = 0; i < all.rows; ++i)
        std::copy_n(x.raw() + (i * all.N + first) * all.width, n * all.width, out.raw() + i * n * all.width);
    return out;
}

Tensor unshard(const Tensor& x, int dim) {
    check_dimension(x, dim);
    if (distributed::mpi_size() == 1) return x;
    Tensor out;
    distributed::run_mpi([&](Communicator& comm) {
        distributed::agree_on_call(comm, distributed::Call::move);
        std::vector<sharded::Given> mine{{"x:", static_cast<std::int64_t>(x.dtype()),
                                          [](std::int64_t t) -> std::string { return name(static_cast<DType>(t)); }},
                                         {"x: dimensions", x.ndim()},
                                         {"dim:", dim + 1}};
        agree(comm, mine);
        std::vector<sharded::Given> lengths;
        for (int i = 0; i < x.ndim(); ++i)
            if (i != dim) lengths.push_back({"x: another dimension of", x.shape()[i]});
        agree(comm, lengths);
        sharded::Team team;
        team.parts = true;
        const Bytes part(x, dim);
        const Starts starts = sharded::starts_of(comm, team, {}, part.N, 1);
        out = Tensor(x.dtype(), with_length(x.shape(), dim, starts.back()));
        const Index first = starts[static_cast<std::size_t>(comm.rank())];
        for (Index i = 0; i < part.rows; ++i)
            std::copy_n(x.raw() + i * part.N * part.width, part.N * part.width,
                        out.raw() + (i * starts.back() + first) * part.width);
        sharded::gather_parts(comm, starts, out.raw(), part.rows, part.width);
    });
    return out;
}

}  // namespace causeway
