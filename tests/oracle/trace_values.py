# SPDX-License-Identifier: Apache-2.0
"""Reads synthetic traces with h5py and NumPy, independently of headscope's reader, and says whether every flushed value is right.

    trace_values.py PATH...                     check these traces
    trace_values.py --writer PROGRAM --trials N start the writer, kill it at a random moment, check what it left; N times
    trace_values.py --example DOCUMENT PATH     run the Python example of docs/trace_format.md on a trace

A synthetic trace holds, at each place, a value that is computed from the place alone (tests/data/synthetic_trace.cpp). Exit status 1 and one
line for each trace that is wrong.
"""
import argparse
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
TENSORS = {"q": 1, "k": 2, "v": 3, "lse": 4}


def place_hash(tensor, *place):
    """The 64-bit mix of a place; arguments broadcast."""
    x = np.uint64(TENSORS[tensor])
    with np.errstate(over="ignore"):
        for part in place:
            x = (x ^ np.asarray(part, np.uint64)) * MULTIPLIER
            x = x ^ (x >> np.uint64(29))
    return x


def expected_values(encoding, tensor, layers, heads, positions, head_dim):
    """float64 values [layer, head, position, dim] that a trace in `encoding` must hold."""
    grid = np.ix_(layers, heads, positions, np.arange(head_dim))
    hashed = place_hash(tensor, *grid)
    mantissa = (hashed >> np.uint64(32)) & np.uint64(0x7FFFFF)
    bits = {"float32": 23, "bfloat16": 7, "float16": 10}[encoding]
    fraction = (mantissa & np.uint64((1 << bits) - 1)).astype(np.float64) / (1 << bits)
    return np.where(hashed >> np.uint64(63), -1.0, 1.0) * (1 + fraction)


def read_growing(dataset, count, axis):
    """The first `count` items along `axis`. In a trace that was killed, the checksum of the last chunk may not fit its bytes (the chunk was
    being rewritten, which leaves the flushed items alone); such chunks are then read raw."""
    chosen = (slice(None),) * axis + (slice(0, count),)
    try:
        return np.asarray(dataset[chosen]), 0
    except OSError:
        pass
    chunk, torn = dataset.chunks[axis], 0
    full = count // chunk * chunk
    parts = np.empty(dataset.shape[:axis] + (count,) + dataset.shape[axis + 1 :], dataset.dtype)
    parts[chosen[:-1] + (slice(0, full),)] = dataset[chosen[:-1] + (slice(0, full),)]
    for head in np.ndindex(*dataset.shape[:axis]):
        _, raw = dataset.id.read_direct_chunk(head + (full,) + (0,) * (dataset.ndim - axis - 1))
        items = np.frombuffer(raw[:-4], np.uint8).reshape(chunk, -1)[: count - full]
        size = dataset.id.get_type().get_size()
        if size == 2 and dataset.id.get_type().get_ebias() == 127:
            values = (np.frombuffer(items.tobytes(), "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(items.tobytes(), {2: "<f2", 4: dataset.dtype, 8: dataset.dtype}[size])
        parts[head + (slice(full, count),)] = values.reshape((count - full,) + dataset.shape[axis + 1 :])
        torn += 1
    return parts, torn


def problem_of(path, least_tokens=0):
    """None, or what is wrong with the trace at `path`, which must hold at least `least_tokens` tokens."""
    with h5py.File(path, "r", swmr=True) as file:
        tokens, rows = int(file.attrs["tokens_flushed"]), int(file.attrs["rows_flushed"])
        if file.attrs["format"].decode() != "headscope-trace" or file.attrs["version"] != 2:
            return "format"
        if tokens < least_tokens:
            return f"{tokens} tokens where {least_tokens} were flushed"
        group, facts = file["attention"], file["layers"].attrs
        if list(facts["layer"]) != list(group["layers"]) or any(facts["part"]):
            return "layers"
        positions, _ = read_growing(group["q_rows"], rows, 0)
        positions = positions[positions < tokens]
        if np.any(np.diff(positions) <= 0):
            return "q_rows"
        ids, _ = read_growing(file["tokens/ids"], tokens, 0)
        if np.any(ids != np.arange(tokens) * 3 % 4096):
            return "tokens/ids"
        layers, encoding = group["layers"][:], group.attrs["encoding"].decode()
        for name in ("q", "k", "v"):
            heads = group["qo_heads" if name == "q" else "kv_heads"][:]
            places = positions if name == "q" else np.arange(tokens)
            found, _ = read_growing(group[name], len(places), 2)
            width = int(facts["v_head_dim" if name == "v" else "head_dim"][0])
            wanted = expected_values(encoding, name, layers, heads, places, width)
            if not np.array_equal(np.asarray(found, np.float64), wanted):
                return name
        found, _ = read_growing(group["lse"], len(positions), 2)
        hashed = place_hash("lse", *np.ix_(layers, group["qo_heads"][:], positions), 0)
        if not np.array_equal(found, ((hashed >> np.uint64(44)).astype(np.float32) / np.float32(1024))):
            return "lse"
        found, _ = read_growing(group["lse_keys"], len(positions), 1)
        seen = group.attrs["first_token"] + positions + 1
        windows = facts.get("window", np.zeros(len(layers)))
        windows = np.where(windows == 0, np.inf, windows)
        if not np.array_equal(found, np.minimum.outer(windows, seen)):
            return "lse_keys"
    return None


def kill_and_check(writer, trials, seed=7):
    """Number of trials that lost something. Each writer is killed after a random number of reported flushes and a random pause."""
    chance, failures = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as folder:
        for trial in range(trials):
            path = f"{folder}/{trial}.h5"
            process = subprocess.Popen([writer, path, str(trial)], stdout=subprocess.PIPE, text=True)
            for _ in range(chance.randint(1, 6)):
                process.stdout.readline()
            time.sleep(chance.random() * 0.02)
            process.send_signal(signal.SIGKILL)
            lines = [line for line in process.stdout.read().split("\n")[:-1] if line]
            process.wait()
            problem = problem_of(path, int(lines[-1]) if lines else 1)
            if problem:
                failures += 1
                print(f"trial {trial}: {problem}")
            pathlib.Path(path).unlink()
    print(f"{trials} writers killed, {failures} traces with a loss")
    return failures


def run_example(document, path):
    """Runs the one Python example of the document with `path` as its trace."""
    examples = re.findall(r"```python\n(.*?)```", pathlib.Path(document).read_text(), re.S)
    if len(examples) != 1:
        print(f"{document}: {len(examples)} examples instead of one")
        return 1
    exec(compile(examples[0].replace("trace.h5", path), document, "exec"), {})
    return 0


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("paths", nargs="*")
    options.add_argument("--writer")
    options.add_argument("--trials", type=int, default=50)
    options.add_argument("--example")
    options = options.parse_args()
    if options.writer:
        sys.exit(kill_and_check(options.writer, options.trials) > 0)
    if options.example:
        sys.exit(run_example(options.example, options.paths[0]))
    problems = {path: problem_of(path) for path in options.paths}
    for path, problem in problems.items():
        print(f"{path}: {problem or 'as it must be'}")
    sys.exit(any(problems.values()) or not problems)


if __name__ == "__main__":
    main()
