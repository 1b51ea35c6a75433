# SPDX-License-Identifier: Apache-2.0
"""Where a trace goes: under its own name, or beside an existing file until it is complete; and one capture to a path at a time."""
import os
import pathlib
import socket
import stat
import struct

from headscope import replacement, trace_files
from headscope.errors import FailedError, UsageError


class Target:
    """The file of a trace, or its `count` files. An existing one is replaced only with `overwrite`, and only by a complete trace: until then it is NAME.partial.h5."""

    def __init__(self, path, overwrite, count=1):
        self.path, self.count = os.fspath(path), count
        if pathlib.Path(self.path).suffix not in (".h5", ".hdf5"):
            raise UsageError(f"output {self.path}: a trace is an HDF5 file; let its name end in .h5 or .hdf5")
        folder = os.path.dirname(self.path) or "."
        if not os.path.isdir(folder):
            raise UsageError(f"output {self.path}: the folder {folder} does not exist; make it first")
        self._claim = _claim(self.path)
        try:
            self.writing_path = self._writing_path(overwrite)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise UsageError(f"output {self.path}: Permission denied; choose a folder that you may write to")
        except BaseException:
            self.release()
            raise

    def _writing_path(self, overwrite):
        there = replacement.files_under(self.path)
        if not there:
            return self.path
        for path in there:
            mode = os.lstat(path).st_mode
            if stat.S_ISDIR(mode):
                raise UsageError(f"output {path}: it is a folder; name a file")
            if not stat.S_ISREG(mode):
                raise UsageError(f"output {path}: it exists and is not a regular file; choose another name")
            if not overwrite:
                raise UsageError(f"output {path}: it exists; choose another name, or replace it with overwrite=True (--force)")
        if foreign := replacement.find_foreign(self.path, self.count):
            raise UsageError(f"output {foreign[0]}: it {foreign[1]}, so it is not replaced; move it away, or choose another name")
        return replacement.free_name(self.path, "partial", self.count)

    def complete(self):
        """The trace is whole: it gets its name, and no file of what had it before stays."""
        whole = f"the whole new trace is {trace_files.file_path(self.writing_path, 1, self.count)}{' and the files that go with it' if self.count > 1 else ''}"
        try:
            if self.writing_path == self.path:
                return
            if foreign := replacement.find_foreign(self.path, self.count):
                raise FailedError(f"{foreign[0]}: {foreign[1]}, so it is not replaced; move it away; {whole}")
            replacement.replace(self.path, self.writing_path, self.count)
        except replacement.Unreplaced as failed:
            if failed.stands:
                raise FailedError(f"{failed.file}: is of the trace that {self.path} was before, and cannot be removed ({failed.error}); remove it") from None
            before = f"{self.path} is as it was" if failed.kept is None else f"the trace before is {failed.kept}"
            raise FailedError(f"{failed.file}: cannot be replaced ({failed.error}); {before}; {whole}") from None
        finally:
            self.release()

    def leave(self, tokens_flushed, created):
        """The trace is not whole: kept where it holds tokens. `created`: whether its file was made. Returns what is left, in words."""
        self.release()
        old = f" and {self.path} is as it was" if self.writing_path != self.path else ""
        files = trace_files.files_of(self.writing_path, self.count)
        if tokens_flushed > 0:
            return f"the first {tokens_flushed} tokens are in {files[0]}{' and the files that go with it' if self.count > 1 else ''}{old}"
        for file in files if created else []:
            if os.path.exists(file):
                os.unlink(file)
        return f"no token was recorded{old}"

    def release(self):
        if self._claim is not None:
            self._claim.close()
            self._claim = None


def _claim(path):
    """A socket that exists as long as the process lives, under the name that `headscope capture` gives to it as well."""
    status = os.stat(os.path.dirname(path) or ".")
    number = 14695981039346656037
    for byte in os.path.basename(path).encode():
        number = ((number ^ byte) * 1099511628211) % 2**64
    address = b"\0" + f"headscope-capture-{os.getuid()}-{status.st_dev}-{status.st_ino}-{number}".encode()
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        claim.bind(address)
        claim.listen(16)
        return claim
    except OSError:
        claim.close()
    holder = _holder(address)
    if holder is None:
        return None
    raise UsageError(f"output {path}: a capture to it is running ({holder}); wait for its end, interrupt it or choose another name")


def _holder(address):
    """Who has the name, in words; None where that is another user, whose claim counts for nothing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(address)
            process, user, _ = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        except OSError:
            return "another process"
    return f"process {process}" if user == os.getuid() else None
