#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recomputes the figures about methods, memory and arithmetic intensity in NumPy and compares.

    method_figures_oracle.py HEADSCOPE TRACE.h5

The definitions are those of docs/figures.md; kept sets are those of methods_kept_sets.py and the files it reads, written from the papers. They
are element by element, so the trace's first 700 tokens are taken. What a choice by rank leaves to fp32 is not compared and must be rare.
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
import eviction_definitions
import methods_kept_sets
from analysis_oracle import Head, check, failures
from kept_set_rules import Ambiguous, top_k

HEADS = [(4, 3), (5, 3), (8, 4)]
TOKENS, STEPS, SETTINGS = 700, 8, 7
NUM_LAYERS = 10  # of the shipped model
LENGTHS = [1024 * 2**i for i in range(8)]


class Alone(methods_kept_sets.Problem):
    """A recorded head by itself: a group of one."""

    def __init__(self, head, layer, first_row):
        self.batch = self.num_qo_heads = self.num_kv_heads = self.group = 1
        self.q, self.k, self.v = head.q[None, None, first_row:], head.k[None, None], head.v[None, None]
        self.seq_q, self.seq_k, self.head_dim = len(head.q) - first_row, len(head.k), head.q.shape[1]
        self.num_layers = NUM_LAYERS
        self.layer, self.prompt, self.first_position = layer, len(head.k) - STEPS, first_row
        self.soft_cap, self.softmax_scale = 0, self.head_dim**-0.5
        self.position = self.first_position + np.arange(self.seq_q)
        self.num_visible = self.seq_k
        self.column = np.arange(self.seq_k)
        self.causal = self.column[None, :] <= self.position[:, None]


