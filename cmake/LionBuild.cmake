# Compiler settings and the helpers that define this project's targets.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# -O1 keeps sanitizer runs of numeric code within CI's time.
set(CMAKE_CXX_FLAGS_DEBUG "-g1 -O1 -fno-omit-frame-pointer")
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

find_program(LION_CCACHE ccache)
if(LION_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${LION_CCACHE}")
endif()

# Headers that most files of a target read, parsed once: a third of the time to build. ccache would have to be told to
# trust them (its manual, "precompiled headers"), so that a build through it goes without.
include(CMakeDependentOption)
cmake_dependent_option(LION_PRECOMPILE_HEADERS "Parse the headers of gRPC and GoogleTest once a target" ON
  "NOT CMAKE_CXX_COMPILER_LAUNCHER" OFF)
set(LION_RPC_HEADERS <grpcpp/grpcpp.h> <lion/v1/lion.grpc.pb.h>)
set(LION_COMMON_HEADERS <absl/status/statusor.h> <absl/strings/str_cat.h> <chrono> <filesystem> <fstream> <functional>
  <map> <memory> <optional> <string> <thread> <vector>)

if(LION_SANITIZE)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS "-fsanitize=${LION_SANITIZE}")
  check_cxx_source_compiles("int main() { return 0; }" LION_SANITIZERS_LINK)
  unset(CMAKE_REQUIRED_FLAGS)
  if(NOT LION_SANITIZERS_LINK)
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} cannot link with -fsanitize=${LION_SANITIZE}: its run-time libraries are "
      "missing. scripts/setup.sh sanitize installs clang's (libclang-rt-14-dev on Debian 12); then configure with --fresh.")
  endif()
  add_compile_options(-fsanitize=${LION_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LION_SANITIZE})
  # For tests: g++ and clang name their sanitizers differently.
  add_compile_definitions(LION_SANITIZED)
endif()

# For folders whose code does little work: half of the time to compile, which is most of a sanitizer's run, goes into
# optimising.
macro(lion_do_not_optimise_under_sanitizers)
  if(LION_SANITIZE)
    string(REPLACE "-O1" "-O0" CMAKE_CXX_FLAGS_DEBUG "${CMAKE_CXX_FLAGS_DEBUG}")
  endif()
endmacro()

set(LION_WARNINGS -Wall -Wextra -Wno-missing-field-initializers -Werror -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  list(APPEND LION_WARNINGS -Wthread-safety)
endif()

# lion_precompile_headers(TARGET HEADERS...)
function(lion_precompile_headers target)
  if(LION_PRECOMPILE_HEADERS)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# lion_library(NAME SOURCES... DEPENDS...): one library per folder of the source tree. Its headers are included as
# "NAME/header.h", and only by targets that link it: each library has an include root of its own that holds nothing but a
# link to its folder, so that an include against the direction of the arrows does not compile.
function(lion_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(lion_${name} STATIC ${ARG_SOURCES})
  set(root "${CMAKE_BINARY_DIR}/include_roots/${name}")
  file(MAKE_DIRECTORY "${root}")
  file(CREATE_LINK "${CMAKE_SOURCE_DIR}/${name}" "${root}/${name}" SYMBOLIC)
  target_include_directories(lion_${name} PUBLIC "${root}")
  target_link_libraries(lion_${name} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
  target_compile_options(lion_${name} PRIVATE ${LION_WARNINGS})
endfunction()

# lion_executable(NAME SOURCES... DEPENDS...)
function(lion_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  target_compile_options(${name} PRIVATE ${LION_WARNINGS})
endfunction()

# lion_test(NAME SOURCES... DEPENDS...): a GoogleTest program whose cases ctest lists one by one.
function(lion_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPENDS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  lion_executable(${name} SOURCES ${ARG_SOURCES} DEPENDS ${ARG_DEPENDS} lion_test_support GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  if(LION_PRECOMPILE_HEADERS)
    target_precompile_headers(${name} REUSE_FROM lion_test_headers)
    # They are for one setting of it, which libraries that use gRPC bring along.
    target_compile_options(${name} PRIVATE -pthread)
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${ARG_TIMEOUT})
endfunction()
