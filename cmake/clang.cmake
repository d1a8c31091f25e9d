# Toolchain of the sanitizer presets: clang, whose AddressSanitizer brings libFuzzer and whose -Wthread-safety checks the
# lock annotations. Debian installs it under versioned names only (clang++-14): the oldest that is there, 14 or later,
# unless -DLION_CLANG=NAME_OR_PATH says which.
set(LION_CLANG "" CACHE STRING "The clang++ of the sanitizer presets; empty: clang++-14 or later")

list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LION_CLANG)

if(NOT CMAKE_CXX_COMPILER)
  set(names ${LION_CLANG})
  if(NOT names)
    foreach(version RANGE 14 24)
      list(APPEND names clang++-${version})
    endforeach()
    list(APPEND names clang++)
  endif()
  find_program(LION_CLANG_FOUND NAMES ${names} NO_CACHE)
  if(NOT LION_CLANG_FOUND)
    list(JOIN names " " names)
    message(FATAL_ERROR "This preset needs clang++ with its sanitizers, and none is there: looked for ${names}. "
      "scripts/setup.sh sanitize installs it (Debian 12: clang-14 libclang-rt-14-dev; Debian 13: clang-19 "
      "libclang-rt-19-dev); -DLION_CLANG=/path/to/clang++ names one.")
  endif()
  set(CMAKE_CXX_COMPILER "${LION_CLANG_FOUND}")
  string(REGEX REPLACE "clang\\+\\+([^/]*)$" "clang\\1" CMAKE_C_COMPILER "${LION_CLANG_FOUND}")
endif()