def largest_useful(parameter, tokens):
    """Of a count: where it covers the sequence."""
    most = {"seq_len": tokens, "blocks": -(-tokens // parameter["tokens_per_unit"])}.get(parameter["bound"], parameter["maximum"])
    return min(max(most, parameter["minimum"]), parameter["maximum"])


def defaults(method):
    return {one["name"]: int(one["default"]) if one["default"] == int(one["default"]) else one["default"] for one in method["parameters"]}


def searchable_methods(methods):
    """Every prefill method with one budget or two, and these."""
    for method in methods:
        budgets = [one for one in method["parameters"] if one["role"] != "other"]
        if method["phase"] == "prefill" and 1 <= len(budgets) <= 2:
            yield method, budgets


def counted_methods(methods):
    """Those of which all budgets are counts."""
    return [(method, budgets) for method, budgets in searchable_methods(methods) if all(one["type"] == "integer" for one in budgets)]


def halved(method, budgets, tokens, setting):
    """Its counts halved from what covers the sequence; of shares, what they leave out doubled from 1/256."""
    values = defaults(method)
    for budget in budgets:
        if budget["type"] == "real":
            values[budget["name"]] = 1 - 2**setting / 256
            continue
        values[budget["name"]] = int(max(budget["minimum"], np.floor(largest_useful(budget, tokens) / 2**setting + 0.5)))
    return values


def whole_head(head, layer, number):
    p = Alone(head, layer, 0)
    p.first_qo_head, p.first_kv_head = number, number // 2
    return p


def compare_pattern_recall(said, methods, heads):
    points = 0
    searched = {method["name"]: budgets for method, budgets in searchable_methods(methods)}
    patterns = [method for method in methods if method["phase"] == "prefill" and not method["traits"]["baseline"]]
    check("pattern recall, budgets that are shares", sum(any(one["type"] == "real" for one in budgets) for budgets in searched.values()) >= 4, True)
    check("pattern recall, patterns without budgets to search", len(patterns) > len(searched) > 10, True)
    check("pattern recall, two panels a head", [panel["title"] for panel in said["panels"][::2]] == [panel["title"] for panel in said["panels"][1::2]], True)
    for by_flops, panel in zip(said["panels"][::2], said["panels"][1::2], strict=True):
        layer, number = map(int, re.search(r"\((\d+):(\d+)\)$", panel["title"]).groups())
        head = heads[layer, number]
        p = whole_head(head, layer, number)
        for one in (by_flops, panel):
            check(f"pattern recall of {layer}:{number}, methods", sorted(line["name"] for line in one["series"]) == sorted(m["title"] for m in patterns), True)
        for method in patterns:
            line, work = (next(one for one in some["series"] if one["name"] == method["title"]) for some in (panel, by_flops))
            budgets = searched.get(method["name"])
            check(f"pattern recall of {layer}:{number}, {method['name']}, settings", len(line["x"]), SETTINGS if budgets else 1)
            for setting in range(1, len(line["x"]) + 1):
                values = halved(method, budgets, len(head.k), setting) if budgets else defaults(method)
                try:
                    kept = methods_kept_sets.PREFILL[method["name"]](p, 0, 0, **values)
                except Ambiguous:
                    analysis_oracle.ambiguous += 1
                    continue
                points += 1
                name = f"pattern recall of {layer}:{number}, {method['name']} {setting}"
                check(f"{name}, cost", line["x"][setting - 1], p.causal.sum() / kept.sum())
                check(f"{name}, FLOPs", work["x"][setting - 1], tiles_computed(p.causal) / tiles_computed(kept))
                check(f"{name}, mass", [line["y"][setting - 1], work["y"][setting - 1]], [np.where(kept, head.p, 0).sum(axis=1).mean()] * 2)
    return points


SHARES = (0.7, 0.8, 0.9, 0.95, 0.98)


def methods_of_shares(methods, least):
    """Those of which all budgets, one or two, are shares of the mass."""
    return [(method, budgets) for method, budgets in searchable_methods(methods) if len(budgets) >= least and all(one["role"] == "mass_share" for one in budgets)]


def blocks_computed(kept):
    """Blocks of 128 x 128 in which a pair is kept."""
    return sum(np.count_nonzero(np.add.reduceat(kept[i : i + 128].any(axis=0), np.arange(0, kept.shape[1], 128))) for i in range(0, len(kept), 128))


def reached(method, budgets, shares, heads):
    """Means over heads of the mean and least kept mass, the kept share of the pairs and that of the blocks."""
    values = defaults(method) | dict(zip((one["name"] for one in budgets), shares, strict=True))
    found = []
    for id, head in heads.items():
        p = whole_head(head, *id)
        kept = methods_kept_sets.PREFILL[method["name"]](p, 0, 0, **values)
        mass = np.where(kept, head.p, 0).sum(axis=1)
        found.append((mass.mean(), mass.min(), kept.sum() / p.causal.sum(), blocks_computed(kept) / blocks_computed(p.causal)))
    return np.mean(found, axis=0)


def compare_mass_thresholds(by_one, by_two, methods, heads):
    points = 0
    check("CRA threshold, methods", sorted(line["name"] for line in by_one["panels"][0]["series"]) == sorted(method["title"] for method, _ in methods_of_shares(methods, 1)), True)
    for method, budgets in methods_of_shares(methods, 1):
        lines = [next(line for line in panel["series"] if line["name"] == method["title"]) for panel in by_one["panels"]]
        for i, share in enumerate(SHARES):
            try:
                expected = reached(method, budgets, [share] * len(budgets), heads)
            except Ambiguous:
                analysis_oracle.ambiguous += 1
                continue
            points += 1
            check(f"{method['name']} at a share of {share}", [[line["x"][i], line["y"][i]] for line in lines], [[share, value] for value in expected[:3]], 1e-5)
    of_two = methods_of_shares(methods, 2)
    check("threshold map, panels", len(by_two["panels"]), 2 * len(of_two))
    for (method, budgets), recall, blocks in zip(of_two, by_two["panels"][::2], by_two["panels"][1::2], strict=True):
        for i, first in enumerate(SHARES):
            for j, second in enumerate(SHARES):
                try:
                    expected = reached(method, budgets, (first, second), heads)
                except Ambiguous:
                    analysis_oracle.ambiguous += 1
                    continue
                points += 1
                check(f"{method['name']} at {first}, {second}", [recall["series"][i]["y"][j], blocks["series"][i]["y"][j]], [expected[0], expected[3]], 1e-5)
    return points


def tiles_computed(kept):
    """Pairs of 64 rows and the keys that any of them keeps, in groups of 64."""
    return sum(len(rows) * (-(-np.count_nonzero(rows.any(axis=0)) // 64) * 64) for rows in (kept[i : i + 64] for i in range(0, len(kept), 64)))


class Prefix:
    def __init__(self, head, length):
        self.q, self.k, self.v, self.p = head.q[:length], head.k[:length], head.v[:length], head.p[:length, :length]


def compare_kernel_sparsity(said, methods, heads):
    points, lengths = 0, [TOKENS // 4, TOKENS // 2, TOKENS]
    shown = [tuple(map(int, re.search(r"\((\d+):(\d+)\)$", panel["title"]).groups())) for panel in said["panels"][1:]]
    left_out = {}  # [head, method, length or setting]: of the pairs, and of the tiles
    for id in shown:
        for method, budgets in counted_methods(methods):
            asked = [(id, method["name"], "length", length) for length in lengths] + [(id, method["name"], "setting", setting) for setting in range(1, SETTINGS + 1)]
            for key in asked:
                p = whole_head(Prefix(heads[id], key[3] if key[2] == "length" else TOKENS), *id)
                try:
                    values = halved(method, budgets, TOKENS, 4 if key[2] == "length" else key[3])
                    kept = methods_kept_sets.PREFILL[method["name"]](p, 0, 0, **values)
                    left_out[key] = 1 - kept.sum() / p.causal.sum(), 1 - tiles_computed(kept) / tiles_computed(p.causal)
                except Ambiguous:
                    analysis_oracle.ambiguous += 1
    for method, _ in counted_methods(methods):
        line = next(one for one in said["panels"][0]["series"] if one["name"] == method["title"])
        check(f"kernel sparsity of {method['name']}, lengths", line["x"], lengths)
        for length, value in zip(lengths, line["y"], strict=True):
            keys = [(id, method["name"], "length", length) for id in shown]
            if all(key in left_out for key in keys):
                points += 1
                check(f"kernel sparsity of {method['name']} at {length}", value, np.mean([left_out[key][1] for key in keys]))
        for id, panel in zip(shown, said["panels"][1:], strict=True):
            line = next(one for one in panel["series"] if one["name"] == method["title"])
            for setting in range(1, SETTINGS + 1):
                key = id, method["name"], "setting", setting
                if key in left_out:
                    points += 1
                    check(f"kernel sparsity of {key}", [line["x"][setting - 1], line["y"][setting - 1]], left_out[key])
    return points


# What evicts attends to what is left and writes a new key and value.
EVICTS = ("tova", "snap-kv", "pyramid-kv", "chunk-kv", "knorm", "key-diff", "lag-kv", "cur-dkv")


def tidal_mass(file, layer, number, rows, values):
    """Mean mass, on the rows of a head, of the best keys of the same head in the layer that chooses for its own."""
    chooses = [one for one in (values["first_layer"], values["reselect_layer"]) if one >= values["first_layer"]]
    own = analysis_oracle.Head(file, layer, number).p
    source = max((one for one in chooses if one < layer), default=None)
    if source is None or layer in chooses:
        return np.mean([own[row].sum() for row in rows])
    above = analysis_oracle.Head(file, source, number).p
    return np.mean([own[row][: row + 1][top_k(above[row, : row + 1], values["k"])].sum() for row in rows])


def compare_compression(said, methods, heads, file):
    points = 0
    for panel in said["panels"]:
        layer, number = map(int, re.search(r"\((\d+):(\d+)\)$", panel["title"]).groups())
        head = heads[layer, number]
        tokens, size = head.k.shape
        rows = range(tokens - STEPS, tokens)
        dense = sum(2 * (row + 1) * size + 2 * size for row in rows)
        for line in panel["series"]:
            method = next(one for one in methods if one["phase"] == "decode" and one["title"] == line["name"])
            values, name = defaults(method), method["name"]
            if name == "sparq" and values["reallocate"] == 2:
                values["reallocate"] = 0  # the layer's groups are of two, though a head stands alone here
            masses, elements = [], []
            try:
                if name == "tidal-decode":
                    points += 1
                    check(f"compression of {layer}:{number}, {name}, kept mass", line["y"][0], tidal_mass(file, layer, number, rows, values))
                    continue
                if name in methods_kept_sets.DECODE:
                    for row in rows:
                        p = Alone(head, layer, row)
                        p.first_qo_head, p.first_kv_head = number, number // 2
                        p.q, p.k, p.v, p.seq_q, p.seq_k = p.q[:, :, :1], p.k[:, :, : row + 1], p.v[:, :, : row + 1], 1, row + 1
                        p.position, p.num_visible, p.column = np.array([row]), row + 1, np.arange(row + 1)
                        p.causal = np.ones((1, row + 1), bool)
                        kept, _, _, count, *_ = methods_kept_sets.DECODE[name](p, 0, 0, **values)
                        masses.append(head.p[row, : row + 1][kept].sum())
                        elements.append(count)
                else:
                    for row, mask in zip(rows, eviction_definitions.METHODS[name](Alone(head, layer, 0), 0, **values), strict=True):
                        mask = mask[0][0] if isinstance(mask, tuple) else mask[0]
                        masses.append(head.p[row][mask].sum())
                        elements.append((mask.sum() + 1) * 2 * size if name in EVICTS else None)
            except Ambiguous:
                analysis_oracle.ambiguous += 1
                continue
            points += 1
            check(f"compression of {layer}:{number}, {name}, kept mass", line["y"][0], np.mean(masses))
            if None not in elements:
                check(f"compression of {layer}:{number}, {name}, elements", line["x"][0], dense / sum(elements))
    return points


def compare_memory(said, file):
    layers = file["layers"].attrs
    of_keys = int((layers["num_kv_heads"] * layers["head_dim"]).sum())  # elements of all layers' keys of a token; as many of values
    total, marginal = said["panels"]
    keys_values, twice = total["series"]
    check("memory, lengths", keys_values["x"], LENGTHS)
    check("memory, MiB", keys_values["y"], [2 * 2 * of_keys * tokens / 2**20 for tokens in LENGTHS])
    check("memory with K twice, MiB", twice["y"], [3 * 2 * of_keys * tokens / 2**20 for tokens in LENGTHS])
    check("memory, bytes a token", marginal["series"][0]["y"], [4 * of_keys] * len(LENGTHS))


def compare_intensity(said, file):
    model = file["model"].attrs
    group, width = model["num_qo_heads"] / model["num_kv_heads"], float(model["num_qo_heads"] * model["head_dim"])
    parameters = 12 * width**2  # of a layer, N; C: elements of its keys and values of one sequence
    intensity, share = said["panels"][:2]
    for batch, line, part in zip((1, 8, 64), intensity["series"], share["series"], strict=False):
        cache = 2 * np.array(LENGTHS) * width / group
        check(f"intensity at batch {batch}", line["y"], (parameters + cache * group) / (parameters / batch + cache))
        check(f"attention's share at batch {batch}", part["y"], cache / (parameters / batch + cache))
    balance = intensity["series"][3]["y"]  # of the machine: whatever it is, a line
    check("the machine's balance", [balance[0] > 0, balance[0] == balance[1]], [True, True])


def compare_roofline(said, runs, file, tokens=None, trace=""):
    """Measured runs as points: what each computes by what it moves at least once, and by its time."""
    panel = said["panels"][2]
    model = file["model"].attrs
    width, tokens = 2.0 * model["head_dim"], tokens or TOKENS
    points = {}
    for run in runs:
        last = np.arange(tokens - run["num_rows"], tokens) + 1.0
        if run["phase"] == "decode":
            multiply_adds = run["kept_fraction"] * last.mean() * width * run["measured_heads"]
            moved = last.mean() * width * run["measured_kv_heads"] / (1 if run["method"] == "dense" else run["bytes_allow"])
        else:
            multiply_adds = run["kept_fraction"] * last.sum() * width * run["measured_heads"]
            moved = run["num_rows"] * width * run["measured_heads"] + tokens * width * run["measured_kv_heads"]
        points.setdefault(run["method"], []).append((multiply_adds / moved, multiply_adds / run["attend"]["median_ms"] * 1e-6))
    drawn = {series["name"]: series for series in panel["series"]}
    for method, expected in points.items():
        name = trace + (method if trace + method in drawn else "decode/" + method)
        check(f"runs of {name}, intensity", drawn[name]["x"], [x for x, _ in expected])
        check(f"runs of {name}, speed", drawn[name]["y"], [y for _, y in expected])
    roof = next(series for name, series in drawn.items() if name.startswith("roof"))
    check("the roof rises to the ridge and is flat from there", [roof["y"][0] < roof["y"][1], roof["y"][1] == roof["y"][2]], [True, True])


def compare_attention_time(said):
    """Times are the machine's; the line and attention's part follow from them."""
    times, share = said["panels"]
    measured, line = times["series"]
    check("attention time, lengths", measured["x"], [(i + 1) * TOKENS // 8 for i in range(8)])
    slope, at_zero = np.polyfit(measured["x"], measured["y"], 1)
    check("attention time, line", line["y"], np.polyval([slope, at_zero], line["x"]))
    check("attention time, line's ends", line["x"], [0, TOKENS])
    check("attention's part", share["series"][0]["y"], [slope * tokens / (at_zero + slope * tokens) for tokens in LENGTHS])
    check("attention time is positive", min(measured["y"]) > 0, True)


def compare_prefill_time(said):
    """Times are the machine's; the sums, what is linear, and attention's part of each length follow from them."""
    times, share = said["panels"]
    attention, projections, feed_forward, together = times["series"]
    lengths = [TOKENS // 4, TOKENS // 2, TOKENS]
    for series in times["series"]:
        check(f"prefill time of {series['name']}, lengths", series["x"], lengths)
    check("prefill time is positive", min(attention["y"] + projections["y"]) > 0, True)
    check("prefill time, projections are linear", projections["y"], np.multiply(lengths, projections["y"][-1] / TOKENS))
    check("prefill time, the feed-forward part has twice the weights", feed_forward["y"], 2 * np.array(projections["y"]))
    check("prefill time, together", together["y"], np.sum([attention["y"], projections["y"], feed_forward["y"]], axis=0))
    counted = [1024 << i for i in range(11)]
    pairs = [tokens * (tokens + 1) / 2 for tokens in (*counted, TOKENS)]
    grown = np.array(pairs[:-1]) / pairs[-1] * attention["y"][-1]
    linear = 3 * projections["y"][-1] / TOKENS * np.array(counted)
    check("prefill time, counted lengths", share["series"][0]["x"], counted)
    check("attention's part of a prompt", share["series"][0]["y"], grown / (grown + linear))


def compare_latency_breakdown(said, methods):
    """Times are the machine's; what is shown of them must fit together, and stand for the right methods and lengths."""
    whole, share, choosing, attending = said["panels"]
    titles = [method["title"] for method in methods if method["phase"] == "prefill" and method["traits"]["baseline"]]
    titles += [method["title"] for method, _ in searchable_methods(methods)]
    for panel in said["panels"]:
        check("latency breakdown, methods", [line["name"] for line in panel["series"]] == titles, True)
    for all_of_it, part, select, attend in zip(whole["series"], share["series"], choosing["series"], attending["series"], strict=True):
        check(f"latency breakdown of {all_of_it['name']}, lengths", all_of_it["x"], [TOKENS // 4, TOKENS // 2, TOKENS])
        check(f"latency breakdown of {all_of_it['name']} is positive", min(select["y"] + attend["y"]) > 0, True)
        check(f"latency breakdown of {all_of_it['name']}, whole", all_of_it["y"], np.add(select["y"], attend["y"]))
        check(f"latency breakdown of {all_of_it['name']}, share", part["y"], np.divide(select["y"], all_of_it["y"]))
    by_name = {line["name"]: line["y"] for line in choosing["series"]}
    oracle = next(method["title"] for method in methods if method["name"] == "oracle-blocks")
    window = next(method["title"] for method in methods if method["name"] == "a-shape")
    check("an oracle, which looks at every pair, takes longer to choose than a window", by_name[oracle][-1] > by_name[window][-1], True)


def main():
    program, trace = sys.argv[1:3]
    analysis_oracle.ambiguous = 0
    methods = json.loads(subprocess.run([program, "methods", "--json"], check=True, capture_output=True, text=True).stdout)["methods"]
    with tempfile.TemporaryDirectory() as folder:
        part, out = str(pathlib.Path(folder) / "part.h5"), str(pathlib.Path(folder) / "out.json")
        subprocess.run([program, "export", trace, "--tokens", f"0:{TOKENS}", "-o", part], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def figure(name):
            chosen = ",".join(f"{layer}:{head}" for layer, head in HEADS)
            subprocess.run([program, "render", part, "--figure", name, "--heads", chosen, "--max-rows", "0", "--quiet", "--force", "-o", out], check=True)
            return json.loads(pathlib.Path(out).read_text())

        with h5py.File(part, "r") as file:
            heads = {id: Head(file, *id) for id in HEADS}
            points = compare_pattern_recall(figure("pattern-recall"), methods, heads)
            points += compare_kernel_sparsity(figure("kernel-sparsity"), methods, heads)
            points += compare_mass_thresholds(figure("cra-threshold"), figure("threshold-map"), methods, heads)
            points += compare_compression(figure("compression"), methods, heads, file)
            compare_memory(figure("memory"), file)
            compare_intensity(figure("intensity"), file)
            runs = str(pathlib.Path(folder) / "runs.json")
            asked = [option for method in ("a-shape", "streaming-llm", "sparq") for option in ("--method", method)]
            layer, head = HEADS[0]
            subprocess.run([program, "compare", part, *asked, "--heads", f"{layer}:{head}", "--repeat", "2", "--quiet", "-o", runs], check=True)
            subprocess.run([program, "render", part, "--figure", "intensity", "--heads", f"{layer}:{head}", "--runs", runs, "--quiet", "--force", "-o", out], check=True)
            compare_roofline(json.loads(pathlib.Path(out).read_text()), json.loads(pathlib.Path(runs).read_text())["results"], file)
            # Of two traces, each with its own runs, whose files come in any order: a run names its trace.
            short = TOKENS // 2
            of_both = [(part, runs), (str(pathlib.Path(folder) / "short.h5"), str(pathlib.Path(folder) / "short.json"))]
            subprocess.run([program, "export", trace, "--tokens", f"0:{short}", "-o", of_both[1][0]], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            subprocess.run([program, "compare", of_both[1][0], *asked, "--heads", f"{layer}:{head}", "--repeat", "2", "--quiet", "-o", of_both[1][1]], check=True)

            def of_traces(traces, files):
                given = [option for runs_file in files for option in ("--runs", runs_file)]
                subprocess.run([program, "render", *traces, "--figure", "intensity", "--heads", f"{layer}:{head}", *given, "--quiet", "--force", "-o", out], check=True)
                return json.loads(pathlib.Path(out).read_text())

            def results(file_of_runs):
                return json.loads(pathlib.Path(file_of_runs).read_text())["results"]

            traces, files = ([one[i] for one in of_both] for i in range(2))
            for order in (files, files[::-1]):
                said = of_traces(traces, order)
                for of_one, tokens, name in zip(files, (TOKENS, short), ("part, ", "short, ")):
                    compare_roofline(said, results(of_one), file, tokens, name)
            # Of the second trace alone, and of none of the traces.
            said = of_traces(traces, files[1:])
            compare_roofline(said, results(files[1]), file, short, "short, ")
            check("nothing is drawn of the trace without runs", sum(series["name"].startswith("part, ") for series in said["panels"][2]["series"]), 0)
            said, strays = of_traces(traces[:1], files), len(results(files[1]))
            compare_roofline(said, results(files[0]), file)
            check("runs of no trace are counted", f"without {strays} " in said["caption"], True)
            # Older files name no trace: the place counts, and the rows must be the trace's.
            nameless = []
            for one in files:
                table = json.loads(pathlib.Path(one).read_text())
                for run in table["results"]:
                    run.pop("trace")
                nameless.append(one.replace(".json", "-old.json"))
                pathlib.Path(nameless[-1]).write_text(json.dumps(table))
            said = of_traces(traces, nameless)
            for of_one, tokens, name in zip(files, (TOKENS, short), ("part, ", "short, ")):
                compare_roofline(said, results(of_one), file, tokens, name)
            said = of_traces(traces, nameless[::-1])
            check("runs of other rows are not drawn", [len(said["panels"]), f"without {len(results(files[0])) + strays} " in said["caption"]], [2, True])
            # Two traces of one file name.
            alike = []
            for one, place in zip(traces, ("first", "second")):
                (pathlib.Path(folder) / place).mkdir()
                alike.append(str(pathlib.Path(folder) / place / "same.h5"))
                pathlib.Path(one).rename(alike[-1])
            for one, moved in zip(files, alike):
                table = json.loads(pathlib.Path(one).read_text())
                for run in table["results"]:
                    run["trace"] = moved
                pathlib.Path(one).write_text(json.dumps(table))
            said = of_traces(alike, files)
            for of_one, tokens, name in zip(files, (TOKENS, short), ("first/same, ", "second/same, ")):
                compare_roofline(said, results(of_one), file, tokens, name)
            for one, moved in zip(traces, alike):
                pathlib.Path(moved).rename(one)
            compare_attention_time(figure("attention-time"))
            compare_latency_breakdown(figure("latency-breakdown"), methods)
            compare_prefill_time(figure("prefill-time"))
    for failure in failures:
        print("FAILED", failure)
    print(f"{analysis_oracle.checks - len(failures)} of {analysis_oracle.checks} comparisons agree; {points} settings, {analysis_oracle.ambiguous} ambiguous")
    return 1 if failures or analysis_oracle.ambiguous > 0.2 * (points + analysis_oracle.ambiguous) else 0


if __name__ == "__main__":
    sys.exit(main())
