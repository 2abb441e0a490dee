// The entries of earlier runs, kept in a file. A file that cannot be read or written is no error; it is said once.
#pragma once

#include <string>
#include <vector>

namespace causeway::lua {

class History {
public:
    // The last entries in the file, oldest first. A file grown far beyond them is cut to them.
    std::vector<std::string> load();

    // Appends at once, so that nothing is lost however the program ends; false for a repetition of the entry before.
    bool add(const std::string& entry);

    // Once after an entry could not be written: why. Else "".
    std::string note();

private:
    std::string last_, note_;
    bool told_ = false;
};

}  // namespace causeway::lua
