# SPDX-License-Identifier: Apache-2.0
"""Peak memory of a capture does not grow with the trace: the recorder's share is bounded while the trace is several times larger. Nor is a shard held beside the
weights that were read from it.

    capture_memory_test.py HEADSCOPE MODEL_DIR

A checkpoint of many thin layers makes a large trace with little arithmetic (random weights; the tokenizer is MODEL_DIR's). Each length is captured twice, with
every head and with one; the model, its KV cache and its activations are the same in both, so the difference of the two peaks is what recording takes.
What may be held: 64 MiB queued for the writer and the block being pushed, one open chunk of 256 KiB per tensor of a head, and what allocators keep.

A second checkpoint has wider layers in bf16, which the CPU widens to fp32. What all of its layers take beside the first one is that, a tensor and what is kept.
"""
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import numpy as np

LAYERS, HEADS, HEAD_DIM, HIDDEN, VOCABULARY = 32, 4, 64, 64, 4096
QUEUE_MIB, OPEN_CHUNKS_MIB, SLACK_MIB = 64, LAYERS * 3 * HEADS // 4, 40
LAST = str(LAYERS - 1)  # a capture of lower layers alone would leave those above without a cache
WIDE, WIDE_LAYERS, WEIGHTS_SLACK_MIB = 512, 8, 24
LENGTHS = (1664, 3328)  # traces of 0.16 and 0.32 GiB: the longer one is a half more than may be held


def write_checkpoint(folder, model_dir, layers, hidden, inner, in_bf16):
    """Llama layout, one shard, weights of one standard deviation over the square root of their inputs. Returns the numbers of a layer."""
    folder.mkdir()
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers,
              "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "head_dim": HEAD_DIM, "vocab_size": VOCABULARY, "max_position_embeddings": 8192,
              "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True, "torch_dtype": "bfloat16" if in_bf16 else "float32"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_bytes(pathlib.Path(model_dir, "tokenizer.json").read_bytes())
    width = HEADS * HEAD_DIM
    shapes = {"model.embed_tokens.weight": (VOCABULARY, hidden), "model.norm.weight": (hidden,)}
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        shapes |= {prefix + f"self_attn.{name}_proj.weight": (width, hidden) for name in "qkv"}
        shapes |= {prefix + f"mlp.{name}_proj.weight": (inner, hidden) for name in ("gate", "up")} | {prefix + "mlp.down_proj.weight": (hidden, inner)}
        shapes |= {prefix + f"{name}_layernorm.weight": (hidden,) for name in ("input", "post_attention")}
        shapes[prefix + "self_attn.o_proj.weight"] = (hidden, width)
    random, header, data, end = np.random.default_rng(5), {}, [], 0
    for name, shape in shapes.items():
        values = np.ones(shape, np.float32) if len(shape) == 1 else random.standard_normal(shape, np.float32) / np.float32(shape[1] ** 0.5)
        data.append((values.view(np.uint32) >> 16).astype(np.uint16).tobytes() if in_bf16 else values.tobytes())
        header[name] = {"dtype": "BF16" if in_bf16 else "F32", "shape": shape, "data_offsets": [end, end + len(data[-1])]}
        end += len(data[-1])
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))
    return sum(math.prod(shape) for name, shape in shapes.items() if ".layers.0." in name)


def capture(headscope, folder, length, *options):
    """Peak memory of one capture and the size of its trace, MiB."""
    out = folder / "trace.h5"
    process = subprocess.Popen([headscope, "capture", str(folder), "--task", "repeat", "--length", str(length), "--quiet", "--force", "-o", str(out), *options],
                               stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, f"the capture of {length} tokens ended with status {status}"
    return usage.ru_maxrss / 1024, out.stat().st_size / 2**20


def estimate(headscope, folder, length):
    """MiB that --dry-run speaks of."""
    command = [headscope, "capture", str(folder), "--task", "repeat", "--length", str(length), "--dry-run", "--force", "-o", str(folder / "trace.h5")]
    value, unit = re.search(r"^  memory +about ([0-9.]+) (MiB|GiB)$", subprocess.run(command, capture_output=True, text=True, check=True).stdout, re.M).groups()
    return float(value) * (1024 if unit == "GiB" else 1)


def main():
    headscope, model_dir = sys.argv[1:3]
    shares, sizes, bound = [], [], QUEUE_MIB + OPEN_CHUNKS_MIB + SLACK_MIB
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name, "thin")
        write_checkpoint(folder, model_dir, LAYERS, HIDDEN, HIDDEN, in_bf16=False)
        for length in LENGTHS:
            peak, size = capture(headscope, folder, length)
            without, _ = capture(headscope, folder, length, "--layers", LAST, "--heads", "0", "--rows", "last:1")
            shares.append(peak - without)
            sizes.append(size)
            told = estimate(headscope, folder, length)
            print(f"{length} tokens: peak {peak:.0f} MiB with a trace of {size:.0f} MiB, {without:.0f} MiB recording one head: recording takes {shares[-1]:.0f} MiB; --dry-run says {told:.0f} MiB", flush=True)
            assert peak / 1.5 <= told <= peak * 1.5, "--dry-run is far from what the capture takes"
        wide = pathlib.Path(name, "wide")
        of_layer = write_checkpoint(wide, model_dir, WIDE_LAYERS, WIDE, 4 * WIDE, in_bf16=True) * 4 / 2**20
        shard = (wide / "model.safetensors").stat().st_size / 2**20
        one, every = (capture(headscope, wide, 200, "--layers", layers, "--heads", "0", "--rows", "last:1")[0] for layers in ("0", str(WIDE_LAYERS - 1)))
    weights = (WIDE_LAYERS - 1) * of_layer
    print(f"weights of {weights:.0f} MiB, from a shard of {shard:.0f} MiB, take {every - one:.0f} MiB")
    assert every - one <= weights + WEIGHTS_SLACK_MIB < weights + shard / 2, "the file's bytes are held beside the weights"
    growth = shares[1] - shares[0]
    print(f"bound {bound} MiB; {growth:+.0f} MiB for {sizes[1] - sizes[0]:.0f} MiB more of trace")
    assert sizes[1] > 1.5 * bound, "the trace must be larger than what may be held, or the bound says nothing"
    assert max(shares) <= bound, "recording takes more memory than its queue and open chunks"
    assert growth <= (sizes[1] - sizes[0]) / 3, "recording takes memory in proportion to the trace"


main()
