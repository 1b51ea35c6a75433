# SPDX-License-Identifier: Apache-2.0
"""Logits, greedy text and heads by transformers (5.23.0), for tests/model/transformer_test.cpp.

    model_logits.py MODEL_DIR OUT_DIR PROSE

Writes OUT_DIR/reference/{tokens.i32, logits.f32, greedy.i32} for the checkpoint, and for each of a row of tiny random models
OUT_DIR/<name>/ with the checkpoint itself and the same files, and heads.f32: q, k after RoPE and v of every layer, [heads, tokens, head_dim] each, of the
greedy text's last step with all its cache, which is k and v of every position as its own pass made them, points.f32: what the other capture points hold of
it (watched_points.py), and steps.f32: the logits of the prompt's last token and of each step. OUT_DIR/models.json lists their names.
Everything in fp32. Of the tiny models logits_bf16.f32 are those of the same model in bf16, whose distance from the fp32 ones is the yardstick of headscope's, and
errors_bf16.f32 how far heads and points are in bf16: of each layer's tensors, in the order of heads.f32 and then of points.f32, the relative error and the
first quartile of its tokens' own.
"""
import copy
import json
import os
import sys

import numpy as np
import torch
import transformers
from encoder_states import write_encoders
from published_configs import rewrite_config, round_to_mxfp4
from watched_points import WatchedPoints

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
VERSION = "5.23.0"  # that the families were looked at with, each of them
if transformers.__version__ != VERSION:
    sys.exit(f"model_logits.py: transformers is {transformers.__version__}, not {VERSION}; look at the families again and raise VERSION")
torch.set_num_threads(1)  # tiny models: more threads only wait for each other
SIZES = dict(vocab_size=97, hidden_size=48, intermediate_size=80, num_hidden_layers=3, max_position_embeddings=512, use_cache=True)
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}


def llama(**options):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SIZES, "num_attention_heads": 6, "num_key_value_heads": 2, **options}))


def rope(theta, **options):
    return {"rope_parameters": {"rope_theta": theta, "rope_type": "default", **options}}


def qwen(kind, **options):
    config, model = {"qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM), "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM)}[kind]
    heads = dict(num_attention_heads=6, num_key_value_heads=2) if kind == "qwen2" else dict(num_attention_heads=4, num_key_value_heads=2, head_dim=24)
    return model(config(**{**SIZES, **heads, **rope(1e6), **options}))


