// Small files in which the system tells numbers, of /proc and /sys. They are read without any memory: what they say
// decides whether there is some.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

namespace causeway {

// The first kilobyte of a file; empty where it cannot be read.
class SystemFile {
public:
    explicit SystemFile(const char* path) noexcept {
        const int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0) return;
        const ssize_t bytes = read(file, bytes_.data(), bytes_.size());
        close(file);
        if (bytes > 0) size_ = static_cast<std::size_t>(bytes);
    }

    std::string_view text() const noexcept { return {bytes_.data(), size_}; }

    // The whole number behind the first place of `key` and blanks; of the beginning where there is no key.
    std::optional<std::size_t> number(std::string_view key = {}) const noexcept {
        const std::size_t at = text().find(key);
        if (at == std::string_view::npos) return std::nullopt;
        std::string_view rest = text().substr(at + key.size());
        rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
        std::size_t value = 0;
        if (std::from_chars(rest.data(), rest.data() + rest.size(), value).ec != std::errc{}) return std::nullopt;
        return value;
    }

private:
    std::array<char, 1024> bytes_;
    std::size_t size_ = 0;
};

}  // namespace causeway
