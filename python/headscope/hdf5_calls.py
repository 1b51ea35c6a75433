# SPDX-License-Identifier: Apache-2.0
"""Functions of HDF5 that h5py has none for, or keeps its lock over."""
import ctypes


def hdf5_call(module, name, *argtypes):
    """The function of the library that a compiled module of h5py is linked to, or None. It returns HDF5's herr_t."""
    try:
        function = getattr(ctypes.CDLL(module.__file__), name)
    except (OSError, AttributeError):
        return None
    function.restype, function.argtypes = ctypes.c_int, argtypes
    return function
