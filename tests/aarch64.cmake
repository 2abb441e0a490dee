# Builds for aarch64 (Grace, Graviton, Apple) on a processor of another kind, and runs what it built under qemu-user:
#
#   cmake -S . -B build-aarch64 -DCMAKE_TOOLCHAIN_FILE=tests/aarch64.cmake -DCAUSEWAY_AARCH64_ROOT=FOLDER
#
# FOLDER has the libraries of such a system, as ./lab test --aarch64 unpacks them.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CAUSEWAY_AARCH64_ROOT "" CACHE PATH "Folder of an aarch64 system's libraries and headers")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CAUSEWAY_AARCH64_ROOT)
set(CMAKE_SYSROOT ${CAUSEWAY_AARCH64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CAUSEWAY_AARCH64_ROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CAUSEWAY_AARCH64_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CAUSEWAY_AARCH64_ROOT}/usr/share/pkgconfig)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${CAUSEWAY_AARCH64_ROOT})
set(CMAKE_DISABLE_FIND_PACKAGE_MPI ON)  # this machine's mpicxx compiles for this machine
set(CAUSEWAY_ARCH armv8-a CACHE STRING "Processor to build for")
