#include "core/base/build_id.hpp"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

namespace causeway {
namespace {

// The note of type NT_GNU_BUILD_ID among the notes of the main program, which dl_iterate_phdr visits first.
int find_build_id(dl_phdr_info* info, std::size_t, void* out) {
    auto& id = *static_cast<std::string*>(out);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& segment = info->dlpi_phdr[i];
        if (segment.p_type != PT_NOTE) continue;
        const auto* at = reinterpret_cast<const unsigned char*>(info->dlpi_addr + segment.p_vaddr);
        const auto* end = at + segment.p_memsz;
        while (at + sizeof(ElfW(Nhdr)) <= end) {
            ElfW(Nhdr) note;
            std::memcpy(&note, at, sizeof note);
            const auto* name = at + sizeof note;
            const auto* bytes = name + (note.n_namesz + 3u) / 4u * 4u;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
                for (std::uint32_t k = 0; k < note.n_descsz; ++k) {
                    constexpr char digits[] = "0123456789abcdef";
                    id += digits[bytes[k] >> 4];
                    id += digits[bytes[k] & 15];
                }
                return 1;
            }
            at = bytes + (note.n_descsz + 3u) / 4u * 4u;
        }
    }
    return 1;  // the main program only
}

}  // namespace

const std::string& build_id() {
    static const auto& id = *new std::string([] {
        std::string found;
        dl_iterate_phdr(find_build_id, &found);
        return found.empty() ? std::string(CAUSEWAY_VERSION) : found;
    }());
    return id;
}

}  // namespace causeway
