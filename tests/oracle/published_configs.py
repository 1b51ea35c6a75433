# SPDX-License-Identifier: Apache-2.0
"""Configurations as they were published or as older programs spell them: what model_logits.py's checkpoints are rewritten to, by their names."""
import json
import os

import torch
from published_weights import RENAMED
from safetensors.torch import load_file, save_file


def rewrite_config(folder, name, model):
    """Spellings of older files."""
    path = os.path.join(folder, "config.json")
    config = json.load(open(path))
    if name == "llama_old_spelling":
        old = config.pop("rope_parameters")
        config["rope_theta"] = old.pop("rope_theta")
        config["rope_scaling"] = {**{key: value for key, value in old.items() if key != "rope_type"}, "type": old["rope_type"]}
    if name == "llama_own_head":  # which transformers takes, with a warning, where its numbers are not those of the embeddings
        config["tie_word_embeddings"] = True
    if name == "llama_copied_head":
        path_of_weights = os.path.join(folder, "model.safetensors")
        weights = load_file(path_of_weights)
        save_file(weights | {"lm_head.weight": weights["model.embed_tokens.weight"].clone()}, path_of_weights)
    if name == "llama_no_positions":
        del config["max_position_embeddings"]
    if name == "qwen2_window_from_layer":
        del config["layer_types"]
    if name == "gemma3_old_spelling":  # as google publishes it
        kinds = config.pop("rope_parameters")
        config["rope_theta"] = kinds["full_attention"].pop("rope_theta")
        config["rope_local_base_freq"] = kinds["sliding_attention"]["rope_theta"]
        config["rope_scaling"] = kinds["full_attention"]
        del config["layer_types"]
        config["sliding_window_pattern"] = 2
    if name == "phi3_longrope_yarn":  # as the first Phi 3 of 128K tokens
        old = config.pop("rope_parameters")
        config["rope_theta"] = old["rope_theta"]
        config["rope_scaling"] = {"type": "yarn", "short_factor": old["short_factor"], "long_factor": old["long_factor"]}
    if name == "gemma3_with_images_other_names":  # and without what google's files leave out
        text = config["text_config"]
        for key in ("num_attention_heads", "num_key_value_heads", "tie_word_embeddings", "max_position_embeddings", "attention_bias", "hidden_activation", "rms_norm_eps"):
            text.pop(key, None)
    if name == "gpt_neox_old_spelling":  # as Pythia's
        old = config.pop("rope_parameters")
        config["rotary_emb_base"], config["rotary_pct"] = old["rope_theta"], old["partial_rotary_factor"]
        weights = load_file(os.path.join(folder, "model.safetensors"))
        for layer in range(config["num_hidden_layers"]):
            prefix = f"gpt_neox.layers.{layer}.attention."
            weights |= {prefix + "bias": torch.ones(1, 1, 8, 8, dtype=torch.bool).tril(), prefix + "masked_bias": torch.tensor(-1e9),
                        prefix + "rotary_emb.inv_freq": torch.ones(2)}
        save_file(weights, os.path.join(folder, "model.safetensors"))
    if name == "cohere2_old_spelling":  # as transformers 4 writes it, which leaves out theta
        for key in ("rope_parameters", "layer_types"):
            del config[key]
        config |= {"sliding_window_pattern": 2, "transformers_version": "4.48.0"}
    if name == "exaone4_letters":
        del config["layer_types"]
        config["sliding_window_pattern"] = "LG"
    if name == "olmo3_old_spelling":
        kinds = config.pop("rope_parameters")
        config["rope_theta"] = kinds["full_attention"].pop("rope_theta")
        config["rope_scaling"] = kinds["full_attention"]
    if name == "gpt_oss_mxfp4":
        path_of_weights = os.path.join(folder, "model.safetensors")
        weights = {key: weight for key, weight in load_file(path_of_weights).items() if not key.endswith(("gate_up_proj", "down_proj"))}
        save_file({key: weight.contiguous() for key, weight in (weights | mxfp4(model)).items()}, path_of_weights)
        config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}
    if name in RENAMED:
        path_of_weights = os.path.join(folder, "model.safetensors")
        weights = RENAMED[name](load_file(path_of_weights), config)
        save_file({key: weight.contiguous() for key, weight in weights.items()}, path_of_weights)
    if name == "qwen2_vl_as_published":  # the text model's keys beside the others, and three positions as a kind of their own
        text = config.pop("text_config")
        scaling = text.pop("rope_parameters")
        config = {**text, **config, "rope_theta": scaling["rope_theta"], "rope_scaling": {"type": "mrope", "mrope_section": scaling["mrope_section"]}}
    if name == "glm4_moe_lite_as_published":
        del config["mlp_layer_types"]
        config |= {"first_k_dense_replace": 1, "num_nextn_predict_layers": 1, "topk_method": "noaux_tc", "partial_rotary_factor": 1.0}
    if name == "minimax_m2_as_published":
        theta = config.pop("rope_parameters")["rope_theta"]
        config |= {"rope_theta": theta, "rotary_dim": 8, "scoring_func": "sigmoid", "use_qk_norm": True, "qk_norm_type": "per_layer", "attn_type_list": [1] * 3}
    if name == "mistral3_without_defaults":
        for key in ("rms_norm_eps", "rope_parameters", "head_dim", "max_position_embeddings", "sliding_window"):
            config["text_config"].pop(key, None)
    if name == "lfm2_as_published":  # the first files' names
        theta, tied = config.pop("rope_parameters")["rope_theta"], config.pop("tie_word_embeddings")
        config |= {"rope_theta": theta, "full_attn_idxs": [1], "block_ff_dim": config.pop("intermediate_size"), "tie_embedding": tied}
        del config["layer_types"]
    if name == "mimo_v2_flash_as_published":
        full = config.pop("rope_parameters")["full_attention"]
        config |= {"rope_theta": full.pop("rope_theta"), "partial_rotary_factor": full.pop("partial_rotary_factor"), "rope_scaling": full, "swa_rope_theta": 10000}
        config["hybrid_layer_pattern"] = [int(kind == "sliding_attention") for kind in config.pop("layer_types")]
        config["moe_layer_freq"] = [int(kind == "sparse") for kind in config.pop("mlp_layer_types")]
        config["sliding_window_size"] = config.pop("sliding_window") - 1
        config["layernorm_epsilon"] = config.pop("rms_norm_eps")
        config |= {"routed_scaling_factor": None, "swa_num_key_value_heads": 2, "swa_head_dim": config["head_dim"], "swa_v_head_dim": config["v_head_dim"]}
    if name == "llama4_text_as_published":
        config["attn_temperature_tuning"] = 4
    if name == "gemma3n":  # as google publishes it, inside a model that sees and hears
        kinds = config.pop("rope_parameters")
        config |= {"rope_theta": kinds["full_attention"].pop("rope_theta"), "rope_scaling": kinds["full_attention"], "rope_local_base_freq": kinds["sliding_attention"]["rope_theta"]}
        config = {"architectures": ["Gemma3nForConditionalGeneration"], "model_type": "gemma3n", "text_config": config}
    if name == "gemma4":  # as google publishes it
        text = config["text_config"]
        del text["per_layer_config"]
        text |= {"global_head_dim": 24, "num_global_key_value_heads": None, "num_key_value_heads": model.config.text_config.num_key_value_heads}
    if name == "smollm3_windows":
        for key in ("layer_types", "no_rope_layers"):
            del config[key]
    json.dump(config, open(path, "w"))


