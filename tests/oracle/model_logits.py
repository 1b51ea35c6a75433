"""Logits and greedy text by transformers, for tests/capture/transformer_test.cpp.

    model_logits.py MODEL_DIR OUT_DIR PROSE

Writes OUT_DIR/reference/{tokens.i32, logits.f32, greedy.i32} for the checkpoint, and for each of a row of tiny random models
OUT_DIR/<name>/ with the checkpoint itself and the same files; OUT_DIR/models.json lists their names. Everything in fp32.
"""
import json
import os
import sys

import numpy as np
import torch
import transformers

torch.set_num_threads(1)  # tiny models: more threads only wait for each other
SIZES = dict(vocab_size=97, hidden_size=48, intermediate_size=80, num_hidden_layers=3, max_position_embeddings=512, use_cache=True)
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}


def llama(**options):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SIZES, "num_attention_heads": 6, "num_key_value_heads": 2, **options}))


def rope(theta, **options):
    return {"rope_parameters": {"rope_theta": theta, "rope_type": "default", **options}}


MODELS = {
    "llama_gqa": lambda: llama(head_dim=16, tie_word_embeddings=True, **rope(5e5)),
    "llama_mha_untied": lambda: llama(num_key_value_heads=6, tie_word_embeddings=False, **rope(1e4)),
    "llama_mqa_biases": lambda: llama(num_key_value_heads=1, attention_bias=True, mlp_bias=True, **rope(1e4)),
    "llama_rope_linear": lambda: llama(**rope(1e4, rope_type="linear", factor=4.0)),
    "llama_rope_llama3": lambda: llama(head_dim=32, **rope(1e4, **LLAMA3)),
    "mistral": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(
        **SIZES, num_attention_heads=6, num_key_value_heads=3, head_dim=16, sliding_window=None, **rope(1e6))),
    "qwen2": lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SIZES, num_attention_heads=6, num_key_value_heads=2, **rope(1e6))),
    "qwen3": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
        **SIZES, num_attention_heads=4, num_key_value_heads=2, head_dim=24, **rope(1e6))),
}


def randomize(model):
    """Biases and norms start as zeros and ones, which would hide a missing one."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                weight.copy_(torch.randn_like(weight) * 0.3 + (1.0 if "norm" in name else 0.0))
            else:
                weight.copy_(torch.randn_like(weight) * (1.0 if "embed" in name else 0.3))


def write(folder, model, tokens, greedy_from, greedy_tokens):
    os.makedirs(folder, exist_ok=True)
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0].float().numpy()
        prompt = torch.tensor([tokens[:greedy_from]])
        # The mask is given because generate() would otherwise take the leading <s> (id 0) for padding.
        greedy = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=greedy_tokens, min_new_tokens=greedy_tokens, do_sample=False,
                                eos_token_id=None, pad_token_id=0)[0, greedy_from:].numpy()
    np.array(tokens, np.int32).tofile(os.path.join(folder, "tokens.i32"))
    logits.astype(np.float32).tofile(os.path.join(folder, "logits.f32"))
    greedy.astype(np.int32).tofile(os.path.join(folder, "greedy.i32"))


def main():
    model_dir, out_dir, prose = sys.argv[1:4]
    torch.manual_seed(1)
    from tokenizers import Tokenizer
    text = open(prose, encoding="utf-8").read()[:4000]
    tokens = Tokenizer.from_file(os.path.join(model_dir, "tokenizer.json")).encode(text).ids[:400]
    model = transformers.AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval()
    write(os.path.join(out_dir, "reference"), model, tokens, 100, 200)
    rng = np.random.default_rng(3)
    for name, make in MODELS.items():
        folder = os.path.join(out_dir, name)
        model = make().eval()
        randomize(model)
        model.tie_weights()
        model.save_pretrained(folder, max_shard_size="60KB" if name == "llama_gqa" else "5GB")
        write(folder, model, rng.integers(0, SIZES["vocab_size"], 200).tolist(), 20, 40)
    json.dump(list(MODELS), open(os.path.join(out_dir, "models.json"), "w"))


main()
