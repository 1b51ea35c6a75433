# SPDX-License-Identifier: Apache-2.0
"""Configurations of headscope tune on the real binary: mixtures of methods, shared settings, limits of pairs and errors, checks, fronts, and their files.

    command_line_configurations_test.py HEADSCOPE DATA_DIR SHIPPED_TRACE ORACLE_DIR

NumPy tries every setting of the grid of a short prompt, from the definitions of tests/oracle/methods_kept_sets.py.
"""
import csv
import functools
import itertools
import json
import os
import pathlib
import pty
import random
import re
import signal
import subprocess
import sys
import time

import h5py
import numpy

import command_line
from command_line import HEADSCOPE, PATIENCE, run, TraceCase

SHIPPED = sys.argv[3]
sys.path.insert(0, sys.argv[4])
import analysis_oracle
import tuned_masses

TOLERANCE = 1e-5  # of a kept mass, headscope's fp32 against float64


@functools.lru_cache(maxsize=8)
def traced_head(path, layer, head):
    with h5py.File(path, "r") as file:
        traced = tuned_masses.TracedHead(file, layer, head)
        traced.values = analysis_oracle.Head(file, layer, head).v
        return traced


@functools.lru_cache(maxsize=8)
def every_setting(path, layer, head, method, grid, others):
    """{values: (kept pairs, mean kept mass)} of the whole grid; None where fp32 may choose otherwise."""
    traced, found = traced_head(path, layer, head), {}
    names = [name for name, _ in grid]
    for values in itertools.product(*(values for _, values in grid)):
        try:
            masses, counts = traced.kept_by_row(method, dict(others) | dict(zip(names, values)))
            found[values] = int(counts.sum()), masses
        except tuned_masses.Ambiguous:
            found[values] = None
    return found


def grid_of(config, method):
    grid = next(searched["grid"] for searched in config["methods"] if searched["name"] == method)
    return tuple((budget["name"], tuple(tuned_masses.values_of(budget))) for budget in grid)


def values_of(entry, grid):
    return tuple(entry["parameters"][name] for name, _ in grid)


def output_error(path, entry):
    traced = traced_head(path, entry["layer"], entry["head"])
    kept = tuned_masses.methods_kept_sets.PREFILL[entry["method"]](traced, 0, 0, **entry["parameters"])
    p = numpy.where(kept, traced.p, 0)
    sums = p.sum(axis=1, keepdims=True)
    sparse = numpy.divide(p, sums, out=numpy.zeros_like(p), where=sums > 0) @ traced.values
    dense = traced.p @ traced.values
    return numpy.linalg.norm(sparse - dense) / numpy.linalg.norm(dense)


