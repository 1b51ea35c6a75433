# SPDX-License-Identifier: Apache-2.0
"""Tiny random-weight models of transformers' families, one line each: model_type, what its configuration says beside the common sizes."""
import torch
import transformers

VERSION = "5.23.0"  # of transformers, that the families were looked at with
VOCABULARY = 97
COMMON = dict(
    vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=256,
    pad_token_id=0, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False,
)  # fmt: skip
SLIDING = ["sliding_attention", "full_attention"]
EXPERTS = dict(num_local_experts=4, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
MLA = dict(
    q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, qk_head_dim=12, v_head_dim=10, num_key_value_heads=4, n_routed_experts=4, n_group=1, topk_group=1,
    n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=16, first_k_dense_replace=1, head_dim=4,
)  # fmt: skip
QWEN35 = dict(
    layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=8, linear_value_head_dim=8,
    rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5, mrope_section=[1, 1, 0], mrope_interleaved=True),
)  # fmt: skip
GPT2 = dict(n_embd=32, n_head=4, n_layer=2, n_positions=256, n_inner=48)

# name: model_type, settings. Several names may stand for one family.
FAMILIES = {
    "llama": ("llama", {}),
    "llama3": ("llama", dict(rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64))),
    "llama_mha_bias": ("llama", dict(num_key_value_heads=4, attention_bias=True)),
    "mistral": ("mistral", dict(sliding_window=7)),
    "ministral": ("ministral", dict(sliding_window=6, layer_types=SLIDING)),
    "ministral3": ("ministral3", {}),
    "qwen2": ("qwen2", dict(use_sliding_window=True, sliding_window=5, max_window_layers=1)),
    "qwen3": ("qwen3", {}),
    "qwen3_moe": ("qwen3_moe", EXPERTS),
    "gemma": ("gemma", {}),
    "gemma2": ("gemma2", dict(sliding_window=6, attn_logit_softcapping=5.0, query_pre_attn_scalar=16, layer_types=SLIDING)),
    "gemma3_text": ("gemma3_text", dict(sliding_window=6, query_pre_attn_scalar=16, layer_types=SLIDING)),
    "phi3": ("phi3", dict(sliding_window=9)),
    "glm": ("glm", {}),
    "glm4": ("glm4", {}),
    "glm4_moe": ("glm4_moe", EXPERTS | dict(n_routed_experts=4, first_k_dense_replace=1, n_group=1, topk_group=1)),
    "gpt_neox": ("gpt_neox", dict(num_key_value_heads=4)),
    "gpt2": ("gpt2", GPT2),
    "gpt2_scale_by_layer": ("gpt2", GPT2 | dict(scale_attn_by_inverse_layer_idx=True)),
    "opt": ("opt", dict(ffn_dim=48, word_embed_proj_dim=32)),
    "olmo2": ("olmo2", {}),
    "olmo3": ("olmo3", dict(sliding_window=6, layer_types=SLIDING)),
    "smollm3": ("smollm3", dict(no_rope_layers=[1, 0])),
    "cohere": ("cohere", {}),
    "cohere2": ("cohere2", dict(sliding_window=6, layer_types=SLIDING)),
    "exaone4": ("exaone4", dict(sliding_window=6, layer_types=SLIDING)),
    "granite": ("granite", dict(attention_multiplier=0.3, residual_multiplier=0.5, embedding_multiplier=2.0)),
    "gpt_oss": ("gpt_oss", EXPERTS | dict(sliding_window=6, layer_types=SLIDING)),
    "mixtral": ("mixtral", EXPERTS),
    "deepseek_v2": ("deepseek_v2", MLA | dict(topk_method="greedy")),
    "deepseek_v3": ("deepseek_v3", MLA),
    "deepseek_v32": ("deepseek_v32", MLA | dict(index_topk=5, index_n_heads=2, index_head_dim=8)),
    "glm_moe_dsa": ("glm_moe_dsa", MLA | dict(index_topk=5, index_n_heads=2, index_head_dim=8, indexer_types=["full", "shared"])),
    "qwen3_next": (
        "qwen3_next",
        EXPERTS
        | dict(layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=8, linear_value_head_dim=8, shared_expert_intermediate_size=16),
    ),
    "qwen3_5_text": ("qwen3_5_text", QWEN35),
    "qwen3_5_moe_text": ("qwen3_5_moe_text", EXPERTS | QWEN35 | dict(shared_expert_intermediate_size=16)),
    "qwen2_moe": ("qwen2_moe", EXPERTS | dict(shared_expert_intermediate_size=16)),
    "glm4_moe_lite": ("glm4_moe_lite", MLA),
    "minimax_m2": ("minimax_m2", EXPERTS | dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "seed_oss": ("seed_oss", {}),
    "ernie4_5": ("ernie4_5", {}),
    "olmoe": ("olmoe", EXPERTS),
    "qwen2_vl_text": ("qwen2_vl_text", dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[1, 1, 2]))),
    "qwen3_vl_text": ("qwen3_vl_text", dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[2, 1, 1]))),
    "llama4_text": ("llama4_text", EXPERTS | dict(intermediate_size_mlp=48, attention_chunk_size=8, no_rope_layers=[1, 0], moe_layers=[1], layer_types=["chunked_attention", "full_attention"])),
    "mimo_v2_flash": ("mimo_v2_flash", EXPERTS | dict(n_routed_experts=4, n_group=1, topk_group=1, head_dim=12, v_head_dim=8, sliding_window=6, layer_types=SLIDING)),
    "gemma4_text": (
        "gemma4_text",
        dict(num_hidden_layers=2, layer_types=SLIDING, sliding_window=6, global_head_dim=16, hidden_size_per_layer_input=0, num_kv_shared_layers=0, vocab_size_per_layer_input=VOCABULARY),
    ),
    "hunyuan_v1_dense": ("hunyuan_v1_dense", {}),
    "qwen3_vl_moe_text": ("qwen3_vl_moe_text", EXPERTS | dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[2, 1, 1]))),
    "granitemoe": ("granitemoe", EXPERTS | dict(attention_multiplier=0.3)),
    "afmoe": ("afmoe", EXPERTS | dict(sliding_window=6, layer_types=SLIDING, num_shared_experts=1, num_dense_layers=1)),
    "lfm2": ("lfm2", dict(layer_types=["conv", "full_attention"])),
    "nanochat": ("nanochat", {}),
    "falcon_h1": (
        "falcon_h1",
        dict(
            mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_n_groups=1, mamba_d_state=8, mamba_chunk_size=8, key_multiplier=0.5, attention_in_multiplier=0.7,
            attention_out_multiplier=0.6,
        ),  # fmt: skip
    ),
    "hy_v4": ("hy_v4", MLA | dict(index_topk=5, index_n_heads=2, index_head_dim=8, indexer_types=["full", "shared"], hc_mult=2)),
    "gemma3n_text": (
        "gemma3n_text",
        dict(
            num_hidden_layers=4, layer_types=SLIDING * 2, sliding_window=6, num_kv_shared_layers=2, intermediate_size=[48] * 4, activation_sparsity_pattern=[0.0] * 4,
            hidden_size_per_layer_input=8, vocab_size_per_layer_input=VOCABULARY, laurel_rank=4, altup_num_inputs=2,
        ),  # fmt: skip
    ),
}
# That single tests look at.
OTHERS = {
    "beam": ("beam", EXPERTS | dict(sliding_window=6, layer_types=SLIDING)),
    "flint": ("flint", EXPERTS | dict(sliding_window=6, layer_types=SLIDING)),
    "hunyuan_v1_dense_alpha": ("hunyuan_v1_dense", dict(rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, alpha=50.0, factor=1.0))),
    "granite_swa": ("granite_swa", dict(layer_rope_theta=[5e5, 0])),
    "diffllama": ("diffllama", {}),
    "deepseek_v4": ("deepseek_v4", EXPERTS | dict(head_dim=16, qk_rope_head_dim=4, q_lora_rank=16, o_lora_rank=16, o_groups=2, sliding_window=8)),
}


def make(name, implementation="eager", dtype=torch.float32, **more):
    """A random model of the family, the same every time; more: settings besides its own."""
    model_type, settings = (FAMILIES | OTHERS)[name]
    config = transformers.AutoConfig.for_model(model_type, **(COMMON | settings | more))
    config._attn_implementation = implementation
    torch.manual_seed(11)
    if type(config) in transformers.AutoModelForCausalLM._model_mapping:  # its keys() would import every configuration that there is
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=implementation)
    else:
        model = transformers.AutoModel.from_config(config, attn_implementation=implementation)
    with torch.no_grad():
        for parameter in model.parameters():  # so that heads differ and scores are far from flat
            if parameter.ndim > 1:
                parameter.normal_(0.0, 0.35)
            elif parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.to(dtype).eval()
