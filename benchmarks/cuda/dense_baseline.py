# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch's cuDNN attention (bf16, head_dim 128, 32 heads, causal) and prints "LENGTH MILLISECONDS" lines for attend_bench --baseline."""
import statistics

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS, HEAD_DIM, REPEATS = 32, 128, 7
flush = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
for length in (8192, 16384, 32768, 65536, 131072):
    q, k, v = (torch.randn(1, HEADS, length, HEAD_DIM, device="cuda", dtype=torch.bfloat16) for _ in range(3))
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