def mistral(**options):
    return transformers.MistralForCausalLM(transformers.MistralConfig(
        **{**SIZES, "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 16, "sliding_window": None, **rope(1e6), **options}))


def family(kind, name, **options):
    config = getattr(transformers, f"{name}Config")(**{**SIZES, "num_attention_heads": 6, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1,
                                                       "eos_token_id": 2, **options})
    return getattr(transformers, f"{kind}ForCausalLM")(config)


def gemma2(**options):
    return family("Gemma2", "Gemma2", **{**rope(1e4), "head_dim": 16, "query_pre_attn_scalar": 24, "sliding_window": 32, "attn_logit_softcapping": 5.0,
                                         "final_logit_softcapping": 3.0, **options})


def gemma3(**options):
    kinds = {"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 2e6}, "sliding_attention": {"rope_type": "default", "rope_theta": 3e4}}
    return family("Gemma3", "Gemma3Text", **{**dict(head_dim=16, query_pre_attn_scalar=24, sliding_window=32, layer_types=WINDOWS_IN_TURN, rope_parameters=kinds),
                                             **options})


def gemma3_with_images(**options):
    """The model that sees images as well; here it gets text. Its sizes of images are the least that make one."""
    sees = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14, vision_use_head=False)
    config = transformers.Gemma3Config(text_config=gemma3(**{"num_attention_heads": 8, "num_key_value_heads": 4, **options}).config.to_dict(), vision_config=sees,
                                       mm_tokens_per_image=4, image_token_index=96)
    return transformers.Gemma3ForConditionalGeneration(config)


def phi3(**options):
    return family("Phi3", "Phi3", **{**rope(1e4, partial_rotary_factor=0.5), "sliding_window": 32, **options})


def smollm3(**options):
    return family("SmolLM3", "SmolLM3", **{**rope(1e4), "no_rope_layers": [1, 0, 1], "layer_types": ["full_attention"] * 3, **options})


def neox(**options):
    return family("GPTNeoX", "GPTNeoX", **{**rope(2e4, partial_rotary_factor=0.5), "num_key_value_heads": None, **options})


def gpt2(**options):
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**{**dict(vocab_size=97, n_embd=48, n_layer=3, n_head=6, n_positions=512, n_inner=80), **options}))


def opt(**options):
    sizes = {key: value for key, value in SIZES.items() if key != "intermediate_size"}
    return transformers.OPTForCausalLM(transformers.OPTConfig(**{**sizes, "num_attention_heads": 6, "ffn_dim": 80, "word_embed_proj_dim": 48, **options}))


def glm(name, **options):
    return family(name, name, **{**rope(1e4, partial_rotary_factor=0.5), "num_attention_heads": 7, "num_key_value_heads": 1, "head_dim": 16, **options})


def cohere2(**options):
    return family("Cohere2", "Cohere2", **{**rope(3e4), "logit_scale": 0.25, "sliding_window": 32, "layer_types": WINDOWS_IN_TURN, "num_attention_heads": 4,
                                           "num_key_value_heads": 1, **options})


def exaone4(**options):
    return family("Exaone4", "Exaone4", **{**rope(1e4), "head_dim": 16, "sliding_window": 32, "layer_types": WINDOWS_IN_TURN, **options})


def olmo3(**options):
    return family("Olmo3", "Olmo3", **{"sliding_window": 32, "layer_types": WINDOWS_IN_TURN, "num_key_value_heads": 3, "rope_parameters": {
        "full_attention": {"rope_theta": 2e4, **YARN}, "sliding_attention": {"rope_theta": 2e4, "rope_type": "default"}}, **options})


def mixtral(**options):
    return family("Mixtral", "Mixtral", **{**rope(1e6), "num_attention_heads": 8, "num_key_value_heads": 1, "num_local_experts": 5, "num_experts_per_tok": 2,
                                           **options})


def qwen3_moe(**options):
    return family("Qwen3Moe", "Qwen3Moe", **{**rope(1e6), "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16, "num_experts": 6,
                                             "num_experts_per_tok": 3, "moe_intermediate_size": 24, **options})


def gpt_oss(**options):
    return family("GptOss", "GptOss", **{**rope(15e4, **YARN, truncate=False), "hidden_size": 64, "intermediate_size": 32, "head_dim": 16, "num_attention_heads": 8,
                                         "num_key_value_heads": 2, "sliding_window": 32, "num_local_experts": 4, "num_experts_per_tok": 2, **options})


def deepseek(version, **options):
    return family(f"DeepseekV{version}", f"DeepseekV{version}", **{
        **rope(1e4), "num_key_value_heads": 6, "q_lora_rank": 20, "kv_lora_rank": 24, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10,
        "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "n_shared_experts": 2, "first_k_dense_replace": 1,
        "routed_scaling_factor": 1.7, "n_group": 4, "topk_group": 2, **options})


def deepseek_v32(**options):
    """With so many heads of the index that no row's choice hangs on equal scores, which topk takes in any order."""
    return family("DeepseekV32", "DeepseekV32", **{
        **rope(1e4), "num_key_value_heads": 6, "q_lora_rank": 20, "kv_lora_rank": 24, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10,
        "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "n_shared_experts": 2, "first_k_dense_replace": 1,
        "routed_scaling_factor": 1.7, "n_group": 4, "topk_group": 2, "index_topk": 24, "index_n_heads": 16, "index_head_dim": 16, **options})


def qwen3_next(**options):
    """With the recurrence as it is defined, token by token: the module's form in chunks loses a digit on weights as random as these."""
    from transformers.models.qwen3_next import modeling_qwen3_next as modeling
    modeling.torch_chunk_gated_delta_rule = modeling.torch_recurrent_gated_delta_rule
    return family("Qwen3Next", "Qwen3Next", **{
        **rope(1e6, partial_rotary_factor=0.25), "head_dim": 16, "num_attention_heads": 8, "num_key_value_heads": 2, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_key_head_dim": 12, "linear_value_head_dim": 10, "num_experts": 6, "num_experts_per_tok": 2,
        "moe_intermediate_size": 24, "shared_expert_intermediate_size": 20, "layer_types": ["linear_attention", "linear_attention", "full_attention"], **options})


def qwen35(**options):
    from transformers.models.qwen3_5 import modeling_qwen3_5 as modeling
    modeling.torch_chunk_gated_delta_rule = modeling.torch_recurrent_gated_delta_rule  # as for qwen3_next
    return transformers.Qwen3_5TextConfig(**{
        **SIZES, **rope(1e6, partial_rotary_factor=0.5, mrope_section=[2, 1, 1], mrope_interleaved=True), "head_dim": 16, "num_attention_heads": 8,
        "num_key_value_heads": 2, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 12, "linear_value_head_dim": 10,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"], **options})


def qwen35_with_images(**options):
    sees = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, out_hidden_size=48, num_position_embeddings=16)
    return transformers.Qwen3_5ForConditionalGeneration(transformers.Qwen3_5Config(text_config=qwen35(**options).to_dict(), vision_config=sees, **NO_IMAGE))


def qwen35_moe(**options):
    from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe as modeling
    modeling.torch_chunk_gated_delta_rule = modeling.torch_recurrent_gated_delta_rule
    sizes = {key: value for key, value in qwen35().to_dict().items() if key in (*SIZES, "rope_parameters", "head_dim", "num_attention_heads", "num_key_value_heads", "layer_types")
             or key.startswith("linear_")}
    return transformers.Qwen3_5MoeTextConfig(**{**sizes, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 20, **options})


def qwen35_moe_with_images(**options):
    sees = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, out_hidden_size=48, num_position_embeddings=16)
    config = transformers.Qwen3_5MoeConfig(text_config=qwen35_moe(**options).to_dict(), vision_config=sees, **NO_IMAGE)
    return transformers.Qwen3_5MoeForConditionalGeneration(config)


# Ids that the texts here do not have.
NO_IMAGE = dict(image_token_id=1000, video_token_id=1001, vision_start_token_id=1002, vision_end_token_id=1003)


def qwen2_with_images(kind, sees, **options):
    text = {**SIZES, "num_attention_heads": 6, "num_key_value_heads": 2, **rope(1e5, mrope_section=[1, 1, 2]), **options}
    config = getattr(transformers, f"{kind}Config")(text_config=text, vision_config=sees, **NO_IMAGE)
    return getattr(transformers, f"{kind}ForConditionalGeneration")(config)


def qwen3_with_images(**options):
    sees = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, out_hidden_size=48, num_position_embeddings=16, deepstack_visual_indexes=[])
    text = {**SIZES, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16, **rope(1e5, mrope_section=[4, 2, 2], mrope_interleaved=True), **options}
    return transformers.Qwen3VLForConditionalGeneration(transformers.Qwen3VLConfig(text_config=text, vision_config=sees, **NO_IMAGE))


