# SPDX-License-Identifier: Apache-2.0
"""Opens a trace's file for reading, one that is written at the moment or was left by a kill included."""
import ctypes
import functools
import os

import h5py
from h5py import h5f, h5p
from h5py._objects import phil  # what h5py calls HDF5 under

from headscope.hdf5_calls import hdf5_call

_ATTEMPTS = 20  # the last one comes a millisecond behind the first; by default there are 100, and the pause between them doubles each time


@functools.cache
def _limit_setter():
    return hdf5_call(h5p, "H5Pset_metadata_read_attempts", ctypes.c_int64, ctypes.c_uint)


def open_file(path):
    """An h5py.File. A reader beside a writer reads metadata again whose checksum is wrong; where it is damaged, that ends soon. Raises OSError."""
    setter, access = _limit_setter(), h5p.create(h5p.FILE_ACCESS)
    if setter is None:
        return h5py.File(path, "r")  # which refuses what is being written, and ends
    with phil:
        if setter(access.id, _ATTEMPTS) < 0:
            raise OSError("the number of attempts to read metadata cannot be set")
    return h5py.File(h5f.open(os.fsencode(path), h5f.ACC_RDONLY | h5f.ACC_SWMR_READ, access))
