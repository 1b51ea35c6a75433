# SPDX-License-Identifier: Apache-2.0
"""A layer whose rows see their own block of positions only: readers, statistics, maps and decode methods keep to it, and prefill methods are refused by name, or leave such layers out where nobody named them.

    chunked_layers_test.py HEADSCOPE DATA_DIR
"""
import csv
import json
import pathlib
import tempfile
import unittest

import h5py
import numpy

import command_line
from command_line import MODEL, run

CHUNK, LAYER, HEAD, STEPS = 64, 5, 3, 9


def in_chunks(file, slot):
    """Makes the layer in that place what a model with chunks would have recorded of the same vectors; its weights, and which pairs it sees."""
    attention, positions = file["attention"], file["attention/q_rows"][:]
    q, k = (attention[name][slot].astype(numpy.float64) for name in ("q", "k"))
    group = q.shape[0] // k.shape[0]
    columns = numpy.arange(k.shape[1])
    seen = (columns <= positions[:, None]) & (columns // CHUNK == positions[:, None] // CHUNK)
    scores = numpy.stack([q[head] @ k[head // group].T for head in range(q.shape[0])]) / numpy.sqrt(q.shape[2])
    weights = numpy.exp(scores) * seen
    attention["lse"][slot] = numpy.log(weights.sum(axis=2))
    attention["lse_keys"][slot] = positions % CHUNK + 1
    chunks = numpy.zeros(len(file["attention/lse"]), numpy.int32)
    chunks[slot] = CHUNK
    file["layers"].attrs["chunk"] = chunks
    kinds = file["model"].attrs["layer_kinds"]
    kinds[LAYER] = 2
    file["model"].attrs.modify("layer_kinds", kinds)
    return weights, seen


class ChunkedLayers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        cls.trace = cls.path / "chunked.h5"
        run("capture", MODEL, "--task", "passkey", "--length", 400, "--layers", LAYER, "--decode", 8, "--dtype", "fp32", "-o", cls.trace, "--quiet")
        with h5py.File(cls.trace, "r+") as file:
            weights, cls.seen = in_chunks(file, 0)
            cls.p = weights[HEAD] / weights[HEAD].sum(axis=1, keepdims=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_readers_and_statistics_keep_to_the_chunk(self):
        self.assertEqual(json.loads(run("info", self.trace, "--json").stdout)["facts"][0]["chunk"], CHUNK)
        run("analyze", self.trace, "--heads", f"{LAYER}:{HEAD}", "-o", self.path / "all.csv", "--quiet")
        found = next(csv.DictReader((self.path / "all.csv").read_text().splitlines()))
        self.assertAlmostEqual(float(found["max_probability"]), self.p.max(axis=1).mean(), places=5)
        logarithms = numpy.log(numpy.where(self.p > 0, self.p, 1))
        self.assertAlmostEqual(float(found["entropy"]), -(self.p * logarithms).sum(axis=1).mean(), places=4)
        run("render", self.trace, "--head", f"{LAYER}:{HEAD}", "-o", self.path / "map.png")
        self.assertEqual((self.path / "map.png").read_bytes()[:4], b"\x89PNG")

    def test_decode_methods_see_the_chunk_alone(self):
        run("compare", self.trace, "--method", "sliding-window:n_local=16", "--method", "sparq:k=12", "--heads", f"{LAYER}:{HEAD}", "--decode-rows", STEPS,
            "-o", self.path / "decode.json", "--quiet")
        results = {result["method"]: result for result in json.loads((self.path / "decode.json").read_text())["results"]}
        rows = numpy.arange(len(self.p) - STEPS, len(self.p))
        near = numpy.arange(self.p.shape[1])[None, :] > rows[:, None] - 16
        kept = self.seen[rows] & near
        self.assertAlmostEqual(results["sliding-window"]["kept_fraction"], kept.sum() / self.seen[rows].sum(), places=9)
        self.assertAlmostEqual(results["sliding-window"]["cra_mean"], (self.p[rows] * kept).sum(axis=1).mean(), places=5)
        self.assertAlmostEqual(results["sparq"]["kept_fraction"], numpy.minimum(12, rows % CHUNK + 1).sum() / self.seen[rows].sum(), places=9)
        self.assertLess(results["sparq"]["kernel_error"], 1e-5)

    def mixed_trace(self, name):
        """A plain layer, 4, and one in chunks."""
        trace = self.path / name
        run("capture", MODEL, "--task", "passkey", "--length", 400, "--layers", f"4,{LAYER}", "--decode", 8, "--dtype", "fp32", "-o", trace, "--quiet")
        with h5py.File(trace, "r+") as file:
            in_chunks(file, 1)
        return trace

    def test_prefill_methods_leave_out_what_nobody_named(self):
        trace = self.mixed_trace("mixed.h5")
        out, tuned, index = self.path / "mixed.json", self.path / "tuned.json", self.path / "index.json"
        said = run("compare", trace, "--method", "a-shape", "--method", "sliding-window:n_local=16", "--decode-rows", STEPS, "-o", out, "--quiet").stderr
        self.assertIn(f"layer {LAYER}: 8 heads: without a-shape (head {LAYER}:0 attends in chunks of {CHUNK} tokens", said)
        found = {(result["layer"], result["method"]) for result in json.loads(out.read_text())["results"]}
        self.assertEqual(found, {(4, "a-shape"), (4, "sliding-window"), (LAYER, "sliding-window")})
        run("compare", trace, "--method", "a-shape", "--save-index", index, "--quiet")
        self.assertEqual(len(json.loads(index.read_text())["heads"]), 8)
        said = run("tune", trace, "--method", "a-shape", "--target", "cra-mean=0.9", "-o", tuned, "--quiet").stderr
        left_out = f"left out 8 heads of layer {LAYER}, where attention is in chunks of {CHUNK} tokens: prefill methods do not support them"
        self.assertIn(left_out, said)
        self.assertEqual({head["layer"] for head in json.loads(tuned.read_text())["heads"]}, {4})
        self.assertIn(left_out, run("compare", trace, "--config", tuned, "-o", out, "--force", "--quiet").stderr)
        self.assertEqual(len(json.loads(out.read_text())["results"]), 8)
        with h5py.File(trace, "r+") as file:  # what is noted of a head is no second sentence of a refusal
            file["attention/lse"][1] += 1
        for command in ("compare", "tune"):  # whoever names such a head alone is told why
            given = ("--target", "cra-mean=0.9") if command == "tune" else ()
            refused = run(command, trace, "--method", "a-shape", *given, "--heads", f"{LAYER}:{HEAD}", "--quiet", code=2).stderr
            self.assertRegex(refused, f"head {LAYER}:[0-9] attends in chunks of {CHUNK}")

    def test_a_configuration_leaves_out_only_what_nothing_runs_on(self):
        trace = self.mixed_trace("configured.h5")
        pre, dec, both, out = (self.path / f"{name}.json" for name in ("pre", "dec", "both", "configured"))
        run("tune", trace, "--method", "a-shape", "--target", "cra-mean=0.9", "-o", pre, "--quiet")
        run("tune", trace, "--method", "sliding-window", "--target", "cra-mean=0.9", "--heads", "4:0-7", "-o", dec, "--quiet")

        def compared(*arguments):
            said = run("compare", trace, "--decode-rows", STEPS, *arguments, "-o", out, "--force", "--quiet").stderr
            return said, sorted((result["layer"], result["head"], result["method"]) for result in json.loads(out.read_text())["results"])

        # A decode method beside the configuration runs on its heads and on the others.
        said, found = compared("--config", pre, "--method", "sliding-window:n_local=16")
        self.assertIn(f"{pre} has no setting for 8 heads of layer {LAYER}, where attention is in chunks of {CHUNK} tokens: prefill methods do not support them", said)
        self.assertEqual(found, sorted([(4, head, "a-shape") for head in range(8)] + [(layer, head, "sliding-window") for layer in (4, LAYER) for head in range(8)]))
        # Another prefill method runs on them no more than those of the configuration.
        said, found = compared("--config", pre, "--method", "vertical-slash")
        self.assertIn(f"left out 8 heads of layer {LAYER}, where", said)
        self.assertEqual({layer for layer, _, _ in found}, {4})
        # Heads with a setting stay where others have none.
        settings = json.loads(pre.read_text())
        with_decode = dict(json.loads(dec.read_text())["heads"][0], layer=LAYER, head=HEAD)
        both.write_text(json.dumps(dict(settings, heads=[*settings["heads"], dict(settings["heads"][0], layer=LAYER, head=HEAD)])))
        said, found = compared("--config", both)
        self.assertIn(f"left out 7 heads of layer {LAYER}, where", said)
        self.assertIn(f"head {LAYER}:{HEAD} alone: without a-shape (head {LAYER}:{HEAD} attends in chunks", said)
        # What the configuration runs may run on them, so that nobody meant to leave them out.
        for heads in (json.loads(dec.read_text())["heads"], [*settings["heads"], with_decode]):
            both.write_text(json.dumps(dict(settings, heads=heads)))
            self.assertIn(f"it has no setting for head {LAYER}:0", run("compare", trace, "--config", both, "--quiet", code=2).stderr)

    def test_a_named_head_is_not_left_out(self):
        trace, index, out = self.mixed_trace("named.h5"), self.path / "named-index.json", self.path / "named.json"
        for methods in (("--method", "a-shape", "--save-index", index), ("--method", "sliding-window", "--method", "a-shape")):
            refused = run("compare", trace, *methods, "--heads", f"4:0,{LAYER}:{HEAD}", "-o", out, "--quiet", code=2).stderr
            self.assertIn(f"{trace.name}: head {LAYER}:{HEAD} attends in chunks of {CHUNK} tokens", refused)
            self.assertFalse(out.exists() or index.exists())
        run("compare", trace, "--method", "sliding-window", "--heads", f"4:0,{LAYER}:{HEAD}", "--decode-rows", STEPS, "-o", out, "--quiet")
        self.assertEqual([result["layer"] for result in json.loads(out.read_text())["results"]], [4, LAYER])

    def test_prefill_methods_are_refused_by_name(self):
        for command in (("compare", self.trace, "--method", "a-shape", "--quiet"), ("tune", self.trace, "--method", "a-shape", "--target", "cra=0.9", "-o", self.path / "t.json", "--quiet"),
                        ("render", self.trace, "--head", f"{LAYER}:{HEAD}", "--view", "mask", "--method", "a-shape", "-o", self.path / "mask.png"),
                        ("render", self.trace, "--heads", f"{LAYER}:{HEAD}", "--figure", "kernel-sparsity", "-o", self.path / "figure.json", "--quiet")):
            self.assertRegex(run(*command, code=2).stderr, f"head {LAYER}:[0-9] attends in chunks of {CHUNK} tokens")
        self.assertFalse((self.path / "mask.png").exists() or (self.path / "t.json").exists())


if __name__ == "__main__":
    command_line.main()