def qwen3_moe_with_images(**options):
    sees = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, out_hidden_size=48, num_position_embeddings=16, deepstack_visual_indexes=[])
    text = {**SIZES, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
            "mlp_only_layers": [1], **rope(1e5, mrope_section=[4, 2, 2], mrope_interleaved=True), **options}
    return transformers.Qwen3VLMoeForConditionalGeneration(transformers.Qwen3VLMoeConfig(text_config=text, vision_config=sees, **NO_IMAGE))


# Both grow within the texts here.
def ministral3(**options):
    return transformers.Ministral3Config(**{**SIZES, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16, **rope(
        1e6, **{**YARN, "original_max_position_embeddings": 16}, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.7), **options})


def mistral3(text, **options):
    sees = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14, model_type="pixtral")
    config = transformers.Mistral3Config(text_config=text, vision_config=sees, image_token_index=1000, **options)
    return transformers.Mistral3ForConditionalGeneration(config)


def llama4(**options):
    return transformers.Llama4TextConfig(**{
        **SIZES, **rope(5e5, **LLAMA3), "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 24, "intermediate_size_mlp": 80,
        "attention_chunk_size": 16, "no_rope_layer_interval": 3, "num_local_experts": 4, "num_experts_per_tok": 2, "interleave_moe_layer_step": 2, "floor_scale": 16,
        "attn_scale": 0.7, **options})


def llama4_with_images(**options):
    sees = dict(hidden_size=16, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14, vision_output_dim=48,
                projector_input_dim=48, projector_output_dim=48)
    config = transformers.Llama4Config(text_config=llama4(**options).to_dict(), vision_config=sees, image_token_index=1000, tie_word_embeddings=False)
    return transformers.Llama4ForConditionalGeneration(config)


def gemma3n(**options):
    """Layers that share keys, gates of which few pass, and more tokens than have inputs of their own."""
    kinds = {"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 2e6}, "sliding_attention": {"rope_type": "default", "rope_theta": 3e4}}
    return transformers.Gemma3nForCausalLM(transformers.Gemma3nTextConfig(**{
        **SIZES, "num_hidden_layers": 6, "layer_types": ["sliding_attention", "full_attention"] * 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "sliding_window": 32, "num_kv_shared_layers": 3, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 90, "intermediate_size": [80, 80, 64, 64, 96, 96],
        "activation_sparsity_pattern": [0.9, 0.0, 0.8, 0.0, 0.5, 0.3], "laurel_rank": 6, "altup_num_inputs": 3, "altup_active_idx": 1, "final_logit_softcapping": 3.0,
        "rope_parameters": kinds, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **options}))


def gemma4(**options):
    """As the small models are: the last layers share keys, have wider MLPs, and all get inputs of their own."""
    return transformers.Gemma4TextConfig(**{
        **SIZES, "num_hidden_layers": 6, "layer_types": ["sliding_attention", "full_attention"] * 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "global_head_dim": 24, "sliding_window": 32, "num_kv_shared_layers": 3, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 97,
        "use_double_wide_mlp": True, "final_logit_softcapping": 3.0, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **options})


def gemma4_with_images(**options):
    sees = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, head_dim=8)
    config = transformers.Gemma4Config(text_config=gemma4(**options).to_dict(), vision_config=sees, audio_config=None, tie_word_embeddings=True)
    return transformers.Gemma4ForConditionalGeneration(config)


def qwen2_moe(**options):
    return family("Qwen2Moe", "Qwen2Moe", **{**rope(1e6), "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
                                             "shared_expert_intermediate_size": 20, "mlp_only_layers": [0], **options})


def glm4_moe(**options):
    return family("Glm4Moe", "Glm4Moe", **{**rope(1e4, partial_rotary_factor=0.5), "head_dim": 16, "num_attention_heads": 8, "num_key_value_heads": 2,
                                           "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "n_shared_experts": 1,
                                           "first_k_dense_replace": 1, "routed_scaling_factor": 1.5, "use_qk_norm": True, "attention_bias": True, **options})


