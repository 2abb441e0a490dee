// No line editor: lines are read plainly, and the arrow keys and Tab are those of what stands in front, such as rlwrap.
#include "lua/shell/editor/editor.hpp"

namespace causeway::lua {

std::unique_ptr<LineReader> open_line_editor(Host) { return nullptr; }

}  // namespace causeway::lua
