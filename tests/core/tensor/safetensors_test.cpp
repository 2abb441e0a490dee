#include "core/tensor/safetensors.hpp"

#include <cstdint>
#include <cstring>
#include <limits>

#include "tests/catch.hpp"
#include "tests/core/tensor/stored_values.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::testing;

namespace {

NamedTensors read(const std::string& bytes) {
    return read_safetensors(Bytes(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()), "x.safetensors");
}
std::string fault(const std::string& bytes) {
    return message_of([&] { read(bytes); });
}

std::string length_of(std::uint64_t n) {
    std::string out(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(n >> (8 * i) & 0xFF);
    return out;
}

// The header as it stands and `data` bytes of zeros.
std::string file_of(const std::string& header, std::size_t data) {
    return length_of(header.size()) + header + std::string(data, '\0');
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

NamedTensors golden_floats() {
    NamedTensors out;
    out.tensors.emplace("half", golden_tensor(DType::f16, {3, 2}));
    out.tensors.emplace("brain", golden_tensor(DType::bf16, {2, 2, 2}));
    out.tensors.emplace("single", golden_tensor(DType::f32, {2, 3, 4, 5}));
    out.tensors.emplace("double", golden_tensor(DType::f64, {4}));
    out.tensors.emplace("scalar", golden_tensor(DType::f32, {}));
    out.tensors.emplace("nothing", golden_tensor(DType::f32, {0, 3}));
    out.tensors.emplace("größe β", golden_tensor(DType::f16, {1}));
    out.metadata["made by"] = "safetensors";
    return out;
}

void check_same(const NamedTensors& got, const NamedTensors& expected) {
    CHECK(got.metadata == expected.metadata);
    CHECK(got.tensors.size() == expected.tensors.size());
    for (const auto& [name, tensor] : expected.tensors) {
        INFO(name);
        REQUIRE(got.tensors.count(name) == 1);
        CHECK(same(got.tensors.at(name), tensor));
    }
}

}  // namespace

TEST_CASE("files of the safetensors library are read", "[safetensors][files]") {
    check_same(load_safetensors(golden("floats.safetensors")), golden_floats());

    NamedTensors integers;
    for (const char* name : {"i1", "i2"}) integers.tensors.emplace(name, golden_tensor(DType::f32, {5}, Kind::integer));
    for (const char* name : {"i4", "i8"}) integers.tensors.emplace(name, golden_tensor(DType::f64, {5}, Kind::integer));
    for (const char* name : {"u1", "u2"}) integers.tensors.emplace(name, golden_tensor(DType::f32, {5}, Kind::natural));
    for (const char* name : {"u4", "u8"}) integers.tensors.emplace(name, golden_tensor(DType::f64, {5}, Kind::natural));
    integers.tensors.emplace("bool", golden_tensor(DType::f32, {5}, Kind::truth));
    check_same(load_safetensors(golden("integers.safetensors")), integers);
}

TEST_CASE("files are written byte for byte as the safetensors library writes them", "[safetensors][files]") {
    const TemporaryFolder folder;
    NamedTensors value = golden_floats();
    save_safetensors(folder / "a.safetensors", value);
    CHECK(read_bytes(folder / "a.safetensors") == read_bytes(golden("floats.safetensors")));
    value.tensors.at("half").set(0, 3);
    save_safetensors(folder / "a.safetensors", value);
    CHECK(read_bytes(folder / "a.safetensors") != read_bytes(golden("floats.safetensors")));
}

TEST_CASE("the safetensors library reads what is written", "[safetensors][files]") {
    const std::string python = python_with("numpy, safetensors");
    if (python.empty()) {
        causeway::test::skip("tests against the safetensors library", "there is no python3 with numpy and safetensors");
        return;
    }
    const TemporaryFolder folder;
    NamedTensors value;
    value.tensors.emplace("a", golden_tensor(DType::f32, {2, 3, 4, 5}));
    value.tensors.emplace("b", golden_tensor(DType::f16, {7}));
    value.metadata["note"] = "a \"quoted\" line\n";
    save_safetensors(folder / "a.safetensors", value);
    write_bytes(folder / "check.py",
                python_golden +
                    "from safetensors import safe_open\n"
                    "with safe_open(sys.argv[1], 'np') as f:\n"
                    "    assert f.metadata() == {'note': 'a \"quoted\" line\\n'} and sorted(f.keys()) == ['a', 'b']\n"
                    "    for name, dtype, shape in [('a', 'f4', (2, 3, 4, 5)), ('b', 'f2', (7,))]:\n"
                    "        assert is_golden(f.get_tensor(name), dtype, shape)\n");
    CHECK(run_command(python + " " + folder / "check.py" + " " + folder / "a.safetensors") == 0);
    CHECK(run_command(python + " " + folder / "check.py" + " " + golden("floats.safetensors")) != 0);
}

TEST_CASE("a round trip keeps names, bits and metadata", "[safetensors][files]") {
    const TemporaryFolder folder;
    NamedTensors value;
    for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
        Tensor t(type, {2, 3, 5, 7});
        for (std::size_t i = 0; i < t.bytes(); ++i)
            t.raw()[i] = static_cast<unsigned char>(i * 2654435761u >> 13);  // NaNs among them
        value.tensors.emplace(std::string("model.layers.0.") + name(type), t);
    }
    value.tensors.emplace("", Tensor::zeros(DType::f32, {1}));
    value.tensors.emplace("a\"b\\c\n\t\x01", Tensor::zeros(DType::f32, {1}));
    value.metadata = {{"", ""}, {"k\"", "v\n"}};
    save_safetensors(folder / "a.safetensors", value);
    const NamedTensors back = load_safetensors(folder / "a.safetensors");
    CHECK(back.metadata == value.metadata);
    REQUIRE(back.tensors.size() == value.tensors.size());
    for (const auto& [name, t] : value.tensors) {
        const Tensor& got = back.tensors.at(name);
        REQUIRE(got.shape() == t.shape());
        REQUIRE(got.dtype() == t.dtype());
        CHECK(std::memcmp(got.raw(), t.raw(), t.bytes()) == 0);
    }

    save_safetensors(folder / "none.safetensors", {});
    CHECK(load_safetensors(folder / "none.safetensors").tensors.empty());
}

TEST_CASE("faults of .safetensors files are named", "[safetensors][files]") {
    const std::string x = "x.safetensors: ";
    const auto one = [](const std::string& value, std::size_t data) { return file_of("{\"a\":" + value + "}", data); };
    const std::string ok = entry("F32", "[2]", "[0,8]");
    CHECK(fault(one(ok, 8)).empty());
    CHECK(fault("") == x + "the file is empty");
    CHECK(fault("abc") == x + "is not a .safetensors file: it has 3 bytes, expected at least 8");
    CHECK(fault(length_of(100) + "{}") ==
          x + "is cut off or not a .safetensors file: it says that its header has 100 bytes, but only 2 follow");
    CHECK(fault(length_of(~std::uint64_t{0}) + "{}") == x + "is cut off or not a .safetensors file: it says that its "
                                                            "header has 18446744073709551615 bytes, but only 2 follow");
    CHECK(fault(file_of("", 0)) == x + "is not a .safetensors file: its header does not start with {");
    CHECK(fault(file_of(" {}", 0)) == x + "is not a .safetensors file: its header does not start with {");
    CHECK(fault(file_of("{", 0)) == x + "the header is not valid JSON at byte 2");
    CHECK(fault(file_of("{} x", 0)) == x + "the header is not valid JSON at byte 4");
    CHECK(fault(file_of(std::string("{}\0x", 4), 0)) == x + "the header is not valid JSON at byte 2");
    CHECK(fault(file_of("{\"\xFF\":1}", 0)) == x + "the header is not valid JSON at byte 3");
    CHECK(fault(one("1", 0)) == x + "tensor \"a\": is a number, expected an object");
    CHECK(fault(one("[]", 0)) == x + "tensor \"a\": is an array, expected an object");
    CHECK(fault(one("{}", 0)) == x + "tensor \"a\": lacks dtype");
    CHECK(fault(one(R"({"dtype":"F32","data_offsets":[0,4]})", 4)) == x + "tensor \"a\": lacks shape");
    CHECK(fault(one(R"({"dtype":"F32","shape":[1]})", 4)) == x + "tensor \"a\": lacks data_offsets");
    CHECK(fault(one(R"({"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]})", 4)) ==
          x + "tensor \"a\": has shape twice");
    CHECK(fault(one(R"({"dtype":"F32","dtype":"F32"})", 4)) == x + "tensor \"a\": has a dtype twice");
    CHECK(fault(one(R"({"dtype":"F32","stride":[1]})", 4)) ==
          x + "tensor \"a\": \"stride\" is an array, expected a dtype (text), a shape and data_offsets (arrays)");
    CHECK(fault(one(entry("F32", "[-1]", "[0,4]"), 4)) ==
          x + "tensor \"a\": the shape has a negative number, expected whole numbers from 0 to 2^64 - 1");
    CHECK(fault(one(entry("F32", "[1.5]", "[0,4]"), 4)) ==
          x + "tensor \"a\": the shape has the number 1.5, expected whole numbers from 0 to 2^64 - 1");
    CHECK(fault(one(entry("F32", "[1e3]", "[0,4]"), 4)) ==
          x + "tensor \"a\": the shape has the number 1e3, expected whole numbers from 0 to 2^64 - 1");
    CHECK(fault(one(entry("F32", "[0,18446744073709551616]", "[0,0]"), 0)) ==
          x + "tensor \"a\": the shape has the number 18446744073709551616, expected whole numbers from 0 to 2^64 - 1");
    CHECK(fault(one(entry("F32", "[0,1e999]", "[0,0]"), 0)).find("the header has a number beyond Float64 at byte ") !=
          std::string::npos);
    CHECK(fault(one(entry("F32", "[[1]]", "[0,4]"), 4)) ==
          x + "tensor \"a\": the shape has an array, expected whole numbers from 0 to 2^64 - 1");
    CHECK(fault(one(entry("F32", "[1,1,1,1,1]", "[0,4]"), 4)) == x + "tensor \"a\": has more than 4 dimensions");
    CHECK(fault(one(entry("F32", "[1]", "[0]"), 4)) == x + "tensor \"a\": data_offsets has 1 numbers, expected 2");
    CHECK(fault(one(entry("F32", "[1]", "[0,4,8]"), 4)) ==
          x + "tensor \"a\": data_offsets has a third number, expected 2 whole numbers from 0 to 2^64 - 1");
    CHECK(fault(one(entry("F32", "[1]", "[4,0]"), 4)) ==
          x + "tensor \"a\": data_offsets are 4 and 0, expected the first not to be larger");
    CHECK(fault(one(ok, 4)) == x + "tensor \"a\": its data ends at byte 8, but the file has 4 bytes of data");
    CHECK(fault(one(ok, 12)) == x + "has 4 bytes behind the data of its tensors");
    CHECK(fault(one(entry("F32", "[3]", "[0,8]"), 8)) ==
          x + "tensor \"a\": the shape 3 of F32 needs 12 bytes of data, got 8");
    CHECK(fault(one(entry("F64", "[9223372036854775807,3]", "[0,8]"), 8)) ==
          x + "tensor \"a\": the shape 9223372036854775807×3 is larger than any file");
    CHECK(fault(one(entry("F8_E4M3", "[8]", "[0,8]"), 8)) ==
          x + "tensor \"a\": has elements of type \"F8_E4M3\", expected BOOL, I8 to I64, U8 to U64, F16, BF16, F32 or "
              "F64");
    CHECK(fault(file_of("{\"a\":" + ok + ",\"a\":" + ok + "}", 8)) == x + "tensor \"a\": the name is given twice");
    CHECK(fault(file_of("{\"a\":" + ok + ",\"b\":" + entry("U8", "[2]", "[7,9]") + "}", 9)) ==
          x + "tensor \"b\": its data begins at byte 7, within that of another tensor");
    CHECK(fault(file_of("{\"a\":" + ok + ",\"b\":" + entry("U8", "[2]", "[9,11]") + "}", 11)) ==
          x + "tensor \"b\": its data begins at byte 9, which leaves a hole of 1 bytes");
    CHECK(fault(file_of(R"({"__metadata__":{"a":1}})", 0)) ==
          x + "\"__metadata__\": \"a\" is a number, expected a text");
    CHECK(fault(file_of(R"({"__metadata__":{"a":"1","a":"2"}})", 0)) ==
          x + "\"__metadata__\": has the key \"a\" twice");
    CHECK(fault(file_of(R"({"__metadata__":{},"__metadata__":{}})", 0)) == x + "has __metadata__ twice");
    CHECK(fault(one(entry("I64", "[1]", "[0,8]"), 0) + std::string("\x01\0\0\0\0\0\x20\0", 8)) ==
          x + "tensor \"a\": holds the integer 9007199254740993, which is not exact in Float64");
}

