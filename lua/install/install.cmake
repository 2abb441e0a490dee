# The program and its manual page, and the Debian package of everything that is installed.
set(manual_page ${PROJECT_BINARY_DIR}/generated/causeway.1)
add_custom_command(
  OUTPUT ${manual_page} ${manual_page}.gz
  COMMAND causeway ${PROJECT_SOURCE_DIR}/lua/install/manual_page.lua $<TARGET_FILE:causeway> ${manual_page}
  COMMAND gzip -9nkf ${manual_page}
  DEPENDS causeway lua/install/manual_page.lua
  VERBATIM)
# Everything that is installed: `./lab build package` makes it, and a package of it.
add_custom_target(installed DEPENDS ${manual_page} causeway causeway_c)
if(TARGET causeway_module)
  add_dependencies(installed causeway_module)
endif()
if(CAUSEWAY_HAS_GPU)
  add_dependencies(installed causeway_c_gpu)
endif()

if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

install(TARGETS causeway)
if(TARGET causeway-kernel)
  install(TARGETS causeway-kernel)
  file(WRITE ${PROJECT_BINARY_DIR}/generated/causeway-kernel.1 ".so man1/causeway.1\n")
  execute_process(COMMAND gzip -9nf ${PROJECT_BINARY_DIR}/generated/causeway-kernel.1)
  install(FILES ${PROJECT_BINARY_DIR}/generated/causeway-kernel.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  add_dependencies(installed causeway-kernel)
  set(CAUSEWAY causeway)  # the program that the specification names, found by PATH
  configure_file(lua/notebook/kernel.json ${PROJECT_BINARY_DIR}/generated/kernel.json @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/generated/kernel.json DESTINATION ${CMAKE_INSTALL_DATADIR}/jupyter/kernels/causeway)
endif()
# Those for processors of a level, where they were built (./lab build package): lua/start goes on as one of them.
foreach(level x86-64-v3 x86-64-v4)
  install(PROGRAMS ${PROJECT_BINARY_DIR}/${level}/causeway ${PROJECT_BINARY_DIR}/${level}/causeway-kernel
          DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/causeway/${level} OPTIONAL)
endforeach()
install(FILES ${manual_page}.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
# The manual as pages, where it was built (./lab build manual).
install(DIRECTORY ${PROJECT_BINARY_DIR}/manual/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/html OPTIONAL)

# The terms of everything that is installed. The line editor decides on those of the programs.
set(terms_readline "The programs causeway and causeway-kernel link GNU Readline: passed on, they are under the GNU General Public License,
version 3 or later. The libraries and the Python module do not link it.")
set(terms_libedit "The programs causeway and causeway-kernel link libedit, https://thrysoee.dk/editline, a library of its own under the
3-clause BSD licence, which leaves them under the terms above.")
set(terms_none "The programs causeway and causeway-kernel link no line editor.")
file(READ LICENSE licence)
file(READ core/install/NOTICE notice)
file(WRITE ${PROJECT_BINARY_DIR}/generated/copyright "${licence}\n${terms_${CAUSEWAY_EDITOR}}\n\n${notice}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS LICENSE core/install/NOTICE)
install(FILES ${PROJECT_BINARY_DIR}/generated/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})

# What a Debian package has besides: what changed in it and in what it is made of, where the manual begins, and what lintian
# need not say. Whoever passes it on says who they are by Debian's own variables.
if("$ENV{DEBEMAIL}" STREQUAL "")
  set(contact "The causeway authors <causeway@localhost>")
else()
  set(contact "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(debian_folder ${PROJECT_BINARY_DIR}/generated/debian)
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(CHANGELOG.md ${debian_folder}/doc/changelog COPYONLY)
configure_file(lua/install/changelog.Debian.in ${debian_folder}/doc/changelog.Debian @ONLY)
execute_process(COMMAND gzip -9nf ${debian_folder}/doc/changelog ${debian_folder}/doc/changelog.Debian)
configure_file(lua/install/doc-base.in ${debian_folder}/doc-base/causeway @ONLY)
configure_file(lua/install/lintian-overrides ${debian_folder}/overrides/causeway COPYONLY)
file(WRITE ${debian_folder}/triggers "activate-noawait ldconfig\n")
# CPack itself writes a line for each of the library's files, which differ in the processor that they are for.
file(WRITE ${debian_folder}/shlibs "libcauseway ${PROJECT_VERSION_MAJOR} causeway (= ${PROJECT_VERSION}-1)\n")
file(CHMOD ${debian_folder}/triggers ${debian_folder}/shlibs PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
configure_file(lua/install/prerm ${debian_folder}/prerm COPYONLY FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
               GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME causeway)
set(CPACK_PACKAGE_CONTACT ${contact})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "laboratory for causal attention in linear time")
set(CPACK_PACKAGE_DESCRIPTION "Exact causal attention in linear time, gated and delta rules, softmax
attention, low-rank factors, their gradients and language models: a Lua
shell, a kernel for Jupyter, libraries for C and C++, a Python module, and
the manual.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALLED_DIRECTORIES ${debian_folder}/doc usr/share/doc/causeway ${debian_folder}/doc-base usr/share/doc-base
    ${debian_folder}/overrides usr/share/lintian/overrides)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION math)
set(CPACK_DEBIAN_PACKAGE_DEPENDS python3)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${debian_folder}/triggers ${debian_folder}/shlibs ${debian_folder}/prerm)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gnuplot-nox, python3-numpy")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libeigen3-dev, libpcre2-dev, libutf8proc-dev, zlib1g-dev")
include(CPack)
