# The program and its manual page, and the Debian package of everything that is installed.
set(manual_page ${PROJECT_BINARY_DIR}/generated/causeway.1)
add_custom_command(
  OUTPUT ${manual_page}
  COMMAND causeway ${PROJECT_SOURCE_DIR}/lua/install/manual_page.lua $<TARGET_FILE:causeway> ${manual_page}
  DEPENDS causeway lua/install/manual_page.lua
  VERBATIM)
# Everything that is installed: `./lab build package` makes it, and a package of it.
add_custom_target(installed DEPENDS ${manual_page} causeway causeway_c)

if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

install(TARGETS causeway)
if(TARGET causeway-kernel)
  install(TARGETS causeway-kernel)
  add_dependencies(installed causeway-kernel)
  set(CAUSEWAY causeway)  # the program that the specification names, found by PATH
  configure_file(lua/notebook/kernel.json ${PROJECT_BINARY_DIR}/generated/kernel.json @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/generated/kernel.json DESTINATION ${CMAKE_INSTALL_DATADIR}/jupyter/kernels/causeway)
endif()
install(FILES ${manual_page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

# The terms of everything that is installed. The line editor decides on those of the programs.
set(terms_readline "The programs causeway and causeway-kernel link GNU Readline: passed on, they are under the GNU General Public License,
version 3 or later. The libraries and the Python module do not link it.")
set(terms_libedit "The programs causeway and causeway-kernel link libedit, https://thrysoee.dk/editline, a library of its own under the
3-clause BSD licence. Nothing here is under the GNU General Public License.")
set(terms_none "Nothing here is under the GNU General Public License.")
file(READ LICENSE licence)
file(READ core/install/NOTICE notice)
file(WRITE ${PROJECT_BINARY_DIR}/generated/copyright "${licence}\n${terms_${CAUSEWAY_EDITOR}}\n\n${notice}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS LICENSE core/install/NOTICE)
install(FILES ${PROJECT_BINARY_DIR}/generated/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME causeway)
set(CPACK_PACKAGE_CONTACT "The causeway authors <causeway@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGE_DESCRIPTION "Exact causal attention in linear time, gated and delta rules, softmax attention,
 low-rank factors, their gradients and language models: a Lua shell, a library for C, C++ and Python.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION math)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gnuplot-nox, python3-numpy")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libeigen3-dev, libpcre2-dev, libutf8proc-dev, zlib1g-dev")
include(CPack)
