#include "core/tensor/npy.hpp"

#include <cstdint>
#include <cstring>

#include "tests/catch.hpp"
#include "tests/core/tensor/stored_values.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::testing;

namespace {

Tensor read(const std::string& bytes) {
    return read_npy(Bytes(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()), "x.npy");
}
std::string fault(const std::string& bytes) {
    return message_of([&] { read(bytes); });
}

// A version 1.0 file of the header as it stands and `data` bytes of zeros.
std::string file_of(const std::string& header, std::size_t data,
                    const std::string& version = std::string("\x01\x00", 2)) {
    const auto n = header.size();
    std::string length = {static_cast<char>(n & 0xFF), static_cast<char>(n >> 8 & 0xFF)};
    if (version[0] != 1) length += {static_cast<char>(n >> 16 & 0xFF), static_cast<char>(n >> 24)};
    return "\x93NUMPY" + version + length + header + std::string(data, '\0');
}

std::string with(const std::string& descr, const std::string& order, const std::string& shape) {
    return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

}  // namespace

TEST_CASE("files of NumPy are read", "[npy][files]") {
    struct Case {
        const char* file;
        DType type;
        Shape shape;
        Kind kind;
    };
    const Case cases[] = {
        {"f2_2x3", DType::f16, {2, 3}, Kind::floating},
        {"f4_2x3", DType::f32, {2, 3}, Kind::floating},
        {"f8_2x3", DType::f64, {2, 3}, Kind::floating},
        {"f2_big_2x3", DType::f16, {2, 3}, Kind::floating},
        {"f4_big_2x3", DType::f32, {2, 3}, Kind::floating},
        {"f8_big_2x3", DType::f64, {2, 3}, Kind::floating},
        {"f4_v2_2x3", DType::f32, {2, 3}, Kind::floating},
        {"f4_v3_2x3", DType::f32, {2, 3}, Kind::floating},
        {"f4_0d", DType::f32, {}, Kind::floating},
        {"f8_1", DType::f64, {1}, Kind::floating},
        {"f4_0x3", DType::f32, {0, 3}, Kind::floating},
        {"f4_2x3x4x5", DType::f32, {2, 3, 4, 5}, Kind::floating},
        {"f4_fortran_2x3x4x5", DType::f32, {2, 3, 4, 5}, Kind::floating},
        {"f8_big_fortran_2x3x4", DType::f64, {2, 3, 4}, Kind::floating},
        {"i4_big_fortran_3x4", DType::f64, {3, 4}, Kind::integer},
        {"bool_5", DType::f32, {5}, Kind::truth},
        {"i1_5", DType::f32, {5}, Kind::integer},
        {"i2_5", DType::f32, {5}, Kind::integer},
        {"i4_5", DType::f64, {5}, Kind::integer},
        {"i8_5", DType::f64, {5}, Kind::integer},
        {"u1_5", DType::f32, {5}, Kind::natural},
        {"u2_5", DType::f32, {5}, Kind::natural},
        {"u4_5", DType::f64, {5}, Kind::natural},
        {"u8_5", DType::f64, {5}, Kind::natural},
    };
    for (const auto& [file, type, shape, kind] : cases) {
        INFO(file);
        CHECK(same(load_npy(golden(std::string(file) + ".npy")), golden_tensor(type, shape, kind)));
    }
    CHECK_FALSE(same(load_npy(golden("f4_2x3.npy")), golden_tensor(DType::f64, {2, 3})));
    CHECK_FALSE(same(load_npy(golden("f4_2x3.npy")), golden_tensor(DType::f32, {3, 2})));
}

TEST_CASE("files are written byte for byte as NumPy writes them", "[npy][files]") {
    const TemporaryFolder folder;
    const auto written = [&](const Tensor& t) {
        save_npy(folder / "a.npy", t);
        return read_bytes(folder / "a.npy");
    };
    CHECK(written(golden_tensor(DType::f16, {2, 3})) == read_bytes(golden("f2_2x3.npy")));
    CHECK(written(golden_tensor(DType::f32, {2, 3})) == read_bytes(golden("f4_2x3.npy")));
    CHECK(written(golden_tensor(DType::f64, {2, 3})) == read_bytes(golden("f8_2x3.npy")));
    CHECK(written(golden_tensor(DType::f32, {})) == read_bytes(golden("f4_0d.npy")));
    CHECK(written(golden_tensor(DType::f64, {1})) == read_bytes(golden("f8_1.npy")));
    CHECK(written(golden_tensor(DType::f32, {0, 3})) == read_bytes(golden("f4_0x3.npy")));
    CHECK(written(golden_tensor(DType::f32, {2, 3, 4, 5})) == read_bytes(golden("f4_2x3x4x5.npy")));
    CHECK(written(golden_tensor(DType::f32, {2, 3})) != read_bytes(golden("f8_2x3.npy")));
}

TEST_CASE("NumPy reads what is written", "[npy][files]") {
    const std::string python = python_with("numpy");
    if (python.empty()) {
        causeway::test::skip("tests against NumPy", "there is no python3 with numpy");
        return;
    }
    const TemporaryFolder folder;
    write_bytes(folder / "check.py",
                python_golden +
                    "wanted = [('a', 'f2', (3, 5)), ('b', 'f4', (2, 3, 4, 5)), ('c', 'f8', (7,)), ('d', 'f4', ())]\n"
                    "for name, dtype, shape in wanted:\n"
                    "    assert is_golden(np.load(sys.argv[1] + '/' + name + '.npy'), dtype, shape)\n");
    const auto check = [&] { return run_command(python + " " + folder / "check.py" + " " + folder.path()); };
    save_npy(folder / "a.npy", golden_tensor(DType::f16, {3, 5}));
    save_npy(folder / "b.npy", golden_tensor(DType::f32, {2, 3, 4, 5}));
    save_npy(folder / "c.npy", golden_tensor(DType::f64, {7}));
    save_npy(folder / "d.npy", golden_tensor(DType::f32, {}));
    CHECK(check() == 0);
    save_npy(folder / "c.npy", golden_tensor(DType::f64, {7}, Kind::integer));
    CHECK(check() != 0);
}

TEST_CASE("a round trip keeps every bit", "[npy][files]") {
    const TemporaryFolder folder;
    for (const DType type : {DType::f16, DType::f32, DType::f64}) {
        Tensor t(type, {3, 100'001});  // more than one piece of reading
        for (std::size_t i = 0; i < t.bytes(); ++i)
            t.raw()[i] = static_cast<unsigned char>(i * 2654435761u >> 13);  // NaNs among them
        save_npy(folder / "bits.npy", t);
        const Tensor back = load_npy(folder / "bits.npy");
        REQUIRE(back.shape() == t.shape());
        REQUIRE(back.dtype() == type);
        CHECK(std::memcmp(back.raw(), t.raw(), t.bytes()) == 0);
    }
}

TEST_CASE("column-major files longer than a piece are read", "[npy][files]") {
    const Index rows = 1000, columns = 300;
    std::string bytes = file_of(with("<f8", "True", "(1000, 300)"), 0);
    for (Index k = 0; k < rows * columns; ++k) {
        const auto x = static_cast<double>(k);
        bytes.append(reinterpret_cast<const char*>(&x), sizeof x);
    }
    const Tensor t = read(bytes);
    bool equal = true;
    for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < columns; ++j)
            equal = equal && t.get(i * columns + j) == static_cast<double>(j * rows + i);
    }
    CHECK(equal);
}

TEST_CASE("integers are exact or an error", "[npy][files]") {
    const auto one = [](const char* descr, std::uint64_t value) {
        std::string bytes = file_of(with(descr, "False", "(1,)"), 0);
        return bytes.append(reinterpret_cast<const char*>(&value), 8);
    };
    CHECK(read(one("<i8", std::uint64_t{1} << 53)).get(0) == 9007199254740992.0);
    CHECK(read(one("<i8", std::uint64_t{1} << 63)).get(0) == -9223372036854775808.0);
    CHECK(read(one("<u8", std::uint64_t{1} << 63)).get(0) == 9223372036854775808.0);
    CHECK(read(one("<i8", ~std::uint64_t{0})).get(0) == -1.0);
    CHECK(fault(one("<i8", (std::uint64_t{1} << 53) + 1)) ==
          "x.npy: holds the integer 9007199254740993, which is not exact in Float64");
    CHECK(fault(one("<u8", ~std::uint64_t{0})) ==
          "x.npy: holds the integer 18446744073709551615, which is not exact in Float64");
}

TEST_CASE("unusual headers that NumPy understands are read", "[npy][files]") {
    CHECK(read(file_of("{\"shape\":(2,3),'fortran_order':False,'descr':'f4'}", 24)).shape() == Shape{2, 3});
    CHECK(read(file_of(" { 'descr' : '=f8' , 'shape' : ( 2L , ) , 'fortran_order' : True } \n", 16)).shape() ==
          Shape{2});
    CHECK(read(file_of(with("|b1", "False", "(2, 1)"), 2)).dtype() == DType::f32);
    CHECK(read(file_of(with("?", "False", "()"), 1)).ndim() == 0);
}

TEST_CASE("faults of .npy files are named", "[npy][files]") {
    const std::string ok = with("<f4", "False", "(2, 3)");
    CHECK(fault("") == "x.npy: the file is empty");
    CHECK(fault("PK\x03\x04") == "x.npy: is not a .npy file: it does not start with \\x93NUMPY");
    CHECK(fault("\x93NUM") == "x.npy: ends after 4 bytes, within the start of a .npy file");
    CHECK(fault("\x93NUMPY\x01") == "x.npy: ends after 7 bytes, within the start of a .npy file");
    CHECK(fault(std::string("\x93NUMPY\x01\x00\x10", 9)) ==
          "x.npy: ends after 9 bytes, within the start of a .npy file");
    CHECK(fault(std::string("\x93NUMPY\x04\x00\x10\x00", 10)) ==
          "x.npy: has version 4.0 of the format, expected 1.0, 2.0 or 3.0");
    CHECK(fault(std::string("\x93NUMPY\x01\x00\x10\x00", 10)) ==
          "x.npy: says that its header has 16 bytes, but only 0 follow");
    CHECK(fault(std::string("\x93NUMPY\x02\x00\xFF\xFF\xFF\xFF{", 13)) ==
          "x.npy: says that its header has 4294967295 bytes, but only 1 follow");
    CHECK(fault(file_of(std::string((1u << 20) + 1, ' '), 0, std::string("\x02\x00", 2))) ==
          "x.npy: has a header of 1048577 bytes, expected at most 1048576");
    CHECK(fault(file_of(ok, 20)) == "x.npy: the shape 2×3 of <f4 needs 24 bytes of data, got 20");
    CHECK(fault(file_of(ok, 25)) == "x.npy: the shape 2×3 of <f4 needs 24 bytes of data, got 25");
    CHECK(fault(file_of(with("<f4", "False", "(4611686018427387904, 4611686018427387904)"), 8)) ==
          "x.npy: the shape 4611686018427387904×4611686018427387904 is larger than any file");
    CHECK(fault(file_of(with("<f4", "False", "(0, 4294967296, 4294967296)"), 0)) ==
          "x.npy: the shape 0×4294967296×4294967296 has no elements, but its other dimensions have a product beyond "
          "2^59");
    CHECK(fault(file_of(with("<f4", "False", "(1, 1, 1, 1, 1)"), 4)) == "x.npy: has 5 dimensions, expected at most 4");
    CHECK(fault(file_of(with("<f4", "False", "(-1,)"), 4)) ==
          "x.npy: the header has \"-1,), }\\x0A\" where a dimension is expected");
    CHECK(fault(file_of(with("<f4", "False", "(3)"), 12)) ==
          "x.npy: the header has \", }\\x0A\" where a comma after the one dimension of a tuple is expected");
    CHECK(fault(file_of(with("<c8", "False", "(1,)"), 8)) ==
          "x.npy: has elements of type \"<c8\", expected bool, i1 to i8, u1 to u8, f2, f4 or f8");
    CHECK(fault(file_of(with("|O", "False", "(1,)"), 8)) ==
          "x.npy: has elements of type \"|O\", expected bool, i1 to i8, u1 to u8, f2, f4 or f8");
    CHECK(fault(file_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4)) ==
          "x.npy: holds records of several fields, expected numbers of one type");
    CHECK(fault(file_of(with("<f4", "None", "(1,)"), 4)) ==
          "x.npy: the header has \"None, 'shape': (1,),\" where True or False is expected");
    CHECK(fault(file_of("{'descr': '<f4', 'shape': (1,)}", 4)) == "x.npy: the header lacks 'fortran_order'");
    CHECK(fault(file_of("{'descr': '<f4', 'descr': '<f4'}", 4)) == "x.npy: the header has \"descr\" twice");
    CHECK(fault(file_of("{'descr': '<f4', 'evil': 1}", 4)) == "x.npy: the header has an unknown key \"evil\"");
    CHECK(fault(file_of("{'descr': '<f4", 4)) ==
          "x.npy: the header has \"'<f4\" where a string with an end is expected");
    CHECK(fault(file_of(ok + "x", 24)) == "x.npy: the header has \"x\" where the end of the header is expected");
    CHECK(fault(file_of("{'shape': (" + std::string(60000, '('), 4)) ==
          "x.npy: the header has \"((((((((((((((((((((\" where a dimension is expected");
    CHECK(
        message_of([] { save_npy("a.npy", Tensor::zeros(DType::bf16, {2})); }) ==
        "a.npy: the .npy format has no BFloat16, expected another element type, as of f32(A), or a .safetensors file");
}

TEST_CASE("a lying header costs no memory", "[npy][files]") {
    const std::string bytes = file_of(with("<f8", "False", "(1000000, 1000, 1000)"), 100);
    memory::reset_peak();
    const auto before = memory::current();
    CHECK(fault(bytes) == "x.npy: the shape 1000000×1000×1000 of <f8 needs 8000000000000 bytes of data, got 100");
    CHECK(memory::peak() - before < 10'000);
}

TEST_CASE("every cut and every changed byte of a .npy file gives a tensor or an Error", "[npy][files]") {
    for (const char* file : {"f4_2x3.npy", "i4_big_fortran_3x4.npy", "f4_v3_2x3.npy"}) {
        const std::string bytes = read_bytes(golden(file));
        for (std::size_t n = 0; n < bytes.size(); ++n) CHECK(fault(bytes.substr(0, n)).starts_with("x.npy: "));
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            for (const int change : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
                std::string changed = bytes;
                changed[i] = static_cast<char>(changed[i] ^ change);
                CHECK_NOTHROW(fault(changed));
            }
        }
    }
}
