#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a trace of a long prompt and many heads for `headscope bench --gui`, without a model: 131,072 tokens and 1,024 heads by default, 5 GB.

    PYTHONPATH=python benchmarks/window/make_long_trace.py OUT.h5 [--tokens N] [--layers N] [--heads N] [--head-dim N]

A head has a sink, a slash and verticals by construction. Every head reads the keys of the first layer, and all have the same queries: what is timed depends on
sizes and not on what the heads do, and the log-sum-exp is computed once, in float64.
"""
import argparse

import numpy as np

from headscope.layout import Layout, LayerFacts
from headscope.writer import TraceWriter


def as_bfloat16(values):
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(halves):
    return (halves.astype(np.uint32) << 16).view(np.float32)


def vectors(tokens, dim):
    random = np.random.default_rng(1)
    k = random.standard_normal((tokens, dim)).astype(np.float32)
    q = random.standard_normal((tokens, dim)).astype(np.float32)
    sink = random.standard_normal(dim).astype(np.float32)
    k[0] += 3 * sink
    k[:: max(tokens // 12, 1)] += 2 * sink
    q += sink
    q[64:] += 0.8 * k[:-64]  # the slash
    return as_bfloat16(q), as_bfloat16(k)


def log_sum_exp(q, k, scale):
    q, k = from_bfloat16(q), from_bfloat16(k)
    lse = np.empty(len(q), np.float32)
    step = 1024
    for begin in range(0, len(q), step):
        end = min(begin + step, len(q))
        scores = (q[begin:end] @ k[:end].T).astype(np.float32) * scale
        scores[np.arange(end)[None, :] > np.arange(begin, end)[:, None]] = -np.inf
        top = scores.max(axis=1)
        lse[begin:end] = top + np.log(np.exp(scores - top[:, None]).sum(axis=1, dtype=np.float64))
    return lse


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    for name, default in (("tokens", 131072), ("layers", 32), ("heads", 32), ("head-dim", 16)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    dim, scale = options.head_dim, options.head_dim**-0.5
    q, k = vectors(options.tokens, dim)
    lse = log_sum_exp(q, k, scale)
    facts = [
        LayerFacts(
            num_qo_heads=options.heads, num_kv_heads=1, head_dim=dim, v_head_dim=dim, qo_heads=tuple(range(options.heads)), kv_heads=(0,),
            softmax_scale=scale, kv_layer=-1 if layer == 0 else 0,
        )
        for layer in range(options.layers)
    ]
    layout = Layout(
        "synthetic", "synthetic", "{}", options.layers, options.heads, 1, dim, list(range(options.layers)), facts,
        prompt_source="benchmarks/window/make_long_trace.py",
    )
    writer = TraceWriter(options.out, layout, options.tokens, options.tokens)
    step = 8192
    for begin in range(0, options.tokens, step):
        end = min(begin + step, options.tokens)
        count = end - begin
        writer.append_tokens(np.arange(begin, end) % 32000, np.zeros(count), np.zeros(count), [b" w%d" % token for token in range(begin, end)])
        writer.append_rows(np.arange(begin, end))
        for slot in range(options.layers):
            writer.write(slot, "q", begin, np.broadcast_to(q[begin:end], (options.heads, count, dim)).copy())
            writer.write(slot, "lse", begin, np.broadcast_to(lse[begin:end], (options.heads, count)).copy())
            if slot == 0:
                writer.write(slot, "k", begin, k[None, begin:end])
                writer.write(slot, "v", begin, k[None, begin:end])
            writer.advance(slot, count, count)
        writer.flush()
    writer.finish()


if __name__ == "__main__":
    main()
