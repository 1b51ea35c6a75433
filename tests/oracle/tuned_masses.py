# SPDX-License-Identifier: Apache-2.0
"""What a prefill method keeps of a traced head, in float64: the kept sets of methods_kept_sets.py over the probabilities of analysis_oracle.py.

For tests that are given parameters and want the masses that come of them, or a grid and want its cheapest setting; nothing of headscope but the trace is
read.
"""
import itertools
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import analysis_oracle
import methods_kept_sets

Ambiguous = methods_kept_sets.Ambiguous


class TracedHead(methods_kept_sets.Problem):
    """One head of an open trace (h5py.File) as a problem of one sequence and one head; every row recorded, no window."""

    def __init__(self, file, layer, head):
        traced = analysis_oracle.Head(file, layer, head)
        self.seq_q, self.head_dim = traced.q.shape
        self.seq_k = len(traced.k)
        if traced.window or not np.array_equal(traced.positions, np.arange(self.seq_k)):
            raise ValueError("the oracle takes traces of all rows and of models without a window")
        self.layer = layer
        self.batch = self.num_qo_heads = self.num_kv_heads = self.group = 1
        model = file["model"].attrs
        self.first_qo_head, self.first_kv_head = head, head * int(model["num_kv_heads"]) // int(model["num_qo_heads"])
        self.q, self.k, self.v = traced.q[None, None], traced.k[None, None], traced.v[None, None]
        self.first_position, self.num_visible = 0, self.seq_k
        self.position = self.column = np.arange(self.seq_k)
        self.causal, self.p = traced.attended, traced.p
        self.soft_cap, self.softmax_scale = 0, self.head_dim**-0.5
        self.known_sums = {}

    def kept_by_row(self, method, parameters):
        """(kept mass, number of kept keys) of every row. Raises Ambiguous where fp32 may choose otherwise."""
        kept = methods_kept_sets.PREFILL[method](self, 0, 0, **parameters)
        return np.where(kept, self.p, 0).sum(axis=1), kept.sum(axis=1)

    def line_sums(self, b, h, rows):
        """Of the same rows for every setting of a search, and callers write into them."""
        key = rows[0], rows[-1]
        if key not in self.known_sums:
            self.known_sums[key] = super().line_sums(b, h, rows)
        return [sums.copy() for sums in self.known_sums[key]]


def statistics(masses):
    """The three targets over rows; the fifth percentile as docs/analysis.md has it: place ceil(rows / 20) in ascending order."""
    ordered = np.sort(masses)
    return {"cra_min": ordered[0], "cra_p5": ordered[-(-len(ordered) // 20) - 1], "cra_mean": ordered.mean()}


def values_of(budget):
    """The values of one budget of a tuned configuration's "grid": the minimum, the multiples of the step above it, the maximum."""
    multiples = np.arange(1 + int(np.ceil(budget["maximum"] / budget["step"]))) * budget["step"]
    inside = [round(value, 9) for value in multiples.tolist() if budget["minimum"] + 1e-9 < value < budget["maximum"] - 1e-9]
    whole = all(float(number).is_integer() for number in budget.values() if not isinstance(number, str))
    return [int(value) if whole else value for value in dict.fromkeys([budget["minimum"], *inside, budget["maximum"]])]


def full_search(head, method, parameters, grid, statistic, target):
    """Tries every setting of the grid. (kept pairs, values) of the cheapest that reaches the target, how many were tried and how many were ambiguous.

    Of equally cheap ones the first: the smallest first budget, then the smallest second.
    """
    cheapest, tried, ambiguous = None, 0, 0
    for values in itertools.product(*map(values_of, grid)):
        tried += 1
        try:
            masses, counts = head.kept_by_row(method, parameters | dict(zip((budget["name"] for budget in grid), values)))
        except Ambiguous:
            ambiguous += 1
            continue
        kept = int(counts.sum())
        if (cheapest is None or kept < cheapest[0]) and statistics(masses)[statistic] >= target:
            cheapest = kept, values
    return cheapest, tried, ambiguous
