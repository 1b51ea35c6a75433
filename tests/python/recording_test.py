# SPDX-License-Identifier: Apache-2.0
"""What recording is promised to be: however the tokens come (whole, in chunks, generated with any cache, in a batch), the trace is the same one; what is
not whole says so; what a trace cannot hold is refused by name."""
import contextlib
import hashlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import types
import unittest
from unittest import mock

import cases
import families
import h5py
import numpy as np
import tokenizers
import torch
import transformers

import headscope
from headscope import interception, layout, model_files, recorder, visibility
from headscope.pump import Pump
from headscope.token_text import TokenText
from headscope.writer import TraceWriter

IDS = torch.tensor([[5, 17, 8, 40, 23, 9, 61, 77, 12, 5, 17, 8, 33, 34, 35, 90, 4, 11, 13, 80, 29, 30, 31, 5]])
NUM_TOKENS = IDS.shape[1]


def values(path):
    """Everything in a trace that its tokens decide, by name."""
    with headscope.open(path) as trace:
        found = {"tokens": trace.tokens, "rows": trace.rows}
        for layer in trace.layers:
            facts = trace.facts(layer)
            for name, heads in (("q", facts.qo_heads), ("k", facts.kv_heads), ("v", facts.kv_heads), ("lse", facts.qo_heads)):
                for head in heads:
                    found[f"{name} {layer}:{head}"] = np.asarray(trace.tensor(name, layer, head))
        return found


class RecordingCase(cases.FolderCase):
    def setUp(self):
        self.path = self.folder / f"{self.id()}.h5"

    def whole(self, model, ids=IDS, **options):
        path = self.folder / f"{self.id()}-whole.h5"
        with torch.no_grad(), headscope.record(model, path, overwrite=True, **options):
            model(ids)
        return values(path)

    def assertSame(self, path, wanted, tolerance=1e-5):  # noqa: N802
        found = values(path)
        self.assertEqual(list(found), list(wanted))
        for name, one in wanted.items():
            np.testing.assert_allclose(found[name], one, rtol=tolerance, atol=tolerance, err_msg=name)


class Ways(RecordingCase):
    """The ways in which tokens come to a model."""

    def test_chunks(self):
        for name in ("llama", "mistral", "llama4_text", "deepseek_v3", "gemma3n_text", "gpt_oss", "qwen3_next"):
            with self.subTest(name):
                model, path = families.make(name), self.folder / f"chunks-{name}.h5"
                wanted = self.whole(model, rows="every:3")
                cache = None
                with torch.no_grad(), headscope.record(model, path, rows="every:3", prompt_tokens=NUM_TOKENS):
                    for begin, end in ((0, 7), (7, 16), (16, NUM_TOKENS)):
                        cache = model(IDS[:, begin:end], past_key_values=cache, use_cache=True).past_key_values
                self.assertSame(path, wanted, 2e-5)
                with h5py.File(path) as file:
                    self.assertEqual(list(file["tokens/step"][:]), [0] * 7 + [1] * 9 + [2] * (NUM_TOKENS - 16))
                    self.assertFalse(file["tokens/phase"][:].any())

    def generated(self, model, path, **options):
        with torch.no_grad():
            output = model.generate(IDS[:, :9], max_new_tokens=NUM_TOKENS - 9, do_sample=False, pad_token_id=0, eos_token_id=None, **options)
        with torch.no_grad(), headscope.record(model, path):
            again = model.generate(IDS[:, :9], max_new_tokens=NUM_TOKENS - 9, do_sample=False, pad_token_id=0, eos_token_id=None, **options)
        self.assertTrue(torch.equal(output, again), "the recorder changed what is generated")
        return output

    def test_generation_with_every_cache(self):
        for name in ("llama", "mistral", "gemma3_text"):
            model = families.make(name, "sdpa")
            for cache in ("dynamic", "static", "offloaded", "none"):
                with self.subTest(f"{name} {cache}"):
                    path = self.folder / f"generated-{name}-{cache}.h5"
                    options = {"use_cache": False} if cache == "none" else {} if cache == "dynamic" else {"cache_implementation": cache, "disable_compile": True}
                    if cache == "offloaded" and not torch.cuda.is_available():
                        continue
                    output = self.generated(model, path, **options)
                    self.assertSame(path, self.whole(model, output[:, :-1]), 2e-5)
                    with h5py.File(path) as file:
                        self.assertEqual(list(file["tokens/phase"][:]), [0] * 9 + [1] * (NUM_TOKENS - 10))

    def test_generation_with_a_quantised_cache(self):
        """The trace has what attention got: keys of the prompt as projected, of decoded tokens as the cache gave them."""
        model, outputs = families.make("llama", "sdpa"), []
        generate = lambda: model.generate(IDS[:, :9], max_new_tokens=6, do_sample=False, pad_token_id=0, eos_token_id=None, past_key_values=transformers.QuantizedCache("fp8", model.config))  # noqa: E731
        with torch.no_grad():
            outputs.append(generate())
            with headscope.record(model, self.path):
                outputs.append(generate())
        self.assertTrue(torch.equal(*outputs))
        whole = self.whole(model, outputs[0][:, :-1])
        with headscope.open(self.path) as trace:
            np.testing.assert_array_equal(trace.tokens, outputs[0][0, :-1])
            np.testing.assert_allclose(trace.k(1, 1)[:9], whole["k 1:1"][:9], rtol=1e-5, atol=1e-5)
            self.assertGreater(np.abs(trace.k(0, 1)[9:] - whole["k 0:1"][9:]).max(), 1e-3)

    def test_generation_under_eager_attention_with_a_static_cache(self):
        model = families.make("gemma2")
        output = self.generated(model, self.path, cache_implementation="static", disable_compile=True)
        self.assertSame(self.path, self.whole(model, output[:, :-1]), 2e-5)

    def test_batch_of_padded_prompts_is_a_trace_each(self):
        lengths, width = (11, 24, 17), 24
        for side in ("left", "right"):
            for implementation in ("eager", "sdpa"):
                with self.subTest(f"{side} {implementation}"):
                    model = families.make("ministral", implementation)
                    ids, mask = torch.zeros(3, width, dtype=torch.int64), torch.zeros(3, width, dtype=torch.int64)
                    for b, length in enumerate(lengths):
                        place = slice(width - length, width) if side == "left" else slice(0, length)
                        ids[b, place], mask[b, place] = IDS[0, :length], 1
                    name = str(self.folder / f"batch-{side}-{implementation}-{{prompt}}.h5")
                    positions = (mask.cumsum(1) - 1).clamp(min=0)
                    with torch.no_grad(), headscope.record(model, name, rows="last:5") as recording:
                        model(ids, attention_mask=mask, position_ids=positions)
                        model(IDS)
                    self.assertEqual(recording.paths, [name.replace("{prompt}", str(b)) for b in range(4)])
                    for b, length in enumerate((*lengths, NUM_TOKENS)):
                        self.assertSame(recording.paths[b], self.whole(model, IDS[:, :length], rows="last:5"), 2e-5)

    def test_batch_generates(self):
        model = families.make("mistral", "sdpa")
        ids, mask = torch.zeros(2, 12, dtype=torch.int64), torch.ones(2, 12, dtype=torch.int64)
        ids[0, 4:], ids[1], mask[0, :4] = IDS[0, :8], IDS[0, 8:20], 0
        name = str(self.folder / "generated-{prompt}.h5")
        with torch.no_grad(), headscope.record(model, name) as recording:
            output = model.generate(ids, attention_mask=mask, max_new_tokens=9, do_sample=False, pad_token_id=0, eos_token_id=None)
        for b, pad in enumerate((4, 0)):
            self.assertSame(recording.paths[b], self.whole(model, output[b : b + 1, pad:-1]), 2e-5)

    def test_training_step(self):
        model = families.make("llama", "sdpa").train()
        model(IDS, labels=IDS).loss.backward()
        wanted = [parameter.grad.clone() for parameter in model.parameters()]
        model.zero_grad()
        with headscope.record(model, self.path):
            model(IDS, labels=IDS).loss.backward()
        for parameter, gradient in zip(model.parameters(), wanted):
            self.assertTrue(torch.equal(parameter.grad, gradient))
        self.assertSame(self.path, self.whole(model.eval()))

    def test_embeddings_instead_of_ids(self):
        model = families.make("llama")
        embedded = model.get_input_embeddings()(IDS).detach()
        with torch.no_grad(), headscope.record(model, self.path):
            model(inputs_embeds=embedded)
        wanted = self.whole(model)
        wanted["tokens"] = np.zeros(NUM_TOKENS, np.int32)
        self.assertSame(self.path, wanted)

    def test_kernels_log_sum_exp_is_the_one_over_the_scores(self):
        for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 1e-3)):
            model, told = families.make("mistral", "sdpa", dtype), []
            with torch.no_grad():
                output = model(IDS)[0]
            interception.add(listener := lambda *given: told.append(given[7]))
            for mode in (torch.no_grad, torch.inference_mode):
                with mode(), headscope.record(model, path := self.folder / f"lse-{dtype}-{mode.__name__}.h5"):
                    self.assertTrue(torch.equal(model(IDS)[0], output))
            interception.remove(listener)
            self.assertTrue(all(one is not None for one in told), "no kernel told its log-sum-exp")
            with headscope.open(path) as trace:
                for layer in trace.layers:
                    for head in range(4):
                        np.testing.assert_allclose(trace.scores(layer, head).sum(1), 1, atol=tolerance)

    def test_half_precision(self):
        for dtype in (torch.bfloat16, torch.float16):
            with self.subTest(str(dtype)):
                model, path = families.make("qwen3", "sdpa", dtype), self.folder / f"{dtype}.h5"
                queries = []
                interception.add(listener := lambda *given: queries.append(given[2][0].clone()))
                with torch.no_grad():
                    model(IDS)
                interception.remove(listener)
                with torch.no_grad(), headscope.record(model, path):
                    model(IDS)
                with headscope.open(path) as trace:
                    for layer in trace.layers:
                        for head in range(4):
                            self.assertEqual(trace.q(layer, head).torch().dtype, dtype)
                            self.assertTrue(torch.equal(trace.q(layer, head).torch(), queries[layer][head]))
                            np.testing.assert_array_equal(trace.q(layer, head)[:], queries[layer][head].float().numpy())
                        row_sums = trace.scores(layer, 1).sum(1)
                        np.testing.assert_allclose(row_sums, 1, atol=1e-4)


