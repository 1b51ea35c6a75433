# SPDX-License-Identifier: Apache-2.0
"""Decode methods that let go of tokens, as generations; see methods_kept_sets.py, which compares them.

Each takes a problem (its `prompt` first tokens are there before decoding) and a sequence of the batch, and yields what each step attends
to: for every KV head a mask over all tokens.
"""
import math

import numpy as np

from decode_definitions import SELECTORS, share_of
from kept_set_rules import Ambiguous, budget_in_tokens, random_planes, softmax, split_mix, top_k


def probabilities(p, b, h, row, tokens):
    """Of one query over some tokens and the model's sink."""
    scores = p.cap(p.softmax_scale * p.k[b, h // p.group][tokens] @ p.q[b, h, row])
    return softmax(np.append(scores, p.sinks[h]))[:-1] if p.sinks else softmax(scores)


def heads_of(p, kv):
    return range(kv * p.group, (kv + 1) * p.group)


def prompt_attention(p, b, h, rows):
    """[rows, prompt]: probabilities of rows of the prompt, inside the model's window and beside its sink."""
    scores = p.cap(p.softmax_scale * p.q[b, h, rows] @ p.k[b, h // p.group][: p.prompt].T)
    distance = rows[:, None] - np.arange(p.prompt)[None, :]
    scores = np.where((distance >= 0) & ((p.window == 0) | (distance < p.window)), scores, -np.inf)
    if p.sinks:
        scores = np.concatenate([scores, np.full((len(rows), 1), p.sinks[h])], axis=1)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (weights / weights.sum(axis=1, keepdims=True))[:, : p.prompt]


def h2o(p, b, k, local_share, compression_ratio, allocation, ada_floor, critical):
    k = budget_in_tokens(k, compression_ratio, p.prompt)
    local = min(max(1, math.floor(local_share * k + 1e-9)), k)
    kept = [np.arange(p.prompt) for _ in range(p.num_kv_heads)]
    mass = [np.zeros(p.seq_k) for _ in range(p.num_kv_heads)]
    sizes = [k] * p.num_kv_heads
    for kv in range(p.num_kv_heads):
        for h in heads_of(p, kv):
            mass[kv][: p.prompt] += prompt_attention(p, b, h, np.arange(p.prompt)).sum(axis=0)

    def shrink(kv):
        if len(kept[kv]) > sizes[kv]:
            older, newest = kept[kv][: len(kept[kv]) - local], kept[kv][len(kept[kv]) - local :]
            kept[kv] = np.concatenate([older[top_k(mass[kv][older], sizes[kv] - local)], newest])

    if k < p.prompt:
        older = p.prompt - local
        own = max(0, math.floor(ada_floor * k) - local)
        chosen = shared_out(np.array([m[:older] for m in mass]), k - local, ada_floor, allocation, own, norms_of(p, b, critical, older), local)
        kept = [np.append(np.flatnonzero(mask), np.arange(older, p.prompt)) for mask in chosen]
        sizes = [len(tokens) for tokens in kept]
    for row in range(p.prompt, p.seq_k):
        masks = np.zeros((p.num_kv_heads, p.seq_k), bool)
        for kv in range(p.num_kv_heads):
            kept[kv] = np.append(kept[kv], row)
            masks[kv, kept[kv]] = True
            for h in heads_of(p, kv):
                mass[kv][kept[kv]] += probabilities(p, b, h, row, kept[kv])
            shrink(kv)
        yield masks


def tova(p, b, k, compression_ratio, critical):
    k = budget_in_tokens(k, compression_ratio, p.prompt)
    kept = [np.arange(p.prompt)] * p.num_kv_heads

    def mean_over_the_layer(row):
        mean = np.zeros(p.seq_k)
        for h in range(p.num_qo_heads):
            mean[kept[h // p.group]] += probabilities(p, b, h, row, kept[h // p.group]) / p.num_qo_heads
        return mean

    if k < p.prompt:
        score = mean_over_the_layer(p.prompt - 1)[: p.prompt]
        kept = [np.flatnonzero(critical_kv(score, norm, k, 0)) for norm in norms_of(p, b, critical, p.prompt)]
    for row in range(p.prompt, p.seq_k):
        kept = [np.append(tokens, row) for tokens in kept]
        masks = np.zeros((p.num_kv_heads, p.seq_k), bool)
        for kv, tokens in enumerate(kept):
            masks[kv, tokens] = True
        yield masks
        if len(kept[0]) > k:
            mean = mean_over_the_layer(row)
            kept = [tokens[top_k(mean[tokens], k)] for tokens in kept]


def norms_of(p, b, critical, tokens):
    """Of the first tokens' values behind the output projection, for every KV head; None where nobody asks."""
    return [p.value_norms[b][heads_of(p, kv)].mean(axis=0)[:tokens] if critical else None for kv in range(p.num_kv_heads)]


UNIFORM, ADA, KVPRESS = range(3)


def critical_kv(score, norm, count, forced):
    """Half of the budget, of what is forced as well, by the score, and the rest by what it adds behind the output projection. All counts are
    of units: what is forced may be a part of a chunk."""
    if norm is None:
        return top_k(score, count)
    first = top_k(score, min(max(math.floor(0.5 * (count + forced) - forced), 0), count))
    return top_k(np.where(first, np.inf, (score + 1e-4) * norm), count)


def shared_out(scores, count, floor, allocation, own, norms, forced):
    """[heads, units]: which units each head keeps, `count` of them on average, of those that nothing forces."""
    heads, units = scores.shape
    if allocation == UNIFORM:
        return np.array([critical_kv(score, norm, count, forced) for score, norm in zip(scores, norms)])
    if allocation == ADA:
        shares = top_k(scores.ravel(), count * heads).reshape(heads, units).sum(axis=1)
        sizes = [int(np.rint(share * (1 - floor) + math.floor(count * floor))) for share in shares]
    else:
        kept = np.array([top_k(score, own) for score in scores])
        kept = top_k(np.where(kept, np.inf, scores).ravel(), count * heads).reshape(heads, units)
        if norms[0] is None:
            return kept
        sizes = kept.sum(axis=1)
    return np.array([critical_kv(score, norm, min(size, units), forced) for score, norm, size in zip(scores, norms, sizes)])


def evict_prompt(p, b, scores, compression_ratio, budget, allocation, ada_floor, critical, chunk, pyramid=lambda budget: budget):
    """scores [KV heads, prompt], larger kept first, infinite: kept in any case; one choice, and every new token behind it. Tokens of a chunk
    have their mean score and stay together."""
    budget = budget if budget > 0 else math.floor((1 - compression_ratio) * p.prompt + 1e-9)
    budget = min(max(budget, 1), p.prompt)
    forced = np.isinf(scores[0])
    assert budget >= forced.sum() or forced.all(), "headscope refuses this budget"
    budget = min(max(pyramid(budget), forced.sum()), p.prompt)
    free = np.flatnonzero(~forced)
    units = [free[free // chunk == number] for number in np.unique(free // chunk)]
    kept = np.repeat(forced[None], len(scores), axis=0)
    if budget == p.prompt:
        kept[:] = True
    elif units:
        own = max(0, math.floor(ada_floor * budget) - forced.sum()) // chunk
        per_unit = np.array([scores[:, unit].mean(axis=1) for unit in units]).T
        norms = [norm if norm is None else np.array([norm[unit].mean() for unit in units]) for norm in norms_of(p, b, critical, p.prompt)]
        chosen = shared_out(per_unit, (budget - forced.sum()) // chunk, ada_floor, allocation, own, norms, forced.sum() / chunk)
        for head, mask in enumerate(chosen):
            for unit, stays in zip(units, mask):
                kept[head, unit] = stays
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
    return evict_prompt(p, b, np.array([window_votes(p, b, kv, window, kernel, pooling) for kv in range(p.num_kv_heads)]), **eviction)


def pyramid_kv(p, b, window, kernel, pooling, beta, num_layers, **eviction):
    window = min(window, p.prompt)
    num_layers = num_layers or p.num_layers

    def pyramid(budget):
        """Budgets behind the window, in whole numbers, as the authors' cluster class has them."""
        common = budget - window
        if p.prompt < 2 * common or num_layers <= 1:
            return budget
        least = common // beta
        largest = 2 * common - least
        if largest >= p.prompt - window:
            largest = p.prompt - window
            least = 2 * common - largest
        return window + largest - min(p.layer, num_layers - 1) * ((largest - least) // (num_layers - 1))

    scores = np.array([window_votes(p, b, kv, window, kernel, pooling) for kv in range(p.num_kv_heads)])
    return evict_prompt(p, b, scores, pyramid=pyramid, **eviction)



def knorm(p, b, **eviction):
    return evict_prompt(p, b, -np.linalg.norm(p.k[b, :, : p.prompt], axis=-1), **eviction)


def key_diff(p, b, **eviction):
    keys = p.k[b, :, : p.prompt]
    unit = keys / np.linalg.norm(keys, axis=-1, keepdims=True)
    mean = unit.mean(axis=1, keepdims=True)
    return evict_prompt(p, b, -(unit * mean).sum(axis=-1) / np.linalg.norm(mean, axis=-1), **eviction)


def lag_kv(p, b, lag, n_sink, ranks, **eviction):
    n_sink = min(n_sink, p.prompt)
    scores = np.full((p.num_kv_heads, p.prompt), np.inf)
    close = []  # neighbours in rank that fp32 may have the other way round
    partitions = (p.prompt - n_sink) // lag
    if partitions < 2:
        scores[:, n_sink:] = np.arange(n_sink, p.prompt)
        return evict_prompt(p, b, scores, **eviction)
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
                close += [(kv, begin + order[at], begin + order[at + 1]) for at in np.flatnonzero(np.diff(score[order]) < 2e-6 * score.max())]
                score[order] = np.arange(1, lag + 1)
            scores[kv, begin : begin + lag] = score
    steps = list(evict_prompt(p, b, tie_break(scores), **eviction))
    for kv, one, other in close:
        scores[kv, [one, other]] = scores[kv, [other, one]]
    if close and not np.array_equal(steps, list(evict_prompt(p, b, tie_break(scores), **eviction))):
        raise Ambiguous  # it matters which of them it is
    return steps


def cur_dkv(p, b, window, n_sink, leverage, **eviction):
    shares = []
    for x in (p.k[b, :, : p.prompt], p.v[b, :, : p.prompt]):
        squares = (x**2).sum(axis=-1)
        for begin in range(0, p.prompt, window) if window else ():
            squares[:, begin : begin + window] /= squares[:, begin : begin + window].sum(axis=-1, keepdims=True)
        shares.append(squares)
    keys, values = shares
    scores = (keys * values, (keys + values) / 2, keys, values)[leverage]
    scores = scores / scores.sum(axis=-1, keepdims=True)
    scores[:, :n_sink] = np.inf
    return evict_prompt(p, b, scores, **eviction)


def tie_break(scores):
    """Ranks of different partitions are equal: the earlier token first, by less than their distance."""
    finite = np.isfinite(scores)
    return np.where(finite, scores - (1e-3 * np.arange(scores.size).reshape(scores.shape) / scores.size if (scores[finite] >= 1).all() else 0), scores)


def rope_matrix(p, position):
    """What RoPE does to a head at a position, [head_dim, head_dim]; `rope` is theta, turned components, the first, interleaved, factor."""
    theta, dims, first, interleaved, factor = p.rope
    matrix = np.eye(p.head_dim)
    for i in range(dims // 2):
        x, y = (first + 2 * i, first + 2 * i + 1) if interleaved else (first + i, first + dims // 2 + i)
        angle = position * theta ** (-2 * i / dims)
        matrix[np.ix_([x, y], [x, y])] = factor * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return matrix


def expected_attention(p, b, n_future, n_sink, covariance, value_norm, epsilon, **eviction):
    n_sink = min(n_sink, p.prompt)
    turn = np.mean([rope_matrix(p, p.prompt + i) for i in range(n_future)], axis=0)
    scores = np.full((p.num_kv_heads, p.prompt), np.inf)
    for kv in range(p.num_kv_heads):
        keys, values = p.k[b, kv, n_sink : p.prompt], p.v[b, kv, n_sink : p.prompt]
        shares = []
        for h in heads_of(p, kv):
            queries = p.q_pre_rope[b, h, n_sink : p.prompt]
            mean, spread = turn @ queries.mean(axis=0), turn @ np.cov(queries.T, bias=True) @ turn.T
            exponent = p.softmax_scale * keys @ mean
            if covariance:
                exponent = exponent + p.softmax_scale**2 * np.einsum("ti,ij,tj->t", keys, spread, keys) / 2
            shares.append(softmax(exponent))
        norm = np.linalg.norm(values, axis=1) if value_norm else 1
        scores[kv, n_sink:] = (np.mean(shares, axis=0) + epsilon) * norm
    return evict_prompt(p, b, scores, **eviction)


def l_serve(p, b, budget, logical_size, logical_pages, interval, compression_ratio):
    page = logical_size * logical_pages
    chosen = [None] * p.num_kv_heads
    for row in range(p.prompt, p.seq_k):
        masks = np.zeros((p.num_kv_heads, p.seq_k), bool)
        pages = -(-(row + 1) // page)
        for kv in range(p.num_kv_heads):
            if row % interval == 0 or chosen[kv] is None:
                scores = np.zeros(pages)
                for number in range(pages):
                    bounds = []
                    for begin in range(number * page, min((number + 1) * page, row + 1), logical_size):
                        keys = p.k[b, kv, begin : min(begin + logical_size, row + 1)]
                        queries = p.q[b, heads_of(p, kv), row]
                        bounds.append(np.maximum(queries * keys.min(axis=0), queries * keys.max(axis=0)).sum())
                    scores[number] = max(bounds)
                tokens = budget_in_tokens(budget, compression_ratio, row + 1)
                picks = pages if row <= tokens else min(max(3, tokens // page), pages)
                chosen[kv] = [*np.flatnonzero(top_k(scores[:-1], picks - 1)), pages - 1]
            for number in chosen[kv]:
                masks[kv, number * page : (number + 1) * page] = True
            masks[kv, (max(chosen[kv]) + 1) * page :] = True
            masks[kv, row + 1 :] = False
        yield masks


def infllm(p, b, block_size, n_init, n_local, top_k, n_repr):
    """Units are closed when all of their tokens have left the window; a token's score is its product with the sum of the queries behind it."""
    best = globals()["top_k"]
    representatives = {}  # of a unit in a head the sum of some keys, which no later step changes

    def representative(unit, h):
        if (unit, h) not in representatives:
            tokens = np.arange(n_init + unit * block_size, n_init + (unit + 1) * block_size)
            keys = p.k[b, h // p.group]
            score = np.array([keys[t] @ p.q[b, h, t + 1 : t + 1 + n_local].sum(axis=0) for t in tokens])
            representatives[unit, h] = keys[tokens[best(score, n_repr)]].sum(axis=0)
        return representatives[unit, h]

    for row in range(p.prompt, p.seq_k):
        seen = row + 1
        begin = min(n_init, seen)
        units = max(0, (seen - n_local - n_init) // block_size)
        relevance = np.array([sum(p.q[b, h, row] @ representative(unit, h) for h in range(p.num_qo_heads)) for unit in range(units)])
        kept = np.zeros(p.seq_k, bool)
        kept[:begin] = True
        kept[begin + units * block_size : seen] = True
        for unit in np.flatnonzero(best(relevance, top_k)):
            kept[n_init + unit * block_size : n_init + (unit + 1) * block_size] = True
        yield np.repeat(kept[None], p.num_kv_heads, axis=0)


def twilight(problem, b, /, p, candidates, compression_ratio, bits, selector, dense_layers, **of_selectors):
    """Over selectors that are generations themselves."""
    share, p = p, problem
    if 0 <= p.layer < dense_layers:
        for row in range(p.prompt, p.seq_k):
            yield np.broadcast_to(p.column <= row, (p.num_kv_heads, p.seq_k))
        return
    name = SELECTORS[selector]
    prefix = name.replace("-", "_") + "_"
    own = {key.removeprefix(prefix): value for key, value in of_selectors.items() if key.startswith(prefix)}
    page_size = 1
    if name == "l-serve":
        steps = l_serve(p, b, candidates, compression_ratio=compression_ratio, **own)
        page_size = own["logical_size"] * own["logical_pages"]
    else:
        steps = infllm(p, b, top_k=max(0, candidates - own["n_init"] - own["n_local"]) // own["block_size"], **own)
    for row, masks in zip(range(p.prompt, p.seq_k), steps):
        yield np.array([share_of(p, b, kv, p.q[b, heads_of(p, kv), row], row, masks[kv], page_size, share, bits) for kv in range(p.num_kv_heads)])


def magic_pig(p, b, bits, tables, n_sink, n_local, epsilon, dense_every, seed):
    """Yields what each head of a group weighs, too, but in a dense layer: the second of a pair, [KV heads, group, tokens]."""
    if dense_every > 0 and 0 <= p.layer and p.layer % dense_every == 0:
        for row in range(p.prompt, p.seq_k):
            yield np.broadcast_to(p.column <= row, (p.num_kv_heads, p.seq_k))
        return
    planes = random_planes(bits * tables, p.head_dim, seed)
    begin = min(n_sink, p.prompt)
    end = max(begin, p.prompt - n_local)

    def buckets(x):
        sides = x @ planes.T
        if (abs(sides) < 1e-6 * np.linalg.norm(x, axis=-1, keepdims=True)).any():
            raise Ambiguous
        return (sides > 0).reshape(len(x), tables, bits)

    for row in range(p.prompt, p.seq_k):
        masks = np.zeros((p.num_kv_heads, p.seq_k), bool)
        weights = np.zeros((p.num_kv_heads, p.group, p.seq_k))
        masks[:, : row + 1] = True
        weights[:, :, : row + 1] = 1
        masks[:, begin:end] = False
        for kv in range(p.num_kv_heads):
            if begin == end:
                continue
            keys = p.k[b, kv, begin:end] - p.k[b, kv, begin:end].mean(axis=0)
            of_keys = buckets(keys)
            for g, h in enumerate(heads_of(p, kv)):
                query = p.q[b, h, row]
                found = (of_keys == buckets(query[None])).all(axis=-1).sum(axis=1) >= 2
                masks[kv, begin:end] |= found
                cosine = keys @ query / np.linalg.norm(keys, axis=1) / np.linalg.norm(query)
                share = (1 - np.arccos(cosine) / np.pi) ** bits
                probability = 1 - (1 - share) ** tables - tables * share * (1 - share) ** (tables - 1)
                weights[kv, g, begin:end] = np.where(found, 1 / (probability + epsilon), 0)
        yield masks, weights


def tidal_decode(p, b, k, first_layer, reselect_layer, compression_ratio):
    """Layer n below the problem's own has the query of p.layer - n rows before (methods_dump.cpp)."""
    chooses = [layer for layer in (first_layer, reselect_layer) if layer >= first_layer]
    source = max((layer for layer in chooses if layer < p.layer), default=None)
    for row in range(p.prompt, p.seq_k):
        masks = np.zeros((p.num_kv_heads, p.seq_k), bool)
        masks[:, : row + 1] = True
        if source is not None and p.layer not in chooses:
            for kv in range(p.num_kv_heads):
                tokens = np.arange(row + 1)
                weights = [probabilities(p, b, h, row - (p.layer - source), tokens) for h in heads_of(p, kv)]
                masks[kv, : row + 1] = top_k(sum(weights), budget_in_tokens(k, compression_ratio, row + 1))
        yield masks


def think_components(p, b, ratio, window, n_local):
    """What is left of the prompt's keys before the newest, [KV heads, head_dim], and how many keys these are; None: they stay whole."""
    thin, count = max(0, p.prompt - n_local), max(1, math.floor((1 - ratio) * p.head_dim + 1e-9))
    if thin == 0 or count == p.head_dim:
        return None
    rows = np.arange(max(0, p.prompt - window), p.prompt)
    left = np.zeros((p.num_kv_heads, p.head_dim), bool)
    for kv in range(p.num_kv_heads):
        # The Frobenius norm of q_c k_c', over the group's queries one below the other.
        queries = np.concatenate([p.q[b, h, rows] for h in heads_of(p, kv)])
        norms = [np.linalg.norm(np.outer(queries[:, c], p.k[b, kv, :thin, c])) for c in range(p.head_dim)]
        left[kv] = top_k(np.array(norms), count)
    return left, thin


def think(p, b, **parameters):
    """Every token, at every step; what the keys have lost is think_components'."""
    for row in range(p.prompt, p.seq_k):
        masks = np.zeros((p.num_kv_heads, p.seq_k), bool)
        masks[:, : row + 1] = True
        yield masks


def think_output(p, b, parts):
    """Attention of the first step, [heads, head_dim]."""
    tokens = np.arange(p.prompt + 1)
    outputs = []
    for h in range(p.num_qo_heads):
        kv = h // p.group
        keys = p.k[b, kv, tokens].copy()
        if parts is not None:
            left, thin = parts
            keys[:thin, ~left[kv]] = 0
        scores = p.cap(p.softmax_scale * keys @ p.q[b, h, p.prompt])
        weights = softmax(np.append(scores, p.sinks[h]))[:-1] if p.sinks else softmax(scores)
        outputs.append(weights @ p.v[b, kv, tokens])
    return np.array(outputs)


METHODS = {
    "think": think,
    "magic-pig": magic_pig,
    "tidal-decode": tidal_decode,
    "l-serve": l_serve,
    "infllm": infllm,
    "twilight": twilight,
    "expected-attention": expected_attention,
    "h2o": h2o,
    "tova": tova,
    "snap-kv": snap_kv,
    "pyramid-kv": pyramid_kv,
    "chunk-kv": snap_kv,  # in chunks of its own
    "knorm": knorm,
    "key-diff": key_diff,
    "lag-kv": lag_kv,
    "cur-dkv": cur_dkv,
}
