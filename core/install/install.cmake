# The C interface as a shared library, and what `cmake --install` and `cpack` put where.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(version_folder ${PROJECT_BINARY_DIR}/generated/include)
configure_file(core/install/causeway_version.h.in ${version_folder}/causeway_version.h @ONLY)

# Exports the functions of causeway.h and nothing else: neither our C++ nor what it instantiates of the standard library.
file(GLOB c_sources CONFIGURE_DEPENDS core/c/*.cpp)
add_library(causeway_c SHARED ${c_sources})
add_library(causeway::c ALIAS causeway_c)
set_target_properties(causeway_c PROPERTIES OUTPUT_NAME causeway EXPORT_NAME c VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                      CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS ${PROJECT_SOURCE_DIR}/core/c/exports.map)
target_link_libraries(causeway_c PRIVATE causeway_core causeway_flags)
target_include_directories(causeway_c PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/core/c> $<BUILD_INTERFACE:${version_folder}>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# As needed: what the C interface does not call, MPI, is not loaded with it.
if(APPLE)
  target_link_options(causeway_c PRIVATE -Wl,-dead_strip_dylibs "-Wl,-exported_symbol,_causeway_*")
else()
  target_link_options(causeway_c PRIVATE -Wl,--as-needed -Wl,--version-script=${PROJECT_SOURCE_DIR}/core/c/exports.map)
endif()

if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

set(CAUSEWAY_PYTHON_DIR lib/python3/dist-packages CACHE STRING "Where the Python module is installed, below the prefix")
# What the module opens where it is installed: a library with nothing in it that needs libcauseway. What a library needs
# the loader looks for by name, and so takes the one for this processor, in glibc-hwcaps, where there is one.
if(NOT APPLE)
  set(module_folder ${PROJECT_BINARY_DIR}/generated/module)
  file(WRITE ${module_folder}/nothing.cpp "")
  add_library(causeway_module SHARED EXCLUDE_FROM_ALL ${module_folder}/nothing.cpp)
  file(RELATIVE_PATH from_module /prefix/${CAUSEWAY_PYTHON_DIR}/causeway /prefix/${CMAKE_INSTALL_LIBDIR})
  set_target_properties(causeway_module PROPERTIES OUTPUT_NAME causeway LIBRARY_OUTPUT_DIRECTORY ${module_folder} NO_SONAME ON
                        BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN;$ORIGIN/${from_module}")
  target_link_libraries(causeway_module PRIVATE causeway_c)
  target_link_options(causeway_module PRIVATE -nostdlib -Wl,--no-as-needed)
  install(TARGETS causeway_module DESTINATION ${CAUSEWAY_PYTHON_DIR}/causeway)
endif()
set_target_properties(causeway_core PROPERTIES EXPORT_NAME core)
install(TARGETS causeway_core causeway_c EXPORT causeway-targets)
install(DIRECTORY core/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/causeway/core FILES_MATCHING PATTERN *.hpp
        PATTERN c EXCLUDE PATTERN install EXCLUDE)
install(FILES core/c/causeway.h ${version_folder}/causeway_version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY core/c/python/causeway DESTINATION ${CAUSEWAY_PYTHON_DIR} FILES_MATCHING PATTERN *.py)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/causeway)
set(generated_folder ${PROJECT_BINARY_DIR}/generated/install)
configure_package_config_file(core/install/causeway-config.cmake.in ${generated_folder}/causeway-config.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${generated_folder}/causeway-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${generated_folder}/causeway-config.cmake ${generated_folder}/causeway-config-version.cmake DESTINATION ${package_folder})
install(EXPORT causeway-targets NAMESPACE causeway:: DESTINATION ${package_folder})
file(RELATIVE_PATH to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)  # so that the prefix may be moved
list(JOIN MPI_CXX_LIBRARIES " " mpi_libraries)
foreach(name causeway causeway-core)
  configure_file(core/install/${name}.pc.in ${generated_folder}/${name}.pc @ONLY)
  install(FILES ${generated_folder}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# The library for processors of a level, where it was built (./lab build package), which the loader takes on those.
foreach(level x86-64-v3 x86-64-v4)
  install(FILES ${PROJECT_BINARY_DIR}/${level}/libcauseway.so.${PROJECT_VERSION} DESTINATION ${CMAKE_INSTALL_LIBDIR}/glibc-hwcaps/${level}
          RENAME libcauseway.so.${PROJECT_VERSION_MAJOR} OPTIONAL)
endforeach()
