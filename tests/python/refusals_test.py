# SPDX-License-Identifier: Apache-2.0
"""What a trace cannot hold is refused by name, and so is what stands in its way."""
import contextlib
import copy
import os
from unittest import mock

import cases
import families
import h5py
import torch
import transformers
from recording_case import IDS, NUM_TOKENS, RecordingCase

import headscope
from headscope import interception


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

    def test_several_attentions_of_a_layer(self):
        """The second one was said to lack disk space."""
        self.refused(families.make("diffllama"), headscope.BadInputError, "diffllama", "layer 0 calls its attention twice")
        self.assertFalse(self.path.exists())

    def test_layers_that_are_one_module(self):
        """They were said to be compiled, or skipped."""
        sizes = dict(vocab_size=97, embedding_size=16, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
        model = transformers.AlbertModel(transformers.AlbertConfig(**sizes)).eval()
        self.refused(model, headscope.BadInputError, "albert", "layers 0 and 1 are one module")
        self.assertFalse(self.path.exists())

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

    def test_cache_of_another_prompt(self):
        """One as long was taken for the recorded prompt's, and the trace had the tokens of two."""
        model, others = families.make("llama", "sdpa"), IDS.flip(1)
        path = self.folder / "of-others-{prompt}.h5"

        def copied():  # nobody hears of the copy, so the prompt ended with its cache
            one = copy.deepcopy(model(IDS[:, :9]).past_key_values)
            model(others[:, :9])
            model(IDS[:, 9:12], past_key_values=one)

        def one_of_many():
            caches = [model(IDS[:, :9]).past_key_values for _ in range(20)]
            model(IDS[:, 9:12], past_key_values=caches[0])

        def of_before():
            model(IDS[:, :9], past_key_values=transformers.DynamicCache(config=model.config))
            model(IDS[:, 9:12], past_key_values=before)

        with torch.no_grad():
            before = model(others[:, :9]).past_key_values
        for call in (copied, one_of_many, of_before):
            self.refused(model, headscope.UsageError, "past_key_values", "another prompt", call=call, path=path, overwrite=True)

    def test_sequence_that_goes_on_behind_its_end(self):
        """Its padding is not in the trace, so what follows would not be what the model computed."""
        model, ids, path = families.make("llama", "sdpa"), torch.cat([IDS[:, :9], IDS[:, 9:18]]), self.folder / "ended-{prompt}.h5"
        with torch.no_grad():
            end = int(model.generate(ids, max_new_tokens=1, do_sample=False, pad_token_id=0, eos_token_id=None)[0, -1])

        def again():
            cache = transformers.DynamicCache(config=model.config)
            output = model.generate(ids, past_key_values=cache, max_new_tokens=4, do_sample=False, pad_token_id=0, eos_token_id=end)
            model(output[:, -1:], past_key_values=cache)

        def by_its_own_generate():
            generate = type(model).generate

            def careless(model, ids, **options):
                return generate(model, ids, **{**options, "eos_token_id": None})

            with mock.patch.object(type(model), "generate", careless):
                with headscope.record(model, path, overwrite=True):
                    model.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=0, eos_token_id=end)

        told = "record that conversation alone, or begin it anew without the cache"
        self.refused(model, headscope.UsageError, "prompt 0", "it cannot be continued", told, call=again, path=path, overwrite=True)
        alone = transformers.DynamicCache(config=model.config)
        with torch.no_grad(), headscope.record(model, path, overwrite=True) as recording:  # as it is told to
            output = model.generate(ids[:1], past_key_values=alone, max_new_tokens=4, do_sample=False, pad_token_id=0, eos_token_id=end)
            model(output[:, -1:], past_key_values=alone)
            output = model.generate(ids, past_key_values=transformers.DynamicCache(config=model.config), max_new_tokens=4, do_sample=False, pad_token_id=0, eos_token_id=end)
            model(output[:1])
        self.assertEqual(len(recording.paths), 4)
        with torch.no_grad(), self.assertRefused(headscope.UsageError, "prompt 0", "behind the token that ends it"):
            by_its_own_generate()

    def test_copy_of_a_cache_goes_on(self):
        model = families.make("llama", "sdpa")
        for tuples in (False, True):
            with torch.no_grad(), headscope.record(model, self.path, overwrite=True):
                made = model(IDS[:, :9], return_dict=not tuples)
                cache = copy.deepcopy(made[1] if tuples else made.past_key_values)
                model(IDS[:, 9:], past_key_values=cache)
            self.assertSame(self.path, self.whole(model))

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

    def test_arguments_of_another_kind(self):
        """Each ended in an error of Python's own, or was taken for something else."""
        model = families.make("llama")
        layers = "must be whole numbers, such as [0, 1, 7]"
        for words, options in (
            (("layers [0.5]", layers), dict(layers=[0.5])),
            (("layers [True]", layers), dict(layers=[True])),
            (("layers ['0-1']", layers), dict(layers=["0-1"])),
            (("heads [1.5]", layers), dict(heads=[1.5])),
            (('rows "5"', "last:N"), dict(rows=5)),
            (("record 3", "choose from"), dict(points=3)),
            (("max_tokens 'x'", "whole number from 1 on"), dict(max_tokens="x")),
            (("max_tokens 0", "whole number from 1 on"), dict(max_tokens=0)),
            (("prompt_tokens -1", "whole number from 1 on"), dict(prompt_tokens=-1)),
            (("tokenizer: str", "AutoTokenizer"), dict(tokenizer="llama")),
            (("prompt_source 3", "must be a text"), dict(prompt_source=3)),
            (("task_answer 3", "must be a text"), dict(task_answer=3)),
            (("prompt_source", "surrogate"), dict(prompt_source="\ud800")),
            (("layers b'0,1'", "decode"), dict(layers=b"0,1")),
            (("output 3", "must be a path"), dict(path=3)),
        ):
            with self.subTest(words[0]):
                self.refused(model, headscope.UsageError, *words, call=lambda: self.fail("refused too late"), **options)
        for words, call in (
            (("input_ids", "tensor [24]", "[sequences, tokens]"), lambda: model(IDS[0])),
            (("input_ids", "list", "[sequences, tokens]"), lambda: model(IDS.tolist())),
            (("input_ids", "no tokens"), lambda: model(IDS[:, :0])),
        ):
            with self.subTest(words[1]):
                self.refused(model, headscope.UsageError, *words, call=call)
        self.assertFalse(self.path.exists())
        with torch.no_grad(), headscope.record(model, os.fsencode(self.path), layers=1, prompt_source=None):
            model(IDS)
        with headscope.open(self.path) as trace:
            self.assertEqual(trace.layers, [1])

    def test_what_is_no_model(self):
        model = families.make("llama")
        nothing = lambda: self.fail("refused too late")  # noqa: E731
        self.refused("llama", headscope.UsageError, "model: str", "from_pretrained", call=nothing)
        self.refused(torch.nn.Linear(2, 2), headscope.UsageError, "model: Linear", "from_pretrained", call=nothing)
        self.refused(torch.nn.DataParallel(model), headscope.UsageError, "DataParallel wraps", "model.module", call=nothing)
        with torch.device("meta"):
            empty = transformers.AutoModelForCausalLM.from_config(model.config)
        self.refused(empty, headscope.BadInputError, "LlamaForCausalLM", "meta device", "from_pretrained", call=nothing)

    def test_existing_file_is_kept(self):
        model = families.make("llama")
        self.path.write_text("mine")
        self.refused(model, headscope.UsageError, "it exists", "overwrite=True", call=lambda: self.fail("refused too late"))
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
        for path, problem in ((self.folder / "none.h5", "(No such file or directory)"), (self.folder, "(Is a directory)")):
            with self.assertRefused(headscope.BadInputError, str(path), problem, "open a file that headscope wrote") as refusal:
                headscope.open(path)
            self.assertNotIn("errno", refusal.sentence)
        with h5py.File(self.path, "w") as file:
            file.attrs["format"] = "other"
        with self.assertRefused(headscope.BadInputError, "format"):
            headscope.open(self.path)

    def test_closed_trace(self):
        """It said that q was not recorded."""
        with torch.no_grad(), headscope.record(families.make("llama"), self.path) as recording:
            recording._model(IDS)
        with headscope.open(self.path) as trace:
            view = trace.q(0, 0)
        for read in (lambda: trace.q(0, 0), lambda: view[:], lambda: trace.scores(0, 0), lambda: trace.cross_tensor("q", 0, 0)):
            with self.assertRefused(headscope.UsageError, str(self.path), "closed", "open it again"):
                read()


if __name__ == "__main__":
    cases.main()
