# Whether LION_CUDA asks for GPU code and nvcc can compile it: LION_CUDA_FOUND, and the cache variables that
# enable_language(CUDA) looks at.
set(LION_CUDA_FOUND OFF)
if(LION_CUDA STREQUAL "OFF" OR (LION_CUDA STREQUAL "AUTO" AND LION_SANITIZE))
  return()
elseif(NOT LION_CUDA MATCHES "^(ON|AUTO)$")
  message(FATAL_ERROR "LION_CUDA is '${LION_CUDA}', expected ON, OFF or AUTO")
endif()

if(NOT CMAKE_CUDA_COMPILER)
  find_program(LION_NVCC nvcc PATHS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT LION_NVCC)
    if(LION_CUDA STREQUAL "ON")
      message(FATAL_ERROR "LION_CUDA is ON and there is no nvcc: neither in PATH nor in /usr/local/cuda/bin. "
        "-DCMAKE_CUDA_COMPILER=/path/to/nvcc names one.")
    endif()
    return()
  endif()
  set(CMAKE_CUDA_COMPILER "${LION_NVCC}" CACHE FILEPATH "nvcc")
endif()

if(LION_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "${LION_CUDA_ARCHITECTURES}")
else()
  # What the toolkit cannot do is left out (12.4 has no 100 and 120, which came with 12.8).
  execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  set(CMAKE_CUDA_ARCHITECTURES "")
  foreach(architecture 80 86 89 90 100 120)
    if(known MATCHES "compute_${architecture}\n")
      list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture})
    endif()
  endforeach()
endif()
# A launcher, as for C++: ccache knows nvcc.
if(LION_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${LION_CCACHE}")
endif()
set(LION_CUDA_FOUND ON)
