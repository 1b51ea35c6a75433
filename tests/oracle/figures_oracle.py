#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recomputes the numbers of headscope's figures and of quantisation in NumPy and compares.

    figures_oracle.py HEADSCOPE TRACE.h5

The definitions are those of docs/figures.md and docs/analysis.md ("Quantisation"), applied to whole probability matrices in float64. Figures
that compare traces are given its first half as well. Numbers must agree to a relative 1e-4; what jumps where rounding swaps two keys, to 1e-3.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import h5py
import numpy as np

import analysis_oracle
from analysis_oracle import Facts, Head, check, failures, read
from kept_set_rules import random_subspace

HEADS = [(4, 3), (5, 3), (8, 4)]
ROWS = 96  # asked for with --max-rows


def spaced(count, asked):
    """The last of each of `asked` even parts; all rows where there are fewer."""
    parts = min(asked, count) if asked else count
    return np.array([(i + 1) * count // parts - 1 for i in range(parts)])


def top_mask(values, k):
    """Of each row the k largest; equal values: the lower index."""
    order = np.argsort(-values, axis=-1, kind="stable")[..., :k]
    mask = np.zeros(values.shape, bool)
    np.put_along_axis(mask, order, True, axis=-1)
    return mask


def coverage(heads):
    exact, estimated = [], {name: [] for name in ("1", "sqrt(r)", "sqrt(d)", "equation 9")}
    for head in heads:
        size = head.q.shape[1]
        r = min(32, size // 2)
        scale = 1 / np.sqrt(size)
        for row in spaced(len(head.q), 16):
            columns = np.flatnonzero(head.attended[row])
            if len(columns) <= 128:
                continue
            p, q = head.p[row, columns], head.q[row]
            best = top_mask(p, 128)
            exact.append(p[best].sum())
            largest = np.argsort(-np.abs(q), kind="stable")[:r]
            products = head.k[columns][:, largest] @ q[largest]
            share = np.abs(q[largest]).sum() / np.abs(q).sum()
            for name, divisor in (("1", 1), ("sqrt(r)", np.sqrt(r)), ("sqrt(d)", np.sqrt(size)), ("equation 9", np.sqrt(size * share))):
                weights = np.exp((products - products.max()) / divisor)
                estimated[name].append(weights[best].sum() / weights.sum())
        assert np.isclose(head.scores[5, 3], scale * head.q[5] @ head.k[3], rtol=1e-3), "the trace's scale is not head_dim^-0.5"
    exact = np.array(exact)
    return exact, np.array(estimated["equation 9"]), [np.sqrt(np.mean((np.array(some) - exact) ** 2)) for some in estimated.values()]


def projections(head, kv_head):
    """Agreement of the 32 best keys by an eighth of the numbers: components of q, or subspaces."""
    size = head.q.shape[1]
    r, shares = size // 8, []
    # The eigenvectors of the keys' covariance with the largest eigenvalues: eigh has them last.
    subspaces = random_subspace(r, size, kv_head), np.linalg.eigh(np.cov(head.k.T))[1][:, -r:].T
    for row in spaced(len(head.q), ROWS):
        columns = head.num_attended[row]
        if columns <= 32:
            continue
        q, keys = head.q[row], head.k[np.flatnonzero(head.attended[row])]
        chosen = np.argsort(-np.abs(q), kind="stable")[:r], np.arange(r), np.arange(size - r, size)
        estimates = [keys[:, some] @ q[some] for some in chosen] + [keys @ basis.T @ (basis @ q) for basis in subspaces]
        best = top_mask(keys @ q, 32)
        shares.append([np.count_nonzero(best & top_mask(estimate, 32)) / 32 for estimate in estimates])
    return np.mean(shares, axis=0)


def query_density(head):
    """By a Gaussian kernel of bandwidth 0.2, of the looked-at rows' components; beside the standard normal's."""
    q = head.q[spaced(len(head.q), ROWS)].ravel()
    z, places = (q - q.mean()) / q.std(), np.linspace(-8, 8, 161)
    normal = lambda x: np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    return places, normal((places[:, None] - z[None, :]) / 0.2).mean(axis=1) / 0.2, normal(places)


def sparsity_by_length(heads):
    lengths = [len(heads[0].k)]
    while lengths[-1] // 2 >= 128:
        lengths.append(lengths[-1] // 2)
    lengths.reverse()
    curves = {}
    for target in (0.90, 0.95, 0.99):
        curve = []
        for length in lengths:
            values = []
            for head in heads:
                rows = spaced(np.count_nonzero(head.positions < length), 64)
                running = np.cumsum(-np.sort(-head.p[rows], axis=1), axis=1)
                needed = np.minimum((running < target).sum(axis=1) + 1, head.num_attended[rows])
                values.append(1 - needed.sum() / head.num_attended[rows].sum())
            curve.append(np.mean(values))
        curves[f"CRA {target:.2f}"] = curve
    return lengths, curves


def stripes(heads):
    ratios = (2.5, 5, 10, 20, 40, 60, 80, 100)
    curves = {}
    for name in ("all scores", "sampled scores"):
        least, mean = np.zeros(len(ratios)), np.zeros(len(ratios))
        for head in heads:
            rows, tokens = head.p.shape
            chosen = np.arange(rows)
            if name == "sampled scores":
                ends = [rows // 2, rows]
                chosen = np.concatenate([np.arange(max(begin, end - 128), end) for begin, end in zip([0] + ends, ends)])
            attended = head.attended[chosen]
            columns = head.p[chosen].sum(axis=0)
            slashes = np.bincount(head.distance[chosen][attended], weights=head.p[chosen][attended], minlength=tokens)
            looked = spaced(rows, ROWS)
            for i, ratio in enumerate(ratios):
                count = int(np.ceil(ratio / 100 * tokens))
                by_column, by_slash = top_mask(columns, count), top_mask(slashes, count)
                kept = head.attended[looked] & (by_column[None, :] | by_slash[np.maximum(head.distance[looked], 0)])
                mass = np.where(kept, head.p[looked], 0).sum(axis=1)
                least[i] += mass.min() / len(heads)
                mean[i] += mass.mean() / len(heads)
        curves[name] = np.minimum(least, 1), mean
    return curves


def line_sums(head):
    """Of the looked-at rows of each quarter the mean mass by bins of keys and of distances; by blocks of 128 of all of them."""
    rows, tokens = spaced(len(head.p), ROWS), len(head.k)
    quarter, place = rows * 4 // len(head.p), np.arange(tokens) * 256 // tokens
    columns, slashes = [], []
    for chunk in range(4):
        some = rows[quarter == chunk]
        columns.append(np.bincount(place, weights=head.p[some].sum(axis=0)) / len(some))
        here = head.attended[some]
        slashes.append(np.bincount(place[head.distance[some][here]], weights=head.p[some][here], minlength=256) / len(some))
    blocks = np.full((32, 32), np.nan)
    for block in range(32):
        some = rows[head.positions[rows] // 128 == block]
        if len(some):
            mass = np.bincount(np.arange(tokens) // 128, weights=head.p[some].sum(axis=0)) / len(some)
            blocks[block, : block + 1] = np.log10(mass[: block + 1])
    return columns, slashes, blocks


def value_axes(files, layers, kv_heads):
    """Excess correlation ratio along every axis of [prompt, token, layer, KV head, component]."""
    facts = [[Facts(file, layer) for layer in layers] for file in files]
    v = np.array([[[read(of.group["v"], of.slot, head)[-1024:] for head in kv_heads] for of in of_file] for of_file in facts]).transpose(0, 3, 1, 2, 4)
    ratios = []
    for axis, size in enumerate(v.shape):
        if size > 1:
            explained = np.broadcast_to(v.mean(axis=axis, keepdims=True), v.shape)
            ratios.append(explained.std() / v.std() - size**-0.5)
    return ratios


def column_sums(head):
    return head.p[spaced(len(head.p), ROWS)].sum(axis=0)


def recall(sums, columns_of):
    best = np.argsort(-columns_of, kind="stable")[:max(1, len(sums) // 32)]
    return sums[best[best < len(sums)]].sum() / sums.sum()


def best_keys(head, row):
    return set(np.flatnonzero(top_mask(np.where(head.attended[row], head.scores[row], -np.inf), 64)))


def index_reuse(heads):
    """By rows apart, and of 5:3 with 4:3, the only heads whose layer before has the same head."""
    rows = [row for row in spaced(len(heads[0].q), 64) if heads[0].positions[row] >= 128]
    apart = [2**i for i in range(9)]
    by_distance = []
    for distance in apart:
        values = [np.mean([len(best_keys(head, row) & best_keys(head, row - distance)) / 64 for row in rows if row >= distance]) for head in heads]
        by_distance.append(np.mean(values))
    below = np.mean([len(best_keys(heads[1], row) & best_keys(heads[0], row)) / 64 for row in rows])
    return apart, by_distance, below


def weight_by_distance(head):
    rows = spaced(len(head.p), ROWS)
    attended, distance = head.attended[rows], head.distance[rows]
    bins = np.where(distance > 0, np.floor(np.log2(np.maximum(distance, 1))) + 1, 0).astype(int)
    found = []
    for index in range(bins[attended].max() + 1):
        here = attended & (bins == index)
        found.append((2.0**index, head.p[rows][here].mean(), head.scores[rows][here].mean()))
    return np.array(found).T


FORMATS = {"fp8-e4m3": 448, "int8": 127, "int4": 7, "mxfp4": 6}


def nearest(values, name):
    """Of a tie the even one."""
    size = np.minimum(np.abs(values), FORMATS[name])
    if name.startswith("int"):
        return np.sign(values) * np.rint(size)
    mantissa_bits, least_exponent = {"fp8-e4m3": (3, -6), "mxfp4": (1, 0)}[name]
    exponent = np.maximum(np.frexp(size)[1] - 1, least_exponent)  # below the least one the numbers are as far apart as at it
    step = np.ldexp(1.0, exponent - mantissa_bits)
    return np.sign(values) * np.rint(size / step) * step


def hadamard(size):
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix / np.sqrt(size)


def quantised(values, name, group, turned, largest):
    matrix = hadamard(values.shape[1]) if turned else np.eye(values.shape[1])
    x = (values @ matrix).astype(np.float32).astype(float)
    if name == "mxfp4":
        blocks = x.reshape(len(x), -1, 32)
        scale = 2.0 ** (np.floor(np.log2(np.abs(blocks).max(axis=2, keepdims=True))) - 2)
        return (nearest(blocks / scale, name) * scale).reshape(x.shape) @ matrix, scale.ravel()
    axis = {"tensor": None, "head": None, "channel": 0, "token": 1}[group]
    scale = largest if group == "tensor" else np.abs(x).max(axis=axis, keepdims=True)
    scale = np.float32(scale / np.float32(FORMATS[name]))
    return nearest((x / scale).astype(np.float32), name) * scale @ matrix, scale.ravel()


def attend(head, q, k, v, rows):
    scores = np.where(head.attended[rows], q[rows] @ k.T / np.sqrt(q.shape[1]), -np.inf)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True) @ v


def compare_quantisation(run, file, heads):
    some = HEADS[::2]
    said = run("quantise", more=["--all-scales"], heads=",".join(f"{a}:{b}" for a, b in some))
    assert said["schema"] == "headscope-quantisation-1", said["schema"]
    largest, references = {}, {}
    for entry in said["results"]:
        layer, number = entry["layer"], entry["head"]
        head = heads[HEADS.index((layer, number))]
        key = layer, entry["hadamard"]
        if entry["scale"] == "tensor" and key not in largest:
            turn = lambda x: x @ hadamard(x.shape[1]) if key[1] else x
            facts = Facts(file, layer)
            largest[key] = [max(np.abs(turn(read(facts.group[name], facts.slot, one))).max() for one in range(facts.group[name].shape[1])) for name in "qkv"]
        rows = spaced(len(head.q), ROWS)
        rounded, scales = zip(*[quantised(getattr(head, name), entry["format"], entry["scale"], entry["hadamard"], of_layer)
                                for name, of_layer in zip("qkv", largest.get(key, [None] * 3), strict=True)])
        label = f"{layer}:{number} {entry['format']} {entry['scale']} {'turned' if entry['hadamard'] else 'plain'}"
        for name, x in zip("qkv", rounded, strict=True):
            exact = getattr(head, name)
            # One value that fp32 puts on the other side of a tie moves the whole by next to nothing.
            check(f"{label} error of {name}", entry[f"{name}_error"], np.linalg.norm(x - exact) / np.linalg.norm(exact), 2e-3, 1e-6)
        for name, of_tensor in zip("qkv", scales, strict=True):
            found = np.array(entry[f"{name}_scales"])
            check(f"{label} number of scales of {name}", found.size, of_tensor.size)
            if entry["format"] == "mxfp4":  # a power of two, which rounding may put beside its neighbour
                check(f"{label} scales of {name}", np.mean(found == of_tensor) > 0.999, True)
            else:
                check(f"{label} scales of {name}", found, of_tensor, 1e-5)
        if layer not in references:
            references[layer] = attend(head, head.q, head.k, head.v, rows)
        reference, output = references[layer], attend(head, *rounded, rows)
        check(f"{label} error of the output", entry["relative_error"], np.linalg.norm(output - reference) / np.linalg.norm(reference), 1e-2, 1e-6)


def series(figure, panel, name):
    return next(one for one in figure["panels"][panel]["series"] if one["name"].endswith(name))


def main():
    program, trace = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        other = str(pathlib.Path(folder) / "half.h5")
        subprocess.run([program, "export", trace, "--tokens", "0:2048", "-o", other], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def run(command, *traces, more=(), heads=",".join(f"{a}:{b}" for a, b in HEADS)):
            out = pathlib.Path(folder) / "out.json"
            asked = [program, command, *(traces or [trace]), "--heads", heads, "--max-rows", str(ROWS), "--quiet", "--force"]
            subprocess.run([*asked, *more, "-o", out], check=True)
            return json.loads(out.read_text())

        def figure(name, *traces):
            said = run("render", *traces, more=("--figure", name))
            assert said["schema"] == "headscope-figure-1" and said["figure"] == name, said["figure"]
            return said

        with h5py.File(trace, "r") as file, h5py.File(other, "r") as second:
            heads = [Head(file, *id) for id in HEADS]
            others = [Head(second, *id) for id in HEADS]

            said = figure("coverage")
            exact, estimated, errors = coverage(heads)
            check("coverage, exact", said["panels"][0]["series"][0]["x"], exact)
            check("coverage, estimated", said["panels"][0]["series"][0]["y"], estimated, 1e-3)
            check("coverage, errors", said["panels"][1]["series"][0]["y"], errors, 1e-3)

            said = figure("projections")
            expected = np.array([projections(head, number // 2) for head, (_, number) in zip(heads, HEADS, strict=True)])
            check("agreement of projections by layer", [one["y"] for one in said["panels"][0]["series"]], expected.T, 1e-3, 5e-4)
            check("agreement of projections", said["panels"][1]["series"][0]["y"], expected.mean(axis=0), 1e-3, 5e-4)

            said = figure("query-density")
            places, density, normal = query_density(heads[1])  # the middle one of their layers
            check("density of q", [series(said, 0, "head 3")[axis] for axis in "xy"], [places, density], absolute=1e-9)
            check("density of a Gaussian", series(said, 0, "Gaussian")["y"], normal, absolute=1e-12)
            check("densities of q", len(said["panels"][0]["series"]), 2)

            said = figure("kurtosis")
            for head, layer in zip(heads, said["panels"][2]["series"][0]["x"], strict=True):
                check(f"outliers of q in layer {layer}", said["panels"][2]["series"][0]["y"][heads.index(head)], analysis_oracle.outliers(head.q))

            said = figure("sparsity-by-length")
            lengths, curves = sparsity_by_length(heads)
            for name, curve in curves.items():
                check(f"sparsity by length, {name}, lengths", series(said, 0, name)["x"], lengths)
                check(f"sparsity by length, {name}", series(said, 0, name)["y"], curve, absolute=1e-5)
                check(f"kept by length, {name}", series(said, 1, name)["y"], 1 - np.array(curve), absolute=1e-5)

            said = figure("stripes")
            for name, (least, mean) in stripes(heads).items():
                check(f"stripes by {name}, least", series(said, 0, name)["y"], least, 1e-3)
                check(f"stripes by {name}, mean", series(said, 1, name)["y"], mean, 1e-3)

            said = figure("line-sums")
            for at in range(0, len(said["panels"]), 3):
                id = tuple(map(int, re.search(r"\((\d+):(\d+)\)", said["panels"][at]["title"]).groups()))
                columns, slashes, blocks = line_sums(heads[HEADS.index(id)])
                check(f"columns of {id}", [one["y"] for one in said["panels"][at]["series"]], columns, absolute=1e-9)
                check(f"slashes of {id}", [one["y"] for one in said["panels"][at + 1]["series"]], slashes, absolute=1e-9)
                found = [[np.nan if one is None else one for one in row["y"]] for row in said["panels"][at + 2]["series"]]
                check(f"blocks of {id}, empty ones", np.isnan(found), np.isnan(blocks))
                check(f"blocks of {id}", np.nan_to_num(found), np.nan_to_num(blocks))

            said = figure("column-recall")
            for head, id in zip(heads, HEADS, strict=True):
                row = next(one for one in said["panels"][0]["series"] if one["name"] == str(id[0]))
                column = said["panels"][0]["categories"].index(str(id[1]))
                check(f"column recall {id}", row["y"][column], recall(column_sums(head), column_sums(head)))

            said = run("render", trace, other, more=("--figure", "v-axes"), heads="4:2,4:3,4:4,8:2,8:5,8:4")
            check("V along its axes", said["panels"][0]["series"][0]["y"], value_axes((file, second), (4, 8), (1, 2)))
            check("axes of V", said["panels"][0]["categories"] == ["prompt", "sequence", "layer", "head", "component"], True)

            said = figure("index-transfer", trace, other)
            both = [[column_sums(head) for head in some] for some in (heads, others)]
            expected = [[np.mean([recall(a, b) for a, b in zip(of, source, strict=True)]) for source in both] for of in both]
            check("index transfer", [row["y"] for row in said["panels"][0]["series"]], expected)

            said = figure("index-reuse")
            apart, by_distance, below = index_reuse(heads)
            check("reuse by rows apart, rows", said["panels"][0]["series"][0]["x"], apart)
            check("reuse by rows apart", said["panels"][0]["series"][0]["y"], by_distance, 1e-3, 5e-4)
            layers = said["panels"][1]["series"][0]
            check("reuse of the layer before", layers["y"][layers["x"].index(5)], below, 1e-3, 5e-4)
            check("no layer before", [layers["y"][i] is None for i, layer in enumerate(layers["x"]) if layer != 5], [True, True])

            said = figure("weight-by-distance")
            for head, (layer, _) in zip(heads, HEADS, strict=True):
                distance, weight, logit = weight_by_distance(head)
                check(f"distances of layer {layer}", series(said, 0, f"layer {layer}")["x"], distance)
                check(f"weight by distance, layer {layer}", series(said, 0, f"layer {layer}")["y"], weight)
                check(f"logit by distance, layer {layer}", series(said, 1, f"layer {layer}")["y"], logit, absolute=1e-5)

            compare_quantisation(run, file, heads)
    for failure in failures:
        print("FAILED", failure)
    print(f"{analysis_oracle.checks - len(failures)} of {analysis_oracle.checks} comparisons agree")
    return 1 if failures or analysis_oracle.checks == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