TEST_CASE("a header above 100 MB is refused before it is read", "[safetensors][files]") {
    const TemporaryFolder folder;
    const std::string path = folder / "a.safetensors";
    write_bytes(path, length_of(100'000'001) + "{");
    std::filesystem::resize_file(path, 100'000'009);  // a hole: takes no room on the disk
    memory::reset_peak();
    const auto before = memory::current();
    CHECK(message_of([&] { load_safetensors(path); }) ==
          path + ": has a header of 100000001 bytes, expected at most 100000000");
    CHECK(memory::peak() == before);
}

TEST_CASE("nesting without end overflows nothing", "[safetensors][files]") {
    for (const char* deep : {"{\"a\":", "["}) {
        std::string header = "{\"a\":";
        while (header.size() < 1'000'000) header += deep;
        CHECK(fault(file_of(header, 0)).starts_with("x.safetensors: tensor \"a\": "));
    }
}

TEST_CASE("what cannot be written as .safetensors is named and leaves the old file", "[safetensors][files]") {
    const TemporaryFolder folder;
    const std::string path = folder / "a.safetensors";
    write_bytes(path, "old");
    NamedTensors value;
    value.tensors.emplace("__metadata__", Tensor());
    CHECK(message_of([&] { save_safetensors(path, value); }) == path + ": a tensor cannot have the name __metadata__");
    value.tensors.clear();
    value.tensors.emplace("\xFF", Tensor());
    CHECK(message_of([&] { save_safetensors(path, value); }) ==
          path + ": the names of tensors and the metadata must be UTF-8");
    CHECK(read_bytes(path) == "old");
}

