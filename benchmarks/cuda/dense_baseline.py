# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch's cuDNN attention (bf16, 32 heads, causal) and prints "LENGTH MILLISECONDS" lines for attend_bench --baseline."""
import argparse
import statistics

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS, REPEATS = 32, 7
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--head-dim", type=int, default=128)
parser.add_argument("--v-head-dim", type=int, help="as --head-dim unless given")
options = parser.parse_args()
head_dims = (options.head_dim, options.head_dim, options.v_head_dim or options.head_dim)
flush = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
for length in (8192, 16384, 32768, 65536, 131072):
    q, k, v = (torch.randn(1, HEADS, length, head_dim, device="cuda", dtype=torch.bfloat16) for head_dim in head_dims)
    times = []
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        for repeat in range(REPEATS + 2):
            flush.zero_()
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            stop.record()
            stop.synchronize()
            if repeat >= 2:
                times.append(start.elapsed_time(stop))
    print(length, f"{statistics.median(times):.4f}", flush=True)
