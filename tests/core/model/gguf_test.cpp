#include "core/model/gguf.hpp"

#include "core/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/core/model/model_files.hpp"
#include "tests/temporary.hpp"

using namespace causeway;
using namespace causeway::model;
using namespace causeway::testing;

namespace {

// A small model with every kind of key.
GgufFile small_file() {
    GgufFile file;
    file.key("general.architecture", 8, gguf_text("llama"));
    file.key("u8", 0, raw<std::uint8_t>(200));
    file.key("i8", 1, raw<std::int8_t>(-5));
    file.key("u16", 2, raw<std::uint16_t>(60000));
    file.key("i16", 3, raw<std::int16_t>(-600));
    file.key("u32", 4, raw<std::uint32_t>(4000000000u));
    file.key("i32", 5, raw<std::int32_t>(-7));
    file.key("f32", 6, raw(1e-5f));
    file.key("yes", 7, raw<std::uint8_t>(1));
    file.key("no", 7, raw<std::uint8_t>(0));
    file.key("u64", 10, raw<std::uint64_t>(1ull << 40));
    file.key("i64", 11, raw<std::int64_t>(-(1ll << 40)));
    file.key("f64", 12, raw(0.1));
    file.texts("tokens", {"a", "", std::string("\xFF\0b", 3)});
    file.list("scores", 6, 2, raw(1.5f) + raw(-2.0f));
    file.list("types", 5, 3, raw<std::int32_t>(1) + raw<std::int32_t>(2) + raw<std::int32_t>(-3));
    file.list("flags", 7, 2, std::string("\1\0", 2));
    file.list("nothing", 8, 0, "");
    file.tensor("norm", {3}, 0, raw(1.0f) + raw(2.0f) + raw(3.0f));
    file.tensor("matrix", {2, 3}, 0, raw(1.0f) + raw(2.0f) + raw(3.0f) + raw(4.0f) + raw(5.0f) + raw(6.0f));
    file.tensor("conv", {2, 1, 3}, 30, std::string(12, '\x3F'));
    file.tensor("q", {32, 2}, 3, std::string(40, '\0'));
    file.tensor("one", {}, 0, raw(7.0f));
    file.tensor("rare", {32}, 6, std::string(22, '\0'));
    file.tensor("empty", {0, 3}, 0, "");
    return file;
}

Checkpoint read(const std::string& bytes) { return Checkpoint("x.gguf", true, read_gguf(as_bytes(bytes), "x.gguf")); }

std::string fault(const std::string& bytes) {
    return message_of([&] { read(bytes); });
}
std::string fault(const GgufFile& file) { return fault(file.bytes()); }

}  // namespace

TEST_CASE("metadata and tensors of a GGUF file are read", "[model][gguf][files]") {
    for (const std::uint32_t version : {2u, 3u}) {
        GgufFile file = small_file();
        file.version = version;
        const std::string bytes = file.bytes();
        const Checkpoint c = read(bytes);
        CHECK(c.gguf());
        CHECK(c.path() == "x.gguf");
        CHECK(c.text("general.architecture") == "llama");
        CHECK(c.number("u8") == 200);
        CHECK(c.number("i8") == -5);
        CHECK(c.number("u16") == 60000);
        CHECK(c.number("i16") == -600);
        CHECK(c.number("u32") == 4e9);
        CHECK(c.number("i32") == -7);
        CHECK(c.number("f32") == static_cast<double>(1e-5f));
        CHECK(c.number("u64") == 1099511627776.0);
        CHECK(c.number("i64") == -1099511627776.0);
        CHECK(c.number("f64") == 0.1);
        CHECK(c.flag("yes") == true);
        CHECK(c.flag("no") == false);
        CHECK(c.texts("tokens") == std::vector<std::string>{"a", "", std::string("\xFF\0b", 3)});
        CHECK(c.count("tokens") == 3);
        CHECK(c.numbers("scores") == std::vector<double>{1.5, -2});
        CHECK(c.numbers("types") == std::vector<double>{1, 2, -3});
        CHECK(c.flags("flags") == std::vector<bool>{true, false});
        CHECK(c.count("nothing") == 0);
        CHECK(c.texts("nothing").empty());
        CHECK(c.metadata().keys().size() == 18);

        REQUIRE(c.find("matrix"));
        const Weight& w = *c.find("matrix");
        CHECK((w.type == WeightType::f32 && w.rows == 3 && w.columns == 2));
        CHECK(c.shape("matrix") == std::vector<Index>{3, 2});
        float row[2];
        read_row(w, 2, row);
        CHECK((row[0] == 5 && row[1] == 6));
        CHECK((c.find("norm")->rows == 1 && c.find("norm")->columns == 3));
        CHECK((c.find("one")->rows == 1 && c.find("one")->columns == 1));
        CHECK(c.shape("one").empty());
        CHECK((c.find("conv")->rows == 3 && c.find("conv")->columns == 2));
        CHECK(c.shape("conv") == std::vector<Index>{3, 1, 2});
        CHECK((c.find("q")->rows == 2 && c.find("q")->bytes() == 40));
        CHECK(c.names().size() == 7);
        CHECK(c.bytes() == 12 + 24 + 12 + 40 + 4);
    }
}

