# SPDX-License-Identifier: Apache-2.0
"""Logits, greedy text and heads by transformers (5.23.0) of the families that tests/extension adds, as tests/oracle/model_logits.py writes them.

    family_logits.py ORACLE_DIR OUT_DIR
"""
import sys

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
    "olmo2": lambda: model("Olmo2", "Olmo2", **rope(1e4)),
    "phi3": lambda: model("Phi3", "Phi3", **rope(1e4, partial_rotary_factor=0.5), sliding_window=32),
    "smollm3": lambda: model("SmolLM3", "SmolLM3", **rope(1e4), no_rope_layers=[1, 0, 1], layer_types=["full_attention"] * 3),
}

if __name__ == "__main__":
    torch.manual_seed(5)
    write_models(sys.argv[2], MODELS)
