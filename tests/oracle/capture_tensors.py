# SPDX-License-Identifier: Apache-2.0
"""What a finished trace of the shipped model holds, against transformers: q and k after RoPE, v, and lse of every recorded row.

    capture_tensors.py HEADSCOPE MODEL_DIR PROSE

The same weights run a second time as the mistral family with a sliding window that is shorter than the prompt. headscope captures a prompt in fp32, in chunks, with decode steps and with several selections of layers, heads and rows. transformers runs the tokens of each
trace in one pass, with an attention function of our own in its modules that keeps what they were given. Log-sum-exps are computed here in float64
from transformers' tensors. Both models round differently (order of sums), so vectors are compared by the relative L2 error of each head, 1e-5, and
log-sum-exps absolutely, 1e-4 nats.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import torch
import transformers
from tokenizers import Tokenizer

VECTOR_TOLERANCE, LSE_TOLERANCE = 1e-5, 1e-4
PROMPT_CHARACTERS, CHUNK, DECODE, WINDOW = 1500, 128, 4, 100
SELECTIONS = [
    {},
    {"--layers": "0,4-5,9", "--heads": "1,6-7", "--rows": "last:40"},
    {"--layers": "7", "--heads": "3", "--rows": "every:13"},
]
kept = {}


def seen(tokens, window):
    """Which keys a row sees: itself and those before it, or the newest `window` of them."""
    distance = np.arange(tokens)[:, None] - np.arange(tokens)
    return (distance >= 0) & (distance < (window or tokens))


def keeping_attention(module, query, key, value, attention_mask, scaling, dropout=0.0, sliding_window=None, **_):
    """Attention of transformers' modules, in plain words; keeps its inputs by layer."""
    kept[module.layer_idx] = [tensor[0].double().numpy() for tensor in (query, key, value)] + [scaling, sliding_window]
    groups = query.shape[1] // key.shape[1]
    return torch.nn.functional.scaled_dot_product_attention(
        query, key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1), attn_mask=torch.from_numpy(seen(query.shape[2], sliding_window)),
        scale=scaling).transpose(1, 2), None


def lse_of(q, k, scale, window):
    scores = np.where(seen(len(q), window), scale * q @ k.T, -np.inf)
    top = scores.max(axis=1)
    return top + np.log(np.exp(scores - top[:, None]).sum(axis=1))


def relative_error(found, wanted):
    return np.linalg.norm(found.astype(np.float64) - wanted) / np.linalg.norm(wanted)


class Trace:
    def __init__(self, path):
        with h5py.File(path, "r") as file:
            attention = file["attention"]
            assert file.attrs["complete"] and attention.attrs["encoding"] == b"float32", path
            self.ids, self.phase = file["tokens/ids"][:], file["tokens/phase"][:]
            self.layers, self.qo_heads, self.kv_heads = (list(attention[name][:]) for name in ("layers", "qo_heads", "kv_heads"))
            self.rows = attention["q_rows"][:]
            facts = file["layers"].attrs
            self.windows, self.lse_keys = list(facts.get("window", [0] * len(self.layers))), attention["lse_keys"][:]
            assert not any(facts["part"]) and list(facts["layer"]) == self.layers
            self.q, self.k, self.v, self.lse = (attention[name][:] for name in ("q", "k", "v", "lse"))
            self.group = int(file["model"].attrs["num_qo_heads"]) // int(file["model"].attrs["num_kv_heads"])


def numbers(text, count):
    """'0,4-5' as a list; everything when there is no text."""
    if not text:
        return list(range(count))
    spans = [[int(end) for end in part.split("-")] for part in text.split(",")]
    return [number for span in spans for number in range(span[0], span[-1] + 1)]


def expected_rows(text, prompt, total):
    kind, _, count = (text or "all").partition(":")
    keep = {"all": lambda i: True, "last": lambda i: i >= prompt - int(count), "every": lambda i: i % int(count) == 0}[kind]
    return [i for i in range(total) if i >= prompt or keep(i)]