TEST_CASE("every cut and every changed byte of a .safetensors file gives tensors or an Error", "[safetensors][files]") {
    const std::string bytes = read_bytes(golden("integers.safetensors"));
    for (std::size_t n = 0; n < bytes.size(); ++n) CHECK(fault(bytes.substr(0, n)).starts_with("x.safetensors: "));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        for (const int change : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
            std::string changed = bytes;
            changed[i] = static_cast<char>(changed[i] ^ change);
            CHECK_NOTHROW(fault(changed));
        }
    }
}

TEST_CASE("a tensor that no Tensor can hold is left out where that is asked for", "[safetensors][files]") {
    const TemporaryFolder folder;
    const std::string path = folder / "a.safetensors";
    write_bytes(path, file_of("{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[0,4]},"
                              "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
                              12));
    std::vector<std::string> left_out;
    const NamedTensors got = load_safetensors(path, &left_out);
    CHECK(got.tensors.size() == 1);
    CHECK(same(got.tensors.at("b"), Tensor::zeros(DType::f32, {2})));
    REQUIRE(left_out.size() == 1);
    CHECK(left_out[0].starts_with(path + ": tensor \"a\": has elements of type \"F8_E4M3\", expected BOOL"));
    CHECK(message_of([&] { load_safetensors(path); }) == left_out[0]);
}

