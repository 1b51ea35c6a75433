#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recomputes what `headscope compare` says of every row of traces that no small model makes: the mass that each row keeps under each method, how many pairs
that is, and the error of the output.

    trace_rows.py HEADSCOPE PYTHON_PACKAGE_DIR [SEED]

The traces are random heads: sizes that are no power of two, values of another size than keys, groups of three and seven, last rows alone, a window, learned
sinks, a soft cap and a scale. Methods run with all heads of a layer together, as in a model. What they keep is defined in methods_kept_sets.py and the files
that it reads.
"""
import collections
import csv
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np

import eviction_definitions
import methods_kept_sets
import weighed_and_thinned
from kept_set_rules import Ambiguous

LAYER, NUM_LAYERS, STEPS = 3, 9, 4
PREFILL = (
    "a-shape:n_sink=3,n_local=20", "vertical-slash:n_vertical=9,n_slash=7,last_q=40", "block-sparse:n_blocks=2", "sample-attention:alpha_c=0.4,alpha_s=0.3,chunk_n=3,own_rows_only=1",
    "lm-infinite:n_global=5,n_local=33", "oracle-blocks:n_blocks=2", "oracle-top-p:p=0.6", "oracle-top-k:k=30", "flex-prefill:gamma=0.5,tau=0,min_budget=0", "flex-prefill:gamma=0.5,tau=1,min_budget=40",
    "x-attention:tau=0.5,stride=16", "sparge-attn:tau=0.5,theta=0.05", "moba:top_k=2,block_size=32,rows=mean", "nsa:n_blocks=3,n_local=0", "infllm-v2:top_k=1,n_first=1,n_local=64",
    "infllm-prefill:block_size=16,n_init=8,n_local=40,top_k=2,n_repr=3,chunk=1",
)  # fmt: skip
DECODE = (
    "sliding-window:n_local=20,n_sink=4", "lm-infinite-decode:n_global=4,k=20", "sparq:r=5,k=20,reallocate=0", "exact-top-k:k=9", "low-rank:r=24,k=13,seed=3", "quest:budget=40,page_size=5",
    "twilight:p=0.6,candidates=40,bits=exact", "twilight:p=0.6,candidates=30,selector=exact-top-k,bits=exact", "twilight:p=0.7,selector=sparq,sparq_r=6,candidates=30,bits=exact",
)  # fmt: skip
# Of a whole prompt without a window: what evicts.
HISTORY = (
    "h2o:k=24", "tova:k=20", "snap-kv:window=8,compression_ratio=0.8,kernel=7,pooling=mean,allocation=ada", "snap-kv:window=5,critical=1,allocation=kvpress", "knorm:compression_ratio=0.8,allocation=ada",
    "key-diff:critical=1,chunk=4", "cur-dkv:window=7,n_sink=1,leverage=mean", "lag-kv:lag=16,compression_ratio=0.6", "l-serve:budget=40,logical_size=4,logical_pages=2",
)  # fmt: skip
# Of these the output is no attention to a mask (weighed_and_thinned.py).
OWN_OUTPUT = (
    "magic-pig:bits=4,tables=20,n_sink=3,n_local=17", "magic-pig:bits=6,tables=40,n_sink=0,n_local=0,epsilon=0.001,seed=5", "magic-pig:bits=13,tables=30,n_local=9,dense_every=2",
    "think:window=9,n_local=11", "think:ratio=0.85,window=30,n_local=0",
)  # fmt: skip
OF_ALL_ROWS = ("h2o:k=24",)  # they sum the recorded rows, and the definition all
Shape = collections.namedtuple("Shape", "tokens first_row qo_heads kv_heads head_dim v_head_dim window sinks soft_cap scale")
SHAPES = (
    Shape(131, 0, 3, 1, 80, 48, 0, False, 0.0, 0.0),
    Shape(190, 61, 6, 2, 96, 128, 0, True, 0.0, 0.0),
    Shape(97, 0, 7, 1, 192, 192, 0, False, 3.0, 0.2),
    Shape(213, 0, 6, 2, 80, 32, 150, True, 0.0, 0.0),
)
# For these alone: a group of each size, lengths on both sides of a block's, windows that the steps leave.
OWN_SHAPES = (
    Shape(64, 0, 2, 2, 80, 80, 0, False, 0.0, 0.0),
    Shape(65, 0, 4, 2, 64, 96, 0, True, 0.0, 0.0),
    Shape(127, 0, 3, 1, 96, 32, 50, False, 0.0, 0.3),
    Shape(128, 0, 4, 1, 128, 64, 0, False, 5.0, 0.0),
    Shape(129, 0, 5, 1, 64, 64, 128, True, 0.0, 0.0),
    Shape(1000, 0, 6, 1, 48, 48, 0, True, 2.0, 0.0),
    Shape(1025, 0, 7, 1, 64, 80, 1000, True, 0.0, 0.0),
    Shape(1025, 900, 8, 1, 32, 64, 0, False, 0.0, 0.0),
)


class Recorded(methods_kept_sets.Problem):
    """The heads of a layer as they were recorded, with every row's probabilities."""

    def __init__(self, rng, shape):
        self.batch, self.num_qo_heads, self.num_kv_heads, self.group = 1, shape.qo_heads, shape.kv_heads, shape.qo_heads // shape.kv_heads
        self.head_dim, self.v_head_dim, self.window, self.soft_cap = shape.head_dim, shape.v_head_dim, shape.window, shape.soft_cap
        self.softmax_scale = float(np.float32(shape.scale or shape.head_dim**-0.5))
        self.layer, self.num_layers, self.seq_k, self.seq_q, self.first_position = LAYER, NUM_LAYERS, shape.tokens, shape.tokens - shape.first_row, shape.first_row
        self.position, self.column, self.num_visible = np.arange(shape.first_row, shape.tokens), np.arange(shape.tokens), shape.tokens
        self.prompt = shape.tokens - STEPS
        normal = lambda *sizes: rng.standard_normal((1, *sizes)).astype(np.float32).astype(float)
        self.k, self.v = normal(shape.kv_heads, shape.tokens, shape.head_dim), normal(shape.kv_heads, shape.tokens, shape.v_head_dim)
        self.q = (2 * normal(shape.qo_heads, self.seq_q, shape.head_dim)).astype(np.float32).astype(float)
        # About as much as all keys of a row together: one that is left out anywhere changes what is chosen.
        self.sinks = (6 + 2 * rng.standard_normal(shape.qo_heads)).astype(np.float32).astype(float).tolist() if shape.sinks else []
        self.value_norms = np.abs(normal(shape.qo_heads, shape.tokens)) + 0.125
        self.causal = self.column[None, :] <= self.position[:, None]
        distance = self.position[:, None] - self.column[None, :]
        self.attended = self.causal & (distance < (shape.window or shape.tokens))
        scores = [np.where(self.attended, self.scores(0, h), -np.inf) for h in range(shape.qo_heads)]
        of_sink = [np.full((self.seq_q, 1), self.sinks[h] if self.sinks else -np.inf) for h in range(shape.qo_heads)]
        self.lse = np.array([np.logaddexp.reduce(np.concatenate([s, sink], axis=1), axis=1) for s, sink in zip(scores, of_sink)]).astype(np.float32)
        self.p = np.array([np.exp(s - lse[:, None]) for s, lse in zip(scores, self.lse.astype(float))])
        self.sink_share = np.array([np.exp(sink[:, 0] - lse) for sink, lse in zip(of_sink, self.lse.astype(float))])


