#include "core/base/zip.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <zlib.h>

#include "core/base/error.hpp"
#include "core/base/little_endian.hpp"
#include "core/base/text.hpp"  // in_quotes
#include "core/base/utf8.hpp"

namespace causeway::zip {
namespace {

constexpr std::uint32_t local_mark = 0x04034b50, entry_mark = 0x02014b50, end_mark = 0x06054b50,
                        end64_mark = 0x06064b50, locator_mark = 0x07064b50;
constexpr std::uint64_t local_bytes = 30, entry_bytes = 46, end_bytes = 22, end64_bytes = 56, locator_bytes = 20;
constexpr std::uint64_t longest_comment = 0xFFFF;
constexpr std::uint64_t longest_directory = 100'000'000;  // as the header of a .safetensors file
constexpr std::uint64_t most_expansion = 1032;            // deflate: 258 bytes from two bits
constexpr std::size_t most_piece = 1u << 16;              // packed bytes that are read at once

// A little-endian number of a record.
std::uint64_t number(const unsigned char* at, std::size_t bytes) { return little_endian({at, bytes}); }

// A record's fields, written one after the other.
class Record {
public:
    Record& operator()(std::uint64_t value, std::size_t bytes) {
        for (std::size_t i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
        return *this;
    }
    std::string text;
};

template <std::size_t n>
std::array<unsigned char, n> read_record(const Source& source, std::uint64_t at) {
    std::array<unsigned char, n> out{};
    source.read(at, out);
    return out;
}

// Where the directory stands, and how many entries it says it has.
struct Directory {
    std::uint64_t at, bytes, count, limit;  // limit: where it has to have ended
};

// The end record is the last thing of a file, but for a comment whose length it says.
std::uint64_t find_end(const Source& source) {
    const std::string& name = source.name();
    const std::uint64_t size = source.size(), span = std::min(size, end_bytes + longest_comment);
    Buffer<unsigned char> tail(static_cast<Index>(span));
    source.read(size - span, {tail.data(), static_cast<std::size_t>(span)});
    if (span >= end_bytes) {
        for (std::uint64_t i = span - end_bytes + 1; i-- > 0;) {
            const unsigned char* at = tail.data() + i;
            if (number(at, 4) == end_mark && number(at + 20, 2) == span - end_bytes - i) return size - span + i;
        }
    }
    fail_as<IoError>(name, ": is cut off or not a zip archive: the record that ends one is missing");
}

Directory find_directory(const Source& source) {
    const std::string& name = source.name();
    const std::uint64_t end = find_end(source);
    const auto record = read_record<end_bytes>(source, end);
    Directory out{number(&record[16], 4), number(&record[12], 4), number(&record[10], 2), end};
    std::uint64_t disk = number(&record[4], 2), disks_count = number(&record[8], 2);
    if (out.at == 0xFFFFFFFF || out.bytes == 0xFFFFFFFF || out.count == 0xFFFF) {
        if (end < locator_bytes) fail_as<IoError>(name, ": lacks the zip64 record that its end speaks of");
        const auto locator = read_record<locator_bytes>(source, end - locator_bytes);
        const std::uint64_t at = number(&locator[8], 8);
        if (number(locator.data(), 4) != locator_mark || end - locator_bytes < end64_bytes ||
            at > end - locator_bytes - end64_bytes)
            fail_as<IoError>(name, ": lacks the zip64 record that its end speaks of");
        const auto wide = read_record<end64_bytes>(source, at);
        if (number(wide.data(), 4) != end64_mark)
            fail_as<IoError>(name, ": lacks the zip64 record that its end speaks of");
        out = {number(&wide[48], 8), number(&wide[40], 8), number(&wide[32], 8), at};
        disk = number(&wide[16], 4), disks_count = number(&wide[24], 8);
    }
    if (disk != 0 || disks_count != out.count)
        fail_as<IoError>(name, ": is one of several disks of an archive, expected the whole archive");
    if (out.at > out.limit || out.bytes > out.limit - out.at)
        fail_as<IoError>(name, ": says that its directory has ", out.bytes, " bytes from byte ", out.at,
                         " on, but it has to end before byte ", out.limit);
    if (out.bytes > longest_directory)
        fail_as<IoError>(name, ": has a directory of ", out.bytes, " bytes, expected at most ", longest_directory);
    return out;
}

// Why a name is none that a member may have; empty: it may. Nothing is ever unpacked to a file here, but a name that
// would leave its folder shows an archive that was made to do harm.
std::string fault_of(const std::string& name) {
    if (name.empty()) return "is empty";
    if (utf8_prefix(name) != name.size()) return "is not UTF-8";
    if (name.find('\0') != std::string::npos) return "has a zero byte";
    if (name.find('\\') != std::string::npos) return "has a backslash";
    if (name.front() == '/') return "begins at the root of the file system";
    if (name.back() == '/') return "is that of a folder";
    for (std::size_t at = 0; at <= name.size();) {
        const std::size_t slash = std::min(name.find('/', at), name.size());
        if (name.substr(at, slash - at) == "..") return "leads out of its folder";
        at = slash + 1;
    }
    return "";
}

// The sizes and the position that an extra field of zip64 has in place of those that are all ones.
void widen(Member& member, std::uint64_t& local, const unsigned char* extra, std::uint64_t bytes,
           const std::string& where) {
    for (std::uint64_t i = 0; bytes - i >= 4;) {
        const std::uint64_t kind = number(extra + i, 2), length = number(extra + i + 2, 2);
        if (length > bytes - i - 4) break;
        if (kind == 1) {
            std::uint64_t at = i + 4;
            const std::uint64_t end = at + length;
            for (std::uint64_t* value : {&member.size, &member.packed, &local}) {
                if (*value != 0xFFFFFFFF) continue;
                if (end - at < 8) fail_as<IoError>(where, ": its zip64 field is too short");
                *value = number(extra + at, 8), at += 8;
            }
            return;
        }
        i += 4 + length;
    }
    fail_as<IoError>(where, ": lacks the zip64 field that its sizes speak of");
}

void check_packing(const Member& member, std::uint64_t flags, std::uint64_t method, const std::string& where) {
    if ((flags & 0x41) != 0) fail_as<IoError>(where, ": is encrypted, expected a member that is not");
    if (method != 0 && method != 8)
        fail_as<IoError>(where, ": is compressed by method ", method, ", expected stored (0) or deflated (8)");
    if (method == 0 && member.size != member.packed)
        fail_as<IoError>(where, ": is stored, and has ", member.packed, " bytes where it says ", member.size);
    if (method == 8 && member.size / most_expansion > member.packed)
        fail_as<IoError>(where, ": says that ", member.packed, " bytes unpack to ", member.size,
                         ", more than deflate can");
}

// Where the bytes of a member begin: behind the header that stands before them.
std::uint64_t data_of(const Source& source, const Member& member, std::uint64_t local, std::uint64_t limit,
                      const std::string& where) {
    if (limit < local_bytes || local > limit - local_bytes)
        fail_as<IoError>(where, ": begins at byte ", local, ", where the archive has no more members");
    const auto header = read_record<local_bytes>(source, local);
    const std::uint64_t name = number(&header[26], 2), skipped = name + number(&header[28], 2);
    const std::uint64_t room = limit - local - local_bytes;
    bool same = number(header.data(), 4) == local_mark && skipped <= room && name == member.name.size();
    if (same) {
        std::string there(member.name.size(), '\0');
        source.read(local + local_bytes, {reinterpret_cast<unsigned char*>(there.data()), there.size()});
        same = there == member.name;
    }
    if (!same) fail_as<IoError>(where, ": byte ", local, ", where it should begin, has no header of that name");
    if (member.packed > room - skipped)
        fail_as<IoError>(where, ": says that it has ", member.packed, " bytes, but only ", room - skipped, " follow");
    return local + local_bytes + skipped;
}

}  // namespace

std::vector<Member> members(const Source& source) {
    const std::string& name = source.name();
    if (source.size() == 0) fail_as<IoError>(name, ": the file is empty");
    const Directory directory = find_directory(source);
    if (directory.count > directory.bytes / entry_bytes)
        fail_as<IoError>(name, ": says that it has ", directory.count, " members, more than its directory can hold");
    Buffer<unsigned char> text(static_cast<Index>(directory.bytes));
    source.read(directory.at, {text.data(), static_cast<std::size_t>(directory.bytes)});

    std::vector<Member> out;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;  // from the header of a member to the end of its bytes
    std::set<std::string> names;
    std::uint64_t at = 0;
    for (std::uint64_t i = 0; i < directory.count; ++i) {
        const unsigned char* entry = text.data() + at;
        const std::uint64_t left = directory.bytes - at;
        if (left < entry_bytes || number(entry, 4) != entry_mark)
            fail_as<IoError>(name, ": entry ", i + 1, " of its directory is damaged");
        const std::uint64_t name_bytes = number(entry + 28, 2), extra = number(entry + 30, 2);
        const std::uint64_t all = entry_bytes + name_bytes + extra + number(entry + 32, 2);
        if (all > left) fail_as<IoError>(name, ": entry ", i + 1, " of its directory is damaged");
        Member member;
        member.name.assign(reinterpret_cast<const char*>(entry + entry_bytes), name_bytes);
        const std::string where = sentence(name, ": member ", in_quotes(member.name));
        if (const std::string fault = fault_of(member.name); !fault.empty())
            fail_as<IoError>(where, ": its name ", fault, ", expected the name of a tensor");
        if (!names.insert(member.name).second) fail_as<IoError>(where, ": the name is given twice");
        member.crc = static_cast<std::uint32_t>(number(entry + 16, 4));
        member.packed = number(entry + 20, 4), member.size = number(entry + 24, 4);
        std::uint64_t local = number(entry + 42, 4);
        if (member.packed == 0xFFFFFFFF || member.size == 0xFFFFFFFF || local == 0xFFFFFFFF)
            widen(member, local, entry + entry_bytes + name_bytes, extra, where);
        member.deflated = number(entry + 10, 2) == 8;
        check_packing(member, number(entry + 8, 2), number(entry + 10, 2), where);
        member.at = data_of(source, member, local, directory.at, where);
        taken.emplace_back(local, member.at + member.packed);
        out.push_back(std::move(member));
        at += all;
    }
    if (at != directory.bytes) fail_as<IoError>(name, ": has ", directory.bytes - at, " bytes behind its directory");
    // Members that share their bytes are how a small file unpacks to more than deflate makes of it.
    std::sort(taken.begin(), taken.end());
    for (std::size_t i = 1; i < taken.size(); ++i)
        if (taken[i].first < taken[i - 1].second)
            fail_as<IoError>(name, ": the member that begins at byte ", taken[i].first, " lies within another one");
    return out;
}

struct Unpacked::State {
    const Source& archive;
    Member member;
    std::uint64_t taken = 0, given = 0;  // packed bytes read, bytes handed out
    uLong crc = crc32(0, nullptr, 0);
    z_stream stream{};
    bool ended = false;
    Buffer<unsigned char> packed;