TEST_CASE("what a GGUF file does not have is nothing, and what cannot be used is refused when it is asked for",
          "[model][gguf][files]") {
    const std::string bytes = small_file().bytes();
    const Checkpoint c = read(bytes);
    CHECK_FALSE(c.number("general.architecture"));
    CHECK_FALSE(c.number("yes"));
    CHECK_FALSE(c.number("scores"));
    CHECK_FALSE(c.number("absent"));
    CHECK_FALSE(c.flag("u8"));
    CHECK_FALSE(c.text("u8"));
    CHECK_FALSE(c.count("u8"));
    CHECK(c.texts("scores").empty());
    CHECK(c.numbers("tokens").empty());
    CHECK(c.flags("types").empty());
    CHECK(c.find("absent") == nullptr);
    CHECK(c.has("rare"));
    CHECK(
        message_of([&] { c.find("rare"); }) ==
        "x.gguf: tensor \"rare\": has elements of type Q5_0, expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, Q5_K or "
        "Q6_K");
    CHECK(message_of([&] { c.find("empty"); }) == "x.gguf: tensor \"empty\": has no elements");
    CHECK(message_of([&] { c.shape("matrx"); }) == "x.gguf: has no tensor \"matrx\" (did you mean \"matrix\"?)");
}

TEST_CASE("faults of GGUF files are named", "[model][gguf][files]") {
    const std::string x = "x.gguf: ";
    CHECK(fault(GgufFile{}).empty());
    CHECK(fault("") == x + "the file is empty");
    CHECK(fault("GGU") == x + "is not a GGUF file: it does not begin with GGUF");
    CHECK(fault("GGML and more") == x + "is not a GGUF file: it does not begin with GGUF");
    CHECK(fault("GGUF") == x + "is cut off or damaged: the version at byte 4 needs 4 bytes, but only 0 follow");
    const auto with = [](auto change) {
        GgufFile file;
        change(file);
        return fault(file);
    };
    CHECK(with([](auto& f) { f.version = 1; }) == x + "is GGUF version 1, expected 2 or 3");
    CHECK(with([](auto& f) { f.version = 0x03000000; }) == x + "is big-endian, expected a little-endian GGUF file");
    const std::string start = "GGUF" + raw<std::uint32_t>(3);
    CHECK(fault(start + raw<std::uint64_t>(1ull << 60) + raw<std::uint64_t>(0)) ==
          x + "has 1152921504606846976 tensors, expected at most 1000000");
    CHECK(fault(start + raw<std::uint64_t>(0) + raw<std::uint64_t>(~0ull)) ==
          x + "has 18446744073709551615 keys, expected at most 1000000");
    CHECK(
        fault(start + raw<std::uint64_t>(0) + raw<std::uint64_t>(1) + raw<std::uint64_t>(~0ull) + "abc") ==
        x + "is cut off or damaged: the name of a key at byte 32 needs 18446744073709551615 bytes, but only 3 follow");
    CHECK(with([](auto& f) { f.key("a", 13, ""); }) == x + "key \"a\": has a value of kind 13, expected 0 to 12");
    CHECK(with([](auto& f) { f.list("a", 13, 0, ""); }) ==
          x + "key \"a\": is a list of values of kind 13, expected 0 to 12");
    CHECK(with([](auto& f) { f.list("a", 9, 1, raw<std::uint32_t>(9)); }) ==
          x + "key \"a\": is a list of lists, expected numbers or texts");
    CHECK(with([](auto& f) {
              f.list("a", 12, 1ull << 61, "");
          }).starts_with(x + "key \"a\": is a list of 2305843009213693952 elements, but only "));
    CHECK(with([](auto& f) {
              f.list("a", 8, 1, raw<std::uint64_t>(1000));
          }).starts_with(x + "is cut off or damaged: a text of a list at byte "));
    CHECK(with([](auto& f) { f.key("a", 0, "1"), f.key("a", 0, "2"); }) == x + "key \"a\": is given twice");
    CHECK(with([](auto& f) { f.key("general.alignment", 4, raw<std::uint32_t>(0)); }) ==
          x + "general.alignment: 0, expected a power of 2 from 8 to 1048576");
    CHECK(with([](auto& f) { f.key("general.alignment", 4, raw<std::uint32_t>(48)); }) ==
          x + "general.alignment: 48, expected a power of 2 from 8 to 1048576");
    CHECK(with([](auto& f) { f.key("general.alignment", 10, raw<std::uint64_t>(32)); }) ==
          x + "general.alignment: has kind 10, expected 4 (u32)");
    CHECK(with([](auto& f) { f.key("split.count", 2, raw<std::uint16_t>(3)); }) ==
          x + "is one of 3 parts of a model, expected the whole in one file");
    CHECK(with([](auto& f) {
              f.entry("a", {1, 1, 1, 1, 1}, 0, 0);
          }) == x + "tensor \"a\": has 5 dimensions, expected at most 4");
    CHECK(with([](auto& f) { f.entry("a", {1ull << 63}, 0, 0); }) ==
          x + "tensor \"a\": has more elements than any file");
    CHECK(with([](auto& f) {
              f.entry("a", {1ull << 32, 1ull << 32}, 0, 0);
          }) == x + "tensor \"a\": has more elements than any file");
    CHECK(with([](auto& f) { f.entry("a", {1ull << 62}, 0, 0); }) ==
          x + "tensor \"a\": has more elements than any file");
    CHECK(with([](auto& f) {
              f.entry("a", {1ull << 62, 0, 1ull << 62}, 0, 0);
          }) == x + "tensor \"a\": has more elements than any file");
    CHECK(with([](auto& f) { f.entry("a", {4}, 4, 0); }) ==
          x + "tensor \"a\": has elements of type 4, expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, Q5_K or Q6_K");
    CHECK(with([](auto& f) {
              f.entry("a", {48, 2}, 3, 0);
          }) == x + "tensor \"a\": has rows of 48 elements, expected a multiple of 32 for Q4_1");
    CHECK(with([](auto& f) { f.entry("a", {}, 12, 0); }) ==
          x + "tensor \"a\": has rows of 1 elements, expected a multiple of 256 for Q4_K");
    CHECK(with([](auto& f) { f.entry("a", {4}, 0, 3); }) ==
          x + "tensor \"a\": its data begins at 3, expected a multiple of 32");
    CHECK(with([](auto& f) { f.entry("a", {4}, 0, 0), f.data = "123456789012345"; }) ==
          x + "tensor \"a\": its data has 16 bytes from byte 0 on, but the file has 15 bytes of data");
    CHECK(with([](auto& f) { f.entry("a", {4}, 0, ~0ull - 31), f.data = std::string(16, 0); }) ==
          x + "tensor \"a\": its data has 16 bytes from byte 18446744073709551584 on, but the file has 16 bytes of "
              "data");
    CHECK(with([](auto& f) { f.entry("a", {16}, 0, 0), f.entry("b", {1}, 0, 32), f.data = std::string(64, 0); }) ==
          x + "tensor \"b\": its data begins within that of \"a\"");
    CHECK(with([](auto& f) { f.tensor("a", {1}, 0, raw(1.0f)), f.tensor("a", {1}, 0, raw(1.0f)); }) ==
          x + "tensor \"a\": the name is given twice");
}