class Choice(RecordingCase):
    def test_layers_heads_and_rows(self):
        model = families.make("llama")
        wanted = self.whole(model)
        with torch.no_grad(), headscope.record(model, self.path, layers=[1], heads="0,3", rows="last:4"):
            model(IDS)
        with headscope.open(self.path) as trace:
            self.assertEqual((trace.layers, trace.facts(1).qo_heads, trace.facts(1).kv_heads), ([1], (0, 3), (0, 1)))
            np.testing.assert_array_equal(trace.rows, np.arange(NUM_TOKENS - 4, NUM_TOKENS))
            np.testing.assert_array_equal(trace.q(1, 3)[:], wanted["q 1:3"][-4:])
            np.testing.assert_array_equal(trace.k(1, 1)[:], wanted["k 1:1"])
            np.testing.assert_allclose(trace.lse(1, 0)[:], wanted["lse 1:0"][-4:], rtol=1e-6)
            with self.assertRefused(headscope.UsageError, "qo_head 1", "[0, 3]"):
                trace.q(1, 1)
            with self.assertRefused(headscope.UsageError, "layer 0", "[1]"):
                trace.facts(0)

    def test_wrong_choices_are_refused_and_leave_no_file(self):
        model = families.make("llama")
        for options, words in (
            (dict(layers="2"), ("layer 2", "[0, 1]")),
            (dict(heads="0-9"), ("head 4", "[0, 1, 2, 3]")),
            (dict(layers="x"), ("layers", "neither a number nor a range")),
            (dict(rows="first:2"), ("rows", "last:N")),
        ):
            with self.subTest(str(options)), self.assertRefused(headscope.UsageError, *words), torch.no_grad():
                with headscope.record(model, self.path, **options):
                    model(IDS)
            self.assertFalse(self.path.exists())

    def test_capture_points(self):
        """Each against the model's own weights, multiplied by hand from the layer's input on."""
        points = tuple(layout.POINTS)
        for name in ("llama", "qwen3", "gemma3_text", "olmo2"):
            model, path, given = families.make(name), self.folder / f"points-{name}.h5", {}
            for parameter in model.parameters():
                if parameter.ndim == 1:  # norms that do nothing would hide which side of them was recorded
                    torch.nn.init.uniform_(parameter.data, 0.5, 1.5)
            layers = model.model.layers
            hooks = [one.self_attn.register_forward_hook(lambda _, __, output, i=i: given.update({i: output[0][0]})) for i, one in enumerate(layers)]
            with torch.no_grad(), headscope.record(model, path, rows="last:9", heads="1,2,3", points=points):
                model(IDS)
            for hook in hooks:
                hook.remove()
            with self.subTest(name), torch.no_grad(), headscope.open(path) as trace:
                for number, layer in enumerate(layers):
                    facts, attention = trace.facts(number), layer.self_attn
                    group, dim, rows = facts.group_size(), facts.head_dim, list(trace.rows)
                    hidden = torch.from_numpy(trace.tensor("residual", number, 0)[:])
                    read = layer.input_layernorm(hidden) if hasattr(layer, "input_layernorm") else hidden
                    np.testing.assert_allclose(trace.tensor("hidden_norms", number, 0)[:].ravel(), np.linalg.norm(hidden, axis=1), rtol=1e-5)
                    flat = {"q": attention.q_proj(read), "k": attention.k_proj(read)}
                    for kind, heads in (("q", facts.qo_heads), ("k", facts.kv_heads)):
                        norm = getattr(attention, f"{kind}_norm", lambda x: x)
                        normed = (norm(flat[kind]) if name == "olmo2" else norm(flat[kind].unflatten(-1, (-1, dim))).flatten(-2)).unflatten(-1, (-1, dim))
                        for head in heads:
                            chosen = rows if kind == "q" else slice(None)
                            np.testing.assert_allclose(trace.tensor(f"{kind}_projection", number, head)[:], flat[kind].unflatten(-1, (-1, dim))[chosen, head], rtol=1e-4, atol=1e-5)
                            np.testing.assert_allclose(trace.tensor(f"{kind}_pre_rope", number, head)[:], normed[chosen, head], rtol=1e-4, atol=1e-5)
                    weight = attention.o_proj.weight
                    for head in facts.kv_heads:
                        np.testing.assert_array_equal(trace.tensor("cache_k", number, head)[:], trace.k(number, head)[:])
                        np.testing.assert_array_equal(trace.tensor("cache_v", number, head)[:], trace.v(number, head)[:])
                    for head in facts.qo_heads:
                        value = trace.v(number, head // group)[:]
                        np.testing.assert_allclose(trace.tensor("head_output", number, head)[:], trace.scores(number, head) @ value, rtol=1e-3, atol=1e-5)
                        lengths = np.linalg.norm(value @ weight[:, head * dim : (head + 1) * dim].numpy().T, axis=1)
                        np.testing.assert_allclose(trace.tensor("value_norms", number, head)[:].ravel(), lengths, rtol=1e-4)
                    self.assertEqual(given[number].shape[1], facts.hidden_size)

    def test_capture_points_in_chunks_are_those_of_the_whole(self):
        model, points, found = families.make("qwen3"), "projection,residual,head-outputs,cache", []
        for step in (NUM_TOKENS, 7, 1):
            path, cache = self.folder / f"points-{step}.h5", transformers.DynamicCache()
            with torch.no_grad(), headscope.record(model, path, points=points):
                for begin in range(0, NUM_TOKENS, step):
                    model(IDS[:, begin : begin + step], past_key_values=cache, use_cache=True)
            with headscope.open(path) as trace:
                found.append({name: trace.tensor(name, 1, 0)[:] for name in ("q_projection", "k_projection", "cache_k", "cache_v", "residual", "head_output")})
        for other in found[1:]:
            for name, values in found[0].items():
                np.testing.assert_allclose(other[name], values, rtol=1e-4, atol=1e-5, err_msg=name)

    def test_capture_points_that_a_model_lacks_are_refused(self):
        for name, point, *words in (
            ("gpt2", "projection", "no q_proj", "headscope capture"), ("phi3", "pre-rope", "no q_proj"), ("qwen3_next", "head-outputs", "gated"),
            ("gpt2", "value-norms", "no matrix o_proj"), ("llama", "scores", "is not known", "pre-rope"),
        ):  # fmt: skip
            path = self.folder / f"lacks-{name}-{point}.h5"
            model = families.make(name)
            with self.subTest(name=name, point=point), self.assertRefused(headscope.HeadscopeError, *words), torch.no_grad(), headscope.record(model, path, points=[point]):
                model(IDS)
            self.assertFalse(path.exists())

    def test_text_of_tokens(self):
        tokenizer = transformers.AutoTokenizer.from_pretrained(cases.SOURCE / "data/reference_model")
        text = "Ein süßer Käse 🧀, 12 tokens\n"
        ids = tokenizer(text, return_tensors="pt").input_ids
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**(families.COMMON | dict(vocab_size=len(tokenizer))))).eval()
        with torch.no_grad(), headscope.record(model, self.path, tokenizer=tokenizer):
            model(ids)
        with headscope.open(self.path) as trace:
            self.assertEqual(b"".join(trace.texts).decode().removeprefix(tokenizer.decode(ids[0, :1]) if ids[0, 0] in tokenizer.all_special_ids else ""), text)

    def test_text_of_words_and_their_continuations(self):
        """As the program has it: what continues a word has no mark, a word begins behind a space, whatever decodes the tokenizer's text, if anything does."""
        words = {"[UNK]": 0, "play": 1, "##ing": 2, "##": 3, "@@ed": 4}
        for prefix, wanted in (("##", [b"[UNK]", b" play", b"ing", b" ##", b" @@ed"]), ("@@", [b"[UNK]", b" play", b" ##ing", b" ##", b"ed"])):
            for decoder in (None, tokenizers.decoders.WordPiece(prefix=prefix)):
                inner = tokenizers.Tokenizer(tokenizers.models.WordPiece(words, unk_token="[UNK]", continuing_subword_prefix=prefix))
                inner.add_special_tokens(["[UNK]"])
                if decoder is not None:
                    inner.decoder = decoder
                text = TokenText(transformers.PreTrainedTokenizerFast(tokenizer_object=inner))
                self.assertEqual([text[token] for token in range(5)], wanted)

    def test_positions_of_pictures(self):
        model = families.make("qwen2_vl_text")
        positions = torch.stack([torch.arange(NUM_TOKENS), torch.arange(NUM_TOKENS) // 2, torch.arange(NUM_TOKENS) // 3])[:, None]
        with torch.no_grad(), headscope.record(model, self.path):
            model(IDS, position_ids=positions)
        with headscope.open(self.path) as trace:
            np.testing.assert_array_equal(trace.positions, positions[:, 0].T)


class Pictures(RecordingCase):
    def test_language_model_of_a_model_that_sees(self):
        """Its tower for pictures asks for attention as well; what is recorded is the text's, with roles and three positions a token."""
        text = families.COMMON | dict(rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[1, 1, 2]))
        tower = dict(depth=1, embed_dim=16, hidden_size=32, num_heads=2, patch_size=4, temporal_patch_size=2, spatial_merge_size=2, in_channels=3, mlp_ratio=2)
        tokens = dict(image_token_id=90, video_token_id=91, vision_start_token_id=92, vision_end_token_id=93)
        torch.manual_seed(5)
        model = transformers.Qwen2VLForConditionalGeneration(transformers.Qwen2VLConfig(text_config=text, vision_config=tower, **tokens)).eval()
        ids = torch.tensor([[5, 6, 92, 90, 90, 90, 90, 93, 7, 8]])
        given = dict(input_ids=ids, pixel_values=torch.randn(16, 96), image_grid_thw=torch.tensor([[1, 4, 4]]), mm_token_type_ids=(ids == 90).int())
        with torch.no_grad():
            output = model(**given)[0]
            with headscope.record(model, self.path):
                self.assertTrue(torch.equal(model(**given)[0], output))
        with headscope.open(self.path) as trace, h5py.File(self.path) as file:
            self.assertEqual((trace.layers, trace.facts(0).num_qo_heads), ([0, 1], 4))
            self.assertEqual(list(file["tokens/role"][:]), [0, 0, 0, 2, 2, 2, 2, 0, 0, 0])
            self.assertEqual(trace.positions.T.tolist(), [[0, 1, 2, 3, 3, 3, 3, 5, 6, 7], [0, 1, 2, 3, 3, 4, 4, 5, 6, 7], [0, 1, 2, 3, 4, 3, 4, 5, 6, 7]])


@unittest.skipUnless(torch.cuda.is_available(), "wants a GPU")
class Gpu(RecordingCase):
    """The same from a GPU: through pinned buffers and a side stream, with the kernel's own log-sum-exp where it tells it."""

    def test_values_and_generation(self):
        for name in ("llama", "mistral", "gemma3_text", "deepseek_v3", "gemma2"):
            for dtype in (torch.float32, torch.bfloat16):
                with self.subTest(f"{name} {dtype}"), torch.no_grad():
                    model, path = families.make(name, "eager" if name == "gemma2" else "sdpa", dtype).cuda(), self.folder / f"gpu-{name}-{dtype}.h5"
                    ids, given = IDS.cuda().repeat(1, 40)[:, :200], []
                    output = model(ids)[0]
                    interception.add(listener := lambda *one: given.append([tensor[0].clone() for tensor in one[2:5]]))
                    with headscope.record(model, path, heads="0,2"):
                        self.assertTrue(torch.equal(model(ids)[0], output))
                    interception.remove(listener)
                    with headscope.open(path) as trace:
                        given = given[-len(trace.layers) :]  # the pass before them told the shapes
                        for layer, (query, key, value) in zip(trace.layers, given):
                            facts = trace.facts(layer)
                            for head in (0, 2):
                                kv_head = head // facts.group_size()
                                self.assertTrue(torch.equal(trace.q(layer, head).torch(), query[head].cpu()))
                                self.assertTrue(torch.equal(trace.k(layer, kv_head).torch(), key[kv_head].cpu()))
                                self.assertTrue(torch.equal(trace.v(layer, kv_head).torch(), value[kv_head].cpu()))
                                np.testing.assert_allclose(trace.scores(layer, head).sum(1), 1, atol=2e-3)
                    output = model.generate(ids[:, :50], max_new_tokens=20, do_sample=False, pad_token_id=0, eos_token_id=None)
                    with headscope.record(model, path, overwrite=True):
                        again = model.generate(ids[:, :50], max_new_tokens=20, do_sample=False, pad_token_id=0, eos_token_id=None)
                    self.assertTrue(torch.equal(output, again))


class Memory(RecordingCase):
    def test_memory_does_not_depend_on_the_trace(self):
        """What waits for a slow disk is bounded, whatever is brought."""
        size, heads, step = 64, 8, 2048
        facts = [layout.LayerFacts(heads, heads, size, size, tuple(range(heads)), tuple(range(heads)), 0.125)]
        one = layout.Layout("m", "m", "{}", 1, heads, heads, size, [0], facts, encoding="float32")
        writer, pump, waiting = TraceWriter(self.path, one, 20 * step), Pump(), []

        def slow(*given):
            waiting.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
            writer.write(*given)

        values = torch.randn(heads, step, size)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(20):
            pump.call(lambda: (writer.append_tokens([1] * step, [0] * step, 0, [b""] * step), writer.append_rows(np.arange(writer.num_tokens - step, writer.num_tokens))))
            for name in ("q", "k", "v"):
                pump.put(slow, 0, name, number * step, values)
            pump.put(slow, 0, "lse", number * step, values[:, :, 0])
            pump.call(lambda: writer.advance(0, step, step))
        pump.call(writer.finish)
        pump.drain()
        pump.stop()
        written = self.path.stat().st_size
        self.assertGreater(written, 200 << 20)
        self.assertLess((max(waiting) - before) << 10, 128 << 20)  # 64 MiB that wait, and open chunks


class Visibility(cases.FolderCase):
    """visibility.py in blocks of a few scores, against a mask and sums of everything at once."""

    CASES = (dict(), dict(window=5), dict(chunk=4), dict(bidirectional=1), dict(soft_cap=3.0), dict(window=1))

    def setUp(self):
        self.blocks = dict(visibility._BLOCK_SCORES)
        visibility._BLOCK_SCORES.update(cpu=40)

    def tearDown(self):
        visibility._BLOCK_SCORES.update(self.blocks)

    def seen(self, facts, total, pad, end):
        """Which columns each column sees, one by one."""
        result = torch.zeros(total, total, dtype=torch.bool)
        for row in range(pad, end):
            for column in range(pad, end):
                block = (row - pad) // facts.chunk == (column - pad) // facts.chunk if facts.chunk else True
                result[row, column] = bool(facts.bidirectional) or (column <= row and (not facts.window or row - column < facts.window) and block)
        return result

    def test_log_sum_exp_and_masks(self):
        generator = torch.Generator().manual_seed(1)
        total, past = 23, 9
        for more in self.CASES:
            for pad, offset in ((0, 0), (4, 0), (0, 3)):
                if offset and (not more.get("window") or past - offset < more["window"] - 1):
                    continue  # a cache that forgot what is still seen
                with self.subTest(f"{more} pad {pad} offset {offset}"):
                    facts = layout.LayerFacts(6, 2, 8, 8, (0, 2, 5), (0, 1), 0.7, **more)
                    rows = torch.tensor([9, 10, 12, 13, 14, 18, 22])
                    keys = visibility.Keys(offset, total - offset, total, pad, total)
                    q, k = torch.randn(3, 7, 8, generator=generator), torch.randn(2, total - offset, 8, generator=generator)
                    seen = self.seen(facts, total, pad, total)
                    scores = 0.7 * q @ k[[0, 0, 1]].transpose(1, 2)
                    if facts.soft_cap:
                        scores = facts.soft_cap * torch.tanh(scores / facts.soft_cap)
                    wanted = torch.logsumexp(scores.masked_fill(~seen[rows][:, offset:], -torch.inf), -1)
                    torch.testing.assert_close(visibility.log_sum_exp(q, k, facts, facts.qo_heads, facts.kv_heads, rows, keys), wanted)
                    mask = seen[past:, offset:][None, None]
                    added = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
                    for one in (mask, added):
                        self.assertEqual(visibility.mask_problem("eager", facts, one, {}, True, rows, past, keys, 0, False), "")
                    for row, column in ((18, 18), (22, 22), (13, 13)):
                        other = mask.clone()
                        other[0, 0, row - past, column - offset] = False
                        self.assertIn("attention_mask", visibility.mask_problem("sdpa", facts, other, {}, True, rows, past, keys, 0, False))
                        self.assertEqual(visibility.mask_problem("sdpa", facts, other, {}, True, rows, past, keys, 0, True), "")

    def test_calls_without_a_mask(self):
        rows = torch.arange(9)
        whole, one_more = visibility.Keys(0, 9, 9, 0, 9), visibility.Keys(0, 10, 10, 0, 10)
        plain, window, both = (layout.LayerFacts(2, 2, 8, 8, (0, 1), (0, 1), 1.0, **more) for more in (dict(), dict(window=4), dict(bidirectional=1)))

        def problem(name, facts, causal, rows=rows, keys=whole, mask=None, **options):
            return visibility.mask_problem(name, facts, mask, options, causal, rows, int(rows[0]), keys, 0, False)

        self.assertEqual(problem("sdpa", plain, True), "")
        self.assertIn("comes after", problem("eager", plain, True))
        self.assertTrue(problem("sdpa", plain, False))
        self.assertEqual(problem("eager", plain, True, rows=torch.tensor([9]), keys=one_more), "")
        self.assertTrue(problem("sdpa", window, True))
        self.assertTrue(problem("sdpa", window, True, rows=torch.tensor([9]), keys=one_more))
        self.assertEqual(problem("sdpa", window, True, rows=torch.arange(3), keys=visibility.Keys(0, 3, 3, 0, 3)), "")
        self.assertEqual(problem("flash_attention_2", window, True, sliding_window=4), "")
        self.assertTrue(problem("flash_attention_2", window, True))
        self.assertTrue(problem("flash_attention_2", plain, False))
        self.assertEqual(problem("sdpa", both, False), "")
        self.assertEqual(problem("eager", both, False), "")
        self.assertTrue(problem("sdpa", both, True))
        padded = visibility.Keys(0, 9, 9, 2, 9)
        self.assertEqual(problem("flash_attention_2", plain, True, rows=rows[2:], keys=padded, mask=torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1, 1]])), "")
        self.assertTrue(problem("flash_attention_2", plain, True, rows=rows[2:], keys=padded, mask=torch.tensor([[0, 1, 1, 1, 1, 1, 1, 1, 1]])))
        self.assertTrue(problem("sdpa", plain, True, rows=rows[2:], keys=padded))
        self.assertIn("flex", problem("flex_attention", plain, True))


