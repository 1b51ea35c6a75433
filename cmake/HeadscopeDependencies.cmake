# SPDX-License-Identifier: Apache-2.0
# Everything that headscope takes from others, found in one place so that a missing package is one clear line.
include_guard()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

find_package(HDF5 REQUIRED COMPONENTS C)
set_package_properties(HDF5 PROPERTIES TYPE REQUIRED PURPOSE "trace files" URL "https://www.hdfgroup.org")
if(NOT TARGET headscope_hdf5)
  add_library(headscope_hdf5 INTERFACE)
  target_include_directories(headscope_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
  target_link_libraries(headscope_hdf5 INTERFACE ${HDF5_C_LIBRARIES})
endif()

find_package(ZLIB REQUIRED)
set_package_properties(ZLIB PROPERTIES TYPE REQUIRED PURPOSE "traces that were exported in compressed form")

find_package(nlohmann_json REQUIRED)
set_package_properties(nlohmann_json PROPERTIES TYPE REQUIRED PURPOSE "configuration, headers of checkpoints, results")
find_package(CLI11 REQUIRED)
set_package_properties(CLI11 PROPERTIES TYPE REQUIRED PURPOSE "the command line")

# What a machine that builds the kernels and their tests alone does without, as GPU machines often are: vector code of the CPU executors (kernels/cpu
# then has plain ones), patterns and Unicode's normal forms of the tokenizers. headscope itself needs all three (app/CMakeLists.txt refuses to build it).
# Debian's libhwy has a pkg-config file and no CMake config.
set(HEADSCOPE_MISSING_LIBRARIES "")
foreach(_library HWY:libhwy PCRE2:libpcre2-8 UTF8PROC:libutf8proc)
  string(REPLACE ":" ";" _library "${_library}")
  list(POP_FRONT _library _prefix)
  pkg_check_modules(${_prefix} IMPORTED_TARGET ${_library})
  string(TOLOWER "headscope_${_prefix}" _target)
  add_library(${_target} INTERFACE)
  if(${_prefix}_FOUND)
    target_link_libraries(${_target} INTERFACE PkgConfig::${_prefix})
    target_compile_definitions(${_target} INTERFACE HEADSCOPE_HAVE_${_prefix}=1)
  else()
    list(APPEND HEADSCOPE_MISSING_LIBRARIES ${_library})
  endif()
endforeach()
if(HEADSCOPE_MISSING_LIBRARIES)
  list(JOIN HEADSCOPE_MISSING_LIBRARIES ", " HEADSCOPE_MISSING_LIBRARIES)
  message(WARNING "${HEADSCOPE_MISSING_LIBRARIES} not found: only the kernels, on the CPU by plain code, and their tests can be built, "
                  "not headscope itself; scripts/install-deps installs what is missing")
endif()

# Figures as SVG, PDF and PNG, maps as PDF and PNG (analysis/figures). Without it headscope refuses to draw them, and everything else is there.
pkg_check_modules(CAIRO IMPORTED_TARGET cairo cairo-pdf cairo-svg)
if(NOT CAIRO_FOUND)
  message(STATUS "cairo was not found: headscope draws no figures; scripts/install-deps installs it")
endif()

find_package(OpenSSL REQUIRED COMPONENTS Crypto)
set_package_properties(OpenSSL PROPERTIES TYPE REQUIRED PURPOSE "fingerprints of weights (Debian's HDF5 headers need the same package)")

find_package(LibTorch REQUIRED)
set_package_properties(LibTorch PROPERTIES TYPE REQUIRED PURPOSE "runs the language model" DESCRIPTION "the PyPI torch package's libraries and headers")

if(HEADSCOPE_TESTS)
  find_package(GTest REQUIRED)
  set_package_properties(GTest PROPERTIES TYPE REQUIRED PURPOSE "tests")
endif()
if(HEADSCOPE_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()

if(HEADSCOPE_GUI)
  find_package(OpenGL REQUIRED)
  find_package(Qt6 REQUIRED COMPONENTS Core Gui Widgets OpenGL OpenGLWidgets Svg)
  set_package_properties(Qt6 PROPERTIES TYPE REQUIRED PURPOSE "the window")
  if(HEADSCOPE_TESTS)
    find_package(Qt6 REQUIRED COMPONENTS Test)
  endif()
  # libimgui.a is static and draws its glyphs with stb and freetype.
  pkg_check_modules(IMGUI REQUIRED IMPORTED_TARGET imgui stb freetype2)
endif()

# CUDA is optional: without it, or without CUTLASS' headers, headscope runs on the CPU alone and says so.
set(HEADSCOPE_HAVE_CUDA OFF)
if(NOT HEADSCOPE_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES OFF) # each target names its own
  endif()
  check_language(CUDA)
  find_package(Cutlass)
  if(CMAKE_CUDA_COMPILER AND Cutlass_FOUND)
    enable_language(CUDA)
    # CMake 3.25 does not know nvcc 13's flag for C++20, the standard of this project.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    find_package(CUDAToolkit REQUIRED)
    set(HEADSCOPE_HAVE_CUDA ON)
  elseif(HEADSCOPE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "HEADSCOPE_CUDA is ON, but nvcc or the CUTLASS headers were not found: install both (scripts/install-deps) or set HEADSCOPE_CUDA=AUTO")
  endif()
endif()
add_feature_info(cuda HEADSCOPE_HAVE_CUDA "sparse attention kernels for NVIDIA GPUs")
add_feature_info(window HEADSCOPE_GUI "the Qt window")
add_feature_info(werror HEADSCOPE_WARNINGS_ARE_ERRORS "warnings of the compiler are errors")
