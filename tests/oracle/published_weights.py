# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as they were published: what transformers writes of a model, with the names and keys of its makers' files.

Each function takes weights by name and the configuration, which it changes, and returns the weights.
"""
import torch


def gpt2_hub_names(weights, config):
    mask = {f"h.{layer}.attn.bias": torch.ones(1, 1, 8, 8) for layer in range(config["n_layer"])}
    return {key.removeprefix("transformer."): weight for key, weight in weights.items()} | mask


def chatglm(weights, config):
    """GLM 4 as it was published (modeling_chatglm.py beside its weights): transformers' glm with other names and keys."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    for key in ("num_key_value_heads", "head_dim", "rope_parameters", "attention_bias", "intermediate_size", "num_hidden_layers", "vocab_size",
                "max_position_embeddings", "rms_norm_eps", "hidden_act", "partial_rotary_factor"):
        config.pop(key, None)
    config |= {"model_type": "chatglm", "multi_query_attention": True, "multi_query_group_num": kv_heads, "kv_channels": 16, "rope_ratio": 3.0,
               "add_qkv_bias": True, "add_bias_linear": False, "ffn_hidden_size": 80, "num_layers": 3, "padded_vocab_size": 97, "seq_length": 512,
               "layernorm_epsilon": 1.5625e-7, "rmsnorm": True, "post_layer_norm": True, "original_rope": True}
    out = {"transformer.embedding.word_embeddings.weight": weights["model.embed_tokens.weight"], "transformer.output_layer.weight": weights["lm_head.weight"],
           "transformer.encoder.final_layernorm.weight": weights["model.norm.weight"], "transformer.rotary_pos_emb.inv_freq": torch.ones(4)}
    for layer in range(3):
        of, to = f"model.layers.{layer}.", f"transformer.encoder.layers.{layer}."
        for kind in ("weight", "bias"):
            out[f"{to}self_attention.query_key_value.{kind}"] = torch.cat([weights[f"{of}self_attn.{part}_proj.{kind}"] for part in "qkv"])
        for new, old in {"self_attention.dense": "self_attn.o_proj", "input_layernorm": "input_layernorm", "mlp.dense_h_to_4h": "mlp.gate_up_proj",
                         "post_attention_layernorm": "post_attention_layernorm", "mlp.dense_4h_to_h": "mlp.down_proj"}.items():
            out[f"{to}{new}.weight"] = weights[f"{of}{old}.weight"]
    assert heads * 16 + 2 * kv_heads * 16 == out["transformer.encoder.layers.0.self_attention.query_key_value.weight"].shape[0]
    return out


def qwen1(weights, config):
    """Qwen as it was first published (modeling_qwen.py beside its weights): Qwen 2 without groups, with other names and keys."""
    keys = {key: config[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "torch_dtype", "dtype") if key in config}
    inner = config["intermediate_size"]
    config.clear()
    config |= {**keys, "model_type": "qwen", "intermediate_size": 2 * inner, "kv_channels": 16, "seq_length": 512, "layer_norm_epsilon": 1e-6, "rotary_emb_base": 20000,
               "rotary_pct": 1.0, "no_bias": True, "use_dynamic_ntk": True, "use_logn_attn": True, "max_position_embeddings": 4096, "tie_word_embeddings": False}
    out = {"transformer.wte.weight": weights["model.embed_tokens.weight"], "transformer.ln_f.weight": weights["model.norm.weight"], "lm_head.weight": weights["lm_head.weight"],
           "transformer.rotary_emb.inv_freq": torch.ones(8)}
    for layer in range(3):
        of, to = f"model.layers.{layer}.", f"transformer.h.{layer}."
        for kind in ("weight", "bias"):
            out[f"{to}attn.c_attn.{kind}"] = torch.cat([weights[f"{of}self_attn.{part}_proj.{kind}"] for part in "qkv"])
        for new, old in {"attn.c_proj": "self_attn.o_proj", "ln_1": "input_layernorm", "ln_2": "post_attention_layernorm", "mlp.w2": "mlp.gate_proj",
                         "mlp.w1": "mlp.up_proj", "mlp.c_proj": "mlp.down_proj"}.items():
            out[f"{to}{new}.weight"] = weights[f"{of}{old}.weight"]
    return out


