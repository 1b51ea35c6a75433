# SPDX-License-Identifier: Apache-2.0
"""What the tests of the command line share: the binary, the shipped model, one small trace.

Each of them is run as: SCRIPT HEADSCOPE DATA_DIR. Under CTest most starts are forks of a program that is loaded already (forked_starts.py); those in another
environment, under a limit or with `anew` are not.

    command_line.py HEADSCOPE DATA_DIR TRACE.h5     captures that trace, of which HEADSCOPE_SMALL_TRACE tells the tests where it is
"""
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import forked_starts

HEADSCOPE, DATA = sys.argv[1], pathlib.Path(sys.argv[2])
MODEL = str(DATA / "reference_model")
# How many times longer than an optimised build this one may take; the tests' own limit counts in it as well (cmake/HeadscopeRoom.cmake).
PATIENCE = int(os.environ.get("HEADSCOPE_TEST_PATIENCE", "1"))


def run(*arguments, code=0, anew=False, **options):
    """Runs headscope and checks its exit code; a refusal must be one sentence on stderr and nothing on stdout."""
    if anew or set(options) - {"cwd"}:
        done = subprocess.run([HEADSCOPE, *map(str, arguments)], capture_output=True, text=True, timeout=240 * PATIENCE, **options)
    else:
        done = forked_starts.run(HEADSCOPE, arguments, 240 * PATIENCE, **options)
    assert done.returncode == code, f"{arguments}: exit code {done.returncode}, expected {code}\n{done.stderr}"
    if code in (1, 2, 3, 4):
        assert done.stdout == "", f"{arguments}: a refused run wrote to stdout: {done.stdout!r}"
        assert done.stderr.startswith("headscope: ") and done.stderr.count("\n") == 1, f"{arguments}: not one sentence: {done.stderr!r}"
    return done


def environment_without(*names):
    return {name: value for name, value in os.environ.items() if name not in names}


def without_root():
    """For a child process (preexec_fn): permissions of files hold for it, even when these tests are root's."""
    if os.getuid() == 0:
        pr_capbset_drop, cap_dac_override = 24, 1
        if ctypes.CDLL(None, use_errno=True).prctl(pr_capbset_drop, cap_dac_override, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "root's right to write everywhere cannot be given up")


def num_gpus():
    """NVIDIA GPUs of this machine."""
    return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.count("GPU ") if shutil.which("nvidia-smi") else 0


def capture_small_trace(path):
    run("capture", MODEL, "--task", "passkey", "--length", 1024, "--decode", 8, "-o", path, "--quiet", "--force")


class TraceCase(unittest.TestCase):
    """Tests on a trace of 1,024 tokens, in a folder of their own."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        cls.trace = str(cls.path / "trace.h5")
        made = os.environ.get("HEADSCOPE_SMALL_TRACE")  # once for all that need it, or here by a script that is run by hand
        if made:
            shutil.copyfile(made, cls.trace)
        else:
            capture_small_trace(cls.trace)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def names(self):
        return sorted(entry.name for entry in self.path.iterdir())


def main():
    unittest.main(argv=sys.argv[:1])


if __name__ == "__main__":
    pathlib.Path(sys.argv[3]).parent.mkdir(parents=True, exist_ok=True)
    capture_small_trace(sys.argv[3])
