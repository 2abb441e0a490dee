#include "core/tensor/npz.hpp"

#include <cstdint>
#include <random>

#include "core/base/zip.hpp"
#include "core/tensor/npy.hpp"
#include "tests/catch.hpp"
#include "tests/core/tensor/stored_values.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::testing;

namespace {

using Named = std::map<std::string, Tensor>;

Named read_archive(const std::string& bytes) {
    return read_npz(Bytes(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()), "x.npz");
}
std::string archive_fault(const std::string& bytes) {
    return message_of([&] { read_archive(bytes); });
}

void put(std::string& bytes, std::size_t at, std::uint64_t value, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}

// An archive of one member A.npy, and where its records stand: the fields of a hostile one are written over it.
struct One {
    std::string bytes;
    std::size_t entry, end;

    explicit One(std::uint64_t zip64_from = 0xFFFFFFFF, const std::string& text = "") {
        const TemporaryFolder folder;
        const Tensor A = golden_tensor(DType::f32, {2, 3});
        const std::string npy = text.empty() ? npy_header(A, "") : text;
        zip::Archive out(folder / "a.npz", zip64_from);
        out.add("A.npy", {Bytes(reinterpret_cast<const unsigned char*>(npy.data()), npy.size()),
                          Bytes(A.raw(), text.empty() ? A.bytes() : 0)});
        out.commit();
        bytes = read_bytes(folder / "a.npz");
        entry = bytes.find("PK\x01\x02"), end = bytes.rfind("PK\x05\x06");
    }
    One& with(std::size_t at, std::uint64_t value, std::size_t width) {
        put(bytes, at, value, width);
        return *this;
    }
    One& sizes(std::uint64_t packed, std::uint64_t size) {
        return with(entry + 20, packed, 4).with(entry + 24, size, 4);
    }
    One& named(const std::string& name) {  // of five bytes
        bytes.replace(30, 5, name), bytes.replace(entry + 46, 5, name);
        return *this;
    }
    std::string fault() const { return archive_fault(bytes); }
};

const std::string member = "x.npz: member \"A.npy\": ";

}  // namespace

