# SPDX-License-Identifier: Apache-2.0
"""Decode methods whose output is not attention to a mask, as steps over a recorded layer (trace_rows.Recorded).

Each yields, for a step of each of the last rows, which tokens every query head attends to, [heads, tokens], and the output of every query head.

MagicPIG by Algorithm 1 of the paper: a token is sampled that falls into the query's bucket in two of L tables, and stands for 1 / u of its kind. ThinK by section
3.2: of a prompt's keys the floor((1 - ratio) d) components stay whose part of Q K^T is largest by Frobenius' norm.
"""
import math

import numpy as np

from kept_set_rules import RELATIVE_GAP, Ambiguous, random_planes


def seen_from(whole, row):
    """The first token that a row sees, and the one behind the last."""
    position = int(whole.position[row])
    return max(0, position + 1 - whole.window) if whole.window else 0, position + 1


def attention(whole, h, row, first, keys, factors):
    """Of a query over the keys from token `first` on, exponentials times factors, beside the model's sink."""
    logits = whole.cap(whole.softmax_scale * keys @ whole.q[0, h, row])
    top = max(logits.max(), whole.sinks[h]) if whole.sinks else logits.max()
    weights = factors * np.exp(logits - top)
    beside = math.exp(whole.sinks[h] - top) if whole.sinks else 0.0
    values = whole.v[0, h // whole.group, first : first + len(keys)]
    return weights @ values / (weights.sum() + beside)


def bucket_numbers(vectors, planes, bits):
    """[vectors, tables]: the sides of each table's planes as a number of so many bits."""
    sides = vectors @ planes.T
    sizes = np.linalg.norm(vectors, axis=1)[:, None] * np.linalg.norm(planes, axis=1)[None, :]
    if np.any(np.abs(sides) < 1e-6 * sizes):
        raise Ambiguous
    digits = (sides > 0).astype(np.int64).reshape(len(vectors), -1, bits)
    return digits @ (1 << np.arange(bits))


def chance_of_two(cosines, bits, tables):
    """That vectors at such an angle meet in two tables at least: 1 less that of none and of one."""
    meet = (1 - np.arccos(np.clip(cosines, -1, 1)) / np.pi) ** bits
    return 1 - (1 - meet) ** tables - tables * meet * (1 - meet) ** (tables - 1)


def magic_pig(whole, rows, bits, tables, n_sink, n_local, epsilon, dense_every, seed):
    assert not dense_every or whole.layer % dense_every, "a dense layer"
    planes = random_planes(bits * tables, whole.head_dim, seed)
    start, end = seen_from(whole, rows[0])
    end -= 1  # of the prompt
    first, last = min(start + n_sink, end), max(min(start + n_sink, end), end - n_local)
    for row in rows:
        begin, stop = seen_from(whole, row)
        read, outputs = np.zeros((whole.num_qo_heads, whole.seq_k), bool), []
        for kv in range(whole.num_kv_heads):
            group = range(kv * whole.group, (kv + 1) * whole.group)
            factors = {h: np.ones(whole.seq_k) for h in group}
            if last > first:
                centred = whole.k[0, kv, first:last] - whole.k[0, kv, first:last].sum(axis=0) / (last - first)
                of_keys = bucket_numbers(centred, planes, bits)
                for h in group:
                    query = whole.q[0, h, row]
                    met = np.count_nonzero(of_keys == bucket_numbers(query[None, :], planes, bits), axis=1)
                    cosines = centred @ query / (np.sqrt((centred**2).sum(axis=1)) * math.sqrt(query @ query))
                    factors[h][first:last] = np.where(met >= 2, 1 / (chance_of_two(cosines, bits, tables) + epsilon), 0)
            for h in group:
                read[h, begin:stop] = factors[h][begin:stop] > 0
                outputs.append(attention(whole, h, row, begin, whole.k[0, kv, begin:stop], factors[h][begin:stop]))
        yield read, np.array(outputs)


def think(whole, rows, ratio, window, n_local):
    start, end = seen_from(whole, rows[0])
    end -= 1
    thin_end = max(start, end - n_local)
    stay = max(1, math.floor((1 - ratio) * whole.head_dim + 1e-9))
    keys = whole.k[0].copy()
    queries = np.flatnonzero((whole.position < end) & (whole.position >= max(start, end - window)))
    for kv in range(whole.num_kv_heads if thin_end > start else 0):
        by_component = np.zeros(whole.head_dim)
        for c in range(whole.head_dim):
            of_queries = whole.q[0, kv * whole.group : (kv + 1) * whole.group][:, queries, c].ravel()
            by_component[c] = np.linalg.norm(of_queries[:, None] * keys[kv, start:thin_end, c][None, :])
        order = sorted(range(whole.head_dim), key=lambda c: (-by_component[c], c))
        if stay < whole.head_dim and by_component[order[stay - 1]] - by_component[order[stay]] < RELATIVE_GAP * by_component.max():
            raise Ambiguous
        keys[kv, start:thin_end, order[stay:]] = 0
    for row in rows:
        begin, stop = seen_from(whole, row)
        read = np.zeros((whole.num_qo_heads, whole.seq_k), bool)
        read[:, begin:stop] = True
        ones = np.ones(stop - begin)
        yield read, np.array([attention(whole, h, row, begin, keys[h // whole.group, begin:stop], ones) for h in range(whole.num_qo_heads)])


METHODS = {"magic-pig": magic_pig, "think": think}
