# The tests of the GPU with one GPU that counts as several: causeway-gpu-tests-on-one "[sharded],[nccl]~*never sent*". The test
# that is left out waits for a message which never comes; here it would wait for its time limit.
add_executable(causeway-gpu-tests-on-one EXCLUDE_FROM_ALL main.cpp paths.cpp proofs/claims.cpp ${CMAKE_CURRENT_LIST_DIR}/devices.cpp
  ${CMAKE_CURRENT_LIST_DIR}/messages.cpp)
target_link_libraries(causeway-gpu-tests-on-one PRIVATE gpu-test-objects causeway_flags)
foreach(name cudaGetDeviceCount cudaGetDevice cudaSetDevice cudaDeviceGetAttribute cudaDeviceGetDefaultMemPool cudaGetDeviceProperties
    cudaMemcpyPeerAsync cudaMemcpy3DPeerAsync dlopen dlsym)
  target_link_options(causeway-gpu-tests-on-one PRIVATE -Wl,--wrap=${name})
endforeach()
