# SPDX-License-Identifier: Apache-2.0
"""Every capture point of families that differ in them, against hooks on the modules of transformers (5.23.0): tiny random models, prefill in chunks, decode.

    capture_points_of_families.py HEADSCOPE MODEL_DIR     MODEL_DIR: whose tokenizer the tiny models borrow
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import torch
import transformers

SIZES = dict(hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=24, max_position_embeddings=512,
             pad_token_id=0, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False)  # fmt: skip
TOKENS, CHUNK, DECODE = list(range(5, 60)), 16, 3
HEADS, ROWS = [0, 2, 3], 21
POINTS = "pre-rope,value-norms,hidden-norms,projection,cache,residual,head-outputs,value-norms-l1"
WINDOWS = dict(layer_types=["sliding_attention", "sliding_attention", "full_attention"], sliding_window=400)
FAMILIES = {
    "llama": ("Llama", {}),
    "qwen3": ("Qwen3", {}),
    "gemma": ("Gemma", {}),
    "gemma3_text": ("Gemma3", WINDOWS | dict(query_pre_attn_scalar=24)),
    "olmo2": ("Olmo2", dict(head_dim=12)),
    # A layer's input is the hidden state that it runs on, of several.
    "gemma3n_text": ("Gemma3n", WINDOWS | dict(
        intermediate_size=[80] * 3, activation_sparsity_pattern=[0.8, 0.0, 0.5], laurel_rank=6, altup_num_inputs=3, hidden_size_per_layer_input=8, vocab_size_per_layer_input=50,
        num_kv_shared_layers=0, altup_active_idx=1)),
    # What queries grow by is no part of q before RoPE, nor where there is no RoPE.
    "ministral3": ("Ministral3", dict(sliding_window=None, rope_parameters=dict(
        rope_type="yarn", rope_theta=1e6, factor=4.0, original_max_position_embeddings=16, llama_4_scaling_beta=0.7))),
    "llama4_text": ("Llama4", dict(
        intermediate_size_mlp=40, attention_chunk_size=400, no_rope_layers=[1, 0, 1], moe_layers=[1], num_local_experts=4, num_experts_per_tok=1, floor_scale=16, attn_scale=0.7)),
    "qwen3_next": ("Qwen3Next", dict(
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=12, linear_value_head_dim=10, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
        shared_expert_intermediate_size=20, layer_types=["linear_attention", "full_attention", "full_attention"])),
}  # fmt: skip


def made(name, vocabulary):
    kind, options = FAMILIES[name]
    torch.manual_seed(11)
    config = transformers.AutoConfig.for_model(name, **{**SIZES, "vocab_size": vocabulary, **options})
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    for parameter in model.parameters():  # norms that do nothing would hide which side of them was recorded
        if parameter.ndim == 1:
            torch.nn.init.uniform_(parameter.data, 0.5, 1.5)
    if name == "qwen3_next":  # the recurrence as it is defined; the form in chunks loses a digit on random weights
        from transformers.models.qwen3_next import modeling_qwen3_next as modeling

        modeling.torch_chunk_gated_delta_rule = modeling.torch_recurrent_gated_delta_rule
        for layer in model.model.layers:
            if hasattr(layer, "linear_attn"):
                layer.linear_attn.chunk_gated_delta_rule = modeling.torch_recurrent_gated_delta_rule
    return model


def watched(model, ids):
    """What the modules got and gave, by layer and point: [tokens, ..] in float64."""
    seen, handles = {}, []
    for number, layer in enumerate(model.model.layers):
        attention = getattr(layer, "self_attn", None)
        if attention is None:
            continue
        one = seen[number] = {}
        modules = {"q_projection": attention.q_proj, "k_projection": attention.k_proj, "q_norm": getattr(attention, "q_norm", None), "k_norm": getattr(attention, "k_norm", None)}
        for point, module in modules.items():
            if module is not None:
                handles.append(module.register_forward_hook(lambda _, given, output, one=one, point=point: one.update({point: output[0].double()})))
        if model.config.model_type == "gemma3n_text":
            handles.append(layer.input_layernorm.register_forward_pre_hook(lambda _, given, one=one: one.update(residual=given[0][0].double())))
        handles.append(attention.o_proj.register_forward_pre_hook(lambda _, given, one=one: one.update(head_output=given[0][0].double())))
    with torch.no_grad():
        result = model(ids, output_hidden_states=True, use_cache=True)
    for handle in handles:
        handle.remove()
    for number, one in seen.items():
        one.setdefault("residual", result.hidden_states[number][0].double())
        cache = result.past_key_values.layers[number]
        one["cache_k"], one["cache_v"] = cache.keys[0].double(), cache.values[0].double()
    return seen


def by_head(values, heads, dim):
    """[heads, tokens, dim] of [tokens, heads * dim], [tokens, heads, dim] or [heads, tokens, dim]."""
    if values.ndim == 2:
        return values.view(values.shape[0], heads, -1)[..., :dim].transpose(0, 1).numpy()  # behind a head of q its gate may follow
    return (values if values.shape[0] == heads else values.transpose(0, 1)).numpy()


def check(headscope, tokenizer, name, folder):
    vocabulary = json.loads(pathlib.Path(tokenizer, "config.json").read_text())["vocab_size"]
    model = made(name, vocabulary)
    checkpoint, trace = pathlib.Path(folder, name), pathlib.Path(folder, f"{name}.h5")
    model.save_pretrained(checkpoint)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(pathlib.Path(tokenizer, file), checkpoint)
    subprocess.run([headscope, "capture", checkpoint, "--tokens", ",".join(map(str, TOKENS)), "--heads", ",".join(map(str, HEADS)), "--rows", f"last:{ROWS}", "--chunk", str(CHUNK),
                    "--decode", str(DECODE), "--dtype", "fp32", "--record", POINTS, "--quiet", "-o", trace], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    worst = {}
    with h5py.File(trace) as file:
        ids, rows, layers = file["tokens/ids"][:], file["attention/q_rows"][:], list(file["layers"].attrs["layer"])
        assert len(ids) == len(TOKENS) + DECODE and len(rows) == ROWS + DECODE
        seen = watched(model, torch.tensor(ids[None].astype(np.int64)))
        assert layers == sorted(seen), (layers, sorted(seen))
        config, tensors = model.config, {point: file["attention"][point][:].astype(np.float64) for point in file["attention"] if isinstance(file["attention"][point], h5py.Dataset)}
        kv_heads = list(file["attention/kv_heads"][:])
        heads, groups, dim = config.num_attention_heads, config.num_key_value_heads, tensors["q"].shape[3]

        def compare(point, found, wanted):
            assert found.shape == wanted.shape, (name, point, found.shape, wanted.shape)
            worst[point] = max(worst.get(point, 0.0), np.linalg.norm(found - wanted) / np.linalg.norm(wanted))

        for slot, layer in enumerate(layers):
            one = seen[layer]
            q, k = by_head(one["q_projection"], heads, dim), by_head(one["k_projection"], groups, dim)
            compare("q_projection", tensors["q_projection"][slot], q[HEADS][:, rows])
            compare("k_projection", tensors["k_projection"][slot], k[kv_heads])
            if "q_norm" in one:
                q, k = by_head(one["q_norm"], heads, dim), by_head(one["k_norm"], groups, dim)
                assert np.abs(q[HEADS][:, rows] - tensors["q_projection"][slot]).max() > 0.01, "the norm does something"
            compare("q_pre_rope", tensors["q_pre_rope"][slot], q[HEADS][:, rows])
            compare("k_pre_rope", tensors["k_pre_rope"][slot], k[kv_heads])
            compare("cache_k", tensors["cache_k"][slot], one["cache_k"].numpy()[kv_heads])
            compare("cache_v", tensors["cache_v"][slot], one["cache_v"].numpy()[kv_heads])
            compare("residual", tensors["residual"][slot, 0], one["residual"].numpy())
            compare("hidden_norms", tensors["hidden_norms"][slot, 0], np.linalg.norm(one["residual"].numpy(), axis=-1))
            compare("head_output", tensors["head_output"][slot], by_head(one["head_output"], heads, dim)[HEADS][:, rows])
            output = model.model.layers[layer].self_attn.o_proj.weight.detach().double().numpy()
            values = one["cache_v"].numpy()
            added = np.array([values[head // (heads // groups)] @ output[:, head * dim : (head + 1) * dim].T for head in HEADS])
            compare("value_norms", tensors["value_norms"][slot], np.linalg.norm(added, axis=2))
            compare("value_norms_l1", tensors["value_norms_l1"][slot], np.abs(added).sum(axis=2))
    print(f"{name}: relative errors: " + ", ".join(f"{point} {error:.1e}" for point, error in worst.items()))
    assert len(worst) == 11 and max(worst.values()) < 1e-5, worst


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        for name in FAMILIES:
            check(sys.argv[1], sys.argv[2], name, folder)


if __name__ == "__main__":
    main()
