# SPDX-License-Identifier: Apache-2.0
"""What python -m headscope.capture says of a checkpoint that lacks weights or its tokenizer, and of a machine that lacks memory."""
import shutil
import unittest.mock

import cases
import families
import h5py
import safetensors.torch
import torch
from capturing import MODEL, CommandLineCase, captured


class Lacking(CommandLineCase):
    def test_weights_that_a_checkpoint_lacks_are_not_made_up(self):
        """transformers draws them and warns, and the trace was one of random numbers."""
        whole, model, output = self.folder / "all-weights", self.folder / "some-weights", self.folder / "some-weights.h5"
        families.make("llama").save_pretrained(whole)
        shutil.copy(MODEL / "tokenizer.json", whole)
        shutil.copytree(whole, model)
        given = (model, "--tokens", "5,6,7", "-o", output, "--force", "--quiet")
        stored = safetensors.torch.load_file(whole / "model.safetensors")
        key, head = "model.layers.1.self_attn.k_proj.weight", "lm_head.weight"
        safetensors.torch.save_file({name: tensor for name, tensor in stored.items() if name != key}, model / "model.safetensors")
        self.refused(3, *given, words=(str(model), "lacks 1 of the model's weights", key))
        self.assertFalse(output.exists())
        safetensors.torch.save_file({name: tensor for name, tensor in stored.items() if name != head}, model / "model.safetensors")
        self.assertEqual(captured(*given), (0, f"{output}\n", ""))  # no token is generated
        self.refused(3, *given, "--decode", "1", words=(head,))

    def test_memory_that_is_missing_is_four(self):
        kinds = (MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), torch.OutOfMemoryError("CUDA out of memory"))
        for error in kinds:
            with self.subTest(error), unittest.mock.patch.object(cases.transformers.AutoModelForCausalLM, "from_pretrained", side_effect=error):
                self.refused(4, MODEL, "--text", "a", "-o", self.folder / "none.h5", words=("the memory is used up",))

    def test_a_tokenizer_that_transformers_makes_up_is_none(self):
        """Without its files it is one of names alone: a text was recorded as one token, or as unknown ones, and ids had the names of others."""
        for name in ("gemma", "gpt2", "gpt_neox", "qwen2", "bert"):
            with self.subTest(name):
                model, output = self.folder / f"made-up-{name}", self.folder / f"made-up-{name}.h5"
                made = families.make(name) if name in families.FAMILIES else cases.transformers.BertLMHeadModel(cases.transformers.BertConfig(**{**families.COMMON, "is_decoder": True}))
                made.save_pretrained(model)
                self.refused(3, model, "--text", "Hello there.", "-o", output, words=("transformers cannot load the tokenizer (its files are missing)", "or give the prompt as token ids with --tokens"))
                code, _, said = captured(model, "--tokens", "0,1,2,3,4,5", "-o", output, "--quiet")
                self.assertEqual((code, said), (0, "token ids are recorded without their texts: transformers cannot load the tokenizer (its files are missing)\n"))
                with h5py.File(output) as file:
                    self.assertEqual(file["tokens/text"].size, 0)


if __name__ == "__main__":
    cases.main()