    State(const Source& from, const Member& m)
        : archive(from),
          member(m),
          packed(m.deflated ? static_cast<Index>(std::min<std::uint64_t>(m.packed, most_piece)) : 0) {
        if (m.deflated && inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        if (member.deflated) inflateEnd(&stream);
    }

    // Unpacks until `into` is full or there is no more; the bytes that came.
    std::size_t unpack(std::span<unsigned char> into, const std::string& name) {
        stream.next_out = into.data();
        stream.avail_out = static_cast<uInt>(into.size());
        while (!ended && stream.avail_out > 0) {
            if (stream.avail_in == 0 && taken < member.packed) {
                const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(most_piece, member.packed - taken));
                archive.read(member.at + taken, {packed.data(), n});
                taken += n;
                stream.next_in = packed.data(), stream.avail_in = static_cast<uInt>(n);
            }
            const int status = inflate(&stream, Z_NO_FLUSH);
            ended = status == Z_STREAM_END;
            if (status == Z_MEM_ERROR) throw std::bad_alloc();
            if (status == Z_BUF_ERROR) break;  // no packed bytes are left
            if (!ended && status != Z_OK) fail_as<IoError>(name, ": its packed bytes are damaged");
        }
        return into.size() - stream.avail_out;
    }
};

Unpacked::Unpacked(const Source& archive, const Member& member, std::string name)
    : Source(std::move(name), member.size), state_(std::make_unique<State>(archive, member)) {}

Unpacked::~Unpacked() = default;

void Unpacked::read(std::uint64_t offset, std::span<unsigned char> into) const {
    check_range(offset, into.size());
    State& s = *state_;
    if (offset != s.given) fail_as<IoError>(name(), ": is read from front to back, expected byte ", s.given);
    while (!into.empty()) {
        const auto piece = into.subspan(0, std::min<std::size_t>(into.size(), 16u << 20));
        if (s.member.deflated) {
            if (s.unpack(piece, name()) != piece.size())
                fail_as<IoError>(name(), ": unpacks to less than the ", size(), " bytes that it says");
        } else {
            s.archive.read(s.member.at + s.given, piece);
        }
        s.crc = crc32(s.crc, piece.data(), static_cast<uInt>(piece.size()));
        s.given += piece.size();
        into = into.subspan(piece.size());
    }
}

void Unpacked::finish() const {
    State& s = *state_;
    if (s.member.deflated) {
        unsigned char more = 0;
        if (!s.ended && s.unpack({&more, 1}, name()) != 0)
            fail_as<IoError>(name(), ": unpacks to more than the ", size(), " bytes that it says");
        if (!s.ended || s.taken < s.member.packed || s.stream.avail_in > 0)
            fail_as<IoError>(name(), ": its packed bytes are damaged");
    }
    if (s.crc != s.member.crc) fail_as<IoError>(name(), ": is damaged: its bytes do not have the checksum it says");
}

Archive::Archive(const std::string& path, std::uint64_t zip64_from)
    : out_(path), path_(path), zip64_from_(zip64_from) {}

void Archive::add(const std::string& name, std::initializer_list<Bytes> pieces) {
    const std::string fault = name.size() > 0xFFFF ? "is longer than 65535 bytes" : fault_of(name);
    if (!fault.empty()) fail(path_, ": the name ", in_quotes(name), " ", fault, ", expected the name of a tensor");
    std::uint64_t size = 0;
    uLong crc = crc32(0, nullptr, 0);
    for (const Bytes& piece : pieces) {
        size += piece.size();
        crc = crc32_z(crc, piece.data(), piece.size());
    }
    const bool wide = size >= zip64_from_, far = at_ >= zip64_from_;
    const std::uint64_t version = wide || far ? 45 : 20, utf8 = 0x800, first_day = 1 << 5 | 1;  // 1 January 1980
    const auto shared = [&](Record& r) {  // the fields that the header and the directory have alike
        r(version, 2)(utf8, 2)(0, 2)(0, 2)(first_day, 2)(crc, 4);
        r(wide ? 0xFFFFFFFF : size, 4)(wide ? 0xFFFFFFFF : size, 4)(name.size(), 2);
    };
    Record header, entry, extra;
    header(local_mark, 4);
    shared(header);
    if (wide) extra(1, 2)(16, 2)(size, 8)(size, 8);
    header(extra.text.size(), 2);
    out_.write(header.text + name + extra.text);
    for (const Bytes& piece : pieces) out_.write(piece);

    entry(entry_mark, 4)(version | 3 << 8, 2);  // made on Unix
    shared(entry);
    if (far) {
        extra.text.clear();
        extra(1, 2)(wide ? 24 : 8, 2);
        if (wide) extra(size, 8)(size, 8);
        extra(at_, 8);
    }
    entry(extra.text.size(), 2)(0, 2)(0, 2)(0, 2)(std::uint64_t{0600} << 16, 4)(far ? 0xFFFFFFFF : at_, 4);
    directory_ += entry.text + name + extra.text;
    at_ += header.text.size() + name.size() + (wide ? 20 : 0) + size;
    ++count_;
}

void Archive::commit() {
    const std::uint64_t bytes = directory_.size();
    Record end;
    if (at_ >= zip64_from_ || bytes >= zip64_from_ || count_ >= 0xFFFF) {
        end(end64_mark, 4)(end64_bytes - 12, 8)(45 | 3 << 8, 2)(45, 2)(0, 4)(0, 4)(count_, 8)(count_, 8)(bytes, 8)(at_,
                                                                                                                   8);
        end(locator_mark, 4)(0, 4)(at_ + bytes, 8)(1, 4);
        end(end_mark, 4)(0, 2)(0, 2)(0xFFFF, 2)(0xFFFF, 2)(0xFFFFFFFF, 4)(0xFFFFFFFF, 4)(0, 2);
    } else {
        end(end_mark, 4)(0, 2)(0, 2)(count_, 2)(count_, 2)(bytes, 4)(at_, 4)(0, 2);
    }
    out_.write(directory_ + end.text);
    out_.commit();
}

}  // namespace causeway::zip
