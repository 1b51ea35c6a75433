# SPDX-License-Identifier: Apache-2.0
"""What python -m headscope.capture says of a checkpoint that lacks weights or its tokenizer, and of a machine that lacks memory."""
import errno
import shutil
import unittest.mock

import cases
import families
import h5py
import numpy as np
import safetensors.torch
import torch
from capturing import MODEL, CommandLineCase, captured, run

import headscope
from headscope import recorder


class Lacking(CommandLineCase):
    def lacking(self, made, *lacked):
        """The folder of this model's checkpoint without the weights whose names begin so."""
        model = self.folder / f"lacks-{type(made).__name__}-{'-'.join(lacked)}"
        made.save_pretrained(model)
        shutil.copy(MODEL / "tokenizer.json", model)
        stored = safetensors.torch.load_file(model / "model.safetensors")
        kept = {name: tensor for name, tensor in stored.items() if not name.startswith(lacked)}
        self.assertLess(len(kept), len(stored))
        safetensors.torch.save_file(kept, model / "model.safetensors", {"format": "pt"})
        return model

    def test_weights_that_a_checkpoint_lacks_are_not_made_up(self):
        """transformers draws them and warns, and the trace was one of random numbers. Of llama4 no name begins with the prefix that its class tells."""
        bert = cases.transformers.BertLMHeadModel(cases.transformers.BertConfig(**{**families.COMMON, "is_decoder": True}))
        for made, key, head in (
            (families.make("llama"), "model.layers.1.self_attn.k_proj.weight", "lm_head.weight"),
            (families.make("llama4_text"), "model.layers.1.self_attn.k_proj.weight", "lm_head.weight"),
            (bert, "bert.encoder.layer.1.attention.self.key.weight", "cls.predictions.transform.dense.weight"),
        ):
            with self.subTest(type(made).__name__):
                output = self.folder / "some-weights.h5"
                given = ("--tokens", "5,6,7", "-o", output, "--force", "--quiet")
                model = self.lacking(made, key)
                self.refused(3, model, *given, words=(str(model), "lacks 1 of the model's weights", key))
                self.assertFalse(output.exists())
                model = self.lacking(made, head)
                self.assertEqual(captured(model, *given), (0, f"{output}\n", ""))  # no token is generated
                output.unlink()
                self.refused(3, model, *given, "--decode", "1", words=("lacks 1 of the model's weights", head))

    def test_towers_that_a_checkpoint_lacks_see_no_token(self):
        """The text alone of a model that sees was refused, which `headscope capture` takes: no image is given."""
        made, traces = self.seeing(), [self.folder / f"towerless-{program}.h5" for program in ("cpp", "python")]
        given = ("--tokens", "5,6,7,8,9", "--decode", "2", "--dtype", "fp32", "--quiet", "-o")
        model = self.lacking(made, "model.visual.", "visual.")
        run("capture", model, *given, traces[0])
        self.assertEqual(captured(model, *given, traces[1]), (0, f"{traces[1]}\n", ""))
        with headscope.open(traces[0]) as one, headscope.open(traces[1]) as other:
            for layer in one.layers:
                np.testing.assert_allclose(other.q(layer, 3)[:], one.q(layer, 3)[:], rtol=2e-4, atol=5e-5)
        stored = safetensors.torch.load_file(model / "model.safetensors")
        for end, refused in (("layers.1.self_attn.k_proj.weight", True), ("embed_tokens.weight", True), ("lm_head.weight", False)):
            with self.subTest(end):
                lacking, output = self.folder / "lacking-more", self.folder / "lacking-more.h5"
                shutil.copytree(model, lacking, dirs_exist_ok=True)
                kept = {name: tensor for name, tensor in stored.items() if not name.endswith(end)}
                self.assertEqual(len(kept), len(stored) - 1)
                safetensors.torch.save_file(kept, lacking / "model.safetensors", {"format": "pt"})
                if refused:
                    self.refused(3, lacking, "--tokens", "5,6,7", "-o", output, words=("lacks 1 of the model's weights", end))
                else:
                    self.assertEqual(captured(lacking, "--tokens", "5,6,7", "-o", output, "--quiet")[0], 0)
                    self.refused(3, lacking, "--tokens", "5,6,7", "--decode", "1", "-o", output, "--force", words=("lacks 1 of the model's weights", end))

    def test_memory_that_is_missing_is_four(self):
        kinds = (
            MemoryError(),
            OSError(errno.ENOMEM, "in words of another language"),
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
            RuntimeError("unable to mmap 8 bytes from file <model.safetensors>: Cannot allocate memory (12)"),
            torch.OutOfMemoryError("CUDA out of memory"),
            torch.AcceleratorError("CUDA error: out of memory", 2),
        )
        for error in kinds:
            for loader in (cases.transformers.AutoModelForCausalLM, cases.transformers.AutoTokenizer):
                with self.subTest(error, loader=loader.__name__), unittest.mock.patch.object(loader, "from_pretrained", side_effect=error):
                    self.refused(4, MODEL, "--text", "a", "-o", self.folder / "none.h5", words=("the memory is used up",))

    def test_memory_that_is_missing_amid_a_recording_leaves_what_there_is(self):
        """Where the tokens before it are was said to whoever looks at an exception's notes alone."""
        output, known = self.folder / "amid.h5", recorder.Recording._end_pass

        def lacking(recording, *given):
            known(recording, *given)
            if len(recording._streams[0].ids) == 3:
                raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

        with unittest.mock.patch.object(recorder.Recording, "_end_pass", lacking):
            self.refused(4, MODEL, "--tokens", "5,6,7,8", "--chunk", "1", "-o", output, "--quiet", words=("the memory is used up", f"; the first 3 tokens are in {output}"))
        with headscope.open(output) as trace:
            self.assertEqual((trace.complete, trace.num_tokens), (False, 3))

    def test_a_tokenizer_that_transformers_makes_up_is_none(self):
        """Without its files it is one of names alone: a text was recorded as one token, or as unknown ones, and ids had the names of others."""
        bert = cases.transformers.BertLMHeadModel(cases.transformers.BertConfig(**{**families.COMMON, "is_decoder": True}))
        sizes = dict(vocab_size=97, d_model=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=48, encoder_layers=2)
        mbart = cases.transformers.MBartForCausalLM(cases.transformers.MBartConfig(**sizes))  # whose vocabulary has SentencePiece's mark of a blank beside the names
        for name, made in {**{name: families.make(name) for name in ("gemma", "gpt2", "gpt_neox", "qwen2")}, "bert": bert, "mbart": mbart}.items():
            with self.subTest(name):
                model, output = self.folder / f"made-up-{name}", self.folder / f"made-up-{name}.h5"
                made.save_pretrained(model)
                self.refused(3, model, "--text", "Hello there.", "-o", output, words=("transformers cannot load the tokenizer (its files are missing)", "or give the prompt as token ids with --tokens"))
                code, _, said = captured(model, "--tokens", "0,1,2,3,4,5", "-o", output, "--quiet")
                self.assertEqual((code, said), (0, "token ids are recorded without their texts: transformers cannot load the tokenizer (its files are missing)\n"))
                with h5py.File(output) as file:
                    self.assertEqual(file["tokens/text"].size, 0)


if __name__ == "__main__":
    cases.main()
