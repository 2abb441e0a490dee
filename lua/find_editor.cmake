# Sets the target causeway_editor: the line editor of the shell, one of those in lua/shell/editor, and editor_library, which a
# program with it links. Apart from the rest of the shell, which is not compiled anew for another one.
set(editors readline libedit none)
if(NOT CAUSEWAY_EDITOR IN_LIST editors)
  message(FATAL_ERROR "CAUSEWAY_EDITOR: expected readline, libedit or none, got \"${CAUSEWAY_EDITOR}\"")
endif()
set(editor_library)
if(NOT CAUSEWAY_EDITOR STREQUAL none)
  pkg_search_module(EDITOR_${CAUSEWAY_EDITOR} REQUIRED IMPORTED_TARGET ${CAUSEWAY_EDITOR})
  set(editor_library PkgConfig::EDITOR_${CAUSEWAY_EDITOR})
endif()
add_library(causeway_editor OBJECT lua/shell/editor/apart.cpp lua/shell/editor/editor.cpp lua/shell/editor/tab.cpp lua/shell/editor/terminal.cpp
            lua/shell/editor/${CAUSEWAY_EDITOR}.cpp)
target_link_libraries(causeway_editor PRIVATE causeway_flags ${editor_library})
target_include_directories(causeway_editor PRIVATE ${PROJECT_SOURCE_DIR})
