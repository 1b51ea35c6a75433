# SPDX-License-Identifier: Apache-2.0
"""OLMo 3 by NumPy alone, from its definition: YaRN where a layer sees everything, plain rotary positions where it has a window.

    olmo3_forward.py ORACLE_DIR

Holds the logits that model_logits.py took from transformers, and with which families_test.cpp compares headscope, to this forward pass: versions of transformers
turn the layers with a window by YaRN as well, when their configuration is spelled as it was published, and would be wrong as an oracle. Sources: the report of
OLMo 3 (norms after attention and MLP, q and k normalised over all heads; YaRN on the full-attention layers only); YaRN (arXiv 2309.00071) with the ramp of its
authors' code.
"""
import json
import pathlib
import sys

import numpy as np

BETA_FAST, BETA_SLOW = 32, 1


def tensors(path):
    """Every tensor of a safetensors file of fp32, as float64."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(raw, "<f4", count=int(np.prod(entry["shape"])), offset=8 + size + entry["data_offsets"][0]).reshape(entry["shape"]).astype(np.float64)
            for name, entry in header.items()}


def plain(theta, dim):
    return theta ** (-np.arange(0, dim, 2) / dim), 1.0


def yarn(theta, dim, factor, original):
    """Inverse frequencies and the factor on cosine and sine."""
    def number_of(turns):  # of the frequency that turns so often over the original length
        return dim * np.log(original / (turns * 2 * np.pi)) / (2 * np.log(theta))

    low, high = max(np.floor(number_of(BETA_FAST)), 0), min(np.ceil(number_of(BETA_SLOW)), dim - 1)
    stretched = np.clip((np.arange(dim // 2) - low) / max(high - low, 0.001), 0, 1)
    frequencies, _ = plain(theta, dim)
    return frequencies * (1 - stretched) + frequencies / factor * stretched, 0.1 * np.log(factor) + 1


def turned(heads, frequencies, factor):
    """[heads, tokens, dim]: components i and dim / 2 + i turn together."""
    angles = np.arange(heads.shape[1])[:, None] * frequencies
    cosine, sine, half = np.cos(angles) * factor, np.sin(angles) * factor, heads.shape[2] // 2
    a, b = heads[..., :half], heads[..., half:]
    return np.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1)


def normal(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def logits(weights, tokens, config, rope_of_layer):
    heads, kv_heads, eps = config["num_attention_heads"], config["num_key_value_heads"], config["rms_norm_eps"]
    x = weights["model.embed_tokens.weight"][tokens]
    distance = np.arange(len(tokens))[:, None] - np.arange(len(tokens))
    for layer in range(config["num_hidden_layers"]):
        own = {name.removeprefix(f"model.layers.{layer}."): value for name, value in weights.items() if name.startswith(f"model.layers.{layer}.")}
        by_head = lambda rows, count: rows.reshape(len(tokens), count, -1).transpose(1, 0, 2)  # noqa: E731
        q = normal(x @ own["self_attn.q_proj.weight"].T, own["self_attn.q_norm.weight"], eps)
        k = normal(x @ own["self_attn.k_proj.weight"].T, own["self_attn.k_norm.weight"], eps)
        q, k, v = by_head(q, heads), by_head(k, kv_heads), by_head(x @ own["self_attn.v_proj.weight"].T, kv_heads)
        slides = config["layer_types"][layer] == "sliding_attention"
        frequencies, factor = rope_of_layer(slides, q.shape[2])
        q, k = turned(q, frequencies, factor), turned(k, frequencies, factor)
        k, v = np.repeat(k, heads // kv_heads, 0), np.repeat(v, heads // kv_heads, 0)
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2])
        hidden = (distance < 0) | (slides & (distance >= config["sliding_window"]))
        shares = np.exp(np.where(hidden, -np.inf, scores) - np.where(hidden, -np.inf, scores).max(-1, keepdims=True))
        output = (shares / shares.sum(-1, keepdims=True)) @ v
        attended = output.transpose(1, 0, 2).reshape(len(tokens), -1) @ own["self_attn.o_proj.weight"].T
        x = x + normal(attended, own["post_attention_layernorm.weight"], eps)
        gate, up = x @ own["mlp.gate_proj.weight"].T, x @ own["mlp.up_proj.weight"].T
        x = x + normal((gate / (1 + np.exp(-gate)) * up) @ own["mlp.down_proj.weight"].T, own["post_feedforward_layernorm.weight"], eps)
    return normal(x, weights["model.norm.weight"], eps) @ weights.get("lm_head.weight", weights["model.embed_tokens.weight"]).T


def main():
    oracle = pathlib.Path(sys.argv[1])
    for name in ("olmo3", "olmo3_old_spelling"):
        folder = oracle / name
        config = json.loads((folder / "config.json").read_text())
        given = config.get("rope_parameters", {}).get("full_attention") or {**config["rope_scaling"], "rope_theta": config["rope_theta"]}
        theta, factor, original = given["rope_theta"], given["factor"], given["original_max_position_embeddings"]
        types = ["sliding_attention", "full_attention", "sliding_attention"]
        tokens = np.fromfile(folder / "tokens.i32", np.int32)
        expected = np.fromfile(folder / "logits.f32", np.float32).reshape(len(tokens), -1)
        weights = tensors(folder / "model.safetensors")

        def error(rope):
            found = logits(weights, tokens, {**config, "layer_types": types}, rope)
            return np.linalg.norm(found - expected) / np.linalg.norm(found)

        right = error(lambda slides, dim: plain(theta, dim) if slides else yarn(theta, dim, factor, original))
        wrong = error(lambda _, dim: yarn(theta, dim, factor, original))
        print(f"{name}: relative error {right:.2g}; with YaRN on every layer {wrong:.2g}")
        assert right <= 1e-5, f"{name}: the logits that headscope is compared with are off by {right:.2g}"
        assert wrong >= 1e-2, f"{name}: the test cannot tell where YaRN is"


if __name__ == "__main__":
    main()
