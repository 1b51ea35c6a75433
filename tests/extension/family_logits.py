# SPDX-License-Identifier: Apache-2.0
"""Logits, greedy text and heads by transformers (5.23.0) of the families that tests/extension adds, as tests/oracle/model_logits.py writes them.

    family_logits.py ORACLE_DIR OUT_DIR
"""
import json
import pathlib
import sys

import safetensors.torch
import torch
import transformers

sys.path.insert(0, sys.argv[1])
from model_logits import SIZES, YARN, rope, write_models

HEADS = dict(num_attention_heads=6, num_key_value_heads=2)
TURNS = ["sliding_attention", "full_attention", "sliding_attention"]


def model(kind, name, **options):
    config = getattr(transformers, f"{name}Config")(**{**SIZES, **HEADS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **options})
    return getattr(transformers, f"{kind}ForCausalLM")(config)


def gemma2(**options):
    return model("Gemma2", "Gemma2", **{**rope(1e4), "head_dim": 16, "query_pre_attn_scalar": 24, "sliding_window": 32, "attn_logit_softcapping": 5.0,
                                        "final_logit_softcapping": 3.0, **options})


def gemma3(**options):
    kinds = {"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e6}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    return model("Gemma3", "Gemma3Text", head_dim=16, query_pre_attn_scalar=24, sliding_window=32, layer_types=TURNS, rope_parameters=kinds, **options)


def neox(**options):
    return model("GPTNeoX", "GPTNeoX", **{**rope(1e4, partial_rotary_factor=0.5), "num_key_value_heads": None, **options})


MODELS = {
    "gemma2": gemma2,
    "gemma2_without_caps": lambda: gemma2(attn_logit_softcapping=None, final_logit_softcapping=None),
    "gemma3": gemma3,
    "gpt_neox": neox,
    "gpt_neox_without_biases": lambda: neox(attention_bias=False),
    "cohere": lambda: model("Cohere", "Cohere", **rope(1e4), logit_scale=0.25),
    "granite": lambda: model("Granite", "Granite", **rope(1e4), embedding_multiplier=3.0, residual_multiplier=0.4, logits_scaling=2.5, attention_multiplier=0.2),
    "llama_by_kv_head": lambda: model("Llama", "Llama", **rope(1e4), head_dim=16, attention_bias=True, tie_word_embeddings=False),
    "olmo2": lambda: model("Olmo2", "Olmo2", **rope(1e4)),
    "phi3": lambda: model("Phi3", "Phi3", **rope(1e4, partial_rotary_factor=0.5), sliding_window=32),
    "smollm3": lambda: model("SmolLM3", "SmolLM3", **rope(1e4), no_rope_layers=[1, 0, 1], layer_types=["full_attention"] * 3),
}


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
    write_models(sys.argv[2], MODELS)
    order_by_kv_head(pathlib.Path(sys.argv[2], "llama_by_kv_head"))
