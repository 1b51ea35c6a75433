# SPDX-License-Identifier: Apache-2.0
"""A Hugging Face folder in bf16. The tensors are rounded as they are written; the model in memory keeps its precision."""
import json
import os
import shutil

import torch
from safetensors.torch import save_file

from recipe.settings import BOS, CONFIG, EOS

SHARD_BYTES = 15 * 2**20 - 2**16  # below 15 MiB with its header


def export(model, folder, tokenizer_file):
    os.makedirs(folder, exist_ok=True)
    shards, size = [{}], 0
    for name, parameter in model.named_parameters():
        tensor = parameter.detach().to(torch.bfloat16).cpu().contiguous()
        if size + tensor.nbytes > SHARD_BYTES and shards[-1]:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    weight_map = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        save_file(shard, f"{folder}/{file}", metadata={"format": "pt"})
        weight_map.update({name: file for name in shard})
    total = sum(tensor.nbytes for shard in shards for tensor in shard.values())
    texts = {
        "model.safetensors.index.json": dict(metadata=dict(total_size=total), weight_map=weight_map),
        "config.json": dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu", attention_bias=False, mlp_bias=False,
                            attention_dropout=0.0, tie_word_embeddings=True, bos_token_id=BOS, eos_token_id=EOS, pretraining_tp=1, rope_scaling=None,
                            initializer_range=0.02, torch_dtype="bfloat16", use_cache=True, **CONFIG),
        "generation_config.json": dict(bos_token_id=BOS, eos_token_id=EOS, do_sample=False),
        "tokenizer_config.json": dict(tokenizer_class="PreTrainedTokenizerFast", bos_token="<s>", eos_token="</s>", add_bos_token=True,
                                      model_max_length=CONFIG["max_position_embeddings"], clean_up_tokenization_spaces=False),
    }
    for name, value in texts.items():
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.write(json.dumps(value, indent=2) + "\n")
    shutil.copy(tokenizer_file, folder + "/tokenizer.json")
