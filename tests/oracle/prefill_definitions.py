# SPDX-License-Identifier: Apache-2.0
"""Prefill methods as masks over all (row, column) pairs of one head; see methods_kept_sets.py, which compares them."""
import fractions

import numpy as np

from kept_set_rules import RELATIVE_GAP, Ambiguous, random_planes, softmax, split_mix, top_k, top_share


def tokens_of_share(p, share):
    """Whole tokens of the prompt, at least one."""
    return max(1, int(fractions.Fraction(str(share)) * p.num_visible))


def streaming_llm(p, b, h, n_sink, n_local, n_dilated, interval, local_share):
    n_local = tokens_of_share(p, local_share) if local_share else n_local
    distance = p.position[:, None] - p.column[None, :]
    sinks = np.broadcast_to(p.column[None, :] < n_sink, distance.shape)
    if n_dilated <= n_local:
        return p.causal & (sinks | (distance < n_local))
    kept = np.zeros_like(p.causal)
    for first in range(0, p.seq_q, 128):  # a tile keeps what its first row's windows reach back to
        tile = slice(first, first + 128)
        back = p.position[first] - p.column
        kept[tile] = ((back < n_local) | ((back < n_dilated) & (p.column % (interval + 1) == 0)))[None, :]
    return p.causal & (kept | sinks)


def sliding_window(p, b, h, n_local, dense_layers):
    if 0 <= p.layer < dense_layers:
        return p.causal
    return p.causal & (p.position[:, None] - p.column[None, :] < n_local)


def lm_infinite(p, b, h, n_global, n_local):
    return p.causal & ((p.column[None, :] < n_global) | (p.position[:, None] - p.column[None, :] < n_local))


def row_blocks(p, size):
    """Blocks of query rows, with their first and last position."""
    for first in range(0, p.seq_q, size):
        rows = np.arange(first, min(first + size, p.seq_q))
        yield rows, p.position[rows[0]], p.position[rows[-1]]


def keep_blocks(kept, rows, blocks, size):
    for block in blocks:
        kept[rows[0] : rows[-1] + 1, size * block : size * block + size] = True


