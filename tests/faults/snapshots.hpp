// Copies of the process, made by fork() where a call stands that is to be refused: a copy goes on from there with that
// call refused, says what it finds in memory that both see, and ends; the process itself goes on behind it with nothing
// refused. What comes before a call so runs once for all cases together, not once for each.
#pragma once

#include <string>
#include <vector>

#include "tests/faults/children.hpp"

namespace causeway::faults {

// The call to refuse, counted from 1 (0: none), and whether all later ones are refused too.
struct Place {
    long at;
    bool lasting;
};

std::string text_of(const Place& place);

// Places in order, and which of them have been tried.
struct Places {
    explicit Places(std::vector<Place> list) : all(std::move(list)), tried(all.size(), 0) {}
    std::vector<Place> all;
    std::vector<char> tried;
};

// True in a copy of this process, whose folder is a copy of this one's; false in this process, when the copy has ended:
// the case is counted then, and where the copy died that is a fault.
bool in_copy(const Place& place, Report& report);

// From now on look() tries, each in a copy, those of the places at which a copy can be made: the copy has this thread
// alone, so nothing may be held or half done by another one, and it shares open files with this process. The others
// are left untried.
void watch(Places& places, Report& report);
void look(long number) noexcept;

// Where look() made this process as a copy, the place that is refused in it; else null.
const Place* place_of_copy();

// Files and pipes that this process has open.
int open_descriptors();

}  // namespace causeway::faults
