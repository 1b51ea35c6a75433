# SPDX-License-Identifier: Apache-2.0
"""How the definitions in methods_kept_sets.py choose by rank and by share, and when a choice says nothing."""
import fractions

import numpy as np

RELATIVE_GAP = 2e-5


class Ambiguous(Exception):
    """The choice hangs on a difference below fp32's resolution."""


def top_k(scores, k):
    """Mask of the k largest scores; equal scores go to the lower index."""
    k = min(k, len(scores))
    order = np.argsort(-scores, kind="stable")
    picked = np.zeros(len(scores), bool)
    picked[order[:k]] = True
    if 0 < k < len(scores):
        last, first_out = scores[order[k - 1]], scores[order[k]]
        gap = RELATIVE_GAP * np.max(np.abs(scores[np.isfinite(scores)]), initial=0)
        if np.min(scores) >= 0:  # masses: sums of exponentials, whose errors go with themselves
            gap = min(gap, 3e-4 * last)
        if np.isfinite(last) and abs(last - first_out) <= gap:
            raise Ambiguous
    return picked


def budget_in_tokens(tokens, compression_ratio, among):
    """A budget, or the whole tokens that a share leaves of `among`."""
    if compression_ratio == 0:
        return tokens
    return max(1, int((1 - fractions.Fraction(str(compression_ratio))) * among))


def top_share(mass, share, minimum=0):
    """Mask of the fewest masses, largest first, whose sum reaches `share` of the total; at least `minimum` of them."""
    picked = np.zeros(len(mass), bool)
    if share >= 1:
        return ~picked
    order = np.argsort(-mass, kind="stable")
    reached, target, count = 0.0, share * mass.sum(), 0
    while count < len(mass):
        if abs(reached - target) < RELATIVE_GAP * mass.sum() and target > 0:
            raise Ambiguous
        if reached >= target:
            break
        reached += mass[order[count]]
        count += 1
    count = min(max(count, minimum), len(mass))
    picked[order[:count]] = True
    if 0 < count < len(mass) and mass[order[count - 1]] - mass[order[count]] < RELATIVE_GAP * mass.sum():
        raise Ambiguous
    return picked


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def split_mix(key, number):
    """Output number + 1 of SplitMix64 seeded with `key`. number: one, or an array of uint64, whose products wrap by themselves."""
    bits = 2**64 - 1
    z = (key + (number + 1) * 0x9E3779B97F4A7C15) & bits
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & bits
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & bits
    return z ^ (z >> 31)


def random_planes(count, head_dim, seed):
    """Rows of standard normal numbers, by Box and Muller from pairs of 53-bit ones."""
    stream = split_mix(seed, 0)
    numbers = (split_mix(stream, np.arange(2 * count * head_dim, dtype=np.uint64)) >> 11).astype(float)
    radius, turn = (numbers[::2] + 1) / 2**53, numbers[1::2] / 2**53
    return (np.sqrt(-2 * np.log(radius)) * np.cos(2 * np.pi * turn)).astype(np.float32).astype(float).reshape(count, head_dim)


def random_subspace(count, head_dim, seed):
    """The orthonormal basis of the first `count` planes' normals, in their order and on their side: [count, head_dim]."""
    q, r = np.linalg.qr(random_planes(count, head_dim, seed).T)
    return (q * np.sign(np.diag(r))).T