TEST_CASE("the alignment of a GGUF file is its own", "[model][gguf][files]") {
    GgufFile file;
    file.alignment = 64;
    file.key("general.alignment", 4, raw<std::uint32_t>(64));
    file.tensor("a", {1}, 0, raw(1.0f));
    file.tensor("b", {1}, 0, raw(2.0f));
    const std::string bytes = file.bytes();
    const Checkpoint c = read(bytes);
    float value = 0;
    read_row(*c.find("b"), 0, &value);
    CHECK(value == 2);
}

TEST_CASE("a promise of many elements costs no memory", "[model][gguf][files]") {
    GgufFile file;
    file.list("a", 8, 1ull << 40, std::string(1000, '\0'));
    CHECK(fault(file).starts_with("x.gguf: key \"a\": is a list of 1099511627776 elements, but only "));
}

TEST_CASE("every cut and every changed byte of a GGUF file gives a checkpoint or an Error", "[model][gguf][files]") {
    const std::string bytes = small_file().bytes();
    const auto use = [](const std::string& changed) {
        const Checkpoint c = read(changed);
        for (const auto& key : c.metadata().keys()) c.number(key), c.text(key), c.texts(key), c.numbers(key);
        for (const auto& name : c.names()) {
            const Weight* w = nullptr;
            try {
                w = c.find(name);
            } catch (const Error&) {}
            std::vector<float> row(static_cast<std::size_t>(w ? w->columns : 0));
            for (Index i = 0; w && i < w->rows; ++i) read_row(*w, i, row.data());
        }
    };
    // Copies of their own length, so that the address sanitizer sees where they end.
    for (std::size_t n = 0; n < bytes.size(); ++n) {
        const std::string message = message_of([&] { use(bytes.substr(0, n)); });
        CHECK((message.empty() || message.starts_with("x.gguf: ")));
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        for (const int change : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
            std::string changed = bytes;
            changed[i] = static_cast<char>(changed[i] ^ change);
            const std::string message = message_of([&] { use(changed); });
            if (!message.empty() && !message.starts_with("x.gguf: ")) FAIL(message);
        }
    }
}