def big_bird(p, b, h, n_global, n_window, n_random, seed, global_share, window_share):
    n_global = max(1, tokens_of_share(p, global_share) // 64) if global_share else n_global
    n_window = max(1, tokens_of_share(p, window_share) // 64) if window_share else n_window
    kept = np.zeros_like(p.causal)
    stream = split_mix(seed, p.first_qo_head + h)
    for rows, first, last in row_blocks(p, 64):
        own, count = first // 64, last // 64 + 1
        always = [j for j in range(count) if j < n_global or own - j < n_window]
        others = [j for j in range(count) if j not in always]
        numbers = {j: split_mix(stream, int(first // 64) * 2**24 + j) >> 40 for j in others}
        drawn = sorted(others, key=lambda j: (-numbers[j], j))[:n_random]
        keep_blocks(kept, rows, always + drawn, 64)
    return kept & p.causal


def block_masses(p, b, h):
    """Of every block of 64 rows: the exact mass that it gives to every key that it sees."""
    for rows, first, last in row_blocks(p, 64):
        columns = p.probabilities(b, h, rows, sink=True).sum(axis=0)[: last + 1]
        yield rows, np.array([columns[s : s + 64].sum() for s in range(0, last + 1, 64)])


def oracle_blocks(p, b, h, n_blocks):
    kept = np.zeros_like(p.causal)
    for rows, mass in block_masses(p, b, h):
        keep_blocks(kept, rows, np.flatnonzero(top_k(mass, n_blocks)), 64)
    return kept & p.causal


def oracle_top_p(problem, b, h, /, p):
    kept = np.zeros_like(problem.causal)
    for rows, mass in block_masses(problem, b, h):
        keep_blocks(kept, rows, np.flatnonzero(top_share(mass, p)), 64)
    return kept & problem.causal


def oracle_top_k(p, b, h, k):
    kept = np.zeros_like(p.causal)
    for rows, _, last in row_blocks(p, 128):
        kept[rows, : last + 1] = top_k(p.probabilities(b, h, rows, sink=True).sum(axis=0)[: last + 1], k)[None, :]
    return kept & p.causal


def means(x, size):
    return np.array([x[s : s + size].mean(axis=0) for s in range(0, len(x), size)])


def lines_for_share(lines, gamma):
    """How many of the largest lines hold the share gamma."""
    reached = np.cumsum(np.sort(lines)[::-1]) / lines.sum()
    if gamma >= 1:
        return len(lines)
    if (abs(reached - gamma) < RELATIVE_GAP).any():
        raise Ambiguous
    return int((reached < gamma).sum()) + 1 if gamma > 0 else 0


def flex_prefill(p, b, h, gamma, tau, min_budget, form):
    q, k = p.q[b, h], p.k[b, h // p.group][: p.num_visible]
    probed = np.arange(max(0, p.seq_q - 128), p.seq_q)
    lines = p.line_sums(b, h, probed)
    stripes = [np.array([line[s : s + 128].sum() for s in range(0, len(line), 128)]) for line in lines]
    key_means = means(k, 128)
    predicted = softmax(p.cap(p.softmax_scale * key_means @ q[probed].mean(axis=0)))
    true = stripes[0] / stripes[0].sum()
    middle = (predicted + true) / 2
    divergence = sum((x[x > 0] * np.log(x[x > 0] / middle[x > 0])).sum() for x in (predicted, true)) / 2
    if abs(np.sqrt(max(divergence, 0)) - tau) < 1e-4:
        raise Ambiguous
    query_aware = np.sqrt(max(divergence, 0)) < tau
    kept = np.zeros_like(p.causal)
    if form == 1:  # the released code's
        least = max(-(-min_budget // 128), 1)
        counts = [least if query_aware else max(lines_for_share(line, gamma) // 128 + 1, least) for line in lines]
        for stripe in stripes:
            stripe[0] = np.inf
        vertical, slash = (np.flatnonzero(top_k(stripe, count)) for stripe, count in zip(stripes, counts))
        for rows, first, last in row_blocks(p, 128):
            keep_blocks(kept, rows, vertical, 128)
            for own in range(first // 128, last // 128 + 1):
                keep_blocks(kept, rows, [own - s for s in slash if s <= own], 128)
    elif not query_aware:
        vertical, slash = (top_k(line, max(lines_for_share(line, gamma), min_budget)) for line in lines)
        kept[:, : p.num_visible] |= vertical
        for rows, first, _ in row_blocks(p, 64):
            for offset in np.flatnonzero(slash):
                kept[rows, max(first - offset, 0) : max(first - offset + 64, 0)] = True
    if query_aware:
        rows_of_map = []
        for rows, _, last in row_blocks(p, 128):
            rows_of_map.append(softmax(p.cap(p.softmax_scale * key_means[: last // 128 + 1] @ q[rows].mean(axis=0))))
        chosen = np.split(top_share(np.concatenate(rows_of_map), gamma), np.cumsum([len(row) for row in rows_of_map])[:-1])
        for (rows, _, _), mask in zip(row_blocks(p, 128), chosen):
            keep_blocks(kept, rows, np.flatnonzero(mask), 128)
    return kept & p.causal


def with_zeros(rows, more):
    return np.concatenate([rows, np.zeros((more, rows.shape[1]))])


def x_attention(p, b, h, tau, stride, force_ends):
    stride = [4, 8, 16, 32, 64][stride]
    q, k = p.q[b, h], p.k[b, h // p.group][: p.num_visible]
    kept = np.zeros_like(p.causal)
    groups = with_zeros(k, -len(k) % stride).reshape(-1, stride * p.head_dim)  # keys that there are not add nothing, nor do queries
    queries = with_zeros(q, stride)
    for rows, first, last in row_blocks(p, 128):
        mass = np.zeros(last // 128 + 1)
        for begin in range(rows[0], rows[-1] + 1, stride):
            last_row = min(begin + stride, p.seq_q) - 1
            # The antidiagonals: query begin + stride - 1 - s meets key s of each group.
            products = groups[: p.position[last_row] // stride + 1] @ queries[begin : begin + stride][::-1].ravel()
            scores = p.cap(p.softmax_scale * products / stride)
            for j, share in enumerate(softmax(scores)):
                mass[j * stride // 128] += share
        if not force_ends:
            keep_blocks(kept, rows, np.flatnonzero(top_share(mass, tau)), 128)
            continue
        ends = sorted({0, *range(first // 128, last // 128 + 1)})
        others = np.delete(mass, ends)
        missing = tau * mass.sum() - mass[ends].sum()
        if abs(missing) < RELATIVE_GAP * mass.sum():
            raise Ambiguous
        keep_blocks(kept, rows, ends, 128)
        if missing > 0 and len(others) > 0 and others.sum() > 0:
            keep_blocks(kept, rows, np.delete(np.arange(len(mass)), ends)[top_share(others, missing / others.sum())], 128)
    return kept & p.causal


def alike(x, size, similarity, theta):
    """Which blocks of rows a mean stands for; similarity 0 is the paper's, 1 the mean cosine."""
    result = []
    for s in range(0, len(x), size):
        rows = x[s : s + size]
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        if norms.max() < 1e-5:  # the one key there is, less its mean
            result.append(True)
            continue
        products = rows @ rows.T
        value = (products / norms / norms.T).mean() if similarity else products.mean() / products.max()
        if abs(value - theta) < 1e-6:
            raise Ambiguous
        result.append(value > theta)
    return np.array(result)


def sparge_attn(p, b, h, tau, rule, theta, similarity, centre):
    q, k = p.q[b, h], p.k[b, h // p.group][: p.num_visible]
    if centre:
        k = k - k.mean(axis=0)
    keys_alike, queries_alike = alike(k, 64, similarity, theta), alike(q, 128, similarity, theta)
    key_means = means(k, 64)
    kept = np.zeros_like(p.causal)
    for number, (rows, _, last) in enumerate(row_blocks(p, 128)):
        count = last // 64 + 1
        seen = keys_alike[:count]
        keep_blocks(kept, rows, np.flatnonzero(~seen) if queries_alike[number] else range(count), 64)
        if not queries_alike[number] or not seen.any():
            continue
        scores = p.cap(p.softmax_scale * key_means[:count][seen] @ q[rows].mean(axis=0))
        if rule == 1:
            taken = top_k(scores, max(1, int(tau * len(key_means) + 1e-9)))
            keep_blocks(kept, rows, np.flatnonzero(seen)[taken], 64)
            continue
        mass = softmax(scores)
        order = np.argsort(-mass, kind="stable")
        reached = np.cumsum(mass[order])
        if tau < 1 and (abs(reached - tau) < RELATIVE_GAP).any():
            raise Ambiguous
        taken = max(1, int((reached <= tau).sum())) if tau < 1 else len(mass)
        if taken < len(mass) and mass[order[taken - 1]] - mass[order[taken]] < RELATIVE_GAP:
            raise Ambiguous
        keep_blocks(kept, rows, np.flatnonzero(seen)[order[:taken]], 64)
    return kept & p.causal


def moba(p, b, h, top_k, block_size, rows):
    q, k = p.q[b, h], p.k[b, h // p.group][: p.num_visible]
    key_means = means(k, block_size)
    kept = np.zeros_like(p.causal)
    best = globals()["top_k"]
    for block, first, last in row_blocks(p, 64):
        keep_blocks(kept, block, range(first // block_size, last // block_size + 1), block_size)
        for query, position in [(q[block].mean(axis=0), first)] if rows else zip(q[block], p.position[block]):
            own = position // block_size
            keep_blocks(kept, block, np.flatnonzero(best(key_means[:own] @ query, top_k - 1)), block_size)
    return kept & p.causal


def compressed_shares(p, b, kv):
    """Of every query: its softmax over the means of 32 keys, 16 apart, that lie in its past, summed over the group, which its heads ask for in turn."""
    if getattr(p, "shares_of", None) == (b, kv):
        return p.shares
    k = p.k[b, kv]
    windows = np.array([k[s : s + 32].mean(axis=0) for s in range(0, p.num_visible - 31, 16)]).reshape(-1, p.head_dim)
    shares = np.zeros((p.seq_q, len(windows)))
    for row, position in enumerate(p.position):
        seen = max(0, (position + 1 - 32) // 16 + 1)
        for h in range(kv * p.group, (kv + 1) * p.group):
            if seen > 0:
                shares[row, :seen] += softmax(p.cap(p.softmax_scale * windows[:seen] @ p.q[b, h, row]))
    p.shares_of, p.shares = (b, kv), shares
    return shares


def by_compressed_keys(p, b, h, choose, pool, by_sum):
    """choose(scores of blocks, first position, last position) -> blocks, for single rows or for blocks of 64."""
    shares = compressed_shares(p, b, h // p.group)
    kept = np.zeros_like(p.causal)
    for rows, first, last in row_blocks(p, 64):
        scores = np.zeros((len(rows), last // 64 + 1))
        for j in range(scores.shape[1]):
            scores[:, j] = pool(shares[rows], j)
        if by_sum:
            keep_blocks(kept, rows, choose(scores.sum(axis=0), first, last), 64)
            continue
        for score, position in zip(scores, p.position[rows]):
            keep_blocks(kept, rows, choose(score[: position // 64 + 1], position, position), 64)
    return kept & p.causal


def nsa(p, b, h, n_blocks, n_local, rows):
    def pool(shares, j):  # equation 9
        return sum(shares[:, 4 * j + m - n] for m in range(4) for n in range(2) if 0 <= 4 * j + m - n < shares.shape[1])

    def choose(scores, first, last):
        blocks = np.arange(last // 64 + 1)
        forced = (blocks < 1) | (blocks > first // 64 - 2)
        others = blocks[~forced]
        picked = others[top_k(scores[others], max(0, n_blocks - forced.sum()))]
        local = blocks[blocks >= max(0, first - n_local + 1) // 64] if n_local else []
        return {*blocks[forced], *picked, *local}

    return by_compressed_keys(p, b, h, choose, pool, rows)


def infllm_v2(p, b, h, top_k, n_first, n_local, rows):
    best = globals()["top_k"]

    def pool(shares, j):
        overlapping = [w for w in range(shares.shape[1]) if 16 * w < 64 * j + 64 and 16 * w + 32 > 64 * j]
        return shares[:, overlapping].max(axis=1) if overlapping else 0

    def choose(scores, first, last):
        blocks = np.arange(last // 64 + 1)
        local = blocks > first // 64 - -(-n_local // 64)
        initial = (blocks < n_first) & ~local
        others = blocks[~local & ~initial]
        return {*blocks[local | initial], *others[best(scores[others], max(0, top_k - initial.sum()))]}

    return by_compressed_keys(p, b, h, choose, pool, rows)


def for_64_rows(p, wanted):
    """Of what single rows keep, [rows, keys], what an index of 64 rows holds."""
    kept = np.zeros_like(p.causal)
    for rows, _, _ in row_blocks(p, 64):
        kept[rows] = wanted[rows].any(axis=0)[None, :]
    return kept & p.causal


def hash_sparse(p, b, h, num_buckets, seed):
    directions = random_planes(num_buckets // 2, p.head_dim, seed)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)

    def buckets(x):
        along = np.concatenate([x @ directions.T, -x @ directions.T], axis=1)
        best = np.sort(along, axis=1)
        if (best[:, -1] - best[:, -2] < 1e-9 * abs(best[:, -1])).any():
            raise Ambiguous
        return along.argmax(axis=1)

    return for_64_rows(p, buckets(p.q[b, h])[:, None] == buckets(p.k[b, h // p.group])[None, :])


def hyper_attention(p, b, h, block_size, sample_size, min_seq_len, num_planes, seed):
    planes = random_planes(num_planes, p.head_dim, seed)
    stream = split_mix(seed, p.first_qo_head + h + 1)

    def gray_places(x):
        sides = x @ planes.T
        if (abs(sides) < 1e-12 * np.linalg.norm(x, axis=1, keepdims=True)).any():
            raise Ambiguous
        number = (sides > 0) @ (1 << np.arange(num_planes))
        return number ^ (number >> 1)

    of_queries, of_keys = gray_places(p.q[b, h]), gray_places(p.k[b, h // p.group][: p.num_visible])
    wanted = np.zeros_like(p.causal)

    def halve(begin, end):
        rows = np.flatnonzero((p.position >= begin) & (p.position < end))
        if end - begin <= min_seq_len:
            wanted[rows, begin:end] = True
            return
        middle = begin + (end - begin + 1) // 2
        halve(begin, middle)
        halve(middle, end)
        rows = np.flatnonzero((p.position >= middle) & (p.position < end))
        if len(rows) == 0:
            return
        if end - middle < min_seq_len:
            wanted[rows, begin:middle] = True
            return
        keys = begin + np.argsort(of_keys[begin:middle], kind="stable")
        blocks = -(-len(keys) // block_size)
        rows_of_block = max(1, -(-len(rows) // block_size) * block_size // blocks)
        for rank, row in enumerate(rows[np.argsort(of_queries[rows], kind="stable")]):
            block = min(rank // rows_of_block, blocks - 1)
            wanted[row, keys[block * block_size : (block + 1) * block_size]] = True
        draw = split_mix(stream, middle)
        for i in range(sample_size):
            wanted[rows, begin + (((split_mix(draw, i) >> 32) * len(keys)) >> 32)] = True

    halve(0, p.num_visible)
    return for_64_rows(p, wanted)


def infllm_prefill(p, b, h, block_size, n_init, n_local, n_repr, chunk, **units):
    """Section 3 of InfLLM, chunk by chunk of the prompt's rows."""
    queries, keys = p.q[b, h], p.k[b, h // p.group]

    def stands_for(unit):
        tokens = np.arange(n_init + unit * block_size, n_init + (unit + 1) * block_size)
        behind = [(p.position > m) & (p.position <= m + n_local) for m in tokens]
        if not np.any(behind):  # none of these rows is there: equal scores go to the first tokens
            return keys[tokens[:n_repr]].sum(axis=0)
        scores = np.array([(queries[rows] @ keys[m]).sum() for m, rows in zip(tokens, behind)])
        return keys[tokens[top_k(scores, n_repr)]].sum(axis=0)

    representatives = []
    kept = np.zeros_like(p.causal)
    for first in range(0, p.seq_q, 64 * chunk):
        rows = np.arange(first, min(first + 64 * chunk, p.seq_q))
        count = max(0, p.position[first] + 1 - n_local - n_init) // block_size
        representatives += [stands_for(unit) for unit in range(len(representatives), count)]
        scores = np.array([(queries[rows] @ key).sum() for key in representatives])
        for unit in np.flatnonzero(top_k(scores, units["top_k"])):
            begin = n_init + unit * block_size
            kept[rows[0] : rows[-1] + 1, begin : begin + block_size] = True
        kept[rows[0] : rows[-1] + 1, :n_init] = True
        kept[rows[0] : rows[-1] + 1, n_init + count * block_size :] = True
    return kept & p.causal


METHODS = {
    "infllm-prefill": infllm_prefill,
    "hyper-attention": hyper_attention,
    "hash-sparse": hash_sparse,
    "streaming-llm": streaming_llm,
    "sliding-window-prefill": sliding_window,
    "lm-infinite": lm_infinite,
    "big-bird": big_bird,
    "oracle-top-k": oracle_top_k,
    "oracle-blocks": oracle_blocks,
    "oracle-top-p": oracle_top_p,
    "flex-prefill": flex_prefill,
    "x-attention": x_attention,
    "sparge-attn": sparge_attn,
    "moba": moba,
    "nsa": nsa,
    "infllm-v2": infllm_v2,
}
