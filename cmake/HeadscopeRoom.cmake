# SPDX-License-Identifier: Apache-2.0
# headscope_room(<name> SOURCES ... [USES ...] [EXPOSES ...])
#
# One library target `headscope_<name>` (alias headscope::<name>) per folder. Its public headers live in <folder>/include and are
# included as <name/header.h>; everything else is private to the folder. USES lists libraries that only the sources see; EXPOSES
# lists those that the public headers mention. Because USES is linked PRIVATE, an include that crosses a wall does not compile.
include_guard()

set(HEADSCOPE_WARNINGS -Wall -Wextra -Wconversion -Wshadow)
# AUTO: with the compilers of Debian 12 and Ubuntu 24.04. It is the same for everyone who builds, whoever starts the build: a flag that only tests
# ask for would compile everything twice.
set(HEADSCOPE_WARNINGS_ARE_ERRORS ${HEADSCOPE_WERROR})
if(HEADSCOPE_WERROR STREQUAL "AUTO")
  set(HEADSCOPE_WARNINGS_ARE_ERRORS OFF)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12 AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
    set(HEADSCOPE_WARNINGS_ARE_ERRORS ON)
  endif()
endif()
if(HEADSCOPE_WARNINGS_ARE_ERRORS)
  list(APPEND HEADSCOPE_WARNINGS -Werror)
  if(HEADSCOPE_SANITIZE MATCHES "thread")
    # Behind ThreadSanitizer's calls, GCC 12 no longer sees that an empty std::optional's value is never read. Its manual advises against such errors
    # beside a sanitizer (-fsanitize); the builds without one, and AddressSanitizer's, keep them.
    list(APPEND HEADSCOPE_WARNINGS -Wno-error=maybe-uninitialized)
  endif()
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
if(HEADSCOPE_SANITIZE)
  add_compile_options(-fsanitize=${HEADSCOPE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # A sanitizer's runtime calls dlopen in the program's place, and of the program's own search paths the loader then takes only the older kind: with
  # the newer one, LibTorch's half (model/network/torch_library.h) would not be found.
  add_link_options(-fsanitize=${HEADSCOPE_SANITIZE} LINKER:--disable-new-dtags)
endif()

# headscope reads files of strangers: what they might make it overwrite ends the program instead of steering it. The sanitizers see more, and their
# own versions of the checked functions stand in the way of these.
if(NOT HEADSCOPE_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-fstack-protector-strong>"
    "$<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>")
  add_link_options(LINKER:-z,relro LINKER:-z,now)
endif()

if(HEADSCOPE_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "HEADSCOPE_FUZZERS is ON and the compiler is ${CMAKE_CXX_COMPILER_ID}: libFuzzer comes with Clang, use the preset fuzz or set CMAKE_CXX_COMPILER to clang++")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_custom_target(headscope_fuzzers)
endif()

find_program(HEADSCOPE_CCACHE ccache)
if(HEADSCOPE_CCACHE)
  # ccache takes units with a precompiled header only when it may trust that header's macros and times. A unit that it does not know it would preprocess
  # once more, to look for another one that differs in comments alone; the compiler's list of the headers that it read says what the unit depends on, too.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;CCACHE_DEPEND=1;${HEADSCOPE_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env;CCACHE_DEPEND=1;${HEADSCOPE_CCACHE}")
endif()
# GCC looks for memory that it no longer needs whenever what it uses has grown by a part, beginning at 128 MB; a tenth of its time goes into that.
# Beginning at 512 MB, most units end before it does.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>")
option(HEADSCOPE_PRECOMPILE "Precompile the large headers of other libraries, which are half of the build's time" ON)
find_program(HEADSCOPE_MOLD mold)
if(HEADSCOPE_MOLD AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1)
  add_link_options(-fuse-ld=mold)
endif()

# Our own code is compiled with all warnings; CUDA units pass them to the host compiler only where nvcc's own output is clean.
function(headscope_warnings target)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${HEADSCOPE_WARNINGS}>")
endfunction()

# For code whose own speed nobody waits for (tests, the reading of command lines, the shell around Qt's widgets): header-only libraries make
# most of such an object, and optimising them costs a third of its compile time.
function(headscope_optimise_lightly target)
  set_target_properties(${target} PROPERTIES HEADSCOPE_OPTIMISED_LIGHTLY ON)
  target_compile_options(${target} PRIVATE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>")
endfunction()

# headscope_batches(<target> <count>): compiles <count> units of the target as one. Most of what a small unit takes is the reading of headers, which is
# then done once for all of them. What is in an unnamed namespace so needs a name that is its own in the target (tests/rooms/unit_names_test.py). Units
# name what they use and compile alone all the same: HEADSCOPE_BATCHES=OFF (preset dev) does so, and clang-tidy reads them so.
option(HEADSCOPE_BATCHES "Compile several small units at once, which halves what they take from nothing and makes the next build of one slower" ON)
function(headscope_batches target count)
  if(HEADSCOPE_BATCHES)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count})
    # GCC takes a source that is included for a header, whose classes must not hold what is in an unnamed namespace; and a unit's own constants may
    # have the names of other units' variables.
    target_compile_options(${target} PRIVATE
      "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage;-Wno-shadow;-Wshadow=local>"
      "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:Clang>>:-Wno-shadow>")
  endif()
endfunction()

# headscope_precompile(<target> <header>...): headers of other libraries that most of the target's units include anyway. Units still name what
# they use, so that the target builds without it (HEADSCOPE_PRECOMPILE=OFF).
function(headscope_precompile target)
  if(HEADSCOPE_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${ARGN})
    headscope_precompiled_by_gcc(${target})
  endif()
endfunction()

# headscope_precompile_std(<target>...): the standard library's headers that a room of many small units includes again and again. They are compiled
# once for all rooms, and once for those that are optimised lightly, which a room says before.
function(headscope_precompile_std)
  if(NOT HEADSCOPE_PRECOMPILE)
    return()
  endif()
  foreach(target IN LISTS ARGN)
    get_target_property(lightly ${target} HEADSCOPE_OPTIMISED_LIGHTLY)
    set(headers headscope_std_headers)
    if(lightly)
      set(headers headscope_std_headers_lightly)
    endif()
    if(NOT TARGET ${headers})
      file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/std_headers.cpp" CONTENT "namespace headscope {}\n" @ONLY)
      add_library(${headers} STATIC "${CMAKE_BINARY_DIR}/std_headers.cpp")
      headscope_warnings(${headers})
      if(lightly)
        headscope_optimise_lightly(${headers})
      endif()
      headscope_precompile(${headers} <algorithm> <array> <cmath> <cstdint> <filesystem> <functional> <limits> <map> <memory> <optional> <span>
        <sstream> <stop_token> <string> <string_view> <utility> <vector>)
    endif()
    target_precompile_headers(${target} REUSE_FROM ${headers})
    headscope_precompiled_by_gcc(${target})
  endforeach()
endfunction()

# What GCC wants to be told of a target with a precompiled header; nothing for other compilers.
function(headscope_precompiled_by_gcc target)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>")  # wanted by ccache
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 takes "literal" + std::string for an overlapping or too long copy (GCC bugs 105651 and 105329) wherever the standard library's
    # header does not count as a system's, as in a precompiled one.
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>")
  endif()
endfunction()

# headscope_test_precompile(<target>): GoogleTest's headers, compiled once for all test binaries, and once more with Qt's for folders that set
# HEADSCOPE_TESTS_USE_QT: Qt wants -fPIC, and such a unit cannot take a header that was compiled for the others.
function(headscope_test_precompile target)
  if(NOT HEADSCOPE_PRECOMPILE)
    return()
  endif()
  if(HEADSCOPE_TESTS_USE_QT)
    set(definitions QT_NO_KEYWORDS QT_CORE_LIB QT_GUI_LIB QT_WIDGETS_LIB)  # of whoever takes these headers
    if(NOT TARGET headscope_qt_test_headers)
      file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/qt_test_headers.cpp" CONTENT "int main() {}\n" @ONLY)
      add_executable(headscope_qt_test_headers "${CMAKE_BINARY_DIR}/qt_test_headers.cpp")
      target_link_libraries(headscope_qt_test_headers PRIVATE Qt6::Widgets GTest::gmock)
      target_compile_definitions(headscope_qt_test_headers PRIVATE ${definitions})
      headscope_warnings(headscope_qt_test_headers)
      headscope_optimise_lightly(headscope_qt_test_headers)
      # Not those of Qt's Test, which defines the name of each folder and so would not fit in the next.
      headscope_precompile(headscope_qt_test_headers <QAction> <QApplication> <QJsonObject> <QLabel> <QLineEdit> <QMainWindow> <QTableView> <QTimer> <gmock/gmock.h> <gtest/gtest.h> <algorithm> <cmath> <functional> <string> <vector>)
    endif()
    target_compile_definitions(${target} PRIVATE ${definitions})
    target_precompile_headers(${target} REUSE_FROM headscope_qt_test_headers)
    headscope_precompiled_by_gcc(${target})
    return()
  endif()
  if(NOT TARGET headscope_test_headers)
    file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/test_headers.cpp" CONTENT "int main() {}\n" @ONLY)
    add_executable(headscope_test_headers "${CMAKE_BINARY_DIR}/test_headers.cpp")
    target_link_libraries(headscope_test_headers PRIVATE GTest::gmock)
    headscope_warnings(headscope_test_headers)
    headscope_optimise_lightly(headscope_test_headers)
    headscope_precompile(headscope_test_headers <gmock/gmock.h> <gtest/gtest.h> <algorithm> <array> <cmath> <cstdint> <filesystem> <fstream>
      <random> <span> <string> <vector>)
  endif()
  target_precompile_headers(${target} REUSE_FROM headscope_test_headers)
  headscope_precompiled_by_gcc(${target})
endfunction()

# headscope_cuda_units(<target> <source>...): sources that call CUDA's runtime. They alone see its headers, so that building with CUDA changes no
# other unit's command.
function(headscope_cuda_units target)
  foreach(folder IN LISTS CUDAToolkit_INCLUDE_DIRS) # CCCL's own is another one in some toolkits
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -isystem "${folder}")
  endforeach()
  target_link_libraries(${target} PRIVATE "$<LINK_ONLY:CUDA::cudart_static>")
