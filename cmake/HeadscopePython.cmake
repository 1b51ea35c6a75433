# SPDX-License-Identifier: Apache-2.0
# Finds the Python interpreter whose packages headscope builds against (torch, nvidia-cutlass): HEADSCOPE_PYTHON when set, else the
# environment that scripts/install-deps keeps in the user's cache folder, else python3.
include_guard()
if(NOT HEADSCOPE_PYTHON)
  set(_cache "$ENV{XDG_CACHE_HOME}")
  if(NOT _cache)
    set(_cache "$ENV{HOME}/.cache")
  endif()
  if(EXISTS "${_cache}/headscope/python/bin/python")
    set(HEADSCOPE_PYTHON "${_cache}/headscope/python/bin/python" CACHE FILEPATH "Python with torch and nvidia-cutlass" FORCE)
  else()
    find_program(HEADSCOPE_PYTHON NAMES python3 REQUIRED)
  endif()
endif()
