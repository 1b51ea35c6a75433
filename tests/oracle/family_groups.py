# SPDX-License-Identifier: Apache-2.0
"""Logits, heads and capture points by transformers (5.23.0) of each family whose heads share keys, in groups of 1, 2, 4, 7 and 8 query heads.

    family_groups.py OUT_DIR

Writes OUT_DIR/<family>_<group>/ as model_logits.py writes its models, of a shorter text: what follows the prompt is drawn and not generated.
OUT_DIR/families.json lists the families.
"""
import json
import os
import sys

import model_logits as tiny
import numpy as np
import torch
import transformers
from published_configs import rewrite_config

GROUPS = {1: (8, 8), 2: (8, 4), 4: (8, 2), 7: (7, 1), 8: (8, 1)}  # query heads, KV heads
# Layers with a window have twice the KV heads that config.json names.
TWICE_IN_WINDOWS = {1: (8, 4), 2: (8, 4), 4: (8, 2), 7: (14, 1), 8: (8, 1)}
PROMPT, STEPS = 40, 32
QWEN2_SEES = dict(depth=1, embed_dim=16, num_heads=2)
QWEN25_SEES = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2)

# By the names that rewrite_config knows, where a family's own files have other names or keys.
FAMILIES = {
    "llama": lambda **o: tiny.llama(**tiny.rope(5e5), **o),
    "yi": lambda **o: tiny.llama(rms_norm_eps=1e-5, **tiny.rope(5e6), **o),
    "internlm2": lambda **o: tiny.llama(**tiny.rope(1e6), **o),
    "mistral": tiny.mistral,
    "ministral": lambda **o: tiny.family("Ministral", "Ministral", **tiny.rope(1e6), sliding_window=32, layer_types=tiny.WINDOWS_IN_TURN, head_dim=16, **o),
    "ministral3": lambda **o: transformers.Ministral3ForCausalLM(tiny.ministral3(**o)),
    "mistral3": lambda **o: tiny.mistral3(tiny.ministral3(**o).to_dict(), tie_word_embeddings=False),
    "mixtral": tiny.mixtral,
    "qwen2": lambda **o: tiny.qwen("qwen2", **o),
    "qwen3": lambda **o: tiny.qwen("qwen3", **o),
    "qwen2_moe": tiny.qwen2_moe,
    "qwen3_moe": tiny.qwen3_moe,
    "qwen3_next": tiny.qwen3_next,
    "qwen3_5": tiny.qwen35_with_images,
    "qwen3_5_text": lambda **o: transformers.Qwen3_5ForCausalLM(tiny.qwen35(**o)),
    "qwen3_5_moe": tiny.qwen35_moe_with_images,
    "qwen3_5_moe_text": lambda **o: transformers.Qwen3_5MoeForCausalLM(tiny.qwen35_moe(**o)),
    "qwen2_vl": lambda **o: tiny.qwen2_with_images("Qwen2VL", QWEN2_SEES | dict(hidden_size=o["hidden_size"]), **o),
    "qwen2_5_vl": lambda **o: tiny.qwen2_with_images("Qwen2_5_VL", QWEN25_SEES | dict(out_hidden_size=o["hidden_size"]), **o),
    "qwen3_vl": tiny.qwen3_with_images,
    "qwen3_vl_moe": tiny.qwen3_moe_with_images,
    "gemma": lambda **o: tiny.family("Gemma", "Gemma", **tiny.rope(1e4), head_dim=16, **o),
    "gemma2": tiny.gemma2,
    "gemma3_text": tiny.gemma3,
    "gemma3": tiny.gemma3_with_images,
    "gemma3n_text": tiny.gemma3n,
    "gemma3n": lambda **o: tiny.gemma3n(vocab_size_per_layer_input=97, **o),
    "gemma4_text": lambda **o: transformers.Gemma4ForCausalLM(tiny.gemma4(**o)),
    "gemma4": tiny.gemma4_with_images,
    "phi3": tiny.phi3,
    "glm": lambda **o: tiny.glm("Glm", **o),
    "glm4": lambda **o: tiny.glm("Glm4", **o),
    "chatglm": lambda **o: tiny.glm("Glm", **tiny.rope(3e4, partial_rotary_factor=0.5), **o),
    "glm4_moe": tiny.glm4_moe,
    "granite": lambda **o: tiny.family("Granite", "Granite", **tiny.rope(1e4), embedding_multiplier=3.0, residual_multiplier=0.4, logits_scaling=2.5, attention_multiplier=0.2, **o),
    "granitemoe": lambda **o: tiny.family("GraniteMoe", "GraniteMoe", **tiny.rope(1e4), embedding_multiplier=3.0, residual_multiplier=0.4, logits_scaling=2.5, attention_multiplier=0.2,
                                     num_local_experts=6, num_experts_per_tok=2, **{"intermediate_size": 24, **o}),
    "olmo2": lambda **o: tiny.family("Olmo2", "Olmo2", **tiny.rope(1e4), **o),
    "olmo3": tiny.olmo3,
    "olmoe": lambda **o: tiny.family("Olmoe", "Olmoe", **tiny.rope(1e4), num_experts=6, num_experts_per_tok=3, **{"intermediate_size": 24, **o}),
    "smollm3": tiny.smollm3,
    "cohere": lambda **o: tiny.family("Cohere", "Cohere", **tiny.rope(1e4), logit_scale=0.25, **o),
    "cohere2": tiny.cohere2,
    "exaone4": tiny.exaone4,
    "gpt_oss": tiny.gpt_oss,
    "minimax_m2": tiny.minimax_m2,
    "seed_oss": lambda **o: tiny.family("SeedOss", "SeedOss", **tiny.rope(1e6), head_dim=16, **o),
    "ernie4_5": lambda **o: tiny.family("Ernie4_5", "Ernie4_5", **tiny.rope(5e5), head_dim=16, use_bias=True, **o),
    "hunyuan": tiny.hunyuan,
    "afmoe": lambda **o: tiny.family("Afmoe", "Afmoe", **tiny.rope(1e4), head_dim=16, sliding_window=32, layer_types=tiny.WINDOWS_IN_TURN, num_experts=6, num_experts_per_tok=2,
                                moe_intermediate_size=24, num_shared_experts=2, num_dense_layers=1, route_scale=1.5, mup_enabled=True, **o),
    "lfm2": tiny.lfm2,
    "mimo_v2_flash": tiny.mimo_v2_flash,
    "llama4_text": lambda **o: transformers.Llama4ForCausalLM(tiny.llama4(**o)),
    "llama4": tiny.llama4_with_images,
}
# Their heads are as wide as the hidden state divided by their number, or must divide it all the same.
DIVIDED = {"llama", "yi", "internlm2", "mixtral", "qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "phi3", "granite", "granitemoe", "olmo2", "olmo3", "olmoe", "smollm3", "cohere",
           "cohere2", "lfm2", "gemma2", "gemma3_text", "gemma3", "gemma3n_text", "gemma3n"}


