# SPDX-License-Identifier: Apache-2.0
"""Results of the command line on the real binary and the shipped model: what is printed, the schemas of what is written.

    command_line_test.py HEADSCOPE DATA_DIR
"""
import csv
import json
import os
import pathlib
import re
import shutil
import zlib

import h5py
import numpy

import command_line
from command_line import environment_without, MODEL, run, TraceCase


class Results(TraceCase):
    def test_many_prompts_are_a_trace_each(self):
        prompts, folder = self.path / "prompts.jsonl", self.path / "many"
        prompts.write_text('{"text": "The quick brown fox", "name": "fox"}\n{"tokens": [5, 6, 7]}\n')
        command = ("capture", MODEL, "--prompts", prompts, "-o", folder, "--decode", 1, "--quiet")
        done = run(*command)
        self.assertEqual(done.stdout.strip(), str(folder / "manifest.json"))
        manifest = json.loads((folder / "manifest.json").read_text())
        self.assertEqual([(one["line"], one["file"], one["complete"]) for one in manifest["captures"]], [(1, "fox.h5", True), (2, "prompt-2.h5", True)])
        self.assertEqual(json.loads(run("info", folder / "prompt-2.h5", "--json").stdout)["num_tokens"], 4)
        self.assertIn("manifest.json", run(*command, code=2).stderr)
        (folder / "prompt-2.h5").unlink()
        self.assertIn("2 of 2 prompts are done; this run wrote 4 tokens", run(*command, "--resume").stderr)
        self.assertIn("exactly one of", run(*command, "--text", "a", code=2).stderr)
        prompts.write_text('{"text": "a", "file": "/etc/passwd"}\n')
        self.assertIn(f"{prompts}: line 1: the key \"file\" is not known", run(*command, "--force", code=3).stderr)

    def test_ids_need_no_tokenizer(self):
        model, out, prompts = self.path / "without-tokenizer", self.path / "ids.h5", self.path / "ids.jsonl"
        shutil.copytree(MODEL, model, ignore=shutil.ignore_patterns("tokenizer*", "recipe"))
        command = ("capture", model, "--tokens", "5,6,7", "-o", out, "--quiet")
        self.assertRegex(run(*command, "--dry-run").stdout, r"\n  texts      none: .*tokenizer")
        said = "token ids are recorded without their texts: "
        self.assertRegex(run(*command).stderr, said + ".*tokenizer")
        self.assertEqual(json.loads(run("info", out, "--json").stdout)["num_tokens"], 3)
        prompts.write_text('{"tokens": [5, 6, 7]}\n')
        self.assertIn(said, run("capture", model, "--prompts", prompts, "-o", self.path / "ids", "--quiet").stderr)
        self.assertIn("tokenizer", run("capture", model, "--text", "a", "-o", self.path / "text.h5", "--quiet", code=3).stderr)

    def test_a_dry_run_says_what_the_capture_then_does(self):
        plan, out = self.path / "plan.json", self.path / "planned.h5"
        plan.write_text('{"format": "headscope-record-1", "layers": [0, 2], "kv_heads": [1], "rows": "0:4,6:8", "points": ["pre-rope"], "dtype": "fp32"}')
        command = ("capture", MODEL, "--text", "The quick brown fox jumps over the lazy dog.", "--record-plan", plan, "-o", out, "--quiet")
        before = self.names()
        shown = run(*command, "--dry-run").stdout
        self.assertNotIn("devices", shown)
        self.assertRegex(run(*command, "--dry-run", "--device", "auto").stdout, r"\n  devices    layers 0-2 on (cpu|cuda:\d+)\n")
        self.assertEqual(self.names(), before)
        for line in ("layers     0,2\n", "heads      2-3 (KV 1)\n", "rows       0:4,6:8\n", "values     fp32\n", "q, k, v, lse, pre-rope\n", "6 query rows", "memory     about ", "time       about "):
            self.assertIn(line, shown)
        # Layers above the last that is recorded are not run, and have no cache: 8 MiB each here.
        first, last = (float(re.search(r"memory     about (\S+) MiB", run("capture", MODEL, "--task", "kv", "--length", 4096, "--layers", layer, "-o", out, "--dry-run").stdout).group(1)) for layer in (0, 9))
        self.assertGreater(last - first, 8 * 9 - 1)
        run(*command)
        info = json.loads(run("info", out, "--json").stdout)
        self.assertEqual((info["layers"], info["qo_heads"], info["kv_heads"], info["num_rows"], info["encoding"]), ([0, 2], [2, 3], [1], 6, "fp32"))
        self.assertEqual(info["recorded_beside"], ["pre-rope"])
        # Options win, and of the two kinds of heads the command line's.
        run(*command, "--heads", "5", "--rows", "last:1", "--force")
        info = json.loads(run("info", out, "--json").stdout)
        self.assertEqual((info["layers"], info["qo_heads"], info["num_rows"]), ([0, 2], [5], 1))
        out.unlink()
        self.assertIn("--kv-heads 1: heads are named as well", run(*command, "--heads", 5, "--kv-heads", 1, code=2).stderr)
        # What is wrong with a plan's value was said of an option that nobody gave.
        for written, words in (('"layers": [99]', "layers 99: the model has no layer 99"), ('"layers": "5-2"', 'layers "5-2": the range 5-2 runs backwards'), ('"kv_heads": [77]', "kv_heads 77: "),
                               ('"rows": "last:x"', 'rows "last:x": '), ('"points": ["nose"]', 'points: "nose"')):
            plan.write_text('{"format": "headscope-record-1", %s}' % written)
            self.assertIn(f"{plan}: {words}", run(*command, code=2).stderr)
        plan.write_text('{"format": "headscope-record-1", "layers": [99]}')
        self.assertIn("--layers 98: ", run(*command, "--layers", 98, code=2).stderr)
        plan.write_text('{"format": "headscope-record-1", "row": "all"}')
        self.assertIn(f'{plan}: "row": is not known', run(*command, code=3).stderr)
        self.assertIn("python -m headscope.capture", run("capture", MODEL, "--chat", plan, "-o", out, code=2).stderr)
        self.assertFalse(out.exists())

    def test_info_of_trace_and_checkpoint(self):
        trace = json.loads(run("info", self.trace, "--json").stdout)
        self.assertEqual((trace["kind"], trace["complete"], trace["num_tokens"]), ("trace", True, 1024 + 8 - len_answer(trace)))
        self.assertEqual(trace["model"]["num_qo_heads"], 8)
        model = json.loads(run("info", MODEL, "--json").stdout)
        self.assertEqual((model["num_layers"], model["num_kv_heads"], model["head_dim"]), (10, 4, 64))
        self.assertEqual(model["weights_sha256"], trace["model"]["weights_sha256"])
        self.assertIn("layers", run("info", MODEL).stdout)
        # It once said nothing of what the model had generated.
        with h5py.File(self.trace, "r") as file:
            decoded = int((file["tokens/phase"][...] == 1).sum())
            steps = len(set(file["tokens/step"][...][file["tokens/phase"][...] == 1]))
        self.assertGreater(decoded, 0)
        self.assertEqual((trace["num_decode_tokens"], trace["num_decode_steps"]), (decoded, steps))
        self.assertIn(f"{decoded} of them generated in {steps} decode step", run("info", self.trace).stdout)

    def test_the_generated_tokens_are_the_answer(self):
        with h5py.File(self.trace, "r") as file:
            self.assertEqual(file.attrs["complete"], 1)
        done = run("capture", MODEL, "--task", "passkey", "--length", 1024, "--decode", 6, "-o", self.path / "again.h5", "--quiet")
        answer = json.loads(run("info", self.path / "again.h5", "--json").stdout)["task_answer"].strip().rstrip(".")
        self.assertIn(answer, done.stderr)
        info = json.loads(run("info", self.path / "again.h5", "--json").stdout)
        self.assertEqual((info["answer_score"], info["given_answer"]), (1, info["task_answer"]))
        self.assertIn("the task's answer is right", done.stderr)
        self.assertRegex(run("info", self.path / "again.h5").stdout, r'given      ".*", score 1\n')

    def test_export_repacks_and_converts(self):
        packed, halves = self.path / "packed.h5", self.path / "halves.h5"
        run("export", self.trace, "--layers", "2,8", "--compress", "-o", packed, "--quiet")
        run("export", packed, "--dtype", "fp16", "--compress", "-o", halves, "--quiet")
        with h5py.File(self.trace, "r") as source, h5py.File(packed, "r") as plain, h5py.File(halves, "r") as half:
            self.assertEqual((plain["attention/k"].compression, plain["attention/k"].shuffle, plain["attention/k"].fletcher32), ("gzip", True, True))
            self.assertIsNone(plain["tokens/ids"].compression)
            layers = list(source["attention/layers"])
            for slot, layer in enumerate((2, 8)):
                for name in "qkv":
                    for head in (0, 3):
                        expected = read_floats(source["attention"][name], layers.index(layer), head)
                        numpy.testing.assert_array_equal(read_floats(plain["attention"][name], slot, head), expected)
                        as_half = expected.astype(numpy.float32).astype(numpy.float16)
                        numpy.testing.assert_array_equal(half["attention"][name][slot, head], as_half)
                numpy.testing.assert_array_equal(half["attention/lse"][slot], source["attention/lse"][layers.index(layer)])
        self.assertLess(packed.stat().st_size, 0.95 * pathlib.Path(self.trace).stat().st_size * 2 / 10)
        # What is measured on it is what is measured on the trace.
        measured = [json.loads(run("analyze", one, "--heads", "8:4", "-o", self.path / f"{index}-of-repacked.json", "--quiet") and (self.path / f"{index}-of-repacked.json").read_text())["heads"] for index, one in enumerate((self.trace, packed))]
        for (head,), one in zip(measured, (self.trace, packed)):
            self.assertEqual((head.pop("trace"), bool(head.pop("written_at"))), (str(pathlib.Path(one).absolute()), True))
        self.assertEqual(*measured)
        self.assertIn("--compress: .csv", run("export", self.trace, "--compress", "-o", self.path / "a.csv", code=2).stderr)
        self.assertIn("it must be fp32, bf16 or fp16", run("export", self.trace, "--dtype", "fp8", "-o", self.path / "a.h5", code=2).stderr)

    def test_analyze_formats_agree(self):
        for extension in ("json", "csv", "h5"):
            run("analyze", self.trace, "--heads", "2:*,8:4", "-o", self.path / f"statistics.{extension}", "--quiet")
        statistics = json.loads((self.path / "statistics.json").read_text())
        self.assertEqual(statistics["schema"], "headscope-statistics-1")
        rows = list(csv.DictReader((self.path / "statistics.csv").read_text().splitlines()))
        self.assertEqual((len(statistics["heads"]), len(rows)), (9, 9))
        kurtosis = [head["kurtosis"] for head in statistics["heads"]]
        numpy.testing.assert_allclose([float(row["kurtosis"]) for row in rows], kurtosis, rtol=1e-5)
        with h5py.File(self.path / "statistics.h5", "r") as file:
            numpy.testing.assert_allclose(file["results/kurtosis"][...], kurtosis, rtol=1e-12)
        table = run("analyze", self.trace, "--heads", "8:4", "--metrics", "kurtosis", "--quiet").stdout
        self.assertIn("8:4", table)

    def test_analyze_takes_targets_and_budgets(self):
        asked = ("--heads", "8:4", "--cra-targets", "0.995,0.8,0.80", "--agreement-r", "4,64", "--agreement-k", "16", "--quiet")
        for extension in ("json", "csv", "h5"):
            run("analyze", self.trace, *asked, "-o", self.path / f"asked.{extension}")
        head = json.loads((self.path / "asked.json").read_text())["heads"][0]
        self.assertEqual([entry["target"] for entry in head["sparsity_at_cra"]], [0.8, 0.995])
        self.assertGreater(head["sparsity_at_cra"][0]["sparsity"], head["sparsity_at_cra"][1]["sparsity"])
        self.assertEqual([(entry["r"], entry["k"]) for entry in head["top_k_agreement"]], [(4, 16), (64, 16)])
        self.assertEqual(head["top_k_agreement"][1]["mean"], 1, "all 64 components are the exact scores")
        self.assertLess(head["top_k_agreement"][0]["mean"], 1)
        expected = {"sparsity_0.80": head["sparsity_at_cra"][0]["sparsity"], "sparsity_0.995": head["sparsity_at_cra"][1]["sparsity"],
                    "agreement_r4_k16": head["top_k_agreement"][0]["mean"], "agreement_r64_k16": 1}
        row = next(csv.DictReader((self.path / "asked.csv").read_text().splitlines()))
        self.assertEqual({name for name in row if name.startswith(("sparsity_", "agreement_"))}, set(expected))
        with h5py.File(self.path / "asked.h5", "r") as file:
            for name, value in expected.items():
                self.assertEqual(float(row[name]), value, name)
                self.assertEqual(file["results"][name][0], value, name)
        run("analyze", self.trace, "--heads", "8:4", "-o", self.path / "usual.json", "--quiet")
        usual = json.loads((self.path / "usual.json").read_text())["heads"][0]
        self.assertEqual([entry["target"] for entry in usual["sparsity_at_cra"]], [0.9, 0.95, 0.99])
        self.assertEqual((head["class"], head["class_reason"]), (usual["class"], usual["class_reason"]), "the class has a target of its own")
        table = run("analyze", self.trace, *asked).stdout.splitlines()
        for name in expected:
            self.assertIn(name, table[0])
        for option, wrong in (("--cra-targets", "0.5,1"), ("--cra-targets", "nan"), ("--agreement-r", "4,x"), ("--agreement-k", "0")):
            self.assertIn(option, run("analyze", self.trace, option, wrong, code=2).stderr)

    def test_the_printed_table_fits_a_terminal_and_says_its_units(self):
        heads = ("--heads", "8:*", "--quiet")
        table = run("analyze", self.trace, *heads).stdout.splitlines()
        self.assertEqual(len(table), 2 + 8)
        self.assertLessEqual(max(map(len, table)), 80)
        units = {name: table[1][:table[0].index(name) + len(name)].split()[-1] for name in ("sparsity_0.95", "entropy", "sink_mass")}
        self.assertEqual(units, {"sparsity_0.95": "share", "entropy": "nats", "sink_mass": "share"})
        self.assertTrue(table[1].startswith("on cpu "), table[1])
        run("analyze", self.trace, *heads, "-o", self.path / "device.json")
        self.assertEqual({head["device"] for head in json.loads((self.path / "device.json").read_text())["heads"]}, {"cpu"})
        everything = run("analyze", self.trace, *heads, "--all").stdout.splitlines()
        run("analyze", self.trace, *heads, "-o", self.path / "everything.csv")
        written = list(csv.DictReader((self.path / "everything.csv").read_text().splitlines()))
        names = everything[0].split()[2:]
        self.assertEqual([*names, "trace", "model", "written_at", "version"], list(written[0])[10:])
        for line, row in zip(everything[2:], written):
            # What a head has not is a dash here and an empty cell there.
            shown = [float("nan" if cell == "-" else cell) for cell in line.split()[2:]]
            numpy.testing.assert_allclose(shown, [float(row[name] or "nan") for name in names], atol=6e-5)
        for options in (("--all", "--metrics", "kurtosis"), ("--all", "-o", self.path / "none.csv")):
            self.assertIn("--all", run("analyze", self.trace, *options, code=2).stderr)

    def test_compare_dense_is_exact_and_windows_lose(self):
        out = self.path / "comparison.json"
        run("compare", self.trace, "--heads", "8:4", "--method", "dense", "--method", "a-shape:n_sink=4,n_local=64", "--method", "sparq:r=16,k=64",
            "--repeat", 2, "-o", out, "--quiet")
        results = {result["method"]: result for result in json.loads(out.read_text())["results"]}
        self.assertEqual(len(results), 3)
        self.assertEqual(results["dense"]["kept_fraction"], 1)
        self.assertLess(results["dense"]["relative_error"], 1e-5)
        self.assertLess(results["a-shape"]["kept_fraction"], 0.2)
        self.assertGreater(results["a-shape"]["relative_error"], results["dense"]["relative_error"])
        self.assertLess(results["a-shape"]["cra_min"], results["dense"]["cra_min"])
        for result in results.values():
            self.assertLessEqual(result["cra_min"], result["cra_p5"])
            self.assertLessEqual(result["cra_p5"], result["cra_mean"] + 1e-6)
        self.assertLess(results["a-shape"]["cra_p5"], results["a-shape"]["cra_mean"])
        table = run("compare", self.trace, "--heads", "8:4", "--method", "dense", "--repeat", 1, "--quiet").stdout
        for column in ("speed-up", "CRA min", "CRA p5", "CRA mean"):
            self.assertIn(column, table)

    def test_compare_writes_what_every_row_keeps(self):
        rows, out = self.path / "rows.csv", self.path / "quantiles.json"
        asked = ("compare", self.trace, "--heads", "8:4", "--method", "a-shape:n_sink=4,n_local=64", "--method", "sparq:r=16,k=64", "--repeat", 1, "--quiet")
        run(*asked, "--save-rows", rows, "-o", out)
        with open(rows, newline="") as file:
            lines = list(csv.DictReader(file))
        masses = {}
        for line in lines:
            self.assertEqual((line["layer"], line["head"]), ("8", "4"))
            masses.setdefault(line["method"], {})[int(line["position"])] = float(line["kept_mass"])
        plain = self.path / "plain.h5"
        run("export", self.trace, "--layers", "8", "--dtype", "fp32", "-o", plain, "--quiet")
        with h5py.File(plain) as file:
            q, k, lse = (file[f"attention/{name}"][0, head].astype(numpy.float64) for name, head in (("q", 4), ("k", 2), ("lse", 4)))
            positions = file["attention/q_rows"][:]
        kept = positions[:, None] - numpy.arange(len(k))[None, :]
        kept = (kept >= 0) & ((kept < 64) | (numpy.arange(len(k))[None, :] < 4))
        wanted = numpy.where(kept, numpy.exp(q @ k.T / numpy.sqrt(q.shape[1]) - lse[:, None]), 0).sum(axis=1)
        numpy.testing.assert_allclose([masses["a-shape"][position] for position in positions], wanted, atol=1e-5)
        self.assertEqual(list(masses["sparq"]), list(positions[-16:]))
        for run_of in json.loads(out.read_text())["results"]:
            ordered = sorted(masses[run_of["method"]].values())
            for name, share in (("cra_min", 0), ("cra_p1", 0.01), ("cra_p5", 0.05), ("cra_p25", 0.25), ("cra_p50", 0.5)):
                self.assertEqual(run_of[name], ordered[max(0, int(numpy.ceil(share * len(ordered) - 1e-9)) - 1)], name)
            self.assertAlmostEqual(run_of["cra_mean"], numpy.mean(ordered), 6)
            self.assertLessEqual(ordered[-1], 1)
        table = self.path / "rows.h5"
        run(*asked, "--save-rows", table)
        with h5py.File(table) as file:
            numpy.testing.assert_allclose(file["results/kept_mass"][...], [float(line["kept_mass"]) for line in lines], rtol=1e-12)
            numpy.testing.assert_array_equal(file["results/position"][...], [int(line["position"]) for line in lines])
        self.assertIn("--save-rows", run(*asked, "--save-rows", rows, "-o", rows, "--force", code=2).stderr)
        self.assertRegex(run(*asked, "--save-rows", self.path / "rows.json", code=2).stderr, r"--save-rows .*\.csv or \.h5")

    def test_compare_measures_a_layer_once_and_prints_what_was_asked_in_order(self):
        """Rows came sorted, two settings of a method looked alike, decode's dense was called as prefill's, and a head was timed alone."""
        out = self.path / "layer.json"
        asked = ("compare", self.trace, "--heads", "8:4,2:0,8:1", "--method", "sparq:r=8,k=48", "--method", "a-shape:n_sink=4,n_local=64",
                 "--method", "sparq:r=8,k=96", "--method", "decode/dense", "--repeat", 2, "--quiet")
        lines = run(*asked).stdout.splitlines()
        rows = [line.split() for line in lines[1:13]]
        self.assertEqual([row[0] for row in rows], ["8:4"] * 4 + ["2:0"] * 4 + ["8:1"] * 4)
        self.assertEqual([row[1] for row in rows], ["sparq", "a-shape", "sparq", "decode/dense"] * 3)
        self.assertEqual([row[-1] for row in rows[:3]], ["k=48", "n_sink=4,n_local=64", "k=96"])
        self.assertIn("min of 16", lines[1], "the fifth percentile of 16 rows is their minimum")
        self.assertIn("+-", lines[1])
        self.assertIn("layer 8: 8 heads", lines[1])
        footer = "\n".join(lines[13:])
        self.assertIn("All runs of sparq: r=8,", footer)
        self.assertIn("layer 2: 8 heads in one launch", footer)

        run(*asked, "-o", out)
        document = json.loads(out.read_text())
        self.assertEqual(document["schema"], "headscope-comparison-2")
        results = document["results"]
        self.assertEqual([(result["layer"], result["head"]) for result in results], [(8, 4)] * 4 + [(2, 0)] * 4 + [(8, 1)] * 4)
        for first, again in zip(results[:4], results[8:]):
            self.assertEqual(first["attend"], again["attend"], "one measurement serves both heads of the layer")
            self.assertEqual(first["measured"], "layer 8: 8 heads")
        self.assertNotEqual(results[1]["cra_mean"], results[9]["cra_mean"], "the head's own")
        kv_heads = results[0]["measured_kv_heads"]
        for result in results:
            self.assertEqual(result["measured_heads"], 8)
            self.assertEqual(result["num_rows"], 16 if result["phase"] == "decode" else json.loads(run("info", self.trace, "--json").stdout)["num_rows"])
            self.assertIn(result["baseline"], ("headscope", "LibTorch"))
            self.assertEqual(result["dense_attend"]["repeats"], 2)
            if result["method"] == "sparq":
                self.assertEqual(result["chosen_per"], "KV head" if kv_heads < 8 else "query head")
                self.assertGreater(result["bytes_allow"], 1)

        run(*asked, "--measure", "head", "-o", out, "--force")
        alone = json.loads(out.read_text())["results"]
        self.assertEqual([result["measured"] for result in alone[::4]], ["head 8:4 alone", "head 2:0 alone", "head 8:1 alone"])
        self.assertEqual(alone[0]["chosen_per"], "query head")
        for layer, head in zip(results, alone):
            if layer["method"] == "a-shape":
                self.assertEqual(layer["kept_fraction"], head["kept_fraction"])
                self.assertAlmostEqual(layer["relative_error"], head["relative_error"], 5)
        self.assertIn("layer or head", run(*asked, "--measure", "model", code=2).stderr)

    def test_compare_says_what_no_head_of_a_layer_keeps(self):
        """S2-Attention's shards are the whole context where the heads are as many as the stride."""
        info = json.loads(run("info", self.trace, "--json").stdout)
        tokens, kept, causal = info["num_tokens"], 0, 0
        first = tokens - info["num_rows"]
        for row in range(0, info["num_rows"], 64):
            position = first + min(row + 64, info["num_rows"]) - 1
            own = position // 64
            # Head h of 8 owns the blocks j with (j + h) % 15 == 0; the own block is everybody's.
            kept += sum(min(64, position + 1 - 64 * j) for j in range(own + 1) if j == own or any((j + head) % 15 == 0 for head in range(8)))
            causal += position + 1
        self.assertLess(kept, causal)
        said = run("compare", self.trace, "--heads", "8:4", "--method", "s2-attention", "--repeat", 1, "--quiet").stderr
        self.assertIn(f"layer 8's 8 heads together keep {kept * 1000 // causal / 10:.1f} % of the causal pairs", said)
        said = run("compare", self.trace, "--heads", "8:4", "--method", "s2-attention", "--method", "s2-attention:vertical_stride=14", "--repeat", 1, "--quiet").stderr
        self.assertRegex(said, r"(?m)s2-attention: layer 8's 8 heads together")
        self.assertIn("s2-attention:vertical_stride=14: layer 8's 8 heads together", said)
        for whole in (("--method", "s2-attention:vertical_stride=8"), ("--method", "a-shape:n_sink=1,n_local=9"), ("--method", "s2-attention", "--measure", "head")):
            self.assertNotIn("together", run("compare", self.trace, "--heads", "8:4", *whole, "--repeat", 1, "--quiet").stderr)

    def test_compare_saves_what_a_method_keeps_and_another_trace_runs_it(self):
        method, heads = "vertical-slash:n_vertical=30,n_slash=20", ("--heads", "8:4,2:0-1", "--repeat", 1, "--quiet", "--force")
        index, out = self.path / "index.h5", self.path / "saved.json"

        def compared(trace, asked, *more):
            run("compare", trace, *heads, "--method", asked, "-o", out, *more)
            return [(r["layer"], r["head"], r["kept_fraction"], r["cra_mean"]) for r in json.loads(out.read_text())["results"]]

        for measure in ("layer", "head"):
            own = compared(self.trace, method, "--save-index", index, "--measure", measure)
            self.assertEqual(len(own), 3)
            self.assertEqual(compared(self.trace, f"mask-file:path={index}", "--measure", measure), own, "the same prompt keeps the same")
            compared(self.trace, method, "--save-index", self.path / "index.json", "--measure", measure)
            self.assertEqual(compared(self.trace, f"mask-file:path={self.path / 'index.json'}", "--measure", measure), own, "and so do the same numbers in JSON")
        # A share is of the prompt, without the tokens that were decoded behind it.
        shared = compared(self.trace, "streaming-llm:local_share=0.5", "--save-index", index)
        self.assertEqual(compared(self.trace, f"mask-file:path={index}"), shared)
        own = compared(self.trace, method, "--save-index", index, "--measure", "head")
        other = self.path / "other-prompt.h5"
        run("capture", MODEL, "--task", "passkey", "--length", 1024, "--seed", 77, "--decode", 8, "-o", other, "--quiet")
        moved, chosen = compared(other, f"mask-file:path={index}", "--measure", "head"), compared(other, method, "--measure", "head")
        self.assertEqual([r[:3] for r in moved], [r[:3] for r in own], "the lists are the first prompt's")
        self.assertNotEqual([r[3] for r in moved], [r[3] for r in chosen], "the second prompt's own lists keep another mass")

        shorter = self.path / "shorter.h5"
        run("capture", MODEL, "--task", "passkey", "--length", 512, "--decode", 8, "-o", shorter, "--quiet")
        asked = ("--method", f"mask-file:path={index}", "--repeat", 1, "--quiet")
        self.assertRegex(run("compare", shorter, "--heads", "8:4", "--measure", "head", *asked, code=2).stderr, "and the index was made for [0-9]+: take one of that shape")
        self.assertIn("no lists of layer 8's query head 5", run("compare", self.trace, "--heads", "8:5", "--measure", "head", *asked, code=2).stderr)
        with h5py.File(index, "r+", libver="latest") as file:
            file["heads"][1] = file["heads"][0]
        self.assertRegex(run("compare", self.trace, "--heads", "8:4", *asked, code=3).stderr, f"{index}: heads names head . of layer . twice; write the file again")
        for wrong in (("--method", "sparq"), ("--method", "dense", "--method", "a-shape"), ("--method", "dense", "-o", self.path / "new.json")):
            target = self.path / "new.json"
            self.assertIn("--save-index", run("compare", self.trace, *wrong, "--heads", "8:4", "--save-index", target, code=2).stderr)
            self.assertFalse(target.exists())

    def test_compare_says_that_a_trace_holds_part_of_a_layer(self):
        part = self.path / "part-of-a-layer.h5"
        run("export", self.trace, "--layers", "8", "--heads", "4", "-o", part)
        done = run("compare", part, "--method", "a-shape", "--repeat", 1, "--quiet")
        self.assertIn("layer 8: 1 of 8 heads", done.stdout)
        self.assertIn("the trace does not hold", done.stderr)

    def test_render_writes_a_picture_of_the_size_asked_for(self):
        out = self.path / "head.png"
        run("render", self.trace, "--head", "8:4", "--size", "300x300", "-o", out)
        header = out.read_bytes()[:24]
        self.assertEqual(header[:8], b"\x89PNG\r\n\x1a\n")
        self.assertGreater(int.from_bytes(header[16:20], "big"), 300)
        run("render", self.trace, "--head", "8:4", "--view", "mask", "--method", "vertical-slash:n_vertical=30,n_slash=100", "-o", self.path / "mask.png")
        # Paper is white unless the window's dark ground is asked for.
        for ground, corner in (((), 255), (("--ground", "light"), 255), (("--ground", "dark"), 23)):
            run("render", self.trace, "--head", "8:4", "--size", "64x64", *ground, "-o", out, "--force")
            self.assertEqual(first_pixel(out), (corner,) * 3)
        self.assertIn("light, dark", run("render", self.trace, "--head", "8:4", "--ground", "grey", "-o", self.path / "x.png", code=2).stderr)

    def test_analyze_marks_what_is_alarming(self):
        asked = ("analyze", self.trace, "--heads", "8:4", "--metrics", "largest_logit", "--quiet")
        quiet, loud = run(*asked).stdout, run(*asked, "--alarm", "largest_logit=1").stdout
        self.assertNotIn("!", quiet)
        self.assertIn("!", loud.splitlines()[2])
        self.assertIn("largest_logit above 1: 1 of 1 heads", loud)
        # In a table whose columns were not chosen, and beside those that were.
        for columns in ((), ("--metrics", "entropy")):
            header, _, line, mark = run("analyze", self.trace, "--heads", "8:4", *columns, "--alarm", "lse=1", "--quiet").stdout.splitlines()
            self.assertEqual(header.split()[-1], "lse")
            self.assertTrue(line.split()[-1].startswith("!"), line)
            self.assertEqual(mark, "!  lse above 1: 1 of 1 heads")
        self.assertNotIn("lse", run("analyze", self.trace, "--heads", "8:4", "--quiet").stdout)
        for wrong in ("largest_logit", "largest_logit=x", "largest_logit=nan", "largest_logit=inf", "=3"):
            self.assertIn("--alarm", run(*asked, "--alarm", wrong, code=2).stderr)

    def test_classes_follow_thresholds_from_a_file(self):
        rules = json.loads(run("analyze", "--print-classes").stdout)
        self.assertEqual(rules["schema"], "headscope-classes-1")
        self.assertEqual(set(rules["thresholds"]), set(rules["meaning"]))
        path = self.path / "rules.json"
        rules["thresholds"] |= {"retrieval_peak": 1, "far_mass": 1, "near_mass": 0, "near_share": 1}
        path.write_text(json.dumps(rules))
        run("analyze", self.trace, "--heads", "8:*", "--classes", path, "-o", self.path / "near.json", "--quiet")
        heads = json.loads((self.path / "near.json").read_text())["heads"]
        self.assertEqual({head["class"] for head in heads}, {"sink+local"}, "a near mass of 0 is enough for all")
        self.assertTrue(all(head["class_alternative"] != "sink+local" and 0 <= head["class_confidence"] <= 1 for head in heads))
        changed = json.loads(run("analyze", "--print-classes", "--classes", path, "--class-threshold", "near_mass=0.25,far_mass=0.5").stdout)
        self.assertEqual((changed["thresholds"]["near_mass"], changed["thresholds"]["far_mass"]), (0.25, 0.5))
        self.assertEqual(changed["thresholds"]["retrieval_peak"], 1, "what the option does not name stays the file's")
        for wrong in ("near=1", "far_mass", "far_mass=x", "far_mass=1.5"):
            self.assertIn("--class-threshold", run("analyze", "--print-classes", "--class-threshold", wrong, code=2).stderr)
        path.write_text('{"schema": "headscope-classes-1", "thresholds": {"near": 1}}')
        self.assertIn("near", run("analyze", self.trace, "--classes", path, code=3).stderr)
        self.assertIn("TRACE", run("analyze", code=2).stderr)

    def test_figures_are_drawn_and_their_numbers_written(self):
        names = [line.split()[0] for line in run("render", "--list-figures").stdout.splitlines()]
        self.assertIn("sparsity", names)
        figure = ("render", self.trace, "--heads", "8:*", "--max-rows", "16", "--quiet", "--figure")
        for name in names:
            with self.subTest(figure=name):
                traces = (self.trace,) if name == "index-transfer" else ()
                out = self.path / f"{name}.json"
                run(*figure, name, *traces, "-o", out)
                said = json.loads(out.read_text())
                self.assertEqual((said["schema"], said["figure"]), ("headscope-figure-1", name))
                self.assertTrue(all(panel["series"] for panel in said["panels"]))
        for extension, begin in (("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG"), ("csv", b"panel,series,x,y")):
            out = self.path / f"figure.{extension}"
            run(*figure, "sparsity", "-o", out)
            self.assertTrue(out.read_bytes().startswith(begin), extension)
        self.assertIn("choose from top-k-mass", run(*figure, "no-such", "-o", self.path / "x.svg", code=2).stderr)
        self.assertIn(".svg", run(*figure, "sparsity", "-o", self.path / "x.gif", code=2).stderr)
        self.assertIn("at least 2", run(*figure, "index-transfer", "-o", self.path / "x.svg", code=2).stderr)
        self.assertIn("--figure", run("render", self.trace, "-o", self.path / "x.png", code=2).stderr)

    def test_quantise_ranks_formats(self):
        out = self.path / "bits.json"
        run("quantise", self.trace, "--heads", "8:*", "--scales", "token", "--hadamard", "off", "--quiet", "-o", out)
        error = {}
        for entry in json.loads(out.read_text())["results"]:
            error.setdefault(entry["format"], []).append(entry["relative_error"])
        self.assertEqual({name: len(some) for name, some in error.items()}, dict.fromkeys(("fp8-e4m3", "int8", "int4", "mxfp4"), 8))
        mean = {name: sum(some) / len(some) for name, some in error.items()}
        self.assertLess(mean["int8"], mean["fp8-e4m3"])
        self.assertLess(mean["fp8-e4m3"], mean["mxfp4"])
        self.assertLess(mean["fp8-e4m3"], mean["int4"])
        self.assertIn("int8      token    off", run("quantise", self.trace, "--heads", "8:4", "--formats", "int8", "--quiet").stdout)
        # A line for each head, with its sparsity and its least error among the settings.
        run("quantise", self.trace, "--heads", "8:4,8:5", "--formats", "int8,int4", "--scales", "head,token", "--quiet", "-o", out, "--force")
        entries, least = json.loads(out.read_text())["results"], {}
        shown = run("quantise", self.trace, "--heads", "8:4,8:5", "--formats", "int8,int4", "--scales", "head,token", "--quiet").stdout
        for entry in entries:
            key = entry["layer"], entry["head"], entry["format"]
            least[key] = min(least.get(key, 9), entry["relative_error"])
        self.assertEqual(shown.split("\n\n")[1].splitlines()[1].split(), ["head", "sparsity_0.95", "int8", "int4"])
        for line, head in zip(shown.splitlines()[-2:], (4, 5), strict=True):
            sparsity = next(entry["sparsity_0.95"] for entry in entries if entry["head"] == head)
            self.assertEqual(line.split(), [f"8:{head}", f"{sparsity:.4f}", f"{least[8, head, 'int8']:.5f}", f"{least[8, head, 'int4']:.5f}"])
        run("quantise", self.trace, "--heads", "8:*", "--scales", "token", "--hadamard", "off", "--quiet", "-o", out, "--force")
        self.assertNotIn("k_scales", json.loads(out.read_text())["results"][0], "of tokens")
        self.assertIn("name one with -o", run("quantise", self.trace, "--all-scales", code=2).stderr)
        for option, wrong in (("--formats", "int9"), ("--scales", "row"), ("--hadamard", "maybe"), ("--tensors", "o"), ("-o", "x.h5")):
            self.assertIn(wrong, run("quantise", self.trace, option, wrong, code=2).stderr)

    def test_export_takes_a_part(self):
        out = self.path / "part.h5"
        run("export", self.trace, "--layers", "2,8", "--heads", "4,5", "--tokens", "100:200", "-o", out)
        part = json.loads(run("info", out, "--json").stdout)
        self.assertEqual((part["layers"], part["qo_heads"], part["num_tokens"], part["first_token"]), ([2, 8], [4, 5], 100, 100))
        self.assertIn("at its token 100", run("info", out).stdout)
        self.assertEqual(json.loads(run("info", self.trace, "--json").stdout)["first_token"], 0)
        self.assertNotIn("cut from", run("info", self.trace).stdout)

        run("export", self.trace, "--layers", 8, "--heads", 4, "--tokens", "100:200", "-o", self.path / "part.csv")
        rows = [row for row in csv.DictReader((self.path / "part.csv").read_text().splitlines()) if row["tensor"] == "q"]
        self.assertEqual([int(row["token"]) for row in rows], list(range(100)))
        self.assertEqual([int(row["position"]) for row in rows], list(range(100, 200)))
        self.assertEqual([int(row["lse_keys"]) for row in rows], list(range(101, 201)))
        with h5py.File(self.trace, "r") as whole:
            numpy.testing.assert_array_equal(numpy.float32([row["lse"] for row in rows]), whole["attention/lse"][8, 4, 100:200])
            numpy.testing.assert_array_equal(whole["attention/lse_keys"][8, 100:200], range(101, 201))
        with h5py.File(out, "r") as cut:
            self.assertEqual(cut["attention/lse_keys"].shape, (2, 100))
            for slot in range(2):
                numpy.testing.assert_array_equal(cut["attention/lse_keys"][slot], range(101, 201))

    def test_a_part_of_a_trace_says_what_lies_outside(self):
        part = self.path / "outside.h5"
        run("export", self.trace, "--layers", "8", "--heads", "4", "--tokens", "600:900", "-o", part)
        done = run("analyze", part, "-o", self.path / "outside.json", "--quiet")
        self.assertIn("outside.h5 was cut from a longer trace at its token 600", done.stderr)
        head = json.loads((self.path / "outside.json").read_text())["heads"][0]
        with h5py.File(self.trace, "r") as whole:
            attention = whole["attention"]
            q, k, lse = (read_floats(attention[name], 8, slot) for name, slot in (("q", 4), ("k", 2), ("lse", 4)))
            rows = numpy.arange(600, 900)
            p = numpy.exp(q[rows] @ k[:600].T * whole["layers"].attrs["softmax_scale"][8] - lse[rows][:, None])
        self.assertAlmostEqual(head["outside_mass"], float(p.sum(axis=1).mean()), delta=1e-4)
        self.assertAlmostEqual(sum(head["column_profile"]), 1 - head["outside_mass"], delta=1e-4)
        table = run("analyze", part, "--quiet").stdout
        self.assertIn("outside_mass", table.splitlines()[0])
        self.assertIn("outside_mass", run("info", part).stdout)
        run("render", part, "--head", "8:4", "--size", "64x64", "-o", self.path / "outside.png")
        self.assertNotIn("was cut", run("analyze", self.trace, "--heads", "8:4", "--quiet").stderr)

    def test_a_wrong_log_sum_exp_is_told(self):
        wrong = self.path / "wrong_lse.h5"
        wrong.write_bytes(pathlib.Path(self.trace).read_bytes())
        with h5py.File(wrong, "r+") as file:
            file["attention/lse"][...] = file["attention/lse"][...] * numpy.float32(1.442695)  # in base 2
        for command in (("analyze", wrong, "--heads", "8:4,8:5"), ("render", wrong, "--head", "8:4", "--size", "64x64", "-o", self.path / "wrong.png"),
                        ("compare", wrong, "--heads", "8:4", "--method", "dense", "--repeat", 1),
                        ("tune", wrong, "--heads", "8:4", "--method", "a-shape", "--target", "cra=0.5")):
            said = run(*command, "--quiet").stderr
            self.assertEqual(said.count("wrong_lse.h5: /attention/lse of head 8:4"), 1, (command, said))
        self.assertNotIn("/attention/lse", run("analyze", self.trace, "--quiet", "--max-rows", 64).stderr)

    def test_the_shares_of_a_class_add_up(self):
        run("analyze", self.trace, "--max-rows", 64, "-o", self.path / "classes.json", "--quiet")
        heads = json.loads((self.path / "classes.json").read_text())["heads"]
        reasons = [head["class_reason"] for head in heads if head["class"] in ("sink", "local", "sink+local")]
        self.assertGreater(len(reasons), 0)
        for reason in reasons:
            sink, rest, sum_of_both = (round(100 * float(share)) for share in re.findall(r"[0-9.]+", reason))
            self.assertEqual(sink + rest, sum_of_both, reason)

    def test_help_lists_the_values_and_speaks_of_its_command_alone(self):
        for command, values in (("render", ("inferno", "viridis", "counted among the recorded")), ("demo", ("passkey", "prose")),
                                ("analyze", ("kurtosis", "sink_mass")), ("export", ("lse_keys",)),
                                ("tune", ("cra-p5=T in more than 95 % of the rows", "from 0 to 1", "in the method's own units"))):
            text = re.sub(r"\s+", " ", run(command, "--help").stdout)
            for value in values:
                self.assertIn(value, text)
            self.assertNotIn("Without a subcommand", text)
        self.assertIn("Without a subcommand", run("--help").stdout)

    def test_methods_lists_the_registry(self):
        methods = json.loads(run("methods", "--json").stdout)["methods"]
        names = {(method["name"], method["phase"]) for method in methods}
        for name in ("dense", "a-shape", "vertical-slash", "block-sparse", "s2-attention", "sample-attention"):
            self.assertIn((name, "prefill"), names)
        for name in ("dense", "sparq", "sliding-window"):
            self.assertIn((name, "decode"), names)
        self.assertIn("decode/dense (decode)", run("methods", "decode/dense").stdout)
        listed = [line.split()[0] for line in run("methods").stdout.splitlines()]
        self.assertEqual(sorted(listed), sorted(set(listed)), "two methods are listed under one name")
        of_files = [name for name in listed if name.endswith(":path=FILE")]
        self.assertEqual(of_files, ["mask-file:path=FILE", "duo-attention:path=FILE", "decode/duo-attention:path=FILE"])
        self.assertEqual(sorted(set(listed) - set(of_files)), sorted(method["option"] for method in methods))
        refused = run("methods", "mask-file", code=2).stderr
        self.assertIn("read from a file", refused)
        for method in methods:
            for parameter in method["parameters"]:
                self.assertTrue(parameter["help"], f"{method['name']}.{parameter['name']} has no help")
                self.assertLessEqual(parameter["minimum"], parameter["default"])
                self.assertLessEqual(parameter["default"], parameter["maximum"])

    # Twilight is its selector's: whether a step needs those before goes by which one it is.
    def test_methods_say_with_which_settings_a_step_needs_those_before(self):
        methods = {method["option"]: method for method in json.loads(run("methods", "--json").stdout)["methods"]}
        twilight = methods["twilight"]
        selectors = next(parameter for parameter in twilight["parameters"] if parameter["name"] == "selector")["choices"]
        own = [name for name in selectors if methods[name if name in methods else f"decode/{name}"]["traits"]["needs_history"]]
        self.assertEqual(len({"infllm", "l-serve"} & set(own)), 2)
        self.assertFalse(twilight["traits"]["needs_history"], "its default goes on from pages of each step alone")
        self.assertEqual(twilight["traits"]["needs_history_with"], [f"selector={name}" for name in own])
        for name, method in methods.items():
            if name != "twilight":
                self.assertEqual(method["traits"]["needs_history_with"], [], name)
            if method["phase"] == "prefill":
                self.assertFalse(method["traits"]["needs_history"], name)

    def test_text_that_is_not_utf8_is_shown_with_a_mark(self):
        odd = self.path / "odd.h5"
        odd.write_bytes(pathlib.Path(self.trace).read_bytes())
        with h5py.File(odd, "r+") as file:
            file["model"].attrs.create("name", numpy.bytes_(b"refer\xffnce_model"))
        self.assertEqual(json.loads(run("info", odd, "--json").stdout)["model"]["name"], "refer\ufffdnce_model")
        odd.unlink()

    def test_eval_scores_and_shows_the_progress_of_the_whole_run(self):
        done = run("eval", "--task", "repeat,prose", "--length", "512,768", "--samples", "1", env=openmp_speaks())
        self.assertEqual(spin_count(done), "0")
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual(rows[0][0], "task")
        self.assertEqual([row[:2] for row in rows[1:]], [["repeat", "512"], ["repeat", "768"], ["prose", "512"], ["prose", "768"]])
        last = re.findall(r"^evaluating: (\d+) of (\d+) tokens \(100 %\)", done.stderr, re.MULTILINE)
        self.assertEqual(len(last), 1, done.stderr)
        self.assertEqual(last[0][0], last[0][1])
        self.assertGreater(int(last[0][1]), 2 * (512 + 768) - 200)
        self.assertRegex(done.stderr, r"loading model: [0-9.]+ of [0-9.]+ MiB \(100 %\)")

    def test_the_data_folder_that_was_moved_is_the_one_that_is_read(self):
        moved = self.path / "moved"
        (moved / "prompts").mkdir(parents=True)
        (moved / "prompts" / "prose.txt").write_text("zebra zebra zebra\n" * 50)
        out = self.path / "zebra.h5"
        run("capture", MODEL, "--task", "passkey", "--length", 768, "--layers", 0, "--heads", 0, "-o", out, "--quiet",
            env={**os.environ, "HEADSCOPE_DATA_DIR": str(moved)})
        with h5py.File(out, "r") as file:
            self.assertIn(b"zebra zebra", bytes(file["tokens/text"][...]))
        for command in (("capture", MODEL, "--task", "passkey", "--length", 768, "-o", self.path / "none.h5"), ("eval", MODEL)):
            self.assertIn("elsewhere/prompts/prose.txt", run(*command, code=3, env={**os.environ, "HEADSCOPE_DATA_DIR": str(self.path / "elsewhere")}).stderr)

    def test_threads_sleep_while_they_wait_unless_the_user_says_otherwise(self):
        def spins(*arguments, **variables):
            return spin_count(run(*arguments, env=openmp_speaks(**variables)))

        captured = ("capture", MODEL, "--text", "a b", "--layers", 0, "-o", self.path / "spins.h5", "--force", "--quiet")
        self.assertEqual(spins(*captured), "0")  # eval and demo are seen where their results are
        self.assertEqual(spins(*captured, GOMP_SPINCOUNT="123"), "123")

    def test_libtorch_is_loaded_by_what_runs_it_alone(self):
        broken = self.path / "broken_library"
        broken.mkdir()
        (broken / "libheadscope_torch.so").write_bytes(b"")  # found first: whoever asks for LibTorch fails
        environment = {**os.environ, "LD_LIBRARY_PATH": str(broken)}
        out = self.path / "without_torch.json"
        for command in (("--version",), ("--help",), ("methods", "--json"), ("info", self.trace), ("info", MODEL),
                        ("analyze", self.trace, "--heads", "8:4", "--max-rows", 64), ("compare", self.trace, "--heads", "8:4", "--method", "dense", "--quiet"),
                        ("render", self.trace, "--head", "8:4", "-o", self.path / "without_torch.png", "--quiet"),
                        ("export", self.trace, "--heads", 4, "--tokens", "0:9", "-o", out, "--quiet")):
            run(*command, env=environment)
        for command in (("capture", MODEL, "--text", "a", "-o", self.path / "none.h5"), ("eval", "--task", "repeat", "--length", 512, "--quiet"),
                        ("bench", "--lengths", 64, "--methods", "dense", "--quiet")):
            refused = run(*command, code=1, env=environment).stderr
            self.assertIn("LibTorch, which runs the model, cannot be loaded", refused)
            self.assertIn("libheadscope_torch.so", refused)
            self.assertIn("scripts/run", refused)
        self.assertFalse((self.path / "none.h5").exists())

    def test_demo_writes_the_report(self):
        out = self.path / "demo"
        shown = run("demo", "-o", out, "--length", 512, "--repeat", 1, "--quiet", env=openmp_speaks())  # the policy of waiting as people start it
        self.assertEqual(spin_count(shown), "0")
        html = (out / "report.html").read_text()
        pictures = list(out.glob("head-*.png"))
        self.assertEqual(len(pictures), 7, "as many as there are classes")
        for picture in pictures:
            self.assertIn(picture.name, html)
        for name in ("vertical-slash", "sample-attention", "sparq", "s2-attention"):
            self.assertIn(name, html)
        # Nothing is left out because the demo's own capture lacks what a method asks for.
        with open(out / "comparison.csv", newline="") as file:
            self.assertIn("expected-attention", {row["method"] for row in csv.DictReader(file)})
        self.assertNotIn("capture again", html)
        self.assertEqual(json.loads(run("info", out / "trace.h5", "--json").stdout)["recorded_beside"], ["pre-rope", "value-norms-l1"])
        run("demo", "-o", out, "--quiet", code=2)


