# SPDX-License-Identifier: Apache-2.0
"""Decode methods that let go of tokens, as generations; see methods_kept_sets.py, which compares them.

Each takes a problem (its `prompt` first tokens are there before decoding) and a sequence of the batch, and yields what each step attends
to: for every KV head a mask over all tokens.
"""
import math

import numpy as np

from kept_set_rules import Ambiguous, softmax, top_k


def probabilities(p, b, h, row, tokens):
    """Of one query over some tokens."""
    return softmax(p.cap(p.softmax_scale * p.k[b, h // p.group][tokens] @ p.q[b, h, row]))


def heads_of(p, kv):
    return range(kv * p.group, (kv + 1) * p.group)


def prompt_attention(p, b, h, rows):
    """[rows, prompt]: causal probabilities of rows of the prompt."""
    scores = p.cap(p.softmax_scale * p.q[b, h, rows] @ p.k[b, h // p.group][: p.prompt].T)
    scores = np.where(np.arange(p.prompt)[None, :] <= rows[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def h2o(p, b, k, local_share):
    local = min(max(1, math.floor(local_share * k + 1e-9)), k)
    kept = [np.arange(p.prompt) for _ in range(p.num_kv_heads)]
    mass = [np.zeros(p.seq_k) for _ in range(p.num_kv_heads)]
    for kv in range(p.num_kv_heads):
        for h in heads_of(p, kv):
            mass[kv][: p.prompt] += prompt_attention(p, b, h, np.arange(p.prompt)).sum(axis=0)

    def shrink(kv):
        if len(kept[kv]) > k:
            older, newest = kept[kv][: len(kept[kv]) - local], kept[kv][len(kept[kv]) - local :]
            kept[kv] = np.concatenate([older[top_k(mass[kv][older], k - local)], newest])

    for kv in range(p.num_kv_heads):
        shrink(kv)
    for row in range(p.prompt, p.seq_k):
        masks = np.zeros((p.num_kv_heads, p.seq_k), bool)
        for kv in range(p.num_kv_heads):
            kept[kv] = np.append(kept[kv], row)
            shrink(kv)
            for h in heads_of(p, kv):
                mass[kv][kept[kv]] += probabilities(p, b, h, row, kept[kv])
            masks[kv, kept[kv]] = True
        yield masks


def tova(p, b, k):
    kept = np.arange(p.prompt)

    def shrink(kept, row):
        if len(kept) <= k:
            return kept
        return kept[top_k(sum(probabilities(p, b, h, row, kept) for h in range(p.num_qo_heads)), k)]

    kept = shrink(kept, p.prompt - 1)
    for row in range(p.prompt, p.seq_k):
        kept = np.append(kept, row)
        masks = np.zeros((p.num_kv_heads, p.seq_k), bool)
        masks[:, kept] = True
        yield masks
        kept = shrink(kept, row)


def evict_prompt(p, scores, compression_ratio, budget, allocation, ada_floor, pyramid=lambda budget: budget):
    """scores [KV heads, prompt], larger kept first: one choice, and every new token behind it."""
    budget = budget if budget > 0 else math.floor((1 - compression_ratio) * p.prompt + 1e-9)
    budget = min(max(budget, 1), p.prompt)
    budget = min(max(pyramid(budget), 1), p.prompt)
    if allocation:
        own = np.array([top_k(score, math.floor(ada_floor * budget)) for score in scores])
        kept = top_k(np.where(own, np.inf, scores).ravel(), budget * len(scores)).reshape(scores.shape)
    else:
        kept = np.array([top_k(score, budget) for score in scores])
    for row in range(p.prompt, p.seq_k):
        masks = np.zeros((len(scores), p.seq_k), bool)
        masks[:, : p.prompt] = kept
        masks[:, p.prompt : row + 1] = True
        yield masks


def window_votes(p, b, kv, window, kernel, pooling):
    window = min(window, p.prompt)
    rows = np.arange(p.prompt - window, p.prompt)
    votes = np.mean([prompt_attention(p, b, h, rows).mean(axis=0) for h in heads_of(p, kv)], axis=0)[: p.prompt - window]
    padded = np.concatenate([np.zeros(kernel // 2), votes, np.zeros(kernel)])
    neighbours = np.array([padded[i : i + kernel] for i in range(len(votes))]).reshape(len(votes), kernel)
    pooled = neighbours.max(axis=1, initial=0) if pooling else neighbours.mean(axis=1)
    return np.concatenate([pooled, np.full(window, np.inf)])


def snap_kv(p, b, window, kernel, pooling, **eviction):
    return evict_prompt(p, np.array([window_votes(p, b, kv, window, kernel, pooling) for kv in range(p.num_kv_heads)]), **eviction)


def pyramid_kv(p, b, window, kernel, pooling, beta, num_layers, **eviction):
    def pyramid(budget):
        least = budget / beta
        largest = 2 * budget - least
        if largest > p.prompt - window:
            largest = p.prompt - window
            least = 2 * budget - largest
        if not p.prompt >= largest >= least >= window or num_layers == 1:
            return budget
        return math.floor(largest - (largest - least) * min(p.layer, num_layers - 1) / (num_layers - 1) + 0.5)

    scores = np.array([window_votes(p, b, kv, window, kernel, pooling) for kv in range(p.num_kv_heads)])
    return evict_prompt(p, scores, pyramid=pyramid, **eviction)


def chunk_kv(p, b, window, kernel, pooling, chunk, **eviction):
    scores = np.array([window_votes(p, b, kv, window, kernel, pooling) for kv in range(p.num_kv_heads)])
    before = p.prompt - min(window, p.prompt)
    for begin in range(0, before, chunk):
        end = min(begin + chunk, before)
        scores[:, begin:end] = scores[:, begin:end].mean(axis=1, keepdims=True)
    # Tokens of a chunk are alike by design: the earlier one first, and only ties of chunks are ambiguous.
    order = scores.copy()
    for kv in range(p.num_kv_heads):
        chunks = np.unique(scores[kv][np.isfinite(scores[kv])])
        if len(chunks) > 1 and np.min(np.diff(chunks)) < 1e-5 * chunks[-1]:
            raise Ambiguous
        order[kv, :before] -= 1e-4 * np.min(np.diff(chunks), initial=chunks[-1] if len(chunks) else 1) * np.arange(before) / max(before, 1)
    return exact_order(p, order, **eviction)


def exact_order(p, scores, compression_ratio, budget, allocation, ada_floor):
    """As evict_prompt, uniform, where scores are in order by construction."""
    budget = budget if budget > 0 else math.floor((1 - compression_ratio) * p.prompt + 1e-9)
    budget = min(max(budget, 1), p.prompt)
    for row in range(p.prompt, p.seq_k):
        masks = np.zeros((len(scores), p.seq_k), bool)
        for kv, score in enumerate(scores):
            masks[kv, np.argsort(-score, kind="stable")[:budget]] = True
        masks[:, p.prompt : row + 1] = True
        yield masks


def knorm(p, b, **eviction):
    return evict_prompt(p, -np.linalg.norm(p.k[b, :, : p.prompt], axis=-1), **eviction)


def key_diff(p, b, **eviction):
    keys = p.k[b, :, : p.prompt]
    unit = keys / np.linalg.norm(keys, axis=-1, keepdims=True)
    mean = unit.mean(axis=1, keepdims=True)
    return evict_prompt(p, -(unit * mean).sum(axis=-1) / np.linalg.norm(mean, axis=-1), **eviction)


def lag_kv(p, b, lag, n_sink, ranks, **eviction):
    n_sink = min(n_sink, p.prompt)
    scores = np.full((p.num_kv_heads, p.prompt), np.inf)
    partitions = (p.prompt - n_sink) // lag
    if partitions < 2:
        scores[:, n_sink:] = np.arange(n_sink, p.prompt)
        return evict_prompt(p, scores, **eviction)
    for kv in range(p.num_kv_heads):
        for number in range(partitions - 1):
            begin = n_sink + number * lag
            score = np.zeros(lag)
            for x in (p.k[b, kv], p.v[b, kv]):
                following = x[begin + lag : begin + 2 * lag]
                low, high = following.min(axis=0), following.max(axis=0)
                score += softmax(((x[begin : begin + lag] - low) / (high - low)).std(axis=-1, ddof=1)) / 2
            if ranks:
                order = np.argsort(score)
                if np.min(np.diff(score[order])) < 2e-6 * score.max():
                    raise Ambiguous
                score[order] = np.arange(1, lag + 1)
            scores[kv, begin : begin + lag] = score
    return evict_prompt(p, tie_break(scores), **eviction)


def tie_break(scores):
    """Ranks of different partitions are equal: the earlier token first, by less than their distance."""
    finite = np.isfinite(scores)
    return np.where(finite, scores - (1e-3 * np.arange(scores.size).reshape(scores.shape) / scores.size if (scores[finite] >= 1).all() else 0), scores)


METHODS = {
    "h2o": h2o,
    "tova": tova,
    "snap-kv": snap_kv,
    "pyramid-kv": pyramid_kv,
    "chunk-kv": chunk_kv,
    "knorm": knorm,
    "key-diff": key_diff,
    "lag-kv": lag_kv,
}