class Step(methods_kept_sets.Problem):
    """One row as a decode step: the keys that it sees, from token `first` on."""

    def __init__(self, whole, row, first):
        self.__dict__.update(whole.__dict__)
        position = int(whole.position[row])
        self.q, self.k, self.v = whole.q[:, :, row : row + 1], whole.k[:, :, first : position + 1], whole.v[:, :, first : position + 1]
        self.seq_q, self.seq_k = 1, position + 1 - first
        self.position, self.column, self.num_visible, self.first_position = np.array([self.seq_k - 1]), np.arange(self.seq_k), self.seq_k, self.seq_k - 1
        self.causal = np.ones((1, self.seq_k), bool)


class Beginning(methods_kept_sets.Problem):
    """The rows by their tokens, as the definitions of what evicts number them; those before the first recorded one are of no use to any."""

    def __init__(self, whole):
        self.__dict__.update(whole.__dict__)
        self.q = np.concatenate([np.zeros((1, whole.num_qo_heads, whole.first_position, whole.head_dim)), whole.q], axis=2)


def write(package, path, whole, shape):
    sys.path.insert(0, package)
    from headscope.layout import LayerFacts, Layout
    from headscope.writer import TraceWriter

    heads = tuple(range(shape.qo_heads))
    facts = LayerFacts(
        num_qo_heads=shape.qo_heads, num_kv_heads=shape.kv_heads, head_dim=shape.head_dim, v_head_dim=shape.v_head_dim, qo_heads=heads, kv_heads=tuple(range(shape.kv_heads)), softmax_scale=whole.softmax_scale,
        soft_cap=shape.soft_cap, window=shape.window, has_value_norms_l1=1, sinks=np.float32(whole.sinks) if whole.sinks else None,
    )  # fmt: skip
    layout = Layout("random", "llama", "{}", NUM_LAYERS, shape.qo_heads, shape.kv_heads, shape.head_dim, [LAYER], [facts], encoding="float32", max_tokens=shape.tokens)
    writer = TraceWriter(str(path), layout, shape.tokens, whole.seq_q)
    writer.append_tokens(range(shape.tokens), np.zeros(shape.tokens), 0, [b"t"] * shape.tokens)
    writer.append_rows(whole.position)
    for name, values in (("q", whole.q[0]), ("k", whole.k[0]), ("v", whole.v[0]), ("lse", whole.lse), ("value_norms_l1", whole.value_norms[0])):
        writer.write(0, name, 0, values.astype("<f4"))
    writer.advance(0, shape.tokens, whole.seq_q)
    writer.finish()