class MayTell:
    """A kernel like those of GPUs, which make a log-sum-exp on request; its output is another by a bit where it was asked, if it `changes`."""

    _schema = types.SimpleNamespace(
        arguments=[types.SimpleNamespace(name=name) for name in ("query", "key", "value", "attn_bias", "compute_log_sumexp", "scale")]
    )

    def __init__(self, changes):
        self.changes, self.runs = changes, 0

    def __call__(self, query, key, value, attn_bias, compute_log_sumexp, scale):
        self.runs += 1
        scores = query @ key.mT * scale
        output = scores.softmax(-1) @ value
        if compute_log_sumexp and self.changes:
            output = torch.nextafter(output, torch.zeros_like(output))
        # Rows are filled up, as some kernels do.
        return output, torch.nn.functional.pad(scores.logsumexp(-1), (0, 3)) if compute_log_sumexp else query.new_empty(0)


class KernelsLse(unittest.TestCase):
    """A log-sum-exp that a kernel makes on request is asked for where the model gets the same bits, and nowhere else."""

    def told(self, changes, bias=None, asked=False, rows=(5, 5)):
        """Whether each call's sum was told, and how often the last of them ran the kernel."""
        kernel, found = MayTell(changes), []
        with mock.patch.object(interception, "_ON_REQUEST", (kernel,)):
            for count in rows:
                q, k, v = torch.randn(3, 2, 4, count, 8)
                plain = kernel(q, k, v, bias, asked, 0.25)[0]
                kernel.runs = 0
                kernels = interception._KernelsLse()
                output = kernels.__torch_dispatch__(kernel, (), (q, k, v, bias, asked, 0.25))[0]
                self.assertTrue(torch.equal(output, plain))
                lse = kernels.of(q)
                if lse is not None:
                    torch.testing.assert_close(lse, (q @ k.mT * 0.25).logsumexp(-1))
                found.append(lse is not None)
        return found, kernel.runs

    def test_it_is_asked_for(self):
        self.assertEqual(self.told(changes=False, rows=(5, 5, 3, 5)), ([True] * 4, 1))

    def test_a_single_row_costs_less_than_asking(self):
        self.assertEqual(self.told(changes=False, rows=(1,)), ([False], 1))

    def test_a_kernel_whose_output_changes_is_left_alone(self):
        self.assertEqual(self.told(changes=True), ([False, False], 1))  # the first call of the shape said so

    def test_what_the_model_asks_for_itself_is_taken(self):
        self.assertEqual(self.told(changes=True, asked=True)[0], [True, True])

    def test_a_bias_is_left_alone(self):
        self.assertEqual(self.told(changes=False, bias=torch.zeros(5, 5))[0], [False, False])


