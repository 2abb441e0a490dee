# Writes the files FILES, of Lua and of what it reads, (comma separated, relative to ROOT) into the C++ file OUT as string literals.
string(REPLACE "," ";" FILES "${FILES}")
set(text "// Made from the .lua files; see lua/embed.cmake.\n#include \"lua/shell/embedded.hpp\"\n\nnamespace causeway::lua {\n\nconst EmbeddedFile embedded_files[] = {\n")
foreach(file ${FILES})
  file(READ ${ROOT}/${file} code)
  string(APPEND text "    {\"${file}\", R\"__lua__(${code})__lua__\"},\n")
endforeach()
string(APPEND text "    {nullptr, nullptr},\n};\n\n}  // namespace causeway::lua\n")
file(WRITE ${OUT} "${text}")