def kept_in_prompt(whole, method, values, h):
    """[rows, tokens], inside the model's window."""
    kept = methods_kept_sets.PREFILL[method](whole, 0, h, **values)
    if whole.window and method in ("a-shape", "lm-infinite"):
        # With one rule for an index's elements, the first tokens leave 128 rows together when the window of the last has passed them.
        for first in range(0, whole.seq_q, 128):
            rows = slice(first, min(first + 128, whole.seq_q))
            far = whole.position[rows, None] - whole.column[None, :] >= values["n_local"]
            kept[rows] &= ~(far & (whole.position[rows][-1] - whole.column >= whole.window)[None, :])
    return kept & whole.attended


def kept_in_steps(whole, method, values):
    """Of each step what each KV head keeps, [tokens]."""
    if method in eviction_definitions.METHODS and method not in methods_kept_sets.DECODE:
        masks = eviction_definitions.METHODS[method](Beginning(whole), 0, **values)
        return [[mask[0][kv] if isinstance(mask, tuple) else mask[kv] for kv in range(whole.num_kv_heads)] for mask in masks]
    steps = []
    for row in range(whole.seq_q - STEPS, whole.seq_q):
        position = int(whole.position[row])
        first = max(0, position - whole.window + 1) if whole.window else 0
        by_place = method in ("sliding-window", "lm-infinite-decode")  # in the whole sequence, whatever the window
        step = Step(whole, row, 0 if by_place else first)
        masks = np.zeros((whole.num_kv_heads, whole.seq_k), bool)
        for kv in range(whole.num_kv_heads):
            masks[kv, position + 1 - step.seq_k : position + 1] = methods_kept_sets.DECODE[method](step, 0, kv, **values)[0]
        steps.append(masks & whole.attended[row])
    return steps


