# SPDX-License-Identifier: Apache-2.0
"""What recording is promised to be: however the tokens come (whole, in chunks, generated with any cache, in a batch), the trace is the same one, with what was
chosen of it."""
import copy
import subprocess
import unittest
import unittest.mock
import weakref

import cases
import families
import h5py
import numpy as np
import tokenizers
import torch
import transformers
from recording_case import IDS, NUM_TOKENS, RecordingCase, values

import headscope
from headscope import interception, layout, recorder
from headscope.token_text import TokenText


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

    def test_generation_where_layers_share_keys(self):
        """generate() has Gemma 4 run the layers that share an earlier one's keys for a prompt's last token alone, and the recording was refused."""
        for cache in ({}, {"cache_implementation": "static", "disable_compile": True}):
            for implementation in ("sdpa", "eager"):
                model = families.make("gemma4_text", implementation, num_hidden_layers=4, layer_types=families.SLIDING * 2, num_kv_shared_layers=2, hidden_size_per_layer_input=8)
                with self.subTest(f"{implementation} {cache}"):
                    path = self.folder / "shared.h5"
                    output = self.generated(model, path, **cache)
                    self.assertSame(path, self.whole(model, output[:, :-1]), 2e-5)
                    with headscope.open(path) as trace:
                        self.assertEqual([trace.facts(layer).kv_layer for layer in trace.layers], [-1, -1, 0, 1])
                    path.unlink()
        with torch.no_grad():
            wanted = model(IDS, logits_to_keep=3).logits
            model.register_parameter("first", torch.nn.Parameter(torch.empty(1, device="meta")))  # as of a model whose weights are loaded when they are needed
            with headscope.record(model, self.folder / "kept.h5"):
                torch.testing.assert_close(model(IDS, logits_to_keep=3).logits, wanted, rtol=1e-4, atol=1e-5)

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

    def test_a_pass_that_has_ended_is_let_go(self):
        model = families.make("llama", "sdpa")
        mask = torch.ones(1, 1, NUM_TOKENS, NUM_TOKENS, dtype=torch.bool).tril()
        with torch.no_grad(), headscope.record(model, self.path):
            model(IDS[:, :NUM_TOKENS], attention_mask=mask)
            there = weakref.ref(mask)
            del mask
            self.assertIsNone(there(), "a mask of all rows and columns stays in memory")

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

    def test_a_sequence_that_ends_before_its_batch(self):
        """It was recorded with the padding that generate() goes on with; now its trace is the one that it has alone."""
        ids, mask, name = self.padded()
        for family in ("llama", "gemma3_text"):
            model = families.make(family, "sdpa")
            plain = model.generate(ids, attention_mask=mask, max_new_tokens=9, do_sample=False, pad_token_id=0, eos_token_id=None)[:, 12:].tolist()
            number, end = next((b, token) for b, tokens in enumerate(plain) for token in tokens[:5] if token not in plain[1 - b])
            ids[:, 6] = end  # in a prompt it ends nothing
            configured = transformers.GenerationConfig(eos_token_id=[95, end], pad_token_id=0)
            for options in ({"eos_token_id": end}, {"eos_token_id": end, "use_cache": False}, {"generation_config": configured, "cache_implementation": "static", "disable_compile": True}):
                with self.subTest(f"{family} {options}"):
                    chosen = {"attention_mask": mask, "max_new_tokens": 9, "do_sample": False, "pad_token_id": 0, **options}
                    with torch.no_grad(), headscope.record(model, name, overwrite=True) as recording:
                        output = model.generate(ids, **chosen)
                    self.assertTrue(torch.equal(output, model.generate(ids, **chosen)))
                    lasts = []
                    for b, pad in enumerate((4, 0)):
                        generated = output[b, 12:].tolist()
                        lasts.append(generated.index(end) if end in generated else len(generated) - 1)
                        self.assertSame(recording.paths[b], self.whole(model, output[b : b + 1, pad : 12 + lasts[b]]), 5e-5)
                        alone = self.folder / f"{self.id()}-one.h5"
                        with torch.no_grad(), headscope.record(model, alone, overwrite=True):
                            model.generate(ids[b : b + 1, pad:], **{**chosen, "attention_mask": mask[b : b + 1, pad:]})
                        self.assertSame(recording.paths[b], values(alone), 5e-5)
                    self.assertLess(min(lasts), max(lasts))

    def padded(self):
        ids, mask = torch.zeros(2, 12, dtype=torch.int64), torch.ones(2, 12, dtype=torch.int64)
        ids[0, 4:], ids[1], mask[0, :4] = IDS[0, :8], IDS[0, 8:20], 0
        return ids, mask, str(self.folder / f"{self.id()}-{{prompt}}.h5")

    def test_padding_that_the_model_counts(self):
        """A tokenizer's batch as it is: without position_ids the first token of a padded prompt is at the place behind its padding, which was refused."""
        ids, mask, name = self.padded()
        for family, first in (("llama", 4), ("gpt2", None)):  # whose learned positions nobody hears of
            model = families.make(family, "sdpa")
            with torch.no_grad(), headscope.record(model, name, overwrite=True) as recording:
                cache = model(ids[:, :9], attention_mask=mask[:, :9], use_cache=True).past_key_values
                model(ids[:, 9:], attention_mask=mask, past_key_values=cache)
            if first is None:
                continue
            wanted = self.whole(model, ids[1:])
            self.assertSame(recording.paths[1], wanted, 2e-5)
            whole = self.folder / f"{self.id()}-alone.h5"
            with torch.no_grad(), headscope.record(model, whole, overwrite=True):
                model(ids[:1, 4:], position_ids=torch.arange(4, 12)[None])
            self.assertSame(recording.paths[0], values(whole), 2e-5)
            with headscope.open(recording.paths[0]) as trace, headscope.open(self.whole_path(model, ids[:1, 4:])) as plain:
                np.testing.assert_array_equal(trace.positions, np.arange(4, 12)[:, None])
                for layer, head in ((0, 1), (1, 3)):
                    np.testing.assert_allclose(trace.scores(layer, head), plain.scores(layer, head), atol=2e-5)
                self.assertGreater(np.abs(trace.k(0, 0)[:] - plain.k(0, 0)[:]).max(), 0.1)
            for words in (["info", recording.paths[0]], ["analyze", recording.paths[0], "--quiet"]):
                done = subprocess.run([cases.HEADSCOPE, *words], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)

    def whole_path(self, model, ids):
        self.whole(model, ids)
        return self.folder / f"{self.id()}-whole.h5"

    def test_padded_batch_with_a_static_cache(self):
        """generate() makes the mask of all columns itself there, in which padding was not found."""
        ids, mask, name = self.padded()
        for family in ("llama", "gemma3_text"):
            model = families.make(family, "sdpa")
            with torch.no_grad(), headscope.record(model, name, overwrite=True) as recording:
                output = model.generate(ids, attention_mask=mask, max_new_tokens=5, do_sample=False, pad_token_id=0, eos_token_id=None, cache_implementation="static")
            for b, pad in enumerate((4, 0)):
                self.assertSame(recording.paths[b], self.whole(model, output[b : b + 1, pad:-1]), 5e-5)

    def test_padding_that_generation_infers(self):
        """Without attention_mask generate() takes the prompts' pad_token_id for padding; a static cache's mask of it was taken for one of prompts without."""
        ids, _, name = self.padded()
        for family, implementation in (("llama", "sdpa"), ("mistral", "eager"), ("gemma3_text", "sdpa")):  # a window in no layer, in all and in some
            model = families.make(family, implementation)
            for cache in ({}, {"cache_implementation": "static", "disable_compile": True}):
                with self.subTest(f"{family} {cache}"):
                    with torch.no_grad(), headscope.record(model, name, overwrite=True) as recording:
                        output = model.generate(ids, max_new_tokens=5, do_sample=False, pad_token_id=0, eos_token_id=None, **cache)
                    for b, pad in enumerate((4, 0)):
                        self.assertSame(recording.paths[b], self.whole(model, output[b : b + 1, pad:-1]), 5e-5)

    def test_prompts_that_go_on_in_turn(self):
        """Each by its own cache; the second one's next tokens were refused."""
        name = str(self.folder / "turns-{prompt}.h5")
        prompts, ends = (IDS, IDS.flip(1), torch.cat([IDS[:, 3:], IDS[:, :3]], 1)), (9, 9, 5)
        for family, implementation in (("llama", "sdpa"), ("mistral", "eager"), ("gemma3_text", "sdpa"), ("qwen3_next", "eager"), ("deepseek_v3", "sdpa")):
            for static in (False, True):
                model = families.make(family, implementation)
                if static and family == "qwen3_next":
                    continue
                with self.subTest(f"{family} {static}"), torch.no_grad(), headscope.record(model, name, overwrite=True) as recording:
                    caches = [transformers.StaticCache(config=model.config, max_cache_len=NUM_TOKENS) if static else transformers.DynamicCache(config=model.config) for _ in prompts]
                    for ids, cache, end in zip(prompts, caches, ends):
                        model(ids[:, :end], past_key_values=cache)
                    for turn in (1, 0, 2, 2, 0, 1, 0):
                        ids, cache = prompts[turn], caches[turn]
                        count = cache.get_seq_length()
                        model(ids[:, count : count + 1 + (turn == 2)], past_key_values=cache)
                    lengths = [int(cache.get_seq_length()) for cache in caches]
                    self.assertEqual((lengths, recording.paths), ([12, 11, 9], []))
                self.assertEqual(recording.paths, [name.replace("{prompt}", str(number)) for number in range(3)])
                for path, ids, length in zip(recording.paths, prompts, lengths):
                    self.assertSame(path, self.whole(model, ids[:, :length]), 5e-5)

    def test_batches_that_generate_in_turn(self):
        model, (ids, mask, name) = families.make("mistral", "sdpa"), self.padded()
        batches = [(ids, mask), (IDS[:, :7], torch.ones(1, 7, dtype=torch.int64))]
        with torch.no_grad(), headscope.record(model, name) as recording:
            caches = [transformers.DynamicCache(config=model.config) for _ in batches]
            for _ in range(3):
                for b, ((tokens, shown), cache) in enumerate(zip(batches, caches)):
                    tokens = model.generate(tokens, attention_mask=shown, past_key_values=cache, max_new_tokens=2, do_sample=False, pad_token_id=0, eos_token_id=None)
                    batches[b] = tokens, torch.cat([shown, torch.ones(len(shown), 2, dtype=torch.int64)], 1)
        outputs = [batches[0][0][0, 4:-1], batches[0][0][1, :-1], batches[1][0][0, :-1]]
        for path, output in zip(recording.paths, outputs, strict=True):
            self.assertSame(path, self.whole(model, output[None]), 2e-5)

    def test_a_copy_that_was_used_is_the_prompts_cache(self):
        model, name = families.make("llama"), str(self.folder / "copies-{prompt}.h5")
        with torch.no_grad(), headscope.record(model, name) as recording:
            cache = copy.deepcopy(model(IDS[:, :9]).past_key_values)
            model(IDS[:, 9:11], past_key_values=cache)
            other = model(IDS[:, 2:9]).past_key_values
            model(IDS[:, 11:12], past_key_values=cache)
            model(IDS[:, 9:10], past_key_values=other)
        for path, ids in zip(recording.paths, (IDS[:, :12], IDS[:, 2:10]), strict=True):
            self.assertSame(path, self.whole(model, ids))

    def test_a_prompt_ends_with_its_cache(self):
        """Not with the recording: of thousands, each would keep its file open."""
        model, name = families.make("llama"), str(self.folder / "ends-{prompt}.h5")
        with torch.no_grad(), headscope.record(model, name) as recording:
            for number in range(4):
                output = model(IDS[:, : number + 4])
                self.assertEqual(len(recording.paths), max(0, number - 1), "that of the prompt before is still there")
            del output
            model(IDS)
            self.assertEqual(len(recording.paths), 4)
            kept = [model(IDS[:, :5]).past_key_values for _ in range(40)]
            self.assertEqual(len(recording.paths), 5 + 39 - 16)
        self.assertEqual((len(recording.paths), len(kept)), (45, 40))

    def test_an_exception_leaves_what_goes_on_in_turn(self):
        model = families.make("llama")
        for in_turn in (False, True):
            name = str(self.folder / f"left-{in_turn}-{{prompt}}.h5")
            with self.assertRaises(ZeroDivisionError) as raised, torch.no_grad(), headscope.record(model, name) as recording:
                one = model(IDS[:, :9]).past_key_values
                other = model(IDS[:, 2:9]).past_key_values
                if in_turn:
                    model(IDS[:, 9:10], past_key_values=one)
                self.assertEqual((len(recording.paths), other.get_seq_length()), (0, 7))
                raise ZeroDivisionError
            self.assertEqual((len(recording.paths), len(recording.left)), (0, 2) if in_turn else (1, 1))
            self.assertIn("left-", raised.exception.__notes__[0])
            with headscope.open(name.replace("{prompt}", "0")) as trace:
                self.assertEqual((trace.num_tokens, trace.complete), (9 + in_turn, not in_turn))

    def test_generation_tells_the_prompts_length(self):
        model = families.make("llama", "sdpa")
        with torch.no_grad(), headscope.record(model, self.path, rows="last:3"):
            model.generate(IDS[:, :20], max_new_tokens=3, do_sample=False, pad_token_id=0, eos_token_id=None, prefill_chunk_size=8)
        with headscope.open(self.path) as trace:
            self.assertEqual(list(trace.rows), [17, 18, 19, 20, 21])
            self.assertEqual(list(trace.phases), [0] * 20 + [1] * 2)

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
        words = unittest.mock.Mock(convert_ids_to_tokens=lambda token: f"word{token}", spec=["convert_ids_to_tokens"])
        with torch.no_grad(), headscope.record(model, self.path, tokenizer=words):
            model(inputs_embeds=embedded)
        with h5py.File(self.path) as file:
            self.assertEqual(bytes(file["tokens"].attrs["prompt_source"]), b"inputs_embeds, without token ids")
        with headscope.open(self.path) as trace:  # not the text of id 0
            self.assertEqual(set(trace.texts), {b""})
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
    def test_arrays_are_sequences(self):
        model = families.make("llama")
        with torch.no_grad(), headscope.record(model, self.path, layers=np.array([0, 1]), heads=np.arange(2), points=np.array(["residual"])):
            model(IDS)
        with headscope.open(self.path) as trace:
            self.assertEqual((trace.layers, trace.facts(1).qo_heads), ([0, 1], (0, 1)))

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

    def test_whole_groups(self):
        model = families.make("llama")
        with torch.no_grad(), headscope.record(model, self.path, kv_heads="1"):
            model(IDS)
        with headscope.open(self.path) as trace:
            self.assertEqual((trace.facts(0).qo_heads, trace.facts(1).kv_heads), ((2, 3), (1,)))
        with self.assertRefused(headscope.UsageError, "heads, kv_heads", "give one"):
            headscope.record(model, self.path, heads=0, kv_heads=0)
        with self.assertRefused(headscope.UsageError, "KV heads [2]", "choose from [0, 1]"), torch.no_grad(), headscope.record(model, self.path, kv_heads=2, overwrite=True):
            model(IDS)

    def test_parts_of_a_map_are_slices(self):
        """A number ended in an AttributeError or an IndexError of Python's own."""
        model = families.make("llama")
        self.whole(model)
        with headscope.open(self.folder / f"{self.id()}-whole.h5") as trace:
            for given in (dict(rows=3), dict(rows=999), dict(columns=3), dict(rows=slice(9, 0, -1))):
                with self.assertRefused(headscope.UsageError, next(iter(given)), "must be a slice"):
                    trace.scores(0, 1, **given)
            self.assertEqual(trace.scores(0, 1, rows=slice(3, 4)).shape, (1, NUM_TOKENS))

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
                        sums = np.abs(value @ weight[:, head * dim : (head + 1) * dim].numpy().T).sum(axis=1)
                        np.testing.assert_allclose(trace.tensor("value_norms_l1", number, head)[:].ravel(), sums, rtol=1e-4)
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
            ("gpt2", "value-norms", "no matrix o_proj"), ("gpt2", "value-norms-l1", "no matrix o_proj"), ("llama", "scores", "is not known", "pre-rope"),
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


if __name__ == "__main__":
    cases.main()
