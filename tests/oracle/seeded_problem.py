# SPDX-License-Identifier: Apache-2.0
"""The recipe "headscope-seeded-1" in NumPy, written from docs/bench.md, and a check that headscope makes the same bits.

    seeded_problem.py DUMP_PROGRAM
"""
import subprocess
import sys

import numpy as np


def random_at(key, i):
    """Number i (an integer or an array of them) of stream `key`: output i + 1 of SplitMix64 seeded with the key."""
    with np.errstate(over="ignore"):
        z = np.uint64(key) + (np.asarray(i, np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def marked(seed, batch, num_kv_heads, seq_k):
    """Which keys are shifted: bool [batch, num_kv_heads, seq_k]."""
    num_blocks = -(-seq_k // 64)
    blocks = random_at(random_at(seed, 4), np.arange(batch * num_kv_heads * num_blocks)) >> np.uint64(59) == 0
    marks = np.repeat(blocks.reshape(batch, num_kv_heads, num_blocks), 64, axis=2)[:, :, :seq_k]
    tokens = np.arange(seq_k)
    return (marks & (tokens % 8 == 0)) | (tokens < 4)


def seeded(tensor, seed, batch, num_qo_heads, num_kv_heads, head_dim, seq_q, seq_k):
    """q [batch, num_qo_heads, seq_q, head_dim], k or v [batch, num_kv_heads, seq_k, head_dim], fp32."""
    heads, rows = (num_qo_heads, seq_q) if tensor == "q" else (num_kv_heads, seq_k)
    shape = (batch, heads, rows, head_dim)
    bits = random_at(random_at(seed, "qkv".index(tensor)), np.arange(np.prod(shape, dtype=np.int64))).reshape(shape)
    fields = sum(((bits >> np.uint64(16 * f)) & np.uint64(0xFFFF)).astype(np.int64) for f in range(4))
    values = 2 * fields - 4 * 65535
    deviation = 2 * np.sqrt(4 * (65536.0**2 - 1) / 12)
    if tensor != "v":
        shift = int(np.rint(np.sqrt(9 / np.sqrt(head_dim)) * deviation))
        signs = random_at(random_at(seed, 3), np.arange(batch * num_kv_heads * head_dim)) >> np.uint64(63) == 0
        direction = np.where(signs, shift, -shift).reshape(batch, num_kv_heads, 1, head_dim)
        if tensor == "q":
            values = values + np.repeat(direction, num_qo_heads // num_kv_heads, axis=1)
        else:
            values = values + marked(seed, batch, num_kv_heads, seq_k)[..., None] * direction
    return values.astype(np.float32) * np.float32(1 / deviation)


def bfloat16_bits(values):
    bits = values.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)).astype(np.uint16)


def main(program):
    checked = 0
    for seed, batch, qo, kv, dim, seq_q, seq_k in (
        (1, 1, 2, 2, 64, 300, 300), (2**64 - 1, 2, 6, 2, 8, 1, 77), (12345678901234567890, 3, 4, 1, 128, 130, 130), (0, 1, 1, 1, 256, 1, 1),
    ):
        for tensor in "qkv":
            expected = seeded(tensor, seed, batch, qo, kv, dim, seq_q, seq_k)
            for dtype in ("fp32", "bf16", "fp16"):
                arguments = [str(x) for x in (seed, batch, qo, kv, dim, seq_q, seq_k, tensor, dtype)]
                raw = subprocess.run([program, *arguments], check=True, capture_output=True).stdout
                got = np.frombuffer(raw, np.float32 if dtype == "fp32" else np.uint16).reshape(expected.shape)
                want = {"fp32": lambda: expected, "bf16": lambda: bfloat16_bits(expected), "fp16": lambda: expected.astype(np.float16).view(np.uint16)}[dtype]()
                if not np.array_equal(got.view(np.uint32 if dtype == "fp32" else np.uint16), want.view(np.uint32 if dtype == "fp32" else np.uint16)):
                    sys.exit(f"{' '.join(arguments)}: {np.count_nonzero(got != want)} of {got.size} elements differ from NumPy's")
                checked += got.size
    # What the recipe promises of its values: unit variance, and marked keys that stand out by 9 nats.
    q, k, v = (seeded(t, 7, 1, 1, 1, 128, 4096, 4096)[0, 0].astype(np.float64) for t in "qkv")
    scores = q[::64] @ k.T / np.sqrt(128)
    marks = marked(7, 1, 1, 4096)[0, 0]
    lift = scores[:, marks].mean() - scores[:, ~marks].mean()
    if abs(v.std() - 1) > 0.01 or abs(v.mean()) > 0.01 or abs(lift - 9) > 0.5 or not 4 < marks.sum() < 80:
        sys.exit(f"mean {v.mean()}, deviation {v.std()}, {marks.sum()} marked keys, their lift {lift}")
    print(f"{checked} elements have NumPy's bits; deviation {v.std():.4f}, {marks.sum()} marked keys of 4096, lift {lift:.2f} nats")


if __name__ == "__main__":
    main(sys.argv[1])
