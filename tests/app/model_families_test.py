# SPDX-License-Identifier: Apache-2.0
"""Each shipped family's checkpoint from outside: info, capture and eval run it. Its numbers are tests/model/families_test.cpp's.

    model_families_test.py HEADSCOPE DATA_DIR ORACLE_DIR     the tiny models of tests/oracle/model_logits.py
"""
import base64
import json
import pathlib
import re
import sys
import tempfile
import unittest

import h5py
import numpy
import safetensors.numpy

import command_line
from command_line import MODEL, run

ORACLE = pathlib.Path(sys.argv[3])
FAMILIES = {"llama_gqa": "llama", "mistral_window": "mistral", "qwen2": "qwen2", "qwen3": "qwen3", "gemma2": "gemma2", "gemma3_old_spelling": "gemma3_text",
            "phi3": "phi3", "granite": "granite", "granitemoe": "granitemoe", "llama4_text": "llama4_text", "llama4": "llama4", "afmoe": "afmoe", "olmo2": "olmo2", "smollm3": "smollm3", "cohere": "cohere", "gpt_neox_old_spelling": "gpt_neox",
            "gemma": "gemma", "gpt2_hub_names": "gpt2", "opt_norms_after": "opt", "glm": "glm", "glm4": "glm4", "chatglm": "chatglm", "internlm2": "internlm2",
            "ministral": "ministral", "ministral3": "ministral3", "mistral3": "mistral3", "cohere2": "cohere2", "exaone4": "exaone4", "olmo3": "olmo3", "mixtral": "mixtral", "qwen3_moe": "qwen3_moe",
            "gpt_oss_mxfp4": "gpt_oss", "deepseek_v2_groups": "deepseek_v2", "deepseek_v3": "deepseek_v3", "deepseek_v32": "deepseek_v32", "kimi_k2": "kimi_k2", "qwen3_next": "qwen3_next",
            "qwen3_5": "qwen3_5", "qwen3_5_text": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe", "qwen2_moe": "qwen2_moe", "qwen2_vl_as_published": "qwen2_vl", "qwen2_5_vl": "qwen2_5_vl", "qwen3_vl": "qwen3_vl", "qwen3_vl_moe_as_published": "qwen3_vl_moe",
            "glm4_moe": "glm4_moe", "glm4_moe_lite": "glm4_moe_lite", "minimax_m2_as_published": "minimax_m2", "seed_oss": "seed_oss", "ernie4_5": "ernie4_5",
            "olmoe": "olmoe", "hunyuan_stretched": "hunyuan_v1_dense", "lfm2": "lfm2", "mimo_v2_flash": "mimo_v2_flash", "qwen": "qwen", "yi": "Yi", "gemma3_with_images": "gemma3", "gemma3n_text": "gemma3n_text", "gemma3n": "gemma3n", "gemma4_text": "gemma4_text", "gemma4": "gemma4", "bert": "bert"}
ENCODERS = {"bert"}
# What a family changes in eval is what it changes in the network, which families_test.cpp decodes with: these stand for its kinds.
EVALUATED = {"llama_gqa", "gemma2", "gpt2_hub_names", "gpt_oss_mxfp4", "deepseek_v3", "qwen3_next"}
VOCABULARY = {"chatglm": "padded_vocab_size"}
HEADS = {"gpt2": "n_head"}


