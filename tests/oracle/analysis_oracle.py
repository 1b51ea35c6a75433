#!/usr/bin/env python3
"""Recomputes headscope's statistics, masses and tiles of a trace in float64 and compares.

    analysis_oracle.py DUMP_PROGRAM [--trace TRACE.h5 --heads 0:1,2:3]

Reads the trace with h5py, makes the whole probability matrix of a head and applies the definitions of docs/analysis.md directly: sorts
whole rows, sums whole masks. Statistics must agree to a relative 1e-4, masses to 1e-5, tiles to 1e-4 in log2.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np

SINKS, LOCAL, LINES, BLOCK, FAR_TOKENS, BINS, PEAK_SHARE = 4, 128, 16, 64, 4, 256, 0.02
failures = []
checks = 0


def check(name, actual, expected, relative=1e-4, absolute=1e-6):
    global checks
    checks += 1
    actual, expected = np.asarray(actual, float), np.asarray(expected, float)
    if actual.shape != expected.shape or not np.all(np.abs(actual - expected) <= relative * np.abs(expected) + absolute):
        worst = np.max(np.abs(actual - expected)) if actual.shape == expected.shape else "shapes differ"
        failures.append(f"{name}: headscope {actual.ravel()[:4]}, NumPy {expected.ravel()[:4]}, difference {worst}")


def read(dataset):
    """Values as float32, whatever the file's encoding (HDF5 converts)."""
    values = np.empty(dataset.shape, np.float32)
    dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, values, mtype=h5py.h5t.NATIVE_FLOAT)
    return values.astype(np.float64)


