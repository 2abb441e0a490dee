// A line editor in a process of its own. Both editors that the shell may have damage their memory behind some sequences
// of keys (docs/reliability.md) and end by it; the session has to outlive that.
#pragma once

#include <memory>

#include "lua/shell/editor/editor.hpp"

namespace causeway::lua {

// The line editor of open_line_editor() in a child of this process, which asks for what Tab offers here. A child that
// ends by itself, or does not answer some seconds after Ctrl-C, is told of and replaced: the line is lost, and what the
// editor keeps beside the history. Where no child can be started the editor is one of this process. Empty where there
// is no editor.
std::unique_ptr<LineReader> open_line_editor_apart(const Completer& completer);

}  // namespace causeway::lua
