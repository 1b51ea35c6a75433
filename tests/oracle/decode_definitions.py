# SPDX-License-Identifier: Apache-2.0
"""Decode methods as masks over the tokens of one KV head; see methods_kept_sets.py, which compares them.

Each returns (kept, alpha of the group's heads or None, mean value or None, elements moved or None where they are a mean over KV heads),
and where it samples what each token weighs.
"""
import fractions
import statistics

import numpy as np

from kept_set_rules import Ambiguous, budget_in_tokens, random_subspace, softmax, split_mix, top_k, top_share


def dense_decode(p, b, kv):
    return np.ones(p.seq_k, bool), None, None, 2 * p.seq_k * p.head_dim + 2 * p.head_dim


def sliding_window(p, b, kv, n_local, n_sink):
    kept = (p.column < n_sink) | (p.seq_k - 1 - p.column < n_local)
    return kept, None, None, 2 * kept.sum() * p.head_dim + 2 * p.head_dim


def sparq(p, b, kv, r, k, local_share, reallocate, temperature, copies=0, group=0):
    """Algorithm 1 with the grouped-query form of section 4; temperatures of section 5.4; group 1: the released code's sum of scores."""
    reallocate = p.group == 1 if reallocate == 2 else reallocate
    heads = range(kv * p.group, (kv + 1) * p.group)
    q = [p.q[b, h, 0] for h in heads]
    r, k = min(r, p.head_dim), min(k, p.seq_k)
    largest = top_k(sum(abs(x) for x in q), r)
    estimate, scores = [], 0
    for x in q:
        tau = [np.sqrt(np.abs(x[largest]).sum() / np.abs(x).sum()) / p.softmax_scale, 1 / p.softmax_scale, np.sqrt(r), 1][temperature]
        of_head = p.cap(p.k[b, kv][:, largest] @ x[largest] / tau)
        scores = scores + of_head
        estimate.append(softmax(of_head))
    local = int(fractions.Fraction(str(local_share)) * k)
    kept = p.column >= p.seq_k - local
    ranked = scores if group else sum(estimate)
    kept[: p.seq_k - local] |= top_k(ranked[: p.seq_k - local], k - local)
    read = p.head_dim if copies else r  # with one copy of K the estimate reads whole keys
    if not reallocate:
        return kept, None, None, p.seq_k * read + 2 * k * p.head_dim + 2 * p.head_dim
    alpha = np.array([s[kept].sum() for s in estimate])
    return kept, alpha, p.v[b, kv].mean(axis=0), p.seq_k * read + 2 * k * p.head_dim + 4 * p.head_dim


def lm_infinite_decode(p, b, kv, n_global, k):
    first = min(n_global, min(k, p.seq_k) - 1)
    return sliding_window(p, b, kv, min(k, p.seq_k) - first, first)


def beside_sink(p, h, scores):
    """A head's probabilities, of which the model's learned sink has its part."""
    return softmax(np.append(scores, p.sinks[h]))[:-1] if p.sinks else softmax(scores)


def group_probabilities(p, b, kv):
    """Of the query heads of a KV head, [group, tokens]."""
    return np.array([beside_sink(p, h, p.scores(b, h)[0]) for h in range(kv * p.group, (kv + 1) * p.group)])


def exact_top_k(p, b, kv, k, others=0):
    """SparQ's section 3: of the others' mass nothing is left out (0), all of it (1: equation 5), or the mean value has it (2: equation 6)."""
    probabilities = group_probabilities(p, b, kv)
    kept = top_k(probabilities.sum(axis=0), k)
    moved = (p.seq_k + 1) * p.head_dim + (min(k, p.seq_k) + 1) * p.head_dim
    if others == 0:
        return kept, None, None, moved
    mean = p.v[b, kv].mean(axis=0)
    return kept, probabilities[:, kept].sum(axis=1), mean if others == 2 else 0 * mean, moved + (2 * p.head_dim if others == 2 else 0)


def low_rank(p, b, kv, r, k, seed):
    """Exact top-k of what a random subspace of the KV head's own leaves of keys and queries."""
    r = min(r, p.head_dim)
    directions = random_subspace(r, p.head_dim, split_mix(seed, p.first_kv_head + kv))
    keys = p.k[b, kv] @ directions.T
    estimate = [beside_sink(p, h, p.cap(p.softmax_scale * keys @ (directions @ p.q[b, h, 0]))) for h in range(kv * p.group, (kv + 1) * p.group)]
    kept = top_k(sum(estimate), k)
    return kept, None, None, p.seq_k * r + 2 * (min(k, p.seq_k) + 1) * p.head_dim


def page_scores(p, b, kv, queries, page_size):
    scores = []
    for begin in range(0, p.seq_k, page_size):
        page = p.k[b, kv, begin : begin + page_size]
        scores.append(sum(np.maximum(q * page.min(axis=0), q * page.max(axis=0)).sum() for q in queries))
    return np.array(scores)


