# SPDX-License-Identifier: Apache-2.0
"""A model that one GPU has no room for, laid over two by `capture --device auto`: what is recorded is what the CPU records.

    two_gpus_test.py HEADSCOPE DATA_DIR

The test itself takes the memory of both GPUs, but for so much that the layers must go on from one to the other. On a machine with fewer than two GPUs
it exits with 77: skipped.
"""
import ctypes
import json
import math
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "app"))
import command_line
from command_line import MODEL, run, TraceCase

# The cache of so many tokens makes each layer several times its weights; fp32, so that both devices compute in one type.
CAPTURE = ["capture", MODEL, "--task", "passkey", "--length", 8192, "--decode", 6, "--dtype", "fp32", "--layers", "0,4,5,9", "--rows", "last:40", "--quiet"]
MIB = 1 << 20


class TakenMemory:
    """The memory of GPUs 0 and 1, by CUDA's driver."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.contexts, self.taken = [], []
        for number in range(2):
            device, context = ctypes.c_int(), ctypes.c_void_p()
            self.call("cuDeviceGet", ctypes.byref(device), number)
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self.contexts.append(context)

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        assert code == 0, f"{name}: CUDA's error {code}"

    def leave(self, num_bytes):
        """So much of each GPU is free now."""
        self.free()
        for context in self.contexts:
            self.call("cuCtxSetCurrent", context)
            free, total, address = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
            self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
            assert free.value > num_bytes, f"only {free.value} bytes of a GPU are free"
            self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(free.value - num_bytes))
            self.taken.append((context, address))

    def free(self):
        for context, address in self.taken:
            self.call("cuCtxSetCurrent", context)
            self.call("cuMemFree_v2", address)
        self.taken = []


def difference(mine, other, path="trace"):
    """The largest difference of two documents' fractions as a share of the largest number beside them; everything else is equal."""
    def are_fractions(values):  # a whole one is written as an integer
        return all(type(value) in (int, float) for value in values) and any(type(value) is float for value in values)

    if isinstance(mine, dict) and isinstance(other, dict):
        assert mine.keys() == other.keys(), path
        return max((difference(mine[key], other[key], f"{path}.{key}") for key in mine), default=0)
    if isinstance(mine, list) and isinstance(other, list):
        assert len(mine) == len(other), path
        if are_fractions(mine + other):
            return max(abs(a - b) for a, b in zip(mine, other)) / (max(map(abs, other)) or 1)
        return max((difference(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(mine, other))), default=0)
    if are_fractions([mine, other]):
        return abs(mine - other) / (abs(other) or 1)
    assert mine == other, f"{path}: {mine!r} and {other!r}"
    return 0


class TwoGpus(TraceCase):
    def placed_on_both(self, memory):
        """Leaves so much memory that the layers go to both GPUs and none to the CPU; how much that is depends on the driver's own share."""
        low, high = 1024 * MIB, 8192 * MIB
        for _ in range(12):
            middle = (low + high) // 2
            memory.leave(middle)
            placed = re.search(r"^ +devices +(.*)$", run(*CAPTURE, "--device", "auto", "--dry-run", "-o", self.path / "none.h5").stdout, re.M).group(1)
            if "cpu" in placed:
                low = middle
            elif "cuda:0" in placed and "cuda:1" in placed:
                return placed
            else:
                high = middle
        self.fail(f"no amount of free memory puts the layers on both GPUs; with {middle // MIB} MiB: {placed}")

    def recorded(self, name, device):
        trace, part = self.path / f"{name}.h5", self.path / f"{name}.json"
        said = run(*CAPTURE, "--device", device, "-o", trace).stderr
        run("export", trace, "--tokens", "8100:8192", "-o", part, "--quiet")
        return json.loads(part.read_text()), said

    def test_a_model_on_two_gpus_records_what_the_cpu_does(self):
        memory = TakenMemory()
        try:
            placed = self.placed_on_both(memory)
            both, said = self.recorded("both", "auto")
        finally:
            memory.free()
        self.assertIn(placed, said)
        cpu, _ = self.recorded("cpu", "cpu")
        share = difference(both, cpu)
        print(f"{placed}: differs from the CPU by {share:.1e} of the largest number beside it")
        self.assertTrue(math.isfinite(share))
        self.assertLess(share, 1e-3)


if __name__ == "__main__":
    if command_line.num_gpus() < 2:
        print(f"skipped: this machine has {command_line.num_gpus()} NVIDIA GPUs, and the test takes two")
        sys.exit(77)
    command_line.main()
