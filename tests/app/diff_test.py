# SPDX-License-Identifier: Apache-2.0
"""headscope diff and the views of render that compare, on the real binary, beside NumPy.

    diff_test.py HEADSCOPE DATA_DIR
"""
import csv
import html
import json
import re

import h5py
import numpy

import command_line
from command_line import MODEL, run, TraceCase


def band(positions, num_tokens, sinks, local):
    """What sinks and a window keep: the first `sinks` keys and the newest `local`, of each query [rows, tokens]."""
    query, key = positions[:, None], numpy.arange(num_tokens)[None, :]
    return (key <= query) & ((key < sinks) | (query - key < local))


def probabilities(path, layer, head):
    """exp(score - lse) in float64, 0 above the diagonal: [rows, tokens]."""
    with h5py.File(path, "r") as file:
        attention, facts = file["attention"], file["layers"].attrs
        slot = list(attention["layers"]).index(layer)
        group = facts["num_qo_heads"][slot] // facts["num_kv_heads"][slot]
        q = attention["q"][slot, list(attention["qo_heads"]).index(head)].astype(numpy.float64)
        k = attention["k"][slot, list(attention["kv_heads"]).index(head // group)].astype(numpy.float64)
        rows, lse = attention["q_rows"][:], attention["lse"][slot, list(attention["qo_heads"]).index(head)]
        scores = float(facts["softmax_scale"][slot]) * q @ k.T
        return numpy.where(numpy.arange(len(k))[None, :] <= rows[:, None], numpy.exp(scores - lse[:, None].astype(numpy.float64)), 0)


class Masks(TraceCase):
    def test_counts_are_those_of_every_pair(self):
        with h5py.File(self.trace, "r") as file:
            positions = file["attention"]["q_rows"][:]
        first, second = (16, 32), (4, 100)
        a, b = (band(positions, 1024 + 8, *of) for of in (first, second))
        a, b = a[:, : positions[-1] + 1], b[:, : positions[-1] + 1]
        out = self.path / "overlap.json"
        methods = [argument for sinks, local in (first, second) for argument in ("--method", f"a-shape:n_sink={sinks},n_local={local}")]
        run("diff", self.trace, *methods, "--heads", "0:0,3:1", "--quiet", "-o", out)
        told = json.loads(out.read_text())
        self.assertEqual(told["schema"], "headscope-overlap-1")
        self.assertEqual([(head["layer"], head["head"]) for head in told["heads"]], [(0, 0), (3, 1)])
        for head in told["heads"]:
            self.assertEqual(head["first_alone"], int((a & ~b).sum()))
            self.assertEqual(head["second_alone"], int((b & ~a).sum()))
            self.assertEqual(head["both"], int((a & b).sum()))
            self.assertEqual(head["pairs"], int((positions + 1).sum()))
            self.assertAlmostEqual(head["jaccard"], (a & b).sum() / (a | b).sum(), 12)
        table = run("diff", self.trace, *methods, "--heads", "0:0", "--quiet").stdout
        self.assertIn(f" {int((a & ~b).sum())} ", table)
        out = self.path / "overlap.csv"
        run("diff", self.trace, *methods, "--heads", "0:0", "--quiet", "-o", out)
        (line,) = csv.DictReader(out.read_text().splitlines())
        self.assertEqual(int(line["both"]), int((a & b).sum()))


def words_of(svg):
    """What a drawn map says, lines put together."""
    return html.unescape(" ".join(re.findall("<text[^>]*>([^<]*)</text>", svg.read_text())))


class Traces(TraceCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Another prompt, shorter, and fewer of its heads.
        cls.other = str(cls.path / "other.h5")
        run("capture", MODEL, "--task", "repeat", "--length", 600, "--heads", "0-3", "--layers", "0-4", "-o", cls.other, "--quiet")

    def test_differences_are_the_second_less_the_first(self):
        out = self.path / "diff.json"
        run("diff", self.trace, self.other, "--heads", "0:0,2:1", "--quiet", "-o", out)
        told = json.loads(out.read_text())
        self.assertEqual(told["schema"], "headscope-diff-1")
        self.assertEqual([(head["layer"], head["head"]) for head in told["heads"]], [(0, 0), (2, 1)])
        for head in told["heads"]:
            entropies = []
            for path in (self.trace, self.other):
                p = probabilities(path, head["layer"], head["head"])
                logs = numpy.log(p, out=numpy.zeros_like(p), where=p > 0)
                entropies.append(float((-p * logs).sum(axis=1).mean()))
            entropy = head["metrics"]["entropy"]
            self.assertAlmostEqual(entropy["first"], entropies[0], 3)
            self.assertAlmostEqual(entropy["second"], entropies[1], 3)
            self.assertAlmostEqual(entropy["difference"], entropy["second"] - entropy["first"], 9)
        table = run("diff", self.trace, self.other, "--heads", "0:0,2:1", "--metrics", "entropy", "--quiet").stdout
        self.assertIn("largest differences", table)
        self.assertIn(f"{told['heads'][0]['metrics']['entropy']['difference']:+.4f}", table)

    def test_heads_that_one_lacks_are_left_out_and_said(self):
        done = run("diff", self.trace, self.other, "--heads", "0:2,9:7", "--metrics", "entropy", "--quiet")
        self.assertIn("holds 1 of 2 heads", done.stderr)
        self.assertIn("none of the chosen heads", run("diff", self.trace, self.other, "--heads", "9:7", code=3).stderr)

    def test_a_difference_of_maps_is_of_the_queries_that_both_have(self):
        with h5py.File(self.other, "r") as file:
            rows = len(file["attention"]["q_rows"])
        drawn = self.path / "shorter.svg"
        run("render", self.trace, "--head", "0:0", "--view", "other", "--other", self.other, "--size", "200x200", "-o", drawn, "--quiet")
        self.assertIn(f"Compared: the first {rows} queries, which both have.", words_of(drawn))
        self.assertIn("attention probability of head 0:0 of other.h5 minus this head's", words_of(drawn))
        later = self.path / "later.h5"
        run("export", self.trace, "--tokens", "100:300", "-o", later, "--quiet")
        refused = run("render", self.trace, "--head", "0:0", "--view", "other", "--other", later, "-o", self.path / "no.png", code=2)
        self.assertIn("the same queries and keys", refused.stderr)
        for name in ("map.png", "map.svg", "map.pdf"):
            run("render", self.trace, "--head", "0:0", "--view", "other", "--other-head", "0:1", "--size", "300x300", "-o", self.path / name, "--quiet")
        self.assertTrue((self.path / "map.pdf").read_bytes().startswith(b"%PDF-"))
        self.assertIn(b"<svg", (self.path / "map.svg").read_bytes())
        run("render", self.trace, "--head", "0:0", "--view", "overlap", "--method", "a-shape:n_sink=4,n_local=16", "--other-method",
            "a-shape:n_sink=16,n_local=4", "--size", "200x200", "--profiles", "-o", self.path / "overlap.svg", "--quiet")
        for said in ("1 MInference A-shape (n_sink=4,n_local=16); kept: ", "2 MInference A-shape (n_sink=16,n_local=4); kept: ", "grey, and kept by method 1, blue"):
            self.assertIn(said, words_of(self.path / "overlap.svg"))
        refused = run("render", self.trace, "--head", "0:0", "--view", "mask", "--method", "a-shape", "--profiles", "-o", self.path / "no.png", code=2)
        self.assertIn("--profiles: they are beside a map of probabilities", refused.stderr)


class Refusals(TraceCase):
    def test_each_says_what_to_give(self):
        method = ("--method", "a-shape")
        for arguments, said in (
            ((self.trace,), "TRACE_A TRACE_B"),
            ((self.trace, *method), "--method twice"),
            ((self.trace, self.trace, *method, *method), "--method twice"),
            ((self.trace, *method, *method, "--all"), "leave it out"),
            ((self.trace, *method, "--method", "sparq"), "decode method"),
            ((self.trace, self.trace, "--metrics", "nonesuch"), "nonesuch"),
            ((self.trace, self.trace, "-o", self.path / "out.h5"), ".json or .csv"),
        ):
            self.assertIn(said, run("diff", *arguments, code=2).stderr)
        for arguments, said in (
            (("--view", "other"), "--other"),
            (("--view", "overlap", *method), "--other-method"),
            (("--range", "2:1"), '--range "2:1"'),
            (("--other-head", "0:1"), "--view other"),
        ):
            self.assertIn(said, run("render", self.trace, "--head", "0:0", *arguments, "-o", self.path / "no.png", code=2).stderr)


if __name__ == "__main__":
    command_line.main()
