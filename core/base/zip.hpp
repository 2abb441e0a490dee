// Zip archives as far as .npz files need them: members stored or deflated, with zip64; no encryption, no several disks.
// What a member holds is read as a Source, from front to back, so that nothing is unpacked before its reader asks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file.hpp"

namespace causeway::zip {

struct Member {
    std::string name;
    std::uint64_t size = 0, packed = 0;  // bytes of it, and those that the archive holds of it
    std::uint64_t at = 0;                // where those begin
    std::uint32_t crc = 0;
    bool deflated = false;
};

// The members in the order of the archive's directory. Throws Error, naming the source and the fault, for what is no
// whole archive: cut off, sizes that the file cannot hold or that deflate cannot reach, members that overlap, a name
// given twice, encrypted members, another compression, and names that are no plain relative path in UTF-8.
std::vector<Member> members(const Source& source);

// A member's bytes; `name` is what messages call it. It is read from front to back, each byte at most once.
class Unpacked : public Source {
public:
    Unpacked(const Source& archive, const Member& member, std::string name);
    ~Unpacked() override;

    void read(std::uint64_t offset, std::span<unsigned char> into) const override;

    // Call when all has been read. Throws Error where the bytes are not those that the archive promises.
    void finish() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

// Writes an archive of stored members. The same members give the same bytes: no time of day is kept.
class Archive {
public:
    // Sizes and positions from zip64_from on take eight bytes, as they must from 2^32 - 1 on; tests lower it.
    explicit Archive(const std::string& path, std::uint64_t zip64_from = 0xFFFFFFFF);

    // A member made of these pieces, one behind the other. Throws Error for a name that members() would refuse.
    void add(const std::string& name, std::initializer_list<Bytes> pieces);
    void commit();

private:
    Writer out_;
    std::string path_, directory_;
    std::uint64_t zip64_from_, at_ = 0, count_ = 0;
};

}  // namespace causeway::zip