class Refusals(RecordingCase):
    """What a trace cannot hold is named."""

    def test_flex_attention(self):
        """It went through torch's own dispatch, whose error said nothing of a remedy."""
        path = self.folder / "flex.h5"
        self.refused(families.make("llama", "flex_attention"), headscope.BadInputError, "flex_attention", "use sdpa, eager or flash attention", path=path)
        self.assertFalse(path.exists())

    def refused(self, model, kind, *words, call=None, path=None, **options):
        with self.assertRefused(kind, *words) as refusal, torch.no_grad():
            with headscope.record(model, path or self.path, **options):
                (call or (lambda: model(IDS)))()
        self.assertEqual(interception._listeners, [])
        return refusal

    def test_windows_to_both_sides(self):
        sizes = dict(vocab_size=97, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48, pad_token_id=0)
        model = transformers.ModernBertModel(transformers.ModernBertConfig(**sizes)).eval()
        self.refused(model, headscope.BadInputError, "modernbert", "both sides")
        self.assertFalse(self.path.exists())

    def test_bias_of_positions(self):
        sizes = dict(vocab_size=97, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)
        model = transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes)).eval()
        self.refused(model, headscope.BadInputError, "t5", "position_bias", call=lambda: model(input_ids=IDS, decoder_input_ids=IDS))

    def test_family_without_an_interface(self):
        model = transformers.BloomForCausalLM(transformers.BloomConfig(vocab_size=97, hidden_size=32, n_layer=2, n_head=4)).eval()
        self.refused(model, headscope.BadInputError, "bloom")

    def test_mask_of_its_own(self):
        model = families.make("llama")
        mask = torch.ones(NUM_TOKENS, NUM_TOKENS, dtype=torch.bool).tril()
        mask[10, 3] = False
        self.refused(model, headscope.BadInputError, "layer 0", "attention_mask", call=lambda: model(IDS, attention_mask=mask[None, None]))
        self.assertFalse(self.path.exists())
        bias = torch.zeros(1, 1, NUM_TOKENS, NUM_TOKENS).masked_fill(~torch.ones(NUM_TOKENS, NUM_TOKENS, dtype=torch.bool).tril(), torch.finfo(torch.float32).min)
        bias[0, 0, 9, 4] = -0.5
        self.refused(model, headscope.BadInputError, "bias", call=lambda: model(IDS, attention_mask=bias))

    def test_longer_prompt_is_another_prompt(self):
        model = families.make("llama")
        with torch.no_grad(), headscope.record(model, str(self.folder / "longer-{prompt}.h5")) as recording:
            model(IDS[:, :9])
            model(IDS)
        self.assertEqual(len(recording.paths), 2)

    def test_longer_prompt_without_a_cache_is_another_prompt(self):
        """It was taken for generation without a cache, and two prompts became one trace."""
        model = families.make("llama")
        path = str(self.folder / "uncached-{prompt}.h5")
        with torch.no_grad(), headscope.record(model, path) as recording:
            model(IDS[:, :9], use_cache=False)
            model(IDS, use_cache=False)
            model.generate(IDS[:, :5], max_new_tokens=4, do_sample=False, pad_token_id=0, eos_token_id=None, use_cache=False)
        self.assertNotIn("generate", vars(model))
        tokens = []
        for path in recording.paths:
            with headscope.open(path) as trace:
                tokens.append(trace.num_tokens)
        self.assertEqual(tokens, [9, NUM_TOKENS, 8])

    def test_an_error_that_somebody_caught_is_told_at_the_end(self):
        """The trace was short, and nothing said so."""
        model = families.make("llama")
        mask = torch.ones(NUM_TOKENS, NUM_TOKENS, dtype=torch.bool).tril()
        mask[10, 3] = False

        def caught():
            with contextlib.suppress(headscope.BadInputError):
                model(IDS, attention_mask=mask[None, None])

        self.refused(model, headscope.BadInputError, "layer 0", "attention_mask", call=caught)

        def caught_and_another():
            caught()
            raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError) as raised, torch.no_grad(), headscope.record(model, self.path):
            caught_and_another()
        self.assertIn("attention_mask", "".join(getattr(raised.exception, "__notes__", ["attention_mask"])))

    def test_model_that_swallows_what_its_attention_raises(self):
        model = families.make("llama", "sdpa")
        attention = model.model.layers[1].self_attn
        forward = attention.forward

        def careless(hidden_states, *arguments, **options):
            try:
                return forward(hidden_states, *arguments, **options)
            except headscope.HeadscopeError:
                return hidden_states, None

        def call():
            cache = model(IDS[:, :9], use_cache=True).past_key_values
            attention.forward = careless
            attention.scaling *= 2  # which the trace does not hold
            model(IDS[:, 9:12], past_key_values=cache)

        self.refused(model, headscope.BadInputError, "layer 1", "scaling", call=call)

    def test_pass_that_failed_between_layers_cannot_be_built_upon(self):
        model = families.make("llama")
        broken = model.model.layers[0].mlp.register_forward_pre_hook(lambda *_: 1 / 0 if self.armed else None)
        self.armed = False

        def call():
            cache = model(IDS[:, :9], use_cache=True).past_key_values
            self.armed = True
            with contextlib.suppress(ZeroDivisionError):
                model(IDS[:, 9:12], past_key_values=cache)
            self.armed = False
            model(IDS[:, 12:15], past_key_values=cache)

        self.refused(model, headscope.UsageError, "past_key_values", "the pass before failed", call=call)
        broken.remove()

    def test_second_prompt_needs_a_name(self):
        model = families.make("llama")

        def twice():
            model(IDS)
            model(IDS)

        self.refused(model, headscope.UsageError, "second prompt", "{prompt}", call=twice)
        with headscope.open(self.path) as trace:
            self.assertTrue(trace.complete)
            self.assertEqual(trace.num_tokens, NUM_TOKENS)

    def test_cache_that_was_filled_before(self):
        model = families.make("llama")
        with torch.no_grad():
            cache = model(IDS[:, :5], use_cache=True).past_key_values
        self.refused(model, headscope.UsageError, "past_key_values", "from the first token on", call=lambda: model(IDS[:, 5:], past_key_values=cache))

    def test_beams(self):
        model = families.make("llama", "sdpa")
        generate = lambda: model.generate(IDS[:, :5], num_beams=2, max_new_tokens=4, do_sample=False, pad_token_id=0, eos_token_id=None)  # noqa: E731
        path = self.folder / "beams-{prompt}.h5"
        self.refused(model, headscope.UsageError, "past_key_values", "beams", call=generate, path=path)
        self.assertFalse(hasattr(transformers.DynamicCache.reorder_cache, "__wrapped__"), "the cache's class is not as it was")

    def test_cache_that_is_cut(self):
        model = families.make("llama", "sdpa")

        def cut():
            cache = model(IDS[:, :9], use_cache=True).past_key_values
            cache.crop(-4)
            model(IDS[:, 5:9], past_key_values=cache)

        self.refused(model, headscope.UsageError, "past_key_values", "holds 5 tokens", call=cut)

    def test_compiled_model(self):
        model = families.make("llama", "sdpa")
        self.refused(torch.compile(model, backend="eager"), headscope.UsageError, "compiled", call=lambda: None)

        def skipping():  # as a model does whose graphs were compiled before
            cache = model(IDS[:, :9], use_cache=True).past_key_values
            model.model.layers[1].self_attn.forward = lambda hidden_states, **_: (hidden_states, None)
            model(IDS[:, 9:12], past_key_values=cache)

        self.refused(model, headscope.UsageError, "layer 1", "is the model compiled", "the first 9 tokens are in", call=skipping)

    def test_positions_of_its_own(self):
        model = families.make("llama")
        self.refused(model, headscope.UsageError, "position_ids", call=lambda: model(IDS, position_ids=torch.arange(NUM_TOKENS)[None] * 2))

    def test_end_of_a_prompt_in_chunks(self):
        model = families.make("llama")

        def chunks():
            cache = model(IDS[:, :5], use_cache=True).past_key_values
            model(IDS[:, 5:9], past_key_values=cache)

        self.refused(model, headscope.UsageError, "rows last:3", "prompt_tokens", call=chunks, rows="last:3")

    def test_model_that_is_not_called(self):
        model = families.make("llama")
        self.refused(model, headscope.UsageError, "was not called", call=lambda: None)
        self.refused(model, headscope.UsageError, "model that is recorded", call=lambda: (model(IDS), model.model(IDS)))

    def test_existing_file_is_kept(self):
        model = families.make("llama")
        self.path.write_text("mine")
        self.refused(model, headscope.UsageError, "it exists", call=lambda: self.fail("refused too late"))
        self.assertEqual(self.path.read_text(), "mine")
        self.refused(model, headscope.UsageError, ".h5", path=self.folder / "trace.txt")
        self.refused(model, headscope.UsageError, "does not exist", path=self.folder / "none" / "trace.h5")
        with torch.no_grad(), headscope.record(model, self.path, overwrite=True):
            model(IDS)
            self.assertEqual(self.path.read_text(), "mine")  # until the new one is whole
        with headscope.open(self.path) as trace:
            self.assertTrue(trace.complete)
        self.assertEqual([entry.name for entry in self.folder.glob(f"{self.id()}*")], [self.path.name])

    def test_reader_refuses_what_is_no_trace(self):
        self.path.write_text("text")
        with self.assertRefused(headscope.BadInputError, "HDF5"):
            headscope.open(self.path)
        with h5py.File(self.path, "w") as file:
            file.attrs["format"] = "other"
        with self.assertRefused(headscope.BadInputError, "format"):
            headscope.open(self.path)


