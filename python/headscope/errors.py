# SPDX-License-Identifier: Apache-2.0
"""One way to fail: an error is one sentence that names file, field and remedy, and its type says which exit code it is."""
import re


def reason(error):
    """Why the system or HDF5 failed, in the words of the system where HDF5 has them among its own, which fill lines with addresses."""
    text = str(error)
    found = re.search(r"error message = '([^']+)'", text)
    return found[1] if found else " ".join(text.split())


class HeadscopeError(Exception):
    """A failure that headscope foresaw."""

    exit_code = 1


class FailedError(HeadscopeError):
    """The work could not be done: the disk is full, a file vanished."""


class UsageError(HeadscopeError):
    """Another call on the same model and files can mend it."""

    exit_code = 2


class BadInputError(HeadscopeError):
    """What the file or the model lacks itself, so that no option helps."""

    exit_code = 3


class DeviceError(HeadscopeError):
    """A device or memory is missing."""

    exit_code = 4