def quest(p, b, kv, budget, page_size, group, keep_newest, dense_layers):
    if 0 <= p.layer < dense_layers:
        return dense_decode(p, b, kv)
    queries = p.q[b, kv * p.group : (kv + 1) * p.group, 0]
    scores = page_scores(p, b, kv, [queries.mean(axis=0)] if group else queries, page_size)
    picks = min(max(budget // page_size, 1), len(scores))
    pages = np.zeros(len(scores), bool)
    if keep_newest:
        pages[:-1] = top_k(scores[:-1], picks - 1)
        pages[-1] = True
    else:
        pages = top_k(scores, picks)
    moved = 2 * len(scores) * p.head_dim + (min(picks * page_size, p.seq_k) + 1) * 2 * p.head_dim
    return np.repeat(pages, page_size)[: p.seq_k], None, None, moved


def four_bits(keys):
    low = keys.min(axis=1, keepdims=True)
    step = (keys.max(axis=1, keepdims=True) - low) / 15
    levels = (keys - low) / step
    if (abs(levels - np.floor(levels) - 0.5) < 1e-4).any():
        raise Ambiguous  # halfway between two levels, as far as fp32 can tell
    return low + np.rint(levels) * step


SELECTORS = ("dense", "sparq", "sliding-window", "lm-infinite-decode", "exact-top-k", "low-rank", "quest", "l-serve", "infllm")


def candidates_of(selector, p, b, kv, tokens, own):
    """What a selector gives of a budget of tokens, by parameters of its own, and the tokens of its pages."""
    if selector == "dense":
        return np.ones(p.seq_k, bool), 1
    if selector == "sparq":  # nothing is made of V
        return sparq(p, b, kv, own["r"], tokens, own["local_share"], 0, own["temperature"], group=own["group"])[0], 1
    if selector == "sliding-window":
        return sliding_window(p, b, kv, tokens, own["n_sink"])[0], 1
    if selector == "lm-infinite-decode":
        return lm_infinite_decode(p, b, kv, own["n_global"], tokens)[0], 1
    if selector == "exact-top-k":
        return exact_top_k(p, b, kv, tokens)[0], 1
    if selector == "low-rank":
        return low_rank(p, b, kv, own["r"], tokens, own["seed"])[0], 1
    return quest(p, b, kv, tokens, own["page_size"], own["group"], own["keep_newest"], 0)[0], own["page_size"]


def twilight(problem, b, kv, /, p, candidates, bits, selector, dense_layers, **of_selectors):
    """Parameters of the selectors have the selector's name in front."""
    share, p = p, problem
    if 0 <= p.layer < dense_layers:
        return dense_decode(p, b, kv)
    queries = p.q[b, kv * p.group : (kv + 1) * p.group, 0]
    prefix = SELECTORS[selector].replace("-", "_") + "_"
    own = {name.removeprefix(prefix): value for name, value in of_selectors.items() if name.startswith(prefix)}
    looked_at, page_size = candidates_of(SELECTORS[selector], p, b, kv, candidates, own)
    return share_of(p, b, kv, queries, p.seq_k - 1, looked_at, page_size, share, bits), None, None, None


def share_of(p, b, kv, queries, position, looked_at, page_size, share, bits):
    """Of some tokens of a step, the fewest that hold the share, and the newest page."""
    newest = (p.column <= position) & (p.column // page_size == position // page_size)
    looked_at = looked_at | newest
    keys = p.k[b, kv][looked_at]
    keys = keys if bits else four_bits(keys)
    mass = np.mean([softmax(p.cap(p.softmax_scale * keys @ q)) for q in queries], axis=0)
    kept = np.zeros(p.seq_k, bool)
    kept[np.flatnonzero(looked_at)[top_share(mass, share)]] = True
    return kept | newest


def v_attention(p, b, kv, n_sink, n_local, heavy_share, base_share, epsilon, delta, bound, seed):
    probabilities = group_probabilities(p, b, kv)
    certain = (p.column < n_sink) | (p.column >= p.seq_k - max(1, n_local))
    certain |= top_k(np.where(certain, -1, probabilities.sum(axis=0)), int(heavy_share * p.seq_k + 1e-9))
    others = np.flatnonzero(~certain)
    weights = np.ones(p.seq_k)
    if len(others) == 0:
        return certain, None, None, None, weights
    stream = split_mix(split_mix(seed, b * p.num_kv_heads + kv), p.seq_k)
    order = sorted(others, key=lambda token: (-(split_mix(stream, int(token)) >> 40), token))
    base = min(max(int(np.ceil(base_share * len(others) - 1e-9)), 2), len(others))
    size = base
    z = statistics.NormalDist().inv_cdf(max(0.5, 1 - delta if bound else 1 - delta / 2))
    for x in probabilities:
        sampled = x[order[:base]]
        denominator = x[certain].sum() + len(others) * sampled.mean() + (1 - x.sum())  # of a sink
        deviation = sampled.std(ddof=1) if base > 1 else 0
        wanted = (z * deviation * len(others) / (epsilon * denominator)) ** 2
        if abs(wanted - np.rint(wanted)) < 1e-4 * wanted and wanted < len(others):
            raise Ambiguous
        size = max(size, min(int(np.ceil(wanted)), len(others)))
    weights[order[:size]] = len(others) / size
    certain[order[:size]] = True
    return certain, None, None, None, weights


def of_a_share(definition, budget):
    """The definition, whose budget may be a share of the step's tokens."""
    def of_tokens(problem, b, kv, /, compression_ratio, **parameters):
        parameters[budget] = budget_in_tokens(parameters[budget], compression_ratio, problem.seq_k)
        return definition(problem, b, kv, **parameters)
    return of_tokens


def sliding_window_of_a_share(p, b, kv, n_local, n_sink, compression_ratio):
    """A share counts the first tokens as well."""
    if compression_ratio > 0:
        n_local = max(1, budget_in_tokens(n_local, compression_ratio, p.seq_k) - n_sink)
    return sliding_window(p, b, kv, n_local, n_sink)


METHODS = {
    "dense": dense_decode,
    "sliding-window": sliding_window_of_a_share,
    "sparq": of_a_share(sparq, "k"),
    "lm-infinite-decode": of_a_share(lm_infinite_decode, "k"),
    "exact-top-k": of_a_share(exact_top_k, "k"),
    "low-rank": of_a_share(low_rank, "k"),
    "quest": of_a_share(quest, "budget"),
    "twilight": of_a_share(twilight, "candidates"),
    "v-attention": v_attention,
}
