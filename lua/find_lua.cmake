# Sets the target causeway_lua_language: Lua 5.4 compiled as C++.
#
# The bindings are C++, and an error of Lua goes through their frames. Lua compiled as C++ throws it as an exception, which
# runs their destructors; the ordinary C build jumps over them with longjmp, which leaks what they hold and is undefined in
# C++. So a C build is never taken, whatever its name (lua, lua5.4, lua54): Debian, Ubuntu and Alpine have the C++ one, and
# where there is none (Fedora, Homebrew, conda) Lua's own sources, 30 files of C, are compiled here: those in
# CAUSEWAY_LUA_SOURCE, or else fetched from lua.org.
set(CAUSEWAY_LUA_SOURCE "" CACHE PATH "Folder of Lua 5.4's sources, to compile as C++ where the system has no such Lua")

add_library(causeway_lua_language INTERFACE)
if(NOT CAUSEWAY_LUA_SOURCE)
  pkg_search_module(LUA IMPORTED_TARGET lua5.4-c++ lua-5.4-c++ lua5.4-cpp lua-c++>=5.4 lua-cpp>=5.4 lua++>=5.4)
endif()
if(TARGET PkgConfig::LUA)
  target_link_libraries(causeway_lua_language INTERFACE PkgConfig::LUA)
  return()
endif()

if(CAUSEWAY_LUA_SOURCE)
  set(lua_folder ${CAUSEWAY_LUA_SOURCE})
else()
  message(STATUS "No Lua 5.4 that is compiled as C++ was found: its sources are fetched")
  include(FetchContent)
  set(FETCHCONTENT_QUIET ON)
  FetchContent_Declare(lua_sources URL https://www.lua.org/ftp/lua-5.4.6.tar.gz
    URL_HASH SHA256=7d5ea1b9cb6aa0b59ca3dde1c6adcb57ef83a1ba8e5432c0ecd06bf439b3ad88)
  FetchContent_MakeAvailable(lua_sources)  # it has no CMakeLists.txt: this only unpacks it
  set(lua_folder ${lua_sources_SOURCE_DIR})
endif()
if(EXISTS ${lua_folder}/src/lua.h)
  set(lua_folder ${lua_folder}/src)
endif()
if(NOT EXISTS ${lua_folder}/lua.h)
  message(FATAL_ERROR "CAUSEWAY_LUA_SOURCE: ${lua_folder} has no lua.h, expected the sources of Lua 5.4")
endif()
file(GLOB lua_language_sources ${lua_folder}/l*.c)
list(FILTER lua_language_sources EXCLUDE REGEX "/(lua|luac|ltests)\\.c$")  # programs, and Lua's own tests
add_library(causeway_lua_compiled STATIC ${lua_language_sources})
set_source_files_properties(${lua_language_sources} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-w")  # C that is also C++
target_compile_definitions(causeway_lua_compiled PRIVATE $<IF:$<PLATFORM_ID:Darwin>,LUA_USE_MACOSX,LUA_USE_LINUX>)
# Its own lua.hpp says that the functions are C's; those compiled here are C++'s.
file(WRITE ${PROJECT_BINARY_DIR}/generated/lua/lua.hpp "#include <lua.h>\n#include <lualib.h>\n#include <lauxlib.h>\n")
target_include_directories(causeway_lua_compiled SYSTEM PUBLIC ${PROJECT_BINARY_DIR}/generated/lua ${lua_folder})
target_link_libraries(causeway_lua_compiled PUBLIC ${CMAKE_DL_LIBS})
target_link_libraries(causeway_lua_language INTERFACE causeway_lua_compiled)