class ModelFamilies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def checkpoint(self, name, padding=0):
        """The tiny model with as many tokens as the shipped tokenizer has, and so many ids without a token."""
        folder = self.path / name
        folder.mkdir(exist_ok=True)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            (folder / file).write_text(pathlib.Path(MODEL, file).read_text())
        config = json.loads((ORACLE / name / "config.json").read_text())
        key, sizes = VOCABULARY.get(config["model_type"], "vocab_size"), config.get("text_config", config)
        tokens, sizes[key] = sizes[key], json.loads(pathlib.Path(MODEL, "config.json").read_text())["vocab_size"] + padding
        if sizes.get("vocab_size_per_layer_input") == tokens:
            sizes["vocab_size_per_layer_input"] = sizes[key]
        (folder / "config.json").write_text(json.dumps(config))
        random = numpy.random.default_rng(9)
        weights = {}
        for file in sorted((ORACLE / name).glob("*.safetensors")):
            weights.update(safetensors.numpy.load_file(file))
        for name, weight in weights.items():
            if weight.shape[:1] == (tokens,):
                more = random.normal(0, weight.std(), (sizes[key] - tokens, *weight.shape[1:]))
                weights[name] = numpy.concatenate([weight, more]).astype(numpy.float32)
        safetensors.numpy.save_file(weights, folder / "model.safetensors")
        return folder

    def test_every_family_is_opened_and_captured(self):
        for name, model_type in FAMILIES.items():
            with self.subTest(name):
                folder = self.checkpoint(name)
                self.assertIn(f"checkpoint, {model_type}", run("info", folder).stdout)
                trace = self.path / f"{name}.h5"
                decoded = [] if name in ENCODERS else ["--decode", 1]
                run("capture", folder, "--task", "passkey", "--length", 400, *decoded, "-o", trace, "--quiet")
                with h5py.File(trace) as file:
                    config = json.loads((folder / "config.json").read_text())
                    config = config.get("text_config", config)
                    self.assertEqual(int(file.attrs["version"]), 3 if name in ENCODERS else 2)
                    # Of the first ones' layers, one has heads; of the other's, the one without a window is of another shape and stands in a group of its own, as Gemma 4's do that share keys.
                    layers = 1 if name.startswith(("qwen3_next", "qwen3_5", "lfm2")) else 2 if name in ("mimo_v2_flash", "gemma4", "gemma4_text") else 3
                    self.assertEqual(file["attention/q"].shape[:2], (layers, config[HEADS.get(model_type, "num_attention_heads")]))
                    self.assertTrue(numpy.isfinite(file["attention/lse"][...]).all())
                if name in EVALUATED:
                    scores = run("eval", folder, "--task", "passkey", "--length", 400, "--samples", 1, "--questions", 1, "--quiet").stdout
                    self.assertRegex(scores, r"passkey +400 +1 ")

    def test_what_only_some_families_have_is_in_the_trace(self):
        def facts(name, *options, text="one two three four five six"):
            trace = self.path / f"facts_{name}.h5"
            run("capture", self.checkpoint(name), "--text", text, "-o", trace, "--force", "--quiet", *options)
            return json.loads(run("info", trace, "--json").stdout)["facts"], trace
        layers, trace = facts("gpt_oss_mxfp4")
        self.assertEqual([len(layer["sinks"]) for layer in layers], [8] * 3)
        sinks = safetensors.numpy.load_file(self.checkpoint("gpt_oss_mxfp4") / "model.safetensors")["model.layers.1.self_attn.sinks"]
        numpy.testing.assert_allclose(layers[1]["sinks"], sinks, rtol=1e-6)
        layers, trace = facts("deepseek_v3")
        self.assertEqual([(layer["head_dim"], layer["v_head_dim"], layer["rope"]["first_dim"], layer["rope"]["dims"]) for layer in layers], [(20, 10, 12, 8)] * 3)
        # Whoever turns queries himself would miss the norm behind RoPE.
        layers, trace = facts("hunyuan_stretched", "--record", "pre-rope", text="one two three four five six " * 4)
        self.assertEqual([layer["norm"] for layer in layers], ["head after rope"] * 3)
        said = run("compare", trace, "--method", "expected-attention:n_sink=1", "--quiet", code=2).stderr
        self.assertIn("normalises its queries after RoPE", said)
        said = run("eval", self.checkpoint("hunyuan_stretched"), "--task", "passkey", "--length", 400, "--samples", 1, "--attention", "expected-attention", "--quiet",
                   code=2).stderr
        self.assertIn("behind which hunyuan_v1_dense has a norm", said)
        # Rows of a block see nothing before it.
        layers, trace = facts("llama4_text")
        self.assertEqual([(layer["chunk"], layer["norm"]) for layer in layers], [(16, "head after rope")] * 2 + [(0, "none")])
        said = run("eval", self.checkpoint("llama4_text"), "--task", "passkey", "--length", 400, "--samples", 1, "--attention", "a-shape", "--quiet", code=2).stderr
        self.assertIn("layer 0: it attends within blocks of 16 tokens, which methods do not", said)
        layers, trace = facts("qwen3_next")
        self.assertEqual([(layer["layer"], layer["output_gate"]) for layer in layers], [(2, "per channel")])
        said = run("capture", self.checkpoint("qwen3_next"), "--text", "one", "--layers", "1", "-o", self.path / "none.h5", code=2).stderr
        self.assertIn("--layers 1: the layer has a recurrence instead of attention", said)

        # What the model's own index chose is there, with what chose it.
        layers, trace = facts("deepseek_v32", "--decode", "20")
        with h5py.File(trace) as file:
            attention = file["attention"]
            q, k, weights, chosen = (attention[name][...] for name in ("index_q", "index_k", "index_weights", "selection"))
        tokens = k.shape[2]
        self.assertEqual((q.shape, k.shape, weights.shape, chosen.shape), ((3, 16, tokens, 16), (3, 1, tokens, 16), (3, 16, tokens), (3, 1, tokens, 24)))
        self.assertGreater(tokens, 24)
        for layer in range(3):
            scores = numpy.einsum("hrt,hr->rt", numpy.maximum(numpy.einsum("hrd,td->hrt", q[layer], k[layer, 0]), 0), weights[layer])
            for row in range(tokens):
                best = numpy.sort(numpy.argsort(-scores[row, : row + 1], kind="stable")[:24])
                self.assertEqual(chosen[layer, 0, row].tolist(), [*best, *[-1] * (24 - len(best))])
        # Whoever asks what is recorded, before or after, is told of all of it.
        names = ["q", "k", "v", "lse", "selection", "index_q", "index_k", "index_weights"]
        listed, folder = ", ".join(names), self.checkpoint("deepseek_v32")
        self.assertIn(f"recorded   {listed}\n", run("info", trace).stdout)
        self.assertIn(f"it would hold {listed}\n", run("info", folder).stdout)
        plan = ("capture", folder, "--text", "one two three", "-o", self.path / "index.h5", "--dry-run")
        self.assertIn(f"recorded   {listed}\n", run(*plan).stdout)
        self.assertIn(f"recorded   {listed}, pre-rope\n", run(*plan, "--record", "pre-rope").stdout)
        for path in (trace, folder):
            self.assertEqual(json.loads(run("info", path, "--json").stdout)["recorded"], names)
        self.assertNotIn("it would hold", run("info", self.checkpoint("llama_gqa")).stdout)
        said = run("eval", self.checkpoint("deepseek_v32"), "--task", "passkey", "--length", 400, "--samples", 1, "--attention", "a-shape", "--quiet", code=2).stderr
        self.assertIn("layer 0: it attends to the 24 tokens that its own index chooses, which methods do not", said)
        # The last layers read an earlier one's keys and values, which are not stored again; those without a window have larger heads.
        layers, trace = facts("gemma4_text")
        self.assertEqual([(layer["kv_layer"], layer["head_dim"], layer["window"]) for layer in layers],
                         [(-1, 16, 32), (-1, 24, 0), (-1, 16, 32), (1, 24, 0), (2, 16, 32), (1, 24, 0)])
        with h5py.File(trace) as file:
            stored = []
            file.visititems(lambda name, item: stored.append(item.shape[0]) if name.endswith("/k") else None)
            self.assertEqual(sum(stored), 3, "keys of layers 0 to 2 alone")
        # What it would take is what it takes, but for HDF5's own tables; and a trace of the readers alone has the keys itself.
        said = run("capture", self.checkpoint("gemma4_text"), "--task", "passkey", "--length", 400, "-o", self.path / "planned.h5", "--dry-run").stdout
        planned = float(re.search(r"([0-9.]+) MiB", said).group(1))
        run("capture", self.checkpoint("gemma4_text"), "--task", "passkey", "--length", 400, "-o", self.path / "planned.h5", "--quiet")
        self.assertAlmostEqual(planned, (self.path / "planned.h5").stat().st_size / 2**20, delta=0.1 * planned)
        run("export", trace, "--layers", "3,5", "-o", self.path / "readers.h5")
        self.assertEqual(run("analyze", self.path / "readers.h5", "--heads", "5:0", "--quiet").stderr, "")
        # A model without heads is refused before its weights are read.
        config = json.loads((self.checkpoint("lfm2") / "config.json").read_text()) | {"layer_types": ["conv"] * 3}
        (self.path / "lfm2" / "config.json").write_text(json.dumps(config))
        for command in (("capture", "--dry-run", "--text", "one", "-o", self.path / "none.h5"), ("capture", "--text", "one", "-o", self.path / "none.h5")):
            said = run(command[0], self.path / "lfm2", *command[1:], code=3).stderr
            self.assertIn("no layer has attention", said)
        self.assertIn("no layer has attention", run("info", self.path / "lfm2").stdout)
        self.assertEqual(run("analyze", trace, "--heads", "5:0,4:1", "--quiet").stderr, "")
        # Two ways without attention have names of their own.
        layers, trace = facts("lfm2")
        self.assertEqual([layer["layer"] for layer in layers], [1])
        with h5py.File(trace) as file:
            self.assertEqual(list(file["model"].attrs["layer_kinds"] if "layer_kinds" in file["model"].attrs else file["model/layer_kinds"][...]), [4, 0, 4])
        said = run("capture", self.checkpoint("lfm2"), "--text", "one", "--layers", "0", "-o", self.path / "none.h5", code=2).stderr
        self.assertIn("--layers 0: the layer has a short convolution instead of attention", said)
        layers, trace = facts("mimo_v2_flash")
        self.assertEqual([(layer["num_kv_heads"], layer["head_dim"], layer["v_head_dim"], layer["window"], len(layer["sinks"])) for layer in layers],
                         [(4, 24, 10, 32, 8), (2, 24, 10, 0, 0), (4, 24, 10, 32, 8)])

    # Layers with a window have 7 KV heads and the others 1, which is what config.json says of most.
    def test_files_are_as_wide_as_the_largest_layer(self):
        folder, trace, shares = self.checkpoint("gemma4_text_with_experts"), self.path / "mixed.h5", self.path / "shares.tsv"
        config = json.loads((folder / "config.json").read_text())
        config |= {"num_key_value_heads": 1, "per_layer_config": {str(layer): {"head_dim": 24} if layer % 2 else {"num_key_value_heads": 7} for layer in range(6)}}
        (folder / "config.json").write_text(json.dumps(config))

        def write(lines, numbers):
            shares.write_text(("\t".join("1001"[head % 4] for head in range(numbers)) + "\n") * lines)
        prefill, decode = (f"{phase}duo-attention:path={shares},n_sink=4,n_local=16" for phase in ("", "decode/"))
        asked = ("--task", "passkey", "--length", 400, "--quiet", "--attention")
        commands = [("eval", folder, *asked, prefill, "--attention", decode, "--samples", 1), ("capture", folder, *asked, prefill, "--attention", decode, "--decode", 2, "-o", trace)]
        for lines, numbers in ((6, 1), (6, 8), (5, 7), (7, 7)):
            write(lines, numbers)
            for command in commands:
                self.assertIn(f"it has {lines} lines of {numbers} numbers, and the model of {folder} has 6 layers of up to 7 KV heads", run(*command, code=3).stderr)
        write(6, 7)
        for command in commands:
            run(*command)
        self.assertEqual([layer["num_kv_heads"] for layer in json.loads(run("info", trace, "--json").stdout)["facts"]], [7, 1] * 3)
        # A layer of a kind that a trace has not recorded may be larger.
        traces = {"whole": trace, "windows": self.path / "windows.h5", "others": self.path / "others.h5"}
        run("export", trace, "--layers", "0", "-o", traces["windows"])
        run("export", trace, "--layers", "1", "-o", traces["others"])
        for lines, numbers, taken in ((6, 7, {"whole", "windows", "others"}), (6, 8, {"windows", "others"}), (6, 1, {"others"}), (5, 7, set())):
            write(lines, numbers)
            for name, path in traces.items():
                run("diff", path, "--method", prefill, "--method", "dense", "--quiet", code=0 if name in taken else 3)

    def test_lists_of_tokens_by_rank_are_read(self):
        tokens = [*(bytes([byte]) for byte in range(256)), b"th", b"the", b" the"]
        lines = "".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens))
        words = [*b"a", 258, *b" c\xc3\xa9"]  # its normal form, where there is one
        for name, file, before in (("qwen", "qwen.tiktoken", []), ("llama_gqa", "tokenizer.model", [259]), ("chatglm", "tokenizer.model", [261, 263])):
            folder, trace = self.checkpoint(name), self.path / f"ranks_{name}.h5"
            for old in ("tokenizer.json", "tokenizer_config.json"):
                (folder / old).unlink()
            (folder / file).write_text(lines)
            text = "a the c" + ("e\u0301" if name == "qwen" else "\u00e9")
            run("capture", folder, "--text", text, "-o", trace, "--quiet")
            with h5py.File(trace) as opened:
                self.assertEqual(opened["tokens/ids"][...].tolist(), before + words, name)
            self.assertIn(f"checkpoint, {FAMILIES[name]}", run("info", folder).stdout)
        (folder / file).write_text(lines + "what\n")
        said = run("capture", folder, "--text", "a", "-o", trace, "--force", code=3).stderr
        self.assertIn(f"{folder / file}: line 260: must be a token in base 64, a space and its rank", said)

    def test_rows_can_be_drawn_and_prompts_given_as_ids(self):
        folder, trace = self.checkpoint("llama_gqa", padding=3), self.path / "ids.h5"
        last = json.loads((folder / "config.json").read_text())["vocab_size"] - 1  # an id without a token
        run("capture", folder, "--tokens", ",".join(map(str, [5, 3, 3, last, 7] * 10)), "--rows", "random:6:9", "-o", trace, "--quiet")
        with h5py.File(trace) as file:
            self.assertEqual(file["tokens/ids"][...].tolist(), [5, 3, 3, last, 7] * 10)
            self.assertEqual(file["attention/q"].shape[2], 6)
        self.assertIn(f"--tokens {last + 1}", run("capture", folder, "--tokens", last + 1, "-o", trace, "--force", code=2).stderr)

    def test_an_unknown_type_is_refused_with_the_list(self):
        folder = self.checkpoint("llama_gqa")
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "model_type": "gemma1"}))
        for text in (run("info", folder, code=3).stderr, run("capture", "--help").stdout, run("--man-page").stdout.replace("\\", "")):
            for model_type in FAMILIES.values():
                self.assertRegex(text, rf"\b{model_type}\b")

    def test_windows_caps_and_scales_of_a_layer_are_in_its_trace(self):
        folder, trace = self.checkpoint("gemma2"), self.path / "capped.h5"
        run("capture", folder, "--task", "passkey", "--length", 400, "--decode", 2, "-o", trace, "--quiet")
        facts = json.loads(run("info", trace, "--json").stdout)["facts"]
        self.assertEqual([layer["window"] for layer in facts], [32, 0, 32])
        self.assertEqual([layer["soft_cap"] for layer in facts], [5.0] * 3)
        with h5py.File(trace) as file:
            q, k, lse = (file["attention"][name][...].astype(numpy.float64) for name in ("q", "k", "lse"))
        distance = numpy.arange(q.shape[2])[:, None] - numpy.arange(k.shape[2])
        for layer, window in enumerate((32, 0, 32)):
            for head in range(6):
                scores = 5 * numpy.tanh(q[layer, head] @ k[layer, head // 3].T / numpy.sqrt(24) / 5)
                seen = (distance >= 0) & (distance < (window or 1000))
                numpy.testing.assert_allclose(lse[layer, head], numpy.log((numpy.exp(scores) * seen).sum(axis=1)), atol=1e-4)
        # The executors of headscope's own compute what LibTorch does, caps and windows included.
        run("capture", folder, "--task", "passkey", "--length", 400, "--decode", 2, "--attention", "dense", "-o", self.path / "own.h5", "--quiet")
        with h5py.File(self.path / "own.h5") as file:
            numpy.testing.assert_allclose(file["attention/k"][...], k, atol=1e-4)
            numpy.testing.assert_allclose(file["attention/lse"][...], lse, atol=1e-4)
        run("analyze", trace, "--heads", "1:*", "--all", "--quiet")


if __name__ == "__main__":
    command_line.main()