TEST_CASE("a part of a tensor is what the whole has there", "[safetensors][files]") {
    const auto slice = [](const Tensor& x, const TensorPart& part) {
        Shape shape = x.shape();
        shape[part.dim] = part.n;
        Tensor out(x.dtype(), shape);
        const Along whole(x.shape(), part.dim, 1);
        for (Index row = 0, k = 0; row < whole.rows; ++row)
            for (Index i = 0; i < part.n * whole.width; ++i, ++k)
                out.set(k, x.get((row * whole.length + part.first) * whole.width + i));
        return out;
    };
    for (const char* file : {"floats.safetensors", "integers.safetensors"}) {
        const NamedTensors whole = load_safetensors(golden(file));
        for (const auto& [name, x] : whole.tensors)
            for (int dim = 0; dim < x.ndim(); ++dim)
                for (Index first = 0; first <= x.shape()[dim]; ++first)
                    for (Index n = 0; n <= x.shape()[dim] - first; ++n) {
                        const TensorPart part{dim, first, n};
                        const NamedTensors got =
                            load_safetensors(golden(file), {{name}, [&](const Shape& shape, const std::string& of) {
                                                                CHECK(shape == x.shape());
                                                                CHECK(of == name);
                                                                return part;
                                                            }});
                        REQUIRE(got.tensors.size() == 1);
                        INFO(name << " along " << dim << ": " << first << ", " << n);
                        CHECK(same(got.tensors.at(name), slice(x, part)));
                        CHECK(got.metadata == whole.metadata);
                    }
    }
    // Rows of many lengths, read one by one and several at once, in more than one piece of 1 MiB.
    const TemporaryFolder folder;
    for (const Shape& shape : {Shape{3000, 7, 60}, Shape{5, 3000, 90}, Shape{2, 2, 300, 1000}}) {
        NamedTensors value;
        for (const DType type : {DType::f32, DType::f16}) {
            Tensor x(type, shape);
            for (std::size_t i = 0; i < x.bytes(); ++i) x.raw()[i] = static_cast<unsigned char>(i * 2654435761u >> 20);
            value.tensors.emplace(name(type), x);
        }
        save_safetensors(folder / "a.safetensors", value);
        for (int dim = 0; dim < shape.ndim(); ++dim)
            for (const auto& [first, last] :
                 {std::pair<Index, Index>{0, 1}, {1, 3}, {0, shape[dim]}, {shape[dim] / 2, shape[dim]}}) {
                const TensorPart part{dim, std::min(first, shape[dim]),
                                      std::min(last, shape[dim]) - std::min(first, shape[dim])};
                const NamedTensors got = load_safetensors(folder / "a.safetensors",
                                                          {{}, [&](const Shape&, const std::string&) { return part; }});
                for (const auto& [type, x] : value.tensors) {
                    const Tensor& y = got.tensors.at(type);
                    const Along all(shape, dim, size_of(x.dtype()));
                    const auto bytes = static_cast<std::size_t>(part.n * all.width);
                    INFO(type << " " << shape.text() << " along " << dim << " from " << part.first << ", " << part.n);
                    REQUIRE(y.bytes() == bytes * static_cast<std::size_t>(all.rows));
                    bool equal = true;
                    for (Index row = 0; row < all.rows; ++row)
                        equal = equal && std::memcmp(y.raw() + static_cast<std::size_t>(row) * bytes,
                                                     x.raw() + (row * all.length + part.first) * all.width, bytes) == 0;
                    CHECK(equal);
                }
            }
    }
}