class Head:
    def __init__(self, file, layer, head):
        attention = file["attention"]
        layers, heads = list(attention["layers"][:]), list(attention["qo_heads"][:])
        kv_heads, model = list(attention["kv_heads"][:]), file["model"].attrs
        group = int(model["num_qo_heads"]) // int(model["num_kv_heads"])
        slot, head_slot, kv_slot = layers.index(layer), heads.index(head), kv_heads.index(head // group)
        self.positions = attention["q_rows"][:].astype(int)
        self.q = read(attention["q"])[slot, head_slot]
        self.k = read(attention["k"])[slot, kv_slot]
        self.lse = read(attention["lse"])[slot, head_slot]
        self.scores = self.q @ self.k.T / np.sqrt(self.q.shape[1])
        self.distance = self.positions[:, None] - np.arange(len(self.k))[None, :]
        self.causal = self.distance >= 0
        self.p = np.where(self.causal, np.exp(self.scores - self.lse[:, None]), 0.0)


def top_set(scores, k):
    return set(np.argsort(-scores, kind="stable")[:k])


def statistics(head):
    p, causal, distance = head.p, head.causal, head.distance
    rows, tokens = p.shape
    columns = np.arange(tokens)[None, :]
    result = {}
    centred = head.q - head.q.mean(axis=1, keepdims=True)
    result["kurtosis"] = np.mean(np.mean(centred**4, axis=1) / np.mean(centred**2, axis=1) ** 2 - 3)
    result["entropy_nats"] = np.mean(np.sum(np.where(causal, p * (head.lse[:, None] - head.scores), 0), axis=1))
    result["max_probability"] = p.max(axis=1).mean()
    result["sink_mass"] = p[:, :SINKS].sum(axis=1).mean()
    result["local_mass"] = np.where(causal & (distance < LOCAL), p, 0).sum(axis=1).mean()
    far = np.where(causal & (distance >= LOCAL) & (columns >= SINKS), p, 0)
    result["vertical_mass"] = np.sort(far.sum(axis=0))[-LINES:].sum() / rows
    by_distance, far_by_distance = np.zeros(tokens), np.zeros(tokens)
    np.add.at(by_distance, distance[causal], p[causal])
    np.add.at(far_by_distance, distance[causal], far[causal])
    result["slash_mass"] = np.sort(far_by_distance)[-LINES:].sum() / rows
    block_sum = 0
    for block in np.unique(head.positions // BLOCK):
        key_sums = np.bincount(np.arange(tokens) // BLOCK, weights=far[head.positions // BLOCK == block].sum(axis=0))
        block_sum += np.sort(key_sums)[-LINES:].sum()
    result["block_mass"] = block_sum / rows
    retrieval = np.sort(far, axis=1)[:, -FAR_TOKENS:].sum(axis=1)
    result["retrieval_mass"] = retrieval.mean()
    result["retrieval_peak"] = np.sort(retrieval)[-int(np.ceil(PEAK_SHARE * rows)):].mean()
    ordered = -np.sort(-p, axis=1)
    for k in [2**i for i in range(11)]:
        result[f"top{k}"] = ordered[:, :k].sum(axis=1).mean()
    running = np.cumsum(ordered, axis=1)
    for target in (0.90, 0.95, 0.99):
        needed = np.minimum((running < target).sum(axis=1) + 1, head.positions + 1)
        result[f"sparsity{target}"] = 1 - needed.sum() / causal.sum()
    for r in (8, 16, 32):
        estimate = np.zeros_like(head.scores)
        for row in range(rows):
            best = np.argsort(-np.abs(head.q[row]), kind="stable")[:r]
            estimate[row] = head.k[:, best] @ head.q[row, best]
        for k in (32, 128):
            shares = [len(top_set(head.scores[i, : n + 1], k) & top_set(estimate[i, : n + 1], k)) / k
                      for i, n in enumerate(head.positions) if n + 1 > k]
            result[f"agreement{r},{k}"] = np.mean(shares) if shares else 1.0
    bins = min(BINS, tokens)
    place = np.arange(tokens) * bins // tokens
    result["column_profile"] = np.bincount(place, weights=p.sum(axis=0)) / rows
    result["diagonal_profile"] = np.bincount(place, weights=by_distance) / rows
    return result


def compare_statistics(name, head, said):
    flat = {key: said[key] for key in said if isinstance(said[key], float)}
    flat.update({f"top{e['k']}": e["mean"] for e in said["top_k_mass"]})
    flat.update({f"sparsity{e['target']}": e["sparsity"] for e in said["sparsity_at_cra"]})
    flat.update({f"agreement{e['r']},{e['k']}": e["mean"] for e in said["top_k_agreement"]})
    flat.update({key: said[key] for key in ("column_profile", "diagonal_profile")})
    for key, expected in statistics(head).items():
        check(f"{name} {key}", flat[key], expected)


def compare_masks(name, head, masks):
    for mask in masks:
        kept = np.zeros_like(head.causal)
        for row, ranges in enumerate(mask["rows"]):
            for begin, end in ranges:
                kept[row, begin:end] = True
        mass = np.where(kept, head.p, 0).sum(axis=1)
        label = f"{name} {mask['method']}"
        check(f"{label} kept mass", mask["kept_mass"], mass, 1e-5)
        check(f"{label} CRA", [mask["cra_min"], mask["cra_mean"]], [mass.min(), mass.mean()], 1e-5)
        check(f"{label} kept fraction", mask["kept_fraction"], (kept & head.causal).sum() / head.causal.sum(), 1e-9, 1e-9)


def compare_tiles(name, head, tiles):
    for tile in tiles:
        step = 2 ** tile["level"]
        size = 256 * step
        p, pairs = np.zeros((size, size)), np.zeros((size, size))
        rows, columns = min(size, head.p.shape[0]), min(size, head.p.shape[1])
        p[:rows, :columns] = head.p[:rows, :columns]
        pairs[:rows, :columns] = head.causal[:rows, :columns]
        cut = lambda a: a.reshape(256, step, 256, step)
        count = cut(pairs).sum(axis=(1, 3))
        with np.errstate(divide="ignore", invalid="ignore"):
            value = cut(p).max(axis=(1, 3)) if tile["by"] == "max" else cut(p).sum(axis=(1, 3)) / count
            expected = np.where(count > 0, np.log2(value), -1e9)
        check(f"{name} tile by {tile['by']} level {tile['level']}", tile["log2_p"], expected.ravel(), 0, 1e-4)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--trace")
    parser.add_argument("--heads", default="")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.program, folder]
        if arguments.trace:
            command += [arguments.trace] + ([arguments.heads] if arguments.heads else [])
        subprocess.run(command, check=True)
        said = json.loads(pathlib.Path(folder, "statistics.json").read_text())
        details = json.loads(pathlib.Path(folder, "details.json").read_text())
        assert said["schema"] == "headscope-statistics-1", said["schema"]
        with h5py.File(arguments.trace or pathlib.Path(folder, "trace.h5"), "r") as file:
            for numbers, detail in zip(said["heads"], details, strict=True):
                head = Head(file, numbers["layer"], numbers["head"])
                name = f"{numbers['layer']}:{numbers['head']}"
                compare_statistics(name, head, numbers)
                compare_masks(name, head, detail["masks"])
                compare_tiles(name, head, detail["tiles"])
    for failure in failures:
        print("FAILED", failure)
    print(f"{checks - len(failures)} of {checks} comparisons agree")
    return 1 if failures or checks == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
