# SPDX-License-Identifier: Apache-2.0
"""An interpolated Kneser-Ney trigram model: the bar that a language model's loss has to clear."""
import numpy as np


def _table(keys, base):
    """Distinct n-grams with their counts, and of each context the sum and the number of kinds of its continuations."""
    keys, counts = np.unique(keys, return_counts=True)
    contexts, start = np.unique(keys // base, return_index=True)
    return keys, counts, contexts, np.add.reduceat(counts, start), np.diff(np.append(start, len(keys)))


def _look_up(keys, values, wanted):
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], 0)


def loss(train, valid, vocabulary, discount=0.75):
    """Mean -log p (nats per token) of VALID under the model of TRAIN; both are arrays of token ids."""
    a = train.astype(np.uint64)
    three, counts3, contexts3, sums3, kinds3 = _table((a[:-2] * vocabulary + a[1:-1]) * vocabulary + a[2:], vocabulary)
    bigrams, kinds_before = np.unique(three % vocabulary**2, return_counts=True)  # in how many contexts a bigram was seen
    contexts2, start = np.unique(bigrams // vocabulary, return_index=True)
    sums2 = np.add.reduceat(kinds_before, start)
    kinds2 = np.diff(np.append(start, len(bigrams)))
    unigrams = np.bincount((bigrams % vocabulary).astype(np.int64), minlength=vocabulary) + 0.5

    x, y, z = (valid[i:len(valid) - 2 + i].astype(np.uint64) for i in range(3))
    p = (unigrams / unigrams.sum())[z]
    total = _look_up(contexts2, sums2, y)
    shared = np.maximum(total, 1)
    p2 = np.maximum(_look_up(bigrams, kinds_before, y * vocabulary + z) - discount, 0) / shared
    p2 += discount * _look_up(contexts2, kinds2, y) / shared * p
    p = np.where(total > 0, p2, p)
    total = _look_up(contexts3, sums3, x * vocabulary + y)
    shared = np.maximum(total, 1)
    p3 = np.maximum(_look_up(three, counts3, (x * vocabulary + y) * vocabulary + z) - discount, 0) / shared
    p3 += discount * _look_up(contexts3, kinds3, x * vocabulary + y) / shared * p
    return float(-np.log(np.where(total > 0, p3, p)).mean())