def grouped(name, group):
    heads, kv_heads = (TWICE_IN_WINDOWS if name == "mimo_v2_flash" else GROUPS)[group]
    options = dict(num_attention_heads=heads, num_key_value_heads=kv_heads)
    return FAMILIES[name](**options, **(dict(hidden_size=8 * heads) if name in DIVIDED else {}))


def main():
    out_dir = sys.argv[1]
    torch.manual_seed(2)
    rng = np.random.default_rng(4)
    for name in FAMILIES:
        for group in GROUPS:
            folder = os.path.join(out_dir, f"{name}_{group}")
            model = grouped(name, group).eval()
            tiny.randomize(model)
            model.tie_weights()
            model.save_pretrained(folder)
            rewrite_config(folder, name, model)
            tokens = rng.integers(0, tiny.SIZES["vocab_size"], PROMPT + STEPS).tolist()
            with torch.no_grad():
                tiny.write_logits(folder, model, tokens)
                tiny.write_heads(folder, model, tokens[:PROMPT], tokens[PROMPT:])
            np.array(tokens, np.int32).tofile(os.path.join(folder, "tokens.i32"))
            np.array(tokens[PROMPT:], np.int32).tofile(os.path.join(folder, "greedy.i32"))
    with open(os.path.join(out_dir, "families.json"), "w") as file:
        json.dump(list(FAMILIES), file)


if __name__ == "__main__":
    main()