class Compared:
    def __init__(self):
        self.settings = self.ambiguous = 0
        self.of_method = collections.Counter()
        self.failures = []

    def not_met(self):
        return [method for method in (*PREFILL, *DECODE, *HISTORY, *OWN_OUTPUT) if self.of_method[method] == 0]

    def head(self, method, name, said, masses, whole, h, rows, kept, output=None):
        """`masses`: the program's; kept [rows, tokens]; output: of attention to these, if it is not given."""
        p, values = whole.p[h, rows], whole.v[0, h // whole.group]
        expected = np.where(kept, p, 0).sum(axis=1)
        with_sink = expected + whole.sink_share[h, rows]
        if output is None:
            output = np.where(kept, p, 0) @ values / np.where(with_sink > 0, with_sink, 1)[:, None]
        error = np.linalg.norm(output - p @ values) / np.linalg.norm(p @ values)
        self.settings += 1
        self.of_method[method] += 1
        if len(masses) != len(expected) or not np.abs(masses - expected).max() <= 1e-5:  # nor NaN
            self.failures.append(f"{name}: row masses {masses[:4]}, here {expected[:4]}")
        elif not abs(said["kept_fraction"] - kept.sum() / whole.attended[rows].sum()) <= 1e-9:
            self.failures.append(f"{name}: kept fraction {said['kept_fraction']}, here {kept.sum() / whole.attended[rows].sum()}")
        elif not abs(said["relative_error"] - error) <= 2e-5 * max(1, error):
            self.failures.append(f"{name}: output error {said['relative_error']}, here {error}")


def main():
    program, package = sys.argv[1:3]
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(2**31)
    print(f"seed {seed}")
    choices = {method["name"]: method["parameters"] for method in json.loads(subprocess.run([program, "methods", "--json"], check=True, capture_output=True).stdout)["methods"]}
    compared = Compared()
    with tempfile.TemporaryDirectory() as folder:
        for number, shape in enumerate(OWN_SHAPES + 3 * SHAPES):
            if number >= len(OWN_SHAPES + SHAPES) and not compared.not_met():
                break  # others are drawn for what no definition could decide on any head
            whole = Recorded(np.random.default_rng([seed, number]), shape)
            path, out, rows_file = (pathlib.Path(folder, f"{number}{end}") for end in (".h5", ".json", ".csv"))
            write(package, path, whole, shape)
            asked = [*PREFILL, *DECODE, *(method for method in HISTORY if not shape.window and not (shape.first_row and method in OF_ALL_ROWS)), *OWN_OUTPUT]
            if shape in OWN_SHAPES:
                asked = OWN_OUTPUT
            given = [argument for method in asked for argument in ("--method", method)]
            subprocess.run([program, "compare", path, *given, "--decode-rows", str(STEPS), "--repeat", "1", "--quiet", "-o", out, "--save-rows", rows_file], check=True, stderr=subprocess.DEVNULL)
            masses = collections.defaultdict(list)
            with open(rows_file, newline="") as file:
                for row in csv.DictReader(file):
                    masses[int(row["head"]), row["method"], row["parameters"]].append(float(row["kept_mass"]))
            results = json.loads(out.read_text())["results"]
            if len(results) != len(asked) * shape.qo_heads:
                compared.failures.append(f"trace {number}: {len(results)} results of {len(asked)} methods on {shape.qo_heads} heads")
                continue
            of_steps = {}
            for place, said in enumerate(results):
                method, h = asked[place % len(asked)].split(":")[0], said["head"]
                values = values_of(choices[method], said["parameters"])
                name = f"trace {number}, head {h}, {asked[place % len(asked)]}"
                output = None
                try:
                    if method in weighed_and_thinned.METHODS:
                        key = asked[place % len(asked)]
                        if key not in of_steps:
                            of_steps[key] = list(weighed_and_thinned.METHODS[method](whole, range(whole.seq_q - STEPS, whole.seq_q), **values))
                        rows, kept, output = slice(whole.seq_q - STEPS, whole.seq_q), np.array([read[h] for read, _ in of_steps[key]]), np.array([made[h] for _, made in of_steps[key]])
                    elif method in methods_kept_sets.PREFILL:
                        rows, kept = slice(0, whole.seq_q), kept_in_prompt(whole, method, values, h)
                    else:
                        key = asked[place % len(asked)]
                        if key not in of_steps:
                            of_steps[key] = kept_in_steps(whole, method, values)
                        rows, kept = slice(whole.seq_q - STEPS, whole.seq_q), np.array([masks[h // whole.group] for masks in of_steps[key]])
                except Ambiguous:
                    compared.ambiguous += 1
                    continue
                compared.head(asked[place % len(asked)], name, said, np.array(masses[h, said["method"], said["parameters"]]), whole, h, rows, kept, output)
    compared.failures += [f"{method}: no head was compared" for method in compared.not_met()]
    for failure in compared.failures[:20]:
        print("FAILED", failure)
    print(f"{compared.settings} settings compared, {len(compared.failures)} failures; {compared.ambiguous} ambiguous")
    return 1 if compared.failures or compared.settings == 0 or compared.ambiguous > 0.15 * compared.settings else 0


def values_of(parameters, text):
    """As the definitions take them: numbers, and the place of a choice."""
    values = {}
    for name, value in (one.split("=") for one in text.split(",")):
        parameter = next(one for one in parameters if one["name"] == name)
        number = parameter["choices"].index(value) if parameter["type"] == "choice" else float(value)
        values[name] = int(number) if number == int(number) else number
    return values


if __name__ == "__main__":
    sys.exit(main())
