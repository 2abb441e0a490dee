// The built program under mpirun.
#pragma once

#include <cstdlib>
#include <initializer_list>
#include <string>

#include "core/distributed/mpi.hpp"
#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/paths.hpp"

namespace causeway::testing {

// mpirun -n ranks causeway script, in this folder, ended after a minute; `environment` is NAME=value and a blank.
inline Output run_mpi_script(int ranks, const std::string& script, const TemporaryFolder& folder = TemporaryFolder(),
                             const std::string& environment = "", const std::string& program = program_path(),
                             const std::string& arguments = "", int seconds = 60) {
    write_bytes(folder / "script.lua", script);
    // As in a container: root, fewer cores than ranks, no reading of another process's memory. The leaks that a
    // sanitizer would report, and races inside the libraries, are Open MPI's own.
    const std::string command =
        "cd '" + folder.path() + "' && " + environment +
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none "
        "ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=ignore_noninstrumented_modules=1 timeout -k 5 " +
        std::to_string(seconds) + " mpirun --oversubscribe -n " + std::to_string(ranks) + " '" + program +
        "' script.lua " + arguments + " > out 2> err < /dev/null";
    const int status = std::system(command.c_str());
    return {shell_status(status), read_bytes(folder / "out"), read_bytes(folder / "err")};
}

// True, and said to be, where the program cannot run under MPI.
inline bool no_mpi() {
    if (!distributed::mpi_built()) {
        test::skip("tests of MPI", "MPI was not found when this was built");
        return true;
    }
    static const bool starts = std::system(
                                   "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 30 mpirun "
                                   "--oversubscribe -n 2 true > /dev/null 2>&1") == 0;
    if (!starts) {
        test::skip("tests of MPI", "there is no mpirun, or it starts no processes here");
        return true;
    }
    return false;
}

// What three ranks are told by calls that they do not make alike: the same on all of them, with these parts in it, and
// they go on. `calls`: texts, joined by "..", of told(function, arguments), in which `me` is the rank; `alive`: a call
// of all.
inline void check_told_alike(const std::string& inputs, const std::string& calls, const std::string& alive,
                             std::initializer_list<const char*> parts, const std::string& program = program_path()) {
    const TemporaryFolder folder;
    const Output output = run_mpi_script(3, inputs + R"(
      local me = mpi_rank()
      local function told(f, ...) return select(2, pcall(f, ...)) .. "; " end
      local text = )" + calls + R"(
      local file = io.open("part" .. me, "w")
      file:write(text)
      file:close()
      )" + alive + R"(
      print("goes on")
    )",
                                         folder, "", program);
    INFO(output.err);
    CHECK(output.out == "goes on\n");
    const std::string told = read_bytes(folder / "part0");
    CHECK(read_bytes(folder / "part1") == told);
    CHECK(read_bytes(folder / "part2") == told);
    INFO(told);
    for (const char* part : parts) CHECK(told.find(part) != std::string::npos);
}

}  // namespace causeway::testing
