#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recomputes headscope's statistics, masses and tiles of a trace in float64 and compares.

    analysis_oracle.py DUMP_PROGRAM [--trace TRACE.h5 --heads 0:1,2:3 [--classes N]]

Without --trace the program writes one with a layer in a sliding window, one whose layers differ in heads, sizes, window, soft cap, learned sinks
and values that are keys, and a part that it cuts out of its middle: what the part says lies outside
of it is recomputed from the whole trace as well.

Reads the trace with h5py, makes the whole probability matrix of a head and applies the definitions of docs/analysis.md directly: sorts
whole rows, sums whole masks. Statistics must agree to a relative 1e-4, masses to 1e-5, tiles to 1e-4 in log2, classes exactly. --classes: how many
different classes the heads must have at least, so that the heads that were chosen stay a choice.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np

import kept_memory  # noqa: F401

SINKS, LOCAL, LINES, BLOCK, FAR_TOKENS, BINS, PEAK_SHARE = 4, 128, 16, 64, 4, 256, 0.02
ROWS_AT_ONCE = 512
LEAST_LOG2 = -120.0  # probabilities below it count as equal
failures = []
checks = 0


def check(name, actual, expected, relative=1e-4, absolute=1e-6):
    global checks
    checks += 1
    actual, expected = np.asarray(actual, float), np.asarray(expected, float)
    if actual.shape != expected.shape or not np.all(np.abs(actual - expected) <= relative * np.abs(expected) + absolute):
        worst = np.max(np.abs(actual - expected)) if actual.shape == expected.shape else "shapes differ"
        failures.append(f"{name}: headscope {actual.ravel()[:4]}, NumPy {expected.ravel()[:4]}, difference {worst}")


def read(dataset, slot, head_slot):
    """Values of one head as float32, whatever the file's encoding (HDF5 converts)."""
    values, space = np.empty(dataset.shape[2:], np.float32), dataset.id.get_space()
    space.select_hyperslab((slot, head_slot) + (0,) * values.ndim, (1, 1) + values.shape)
    dataset.id.read(h5py.h5s.create_simple(values.shape), space, values, mtype=h5py.h5t.NATIVE_FLOAT)
    return values.astype(np.float64)


class Facts:
    """What a trace says of one recorded layer, and where its tensors are."""

    def __init__(self, file, layer):
        if file.attrs["version"] == 1:  # all layers alike, but for their windows
            self.group, self.sinks = file["attention"], None
            self.slot = list(self.group["layers"][:]).index(layer)
            model, attrs = file["model"].attrs, self.group.attrs
            facts = {"num_qo_heads": model["num_qo_heads"], "num_kv_heads": model["num_kv_heads"], "v_head_dim": model["head_dim"],
                     "softmax_scale": attrs["softmax_scale"], "soft_cap": attrs["soft_cap"], "window": attrs["window_per_layer"][self.slot]}
            self.column = lambda name, usual=0: facts.get(name, usual)
            return
        columns = file["layers"].attrs
        slot = list(columns["layer"]).index(layer)
        self.column = lambda name, usual=0: columns[name][slot] if name in columns else usual
        part = int(columns["part"][slot])
        self.group = file["attention"] if part == 0 else file[f"attention/part_{part}"]
        self.slot = list(self.group["layers"][:]).index(layer)
        self.sinks = None
        if self.column("has_sinks"):
            heads = columns["num_qo_heads"] * columns["has_sinks"]
            self.sinks = file["layers/sinks"][heads[:slot].sum():heads[:slot + 1].sum()]


