# GPU code: LION_CUDA_FOUND, and the language CUDA where it is ON. Included once, by the top CMakeLists.txt. Who has no nvcc
# notices nothing.
set(LION_CUDA AUTO CACHE STRING "GPU kernels: ON, OFF or AUTO (where an nvcc works, and without sanitizers)")
set(LION_CUDA_ARCHITECTURES "" CACHE STRING "For example 90; empty: those of 80, 86, 89, 90, 100 and 120 that nvcc knows")

set(LION_CUDA_FOUND OFF)
if(NOT LION_CUDA MATCHES "^(ON|OFF|AUTO)$")
  message(FATAL_ERROR "LION_CUDA is '${LION_CUDA}', expected ON, OFF or AUTO")
elseif(LION_CUDA STREQUAL "OFF" OR (LION_CUDA STREQUAL "AUTO" AND LION_SANITIZE))
  return()
endif()

find_program(LION_NVCC nvcc PATHS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
mark_as_advanced(LION_NVCC)
if(NOT LION_NVCC)
  if(LION_CUDA STREQUAL "ON")
    message(FATAL_ERROR "LION_CUDA is ON and there is no nvcc: neither in PATH, $CUDA_HOME/bin nor /usr/local/cuda/bin. "
      "-DLION_NVCC=/path/to/nvcc names one.")
  endif()
  return()
endif()

# A toolkit that does not get on with this machine's compiler must not end the configuration of those who did not ask for it.
if(NOT LION_CUDA_WORKS STREQUAL LION_NVCC)
  set(probe "${CMAKE_BINARY_DIR}/CMakeFiles/cuda_probe")
  file(WRITE "${probe}.cu" "#include <concepts>\n__global__ void Kernel() {}\nint main() { Kernel<<<1, 1>>>(); }\n")
  execute_process(COMMAND "${LION_NVCC}" -std=c++20 -arch=compute_80 "${probe}.cu" -o "${probe}"
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    if(LION_CUDA STREQUAL "ON")
      message(FATAL_ERROR "LION_CUDA is ON and ${LION_NVCC} compiles no program in C++20 (CUDA Toolkit 12.4 and later do, "
        "with a host compiler that they support):\n${output}")
    endif()
    return()
  endif()
  set(LION_CUDA_WORKS "${LION_NVCC}" CACHE INTERNAL "The nvcc that has compiled a program")
endif()

set(CMAKE_CUDA_COMPILER "${LION_NVCC}")
if(LION_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "${LION_CUDA_ARCHITECTURES}")
else()
  # 12.4 has neither 100 nor 120, which came with 12.8. The last one's PTX serves what comes later.
  execute_process(COMMAND "${LION_NVCC}" --list-gpu-arch OUTPUT_VARIABLE known)
  set(CMAKE_CUDA_ARCHITECTURES "")
  foreach(architecture 80 86 89 90 100 120)
    if(known MATCHES "compute_${architecture}\n")
      list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-real)
    endif()
  endforeach()
  list(POP_BACK CMAKE_CUDA_ARCHITECTURES last)
  string(REPLACE "-real" "" last "${last}")
  list(APPEND CMAKE_CUDA_ARCHITECTURES ${last})
endif()
if(LION_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${LION_CCACHE}")
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
endif()
set(LION_CUDA_FOUND ON)