endfunction()

function(headscope_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;USES;EXPOSES" ${ARGN})
  set(target headscope_${name})
  add_library(${target} STATIC ${ROOM_SOURCES})
  add_library(headscope::${name} ALIAS ${target})
  target_include_directories(${target} PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}/include" PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(${target} PUBLIC ${ROOM_EXPOSES} PRIVATE ${ROOM_USES})
  headscope_warnings(${target})
endfunction()

# headscope_test_limit(<seconds> <test>...): when a test counts as hung. The seconds are those of an optimised build; under a sanitizer the limit
# is HEADSCOPE_TEST_PATIENCE times as long, and scripts that wait for the program find that number in their environment.
if(HEADSCOPE_SANITIZE)
  set(HEADSCOPE_TEST_PATIENCE 6)
else()
  set(HEADSCOPE_TEST_PATIENCE 1)
endif()
function(headscope_test_limit seconds)
  math(EXPR limit "${seconds} * ${HEADSCOPE_TEST_PATIENCE}")
  set_tests_properties(${ARGN} PROPERTIES TIMEOUT ${limit})
  set_property(TEST ${ARGN} APPEND PROPERTY ENVIRONMENT "HEADSCOPE_TEST_PATIENCE=${HEADSCOPE_TEST_PATIENCE}")
endfunction()

# headscope_test_takes(<seconds> <test>...): of processor time, for tests that take some 15 or more. They begin first, also in a folder where CTest has
# seen no run yet: a long one that begins last leaves the other cores idle.
function(headscope_test_takes seconds)
  set_property(TEST ${ARGN} PROPERTY COST ${seconds})
endfunction()

# headscope_test(<name> [ALONE] SOURCES ... [USES ...] [LABELS ...] [TIMEOUT seconds] [ENVIRONMENT ...])
#
# One GoogleTest binary, one CTest entry; what tests the same libraries is one binary. Its units are compiled in batches, since they all make the
# same of GoogleTest's templates; ALONE: not these, which have names in common. scripts/test adds up the cases from the XML that each binary writes.
function(headscope_test name)
  cmake_parse_arguments(TEST "ALONE" "TIMEOUT" "SOURCES;USES;LABELS;ENVIRONMENT" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_USES} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE HEADSCOPE_SOURCE_DIR="${PROJECT_SOURCE_DIR}" HEADSCOPE_BINARY_DIR="${PROJECT_BINARY_DIR}")
  headscope_warnings(${name})
  headscope_optimise_lightly(${name})
  headscope_test_precompile(${name})
  list(LENGTH TEST_SOURCES units)
  if(units GREATER 1 AND NOT TEST_ALONE)
    headscope_batches(${name} 6)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "gtest;${TEST_LABELS}" ENVIRONMENT "${TEST_ENVIRONMENT}")
  headscope_test_limit(${TEST_TIMEOUT} ${name})
endfunction()

# headscope_fuzzer(<name> SOURCES ... [USES ...]): a libFuzzer program (docs/trace_format.md, "Fuzzing").
function(headscope_fuzzer name)
  cmake_parse_arguments(FUZZER "" "" "SOURCES;USES" ${ARGN})
  add_executable(${name} ${FUZZER_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests") # support/require.h
  target_link_libraries(${name} PRIVATE ${FUZZER_USES})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  headscope_warnings(${name})
  add_dependencies(headscope_fuzzers ${name})
endfunction()
