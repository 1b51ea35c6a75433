# SPDX-License-Identifier: Apache-2.0
"""Importing this keeps what NumPy frees within the process.

Whole matrices of a head come and go in the oracles. By itself the C library gives each of them back to the system, and the next one comes as pages that the
kernel clears one by one: at 4,096 tokens that took as long as most of the computing.
"""
import ctypes

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h

libc = ctypes.CDLL(None)
if hasattr(libc, "mallopt"):
    libc.mallopt(M_MMAP_MAX, 0)
    libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
