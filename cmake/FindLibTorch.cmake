# SPDX-License-Identifier: Apache-2.0
# Finds LibTorch inside the PyPI torch package. Defines:
#   LibTorch::cpu   the CPU libraries, enough to run a model on the CPU (no CUDA toolkit is needed to link)
#   LibTorch_VERSION, LibTorch_LIB_DIR, LibTorch_CUDA_LIBRARY (the GPU half, empty in a CPU-only wheel; loaded at run time)
#
# torch's own TorchConfig.cmake insists on a CUDA toolkit when the wheel was built with CUDA; this module does not.
include(HeadscopePython)
include(FindPackageHandleStandardArgs)
execute_process(COMMAND "${HEADSCOPE_PYTHON}" -c
  "import importlib.util, os, importlib.metadata as m; s = importlib.util.find_spec('torch'); print(os.path.dirname(s.origin) if s else ''); print(m.version('torch') if s else '')"
  OUTPUT_VARIABLE _torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
string(REPLACE "\n" ";" _torch "${_torch}")
list(LENGTH _torch _torch_lines)
if(_torch_lines EQUAL 2)
  list(GET _torch 0 _torch_dir)
  list(GET _torch 1 LibTorch_VERSION)
endif()
find_path(LibTorch_INCLUDE_DIR torch/csrc/api/include/torch/torch.h PATHS "${_torch_dir}/include" NO_DEFAULT_PATH)
find_library(LibTorch_CPU_LIBRARY torch_cpu PATHS "${_torch_dir}/lib" NO_DEFAULT_PATH)
find_library(LibTorch_C10_LIBRARY c10 PATHS "${_torch_dir}/lib" NO_DEFAULT_PATH)
find_library(LibTorch_CUDA_LIBRARY torch_cuda PATHS "${_torch_dir}/lib" NO_DEFAULT_PATH)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION REASON_FAILURE_MESSAGE "scripts/install-deps installs the pinned torch package")
if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  get_filename_component(LibTorch_LIB_DIR "${LibTorch_CPU_LIBRARY}" DIRECTORY)
  add_library(LibTorch::cpu INTERFACE IMPORTED)
  target_include_directories(LibTorch::cpu SYSTEM INTERFACE "${LibTorch_INCLUDE_DIR}" "${LibTorch_INCLUDE_DIR}/torch/csrc/api/include")
  target_link_libraries(LibTorch::cpu INTERFACE "${LibTorch_CPU_LIBRARY}" "${LibTorch_C10_LIBRARY}" Threads::Threads)
  target_link_options(LibTorch::cpu INTERFACE "-Wl,-rpath,${LibTorch_LIB_DIR}" "-Wl,-rpath-link,${LibTorch_LIB_DIR}")
endif()
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_CUDA_LIBRARY)
