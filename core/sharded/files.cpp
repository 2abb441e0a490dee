#include "core/sharded/files.hpp"

#include <limits>
#include <memory>

#include "core/base/text.hpp"
#include "core/distributed/agree.hpp"
#include "core/distributed/mpi.hpp"
#include "core/distributed/together.hpp"
#include "core/sharded/parts.hpp"

namespace causeway {
namespace {

using distributed::all_ranks;
using distributed::Communicator;
using distributed::from_rank;
using distributed::Given;
using distributed::together;

int dimension_of(const Shape& shape, std::optional<int> dim) { return dim.value_or(std::max(shape.ndim() - 2, 0)); }

std::int64_t checksum_of(const std::string& text) {
    std::vector<std::uint32_t> letters(text.begin(), text.end());
    return distributed::checksum(letters.data(), static_cast<Index>(letters.size()));
}

std::string checksum_text(std::int64_t x) { return std::to_string(static_cast<std::uint64_t>(x)); }

// Every rank names the same file and the same tensors, which differ in dimension `dim` alone.
void agree_on_files(Communicator& comm, const std::string& path, const NamedTensors& value, std::optional<int> dim) {
    distributed::agree_on_call(comm, distributed::Call::save);
    agree(comm, {{"path: a text with the checksum", checksum_of(path), checksum_text},
                 {"value: number of tensors", static_cast<std::int64_t>(value.tensors.size())},
                 {"dim:", dim.value_or(-1) + 1}});
    std::vector<std::string> labels;
    labels.reserve(6 * value.tensors.size());
    std::vector<Given> names, shapes;
    const auto label = [&](const auto&... parts) { return labels.emplace_back(sentence(parts...)).c_str(); };
    for (const auto& [name, tensor] : value.tensors) {
        names.push_back({"value: a name with the checksum", checksum_of(name), checksum_text});
        shapes.push_back({label(in_quotes(name), ":"), static_cast<std::int64_t>(tensor.dtype()),
                          [](std::int64_t t) -> std::string { return causeway::name(static_cast<DType>(t)); }});
        shapes.push_back({label(in_quotes(name), ": dimensions"), tensor.ndim()});
        for (int i = 0; i < Shape::max_ndim; ++i)
            if (i != dimension_of(tensor.shape(), dim))
                shapes.push_back(
                    {label(in_quotes(name), ": dimension ", i + 1), i < tensor.ndim() ? tensor.shape()[i] : 0});
    }
    agree(comm, names);
    agree(comm, shapes);
}

// A part in the whole tensor along its dimension `dim`.
struct Place {
    int dim = 0;
    Index first = 0, length = 0;
};

int check_dimension(const std::string& name, const Shape& shape, std::optional<int> dim) {
    const int along = dimension_of(shape, dim);
    if (along >= shape.ndim() || along < 0)
        fail(in_quotes(name), ": dim: ", along + 1, ", expected from 1 to ", shape.ndim(), ", the dimensions of ",
             shape.ndim() > 0 ? shape.text() : "a number");
    return along;
}

Place place_of(Communicator& comm, const std::string& name, const Shape& shape, std::optional<int> dim) {
    Place out{check_dimension(name, shape, dim), 0, 0};
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(comm.size()));
    const std::int64_t mine = shape[out.dim];
    all_gather(comm, all_ranks(comm), &mine, 1, lengths.data());
    for (int r = 0; r < comm.size(); ++r) {
        if (r == comm.rank()) out.first = out.length;
        if (__builtin_add_overflow(out.length, static_cast<Index>(lengths[static_cast<std::size_t>(r)]), &out.length))
            fail(in_quotes(name), ": the parts are longer together than any tensor");
    }
    return out;
}

// The rank's part, row by row, where it stands in the file; `at` is where the whole tensor begins.
void write_part(PartWriter& file, std::uint64_t at, const Tensor& x, const Place& place) {
    const Along part(x.shape(), place.dim, size_of(x.dtype()));
    const auto bytes = static_cast<std::size_t>(part.length * part.width);
    for (Index row = 0; row < part.rows && bytes > 0; ++row)
        file.write(at + static_cast<std::uint64_t>((row * place.length + place.first) * part.width),
                   Bytes(x.raw() + static_cast<std::size_t>(row) * bytes, bytes));
}

}  // namespace

NamedTensors load_safetensors_sharded(const std::string& path, const std::vector<std::string>& names,
                                      std::optional<int> dim, std::vector<std::string>* left_out) {
    const int ranks = distributed::mpi_size(), rank = distributed::mpi_rank();
    Wanted wanted{names};
    wanted.part = [=](const Shape& shape, const std::string& name) {
        const int along = dimension_of(shape, dim);
        if (along >= shape.ndim())
            fail(path, ": tensor ", in_quotes(name), ": has ", shape.ndim(),
                 " dimensions, expected one to share among ranks along: name the tensors that are to be read");
        return shard_of(shape, along, rank, ranks);
    };
    return load_safetensors(path, wanted, left_out);
}

void save_safetensors_sharded(Communicator& comm, const std::string& path, const NamedTensors& value,
                              std::optional<int> dim) {
    agree_on_files(comm, path, value, dim);
    std::map<std::string, Planned> whole;
    std::map<std::string, Place> places;
    for (const auto& [name, tensor] : value.tensors) {  // what is wrong here is so on all ranks
        const Place place = place_of(comm, name, tensor.shape(), dim);
        Planned planned{tensor.dtype(), tensor.shape()};
        planned.shape[place.dim] = place.length;
        whole.emplace(name, planned);
        places.emplace(name, place);
    }
    FilePlan plan;
    std::unique_ptr<Writer> file;
    together(comm, [&] {
        plan = plan_safetensors(path, whole, comm.rank() == 0 ? value.metadata : std::map<std::string, std::string>{});
        if (comm.rank() > 0) return;
        file = std::make_unique<Writer>(path);
        file->write(plan.start);
    });
    const std::string temporary = from_rank(comm, 0, file ? file->temporary() : ""),
                      start = from_rank(comm, 0, std::to_string(plan.start.size()));
    together(comm, [&] {
        PartWriter part(temporary, path);
        for (const auto& [name, tensor] : value.tensors)
            write_part(part, std::stoull(start) + plan.begin.at(name), tensor, places.at(name));
        part.finish();
    });
    together(comm, [&] {
        if (file) file->commit();
    });
}

void save_safetensors_sharded(const std::string& path, const NamedTensors& value, std::optional<int> dim) {
    if (distributed::mpi_size() == 1) {  // what is refused under mpirun is refused here too
        for (const auto& [name, tensor] : value.tensors) check_dimension(name, tensor.shape(), dim);
        return save_safetensors(path, value);
    }
    distributed::run_mpi([&](Communicator& comm) { save_safetensors_sharded(comm, path, value, dim); });
}

}  // namespace causeway