def compare(trace, selection, config):
    """Largest errors of vectors and log-sum-exps, and the number of heads compared."""
    prompt, total = int((trace.phase == 0).sum()), len(trace.ids)
    assert trace.layers == numbers(selection.get("--layers"), config.num_hidden_layers), trace.layers
    assert trace.qo_heads == numbers(selection.get("--heads"), config.num_attention_heads), trace.qo_heads
    assert trace.kv_heads == sorted({head // trace.group for head in trace.qo_heads}), trace.kv_heads
    assert list(trace.rows) == expected_rows(selection.get("--rows"), prompt, total), trace.rows
    assert trace.k.shape[2] == total and trace.q.shape[2] == len(trace.rows)
    vectors, lse = [], []
    for slot, layer in enumerate(trace.layers):
        q, k, v, scale, window = kept[layer]
        assert trace.windows[slot] == (window or 0), (layer, trace.windows)
        assert list(trace.lse_keys[slot]) == [min(row + 1, window or row + 1) for row in trace.rows], layer
        for head_slot, head in enumerate(trace.qo_heads):
            vectors.append(relative_error(trace.q[slot, head_slot], q[head][trace.rows]))
            lse.append(np.abs(trace.lse[slot, head_slot] - lse_of(q[head], k[head // trace.group], scale, window)[trace.rows]).max())
        for head_slot, head in enumerate(trace.kv_heads):
            vectors.append(relative_error(trace.k[slot, head_slot], k[head]))
            vectors.append(relative_error(trace.v[slot, head_slot], v[head]))
    return max(vectors), max(lse), len(lse)


def with_window(model_dir, folder):
    """The checkpoint as a Mistral model with a window."""
    folder.mkdir()
    for path in pathlib.Path(model_dir).resolve().iterdir():
        if path.suffix in (".safetensors", ".json") and path.name not in ("config.json", "generation_config.json"):
            (folder / path.name).symlink_to(path)
    config = json.loads(pathlib.Path(model_dir, "config.json").read_text())
    config.update(model_type="mistral", architectures=["MistralForCausalLM"], sliding_window=WINDOW)
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def check(headscope, model_dir, prompt, selections):
    """The number of selections in which headscope and transformers differ."""
    model = transformers.AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32, attn_implementation="keeping").eval()
    ids = Tokenizer.from_file(model_dir + "/tokenizer.json").encode(prompt.read_text()).ids
    assert len(ids) > 2 * CHUNK and len(ids) % CHUNK, "the prompt must take several chunks, the last one ragged"
    failed, tokens = 0, None
    for number, selection in enumerate(selections):
        path = f"{prompt.parent}/{model.config.model_type}-{number}.h5"
        options = [word for pair in selection.items() for word in pair]
        subprocess.run([headscope, "capture", model_dir, "--prompt", str(prompt), "--dtype", "fp32", "--chunk", str(CHUNK), "--decode", str(DECODE),
                        "--quiet", "-o", path, *options], check=True, stdout=subprocess.DEVNULL)
        trace = Trace(path)
        assert list(trace.ids[: len(ids)]) == ids and len(trace.ids) == len(ids) + DECODE, "the trace's tokens are not the prompt's"
        if tokens is None:  # the same tokens in every selection
            tokens = list(trace.ids)
            with torch.no_grad():
                logits = model(torch.tensor([tokens]), use_cache=False).logits[0]
            greedy = logits[len(ids) - 1 : -1].argmax(-1).tolist()
            assert greedy == tokens[len(ids) :], f"decoded {tokens[len(ids):]}, transformers {greedy}"
        assert list(trace.ids) == tokens
        vectors, lse, heads = compare(trace, selection, model.config)
        good = vectors <= VECTOR_TOLERANCE and lse <= LSE_TOLERANCE
        failed += not good
        print(f"{'ok' if good else 'FAILED'}: {model.config.model_type} {options or 'everything'}: {heads} heads, {len(trace.rows)} rows of {len(tokens)} tokens;"
              f" relative error of vectors {vectors:.1e}, of lse {lse:.1e} nats")
    return failed


def main():
    headscope, model_dir, prose = sys.argv[1:4]
    torch.set_num_threads(2)
    transformers.AttentionInterface.register("keeping", keeping_attention)
    with tempfile.TemporaryDirectory() as folder:
        prompt = pathlib.Path(folder, "prompt.txt")
        prompt.write_text(pathlib.Path(prose).read_text()[:PROMPT_CHARACTERS])
        failed = check(headscope, model_dir, prompt, SELECTIONS)
        failed += check(headscope, with_window(model_dir, pathlib.Path(folder, "windowed")), prompt, SELECTIONS[:2])
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