class Several(RecordingCase):
    """More than one recording, model or process at a time."""

    def test_two_models_in_turn(self):
        one, other = families.make("llama"), families.make("gemma2")
        wanted = self.whole(one), self.whole(other)
        paths = self.folder / f"{self.id()}-one.h5", self.folder / f"{self.id()}-other.h5"
        with torch.no_grad(), headscope.record(one, paths[0]), headscope.record(other, paths[1]):
            caches = one(IDS[:, :9], use_cache=True).past_key_values, other(IDS[:, :9], use_cache=True).past_key_values
            for model, cache in zip((one, other), caches):
                model(IDS[:, 9:], past_key_values=cache)
        for path, values_of_whole in zip(paths, wanted):
            self.assertSame(path, values_of_whole)

    def test_one_model_recorded_twice(self):
        model = families.make("llama")
        wanted = self.whole(model)
        inner = self.folder / f"{self.id()}-inner.h5"
        with torch.no_grad(), headscope.record(model, self.path), headscope.record(model, inner, layers=[1], rows="last:4"):
            model(IDS)
        self.assertNotIn("generate", vars(model))  # both watch it while they record
        self.assertSame(self.path, wanted)
        with headscope.open(inner) as trace:
            self.assertTrue(trace.complete)
            np.testing.assert_array_equal(trace.q(1, 3)[:], wanted["q 1:3"][-4:])

    def test_the_same_recording_is_entered_once(self):
        model = families.make("llama")
        with torch.no_grad(), headscope.record(model, self.path) as recording:
            with self.assertRefused(headscope.UsageError, "entered already"):
                recording.__enter__()
            model(IDS)
        with headscope.open(self.path) as trace:
            self.assertEqual(trace.num_tokens, NUM_TOKENS)

    def test_a_fork_neither_records_nor_touches_the_trace(self):
        model = families.make("llama")
        with torch.no_grad(), headscope.record(model, self.path) as recording:
            cache = model(IDS[:, :11], use_cache=True).past_key_values
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    model(IDS[:, :3])
                except headscope.UsageError as refused:
                    code = 0 if "process" in str(refused) else 2
                    recording.__exit__(type(refused), refused, None)
                    for stream in recording._streams:
                        stream.writer.close()  # what the end of a process does
                except BaseException:
                    code = 3
                finally:
                    os._exit(code)
            deadline = time.monotonic() + 60
            while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
                time.sleep(0.02)
            if done[0] == 0:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                self.fail("the child waits for a thread that it does not have")
            self.assertEqual(os.waitstatus_to_exitcode(done[1]), 0)
            model(IDS[:, 11:], past_key_values=cache)
        self.assertSame(self.path, self.whole(model))

    @unittest.skipIf(os.getuid() == 0 and not os.path.exists("/proc/self/status"), "root may write everywhere")
    def test_a_folder_that_takes_no_file(self):
        model = families.make("llama")
        with self.assertRefused(headscope.HeadscopeError, "/proc/self/trace.h5"), torch.no_grad():
            with headscope.record(model, "/proc/self/trace.h5"):
                model(IDS)
        model(IDS)  # as before: nothing listens any more
        self.assertEqual(len(interception._listeners), 0)