def openmp_speaks(**variables):
    """An environment in which nobody has chosen how threads wait and the OpenMP library says what it was told, when it is loaded."""
    return {**environment_without("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"), "OMP_DISPLAY_ENV": "verbose", **variables}


def spin_count(done):
    """How often a waiting thread of that run looks for work before it sleeps."""
    return re.findall(r"GOMP_SPINCOUNT = '(\d+)'", done.stderr)[-1]  # the last start counts


def read_floats(dataset, slot, head_slot):
    """One head as float64, whatever the file's encoding (HDF5 converts)."""
    values, space = numpy.empty(dataset.shape[2:], numpy.float32), dataset.id.get_space()
    space.select_hyperslab((slot, head_slot) + (0,) * values.ndim, (1, 1) + values.shape)
    dataset.id.read(h5py.h5s.create_simple(values.shape), space, values, mtype=h5py.h5t.NATIVE_FLOAT)
    return values.astype(numpy.float64)


def len_answer(trace):
    """Tokens of the task's answer: the prompt ends where the answer begins."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(MODEL + "/tokenizer.json")
    return len(tokenizer.encode(trace["task_answer"], add_special_tokens=False).ids)


def first_pixel(path):
    """Of an 8-bit RGB picture: every one of PNG's filters leaves it as it is."""
    png, at, data = path.read_bytes(), 8, b""
    while at < len(png):
        length, kind = int.from_bytes(png[at : at + 4], "big"), png[at + 4 : at + 8]
        data += png[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += 12 + length
    return tuple(zlib.decompress(data)[1:4])


if __name__ == "__main__":
    command_line.main()