class Head:
    def __init__(self, file, layer, head):
        facts, attention = Facts(file, layer), file["attention"]
        heads, kv_heads = list(facts.group["qo_heads"][:]), list(facts.group["kv_heads"][:])
        group = facts.column("num_qo_heads") // facts.column("num_kv_heads")
        slot, head_slot, kv_slot = facts.slot, heads.index(head), kv_heads.index(head // group)
        self.positions = attention["q_rows"][:].astype(int)
        self.q = read(facts.group["q"], slot, head_slot)
        self.k = read(facts.group["k"], slot, kv_slot)
        self.v = self.k[:, :facts.column("v_head_dim")] if facts.column("v_is_k") else read(facts.group["v"], slot, kv_slot)
        self.lse = read(facts.group["lse"], slot, head_slot)
        self.sink = None if facts.sinks is None else float(facts.sinks[head])  # learned
        self.sink_share = np.zeros(len(self.q)) if self.sink is None else np.exp(self.sink - self.lse)
        scale, cap = float(facts.column("softmax_scale")), float(facts.column("soft_cap"))
        self.scores = self.q @ self.k.T * (scale or 1 / np.sqrt(self.q.shape[1]))
        if cap:
            self.scores = cap * np.tanh(self.scores / cap)
        self.q_pre_rope = read(facts.group["q_pre_rope"], slot, head_slot) if "q_pre_rope" in facts.group else None
        self.ids = file["tokens/ids"][:]
        self.first_token = int(attention.attrs["first_token"])  # 0: a whole trace
        self.sinks = max(0, SINKS - self.first_token)  # a part that was cut out behind them has none
        self.distance = (self.positions[:, None] - np.arange(len(self.k))[None, :]).astype(np.int32)
        self.window = int(facts.column("window"))  # 0: none
        self.attended = (self.distance >= 0) & (self.distance < (self.window or len(self.k)))
        self.num_attended = self.attended.sum(axis=1)
        # Rows whose every key is in the file: others began to attend before its first token.
        self.complete = (self.first_token == 0) | ((self.window > 0) & (self.positions + 1 >= self.window))
        self.p = np.zeros_like(self.scores)
        for begin in range(0, len(self.p), ROWS_AT_ONCE):
            rows = slice(begin, begin + ROWS_AT_ONCE)
            columns = self.positions[rows].max() + 1  # no row here attends to a later one
            self.p[rows, :columns] = np.where(self.attended[rows, :columns], np.exp(self.scores[rows, :columns] - self.lse[rows, None]), 0.0)


def best(scores, k):
    """Mask of each row's k best columns; equal scores: the lower column."""
    threshold = np.partition(scores, -k, axis=1)[:, -k, None]
    chosen = scores >= threshold
    tied = np.flatnonzero(np.count_nonzero(chosen, axis=1) > k)
    above, equal = scores[tied] > threshold[tied], scores[tied] == threshold[tied]
    chosen[tied] = above | equal & (np.cumsum(equal, axis=1) <= k - above.sum(axis=1, keepdims=True))
    return chosen


def sampled(rows):
    """The rows that statistics which sample look at: the last of each of 1024 even parts."""
    parts = min(rows, 1024)
    return np.array([(i + 1) * rows // parts - 1 for i in range(parts)])


def agreement(head, components, counts):
    """Mean over the sampled rows with more than k columns of the share of the k best that the r largest components of q find; for each (r, k)."""
    order = np.argsort(-np.abs(head.q), axis=1, kind="stable")
    largest = {r: np.zeros_like(head.q) for r in components}
    for r, kept in largest.items():
        np.put_along_axis(kept, order[:, :r], np.take_along_axis(head.q, order[:, :r], axis=1), axis=1)
    shares = {(r, k): [] for r in components for k in counts}
    few = sampled(len(head.q))
    for begin in range(0, len(few), ROWS_AT_ONCE):
        rows = few[begin:begin + ROWS_AT_ONCE]
        columns = head.positions[rows].max() + 1
        attended = head.attended[rows, :columns]
        exact = np.where(attended, head.scores[rows, :columns], -np.inf)
        exactly_best = {k: best(exact[head.num_attended[rows] > k], k) for k in counts if (head.num_attended[rows] > k).any()}
        for r in components:
            estimate = np.where(attended, largest[r][rows] @ head.k[:columns].T, -np.inf)
            for k, expected in exactly_best.items():
                found = best(estimate[head.num_attended[rows] > k], k)
                shares[r, k].append(np.count_nonzero(expected & found, axis=1) / k)
    return {asked: np.concatenate(some).mean() if some else 1.0 for asked, some in shares.items()}


def far_blocks(head, position):
    """How many key blocks the far region of a row at `position` touches; one when it has none."""
    begin, end = max(head.sinks, position - head.window + 1 if head.window else 0), position - LOCAL + 1
    return (end - 1) // BLOCK - begin // BLOCK + 1 if begin < end else 1


def kurtosis(values, axis=None):
    centred = values - values.mean(axis=axis, keepdims=True)
    return np.mean(centred**4, axis=axis) / np.mean(centred**2, axis=axis) ** 2 - 3


def kurtosis_of_gaussian(q):
    """Of the mixture of the components' Gaussians: its moments about the common mean, by E[(d + s z)^4] term by term."""
    offset, deviation = q.mean(axis=0) - q.mean(), q.std(axis=0)
    second = np.mean(offset**2 + deviation**2)
    fourth = np.mean(offset**4 + 6 * offset**2 * deviation**2 + 3 * deviation**4)
    return fourth / second**2 - 3


def outliers(q):
    """Share of the components with |z| > 3, relative to a Gaussian's."""
    z = (q - q.mean()) / q.std()
    return np.mean(np.abs(z) > 3) / math.erfc(3 / math.sqrt(2))


def row_details(head):
    """Statistics of rows, and of whole heads, beyond where the mass lies."""
    result, rows, tokens = {}, len(head.p), len(head.k)
    largest = np.where(head.attended, head.scores, -np.inf).max(axis=1)
    result["largest_logit"], result["row_maximum"], result["lse"] = largest.max(), largest.mean(), head.lse.mean()
    entropy = np.sum(np.where(head.attended, head.p * (head.lse[:, None] - head.scores), 0), axis=1)
    if head.sink is not None:
        entropy += head.sink_share * (head.lse - head.sink)
    result["num_effective_keys"] = np.exp(entropy).mean()
    later = np.flatnonzero(head.positions > 0)
    result["previous_token"] = head.p[later, head.positions[later] - 1].mean()
    few = sampled(rows)
    duplicates, inductions, spikes, scatters, nearest = [], [], [], [], []
    for row in few:
        position = head.positions[row]
        same = np.flatnonzero(head.ids[:position] == head.ids[position])
        if len(same):
            duplicates.append(head.p[row, same].sum())
            inductions.append(head.p[row, same + 1].sum())
        columns = np.arange(tokens)
        far = head.p[row, head.attended[row] & (columns >= head.sinks) & (position - columns >= LOCAL)]
        is_spike = far >= 32 * far.mean() if len(far) and far.sum() else np.zeros(len(far), bool)
        spikes.append(far[is_spike].sum())
        scatters.append(far[~is_spike].sum())
        places = np.flatnonzero(head.p[row] >= 1e-3)
        if len(places) > 1:
            others = min(10, len(places) - 1)
            # In their order, the nearest are among as many before each and as many behind it.
            around = np.lib.stride_tricks.sliding_window_view(np.pad(places.astype(float), others, constant_values=np.inf), 2 * others + 1)
            apart = np.partition(np.abs(places[:, None] - around), others, axis=1)[:, :others + 1]
            nearest.append(apart.sum() / (len(places) * others))  # the first of them is the place itself, 0 apart
    for name, some in (("duplicate_token", duplicates), ("induction", inductions), ("spike_mass", spikes), ("scatter_mass", scatters),
                       ("nearest_nonzero", nearest)):
        result[name] = np.mean(some) if some else 0
    for suffix, q in (("", head.q), ("_pre_rope", head.q_pre_rope)):
        if q is None:
            continue
        result["kurtosis" + suffix] = kurtosis(q, axis=1).mean()
        result["kurtosis_pooled" + suffix], result["kurtosis_gaussian" + suffix] = kurtosis(q), kurtosis_of_gaussian(q)
        result["query_outliers" + suffix] = outliers(q)
    # The values' total variance, and what is left of it when every token has the mean over tokens.
    mean = np.broadcast_to(head.v.mean(axis=0), head.v.shape)
    result["v_correlation"] = mean.std() / head.v.std() - tokens**-0.5
    return result


def class_of(numbers, far_mass, block_chance, rows):
    if numbers["outside_mass"] > 0.05:
        return "unknown"
    line = max(0.0, max(numbers["vertical_mass"], numbers["slash_mass"]) - LINES / rows)
    beyond = far_mass - block_chance
    if numbers["retrieval_peak"] >= 0.6 and line < 0.5 * numbers["retrieval_mass"]:
        return "retrieval-like"
    if far_mass >= 0.15 and line >= 0.5 * far_mass:
        return "vertical-slash"
    near = 1 - numbers["outside_mass"] - numbers["learned_sink_mass"] - far_mass
    if near >= 2 / 3:
        parts = {"sink": numbers["sink_mass"], "local": near - numbers["sink_mass"]}
        largest = max(parts, key=parts.get)
        return largest if parts[largest] >= 2 / 3 * near else "sink+local"
    if numbers["sparsity0.95"] < 0.6:
        return "diffuse"
    return "block" if beyond > 0 and (numbers["block_mass"] - block_chance) / beyond >= 0.5 else "diffuse"


def confidence_of(numbers, far_mass, block_chance, rows):
    """How sure the class is, and which one is nearest: rule by rule, by how far each is from deciding."""
    line = max(0.0, max(numbers["vertical_mass"], numbers["slash_mass"]) - LINES / rows)
    beyond = far_mass - block_chance
    lift = (numbers["block_mass"] - block_chance) / beyond if beyond > 0 else 0
    near = 1 - numbers["outside_mass"] - numbers["learned_sink_mass"] - far_mass
    # Of what is near: which share would have to grow or shrink to two thirds, and what the head would be then.
    sink = numbers["sink_mass"]
    near_class = "sink" if sink >= 2 / 3 * near else "local" if sink <= near / 3 else "sink+local"
    steps = [(abs(sink - 2 / 3 * near), "sink+local" if near_class == "sink" else "sink"), (abs(sink - near / 3), "sink+local" if near_class == "local" else "local")]
    rules = [("unknown", numbers["outside_mass"] - 0.05 if numbers["outside_mass"] > 0 else -np.inf),
             ("retrieval-like", min(numbers["retrieval_peak"] - 0.6, 0.5 * numbers["retrieval_mass"] - line)),
             ("vertical-slash", min(far_mass - 0.15, line - 0.5 * far_mass)),
             (near_class, near - 2 / 3),
             ("diffuse", 0.6 - numbers["sparsity0.95"]), ("block", lift - 0.5), ("diffuse", np.inf)]
    first = next(i for i, (_, margin) in enumerate(rules) if margin > 0)
    name, own = rules[first]
    others = [(-margin, other) for other, margin in rules[:first] if other != name]
    following = next((other for other, margin in rules[first + 1:] if margin > 0), name)
    if following != name:
        others.append((own, following))
    if name == near_class:
        others.append(min(steps))
    margin, alternative = min(others)
    return min(1.0, margin / 0.1), alternative


def statistics(head):
    p, attended, distance = head.p, head.attended, head.distance
    rows, tokens = p.shape
    result = {}
    result["entropy_nats"] = np.mean(np.sum(np.where(attended, p * (head.lse[:, None] - head.scores), 0), axis=1))
    if head.sink is not None:
        result["entropy_nats"] += np.mean(head.sink_share * (head.lse - head.sink))
    result["learned_sink_mass"] = head.sink_share.mean()
    result["max_probability"] = p.max(axis=1).mean()
    result["outside_mass"] = np.where(head.complete, 0, 1 - p.sum(axis=1) - head.sink_share).mean()
    result["sink_mass"] = p[:, :head.sinks].sum(axis=1).mean()
    result["local_mass"] = np.where(distance < LOCAL, p, 0).sum(axis=1).mean()
    far = np.where(distance >= LOCAL, p, 0)
    far[:, :head.sinks] = 0
    result["vertical_mass"] = np.sort(far.sum(axis=0))[-LINES:].sum() / rows
    by_distance = np.bincount(distance[attended], weights=p[attended], minlength=tokens)
    far_by_distance = np.bincount(distance[attended], weights=far[attended], minlength=tokens)
    result["slash_mass"] = np.sort(far_by_distance)[-LINES:].sum() / rows
    block_sum = chance_sum = 0
    for block in np.unique(head.positions // BLOCK):
        chosen = head.positions // BLOCK == block
        key_sums = np.bincount(np.arange(tokens) // BLOCK, weights=far[chosen].sum(axis=0))
        block_sum += np.sort(key_sums)[-LINES:].sum()
        chance_sum += key_sums.sum() * min(1.0, LINES / far_blocks(head, head.positions[chosen].max()))
    result["block_mass"] = block_sum / rows
    retrieval = np.partition(far, tokens - FAR_TOKENS, axis=1)[:, -FAR_TOKENS:].sum(axis=1)
    result["retrieval_mass"] = retrieval.mean()
    result["retrieval_peak"] = np.sort(retrieval)[-int(np.ceil(PEAK_SHARE * rows)):].mean()
    far_mass = far.sum() / rows
    del far
    ordered = -np.sort(-p, axis=1)
    for k in [2**i for i in range(11)]:
        result[f"top{k}"] = ordered[:, :k].sum(axis=1).mean()
    running = np.cumsum(ordered, axis=1, out=ordered)
    for target in (0.90, 0.95, 0.99):
        needed = np.minimum((running < target).sum(axis=1) + 1, head.num_attended)
        result[f"sparsity{target}"] = 1 - needed.sum() / head.num_attended.sum()
    result |= {f"agreement{r},{k}": mean for (r, k), mean in agreement(head, (8, 16, 32), (32, 128)).items()}
    bins = min(BINS, tokens)
    place = np.arange(tokens) * bins // tokens
    result["column_profile"] = np.bincount(place, weights=p.sum(axis=0)) / rows
    result["diagonal_profile"] = np.bincount(place, weights=by_distance) / rows
    few = sampled(rows)
    pairs, logits = distance[few][attended[few]], head.scores[few][attended[few]]
    result["mean_logit"], result["local_logit"] = logits.mean(), logits[pairs < LOCAL].mean()
    in_bins = np.bincount(place[pairs], minlength=bins)
    result["logit_profile"] = np.bincount(place[pairs], weights=logits, minlength=bins)[in_bins > 0] / in_bins[in_bins > 0]
    result |= row_details(head)
    evidence = result, far_mass, chance_sum / rows, rows
    confidence, alternative = confidence_of(*evidence)
    result["class_confidence"] = confidence
    return result, class_of(*evidence), alternative


def compare_statistics(name, head, said):
    flat = {key: said[key] for key in said if isinstance(said[key], float)}
    flat.update({f"top{e['k']}": e["mean"] for e in said["top_k_mass"]})
    flat.update({f"sparsity{e['target']}": e["sparsity"] for e in said["sparsity_at_cra"]})
    flat.update({f"agreement{e['r']},{e['k']}": e["mean"] for e in said["top_k_agreement"]})
    flat.update({key: said[key] for key in ("column_profile", "diagonal_profile", "logit_profile")})
    expected, head_class, alternative = statistics(head)
    unknown = sorted(set(flat) - set(expected))
    check(f"{name}: statistics without a definition here: {unknown}", len(unknown), 0)
    for key, value in expected.items():
        # A running sum that ends within rounding of its target takes one pair more or less.
        # A confidence is ten times a difference of such numbers.
        check(f"{name} {key}", flat[key], value, absolute=1e-5 if key.startswith("sparsity") else 1e-3 if key == "class_confidence" else 1e-6)
    check(f"{name} class {said['class']}, NumPy {head_class}", said["class"] == head_class, True)
    check(f"{name} next class {said['class_alternative']}, NumPy {alternative}", said["class_alternative"] == alternative, True)
    # The recorded log-sum-exp itself, against the sum over the row, where the file has all of it.
    scores = np.where(head.attended, head.scores, -np.inf)
    if head.sink is not None:
        scores = np.column_stack([scores, np.full(len(scores), head.sink)])
    top = scores.max(axis=1)
    lse = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
    check(f"{name} lse", head.lse[head.complete], lse[head.complete], 1e-4, 1e-5)


def compare_with_the_whole(name, part, said, whole):
    """A part of a trace: the whole one has what the part's rows attend to outside of it."""
    rows = whole.p[np.searchsorted(whole.positions, part.positions + part.first_token)]
    outside = rows[:, :part.first_token].sum(axis=1)
    check(f"{name} mass before the part", said["outside_mass"], outside.mean())
    check(f"{name} mass in the part", part.p.sum(axis=1) + part.sink_share + outside, np.ones(len(outside)))


def compare_masks(name, head, masks, folder):
    # Mass of columns [0, j) of each row: a range's mass is a difference of two.
    before = np.zeros((head.p.shape[0], head.p.shape[1] + 1))
    np.cumsum(head.p, axis=1, out=before[:, 1:])
    for mask in masks:
        offsets = np.fromfile(folder / (mask["name"] + ".offsets"), np.int64)
        ranges = np.fromfile(folder / (mask["name"] + ".ranges"), np.int32).reshape(-1, 2)
        row = np.repeat(np.arange(len(head.p)), np.diff(offsets))
        begin, end = ranges[:, 0], np.minimum(ranges[:, 1], head.positions[row] + 1)
        mass = np.bincount(row, weights=before[row, end] - before[row, begin], minlength=len(head.p))
        label = f"{name} {mask['method']}"
        check(f"{label} kept mass", np.fromfile(folder / (mask["name"] + ".mass"), np.float32), mass, 1e-5)
        fifth = np.sort(mass)[-(-len(mass) // 20) - 1]
        check(f"{label} CRA", [mask["cra_min"], mask["cra_p5"], mask["cra_mean"]], [mass.min(), fifth, mass.mean()], 1e-5)
        check(f"{label} kept fraction", mask["kept_fraction"], (end - begin).sum(dtype=np.int64) / head.num_attended.sum(), 1e-9, 1e-9)


def compare_outputs(name, head, outputs, folder):
    """O of the CPU executor: the kept probabilities and the sink's share make one, and the sink has no value."""
    for output in outputs:
        offsets = np.fromfile(folder / (output["name"] + ".offsets"), np.int64)
        ranges = np.fromfile(folder / (output["name"] + ".ranges"), np.int32).reshape(-1, 2)
        mask = np.zeros_like(head.attended)
        for row, (begin, end) in zip(np.repeat(np.arange(len(mask)), np.diff(offsets)), ranges, strict=True):
            mask[row, begin:end] = True
        p = np.where(mask & head.attended, head.p, 0)
        share = p.sum(axis=1) + head.sink_share
        expected = p @ head.v / share[:, None]
        label = f"{name} {output['method']}"
        check(f"{label} O", np.fromfile(folder / (output["name"] + ".o"), np.float32).reshape(expected.shape), expected, 1e-4, 2e-5)
        check(f"{label} LSE", np.fromfile(folder / (output["name"] + ".lse"), np.float32), head.lse + np.log(share), 1e-5, 2e-5)
        if output["method"] == "dense":
            layer = np.fromfile(folder / (output["name"].removesuffix("-dense-output") + "-layer.o"), np.float32)
            check(f"{name} O in its layer", layer.reshape(expected.shape), expected, 1e-4, 2e-5)


def compare_tiles(name, head, tiles, folder):
    for tile in tiles:
        step = 2 ** tile["level"]
        size = 256 * step
        p, pairs = np.zeros((size, size)), np.zeros((size, size))
        rows, columns = min(size, head.p.shape[0]), min(size, head.p.shape[1])
        p[:rows, :columns] = head.p[:rows, :columns]
        pairs[:rows, :columns] = head.attended[:rows, :columns]
        cut = lambda a: a.reshape(256, step, 256, step)
        count = cut(pairs).sum(axis=(1, 3))
        with np.errstate(divide="ignore", invalid="ignore"):
            value = cut(p).max(axis=(1, 3)) if tile["by"] == "max" else cut(p).sum(axis=(1, 3)) / count
            expected = np.where(count > 0, np.maximum(np.log2(value), LEAST_LOG2), LEAST_LOG2 - 1)
        found = np.fromfile(folder / tile["name"], np.float32).reshape(256, 256).astype(np.float64)
        # -inf stands for "no pair"; a probability that fp32 has no number for is as good as the smallest one.
        found = np.where((count == 0) & np.isneginf(found), LEAST_LOG2 - 1, np.maximum(found, LEAST_LOG2))
        check(f"{name} tile by {tile['by']} level {tile['level']}", found, expected, 0, 1e-4)


def compare_file(path, folder, whole=None):
    """Everything that headscope says of the heads of a trace in `folder`. Returns the classes."""
    said = json.loads((folder / "statistics.json").read_text())
    details = json.loads((folder / "details.json").read_text())
    assert said["schema"] == "headscope-statistics-1", said["schema"]
    with h5py.File(path, "r") as file:
        for numbers, detail in zip(said["heads"], details, strict=True):
            head = Head(file, numbers["layer"], numbers["head"])
            name = f"{folder.name} {numbers['layer']}:{numbers['head']}"
            compare_statistics(name, head, numbers)
            compare_masks(name, head, detail["masks"], folder)
            compare_tiles(name, head, detail["tiles"], folder)
            compare_outputs(name, head, detail.get("outputs", []), folder)
            if whole is not None:
                compare_with_the_whole(name, head, numbers, Head(whole, numbers["layer"], numbers["head"]))
            print(f"{name}: {numbers['class']} ({numbers['class_reason']})")
    return {numbers["class"] for numbers in said["heads"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--trace")
    parser.add_argument("--heads", default="")
    parser.add_argument("--classes", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        command = [arguments.program, folder]
        if arguments.trace:
            command += [arguments.trace] + ([arguments.heads] if arguments.heads else [])
        subprocess.run(command, check=True)
        if arguments.trace:
            classes = compare_file(arguments.trace, folder)
        else:
            classes = compare_file(folder / "whole.h5", folder / "whole")
            with h5py.File(folder / "whole.h5", "r") as whole:
                compare_file(folder / "cut.h5", folder / "cut", whole)
                compare_file(folder / "barely_cut.h5", folder / "barely_cut", whole)
            compare_file(folder / "differing.h5", folder / "differing")
            with h5py.File(folder / "differing.h5", "r") as whole:
                compare_file(folder / "differing_cut.h5", folder / "differing_cut", whole)
        check(f"{len(classes)} classes of {arguments.classes}", len(classes) >= arguments.classes, True)
    for failure in failures:
        print("FAILED", failure)
    print(f"{checks - len(failures)} of {checks} comparisons agree")
    return 1 if failures or checks == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