FP4 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def round_to_mxfp4(model):
    """The experts' weights become numbers that MXFP4 can hold, each row of 32 with a scale of its own."""
    for layer in model.model.layers:
        for weight in (layer.mlp.experts.gate_up_proj, layer.mlp.experts.down_proj):
            codes = torch.randint(0, 16, weight.shape)
            scales = torch.randint(-4, 0, (weight.shape[0], weight.shape[1] // 32, 1, weight.shape[2]))
            numbers = torch.tensor(FP4 + [-number for number in FP4])[codes]
            weight.data.copy_((numbers.view(weight.shape[0], -1, 32, weight.shape[2]) * 2.0 ** scales).view(weight.shape))
            weight.codes, weight.scales = codes, scales


def mxfp4(model):
    """The experts' tensors of a published GPT-OSS, from the codes that round_to_mxfp4 made: two to a byte, the earlier in the lower half."""
    out = {}
    for number, layer in enumerate(model.model.layers):
        for name in ("gate_up_proj", "down_proj"):
            weight, key = getattr(layer.mlp.experts, name), f"model.layers.{number}.mlp.experts.{name}"
            rows = weight.codes.transpose(1, 2).reshape(weight.shape[0], weight.shape[2], -1, 16, 2)
            out[key + "_blocks"] = (rows[..., 0] + 16 * rows[..., 1]).to(torch.uint8)
            out[key + "_scales"] = (weight.scales.squeeze(2).transpose(1, 2) + 127).to(torch.uint8)
    return out
