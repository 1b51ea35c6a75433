# SPDX-License-Identifier: Apache-2.0
"""Every command on a trace whose layers differ: q and k of 192 and v of 128 components; other heads, a window, a soft cap and learned sinks; values
that are the first components of the keys.

    differing_layers_test.py HEADSCOPE DUMP_PROGRAM

DUMP_PROGRAM (tests/analysis/oracle_dump.cpp) writes the trace; what headscope prints of it is compared with NumPy here, its statistics and maps in
tests/oracle/analysis_oracle.py.
"""
import csv
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

import forked_starts

HEADSCOPE, DUMP = sys.argv[1:3]


def run(*arguments, code=0):
    done = forked_starts.run(HEADSCOPE, arguments, 300)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done


def probabilities(path, part, kv_head, head, window, cap, sink):
    """Probabilities [row, key] of a head of a part's one layer, its values, and what its sink takes of each row."""
    with h5py.File(path, "r") as file:
        group, columns = file[part], file["layers"].attrs
        slot = list(columns["layer"]).index(group["layers"][0])
        q, k = (np.float64(group[name][0, number]) for name, number in (("q", head), ("k", kv_head)))
        v = np.float64(group["v"][0, kv_head]) if "v" in group else k[:, :columns["v_head_dim"][slot]]
        scores = q @ k.T * float(columns["softmax_scale"][slot])
    if cap:
        scores = cap * np.tanh(scores / cap)
    distance = np.arange(len(q))[:, None] - np.arange(len(k))[None, :]
    weights = np.where((distance >= 0) & (distance < (window or len(k))), np.exp(scores), 0)
    share = np.exp(sink) if sink is not None else 0
    total = weights.sum(axis=1) + share
    return weights / total[:, None], v, share / total