TEST_CASE("archives of NumPy are read", "[npz][files]") {
    for (const char* file : {"stored.npz", "deflated.npz"}) {
        INFO(file);
        const Named got = load_npz(golden(file));
        REQUIRE(got.size() == 7);
        CHECK(same(got.at("single"), golden_tensor(DType::f32, {2, 3, 4, 5})));
        CHECK(same(got.at("double"), golden_tensor(DType::f64, {3, 4})));
        CHECK(same(got.at("half"), golden_tensor(DType::f16, {3, 2})));
        CHECK(same(got.at("bytes"), golden_tensor(DType::f32, {5}, Kind::natural)));
        CHECK(same(got.at("scalar"), golden_tensor(DType::f32, {})));
        CHECK(same(got.at("nothing"), golden_tensor(DType::f32, {0, 3})));
        CHECK(same(got.at("layer/größe β"), golden_tensor(DType::f64, {1})));
    }
    CHECK(same(load_npz(golden("zeros.npz")).at("zeros"), Tensor::zeros(DType::f32, {300'000})));
}

TEST_CASE("NumPy reads the archives that are written", "[npz][files]") {
    const std::string python = python_with("numpy");
    if (python.empty()) {
        causeway::test::skip("tests against NumPy", "there is no python3 with numpy");
        return;
    }
    const TemporaryFolder folder;
    write_bytes(
        folder / "check.py",
        python_golden +
            "import zipfile\n"
            "assert zipfile.ZipFile(sys.argv[1]).testzip() is None\n"
            "got = np.load(sys.argv[1])\n"
            "wanted = [('a', 'f2', (3, 5)), ('b/größe', 'f4', (2, 3, 4, 5)), ('c', 'f8', (7,)), ('d', 'f4', ())]\n"
            "assert sorted(got.files) == [name for name, _, _ in wanted]\n"
            "for name, dtype, shape in wanted: assert is_golden(got[name], dtype, shape)\n");
    const std::string path = folder / "a.npz";
    const auto check = [&] { return run_command(python + " " + folder / "check.py" + " " + path); };
    Named tensors{{"a", golden_tensor(DType::f16, {3, 5})},
                  {"b/größe", golden_tensor(DType::f32, {2, 3, 4, 5})},
                  {"c", golden_tensor(DType::f64, {7})},
                  {"d", golden_tensor(DType::f32, {})}};
    save_npz(path, tensors);
    CHECK(check() == 0);
    // With the eight-byte fields that larger files have.
    zip::Archive wide(path, 1);
    for (const auto& [name, tensor] : tensors) {
        const std::string header = npy_header(tensor, "");
        wide.add(name + ".npy", {Bytes(reinterpret_cast<const unsigned char*>(header.data()), header.size()),
                                 Bytes(tensor.raw(), tensor.bytes())});
    }
    wide.commit();
    CHECK(check() == 0);
    CHECK(same(load_npz(path).at("c"), tensors.at("c")));
    tensors.at("c") = golden_tensor(DType::f64, {7}, Kind::integer);
    save_npz(path, tensors);
    CHECK(check() != 0);
}

TEST_CASE("a round trip through an archive keeps names and bits", "[npz][files]") {
    const TemporaryFolder folder;
    const std::string path = folder / "a.npz";
    const Named tensors{{"", golden_tensor(DType::f32, {1})},
                        {"x.npy", golden_tensor(DType::f64, {0, 2})},
                        {"a/b.c", golden_tensor(DType::f16, {3, 100'001})}};
    save_npz(path, tensors);
    const Named back = load_npz(path);
    REQUIRE(back.size() == 3);
    for (const auto& [name, tensor] : tensors) CHECK(same(back.at(name), tensor));
    const std::string first = read_bytes(path);
    save_npz(path, tensors);
    CHECK(read_bytes(path) == first);
    save_npz(path, {});
    CHECK(load_npz(path).empty());
}

TEST_CASE("what cannot be a member is not written", "[npz][files]") {
    const TemporaryFolder folder;
    const std::string path = folder / "a.npz";
    const auto refusal = [&](const std::string& name, DType type = DType::f32) {
        return message_of([&] { save_npz(path, {{name, Tensor::zeros(type, {2})}}); });
    };
    CHECK(refusal("../a") == path + ": the name \"../a.npy\" leads out of its folder, expected the name of a tensor");
    CHECK(refusal("/a") ==
          path + ": the name \"/a.npy\" begins at the root of the file system, expected the name of a tensor");
    CHECK(refusal("a\xFF") == path + ": the name \"a\\xFF.npy\" is not UTF-8, expected the name of a tensor");
    CHECK(refusal(std::string(70'000, 'a')).ends_with(" is longer than 65535 bytes, expected the name of a tensor"));
    CHECK(refusal("A", DType::bf16).starts_with(path + ": \"A\": the .npy format has no BFloat16"));
    CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("faults of archives are named", "[npz][files]") {
    CHECK(One().fault().empty());
    CHECK(One(0).fault().empty());
    CHECK(archive_fault("") == "x.npz: the file is empty");
    CHECK(archive_fault(read_bytes(golden("f4_2x3.npy"))) ==
          "x.npz: is cut off or not a zip archive: the record that ends one is missing");
    One one;
    const std::size_t entry = one.entry, end = one.end;
    CHECK(archive_fault(one.bytes.substr(0, one.bytes.size() - 1)) ==
          "x.npz: is cut off or not a zip archive: the record that ends one is missing");
    CHECK(One().with(end + 4, 1, 2).fault() ==
          "x.npz: is one of several disks of an archive, expected the whole archive");
    CHECK(One()
              .with(end + 16, 1u << 30, 4)
              .fault()
              .starts_with("x.npz: says that its directory has 51 bytes from byte "
                           "1073741824 on, but it has to end before byte "));
    CHECK(One().with(end + 8, 0x00020002, 4).fault() ==
          "x.npz: says that it has 2 members, more than its directory can hold");
    CHECK(One().with(end + 8, 0, 4).fault() == "x.npz: has 51 bytes behind its directory");
    CHECK(One().with(end + 16, 0xFFFFFFFF, 4).fault() == "x.npz: lacks the zip64 record that its end speaks of");
    CHECK(One().with(entry, 0, 4).fault() == "x.npz: entry 1 of its directory is damaged");
    CHECK(One().with(entry + 30, 60'000, 2).fault() == "x.npz: entry 1 of its directory is damaged");
    CHECK(One().with(entry + 8, 0x801, 2).fault() == member + "is encrypted, expected a member that is not");
    CHECK(One().with(entry + 10, 12, 2).fault() ==
          member + "is compressed by method 12, expected stored (0) or deflated (8)");
    CHECK(One().sizes(152, 200).fault() == member + "is stored, and has 152 bytes where it says 200");
    CHECK(One().sizes(5000, 5000).fault().starts_with(member + "says that it has 5000 bytes, but only "));
    CHECK(One().sizes(151, 151).fault() == member + "the shape 2×3 of <f4 needs 24 bytes of data, got 23");
    CHECK(One().sizes(0xFFFFFFFF, 152).fault() == member + "lacks the zip64 field that its sizes speak of");
    CHECK(One().with(entry + 42, 5, 4).fault() == member + "byte 5, where it should begin, has no header of that name");
    CHECK(One().with(entry + 42, 1u << 30, 4).fault() ==
          member + "begins at byte 1073741824, where the archive has no more members");
    CHECK(One().with(32, 'B', 1).fault() == member + "byte 0, where it should begin, has no header of that name");
    CHECK(One().with(entry + 16, 1, 4).fault() == member + "is damaged: its bytes do not have the checksum it says");
    CHECK(One().with(60, 0, 1).fault().starts_with(member + "the header "));
    CHECK(One(0xFFFFFFFF, "a text").fault() == member + "is not a .npy file: it does not start with \\x93NUMPY");
    CHECK(One().with(entry + 10, 8, 2).fault() == member + "unpacks to less than the 152 bytes that it says");

    const auto name_fault = [](const std::string& name) { return One().named(name).fault(); };
    CHECK(name_fault("/etc/") ==
          "x.npz: member \"/etc/\": its name begins at the root of the file system, expected the "
          "name of a tensor");
    CHECK(name_fault("a/../").find("is that of a folder") != std::string::npos);
    CHECK(name_fault("../ab").find("leads out of its folder") != std::string::npos);
    CHECK(name_fault("ab/..").find("leads out of its folder") != std::string::npos);
    CHECK(name_fault("c:\\ab").find("has a backslash") != std::string::npos);
    CHECK(name_fault("abc\xC3(").find("is not UTF-8") != std::string::npos);
    CHECK(name_fault(std::string("ab\0cd", 5)).find("has a zero byte") != std::string::npos);
    CHECK(name_fault("..abc").empty());
}

TEST_CASE("two members of one name, and members that share bytes, are refused", "[npz][files]") {
    const TemporaryFolder folder;
    const Tensor A = golden_tensor(DType::f32, {2});
    const std::string header = npy_header(A, "");
    const auto twice = [&](const std::string& first, const std::string& second) {
        zip::Archive out(folder / "a.npz");
        for (const auto& name : {first, second})
            out.add(name, {Bytes(reinterpret_cast<const unsigned char*>(header.data()), header.size()),
                           Bytes(A.raw(), A.bytes())});
        out.commit();
        return read_bytes(folder / "a.npz");
    };
    CHECK(archive_fault(twice("A.npy", "A.npy")) == "x.npz: member \"A.npy\": the name is given twice");
    CHECK(archive_fault(twice("A", "A.npy")) == "x.npz: member \"A.npy\": another member is called \"A\" too");
    // The directory's second entry leads to the first member, whose header then has to have its name.
    std::string shared = twice("A.npy", "B.npy");
    const std::size_t second = shared.rfind("PK\x01\x02");
    put(shared, second + 42, 0, 4);
    CHECK(archive_fault(shared) ==
          "x.npz: member \"B.npy\": byte 0, where it should begin, has no header of that name");
    // A first member that says it goes on over the second.
    std::string over = twice("A.npy", "B.npy");
    const std::size_t first = over.find("PK\x01\x02");
    put(over, first + 20, 200, 4), put(over, first + 24, 200, 4);
    CHECK(archive_fault(over).ends_with("lies within another one"));
}

TEST_CASE("a small archive cannot ask for much memory", "[npz][files]") {
    const auto cost = [](const std::string& bytes) {
        memory::reset_peak();
        const auto before = memory::current();
        CHECK(!archive_fault(bytes).empty());
        return memory::peak() - before;
    };
    // 3 GB in 1200 packed bytes: more than deflate can.
    std::string zeros = read_bytes(golden("zeros.npz"));
    const std::size_t entry = zeros.find("PK\x01\x02");
    put(zeros, entry + 24, 3'000'000'000, 4);
    CHECK(archive_fault(zeros).ends_with(" unpack to 3000000000, more than deflate can"));
    CHECK(cost(zeros) < 200'000);
    // A size that deflate can reach: the shape does not have it, and nothing is allocated for it.
    put(zeros, entry + 24, 1'200'127, 4);
    CHECK(archive_fault(zeros) ==
          "x.npz: member \"zeros.npy\": the shape 300000 of <f4 needs 1200000 bytes of data, got 1199999");
    CHECK(cost(zeros) < 200'000);
    // A directory of 4 GB.
    One one;
    CHECK(cost(one.with(one.end + 12, 0xFFFFFFF0, 4).bytes) < 200'000);
}

TEST_CASE("packed bytes of another length than the archive says are an Error", "[npz][files]") {
    const std::string deflated = read_bytes(golden("deflated.npz"));
    const std::size_t entry = deflated.find("PK\x01\x02");
    std::string cut = deflated;
    std::uint64_t packed = static_cast<unsigned char>(deflated[entry + 20]);
    put(cut, entry + 20, packed - 4, 4);
    CHECK(archive_fault(cut).ends_with(" bytes that it says"));
    put(cut, entry + 20, packed - 1, 4);
    CHECK(archive_fault(cut).starts_with("x.npz: member \"single.npy\": "));
    put(cut, entry + 20, packed + 1, 4);
    CHECK(!archive_fault(cut).empty());
}

TEST_CASE("every cut and thousands of changes of an archive give tensors or an Error", "[npz][files]") {
    std::mt19937_64 draw(7);
    for (const char* file : {"stored.npz", "deflated.npz"}) {
        const std::string bytes = read_bytes(golden(file));
        for (std::size_t n = 0; n < bytes.size(); ++n) CHECK(archive_fault(bytes.substr(0, n)).starts_with("x.npz: "));
        for (int i = 0; i < 6000; ++i) {
            std::string changed = bytes;
            for (std::uint64_t n = draw() % 3 + 1; n > 0; --n) {
                // Half of the changes are in the directory, which is what everything else is found by.
                const std::size_t from = draw() % 2 ? bytes.find("PK\x01\x02") : 0;
                const std::size_t at = from + draw() % (bytes.size() - from);
                if (draw() % 2) changed[at] = static_cast<char>(draw());
                else changed[at] = static_cast<char>(changed[at] ^ 1 << draw() % 8);
            }
            const std::string fault = archive_fault(changed);
            if (!fault.empty()) REQUIRE(fault.starts_with("x.npz: "));
        }
    }
}

TEST_CASE("a member that no Tensor can hold is left out where that is asked for", "[npz][files]") {
    const auto npy = [](const std::string& descr, const std::string& shape, std::size_t bytes) {
        std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
        header.append(63 - (10 + header.size()) % 64, ' ') += '\n';
        return std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size() & 0xFF) +
               static_cast<char>(header.size() >> 8) + header + std::string(bytes, '\0');
    };
    const auto archive = [](const TemporaryFolder& folder, const std::map<std::string, std::string>& members) {
        const std::string path = folder / "a.npz";
        zip::Archive out(path);
        for (const auto& [name, bytes] : members)
            out.add(name + ".npy", {Bytes(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size())});
        out.commit();
        return path;
    };
    const TemporaryFolder folder;
    const std::string path = archive(
        folder,
        {{"c", npy("<c8", "(2,)", 16)}, {"deep", npy("<f4", "(1, 1, 1, 1, 2)", 8)}, {"x", npy("<f4", "(2,)", 8)}});
    std::vector<std::string> left_out;
    const Named got = load_npz(path, &left_out);
    CHECK(got.size() == 1);
    CHECK(same(got.at("x"), Tensor::zeros(DType::f32, {2})));
    REQUIRE(left_out.size() == 2);
    CHECK(left_out[0] == path +
                             ": member \"c.npy\": has elements of type \"<c8\", expected bool, i1 to i8, u1 to u8, "
                             "f2, f4 or f8");
    CHECK(left_out[1] == path + ": member \"deep.npy\": has 5 dimensions, expected at most 4");
    CHECK(message_of([&] { load_npz(path); }) == left_out[0]);  // who does not ask is told
    // Where nothing is left, and where a member is damaged, it is an error all the same.
    const std::string alone = archive(folder, {{"c", npy("<c8", "(2,)", 16)}});
    CHECK(message_of([&] { load_npz(alone, &left_out); }).find("has elements of type \"<c8\"") != std::string::npos);
    const std::string cut = archive(folder, {{"c", npy("<f4", "(3,)", 8)}, {"x", npy("<f4", "(2,)", 8)}});
    CHECK(message_of([&] { load_npz(cut, &left_out); }).find("needs 12 bytes of data, got 8") != std::string::npos);
}
