# SPDX-License-Identifier: Apache-2.0
# Finds CUTLASS' headers: CUTLASS_INCLUDE_DIR when set, else inside the PyPI nvidia-cutlass package. Defines Cutlass::headers.
include(HeadscopePython)
include(FindPackageHandleStandardArgs)
execute_process(COMMAND "${HEADSCOPE_PYTHON}" -c
  "import importlib.util, os; s = importlib.util.find_spec('cutlass_library'); print(os.path.dirname(s.origin) if s else '')"
  OUTPUT_VARIABLE _cutlass OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
find_path(CUTLASS_INCLUDE_DIR cute/tensor.hpp PATHS "${_cutlass}/source/include" NO_DEFAULT_PATH)
find_package_handle_standard_args(Cutlass REQUIRED_VARS CUTLASS_INCLUDE_DIR)
if(Cutlass_FOUND AND NOT TARGET Cutlass::headers)
  add_library(Cutlass::headers INTERFACE IMPORTED)
  target_include_directories(Cutlass::headers SYSTEM INTERFACE "${CUTLASS_INCLUDE_DIR}")
endif()
