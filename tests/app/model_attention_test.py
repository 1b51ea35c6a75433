# SPDX-License-Identifier: Apache-2.0
"""A model whose attention methods of the registry compute: its scores on tasks, and what a capture of it records.

    model_attention_test.py HEADSCOPE DATA_DIR
"""
import csv
import functools
import json
import pathlib
import tempfile
import unittest

import h5py
import numpy

import command_line
from command_line import MODEL, run

EVAL = ["eval", "--task", "passkey", "--length", 400, "--samples", 2, "--threads", 2, "--quiet"]


def score(*attention):
    """exact, per token, kept share of the one line that eval prints."""
    header, line = run(*EVAL, *attention).stdout.splitlines()
    cells = dict(zip(header.split(), line.split())) if attention else {}
    words = line.split()
    return float(words[4]), float(words[5]), words[-1] if "kept" in cells or attention else None


@functools.cache
def dense_score():
    return score()


class ModelAttention(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def test_a_task_is_scored_under_methods(self):
        dense = dense_score()
        self.assertEqual(dense[:2], (1.0, 1.0), "the shipped model finds a pass key in 400 tokens")
        self.assertNotIn("kept", run(*EVAL).stdout)
        self.assertEqual(score("--attention", "a-shape:n_local=4096", "--attention", "sparq:k=4096"), (*dense[:2], "100.00%"))
        exact, per_token, kept = score("--attention", "a-shape:n_local=16,n_sink=2", "--attention", "sliding-window:n_local=16")
        self.assertLess(exact, 0.5, "the key lies outside every window")
        self.assertLess(float(kept.rstrip("%")), 20)
        # A decode method that the prompt's passes do not use: the prompt stays dense, and no score of an answer does.
        exact, per_token, kept = score("--attention", "sliding-window:n_local=16")
        self.assertGreater(float(kept.rstrip("%")), 80)
        self.assertLess(per_token, 0.5, "tokens of a wrong answer are scored in steps as well")

    def test_prose_is_read_in_steps_under_a_decode_method(self):
        def losses(*attention):
            line = run("eval", "--task", "prose", "--length", 640, "--samples", 1, "--threads", 2, "--quiet", *attention).stdout.splitlines()[1].split()
            return [float(word) for word in line[4:7]] + line[8:]  # nats, trigram, bits/char, kept
        dense, window = losses("--attention", "decode/dense"), losses("--attention", "sliding-window:n_local=8")
        self.assertEqual((dense[1], dense[3]), (window[1], "100.00%"), "the same tokens")
        self.assertGreater(window[0], dense[0] + 0.05)
        self.assertAlmostEqual(window[2] / window[0], dense[2] / dense[0], delta=0.002)
        # Of 640 rows 40 keep 8 keys each.
        rows = 640 * 641 / 2
        self.assertAlmostEqual(float(window[3].rstrip("%")), 100 * (600 * 601 / 2 + 40 * 8) / rows, delta=0.02)

    def test_a_files_heads_stream_in_the_prompt_and_in_the_steps(self):
        dense = dense_score()
        shares = self.path / "shares.tsv"
        shares.write_text("".join("\t".join(str((layer + head) % 2) for head in range(4)) + "\n" for layer in range(10)))
        both = [f"{phase}duo-attention:path={shares},n_sink=4,n_local=16" for phase in ("", "decode/")]
        asked = lambda more: [word for method in both for word in ("--attention", method + more)]
        self.assertEqual(score(*asked(",threshold=0")), (*dense[:2], "100.00%"))
        half = float(score(*asked(""))[2].rstrip("%"))
        self.assertTrue(45 < half < 70, f"half of the heads stream, and {half} % is kept")
        steps_alone = float(score("--attention", both[1] + ",sparsity=1")[2].rstrip("%"))
        self.assertTrue(half < steps_alone < 100, steps_alone)

    def test_a_configuration_gives_every_head_its_own(self):
        entries = lambda method, parameters: [{"layer": layer, "head": head, "method": method(layer, head), "parameters": parameters(layer, head)} for layer in range(10) for head in range(8)]
        streaming = entries(lambda *_: "a-shape", lambda *_: {"n_sink": 2, "n_local": 16})
        config = self.path / "config.json"
        written = lambda it: config.write_text(json.dumps(it)) and ["--attention-config", config]
        same = score("--attention", "a-shape:n_local=16,n_sink=2")
        self.assertEqual(score(*written({"schema": "headscope-tuning-2", "heads": streaming})), same)
        # Half of the heads of every group stream: their share of what is left out.
        mixed = entries(lambda layer, head: ("a-shape", "dense")[head % 2], lambda layer, head: {} if head % 2 else {"n_sink": 2, "n_local": 16})
        kept = lambda scored: float(scored[2].rstrip("%"))
        half = score(*written({"schema": "headscope-tuning-2", "heads": mixed}))
        self.assertAlmostEqual(kept(half), (kept(same) + kept(score("--attention", "dense"))) / 2, delta=1, msg="but for answers of other lengths")
        # A prompt of 1,500 tokens comes in passes of 1,024: its whole length decides from the first one on.
        ranges = [{"from_tokens": 0, "below_tokens": 1200, "heads": entries(lambda *_: "dense", lambda *_: {})}, {"from_tokens": 1200, "below_tokens": None, "heads": streaming}]
        longer = lambda *attention: run("eval", "--task", "passkey", "--length", 1500, "--samples", 1, "--threads", 2, "--quiet", *attention).stdout.split()[-1]
        self.assertEqual(longer(*written({"schema": "headscope-tuning-3", "ranges": ranges})), longer("--attention", "a-shape:n_local=16,n_sink=2"))
        out = self.path / "sparse.h5"
        run("capture", MODEL, "--text", "The cat sat on the mat.", "--layers", "5", *written({"schema": "headscope-tuning-3", "ranges": ranges}), "-o", out, "--quiet")
        self.assertEqual(json.loads(run("info", out, "--json").stdout)["attention"], f"heads of {config} and decode/dense")
        for said, it, more in (("has no setting for head 0:1", streaming[:1], ()), ("decode method", entries(lambda *_: "sparq", lambda *_: {}), ()), ("give one of the two", streaming, ("--attention", "a-shape"))):
            self.assertIn(said, run(*EVAL, *written({"schema": "headscope-tuning-2", "heads": it}), *more, code=2).stderr)
        self.assertIn("has no settings for a prompt of", run(*EVAL, *written({"schema": "headscope-tuning-3", "ranges": ranges[1:]}), code=2).stderr)

    def test_methods_get_what_they_ask_for_of_the_prompt(self):
        dense = dense_score()
        # Whatever a method has looked at, one that evicts nothing is dense.
        for method in ("expected-attention:compression_ratio=0", "snap-kv:compression_ratio=0,critical=1"):
            self.assertEqual(score("--attention", method)[:2], dense[:2], method)
        for method in ("expected-attention:compression_ratio=0.5", "expected-attention:critical=1", "snap-kv:compression_ratio=0.5,critical=1"):
            self.assertLess(float(score("--attention", method)[2].rstrip("%")), 100, method)

    def test_critical_kv_weighs_by_its_own_norm_where_the_trace_has_it(self):
        found = {}
        for points in ("value-norms", "value-norms-l1", "value-norms,value-norms-l1"):
            trace, out = self.path / f"{points}.h5", self.path / "compared.json"
            run("capture", MODEL, "--task", "passkey", "--length", 400, "--layers", "4,5", "--decode", 4, "--record", points, "--quiet", "-o", trace)
            said = run("compare", trace, "--method", "snap-kv:window=16,budget=64,critical=1", "--method", "snap-kv:window=16,budget=64", "--decode-rows", 4, "--repeat", 1,
                       "--quiet", "-o", out, "--force").stderr  # fmt: skip
            results = json.loads(out.read_text())["results"]
            critical = [result for result in results if "critical=1" in result["parameters"]]
            found[points] = [result["cra_mean"] for result in critical]
            euclidean = points == "value-norms"
            self.assertEqual({"Euclidean norms of W_o v" in result["note"] for result in critical}, {euclidean})
            self.assertEqual("capture with value-norms-l1 recorded" in said, euclidean)
            self.assertFalse(any("Euclidean" in result["note"] for result in results if result not in critical))
        self.assertEqual(len(found["value-norms"]), 16)
        self.assertEqual(found["value-norms,value-norms-l1"], found["value-norms-l1"])
        self.assertNotEqual(found["value-norms"], found["value-norms-l1"])

    def test_answers_have_the_columns_of_kvpress(self):
        out = self.path / "answers.csv"
        exact, _, _ = score("--attention", "snap-kv:compression_ratio=0.25,critical=1,allocation=kvpress", "-o", out)
        with open(out, newline="") as file:
            answers = list(csv.DictReader(file))
        self.assertEqual(len(answers), 2)
        self.assertEqual(numpy.mean([int(answer["score"]) for answer in answers]), exact)
        for answer in answers:
            self.assertEqual((answer["dataset"], answer["data_dir"], answer["task"], answer["press_name"], answer["compression_ratio"]),
                             ("headscope", "400", "passkey", "critical_adakv_snapkv", "0.25"))
            self.assertEqual(answer["score"] == "1", answer["predicted_answer"] == answer["answer"])
            self.assertIn(answer["answer"].strip(), answer["context"], "the pass key is in the text")
            self.assertGreater(int(answer["max_new_tokens"]), 0)
            self.assertEqual(answer["answer_prefix"], "")
        dense = self.path / "answers.json"
        run(*EVAL, "-o", dense)
        said = json.loads(dense.read_text())
        self.assertEqual(said["schema"], "headscope-answers-1")
        self.assertEqual({(answer["press_name"], answer["compression_ratio"], answer["attention"], answer["score"]) for answer in said["answers"]}, {("no_press", 0, "dense", 1)})
        self.assertEqual(list(said["answers"][0]), list(answers[0]))
        run(*EVAL, "--attention", "a-shape", "-o", out, "--force")
        with open(out, newline="") as file:
            self.assertEqual({(answer["press_name"], answer["compression_ratio"]) for answer in csv.DictReader(file)}, {("", "")})
        self.assertIn(".csv or .json", run(*EVAL, "-o", self.path / "answers.txt", code=2).stderr)

    def test_what_cannot_be_is_refused(self):
        self.assertIn('"nothing" is not registered', run(*EVAL, "--attention", "nothing", code=2).stderr)
        self.assertIn("two prefill methods, a-shape and block-sparse", run(*EVAL, "--attention", "a-shape", "--attention", "block-sparse", code=2).stderr)
        if not pathlib.Path("/dev/nvidia0").exists():
            self.assertIn("no usable NVIDIA GPU", run(*EVAL, "--attention", "a-shape", "--device", "cuda", code=4).stderr)
        # At the door, whether or not there is a GPU: it was said after the whole prompt, and not which method it was.
        self.assertIn("--attention think: it drops components of keys", run(*EVAL, "--attention", "think", "--device", "cuda", code=2).stderr)
        self.assertIn("choose from pre-rope, value-norms, hidden-norms",
                      run("capture", MODEL, "--text", "x", "--record", "all", "-o", self.path / "none.h5", code=2).stderr)
        self.assertFalse((self.path / "none.h5").exists())

    def test_a_capture_says_what_ran_and_keeps_its_log_sum_exp(self):
        methods = ["--attention", "a-shape:n_local=16,n_sink=2", "--attention", "sparq:k=16"]
        common = ["--task", "passkey", "--length", 400, "--decode", 4, "--dtype", "fp32", "--layers", "0,5", "--quiet"]
        sparse, dense = self.path / "sparse.h5", self.path / "dense.h5"
        run("capture", MODEL, *common, *methods, "-o", sparse)
        run("capture", MODEL, *common, "-o", dense)
        info = json.loads(run("info", sparse, "--json").stdout)
        self.assertTrue(info["attention"].startswith("a-shape:n_sink=2,n_local=16"), info["attention"])
        self.assertIn(" and sparq:", info["attention"])
        self.assertIn("attention  a-shape:", run("info", sparse).stdout)
        self.assertEqual(json.loads(run("info", dense, "--json").stdout)["attention"], "dense")
        with h5py.File(sparse) as one, h5py.File(dense) as other:
            q, k, lse = (one["attention"][name][:].astype(numpy.float64) for name in ("q", "k", "lse"))
            numpy.testing.assert_allclose(one["attention/q"][0], other["attention/q"][0], atol=1e-6, err_msg="the first layer's input is the same")
            self.assertGreater(numpy.abs(one["attention/k"][1][:, 250:] - other["attention/k"][1][:, 250:]).max(), 1e-2)
            rows = one["attention/q_rows"][:]
        group = q.shape[1] // k.shape[1]
        for slot in range(2):
            for head in range(q.shape[1]):
                scores = q[slot, head] @ k[slot, head // group].T / numpy.sqrt(q.shape[3])
                scores[numpy.arange(k.shape[2])[None, :] > rows[:, None]] = -numpy.inf
                largest = scores.max(axis=1)
                wanted = largest + numpy.log(numpy.exp(scores - largest[:, None]).sum(axis=1))
                numpy.testing.assert_allclose(lse[slot, head], wanted, atol=1e-4)


if __name__ == "__main__":
    command_line.main()
