#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recomputes, element by element in float64, what every method keeps, and compares with what headscope kept.

    methods_kept_sets.py DUMP_PROGRAM [--seed N] [--trace TRACE]

--trace: heads that a model recorded, the first tokens of them, in place of random ones. DUMP_PROGRAM (kernels_methods_dump) writes random problems and headscope's kept sets; the definitions here are written from the papers'
algorithms and docs/methods.md, as masks over all (row, column) pairs, without runs, tiles or builders. A pick by rank is called ambiguous when the scores on both
sides of its boundary differ by less than fp32 can tell; such heads are counted, must be rare, and are not compared.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np

import decode_definitions
import eviction_definitions
import prefill_definitions
from kept_set_rules import Ambiguous, top_k, top_share

AMBIGUOUS_SHARE = 0.05
AMBIGUOUS_SHARE_RECORDED = 0.1  # a model gives many keys almost nothing, and so almost alike


class Problem:
    first_qo_head = first_kv_head = 0  # the numbers that its first heads have in their layer
    window, sinks, rope = 0, [], []  # of the model itself, in a generation

    def __init__(self, folder, number):
        self.__dict__.update(json.loads((folder / f"{number}.json").read_text()))
        self.parameters = {name: int(value) if value == int(value) else value for name, value in self.parameters.items()}
        self.group = self.num_qo_heads // self.num_kv_heads
        self.q = self.read(folder, number, "q", (self.batch, self.num_qo_heads, self.seq_q, self.head_dim))
        self.k = self.read(folder, number, "k", (self.batch, self.num_kv_heads, self.seq_k, self.head_dim))
        self.v = self.read(folder, number, "v", (self.batch, self.num_kv_heads, self.seq_k, self.head_dim))
        self.position = self.first_position + np.arange(self.seq_q)
        self.num_visible = self.first_position + self.seq_q
        self.column = np.arange(self.seq_k)
        self.causal = self.column[None, :] <= self.position[:, None]
        self.softmax_scale = self.scale if self.scale != 0 else self.head_dim**-0.5

    @staticmethod
    def read(folder, number, extension, shape, dtype=np.float32):
        values = np.fromfile(folder / f"{number}.{extension}", dtype)
        if values.size != np.prod(shape):
            raise SystemExit(f"case {number}: {extension} holds {values.size} values, expected {shape}")
        values = values.reshape(shape)
        return values.astype(np.float64) if dtype == np.float32 else values

    def cap(self, scores):
        return self.soft_cap * np.tanh(scores / self.soft_cap) if self.soft_cap > 0 else scores

    def scores(self, b, h):
        return self.cap(self.softmax_scale * self.q[b, h] @ self.k[b, h // self.group].T)

    def probabilities(self, b, h, rows, sink=False):
        """Of all keys before a row; `sink`: the model's learned one counts as a key that is not there."""
        scores = self.cap(self.softmax_scale * self.q[b, h, rows] @ self.k[b, h // self.group].T)
        scores = np.where(self.causal[rows], scores, -np.inf)
        top = scores.max(axis=1, keepdims=True)
        weights = np.exp(scores - top)
        of_sink = np.exp(self.sinks[h] - top) if sink and self.sinks else 0
        return weights / (weights.sum(axis=1, keepdims=True) + of_sink)

    def line_sums(self, b, h, rows):
        """Mass per column and per diagonal of the visible keys, over the given rows."""
        probabilities = self.probabilities(b, h, rows)
        columns = probabilities.sum(axis=0)[: self.num_visible]
        slashes = np.zeros(self.num_visible)
        for probability, position in zip(probabilities, self.position[rows]):
            slashes[: position + 1] += probability[position::-1]  # the key at offset o is position - o
        return columns, slashes


def dense(p, b, h, **_):
    return p.causal


def a_shape(p, b, h, n_sink, n_local):
    distance = p.position[:, None] - p.column[None, :]
    return p.causal & ((p.column[None, :] < n_sink) | (distance < n_local))


def stretches(begins, length, width):
    """Mask of the columns below `width` that lie within `length` of one of the begins, which may be below 0."""
    reached = np.cumsum(np.bincount(begins[begins > -length] + length, minlength=length + width))  # how many begin at or before column - length
    return reached[length : length + width] > reached[:width]


def vertical_slash(p, b, h, n_vertical, n_slash, last_q, forced_columns, forced_slashes, end=None):
    """Lines of the rows before row `end`, the last one by default."""
    end = p.seq_q if end is None else end
    seen = p.first_position + end
    columns, slashes = (sums[:seen] for sums in p.line_sums(b, h, np.arange(max(0, end - last_q), end)))
    columns[:forced_columns] = np.inf
    slashes[:forced_slashes] = np.inf
    kept = np.zeros_like(p.causal)
    kept[:, :seen] |= top_k(columns, n_vertical)[None, :]
    offsets = np.flatnonzero(top_k(slashes, n_slash))
    for first in range(0, p.seq_q, 64):
        begins = p.position[first] - offsets  # where the diagonals meet the block's first row
        kept[first : first + 64] |= stretches(begins, 64, p.seq_k)[None, :]
    return kept & p.causal


def static_index(p, b, h, at, last_q, **lines):
    end = min(max(int(np.floor(at * p.seq_q + 0.5)), 1), p.seq_q)
    return vertical_slash(p, b, h, last_q=last_q, end=end, **lines)


def block_sparse(p, b, h, n_blocks):
    kv = h // p.group
    kept = np.zeros_like(p.causal)
    starts = range(0, p.num_visible, 64)
    pooled_k = np.array([p.k[b, kv, s : min(s + 64, p.num_visible)].mean(axis=0) for s in starts])
    for first in range(0, p.seq_q, 64):
        rows = np.arange(first, min(first + 64, p.seq_q))
        scores = pooled_k @ p.q[b, h, rows].mean(axis=0)
        seen = np.array([s <= p.position[rows[-1]] for s in starts])
        for block in np.flatnonzero(top_k(scores[seen], n_blocks)):
            kept[rows, 64 * block : 64 * block + 64] = True
    return kept & p.causal


def s2_attention(p, b, h, local_blocks, vertical_stride, head_step, offset, subtract_offset, per_kv_head, dense_layers, max_distance, far_factor, far_distance, local_stride):
    if 0 <= p.layer < dense_layers:
        return p.causal
    number = p.first_kv_head + h // p.group if per_kv_head else p.first_qo_head + h
    shift = number * head_step + offset
    kept = np.zeros_like(p.causal)
    for first in range(0, p.seq_q, 64):
        rows = np.arange(first, min(first + 64, p.seq_q))
        for i in sorted(set(p.position[rows] // 64)):  # one block, unless the rows straddle two
            for j in range(i + 1):
                stride = vertical_stride * (far_factor if i - j >= far_distance else 1)
                place = j - shift if subtract_offset else j + shift
                near = i - j < local_blocks and place % local_stride == 0
                if near or (place % stride == 0 and (max_distance == 0 or i - j < max_distance)):
                    kept[rows, 64 * j : 64 * j + 64] = True
    return kept & p.causal


def stripes_for_share(line_sums, share):
    return np.flatnonzero(top_share(np.array([line_sums[s : s + 128].sum() for s in range(0, len(line_sums), 128)]), share))


# SampleAttention, Table 6, up to 16K tokens: alpha_c, alpha_s, chunk_n.
SAMPLE_SHORT = {1: (0.98, 0.90, 1), 2: (0.85, 0.85, 1), 3: (0.98, 0.95, 1), 4: (0.85, 0.85, 1)}


def sample_attention(p, b, h, alpha_c, alpha_s, chunk_n, own_rows_only, keep_diagonal, by_length):
    if by_length not in (0, "off"):  # a dump has a choice's place, a configuration its name
        assert p.num_visible < 16384
        alpha_c, alpha_s, chunk_n = SAMPLE_SHORT[by_length]
    chunks = min(chunk_n, p.seq_q)
    ends = [0] + [int(np.floor(p.seq_q * (i + 1) / chunks + 0.5)) for i in range(chunks)]
    tile_of_row = np.arange(p.seq_q) // 128
    kept = np.zeros_like(p.causal)
    for begin, end in zip(ends, ends[1:]):
        columns, slashes = p.line_sums(b, h, np.arange(max(begin, end - 128), end))
        chosen = np.zeros_like(p.causal)
        for stripe in stripes_for_share(columns, alpha_c):
            chosen[:, 128 * stripe : 128 * stripe + 128] = True
        for stripe in stripes_for_share(slashes, alpha_s):
            for tile in range(tile_of_row[-1] + 1):
                first = p.first_position + 128 * tile
                # Key blocks that hold a key at an offset of the stripe from any of the tile's 128 places.
                lowest, highest = first - 128 * stripe - 127, first + 127 - 128 * stripe
                for block in range((p.seq_k + 127) // 128):
                    if 128 * block <= highest and 128 * block + 127 >= lowest:
                        chosen[tile_of_row == tile, 128 * block : 128 * block + 128] = True
        if own_rows_only:
            own = np.isin(tile_of_row, tile_of_row[begin:end])
            chosen &= own[:, None]
        kept |= chosen
    if keep_diagonal:
        for tile in range(tile_of_row[-1] + 1):
            first = p.first_position + 128 * tile
            kept[tile_of_row == tile, 128 * (first // 128) :] = True
    return kept & p.causal


PREFILL = {
    "dense": dense,
    "a-shape": a_shape,
    "vertical-slash": vertical_slash,
    "block-sparse": block_sparse,
    "s2-attention": s2_attention,
    "sample-attention": sample_attention,
    "static-index": static_index,
} | prefill_definitions.METHODS


DECODE = decode_definitions.METHODS


def attend(p, b, h, kept, sampling=1.0):
    """Softmax over the kept set, renormalised, each token `sampling` times: output [seq_q, head_dim] and natural-log LSE."""
    scores = np.where(kept, p.scores(b, h), -np.inf)
    top = np.where(kept.any(axis=1), scores.max(axis=1), 0)
    weights = np.exp(scores - top[:, None]) * sampling
    total = weights.sum(axis=1)
    with np.errstate(divide="ignore"):
        lse = np.where(total > 0, top + np.log(total), -np.inf)
    return weights @ p.v[b, h // p.group] / np.where(total > 0, total, 1)[:, None], lse


class Report:
    def __init__(self):
        self.compared = self.ambiguous = self.failed = 0

    def fail(self, number, p, message):
        self.failed += 1
        if self.failed <= 20:
            print(f"case {number} ({p.method} {p.parameters}, q {p.seq_q}, k {p.seq_k}, first {p.first_position}): {message}")


def close(actual, expected, tolerance):
    finite = np.isfinite(expected)
    return np.array_equal(np.isfinite(actual), finite) and np.allclose(actual[finite], expected[finite], rtol=tolerance, atol=tolerance)


def check_prefill(p, folder, number, report):
    kept = p.read(folder, number, "kept", (p.batch, p.num_qo_heads, p.seq_q, p.seq_k), np.uint8).astype(bool)
    output = p.read(folder, number, "o", p.q.shape)
    lse = p.read(folder, number, "lse", p.q.shape[:3])
    for b in range(p.batch):
        for h in range(p.num_qo_heads):
            if h == number % p.num_qo_heads:  # executors know no method: a head of every mask is enough
                reference, reference_lse = attend(p, b, h, kept[b, h])
                if not close(output[b, h], reference, 2e-6) or not close(lse[b, h], reference_lse, 2e-6):
                    report.fail(number, p, f"head {h}: the reference executor's output differs from NumPy's")
            try:
                expected = PREFILL[p.method](p, b, h, **p.parameters)
            except Ambiguous:
                report.ambiguous += 1
                continue
            report.compared += 1
            if not np.array_equal(kept[b, h], expected):
                row, column = np.argwhere(kept[b, h] != expected)[0]
                report.fail(number, p, f"head {h} row {row} column {column}: headscope {kept[b, h, row, column]}, here {expected[row, column]}")


def check_decode(p, folder, number, report):
    kept = p.read(folder, number, "kept", (p.batch, p.num_kv_heads, p.seq_k), np.uint8).astype(bool)
    output = p.read(folder, number, "o", p.q.shape)
    lse = p.read(folder, number, "lse", p.q.shape[:3])
    moved = np.fromfile(folder / f"{number}.moved", np.int64)[0]
    weights = np.fromfile(folder / f"{number}.weights", np.float32)
    reallocated = (folder / f"{number}.alpha").stat().st_size > 0
    if reallocated:
        alpha = p.read(folder, number, "alpha", (p.batch, p.num_qo_heads))
        mean = p.read(folder, number, "mean", (p.batch, p.num_kv_heads, p.head_dim))
    for b in range(p.batch):
        for kv in range(p.num_kv_heads):
            try:
                expected, expected_alpha, expected_mean, expected_moved, *sampling = DECODE[p.method](p, b, kv, **p.parameters)
            except Ambiguous:
                report.ambiguous += 1
                continue
            report.compared += 1
            if not np.array_equal(kept[b, kv], expected):
                report.fail(number, p, f"KV head {kv}: tokens {np.flatnonzero(kept[b, kv] != expected)} differ")
                continue
            before = kept.reshape(-1, p.seq_k)[: b * p.num_kv_heads + kv].sum()
            if sampling and not close(weights[before : before + expected.sum()], sampling[0][expected], 1e-6):
                report.fail(number, p, f"KV head {kv}: the sampled tokens' weights differ")
            if expected_moved is not None and moved != expected_moved:
                report.fail(number, p, f"{moved} elements moved, here {expected_moved}")
            if reallocated != (expected_alpha is not None):
                report.fail(number, p, "mean-value term present on one side only")
                continue
            heads = slice(kv * p.group, (kv + 1) * p.group)
            if reallocated and not (close(alpha[b, heads], expected_alpha, 1e-5) and close(mean[b, kv], expected_mean, 1e-6)):
                report.fail(number, p, f"KV head {kv}: alpha {alpha[b, heads]}, here {expected_alpha}, or the mean value differs")
            for g, h in enumerate(range(heads.start, heads.stop)):
                row, row_lse = attend(p, b, h, expected[None, :], *sampling)
                if reallocated:
                    row = expected_alpha[g] * row + (1 - expected_alpha[g]) * expected_mean
                if not close(output[b, h], row, 2e-5) or not close(lse[b, h], row_lse, 2e-6):
                    report.fail(number, p, f"head {h}: the decode reference's output differs from NumPy's")


def check_generation(p, folder, number, report):
    steps = p.seq_k - p.prompt
    kept = p.read(folder, number, "kept", (steps, p.batch, p.num_kv_heads, p.seq_k), np.uint8).astype(bool)
    if (folder / f"{number}.weights").exists():
        weights = p.read(folder, number, "weights", (steps, p.batch, p.num_kv_heads, p.group, p.seq_k))
    if p.rope:
        p.q_pre_rope = p.read(folder, number, "q_pre_rope", p.q.shape)
        p.value_norms = p.read(folder, number, "value_norms", (p.batch, p.num_qo_heads, p.prompt))
    for b in range(p.batch):
        try:
            for step, expected in enumerate(eviction_definitions.METHODS[p.method](p, b, **p.parameters)):
                report.compared += p.num_kv_heads
                if isinstance(expected, tuple):
                    expected, weighed = expected
                    if not close(weights[step, b], weighed, 1e-3):
                        report.fail(number, p, f"step {step}: the sampled tokens' weights differ")
                        break
                if not np.array_equal(kept[step, b], expected):
                    kv, token = np.argwhere(kept[step, b] != expected)[0]
                    report.fail(number, p, f"prompt {p.prompt} step {step} KV head {kv} token {token}: headscope {kept[step, b, kv, token]}, here {expected[kv, token]}")
                    break
            if p.method == "think":
                check_components(p, folder, number, b, report)
        except Ambiguous:
            report.ambiguous += p.num_kv_heads


def check_components(p, folder, number, b, report):
    parts = eviction_definitions.think_components(p, b, **p.parameters)
    if (folder / f"{number}.components").exists() != (parts is not None):
        report.fail(number, p, "keys lose components on one side only")
    if parts is None:
        return
    numbers = np.fromfile(folder / f"{number}.components", np.int32)
    left = numbers[:-1].reshape(p.batch, p.num_kv_heads, p.head_dim)[b].astype(bool)
    if numbers[-1] != parts[1] or not np.array_equal(left, parts[0]):
        report.fail(number, p, f"components {np.argwhere(left != parts[0])} or the number of keys differ")
    output = p.read(folder, number, "o", (p.batch, p.num_qo_heads, p.head_dim))[b]
    if not close(output, eviction_definitions.think_output(p, b, parts), 2e-5):
        report.fail(number, p, "the decode reference's output differs from NumPy's")


def write_recorded_heads(trace, path, layer, kv_head, tokens=600):
    """The query heads of a KV head, cut to the first tokens: causal rows do not see what is left out."""
    import h5py

    with h5py.File(trace, "r") as file:
        model, attention = file["model"].attrs, file["attention"]
        group = int(model["num_qo_heads"]) // int(model["num_kv_heads"])
        heads = slice(kv_head * group, (kv_head + 1) * group)
        q, k, v = attention["q"][layer, heads, :tokens], attention["k"][layer, kv_head, :tokens], attention["v"][layer, kv_head, :tokens]
        with open(path, "wb") as out:
            np.array([q.shape[0], q.shape[2], q.shape[1]], np.int32).tofile(out)
            for values in (q, k, v):
                values.astype(np.float32).tofile(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dump_program")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    parser.add_argument("--trace")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    report, methods, at_defaults = Report(), set(), set()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # Of a trace three KV heads: of an early, a middle and a late layer.
        heads = [(1, 0), (5, 1), (8, 2)] if arguments.trace else [None]
        cases = 0
        for place in heads:
            command = [arguments.dump_program, name, str(arguments.seed)]
            if place is not None:
                write_recorded_heads(arguments.trace, folder / "heads", *place)
                command.append(str(folder / "heads"))
            subprocess.run(command, check=True)
            numbers = sorted(int(path.stem) for path in folder.glob("*.json"))
            cases += len(numbers)
            for number in numbers:
                p = Problem(folder, number)
                methods.add((p.phase, p.method))
                compared = report.compared
                {"prefill": check_prefill, "decode": check_decode, "generation": check_generation}[p.phase](p, folder, number, report)
                if p.at_defaults and report.compared > compared:
                    at_defaults.add((p.phase, p.method))
    print(f"{cases} cases, {report.compared} heads compared, {report.ambiguous} ambiguous, {report.failed} differences")
    known = {("prefill", m) for m in PREFILL} | {("decode", m) for m in DECODE} | {("generation", m) for m in eviction_definitions.METHODS}
    # Twilight is a generation over some selectors alone, which its usual one is not.
    for what, missing in (("case", known - methods), ("comparison at the defaults", known - at_defaults - {("generation", "twilight")} if not arguments.trace else set())):
        if missing:
            print(f"no {what} of {sorted(missing)}")
            return 1
    allowed = AMBIGUOUS_SHARE_RECORDED if arguments.trace else AMBIGUOUS_SHARE
    if report.ambiguous > allowed * (report.compared + report.ambiguous):
        print("too many ambiguous heads: the comparison says little")
        return 1
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