class Beginnings(RecordingCase):
    def test_what_ends_the_beginning_leaves_nothing_behind(self):
        model = families.make("llama", "sdpa")
        listeners, threads = len(interception._listeners), threading.active_count()
        hooks = [len(module._forward_pre_hooks) + len(module._forward_hooks) for module in model.modules()]
        for error in (KeyboardInterrupt, RuntimeError):
            with mock.patch.object(recorder.Recording, "_look_at_layers" if error is KeyboardInterrupt else "_look_ahead", side_effect=error):
                with self.assertRaises(error), headscope.record(model, self.path):
                    pass
            self.assertEqual((len(interception._listeners), threading.active_count()), (listeners, threads))
            self.assertEqual([len(module._forward_pre_hooks) + len(module._forward_hooks) for module in model.modules()], hooks)
            self.assertNotIn("generate", vars(model))
            self.assertFalse(self.path.exists())
        self.whole(model)

    def test_what_changes_behind_the_beginning_counts(self):
        model = families.make("gpt2", "sdpa")
        with torch.no_grad(), headscope.record(model, self.path):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                model(IDS)
        with headscope.open(self.path) as trace:
            self.assertEqual(trace.encoding, "bfloat16")
        with torch.no_grad(), headscope.record(model, self.path, points="hidden-norms", overwrite=True):
            model.to(torch.bfloat16)(IDS)
        with headscope.open(self.path) as trace:
            self.assertEqual((trace.encoding, trace.complete), ("bfloat16", True))

    def test_weights_are_hashed_once_and_anew_where_they_change(self):
        folder = self.folder / "model"
        families.make("llama", "sdpa").save_pretrained(folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        first = model_files.hashes(model)["weights_sha256"]
        self.assertEqual(first, hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())
        with mock.patch.object(model_files.hashlib, "sha256", side_effect=AssertionError("read again")):
            self.assertEqual(model_files.hashes(model)["weights_sha256"], first)
        (folder / "model.safetensors").write_bytes(b"others")
        self.assertEqual(model_files.hashes(model)["weights_sha256"], hashlib.sha256(b"others").hexdigest())

    def test_a_thread_that_cannot_be_had_is_done_without(self):
        folder = self.folder / "without-thread"
        families.make("llama", "sdpa").save_pretrained(folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        with mock.patch.object(model_files.threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
            found = model_files.hashes(model)
        self.assertEqual(found["weights_sha256"], hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())


class Ends(RecordingCase):
    """Runs that do not end as planned."""

    def test_failing_run_leaves_whole_tokens_and_says_so(self):
        model = families.make("llama")
        with self.assertRaises(ZeroDivisionError), torch.no_grad():
            with headscope.record(model, self.path):
                cache = model(IDS[:, :11], use_cache=True).past_key_values
                model(IDS[:, 11:15], past_key_values=cache)
                raise ZeroDivisionError
        with headscope.open(self.path) as trace:
            self.assertFalse(trace.complete)
            self.assertEqual(trace.num_tokens, 15)
        whole = self.whole(model, IDS[:, :15])
        self.assertSame(self.path, whole)

    def test_failure_inside_a_pass_leaves_the_passes_before(self):
        model = families.make("llama")
        broken = model.model.layers[1].mlp.register_forward_pre_hook(lambda *_: 1 / 0 if self.armed else None)
        self.armed = False
        with self.assertRaises(ZeroDivisionError), torch.no_grad():
            with headscope.record(model, self.path):
                cache = model(IDS[:, :11], use_cache=True).past_key_values
                self.armed = True
                model(IDS[:, 11:15], past_key_values=cache)
        broken.remove()
        with headscope.open(self.path) as trace:
            self.assertFalse(trace.complete)
            self.assertIn(trace.num_tokens, (11, 15))  # both layers' attention had all 15
        done = subprocess.run([cases.HEADSCOPE, "info", self.path], capture_output=True, text=True, check=False)
        self.assertIn("NOT complete", done.stdout)

    def test_killed_run_leaves_a_trace_that_reads(self):
        script = (
            "import sys; sys.argv[:] = ['x', '', '', sys.argv[1], sys.argv[2]]\n"
            "sys.path[:0] = [sys.argv[3] + '/python', sys.argv[3] + '/tests/python']\n"
            "import torch, families, headscope\n"
            "torch.set_num_threads(1)\n"
            "model, cache = families.make('llama'), None\n"
            "with torch.no_grad(), headscope.record(model, sys.argv[4], prompt_tokens=100000) as recording:\n"
            "    recording._pump.flush = lambda writer, now=False: recording._pump.call(writer.flush)\n"
            "    for step in range(100000):\n"
            "        cache = model(torch.full((1, 5), 3 + step % 90), past_key_values=cache, use_cache=True).past_key_values\n"
            "        print(step, flush=True)\n"
        )
        process = subprocess.Popen([sys.executable, "-B", "-c", script, str(cases.SOURCE), str(self.path)], stdout=subprocess.PIPE, text=True)
        for _ in range(12):
            self.assertTrue(process.stdout.readline())
        with headscope.open(self.path) as trace:  # while it is written
            self.assertFalse(trace.complete)
            self.assertGreater(trace.num_tokens, 0)
            with self.assertRefused(headscope.UsageError, "a capture to it is running", str(process.pid)), torch.no_grad():
                with headscope.record(model := families.make("llama"), self.path, overwrite=True):
                    model(IDS)
        time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.stdout.read()
        process.wait()
        with headscope.open(self.path) as trace:
            tokens = trace.num_tokens
            self.assertGreaterEqual(tokens, 5)
            np.testing.assert_array_equal(trace.tokens, 3 + np.arange(tokens) // 5 % 90)
            self.assertTrue(np.isfinite(trace.lse(1, 3)[:]).all())
        done = subprocess.run([cases.HEADSCOPE, "analyze", self.path, "--heads", "1:3", "--quiet"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_last_chunk_that_a_kill_tore(self):
        """The checksum of a chunk that was being rewritten may be wrong; what was flushed is read all the same, in a trace that is not complete."""
        model = families.make("llama")
        wanted = self.whole(model, IDS[:, :13])
        for complete in (False, True):
            path = self.folder / f"torn-{complete}.h5"
            with contextlib.suppress(ZeroDivisionError), torch.no_grad():
                with headscope.record(model, path, prompt_tokens=NUM_TOKENS):
                    model(IDS[:, :13])
                    1 / (1 if complete else 0)
            with h5py.File(path) as file:
                places = [file[name].id.get_chunk_info(0) for name in ("attention/k", "attention/lse", "tokens/ids")]
            with open(path, "r+b") as file:
                for place in places:
                    file.seek(place.byte_offset + place.size - 1)
                    byte = file.read(1)[0]
                    file.seek(-1, 1)
                    file.write(bytes([byte ^ 0x55]))
            if not complete:
                self.assertSame(path, wanted)
                continue
            with headscope.open(path) as trace:
                with self.assertRefused(headscope.BadInputError, "attention/k", "damaged"):
                    trace.k(0, 0)[:]
                np.testing.assert_array_equal(trace.k(1, 0)[:], wanted["k 1:0"])

    def test_full_disk_is_told_before_data_is_lost(self):
        model = families.make("llama")
        known = os.statvfs

        class Full:
            f_bavail, f_frsize = 1, 4096

        try:
            with self.assertRefused(headscope.FailedError, "disk is nearly full", "free some disk space", "the first 11 tokens are in"), torch.no_grad():
                with headscope.record(model, self.path):
                    cache = model(IDS[:, :11], use_cache=True).past_key_values
                    time.sleep(0.2)
                    os.statvfs = lambda path: Full
                    model(IDS[:, 11:], past_key_values=cache)
        finally:
            os.statvfs = known
        with headscope.open(self.path) as trace:
            self.assertEqual((trace.complete, trace.num_tokens), (False, 11))


if __name__ == "__main__":
    cases.main()