def internlm2(weights, config):
    """InternLM 2 as it was published: llama's weights, with q, k and v stacked KV head by KV head."""
    config |= {"model_type": "internlm2", "bias": False}
    old = config.pop("rope_parameters")
    config["rope_theta"] = old["rope_theta"]
    out = {"model.tok_embeddings.weight": weights["model.embed_tokens.weight"], "output.weight": weights["lm_head.weight"],
           "model.norm.weight": weights["model.norm.weight"]}
    for layer in range(3):
        of, to = f"model.layers.{layer}.", f"model.layers.{layer}."
        kv = config["num_key_value_heads"]
        parts = [weights[f"{of}self_attn.{part}_proj.weight"] for part in "qkv"]
        out[to + "attention.wqkv.weight"] = torch.cat([part.view(kv, -1, part.shape[1]) for part in parts], 1).flatten(0, 1)
        for new, name in {"attention.wo": "self_attn.o_proj", "attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
                          "feed_forward.w1": "mlp.gate_proj", "feed_forward.w2": "mlp.down_proj", "feed_forward.w3": "mlp.up_proj"}.items():
            out[f"{to}{new}.weight"] = weights[f"{of}{name}.weight"]
    return out


def yi(weights, config):
    """Yi as it was first published (modeling_yi.py beside its weights): llama's with other names of norms."""
    config |= {"model_type": "Yi"}
    del config["rope_parameters"]
    for key in ("rms_norm_eps", "attention_bias", "mlp_bias"):
        config.pop(key, None)
    return {key.replace("input_layernorm", "ln1").replace("post_attention_layernorm", "ln2"): weight for key, weight in weights.items()}


def kimi_k2(weights, config):
    """Kimi K2 as it is published: DeepSeek V3's weights, positions in the keys of its older files, and another name."""
    config |= {"model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"]}
    scaling = config.pop("rope_parameters")
    config |= {"rope_theta": scaling.pop("rope_theta"), "rope_scaling": {"type": scaling.pop("rope_type"), **scaling}}
    for key in ("rope_interleave", "head_dim"):
        config.pop(key, None)
    return weights


def gemma3_other_names(weights, config):
    """The names that the modules of transformers 5 have, where its files keep the published ones."""
    return {"model." + key.replace("language_model.model.", "language_model."): weight for key, weight in weights.items()}


def packed_experts(weights, config):
    """The experts of a layer in two tensors, as Qwen 3.5's are published."""
    out = {key: weight for key, weight in weights.items() if ".experts." not in key}
    for prefix in {key.split(".experts.")[0] + ".experts." for key in weights if ".experts." in key}:
        count = len([key for key in weights if key.startswith(prefix) and key.endswith("down_proj.weight")])
        gate, up, down = (torch.stack([weights[f"{prefix}{expert}.{part}_proj.weight"] for expert in range(count)]) for part in ("gate", "up", "down"))
        out |= {prefix + "gate_up_proj": torch.cat([gate, up], 1), prefix + "down_proj": down}
    return out


def experts_from_in(weights, config):
    """Packed experts as Qwen 3 VL's are published, inputs before outputs."""
    return {key: weight.transpose(1, 2) if ".experts." in key else weight for key, weight in weights.items()}


def inside_gemma3n(weights, config):
    """The text model's names in a file of the model that sees and hears, with a tensor of what it sees."""
    return {key.replace("model.", "model.language_model.", 1): weight for key, weight in weights.items()} | {"model.vision_tower.weight": torch.zeros(2, 2)}


def with_a_layer_that_predicts_further(weights, config):
    """Which nothing runs."""
    last = config["num_hidden_layers"] - 1
    further = {key.replace(f"model.layers.{last}.", f"model.layers.{last + 1}."): torch.ones_like(weight) for key, weight in weights.items() if f"model.layers.{last}." in key}
    return weights | further | {f"model.layers.{last + 1}.eh_proj.weight": torch.ones(config["hidden_size"], 2 * config["hidden_size"])}


RENAMED = {"glm4_moe_lite_as_published": with_a_layer_that_predicts_further, "gemma3n": inside_gemma3n, "qwen3_vl_moe_as_published": experts_from_in, "qwen3_5_moe": packed_experts, "gpt2_hub_names": gpt2_hub_names, "qwen": qwen1, "chatglm": chatglm, "internlm2": internlm2, "yi": yi, "kimi_k2": kimi_k2, "gemma3_with_images_other_names": gemma3_other_names}