def glm4_moe_lite(**options):
    return family("Glm4MoeLite", "Glm4MoeLite", **{
        **rope(1e6), "num_key_value_heads": 6, "q_lora_rank": 20, "kv_lora_rank": 24, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 20,
        "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "n_shared_experts": 1, **options})


def minimax_m2(**options):
    return family("MiniMaxM2", "MiniMaxM2", **{**rope(5e6, partial_rotary_factor=0.5), "head_dim": 16, "num_local_experts": 6, "num_experts_per_tok": 2,
                                               "intermediate_size": 24, **options})


def lfm2(**options):
    return family("Lfm2", "Lfm2", **{**rope(1e6), "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 64, "intermediate_size": 100,
                                     "block_multiple_of": 16, "block_ffn_dim_multiplier": 1.1, "layer_types": ["conv", "full_attention", "conv"], **options})


def mimo_v2_flash(**options):
    kinds = {"full_attention": {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.334},
             "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.334}}
    return family("MiMoV2Flash", "MiMoV2Flash", **{
        "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 24, "v_head_dim": 10, "sliding_window": 32, "layer_types": WINDOWS_IN_TURN,
        "rope_parameters": kinds, "mlp_layer_types": ["dense", "sparse", "sparse"], "moe_intermediate_size": 24, "n_routed_experts": 8, "num_experts_per_tok": 3,
        "n_group": 4, "topk_group": 2, "routed_scaling_factor": 1.7, **options})


def hunyuan(**options):
    return family("HunYuanDenseV1", "HunYuanDenseV1", **{**rope(1e4), "head_dim": 16, "num_attention_heads": 8, "num_key_value_heads": 2, **options})


def partial(model):
    """The Llama modules of transformers turn whole heads only; Phi 3's functions for the same rotation take a part."""
    from transformers.models.phi3 import modeling_phi3
    modeling = sys.modules[type(model).__module__]
    if model.config.rope_parameters["rope_type"] == "default":
        frequencies, _ = modeling_phi3.Phi3RotaryEmbedding.compute_default_rope_parameters(model.config)
        for name in ("inv_freq", "original_inv_freq"):
            model.model.rotary_emb.register_buffer(name, frequencies.clone(), persistent=False)
    model.partial_rotation = (modeling, modeling.apply_rotary_pos_emb, modeling_phi3.apply_rotary_pos_emb)
    return model


YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=48)
FACTORS = {"short_factor": [1.0 + 0.05 * j for j in range(8)], "long_factor": [1.0 + 0.9 * j for j in range(8)]}
LONG = dict(rope_type="longrope", original_max_position_embeddings=60, **FACTORS)
WINDOWS_IN_TURN = ["sliding_attention", "full_attention", "sliding_attention"]
SHORT_POSITIONS = dict(max_position_embeddings=64)
# A window of 32 tokens is shorter than every prompt here; the longest prompt crosses 64 positions and the decode steps of the shorter one do.
MODELS = {
    "llama_gqa": lambda: llama(head_dim=16, tie_word_embeddings=True, **rope(5e5)),
    "llama_mha_untied": lambda: llama(num_key_value_heads=6, tie_word_embeddings=False, **rope(1e4)),
    "llama_mqa_biases": lambda: llama(num_key_value_heads=1, attention_bias=True, mlp_bias=True, **rope(1e4)),
    "llama_rope_linear": lambda: llama(**rope(1e4, rope_type="linear", factor=4.0)),
    "llama_rope_llama3": lambda: llama(head_dim=32, **rope(1e4, **LLAMA3)),
    "llama_rope_dynamic": lambda: llama(head_dim=16, **SHORT_POSITIONS, **rope(1e4, rope_type="dynamic", factor=4.0)),
    "llama_rope_yarn": lambda: llama(head_dim=32, **rope(1e4, **YARN)),
    "llama_rope_yarn_attention_factor": lambda: llama(head_dim=32, **rope(1e4, attention_factor=0.8, beta_fast=16.0, beta_slow=2.0, **YARN)),
    "llama_rope_yarn_mscale": lambda: llama(head_dim=32, **rope(1e4, mscale=1.2, mscale_all_dim=0.7, truncate=False, **YARN)),
    "llama_rope_longrope": lambda: llama(head_dim=16, **rope(1e4, **LONG)),
    "llama_rope_longrope_attention_factor": lambda: llama(head_dim=16, **rope(1e4, attention_factor=1.3, factor=8.0, **LONG)),
    "llama_partial_rotary": lambda: partial(llama(head_dim=16, **rope(1e4, partial_rotary_factor=0.75))),
    "llama_partial_yarn": lambda: partial(llama(head_dim=32, **rope(1e4, partial_rotary_factor=0.5, **YARN))),
    "llama_old_spelling": lambda: llama(head_dim=32, **rope(2e4, **YARN)),
    "llama_no_positions": lambda: llama(**{**rope(1e4), "max_position_embeddings": 2048}),
    "mistral": mistral,
    "mistral_window": lambda: mistral(sliding_window=32),
    "qwen2": lambda: qwen("qwen2"),
    "qwen2_window_from_layer": lambda: qwen("qwen2", use_sliding_window=True, sliding_window=32, max_window_layers=1, tie_word_embeddings=True),
    "qwen2_yarn": lambda: qwen("qwen2", **rope(1e6, **YARN)),
    "qwen3": lambda: qwen("qwen3"),
    "qwen3_layer_types": lambda: qwen("qwen3", use_sliding_window=True, sliding_window=32,
                                      layer_types=WINDOWS_IN_TURN),
    "gemma2": gemma2,
    "gemma2_without_caps": lambda: gemma2(attn_logit_softcapping=None, final_logit_softcapping=None),
    "gemma3": lambda: gemma3(attention_bias=True, final_logit_softcapping=3.0),
    "gemma3_old_spelling": gemma3,
    "gemma3_with_images": gemma3_with_images,
    "gemma3_with_images_other_names": gemma3_with_images,
    "phi3": phi3,
    # transformers makes its cache anew where a text crosses from short to long factors: the greedy text stays short, and the prompt is long.
    "phi3_longrope": lambda: phi3(sliding_window=None, original_max_position_embeddings=100, rope_parameters={
        "rope_theta": 1e4, "rope_type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.0, 2.0, 3.0, 4.0]}),
    "phi3_longrope_yarn": lambda: phi3(sliding_window=None, original_max_position_embeddings=30, rope_parameters={
        "rope_theta": 1e4, "rope_type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.0, 2.0, 3.0, 4.0]}),
    "granite": lambda: family("Granite", "Granite", **rope(1e4), embedding_multiplier=3.0, residual_multiplier=0.4, logits_scaling=2.5, attention_multiplier=0.2),
    "olmo2": lambda: family("Olmo2", "Olmo2", **rope(1e4)),
    "smollm3": smollm3,
    "smollm3_windows": lambda: smollm3(no_rope_layers=None, no_rope_layer_interval=2, layer_types=None, use_sliding_window=True, sliding_window=32),
    "cohere": lambda: family("Cohere", "Cohere", **rope(1e4), logit_scale=0.25),
    "cohere_head_norms": lambda: family("Cohere", "Cohere", **rope(1e4), logit_scale=0.25, use_qk_norm=True),
    "cohere2": cohere2,
    "cohere2_old_spelling": lambda: cohere2(layer_types=["sliding_attention", "full_attention"] * 2, num_hidden_layers=4, **rope(1e4)),
    "gemma": lambda: family("Gemma", "Gemma", **rope(1e4), head_dim=16, num_attention_heads=8, num_key_value_heads=1),
    "gpt2": gpt2,
    "gpt2_hub_names": lambda: gpt2(scale_attn_by_inverse_layer_idx=True),
    "opt": opt,
    "opt_norms_after": lambda: opt(do_layer_norm_before=False, word_embed_proj_dim=24),
    "opt_without_biases": lambda: opt(enable_bias=False),
    "glm": lambda: glm("Glm"),
    "glm4": lambda: glm("Glm4", num_attention_heads=8, num_key_value_heads=2),
    "chatglm": lambda: glm("Glm", num_attention_heads=8, num_key_value_heads=2, **rope(3e4, partial_rotary_factor=0.5)),
    "yi": lambda: llama(num_attention_heads=4, num_key_value_heads=1, rms_norm_eps=1e-5, **rope(5e6)),
    "internlm2": lambda: llama(num_attention_heads=8, num_key_value_heads=2, **rope(1e6)),
    "ministral": lambda: family("Ministral", "Ministral", **rope(1e6), sliding_window=32, layer_types=WINDOWS_IN_TURN, head_dim=16),
    "ministral_every_window": lambda: family("Ministral", "Ministral", **rope(1e6), sliding_window=32, head_dim=8),
    "exaone4": exaone4,
    "exaone4_letters": exaone4,
    "exaone4_without_windows": lambda: exaone4(sliding_window=None, layer_types=["full_attention"] * 3),
    "olmo3": olmo3,
    "olmo3_old_spelling": olmo3,
    "phi3_longrope_long": lambda: phi3(sliding_window=None, original_max_position_embeddings=30, rope_parameters={
        "rope_theta": 1e4, "rope_type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.0, 2.0, 3.0, 4.0]}),
    "mixtral": mixtral,
    "mixtral_window": lambda: mixtral(sliding_window=32),
    "qwen3_moe": lambda: qwen3_moe(norm_topk_prob=True),
    "qwen3_moe_some_layers": lambda: qwen3_moe(mlp_only_layers=[1], use_sliding_window=True, sliding_window=32),
    "gpt_oss": gpt_oss,
    "gpt_oss_mxfp4": gpt_oss,
    "deepseek_v2": lambda: deepseek(2, topk_method="greedy"),
    "deepseek_v2_groups": lambda: deepseek(2, q_lora_rank=None, topk_method="group_limited_greedy",
                                           **rope(1e4, **YARN, mscale=0.7, mscale_all_dim=0.7)),
    "deepseek_v3": lambda: deepseek(3),
    "kimi_k2": lambda: deepseek(3, n_group=1, topk_group=1, **rope(5e4, **YARN, mscale=1.0, mscale_all_dim=1.0)),
    "deepseek_v3_halves": lambda: deepseek(3, rope_interleave=False, attention_bias=True, **rope(1e4, **YARN, mscale=1.0, mscale_all_dim=1.0)),
    "qwen3_next": qwen3_next,
    "qwen3_5": qwen35_with_images,
    "qwen3_5_text": lambda: transformers.Qwen3_5ForCausalLM(qwen35(tie_word_embeddings=True)),
    "qwen3_5_moe": qwen35_moe_with_images,
    "qwen3_5_moe_text": lambda: transformers.Qwen3_5MoeForCausalLM(qwen35_moe()),
    "qwen2_moe": qwen2_moe,
    "qwen2_vl": lambda: qwen2_with_images("Qwen2VL", dict(depth=1, embed_dim=16, hidden_size=48, num_heads=2)),
    "qwen2_vl_as_published": lambda: qwen2_with_images("Qwen2VL", dict(depth=1, embed_dim=16, hidden_size=48, num_heads=2)),
    "qwen2_5_vl": lambda: qwen2_with_images("Qwen2_5_VL", dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, out_hidden_size=48)),
    "qwen3_vl": qwen3_with_images,
    "glm4_moe": glm4_moe,
    "glm4_moe_without_norms": lambda: glm4_moe(use_qk_norm=False, attention_bias=False, num_attention_heads=7, num_key_value_heads=1, n_group=4, topk_group=2),
    "glm4_moe_lite": glm4_moe_lite,
    "glm4_moe_lite_as_published": glm4_moe_lite,
    "minimax_m2": minimax_m2,
    "minimax_m2_as_published": minimax_m2,
    "seed_oss": lambda: family("SeedOss", "SeedOss", **rope(1e6), head_dim=16),
    "seed_oss_other_biases": lambda: family("SeedOss", "SeedOss", **rope(1e6), head_dim=16, attention_bias=False, attention_out_bias=True, mlp_bias=True),
    "ernie4_5": lambda: family("Ernie4_5", "Ernie4_5", **rope(5e5), head_dim=16, use_bias=True),
    "olmoe": lambda: family("Olmoe", "Olmoe", **rope(1e4), num_experts=6, num_experts_per_tok=3, intermediate_size=24, norm_topk_prob=True),
    "hunyuan": hunyuan,
    "hunyuan_stretched": lambda: hunyuan(**rope(1e4, rope_type="dynamic", alpha=50.0, factor=1.0), attention_bias=True),
    "gpt_neox_in_turn": lambda: neox(use_parallel_residual=False, hidden_act="gelu_fast"),
    "gpt_neox": neox,
    "gpt_neox_old_spelling": neox,
    "gpt_neox_without_biases": lambda: neox(attention_bias=False),
    "qwen": lambda: qwen("qwen2", num_key_value_heads=6, head_dim=16, **rope(2e4)),
    # Weights are drawn one model after the other: a new one stands at the end, and leaves the others theirs.
    "afmoe": lambda: family("Afmoe", "Afmoe", **rope(1e4), head_dim=16, num_attention_heads=8, num_key_value_heads=2, sliding_window=32,
                            layer_types=WINDOWS_IN_TURN, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, num_shared_experts=2, num_dense_layers=1,
                            route_scale=1.5, mup_enabled=True),
    "llama4_text": lambda: transformers.Llama4ForCausalLM(llama4()),
    "llama4_text_without_norms": lambda: transformers.Llama4ForCausalLM(llama4(
        use_qk_norm=False, moe_layers=[], attention_bias=True, tie_word_embeddings=True, num_attention_heads=7, num_key_value_heads=1, no_rope_layers=[1, 1, 0])),
    "llama4": llama4_with_images,
    "ministral3": lambda: transformers.Ministral3ForCausalLM(ministral3()),
    "ministral3_window": lambda: transformers.Ministral3ForCausalLM(ministral3(sliding_window=32, tie_word_embeddings=True)),
    "mistral3": lambda: mistral3(ministral3().to_dict(), tie_word_embeddings=False),
    "mistral3_without_growth": lambda: mistral3(mistral().config.to_dict(), tie_word_embeddings=True),
    "qwen3_vl_moe": qwen3_moe_with_images,
    "qwen3_vl_moe_as_published": qwen3_moe_with_images,
    "granitemoe": lambda: family("GraniteMoe", "GraniteMoe", **rope(1e4), embedding_multiplier=3.0, residual_multiplier=0.4, logits_scaling=2.5,
                                 attention_multiplier=0.2, num_local_experts=6, num_experts_per_tok=2, intermediate_size=24),
    "mistral3_without_defaults": lambda: mistral3(mistral(head_dim=None, sliding_window=4096, max_position_embeddings=131072, **rope(1e4)).config.to_dict(),
                                                  tie_word_embeddings=False),
    "llama4_text_as_published": lambda: transformers.Llama4ForCausalLM(llama4(**rope(5e5, **{**LLAMA3, "high_freq_factor": 1.0}))),
    "lfm2": lfm2,
    "deepseek_v32": deepseek_v32,
    "deepseek_v32_stretched": lambda: deepseek_v32(attention_bias=True, index_topk=150, num_attention_heads=8, num_key_value_heads=8,
                                                   **rope(1e4, **YARN, mscale=1.0, mscale_all_dim=1.0)),
    "lfm2_as_published": lambda: lfm2(conv_bias=True, conv_L_cache=4, num_attention_heads=7, num_key_value_heads=1, head_dim=16, tie_word_embeddings=False),
    "mimo_v2_flash": mimo_v2_flash,
    "mimo_v2_flash_as_published": lambda: mimo_v2_flash(
        layer_types=["full_attention", "sliding_attention", "full_attention"], mlp_layer_types=["sparse", "dense", "sparse"], rms_norm_eps=1e-3,
        rope_parameters={"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e6, "partial_rotary_factor": 0.334},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.334}},
        routed_scaling_factor=None, attention_bias=True, num_attention_heads=4, num_key_value_heads=1),
    "gemma3n_text": gemma3n,
    "gemma3n": lambda: gemma3n(vocab_size_per_layer_input=97, altup_num_inputs=4, altup_active_idx=0, num_attention_heads=8, num_key_value_heads=1, head_dim=24),
    "gemma3n_text_plain": lambda: gemma3n(altup_correct_scale=False, activation_sparsity_pattern=[0.0] * 6, intermediate_size=80, num_kv_shared_layers=0, attention_bias=True,
                                          final_logit_softcapping=30.0, tie_word_embeddings=False),
    "gemma4_text": lambda: transformers.Gemma4ForCausalLM(gemma4()),
    "gemma4_text_with_experts": lambda: transformers.Gemma4ForCausalLM(gemma4(
        num_kv_shared_layers=0, hidden_size_per_layer_input=0, attention_k_eq_v=True, num_global_key_value_heads=1, use_double_wide_mlp=False, enable_moe_block=True,
        num_experts=6, top_k_experts=2, moe_intermediate_size=24, num_attention_heads=7, num_key_value_heads=7)),
    "gemma4": gemma4_with_images,
    "llama_own_head": lambda: llama(tie_word_embeddings=False, **rope(1e4)),
    "llama_copied_head": lambda: llama(tie_word_embeddings=True, **rope(1e4)),
}


def randomize(model):
    """Biases and norms start as zeros and ones, which would hide a missing one."""
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.copy_(torch.randn_like(buffer) * 0.3)
            if name.endswith("layer_scalar"):
                buffer.copy_(torch.rand_like(buffer) + 0.5)
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                weight.copy_(torch.randn_like(weight) * 0.3 + (1.0 if "norm" in name else 0.0))
            else:
                weight.copy_(torch.randn_like(weight) * (1.0 if "embed" in name else 0.3))


def forget_lengths(model):
    """Positions that grow with the sequence remember the longest one: each sequence here is the first."""
    for module in model.modules():
        if hasattr(module, "max_seq_len_cached") and hasattr(module, "original_inv_freq"):
            module.max_seq_len_cached = module.original_max_seq_len
            module.register_buffer("inv_freq", module.original_inv_freq.clone(), persistent=False)


def as_published(module, query, key, value):
    """What modules hand over, without what they did to it for their own convenience."""
    config = module.config
    if config.model_type == "opt":  # the scale is in q
        query = query / module.scaling
    if config.model_type in ("deepseek_v3", "deepseek_v32", "glm4_moe_lite") and getattr(config, "rope_interleave", True):  # turned pairs stand apart
        first, half = config.qk_nope_head_dim, config.qk_rope_head_dim // 2
        query, key = (torch.cat([heads[..., :first], torch.stack([heads[..., first:first + half], heads[..., first + half:]], -1).flatten(-2)], -1)
                      for heads in (query, key))
    return query, key, value


def heads_of(model, tokens, following):
    """The prompt in one pass, then its following tokens one by one, with transformers' cache: these, or as many as this number, each the likeliest. Returns
    them, the logits of the prompt's last token and of each of them, by layer each tensor that a head or a point has, [heads, tokens, ..] or [tokens, ..], and
    of an index what it chose."""
    kept, chosen, attention = {}, {}, {}

    usual = model.config._attn_implementation  # eager where the scores are capped

    def keeping(module, query, key, value, attention_mask, **options):
        kept[module.layer_idx] = [tensor[0].clone() for tensor in as_published(module, query, key, value)]
        attention[module.layer_idx] = module
        if options.get("indices") is not None:  # which eager and sdpa are handed as a mask
            indices = options.pop("indices")[0].long()
            hidden = torch.ones(indices.shape[0], key.shape[2], dtype=torch.bool).scatter(-1, indices, False)
            attention_mask = attention_mask & ~hidden if attention_mask.dtype == torch.bool else attention_mask.masked_fill(hidden, torch.finfo(query.dtype).min)
            chosen[module.layer_idx] = indices
        attend = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS.get_interface(usual, getattr(sys.modules[type(module).__module__], "eager_attention_forward"))
        return attend(module, query, key, value, attention_mask, **options)

    transformers.AttentionInterface.register("keeping", keeping)
    transformers.AttentionMaskInterface.register("keeping", transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS[usual])
    model.set_attn_implementation("keeping")
    model(torch.tensor([tokens[:1]]), use_cache=False)  # which modules attend
    points = WatchedPoints(model, attention)
    chosen.clear()
    forget_lengths(model)
    recurrent = {"linear_attention", "conv", "indexed_attention"} & set(getattr(model.config.get_text_config(), "layer_types", None) or ())
    # A cache that knows of no window keeps every key.
    cache = transformers.DynamicCache(config=model.config) if recurrent else transformers.DynamicCache()
    queries, sets, steps = {}, {}, []
    past, piece, taken, greedy = 0, tokens, [], isinstance(following, int)
    while piece:
        steps.append(model(torch.tensor([piece]), past_key_values=cache, use_cache=True).logits[0, -1])
        points.take(kept)
        for layer, heads in kept.items():
            queries.setdefault(layer, []).append(heads[0])
        for layer, indices in chosen.items():
            for row, ids in enumerate(indices, past):
                seen = sorted(number for number in ids.tolist() if number <= row)
                sets.setdefault(layer, []).append(seen + [-1] * (model.config.index_topk - len(seen)))
        past += len(piece)
        piece = ([int(steps[-1].argmax())] if len(taken) < following else []) if greedy else following[len(taken):len(taken) + 1]
        taken += piece
    model.set_attn_implementation(usual)
    of_points = points.tensors()
    tensors = {layer: {"q": torch.cat(queries[layer], 1), "k": kept[layer][1], "v": kept[layer][2], **of_points[layer]} for layer in sorted(kept)}
    return taken, torch.stack(steps), tensors, [sets[layer] for layer in sorted(sets)]


def errors_of(found, exact):
    """How far tensors are from those in fp32, layer by layer: of each the relative error, and the first quartile of its tokens' own."""
    out = []
    for layer, tensors in exact.items():
        for name, want in tensors.items():
            got, want = (tensor if name == "residual" else tensor.transpose(0, 1).flatten(1) for tensor in (found[layer][name].double(), want.double()))
            tokens = ((got - want).norm(dim=1) / want.norm(dim=1)).sort().values
            out.append([(got - want).norm() / want.norm(), tokens[len(tokens) // 4]])
    return torch.tensor(out)


def write_heads(folder, model, tokens, following):
    """Heads, points and logits of a prompt and what follows it (heads_of), and how far transformers' own bf16 is from them. Returns the tokens that follow."""
    taken, steps, tensors, sets = heads_of(model, tokens, following)
    write = {"steps": [steps], "heads": [], "points": []}
    for of_layer in tensors.values():
        for name, tensor in of_layer.items():
            write["heads" if name in ("q", "k", "v") else "points"].append(tensor)
    rounded = in_bf16(model)
    grows = any(getattr(module, "rope_type", None) in ("dynamic", "longrope") for module in model.modules())  # a step's positions are not those of one pass
    write["errors_bf16"] = [errors_of(heads_of(rounded, tokens, taken)[2] if grows else heads_of(rounded, tokens + taken, [])[2], tensors)]
    for name, arrays in write.items():
        with open(os.path.join(folder, name + ".f32"), "wb") as file:
            for tensor in arrays:
                file.write(tensor.float().contiguous().numpy().tobytes())
    if sets:
        np.array(sets, np.int32).tofile(os.path.join(folder, "selected.i32"))
    return taken


def in_bf16(model):
    """As from_pretrained(dtype=bfloat16) makes the model: its frequencies stay in fp32."""
    modules = vars(model).pop("partial_rotation", None)  # which cannot be copied
    rounded = copy.deepcopy(model).to(torch.bfloat16)
    if modules:
        model.partial_rotation = modules
    for name, buffer in model.named_buffers():
        if "inv_freq" in name:
            module, _, last = name.rpartition(".")
            rounded.get_submodule(module).register_buffer(last, buffer.clone(), persistent=False)
    forget_lengths(rounded)
    return rounded


def write_logits(folder, model, tokens, with_bf16=True):
    """Of one pass, in fp32 and in bf16."""
    forget_lengths(model)
    for name, one in (("logits", model), *([("logits_bf16", in_bf16(model))] if with_bf16 else [])):
        one(torch.tensor([tokens])).logits[0].float().numpy().tofile(os.path.join(folder, name + ".f32"))
    forget_lengths(model)


def write(folder, model, tokens, greedy_from, greedy_tokens, heads=False):
    os.makedirs(folder, exist_ok=True)
    with torch.no_grad():
        write_logits(folder, model, tokens, with_bf16=heads)
        if heads:
            greedy = np.array(write_heads(folder, model, tokens[:greedy_from], greedy_tokens))
        else:
            prompt = torch.tensor([tokens[:greedy_from]])
            # The mask is given because generate() would otherwise take the leading <s> (id 0) for padding.
            greedy = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=greedy_tokens, min_new_tokens=greedy_tokens, do_sample=False,
                                    eos_token_id=None, pad_token_id=0)[0, greedy_from:].numpy()
    np.array(tokens, np.int32).tofile(os.path.join(folder, "tokens.i32"))
    greedy.astype(np.int32).tofile(os.path.join(folder, "greedy.i32"))


def main():
    model_dir, out_dir, prose = sys.argv[1:4]
    torch.manual_seed(1)
    from tokenizers import Tokenizer
    text = open(prose, encoding="utf-8").read()[:4000]
    tokens = Tokenizer.from_file(os.path.join(model_dir, "tokenizer.json")).encode(text).ids[:400]
    model = transformers.AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval()
    write(os.path.join(out_dir, "reference"), model, tokens, 100, 200)
    write_models(out_dir, MODELS)
    write_encoders(out_dir, SIZES, randomize)


def write_models(out_dir, models):
    """Each model's checkpoint and what it computes, in a folder of its name."""
    rng = np.random.default_rng(3)
    for name, make in models.items():
        folder = os.path.join(out_dir, name)
        model = make().eval()
        randomize(model)
        if name == "gpt_oss_mxfp4":
            round_to_mxfp4(model)
        model.tie_weights()
        model.save_pretrained(folder, max_shard_size="60KB" if name == "llama_gqa" else "5GB")
        rewrite_config(folder, name, model)
        modeling, whole, part = getattr(model, "partial_rotation", (None, None, None))
        if modeling:
            modeling.apply_rotary_pos_emb = part
        write(folder, model, rng.integers(0, SIZES["vocab_size"], 200).tolist(), 40, 32, heads=True)  # past position 64, where some stretch theirs
        if modeling:
            modeling.apply_rotary_pos_emb = whole
    json.dump(list(models), open(os.path.join(out_dir, "models.json"), "w"))


if __name__ == "__main__":
    main()
