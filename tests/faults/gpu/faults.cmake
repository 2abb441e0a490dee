# Refuses calls of CUDA, cuBLAS and NCCL. Functions of the program's own stand in the places of all that the library
# calls: the sanitizers have theirs there too.
if(CAUSEWAY_SANITIZE)
  return()
endif()
set(fault_lists ${PROJECT_BINARY_DIR}/generated/gpu_faults)
file(MAKE_DIRECTORY ${fault_lists})
file(GLOB gpu_fault_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
if(NCCL_INCLUDE)
  set(with_nccl ON)
endif()
add_custom_command(
  OUTPUT ${fault_lists}/calls.inc ${fault_lists}/wrap.txt
  COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} -DLIBRARY=$<TARGET_FILE:causeway_gpu> -DSOURCES=${PROJECT_SOURCE_DIR}/gpu -DNCCL=${with_nccl}
          -DOUT=${fault_lists} -P ${CMAKE_CURRENT_LIST_DIR}/calls.cmake
  DEPENDS causeway_gpu ${CMAKE_CURRENT_LIST_DIR}/calls.cmake
  VERBATIM)
add_executable(causeway-gpu-faults ${gpu_fault_sources} ${fault_lists}/calls.inc ${fault_lists}/wrap.txt)
target_link_libraries(causeway-gpu-faults PRIVATE causeway_gpu causeway_flags)
target_include_directories(causeway-gpu-faults PRIVATE ${fault_lists})
target_compile_definitions(causeway-gpu-faults PRIVATE $<$<BOOL:${with_nccl}>:CAUSEWAY_NCCL>)
target_compile_options(causeway-gpu-faults PRIVATE "$<$<CONFIG:Release>:-O1>")
target_link_options(causeway-gpu-faults PRIVATE @${fault_lists}/wrap.txt)
set_target_properties(causeway-gpu-faults PROPERTIES LINK_DEPENDS ${fault_lists}/wrap.txt)
add_dependencies(causeway-tests causeway-gpu-faults)