TEST_CASE("a part of a file larger than memory is read without the rest", "[safetensors][files]") {
    const TemporaryFolder folder;
    const std::string path = folder / "a.safetensors";
    constexpr std::uint64_t tokens = std::uint64_t{1} << 31, bytes = 2 * 2 * tokens * 128;  // 1 TiB, all of it a hole
    const std::string header =
        "{\"x\":" + entry("F16", "[2,2147483648,128]", "[0," + std::to_string(bytes) + "]") + "}";
    write_bytes(path, length_of(header.size()) + header);
    std::error_code cannot;
    std::filesystem::resize_file(path, 8 + header.size() + bytes, cannot);
    if (cannot) {
        causeway::test::skip("a part of a file of 1 TiB", "this file system has no holes of that size");
        return;
    }
    memory::reset_peak();
    const auto before = memory::current();
    const NamedTensors got = load_safetensors(path, {{"x"}, [](const Shape& shape, const std::string&) {
                                                         return TensorPart{1, shape[1] - 3, 3};
                                                     }});
    CHECK(got.tensors.at("x").shape() == Shape{2, 3, 128});
    CHECK(memory::peak() - before < (std::size_t{1} << 20));
}

TEST_CASE("parts and names that a file does not have are named", "[safetensors][files]") {
    const std::string bytes = file_of("{\"abc\":" + entry("F32", "[2,3]", "[0,24]") + "}", 24);
    const auto fault_of = [&](const Wanted& wanted) {
        const Source source(Bytes(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()), "x.safetensors");
        return message_of([&] { read_safetensors(source, wanted); });
    };
    const auto part = [](int dim, Index first, Index n) {
        return Wanted{{}, [=](const Shape&, const std::string&) { return TensorPart{dim, first, n}; }};
    };
    const Index most = std::numeric_limits<Index>::max();
    CHECK(fault_of(part(1, 1, 2)).empty());
    CHECK(fault_of({{"abd"}, {}}) == "x.safetensors: has no tensor \"abd\" (did you mean \"abc\"?)");
    CHECK(fault_of(part(2, 0, 1)) ==
          "x.safetensors: tensor \"abc\": dim: 3, expected from 1 to 2, the dimensions of 2×3");
    for (const auto& [first, n] :
         {std::pair<Index, Index>{2, 2}, {4, 0}, {-1, 1}, {0, -1}, {most, 1}, {1, most}, {most, most}}) {
        const std::string said = sentence("x.safetensors: tensor \"abc\": part: ", n, " positions behind the first ",
                                          first, ", expected some of the 3 of dimension 2 of 2×3");
        CHECK(fault_of(part(1, first, n)) == said);
    }
    // A header that promises more than there is never reaches a part.
    const std::string short_of = file_of("{\"a\":" + entry("F32", "[2,3000000000]", "[0,24]") + "}", 24);
    const Source source(Bytes(reinterpret_cast<const unsigned char*>(short_of.data()), short_of.size()),
                        "x.safetensors");
    CHECK(message_of([&] { read_safetensors(source, part(1, 2999999999, 1)); }) ==
          "x.safetensors: tensor \"a\": the shape 2×3000000000 of F32 needs 24000000000 bytes of data, got 24");
}