class DifferingLayers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        subprocess.run([DUMP, cls.path], check=True, timeout=280)
        cls.trace = cls.path / "differing.h5"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_info_tells_what_differs(self):
        text = run("info", self.trace).stdout
        self.assertIn("layer 0: 4 query heads over 2 KV heads, head_dim 192 (v 128), scale 0.07", text)
        self.assertIn("layer 1: 6 query heads over 3 KV heads, head_dim 64, scale 0.125, RoPE half, window 90, soft cap 20, learned sinks; heads 0-5 (KV 0-2)",
                      text)
        self.assertIn("layer 3: 2 query heads over 1 KV head, head_dim 64 (v 48)", text)
        self.assertIn("v is k", text)
        said = json.loads(run("info", self.trace, "--json").stdout)
        self.assertEqual((said["layers"], said["qo_heads"], said["softmax_scale"]), ([0, 1, 3], None, None))
        self.assertEqual([(facts["kind"], facts["head_dim"], facts["v_head_dim"], facts["num_kv_heads"], facts["window"]) for facts in said["facts"]],
                         [("attention", 192, 128, 2, 0), ("sliding", 64, 64, 3, 90), ("attention", 64, 48, 1, 0)])
        self.assertEqual(said["facts"][1]["sinks"], [0, 3, 5.5, -4, 8, 1])

    def test_analyze_shows_the_mass_that_goes_to_the_sink(self):
        done = run("analyze", self.trace, "-o", self.path / "statistics.json", "--quiet")
        heads = {(head["layer"], head["head"]): head for head in json.loads((self.path / "statistics.json").read_text())["heads"]}
        self.assertEqual(len(heads), 4 + 6 + 2)
        self.assertEqual(heads[0, 0]["learned_sink_mass"], 0)
        for head, sink in ((4, 8.0), (2, 5.5)):
            _, _, share = probabilities(self.trace, "attention/part_1", head // 2, head, 90, 20, sink)
            self.assertAlmostEqual(heads[1, head]["learned_sink_mass"], share.mean(), delta=1e-4)
            self.assertGreater(share.mean(), 0.05, "or the test shows nothing")
            self.assertAlmostEqual(sum(heads[1, head]["column_profile"]), 1 - share.mean(), delta=1e-4)
        self.assertIn("learned_sink_mass", run("analyze", self.trace, "--quiet").stdout.splitlines()[0])
        del done

    def test_compare_runs_the_executors_on_every_layer(self):
        asked = ("--method", "dense", "--method", "a-shape:n_sink=0,n_local=64", "--method", "sparq:reallocate=0", "--repeat", 1, "--decode-rows", 3, "--quiet")
        run("compare", self.trace, *asked, "-o", self.path / "compare.json")
        results = json.loads((self.path / "compare.json").read_text())["results"]
        self.assertEqual({(result["layer"], result["head"]) for result in results}, {(0, h) for h in range(4)} | {(1, h) for h in range(6)} | {(3, 0), (3, 1)})
        for result in results:
            self.assertLess(result["kernel_error"], 1e-5, result)
        masked = {(result["layer"], result["head"]): result for result in results if result["method"].startswith("a-shape")}
        for (layer, head), part, kv_head, window, cap, sink in (((0, 1), "attention", 0, 0, 0, None), ((1, 4), "attention/part_1", 2, 90, 20, 8.0),
                                                                ((3, 1), "attention/part_2", 0, 0, 0, 4.0)):
            p, v, share = probabilities(self.trace, part, kv_head, head, window, cap, sink)
            with h5py.File(self.trace, "r") as file:
                self.assertEqual(file[part]["layers"][0], layer)
            distance = np.arange(len(p))[:, None] - np.arange(len(p))[None, :]
            kept = np.where(distance < 64, p, 0)
            dense, sparse = p @ v, kept @ v / (kept.sum(axis=1) + share)[:, None]
            expected = np.linalg.norm(sparse - dense) / np.linalg.norm(dense)
            self.assertAlmostEqual(masked[layer, head]["relative_error"], expected, delta=2e-4 * max(1, expected), msg=f"{layer}:{head}")

    def test_sparq_names_what_it_does_not_know(self):
        done = run("compare", self.trace, "--heads", "1:0", "--method", "sparq:reallocate=1", "--repeat", 1, "--quiet", code=2)
        self.assertIn("sinks", done.stderr)
        self.assertIn("reallocate", done.stderr)

    def test_render_draws_every_layer(self):
        for head in ("0:3", "1:5", "3:1"):
            for view in (("scores",), ("mask", "--method", "a-shape:n_sink=0,n_local=64"), ("difference", "--method", "a-shape:n_sink=0,n_local=64")):
                out = self.path / f"{head.replace(':', '_')}_{view[0]}.png"
                run("render", self.trace, "--head", head, "--view", *view, "--size", "96x96", "-o", out)
                self.assertEqual(out.read_bytes()[:4], b"\x89PNG")

    def test_export_cuts_heads_of_each_layer(self):
        out = self.path / "part.h5"
        run("export", self.trace, "--layers", "1,3", "--heads", "1,5", "--tokens", "100:400", "-o", out)
        with h5py.File(out, "r") as cut, h5py.File(self.trace, "r") as whole:
            self.assertEqual([list(cut[f"attention{part}/qo_heads"]) for part in ("", "/part_1")], [[1, 5], [1]])
            np.testing.assert_array_equal(cut["attention/v"][0, 1], whole["attention/part_1/v"][0, 2, 100:400])
            np.testing.assert_array_equal(cut["attention/part_1/lse"][0, 0], whole["attention/part_2/lse"][0, 1, 100:400])
            self.assertNotIn("v", cut["attention/part_1"])
            np.testing.assert_array_equal(cut["attention/lse_keys"][0], np.minimum(np.arange(101, 401), 90))
            np.testing.assert_array_equal(cut["layers/sinks"][...], whole["layers/sinks"][...])
        outside = json.loads(run("info", out, "--json").stdout)
        self.assertEqual(outside["first_token"], 100)
        run("export", self.trace, "--layers", "0,1", "--heads", "1", "--tokens", "0:3", "-o", self.path / "part.csv")
        rows = list(csv.DictReader((self.path / "part.csv").read_text().splitlines()))
        self.assertEqual(len(rows), 2 * 3 * 3)
        value = next(row for row in rows if (row["tensor"], row["layer"]) == ("v", "0"))
        self.assertNotEqual(value["d127"], "")
        self.assertEqual(value["d128"], "")
        run("export", self.trace, "--heads", "1", "--tokens", "0:3", "-o", self.path / "part.json")
        said = json.loads((self.path / "part.json").read_text())
        self.assertIsNone(said["softmax_scale"])
        self.assertEqual([facts["softmax_scale"] for facts in said["layers"]], [np.float32(0.07).item(), 0.125, 0.125])
        self.assertEqual({(head["tensor"], head["layer"]): len(head["values"][0]) for head in said["heads"]},
                         {("q", 0): 192, ("k", 0): 192, ("v", 0): 128, ("q", 1): 64, ("k", 1): 64, ("v", 1): 64, ("q", 3): 64, ("k", 3): 64, ("v", 3): 48})
        run("export", self.trace, "--heads", "5", "-o", self.path / "of_layer_1.h5")
        self.assertEqual(json.loads(run("info", self.path / "of_layer_1.h5", "--json").stdout)["layers"], [1])
        refused = run("export", self.trace, "--layers", "0,1", "--heads", "5", "-o", self.path / "none.h5", code=2)
        self.assertIn("layer 0 holds none of the chosen heads", refused.stderr)

    def all_layers(self, **changes):
        """The trace as if its model had no layer that was not recorded, and /model said of no layer what it is."""
        path = self.path / "all_layers.h5"
        shutil.copy(self.trace, path)
        with h5py.File(path, "r+") as file:
            model, layers = file["model"].attrs, file["layers"].attrs
            for name, value in ({"num_layers": 3, "num_qo_heads": 1, "num_kv_heads": 1} | changes).items():
                model.modify(name, model[name].dtype.type(value))
            layers.modify("layer", np.array([0, 1, 2], layers["layer"].dtype))
            file["attention/part_2/layers"][0] = 2
        return path

    def test_tune_writes_a_row_for_each_head_of_each_layer(self):
        asked = ("--method", "a-shape", "--target", "cra-mean=0.5", "--quiet", "--force")
        for changes in ({}, {"num_qo_heads": 64, "num_kv_heads": 64}):
            out = self.path / "patterns.json"
            run("tune", self.all_layers(**changes), *asked, "--format", "minference", "-o", out)
            self.assertEqual([list(layer) for layer in json.loads(out.read_text())], [[str(head) for head in range(heads)] for heads in (4, 6, 2)])
            # A table has one width.
            refused = run("tune", self.all_layers(**changes), *asked, "-o", self.path / "heads.tsv", code=2)
            self.assertIn("layer 1 has 3 KV heads where layer 0 has 2", refused.stderr)
        refused = run("tune", self.trace, *asked, "--format", "minference", "-o", self.path / "none.json", code=2)
        self.assertIn("layer 2 is not in the trace", refused.stderr)

    def test_a_file_of_numbers_is_as_wide_as_the_largest_layer(self):
        trace, shares, out = self.all_layers(), self.path / "shares.tsv", self.path / "shared.json"
        shares.write_text("1\t0\t0\n0\t0\t1\n0\t1\t1\n")
        asked = ("compare", trace, "--method", f"duo-attention:path={shares},n_sink=4,n_local=16", "--repeat", 1, "--quiet")
        run(*asked, "-o", out)
        # Layers of 2, 3 and 1 KV heads, each with 2 query heads: a smaller layer's line ends with numbers that nothing reads.
        everything = {(result["layer"], result["head"]) for result in json.loads(out.read_text())["results"] if result["kept_fraction"] == 1}
        self.assertEqual(everything, {(0, 0), (0, 1), (1, 4), (1, 5)})
        for lines, numbers in ((3, 2), (3, 4), (2, 3), (4, 3)):
            shares.write_text(("\t".join(["1"] * numbers) + "\n") * lines)
            self.assertIn(f"it has {lines} lines of {numbers} numbers, and the model of {trace} has 3 layers of up to 3 KV heads", run(*asked, code=3).stderr)

    def test_a_method_that_does_not_fit_a_layer_leaves_the_others(self):
        out = self.path / "fits.json"
        done = run("compare", self.trace, "--method", "snap-kv", "--method", "chunk-kv", "--method", "tova", "--repeat", 1, "--decode-rows", 2, "--quiet",
                   "-o", out)
        # The window lets a row see 90 tokens, of which half are fewer than the 64 that are kept in any case.
        for method in ("snap-kv", "chunk-kv"):
            self.assertIn(f"layer 1: 6 heads: without {method} (", done.stderr)
        measured = {(result["layer"], result["method"]) for result in json.loads(out.read_text())["results"]}
        self.assertEqual(measured, {(0, "snap-kv"), (0, "chunk-kv"), (0, "tova"), (1, "tova"), (3, "snap-kv"), (3, "chunk-kv"), (3, "tova")})
        refused = run("compare", self.trace, "--heads", "1:0", "--method", "snap-kv", "--repeat", 1, "--quiet", code=2)
        self.assertIn("compression_ratio", refused.stderr)
        figure = self.path / "compression.json"
        run("render", self.trace, "--figure", "compression", "-o", figure)
        said = json.loads(figure.read_text())
        self.assertIn("Without a point", said["caption"])
        self.assertIn("SnapKV", {series["name"] for panel in said["panels"] for series in panel["series"]})

    def test_bench_takes_every_layer(self):
        methods = "dense,a-shape-8+64,vertical-slash:n_vertical=8,n_slash=64,decode/dense,sparq:reallocate=0,snap-kv:budget=70,tova"
        for layer, lacks, window in ((0, "values of another head_dim", 0), (1, "window, soft cap, sinks", 90), (3, "values of another head_dim, sinks", 0)):
            out = self.path / f"bench{layer}.json"
            table = run("bench", "--data", f"trace:{self.trace}:{layer}", "--methods", methods, "--repeat", 1, "--quiet", "--force", "-o", out).stdout
            self.assertIn("which has no " + lacks, table)
            sections = json.loads(out.read_text())["sections"]
            self.assertEqual([section["phase"] for section in sections], ["prefill", "decode"])
            for section in sections:
                self.assertLess(section["dense_to_float64"]["worst_row"], 1e-5)
                self.assertIsNone(section["dense_relative_l2"])
                reference, *rows = section["rows"]
                self.assertIsNone(reference["total_ms"])
                for row in rows:
                    self.assertGreater(row["total_ms"]["median"], 0)
                    self.assertIsNone(row["faster_than_dense"])
                    if row["kind"] == "method":
                        self.assertGreater(row["faster_than_own_dense"], 0)
            facts = sections[0]
            pairs = facts["num_qo_heads"] * sum(min(row + 1, window or 700) for row in range(700))
            self.assertEqual({row["dense_pairs"] for row in facts["rows"]}, {pairs})
            self.assertEqual(facts["rows"][1]["kept_pairs"], pairs)
            dense = next(row for row in sections[1]["rows"] if row["method"] == "decode/dense")
            self.assertEqual(dense["bytes_moved"], 4 * facts["num_kv_heads"] * (window or 700) * (facts["head_dim"] + facts["v_head_dim"]))

    def test_budgets_are_asked_for_in_the_layers_of_the_chosen_heads(self):
        budgets, out = self.path / "budgets.npy", self.path / "budgets.json"
        info = json.loads(run("info", self.trace, "--json").stdout)
        shares = np.full((99, info["model"]["num_layers"], 3), 0.5, np.float32)
        shares[:, 1] = np.float32([0.2, 0.5, 0.8])
        np.save(budgets, shares)
        asked = ("compare", self.trace, "--config", budgets, "--compression-ratio", 0.5, "--budget-method", "knorm", "--decode-rows", 2, "--repeat", 1)
        run(*asked, "--heads", "1:*", "-o", out, "--quiet")
        given = [dict(one.split("=") for one in result["parameters"].split(","))["budget"] for result in json.loads(out.read_text())["results"]]
        self.assertEqual(given, [str(round(share * info["num_tokens"])) for share in (0.8, 0.8, 0.5, 0.5, 0.2, 0.2)])
        for heads in ("*:0", "0:0,1:0"):
            refused = run(*asked, "--heads", heads, code=3).stderr
            self.assertIn("layer 0 with 2; choose heads of layers with as many KV heads alone", refused)
        self.assertIn("give LU-KV's array of budgets", run(*asked, "--heads", "0:0", code=3).stderr)

    def test_a_head_that_only_another_layer_has_is_named(self):
        refused = run("render", self.trace, "--head", "0:5", "-o", self.path / "none.png", code=2)
        self.assertIn("0:5", refused.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
