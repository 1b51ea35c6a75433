# SPDX-License-Identifier: Apache-2.0
"""Logits, greedy text and heads by transformers (5.23.0) of the family that tests/extension adds, as tests/oracle/model_logits.py writes them.

    family_logits.py ORACLE_DIR OUT_DIR
"""
import json
import pathlib
import sys

import safetensors.torch
import torch

sys.path.insert(0, sys.argv[1])
from model_logits import llama, rope, write_models

def llama_by_kv_head():
    return llama(**rope(1e4), head_dim=16, attention_bias=True, tie_word_embeddings=False)


def order_by_kv_head(folder):
    """llama's q, k and v as one tensor: for each KV head its query heads, its key, its value."""
    config = json.loads((folder / "config.json").read_text())
    config["model_type"] = "llama_by_kv_head"
    (folder / "config.json").write_text(json.dumps(config))
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    kv_heads = config["num_key_value_heads"]
    for layer in range(config["num_hidden_layers"]):
        for kind in ("weight", "bias"):
            parts = [weights.pop(f"model.layers.{layer}.self_attn.{name}_proj.{kind}") for name in "qkv"]
            by_head = torch.cat([part.reshape(kv_heads, -1, *part.shape[1:]) for part in parts], 1)
            weights[f"model.layers.{layer}.self_attn.qkv_proj.{kind}"] = by_head.flatten(0, 1).contiguous()
    safetensors.torch.save_file(weights, folder / "model.safetensors")


if __name__ == "__main__":
    torch.manual_seed(5)
    write_models(sys.argv[2], {"llama_by_kv_head": llama_by_kv_head})
    order_by_kv_head(pathlib.Path(sys.argv[2], "llama_by_kv_head"))
