#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A checkpoint of random weights in bf16 whose layers have the shape of a model of 8 billion parameters (4096 wide, 32 query and 8 KV heads of 128).

    random_checkpoint.py FOLDER [--layers N] [--device cuda]

What a model computes takes as long with random weights, and the whole of it need not fit the machine. Positions go to 131,200.
"""
import argparse
import json
import os

import safetensors.torch
import torch

HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 4096, 14336, 32, 8, 128, 128256


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    os.makedirs(arguments.folder)
    generator = torch.Generator(arguments.device).manual_seed(1)

    def weight(*shape):
        return (torch.randn(shape, generator=generator, device=arguments.device) * 0.02).to(torch.bfloat16).cpu()

    tensors = {"model.embed_tokens.weight": weight(VOCABULARY, HIDDEN), "lm_head.weight": weight(VOCABULARY, HIDDEN), "model.norm.weight": torch.ones(HIDDEN, dtype=torch.bfloat16)}
    for layer in range(arguments.layers):
        name = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{name}{norm}.weight"] = torch.ones(HIDDEN, dtype=torch.bfloat16)
        for projection, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            tensors[f"{name}self_attn.{projection}_proj.weight"] = weight(heads * HEAD_DIM, HIDDEN)
        tensors[f"{name}self_attn.o_proj.weight"] = weight(HIDDEN, HEADS * HEAD_DIM)
        for projection in ("gate", "up"):
            tensors[f"{name}mlp.{projection}_proj.weight"] = weight(INNER, HIDDEN)
        tensors[f"{name}mlp.down_proj.weight"] = weight(HIDDEN, INNER)
    safetensors.torch.save_file(tensors, os.path.join(arguments.folder, "model.safetensors"), metadata={"format": "pt"})
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER, "num_attention_heads": HEADS,
              "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "num_hidden_layers": arguments.layers, "vocab_size": VOCABULARY, "hidden_act": "silu",
              "max_position_embeddings": 131200, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2}
    with open(os.path.join(arguments.folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)


if __name__ == "__main__":
    main()
