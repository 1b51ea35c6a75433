# SPDX-License-Identifier: Apache-2.0
# Where `cmake --install` puts things. The program finds its own files relative to itself (base/program_files.h), so an installed tree may be moved.
#   bin/headscope
#   lib/headscope/      headscope-contents, libheadscope_torch.so
#   share/headscope/    reference_model/, prompts/, traces/
#   share/man, share/bash-completion, share/zsh, share/fish, share/applications, share/icons, share/doc/headscope
include_guard()
include(GNUInstallDirs)

set(HEADSCOPE_INSTALL_LIBDIR "${CMAKE_INSTALL_LIBDIR}/headscope")
set(HEADSCOPE_INSTALL_SHAREDIR "${CMAKE_INSTALL_DATADIR}/headscope")
file(RELATIVE_PATH HEADSCOPE_LIBRARY_FROM_PROGRAM "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}/headscope")
file(RELATIVE_PATH HEADSCOPE_SHARE_FROM_PROGRAM "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_DATADIR}/headscope")

# Programs of the build folder find LibTorch's half there; installing replaces this path.
set(CMAKE_BUILD_RPATH "${PROJECT_BINARY_DIR}")
# Libraries outside the system's folders (LibTorch, HDF5 on some distributions) are found where the build found them.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
