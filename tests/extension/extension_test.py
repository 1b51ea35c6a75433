# SPDX-License-Identifier: Apache-2.0
"""What tests/extension adds by a file and a line is everywhere: help, capture, statistics, comparisons, tuning, bench, pictures and files.

    extension_test.py HEADSCOPE_EXTENDED DATA_DIR
"""
import csv
import json
import pathlib
import sys

import h5py
import numpy
import safetensors.numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "app"))
import command_line
from command_line import MODEL, run, TraceCase


def causal_scores(path, layer, head, with_rows=False):
    """Scaled scores of a recorded head, [rows, tokens], -inf where a row does not see a key; no code of headscope's."""
    with h5py.File(path, "r") as file:
        group = file["attention"]
        layers, heads, kv_heads = list(group["layers"][...]), list(group["qo_heads"][...]), list(group["kv_heads"][...])
        model = file["model"].attrs
        group_size = int(model["num_qo_heads"]) // int(model["num_kv_heads"])
        rows = group["q_rows"][...]

        def values(dataset, slot, head_slot):
            stored = dataset[slot, head_slot]
            return stored.astype(numpy.float64)

        q = values(group["q"], layers.index(layer), heads.index(head))
        k = values(group["k"], layers.index(layer), kv_heads.index(head // group_size))
    scores = q @ k.T / numpy.sqrt(q.shape[1])
    scores[numpy.arange(k.shape[0])[None, :] > rows[:, None]] = -numpy.inf
    return (scores, rows) if with_rows else scores


def softmax_of(scores):
    p = numpy.exp(scores - scores.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def causal_probabilities(path, layer, head):
    """NumPy's softmax of a recorded head, [rows, tokens], and the rows' positions."""
    scores, rows = causal_scores(path, layer, head, with_rows=True)
    return softmax_of(scores), rows


class Extension(TraceCase):
    def test_a_method_is_listed_with_its_parameters(self):
        methods = json.loads(run("methods", "--json").stdout)["methods"]
        mine = next(method for method in methods if method["name"] == "every-nth")
        self.assertEqual([parameter["name"] for parameter in mine["parameters"]], ["n_local", "stride"])
        self.assertIn("newest tokens that every row keeps", run("methods", "every-nth").stdout)

    def test_a_method_is_compared_tuned_and_drawn(self):
        run("compare", self.trace, "--method", "every-nth:n_local=100,stride=10", "--heads", "8:4", "-o", self.path / "runs.json", "--quiet")
        result = next(run for run in json.loads((self.path / "runs.json").read_text())["results"] if run["method"] == "every-nth")
        p, rows = causal_probabilities(self.trace, 8, 4)
        kept = numpy.zeros(p.shape, bool)
        columns = numpy.arange(p.shape[1])
        for i, row in enumerate(rows):
            begin = max(0, row // 128 * 128 - 100 + 1)
            kept[i] = (columns <= row) & ((columns >= begin) | (columns % 10 == 0))
        masses = (p * kept).sum(axis=1)
        self.assertAlmostEqual(result["kept_fraction"], kept.sum() / (rows + 1).sum(), places=9)
        self.assertAlmostEqual(result["cra_mean"], masses.mean(), places=3)  # K and Q are bf16, the LSE fp32
        self.assertAlmostEqual(result["cra_min"], masses.min(), places=3)
        tuned = json.loads(run("tune", self.trace, "--method", "every-nth", "--target", "cra-mean=0.9", "--heads", "8:4",
                               "-o", self.path / "tuned.json", "--quiet").stdout or (self.path / "tuned.json").read_text())
        self.assertIn("every-nth", json.dumps(tuned))
        run("render", self.trace, "--head", "8:4", "--view", "mask", "--method", "every-nth:stride=32", "-o", self.path / "mask.png")
        self.assertEqual((self.path / "mask.png").read_bytes()[:4], b"\x89PNG")

    def test_a_method_is_measured_by_bench(self):
        run("bench", "--device", "cpu", "--lengths", 512, "--methods", "every-nth:n_local=64,heavy-hitters:k=64", "--heads", "2:1", "--repeat", 2,
            "-o", self.path / "bench.json")
        text = (self.path / "bench.json").read_text()
        self.assertIn("every-nth", text)
        self.assertIn("heavy-hitters", text)

    def test_a_decode_method_with_state_is_listed_and_says_so(self):
        mine = next(method for method in json.loads(run("methods", "--json").stdout)["methods"] if method["name"] == "heavy-hitters")
        self.assertEqual([parameter["name"] for parameter in mine["parameters"]], ["k", "recent_share"])
        self.assertTrue(mine["traits"]["keeps_state"] and mine["traits"]["needs_history"])

    def test_a_decode_method_with_state_is_tuned(self):
        run("tune", self.trace, "--method", "heavy-hitters", "--target", "cra-mean=0.9", "--heads", "8:4", "-o", self.path / "heavy-tuned.json", "--quiet")
        (tuned,) = json.loads((self.path / "heavy-tuned.json").read_text())["heads"]
        self.assertEqual(tuned["method"], "heavy-hitters")
        run("compare", self.trace, "--method", "heavy-hitters:" + ",".join(f"{name}={value}" for name, value in tuned["parameters"].items()), "--heads", "8:4", "--measure", "head", "--repeat", 1,
            "-o", self.path / "heavy-again.json", "--quiet")
        found = next(result for result in json.loads((self.path / "heavy-again.json").read_text())["results"] if result["method"] == "heavy-hitters")
        self.assertGreaterEqual(found["cra_mean"], 0.9)
        self.assertLess(found["kept_fraction"], 1)

    def test_a_decode_method_with_state_keeps_what_its_definition_keeps(self):
        budget, recent, steps, layer, kv_head = 24, 6, 20, 8, 2
        heads = [2 * kv_head, 2 * kv_head + 1]
        run("compare", self.trace, "--method", f"heavy-hitters:k={budget},recent_share=0.25", "--heads", f"{layer}:*", "--decode-rows", steps,
            "-o", self.path / "heavy.json", "--quiet")
        results = [result for result in json.loads((self.path / "heavy.json").read_text())["results"] if result["method"] == "heavy-hitters"]
        scores = {head: causal_scores(self.trace, layer, head) for head in heads}
        tokens = scores[heads[0]].shape[0]
        first = tokens - steps
        softmax = {head: softmax_of(scores[head]) for head in heads}
        mass = sum(p[:first].sum(axis=0) for p in softmax.values())  # what the prompt's rows gave
        kept = list(range(first))
        masses, counts = {head: [] for head in heads}, []

        def evict():
            while len(kept) > budget:
                kept.remove(min(kept[: len(kept) - recent], key=lambda token: (mass[token], token)))

        evict()
        for row in range(first, tokens):
            mass[row] = 0
            kept.append(row)
            counts.append(len(kept))
            for head in heads:
                masses[head].append(softmax[head][row, kept].sum())
            for head in heads:
                seen = numpy.exp(scores[head][row, kept] - scores[head][row, kept].max())
                mass[kept] += seen / seen.sum()
            evict()
        self.assertNotEqual(kept, list(range(tokens - budget, tokens)), "not just a window")
        for head in heads:
            mine = next(result for result in results if result["head"] == head)
            self.assertAlmostEqual(mine["cra_mean"], numpy.mean(masses[head]), places=3)
            self.assertAlmostEqual(mine["cra_min"], numpy.min(masses[head]), places=3)
            self.assertAlmostEqual(mine["kept_fraction"], sum(counts) / sum(range(first + 1, tokens + 1)), places=9)

    def test_a_statistic_is_in_every_file_and_table(self):
        for extension in ("json", "csv", "h5"):
            run("analyze", self.trace, "--heads", "8:*", "-o", self.path / f"statistics.{extension}", "--quiet")
        heads = json.loads((self.path / "statistics.json").read_text())["heads"]
        p, _ = causal_probabilities(self.trace, 8, 4)
        wanted = (1 / (p**2).sum(axis=1)).mean()
        mine = next(head for head in heads if (head["layer"], head["head"]) == (8, 4))["effective_keys"]
        self.assertAlmostEqual(mine / wanted, 1, places=3)
        rows = list(csv.DictReader((self.path / "statistics.csv").read_text().splitlines()))
        numpy.testing.assert_allclose([float(row["effective_keys"]) for row in rows], [head["effective_keys"] for head in heads], rtol=1e-5)
        with h5py.File(self.path / "statistics.h5", "r") as file:
            numpy.testing.assert_allclose(file["results/effective_keys"][...], [head["effective_keys"] for head in heads], rtol=1e-12)
        table = run("analyze", self.trace, "--heads", "8:4", "--metrics", "effective_keys", "--quiet").stdout
        self.assertIn("8:4", table)

    def key_lengths(self, layer, head):
        """|k| of every token of a recorded head, by NumPy."""
        with h5py.File(self.trace, "r") as file:
            group, model = file["attention"], file["model"].attrs
            kv_head = head // (int(model["num_qo_heads"]) // int(model["num_kv_heads"]))
            k = group["k"][list(group["layers"][...]).index(layer), list(group["kv_heads"][...]).index(kv_head)]
        return numpy.linalg.norm(k.astype(numpy.float64), axis=1)

    def test_a_statistic_of_a_whole_head_is_in_files_and_tables(self):
        run("analyze", self.trace, "--heads", "8:4", "-o", self.path / "whole.json", "--quiet")
        (head,) = json.loads((self.path / "whole.json").read_text())["heads"]
        wanted = self.key_lengths(8, 4).mean()
        self.assertAlmostEqual(head["mean_key_length"], wanted, places=5)
        self.assertIn(f"{wanted:.4f}", run("analyze", self.trace, "--heads", "8:4", "--metrics", "mean_key_length", "--quiet").stdout)

    def test_a_figure_is_listed_and_drawn(self):
        self.assertIn("key-lengths", run("render", "--list-figures").stdout)
        figure = [self.path / f"lengths.{extension}" for extension in ("json", "csv", "svg")]
        for path in figure:
            run("render", self.trace, "--figure", "key-lengths", "--heads", "8:4", "-o", path, "--quiet")
        (series,) = json.loads(figure[0].read_text())["panels"][0]["series"]
        numpy.testing.assert_allclose(series["y"], self.key_lengths(8, 4), rtol=1e-6)
        self.assertIn("Length of keys", figure[2].read_text())

    def test_a_family_is_captured_like_its_twin(self):
        """The added family is llama with q, k and v in one tensor: the same weights give the same heads."""
        config = {"model_type": "llama", "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2,
                  "head_dim": 16, "max_position_embeddings": 512, "tie_word_embeddings": True,
                  "vocab_size": json.loads(pathlib.Path(MODEL, "config.json").read_text())["vocab_size"]}
        random = numpy.random.default_rng(9)
        shapes = {"model.embed_tokens": (config["vocab_size"], 48), "model.norm": (48,)}
        for layer in range(2):
            for name, shape in (("self_attn.q_proj", (96, 48)), ("self_attn.k_proj", (32, 48)), ("self_attn.v_proj", (32, 48)), ("self_attn.o_proj", (48, 96)),
                                ("mlp.gate_proj", (80, 48)), ("mlp.up_proj", (80, 48)), ("mlp.down_proj", (48, 80)), ("input_layernorm", (48,)),
                                ("post_attention_layernorm", (48,))):
                shapes[f"model.layers.{layer}.{name}"] = shape
        weights = {f"{name}.weight": random.normal(0, 0.3, shape).astype(numpy.float32) for name, shape in shapes.items()}
        heads = {}
        for model_type in ("llama", "llama_by_kv_head"):
            if model_type != "llama":
                for layer in range(2):
                    parts = [weights.pop(f"model.layers.{layer}.self_attn.{name}_proj.weight").reshape(2, -1, 48) for name in "qkv"]
                    weights[f"model.layers.{layer}.self_attn.qkv_proj.weight"] = numpy.concatenate(parts, axis=1).reshape(-1, 48)
            folder, trace = self.path / model_type, self.path / f"{model_type}.h5"
            folder.mkdir()
            for name in ("tokenizer.json", "tokenizer_config.json"):
                (folder / name).write_text(pathlib.Path(MODEL, name).read_text())
            (folder / "config.json").write_text(json.dumps({**config, "model_type": model_type}))
            safetensors.numpy.save_file(weights, folder / "model.safetensors")
            self.assertIn(f"checkpoint, {model_type}", run("info", folder).stdout)
            run("capture", folder, "--task", "passkey", "--length", 400, "--decode", 2, "-o", trace, "--quiet")
            with h5py.File(trace) as file:
                heads[model_type] = {name: file["attention"][name][...].astype(numpy.float64) for name in ("q", "k", "v", "lse")}
        for name, wanted in heads["llama"].items():
            numpy.testing.assert_allclose(heads["llama_by_kv_head"][name], wanted, atol=1e-4)
        run("compare", trace, "--method", "every-nth:n_local=16", "--method", "heavy-hitters:k=16", "--heads", "1:*", "--decode-rows", 8, "--quiet")
        self.assertIn("llama_by_kv_head", run("capture", "--help").stdout)
        (folder / "config.json").write_text(json.dumps({**config, "model_type": "gemma1"}))
        self.assertIn("llama_by_kv_head", run("info", folder, code=3).stderr)

    def test_the_report_has_all_of_them(self):
        run("demo", "-o", self.path / "demo", "--task", "counting", "--length", 512, "--repeat", 1, "--quiet")
        report = (self.path / "demo" / "report.html").read_text()
        for text in ("every-nth", "heavy-hitters", "counting", "Effective keys"):
            self.assertIn(text, report)

    def test_methods_run_in_the_model(self):
        line = run("eval", "--task", "passkey", "--length", 512, "--samples", 1, "--questions", 1, "--quiet", "--attention", "every-nth:n_local=64,stride=8", "--attention", "heavy-hitters:k=64").stdout.splitlines()[1]
        self.assertLess(float(line.split()[-1].rstrip("%")), 60)

    def test_a_task_is_captured_and_named(self):
        run("capture", MODEL, "--task", "counting", "--length", 512, "--layers", 0, "--rows", "last:1", "-o", self.path / "counting.h5", "--quiet")
        info = json.loads(run("info", self.path / "counting.h5", "--json").stdout)
        self.assertRegex(info["task_answer"], r"^ ?[A-Z]{4}")
        self.assertIn("counting", run("capture", "--help").stdout)
        self.assertIn("counting", run("capture", MODEL, "--task", "nothing", "-o", self.path / "none.h5", code=2).stderr)
        scores = run("eval", "--task", "counting", "--length", 512, "--samples", 2, "--quiet").stdout
        self.assertRegex(scores, r"\ncounting +512 +2 ")


if __name__ == "__main__":
    command_line.main()