class Configurations(TraceCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.part = str(cls.path / "part.h5")
        run("export", SHIPPED, "--layers", "5,8", "--tokens", "0:150", "-o", cls.part)
        cls.other = str(cls.path / "other.h5")
        run("capture", command_line.MODEL, "--text", "The cat sat on the mat, and the dog sat on the log. " * 12, "--layers", "5,8", "-o", cls.other, "--quiet")

    def tuned(self, *arguments):
        out = self.path / "tuned.json"
        done = run("tune", *arguments, "-o", out, "--force", "--quiet")
        self.assertEqual(done.stdout, "")
        return json.loads(out.read_text()), done.stderr

    def test_a_limit_of_pairs_gets_the_most_mass_of_all_settings(self):
        for limit in (0.1, 0.4):
            config, _ = self.tuned(self.part, "--method", "vertical-slash:forced_columns=0,forced_slashes=1", "--target", f"kept={limit}", "--heads", "5:7,8:4")
            for entry in config["heads"]:
                grid = grid_of(config, "vertical-slash")
                others = tuple((name, value) for name, value in entry["parameters"].items() if name not in dict(grid))
                settings = every_setting(self.part, entry["layer"], entry["head"], "vertical-slash", grid, others)
                pairs = 150 * 151 // 2
                self.assertTrue(entry["target_met"])
                self.assertLessEqual(entry["kept_fraction"], limit)
                known = [found for found in settings.values() if found is not None]
                self.assertGreater(len(known), len(settings) * 0.7)
                most = max(masses.mean() for kept, masses in known if kept <= limit * pairs)
                self.assertGreaterEqual(entry["cra_mean"], most - TOLERANCE, f"{entry['parameters']} keeps less than another setting")
                self.assertIsNone(entry["relative_error"], "no attention was run")

    def test_a_limit_may_be_the_pairs_of_a_setting(self):
        config, _ = self.tuned(self.part, "--method", "vertical-slash", "--method", "a-shape", "--target", "kept=a-shape:n_sink=10,n_local=30", "--heads", "5:*")
        rows = numpy.arange(150)
        share = numpy.minimum(rows + 1, 40).sum() / (rows + 1).sum()
        for entry in config["heads"]:
            self.assertLessEqual(entry["kept_fraction"], share + 1e-9)
            self.assertGreater(entry["kept_fraction"], share * 0.9)
        self.assertEqual(config["target"], {"statistic": "kept_fraction", "of": "a-shape:n_sink=10,n_local=30"})
        self.assertEqual(len(config["heads"]), 8)

    def test_an_error_is_that_of_the_output_and_small_enough(self):
        config, said = self.tuned(self.part, "--method", "vertical-slash", "--method", "block-sparse", "--target", "error=0.05", "--heads", "5:*")
        self.assertIn("heads reach error=0.05", said)
        for entry in config["heads"]:
            self.assertTrue(entry["target_met"])
            self.assertLessEqual(entry["relative_error"], 0.05)
            try:
                self.assertAlmostEqual(entry["relative_error"], output_error(self.part, entry), delta=1e-4 * 0.05 + 1e-6)
            except tuned_masses.Ambiguous:
                continue
        by_method = {method: {entry["head"]: entry for entry in self.tuned(self.part, "--method", method, "--target", "error=0.05", "--heads", "5:*")[0]["heads"]}
                     for method in ("vertical-slash", "block-sparse")}
        for entry in config["heads"]:
            alone = [found[entry["head"]] for found in by_method.values()]
            self.assertEqual(entry["kept_fraction"], min(found["kept_fraction"] for found in alone), "the cheaper of both")
        table = run("tune", self.part, "--method", "block-sparse", "--target", "error=0.05", "--heads", "5:7", "--quiet").stdout
        self.assertIn("error", table.splitlines()[0])

    def test_between_methods_the_criterion_decides(self):
        asked = (self.part, "--method", "block-sparse", "--method", "a-shape", "--method", "vertical-slash", "--target", "kept=0.3", "--heads", "5:*,8:*")
        by_mass, _ = self.tuned(*asked, "--choose", "mass")  # MInference's code
        by_error, _ = self.tuned(*asked)  # its paper
        alone = [self.tuned(self.part, "--method", method, "--target", "kept=0.3", "--heads", "5:*,8:*", "--choose", "error")[0]["heads"]
                 for method in ("block-sparse", "a-shape", "vertical-slash")]
        for i, (mass, error) in enumerate(zip(by_mass["heads"], by_error["heads"])):
            able = [heads[i] for heads in alone if heads[i]["target_met"]]  # one block of 64 keys is more than 0.3 of so few
            self.assertGreaterEqual(len(able), 2)
            self.assertEqual(mass["cra_mean"], max(entry["cra_mean"] for entry in able))
            self.assertEqual(error["relative_error"], min(entry["relative_error"] for entry in able))
        self.assertGreater(len({entry["method"] for entry in by_mass["heads"]}), 1, "on these heads a mixture is better than any one")
        refused = run("tune", self.part, "--method", "a-shape", "--method", "block-sparse", "--target", "cra=0.9", "--choose", "error", code=2)
        self.assertIn("kept=..", refused.stderr)

    def test_the_search_of_minference_moves_its_starts_to_the_work_of_a_kernel(self):
        """Algorithm 1: of every start what is as much work as the limit, and of these the one whose output is nearest."""
        starts = ("a-shape:n_sink=20,n_local=40", "vertical-slash:n_vertical=3,n_slash=30", "vertical-slash:n_vertical=30,n_slash=5", "block-sparse:n_blocks=2")
        limit = 1.2  # of so few pairs: dense attention's tiles are 2.2
        target = ("--target", f"work={limit}", "--heads", "5:*,8:*")
        together, said = self.tuned(self.part, *(part for start in starts for part in ("--method", start)), *target)
        by_mass, _ = self.tuned(self.part, *(part for start in starts for part in ("--method", start)), *target, "--choose", "mass")
        alone = [self.tuned(self.part, "--method", start, *target, "--choose", "error")[0] for start in starts]
        self.assertEqual(together["target"], {"statistic": "work_share", "value": limit})
        self.assertIn(starts[2] + " for ", said)
        met = 0
        for i, entry in enumerate(together["heads"]):
            able = [config["heads"][i] for config in alone if config["heads"][i]["target_met"]]
            self.assertEqual(entry["target_met"], bool(able))
            if not able:  # one column or line is a tile of 64 in each of so few rows: the least work of any start
                self.assertEqual(entry["work_share"], min(config["heads"][i]["work_share"] for config in alone))
                continue
            met += 1
            self.assertLessEqual(entry["work_share"], limit)
            self.assertEqual(entry["relative_error"], min(found["relative_error"] for found in able))
            self.assertEqual(by_mass["heads"][i]["cra_mean"], max(found["cra_mean"] for found in able))
            self.assertAlmostEqual(entry["relative_error"], output_error(self.part, entry), delta=1e-4 * entry["relative_error"] + 1e-6)
        self.assertGreater(met, 2)
        # The larger budget moves by whole steps, the other is held until they meet, and neither ends at nothing.
        for config, start in zip(alone, starts):
            searched, = config["methods"]
            steps = {budget["name"]: budget["step"] for budget in searched["grid"]}
            first = {name: searched["start"][name] for name in steps}
            larger = max(first, key=first.get)
            ends = {budget["maximum"] for budget in searched["grid"]}
            for entry in config["heads"]:
                level = entry["parameters"][larger]
                self.assertGreater(level, 0)
                self.assertTrue(level in ends | {1} or (level - first[larger]) % steps[larger] == 0, f"{start}: {entry['parameters']}")
                for name in set(first) - {larger}:
                    self.assertEqual(entry["parameters"][name], min(first[name], level), f"{start}: {entry['parameters']}")
                self.assertGreater(entry["kept_fraction"], 0)
        # What a kernel computes of block-sparse: every chosen block of 64 x 64 whole, whatever the diagonal and the length leave of it.
        for entry in alone[3]["heads"]:
            def work(n_blocks):
                rows = range(0, 150, 64)
                return sum(64 * 64 * min(n_blocks, first // 64 + 1) for first in rows) / (150 * 151 // 2)
            self.assertAlmostEqual(entry["work_share"], work(entry["parameters"]["n_blocks"]), places=9)
            self.assertEqual(entry["target_met"], work(1) <= limit)
        like = self.tuned(self.part, "--method", "block-sparse", "--target", "work=block-sparse:n_blocks=2", "--heads", "5:7")[0]["heads"][0]
        self.assertEqual(like["parameters"]["n_blocks"], 2)
        self.assertIn("counted in the tiles", run("tune", self.part, "--method", "quest", "--target", "work=0.5", code=2).stderr)

    def test_heads_that_share_a_setting_reach_the_target_each_for_the_fewest_pairs_of_all(self):
        for per, groups in (("layer", ("5", "8")), ("model", ("58",))):
            config, _ = self.tuned(self.part, "--method", "vertical-slash:forced_columns=0,forced_slashes=1", "--target", "cra-p5=0.8", "--per", per, "--heads", "5:6-7,8:4")
            self.assertEqual(config["per"], per)
            grid = grid_of(config, "vertical-slash")
            for group in groups:
                entries = [entry for entry in config["heads"] if str(entry["layer"]) in group]
                self.assertEqual(len({values_of(entry, grid) for entry in entries}), 1, "one setting")
                self.assertTrue(all(entry["target_met"] and entry["cra_p5"] >= 0.8 for entry in entries))
                others = tuple((name, value) for name, value in entries[0]["parameters"].items() if name not in dict(grid))
                tables = [every_setting(self.part, entry["layer"], entry["head"], "vertical-slash", grid, others) for entry in entries]
                cheapest = min(sum(table[values][0] for table in tables) for values in tables[0]
                               if all(table[values] is not None and tuned_masses.statistics(table[values][1])["cra_p5"] >= 0.8 + TOLERANCE for table in tables))
                kept = round(sum(entry["kept_fraction"] for entry in entries) * 150 * 151 / 2)
                self.assertLessEqual(kept, cheapest)
        alone, _ = self.tuned(self.part, "--method", "block-sparse", "--target", "cra-mean=0.9", "--heads", "5:*")
        shared, _ = self.tuned(self.part, "--method", "block-sparse", "--target", "cra-mean=0.9", "--heads", "5:*", "--per", "layer")
        self.assertEqual({entry["parameters"]["n_blocks"] for entry in shared["heads"]}, {max(entry["parameters"]["n_blocks"] for entry in alone["heads"])})

    def test_what_was_chosen_is_reported_on_other_traces(self):
        config, said = self.tuned(self.part, "--method", "vertical-slash", "--target", "cra-p5=0.9", "--heads", "5:*", "--check", self.other)
        self.assertEqual([source["path"] for source in config["checks"]], [self.other])
        met = 0
        for entry in config["heads"]:
            setting = ",".join(f"{name}={value}" for name, value in entry["parameters"].items())
            run("compare", self.other, "--method", f"vertical-slash:{setting}", "--heads", f"5:{entry['head']}", "--repeat", "1", "-o", self.path / "there.json", "--force", "--quiet")
            there = json.loads((self.path / "there.json").read_text())["results"][0]
            for name in ("kept_fraction", "cra_min", "cra_p5", "cra_mean"):
                self.assertAlmostEqual(entry["checked"][name], there[name], 6)
            self.assertEqual(entry["checked"]["target_met"], there["cra_p5"] >= 0.9)
            met += entry["checked"]["target_met"]
        self.assertIn(f"on the held-out traces, {met} of them do", said)
        table = run("tune", self.part, "--method", "vertical-slash", "--target", "cra-p5=0.9", "--heads", "5:*", "--check", self.other, "--quiet").stdout
        self.assertIn("which were not tuned on", table)

    def test_the_trade_off_rises_and_is_marked_where_nothing_beats_it(self):
        config, _ = self.tuned(self.part, "--method", "vertical-slash", "--method", "block-sparse", "--target", "cra-mean=0.8", "--heads", "5:7", "--front", 12)
        self.assertEqual([front["method"] for front in config["fronts"]], ["vertical-slash", "block-sparse"])
        points = []
        for front in config["fronts"]:
            self.assertEqual(front["heads"], [[5, 7]])
            ascending = [(point["kept_fraction"], point["cra_mean"]) for point in front["points"]]
            self.assertGreaterEqual(len(ascending), 3)
            self.assertLessEqual(len(ascending), 12)
            self.assertTrue(all(a[0] < b[0] and a[1] < b[1] + TOLERANCE for a, b in zip(ascending, ascending[1:])), ascending)
            self.assertAlmostEqual(ascending[-1][1], 1, 5)
            points.append(ascending)
        for mine, theirs, front in ((points[0], points[1], config["fronts"][0]), (points[1], points[0], config["fronts"][1])):
            for point, entry in zip(mine, front["points"]):
                beaten = any(other[0] <= point[0] and other[1] >= point[1] and other != point for other in theirs)
                self.assertEqual(entry["undominated"], not beaten)
        # Where errors decide, they mark: more mass with a larger error beats nothing.
        config, _ = self.tuned(self.part, "--method", "a-shape", "--method", "vertical-slash", "--target", "error=0.1", "--heads", "5:6,5:7", "--front", 6)
        by_mass = []
        for heads in ([[5, 6]], [[5, 7]]):
            mine, theirs = (front["points"] for front in config["fronts"] if front["heads"] == heads)
            for points, others in ((mine, theirs), (theirs, mine)):
                for point in points:
                    beaten = lambda better: any(other["kept_fraction"] <= point["kept_fraction"] and better(other) >= better(point)
                                                and (other["kept_fraction"], better(other)) != (point["kept_fraction"], better(point)) for other in others)
                    self.assertEqual(point["undominated"], not beaten(lambda one: -one["relative_error"]), point)
                    by_mass.append(point["undominated"] == (not beaten(lambda one: one["cra_mean"])))
        self.assertFalse(all(by_mass), "the mass would mark others")
        said = run("tune", self.part, "--method", "a-shape", "--method", "vertical-slash", "--target", "error=0.1", "--heads", "5:7", "--front", 3, "--quiet").stdout
        self.assertIn("* where no other method has a smaller error for fewer pairs", said)
        table = run("tune", self.part, "--method", "block-sparse", "--target", "cra-mean=0.8", "--heads", "5:7", "--front", 3, "--quiet").stdout
        self.assertIn("Trade-off", table)
        self.assertIn(".json", run("tune", self.part, "--method", "block-sparse", "--target", "cra=0.8", "--front", 3, "-o", self.path / "x.csv", code=2).stderr)

    def test_compare_runs_each_head_as_configured(self):
        config, _ = self.tuned(self.part, "--method", "vertical-slash", "--method", "block-sparse", "--method", "a-shape", "--target", "cra-p5=0.8", "--heads", "5:*,8:*")
        out = self.path / "compared.json"
        run("compare", self.part, "--config", self.path / "tuned.json", "--method", "dense", "--repeat", "1", "-o", out, "--force", "--quiet")
        results = json.loads(out.read_text())["results"]
        self.assertEqual(len(results), 2 * len(config["heads"]))
        for entry, own, dense in zip(config["heads"], results[::2], results[1::2]):
            self.assertEqual((own["layer"], own["head"], own["method"]), (entry["layer"], entry["head"], entry["method"]))
            self.assertEqual(dense["method"], "dense")
            self.assertIn("alone", own["measured"])
            for name in ("kept_fraction", "cra_min", "cra_p5", "cra_mean"):
                self.assertAlmostEqual(own[name], entry[name], 6)
        # The table says the same.
        table = self.path / "tuned.csv"
        run("tune", self.part, "--method", "vertical-slash", "--method", "block-sparse", "--method", "a-shape", "--method", "x-attention", "--target", "cra-p5=0.8", "--heads", "5:*,8:*",
            "-o", table, "--force", "--quiet")
        run("compare", self.part, "--config", table, "--repeat", "1", "-o", out, "--force", "--quiet")
        with open(table, newline="") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual(len(lines), 16)
        for line, result in zip(lines, json.loads(out.read_text())["results"]):
            self.assertEqual((line["layer"], line["head"], line["method"]), (str(result["layer"]), str(result["head"]), result["method"]))
            for part in result["parameters"].split(","):
                name, value = part.split("=")
                self.assertEqual(line[name], value)
            self.assertAlmostEqual(result["kept_fraction"], float(line["kept_fraction"]), 6)
        for said, text in (("unknown parameter", "layer,head,method,n_snk\n5,7,a-shape,3\n"), ("is not registered", "layer,head,method\n5,7,none\n"),
                           ("not an integer", "layer,head,method\n5,seven,a-shape\n"), ("has no method", "layer,head\n5,7\n"),
                           ("appears twice", "layer,head,method\n5,7,a-shape\n5,7,a-shape\n"), ("3 cells", "layer,head,method,n_sink\n5,7,a-shape\n"), ("no heads", "layer,head,method\n"), ("no heads", ""),
                           ('it has two columns "n_sink"; keep only one', "layer,head,method,n_sink,n_sink\n5,7,a-shape,3,4\n")):
            (self.path / "bad.csv").write_text(text)
            self.assertIn(said, run("compare", self.part, "--config", self.path / "bad.csv", "--repeat", "1", code=3).stderr)
        # As a spreadsheet and an editor leave it.
        (self.path / "edited.csv").write_text("\ufefflayer,head,method,n_sink\r\n\r\n5,7,a-shape,3\r\n\r\n", encoding="utf-8", newline="")
        run("compare", self.part, "--config", self.path / "edited.csv", "--heads", "5:7", "--repeat", "1", "-o", out, "--force", "--quiet")
        self.assertTrue(json.loads(out.read_text())["results"][0]["parameters"].startswith("n_sink=3,"))
        # A file of the schema before, in which all heads have one method.
        old = {"schema": "headscope-tuning-1", "method": "block-sparse", "heads": [{"layer": 5, "head": 7, "parameters": {"n_blocks": 2}}]}
        (self.path / "old.json").write_text(json.dumps(old))
        run("compare", self.part, "--config", self.path / "old.json", "--heads", "5:7", "--repeat", "1", "-o", out, "--force", "--quiet")
        self.assertEqual(json.loads(out.read_text())["results"][0]["parameters"], "n_blocks=2")
        self.assertIn("has no setting for head 8:0", run("compare", self.part, "--config", self.path / "old.json", "--heads", "8:0", code=2).stderr)
        self.assertIn("time each head by itself", run("compare", self.part, "--config", self.path / "old.json", "--measure", "layer", code=2).stderr)
        self.assertIn("--method or --config", run("compare", self.part, code=2).stderr)

    def test_each_range_of_lengths_has_settings_of_its_own(self):
        long, check = str(self.path / "long.h5"), str(self.path / "check.h5")
        run("export", SHIPPED, "--layers", "5,8", "--tokens", "0:400", "-o", long)
        run("export", SHIPPED, "--layers", "5,8", "--tokens", "0:390", "-o", check)
        # SampleAttention's tuning: alpha_c, alpha_s and the number of chunks of every range, for all heads alike.
        asked = ("--method", "sample-attention:chunk_n=1", "--method", "sample-attention:chunk_n=2", "--target", "cra-mean=0.9", "--per", "model", "--heads", "5:6,5:7,8:4")
        alone = {trace: self.tuned(trace, *asked, *more)[0] for trace, more in ((self.part, ()), (long, ("--check", check)))}
        config, said = self.tuned(long, self.part, *asked, "--check", check, "--ranges", "100,151,1K")
        self.assertEqual((config["schema"], config["complete"], config["num_heads_chosen"]), ("headscope-tuning-3", True, 3))
        self.assertEqual([(part["from_tokens"], part["below_tokens"]) for part in config["ranges"]], [(100, 151), (151, 1024)], "an edge is the next range's first length")
        for part, trace in zip(config["ranges"], (self.part, long)):
            for name in ("heads", "methods", "traces", "checks"):
                self.assertEqual(part[name], alone[trace][name], f"as if {trace} were tuned by itself")
        self.assertNotEqual(config["ranges"][0]["heads"][0]["parameters"], config["ranges"][1]["heads"][0]["parameters"], "lengths that want the same setting would show nothing")
        self.assertIn("151 to 1023 tokens: 3 of 3 heads", said)
        table = run("tune", self.part, long, *asked, "--ranges", "151", "--quiet").stdout
        self.assertRegex(table, "(?s)^below 151 tokens:\n.*\n\n151 tokens and more:\n")

        csv_file, out = self.path / "ranges.csv", self.path / "compared.json"
        run("tune", long, self.part, *asked, "--check", check, "--ranges", "100,151", "-o", csv_file, "--quiet")
        with open(csv_file, newline="") as file:
            self.assertEqual([(line["from_tokens"], line["below_tokens"], line["checked_target_met"] != "") for line in csv.DictReader(file)], [("100", "151", False)] * 3 + [("151", "", True)] * 3)
        for trace, part in ((self.part, 0), (long, 1)):
            for file in (self.path / "tuned.json", csv_file):
                run("compare", trace, "--config", file, "--heads", "5:6,5:7,8:4", "--repeat", "1", "-o", out, "--force", "--quiet")
                for entry, result in zip(config["ranges"][part]["heads"], json.loads(out.read_text())["results"], strict=True):
                    self.assertEqual(result["parameters"], ",".join(f"{name}={value if isinstance(value, str) else format(value, 'g')}" for name, value in entry["parameters"].items()))
                    self.assertAlmostEqual(result["kept_fraction"], entry["kept_fraction"], 6)
        tiny = str(self.path / "tiny.h5")
        run("export", SHIPPED, "--layers", "5,8", "--tokens", "0:99", "-o", tiny)
        self.assertIn("has no settings for a prompt of 99 tokens, but for 100 to 150 tokens, 151 to 1023 tokens;", run("compare", tiny, "--config", self.path / "tuned.json", code=2).stderr)
        # Of a part of a prompt the prompt's length decides.
        run("export", SHIPPED, "--layers", "5,8", "--tokens", "340:400", "-o", tiny, "--force")
        self.assertIn("5  6  ", run("compare", tiny, "--config", self.path / "tuned.json", "--heads", "5:6", "--repeat", "1", "--quiet").stdout.replace(":", "  "))

        # Tokens that were decoded are behind the prompt.
        with h5py.File(self.trace, "r") as file:
            phase = file["tokens/phase"][:]
        prompt = int((phase == 0).sum())
        self.assertLess(prompt, len(phase))
        both = [{"from_tokens": begin, "below_tokens": end, "heads": [{"layer": 5, "head": 7, "method": "block-sparse", "parameters": {"n_blocks": blocks}}]} for begin, end, blocks in ((0, prompt + 1, 2), (prompt + 1, None, 3))]
        (self.path / "both.json").write_text(json.dumps({"schema": "headscope-tuning-3", "ranges": both}))
        run("compare", self.trace, "--config", self.path / "both.json", "--heads", "5:7", "--repeat", "1", "-o", out, "--force", "--quiet")
        self.assertEqual(json.loads(out.read_text())["results"][0]["parameters"], "n_blocks=2")
        config, _ = self.tuned(self.trace, "--method", "block-sparse", "--target", "cra-mean=0.5", "--heads", "5:7", "--ranges", str(prompt + 1))
        self.assertEqual([(part["from_tokens"], part["below_tokens"]) for part in config["ranges"]], [(0, prompt + 1)])

        for said, more in (("put them in order", ("--ranges", "200,100")), ("in units of 1024 as 16K", ("--ranges", "0")), ("in units of 1024 as 16K", ("--ranges", "16X")),
                           ("no trace of its range of lengths, below 151 tokens, is tuned on", ("--ranges", "151", "--check", self.part)),
                           ("whatever the prompt's length", ("--ranges", "151", "--format", "minference", "-o", self.path / "m.json"))):
            self.assertIn(said, run("tune", long, *asked, *more, code=2).stderr)
        good = {"schema": "headscope-tuning-3", "ranges": [{"from_tokens": 0, "below_tokens": 300, "heads": [{"layer": 5, "head": 7, "method": "block-sparse", "parameters": {"n_blocks": 2}}]}]}
        for said, change in (("in another range as well", lambda it: it["ranges"].append(it["ranges"][0] | {"from_tokens": 299, "below_tokens": None})), ("end where they begin", lambda it: it["ranges"][0].update(from_tokens=300)),
                             ("below_tokens", lambda it: it["ranges"][0].pop("below_tokens")), ("not a number of tokens", lambda it: it["ranges"][0].update(from_tokens=-1)), ("not a number of tokens", lambda it: it["ranges"][0].update(from_tokens=2**64 - 1)),
                             ("ranges: it is not a list", lambda it: it.update(ranges=3)), ("ranges[0]: it is not an object", lambda it: it.update(ranges=[4])), ("ranges[0].heads", lambda it: it["ranges"][0].update(heads=7)), ("no heads", lambda it: it.update(ranges=[]))):
            bad = json.loads(json.dumps(good))
            change(bad)
            (self.path / "bad.json").write_text(json.dumps(bad))
            self.assertIn(said, run("compare", self.part, "--config", self.path / "bad.json", code=3).stderr)

    def test_a_run_over_ranges_goes_on_in_each(self):
        out = self.path / "ranged.json"
        longer = str(self.path / "longer.h5")
        run("export", SHIPPED, "--tokens", "0:2200", "-o", longer)
        command = [HEADSCOPE, "tune", longer, SHIPPED, "--method", "vertical-slash", "--target", "cra-p5=0.95", "--ranges", "3K", "-o", str(out), "--resume", "--quiet"]
        second = pathlib.Path(f"{out}.3072.unfinished")
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while process.poll() is None and (not second.exists() or len(second.read_text().splitlines()) < 3):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=60 * PATIENCE), 130)
        self.assertFalse(out.exists())
        finished = subprocess.run(command, capture_output=True, text=True, timeout=240 * PATIENCE)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertEqual(finished.stderr.count("heads are done"), 2)
        self.assertIn("in which 80 heads are done", finished.stderr)
        self.assertEqual([path.name for path in self.path.glob("ranged.json*")], [out.name])
        self.assertEqual([len(part["heads"]) for part in json.loads(out.read_text())["ranges"]], [80, 80])

    def test_files_of_serving_engines(self):
        asked = (self.trace, "--method", "a-shape", "--method", "vertical-slash", "--method", "block-sparse", "--target", "cra-p5=0.8", "--quiet")
        config, _ = self.tuned(*asked[:-1])
        best = self.path / "best.json"
        run("tune", *asked, "-o", best, "--format", "minference")
        layers = json.loads(best.read_text())
        names = {"a-shape": ("stream_llm", "n_sink", "n_local"), "vertical-slash": ("vertical_and_slash", "n_vertical", "n_slash"), "block-sparse": ("block_sparse", "n_blocks", None)}
        for entry in config["heads"]:
            name, first, second = names[entry["method"]]
            written = layers[entry["layer"]][str(entry["head"])]
            self.assertEqual(written[:3], [name, entry["parameters"][first], entry["parameters"][second] if second else 0])
        out = self.path / "compared.json"
        run("compare", self.trace, "--config", best, "--heads", "3:*", "--repeat", "1", "-o", out, "--force", "--quiet")
        for result, entry in zip(json.loads(out.read_text())["results"], [entry for entry in config["heads"] if entry["layer"] == 3]):
            self.assertEqual((result["head"], result["method"]), (entry["head"], entry["method"]))
            self.assertAlmostEqual(result["kept_fraction"], entry["kept_fraction"], 6)
        streaming = self.path / "full_attention_heads.tsv"
        a_shape, _ = self.tuned(self.trace, "--method", "a-shape", "--target", "cra-p5=0.8")
        run("tune", self.trace, "--method", "a-shape", "--target", "cra-p5=0.8", "-o", streaming, "--quiet")
        table = numpy.loadtxt(streaming, dtype=float, delimiter="\t")
        model = a_shape["model"]
        self.assertEqual(table.shape, (model["num_layers"], model["num_kv_heads"]))
        group = model["num_qo_heads"] // model["num_kv_heads"]
        for (layer, kv_head), share in numpy.ndenumerate(table):
            self.assertEqual(share, max(entry["kept_fraction"] for entry in a_shape["heads"] if entry["layer"] == layer and entry["head"] // group == kv_head))
        # Its library reads sinks and window from the file beside, and so does headscope.
        beside = self.path / "config.json"
        self.assertEqual(json.loads(beside.read_text()), {"sink_size": 128, "recent_size": 256})
        beside.write_text('{"sink_size": 5, "recent_size": 77}')
        run("tune", self.trace, "--method", "a-shape", "--target", "cra-p5=0.8", "-o", streaming, "--force", "--quiet")
        self.assertEqual(json.loads(beside.read_text()), {"sink_size": 5, "recent_size": 77}, "sizes that are there stay")
        run("compare", self.trace, "--method", f"duo-attention:path={streaming}", "--heads", "3:0", "--repeat", 1, "-o", out, "--force", "--quiet")
        self.assertRegex(json.loads(out.read_text())["results"][0]["parameters"], "n_sink=5,n_local=77")
        text = streaming.read_text()
        beside.write_text('{"model_type": "llama"}')
        self.assertIn("in that folder has none", run("tune", self.trace, "--method", "a-shape", "--target", "cra-p5=0.8", "-o", streaming, "--force", code=2).stderr)
        self.assertEqual((streaming.read_text(), beside.read_text()), (text, '{"model_type": "llama"}'), "nothing was written")
        run("tune", self.trace, "--method", "a-shape", "--target", "cra-p5=0.8", "-o", self.path / "other.tsv", "--quiet")
        beside.unlink()
        for said, options in (("cannot express s2-attention", ("--method", "s2-attention", "--format", "minference", "-o", "x.json")),
                              ("cannot express forced_slashes=100 of vertical-slash", ("--method", "vertical-slash:forced_slashes=100", "--format", "minference", "-o", "x.json")),
                              ("chooses by the tensors", ("--method", "vertical-slash", "-o", "x.tsv")),
                              ("a place for every head", ("--method", "a-shape", "-o", "x.tsv", "--heads", "0:*")),
                              ("choose json, csv", ("--method", "a-shape", "--format", "yaml", "-o", "x.json"))):
            self.assertIn(said, run("tune", self.trace, "--target", "cra=0.8", *options, code=2, cwd=self.path).stderr)
        # As its published code runs it: what a head's two numbers do not say.
        patterns, out = self.path / "patterns.json", self.path / "patterns-compared.json"
        patterns.write_text(json.dumps([{str(head): ["vertical_and_slash", 20 + 20 * head, 40 + 40 * head, 0] if head else ["block_sparse", 7, 9, 0] for head in range(8)}] * 10))
        for code in (False, True):
            run("compare", self.trace, "--config", patterns, *(("--minference-code",) if code else ()), "--heads", "8:0,8:1,8:2", "--repeat", 1, "-o", out, "--force", "--quiet")
            said = [result["parameters"] for result in json.loads(out.read_text())["results"]]
            self.assertEqual(said[0], "n_blocks=7")
            for head, parameters in ((1, said[1]), (2, said[2])):
                values = dict(part.split("=") for part in parameters.split(","))
                expected = {"n_vertical": 20 + 20 * head, "n_slash": 40 + 40 * head, "forced_columns": 30 if code else 0, "forced_slashes": 100 if code else 0}
                self.assertEqual({name: int(values[name]) for name in expected}, expected)
        patterns.write_text(json.dumps([{"4": ["vertical_and_slash", 7, 9, 0]}] * 10))
        run("compare", self.trace, "--config", patterns, "--minference-code", "--heads", "8:4", "--repeat", 1, "-o", out, "--force", "--quiet")
        self.assertRegex(json.loads(out.read_text())["results"][0]["parameters"], "^n_vertical=30,n_slash=50,")
        for said, options in (("is not a file of MInference's best patterns", ("--config", self.path / "tuned.json", "--minference-code")), ("give them by --config", ("--method", "dense", "--minference-code"))):
            self.assertIn(said, run("compare", self.trace, *options, code=2).stderr)
        rows = self.path / "mixed.csv"
        run("tune", *asked, "-o", rows)
        for row, entry in zip(csv.DictReader(rows.read_text().splitlines()), config["heads"]):
            self.assertEqual(row["method"], entry["method"])
            for name in ("n_sink", "n_vertical", "n_blocks"):
                self.assertEqual(row[name], str(entry["parameters"].get(name, "")))

    # A file of a larger model has a line and a number for every head of a smaller one, and means others by them.
    def test_files_of_other_models_are_refused(self):
        shares, patterns, answers = self.path / "shares.tsv", self.path / "patterns.json", ("eval", "--task", "passkey", "--length", 300, "--samples", 1, "--quiet")
        for lines, numbers in ((32, 8), (11, 4), (9, 4), (10, 5)):
            shares.write_text(("\t".join(["0.5"] * numbers) + "\n") * lines)
            method = f"duo-attention:path={shares}"
            for command in (("compare", self.trace, "--method", method, "--heads", "3:0"), ("compare", self.trace, "--method", f"decode/{method}", "--heads", "3:0"),
                            ("render", self.trace, "--head", "3:0", "--view", "mask", "--method", method, "-o", self.path / "mask.png"),
                            ("bench", "--data", f"trace:{self.trace}:4", "--methods", method), ("bench", "--data", f"trace:{self.trace}:4", "--methods", f"decode/{method}"),
                            ("tune", self.trace, "--heads", "4:0", "--method", "a-shape", "--target", f"kept={method}"),
                            ("tune", self.trace, "--heads", "4:0", "--method", "h2o", "--target", f"kept=decode/{method}"),
                            ("diff", self.trace, "--method", method, "--method", "dense"), (*answers, "--attention", method), (*answers, "--attention", f"decode/{method}")):
                said = run(*command, code=3).stderr
                self.assertIn(f"it has {lines} lines of {numbers} numbers", said)
                self.assertIn("10 layers of up to 4 KV heads: take the model's own file", " ".join(said.replace(";", ":").split()))
        patterns.write_text(json.dumps([{str(head): ["stream_llm", 5, 9, 0] for head in range(8)}] * 12))
        for command in (("compare", self.trace, "--config", patterns), (*answers, "--attention-config", patterns)):
            self.assertIn("it has a setting for head 10:0, and the model of", run(*command, code=3).stderr)
        patterns.write_text(json.dumps([{str(head): ["stream_llm", 5, 9, 0] for head in range(12)}] * 10))
        for command in (("compare", self.trace, "--config", patterns, "--heads", "3:0"), (*answers, "--attention-config", patterns)):
            self.assertRegex(run(*command, code=3).stderr, "it has a setting for head 0:8, and the model of .* has 8 heads in that layer[:;] take the model's own file")

    def test_help_and_page_name_every_format(self):
        text = " ".join(run("tune", "--help").stdout.split())
        formats = re.search(r"--format NAME What to write, where the extension does not say it: (.*?) --resume", text)[1]
        named = re.findall(r"([a-z-]+) \((\.[a-z]+), ", formats)
        self.assertEqual(named, [("json", ".json"), ("csv", ".csv"), ("minference", ".json"), ("duo-attention", ".tsv"), ("lu-kv", ".npy")])
        page = (pathlib.Path(__file__).parents[2] / "docs" / "analysis.md").read_text()
        for name, extension in named:
            self.assertIn(f"`{name}`", page)
            self.assertIn(f"`{extension}`", page)
        for extension in {extension for _, extension in named}:  # each once, with what it means unless a format is named
            self.assertEqual(len(re.findall(rf"\{extension} \(", text.split("--force")[0])), 1, extension)

    def test_budgets_of_kv_heads_are_shared_out_as_lu_kv_reads_them(self):
        asked = (self.trace, "--method", "knorm", "--target", "cra-mean=0.9", "--front", 9)
        config, _ = self.tuned(*asked)
        curve = self.path / "curve.npy"
        run("tune", *asked, "-o", curve, "--quiet")
        shares, model, tokens = numpy.load(curve), config["model"], config["traces"][0]["num_tokens"]
        group = model["num_qo_heads"] // model["num_kv_heads"]
        self.assertEqual((shares.shape, shares.dtype), ((99, model["num_layers"], model["num_kv_heads"]), numpy.float32))
        ratios = numpy.arange(1, 100) / 100
        numpy.testing.assert_allclose(shares.mean(axis=(1, 2)), ratios, atol=1e-5, err_msg="all heads together let go of the ratio")
        self.assertTrue((numpy.diff(shares, axis=0) > -1e-6).all(), "more is let go of everywhere")
        # Token by token, the next one where a head's concave hull rises most; hulls by brute force over all chords.
        gains = []
        for front in config["fronts"][::group]:
            (layer, first), = front["heads"]
            heads = [other for other in config["fronts"] if other["heads"][0][0] == layer and first <= other["heads"][0][1] < first + group]
            at = numpy.array([0] + [min(point["parameters"]["budget"], tokens) for point in front["points"]] + [tokens])
            mass = numpy.mean([[0] + [point["cra_mean"] for point in head["points"]] + [head["points"][-1]["cra_mean"]] for head in heads], axis=0)
            steps = numpy.arange(tokens + 1)
            hull = numpy.zeros(tokens + 1)
            for i in range(len(at)):
                for j in range(i + 1, len(at)):
                    inside = (steps >= at[i]) & (steps <= at[j])
                    if at[i] < at[j]:
                        hull[inside] = numpy.maximum(hull[inside], mass[i] + (mass[j] - mass[i]) * (steps[inside] - at[i]) / (at[j] - at[i]))
            gains.append((hull, numpy.diff(hull)))
        best = numpy.sort(numpy.concatenate([gain for _, gain in gains]))[::-1]
        for ratio, share in zip(ratios, shares.reshape(99, -1)):
            kept = (1 - share) * tokens
            mass = sum(numpy.interp(amount, numpy.arange(tokens + 1), hull) for amount, (hull, _) in zip(kept, gains))
            count = (1 - ratio) * tokens * len(gains)
            most = best[: int(count)].sum() + (count - int(count)) * best[min(int(count), len(best) - 1)]
            self.assertAlmostEqual(mass, most, delta=1e-3 * len(gains))
        self.assertGreater(shares[49].std(), 0.01, "heads get budgets of their own")
        # What was written is read: every query head keeps its KV head's share.
        out = self.path / "budgets.json"
        compared = ("compare", self.trace, "--config", curve, "--heads", "3:*,8:4", "--decode-rows", 2, "--repeat", 1)
        run(*compared, "--compression-ratio", 0.5, "--budget-method", "knorm", "-o", out, "--quiet")
        results = json.loads(out.read_text())["results"]
        self.assertEqual(len(results), model["num_qo_heads"] + 1)
        for result in results:
            kept = max(1, round(float((1 - shares[49, result["layer"], result["head"] // group].astype(float)) * tokens)))
            self.assertEqual((result["method"], dict(one.split("=") for one in result["parameters"].split(","))["budget"]), ("knorm", str(kept)))
        self.assertGreater(len({result["parameters"] for result in results}), 2)
        self.assertIn("name a method with a budget", run(*compared, "--compression-ratio", 0.9, "--quiet", code=2).stderr)
        for said, options in (("give the share to evict", ()), ("give the share to evict", ("--compression-ratio", 0.505)),
                              ("methods that evict", ("--compression-ratio", 0.5, "--budget-method", "sparq"))):
            self.assertIn(said, run(*compared, *options, "--quiet", code=2).stderr)
        self.assertIn("--compression-ratio", run("compare", self.trace, "--method", "knorm", "--compression-ratio", 0.5, code=2).stderr)
        for wrong, said in ((shares[:, :2], "layers of"), (shares[:, :, :2], "layers of"), (numpy.concatenate([shares, shares], axis=1), "20 layers of 4"), (shares[:98], "[99, layers, KV heads]"), (shares + 1, "share from 0 to 1"),
                            (shares.astype(numpy.int32), "fp32 or fp64"), (numpy.asfortranarray(shares), "C order")):
            numpy.save(self.path / "wrong.npy", wrong)
            self.assertIn(said, run("compare", self.trace, "--config", self.path / "wrong.npy", "--compression-ratio", 0.5, "--budget-method", "knorm", code=3).stderr)
        # What a method keeps in any case may be more than the file allows: raising the budget is no remedy there, but what raises it is.
        none = self.path / "none_left.npy"
        numpy.save(none, numpy.full_like(shares, 0.999))
        refused = run("compare", self.trace, "--config", none, "--compression-ratio", 0.5, "--budget-method", "snap-kv", "--heads", "3:0", "--decode-rows", 2, "--repeat", 1, "--quiet",
                      code=2).stderr
        self.assertIn(f"lower window; the budget is that of {none}, which rises as --compression-ratio falls", refused)
        beside = run("compare", self.trace, "--config", none, "--compression-ratio", 0.5, "--budget-method", "knorm", "--method", "snap-kv:budget=9", "--heads", "3:0", "--decode-rows", 2,
                     "--repeat", 1, "--quiet").stderr
        self.assertIn("without snap-kv", beside)
        self.assertNotIn("--compression-ratio", beside, "that budget is not the file's")
        numpy.save(self.path / "wide.npy", shares.astype(numpy.float64))
        run("compare", self.trace, "--config", self.path / "wide.npy", "--compression-ratio", 0.5, "--budget-method", "knorm", "--heads", "3:*,8:4",
            "--decode-rows", 2, "--repeat", 1, "-o", out, "--force", "--quiet")
        self.assertEqual([result["parameters"] for result in json.loads(out.read_text())["results"]], [result["parameters"] for result in results])

    def test_what_a_layers_heads_share_is_said_where_some_are_missing(self):
        out = self.path / "shared.json"
        methods = [argument for values in ("snap-kv:allocation=ada", "h2o:allocation=kvpress", "snap-kv", "tova") for argument in ("--method", values)]
        said = ("one by itself has an even share", "one by itself has an even share", None, "one by itself has its own")
        for measure in ("head", "layer"):
            run("compare", SHIPPED, *methods, "--heads", "3:0", "--measure", measure, "--decode-rows", 2, "--repeat", 1, "-o", out, "--force", "--quiet")
            notes = [result["note"] for result in json.loads(out.read_text())["results"]]
            for note, sentence in zip(notes, said, strict=True):
                if sentence is not None and measure == "head":
                    self.assertIn(sentence, note)
                else:
                    self.assertNotIn("one by itself", note)

    def test_a_run_that_was_stopped_goes_on(self):
        out = self.path / "resumed.json"
        command = [HEADSCOPE, "tune", SHIPPED, "--method", "vertical-slash", "--target", "cra-p5=0.95", "-o", str(out), "--resume"]
        kept = pathlib.Path(f"{out}.unfinished")
        for how in (signal.SIGINT, signal.SIGKILL):
            screen, terminal = pty.openpty()
            process = subprocess.Popen(command, stderr=terminal, stdout=subprocess.DEVNULL)
            os.close(terminal)
            before = len(kept.read_text().splitlines()) if kept.exists() else 1
            while not kept.exists() or len(kept.read_text().splitlines()) < before + 3:
                os.read(screen, 4096)
            if how == signal.SIGINT:  # what two wrote into one file was no line of either
                self.assertIn(f"a tuning to it is running (process {process.pid})", run(*command[1:], "--quiet", code=2).stderr)
            process.send_signal(how)
            process.wait(timeout=60 * PATIENCE)
            os.close(screen)
            self.assertFalse(out.exists())
        done = len(kept.read_text().splitlines()) - 1
        self.assertGreaterEqual(done, 6)
        refused = run("tune", SHIPPED, "--method", "vertical-slash", "--target", "cra-p5=0.9", "-o", out, "--resume", code=2)
        self.assertIn("of other traces, methods or targets", refused.stderr)
        lines = kept.read_text()
        unit = json.loads(lines.splitlines()[-1])
        for damaged in ([1], {}, [{}], [unit[0] | {"method": 7}], [unit[0] | {"id": [-1, 0]}], [unit[0] | {"device_id": "tpu"}], [unit[0] | {"found": {"values": "none=1"}}]):
            kept.write_text(lines + json.dumps(damaged) + "\n")
            self.assertIn("a line of it is damaged; remove the file to start again", run(*command[1:], "--quiet", code=3).stderr, damaged)
        kept.write_text(lines + '[{"method": 0, "found": {"kept": 1, "kept": 2}}]\n')
        self.assertIn('a line of it has the name "kept" twice in one object; remove the file', run(*command[1:], "--quiet", code=3).stderr)
        kept.write_text(lines)
        with open(kept, "a") as file:
            file.write('[{"id": [9,')  # as a kill in the middle of a line leaves it
        finished = subprocess.run([*command, "--quiet"], capture_output=True, text=True, timeout=240 * PATIENCE)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        self.assertIn("heads are done", finished.stderr)
        self.assertFalse(kept.exists())
        whole, _ = self.tuned(SHIPPED, "--method", "vertical-slash", "--target", "cra-p5=0.95")
        self.assertEqual(json.loads(out.read_text())["heads"], whole["heads"], "as if it had not been stopped")
        kept.write_text("something else\n")
        self.assertIn("the file of an interrupted tuning", run(*command[1:], "--force", code=3).stderr)
        kept.unlink()

    def test_hostile_configurations_are_refused_in_a_sentence(self):
        good = {"schema": "headscope-tuning-2", "heads": [{"layer": 5, "head": 7, "method": "vertical-slash", "parameters": {"n_vertical": 3, "n_slash": 4}}]}
        path = self.path / "hostile.json"
        for text in ("", "{", "[]", "{}", "7", "[" * 100000, json.dumps(good | {"schema": "headscope-tuning-9"}), json.dumps(good | {"heads": 3}), json.dumps(good | {"heads": []}),
                     json.dumps(good | {"heads": good["heads"] * 2}), json.dumps([{"0": ["unknown", 1, 2, 3]}]), json.dumps([{"0": ["", 1, 2, 3]}]), json.dumps([{"x": ["block_sparse", 1, 2, 3]}]),
                     json.dumps([{"99999999999": ["block_sparse", 1, 2, 3]}]), json.dumps([{"0": ["block_sparse", 1e300, 2, 3]}]), json.dumps([[1]]),
                     json.dumps({"schema": "headscope-tuning-2", "heads": [{"layer": -1, "head": 0, "method": "dense", "parameters": {}}]}),
                     json.dumps({"schema": "headscope-tuning-2", "heads": [{"layer": 2**70, "head": 0, "method": "dense", "parameters": {}}]}),
                     json.dumps({"schema": "headscope-tuning-2", "heads": [{"layer": 0, "head": 0, "method": "\u001b[31m", "parameters": {}}]}),
                     json.dumps({"schema": "headscope-tuning-2", "heads": [{"layer": 0, "head": 0, "method": "a-shape", "parameters": {"n_sink": "1,n_local=2"}}]}),
                     json.dumps({"schema": "headscope-tuning-2", "heads": [{"layer": 0, "head": 0, "method": "a-shape", "parameters": {"n_sink": None}}]})):
            path.write_text(text)
            refused = run("compare", self.part, "--config", path, "--heads", "5:7", code=3)
            self.assertIn(str(path), refused.stderr)
            self.assertNotIn("\x1b", refused.stderr)
        self.assertIn("cannot be opened", run("compare", self.part, "--config", self.path / "none.json", code=3).stderr)
        chance = random.Random(5)
        text = json.dumps(good).encode()
        for _ in range(60):
            spoiled = bytearray(text)
            for _ in range(chance.randint(1, 4)):
                place = chance.randrange(len(spoiled))
                spoiled[place:place + chance.randint(0, 2)] = bytes(chance.choices(b'{}[]",:0129-eE.\\x\xff\x00', k=chance.randint(0, 3)))
            path.write_bytes(bytes(spoiled))
            done = subprocess.run([HEADSCOPE, "compare", self.part, "--config", path, "--heads", "5:7", "--repeat", "1", "--quiet"], capture_output=True, text=True, timeout=60 * PATIENCE)
            self.assertIn(done.returncode, (0, 2, 3), f"{bytes(spoiled)}: {done.stderr}")
            if done.returncode:
                self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    command_line.main()
