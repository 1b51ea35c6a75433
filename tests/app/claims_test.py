#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of docs/claims.md and holds what they print to the page's tables.

    claims_test.py HEADSCOPE DATA_DIR TRACE.h5 PAGE PART.. [--print]

A row of a table is a claim: its name, what the paper says, what headscope measures and whether that bears it out. The commands are the page's
own, in lists that are run by themselves (PART); how their output becomes the row's numbers, and when a claim holds, is said here. --print shows what the rows would be.
"""
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

RELATIVE, ABSOLUTE = 0.02, 0.006  # rounding on the page, and of another machine's vectors
# Of claims that count heads by what a search chooses: heads whose two best settings all but tie go either way with those vectors.
TIES = {"m-search": [2, 0]}


class Outputs:
    """What the page's commands wrote, by file."""

    def __init__(self, folder):
        self.folder = folder

    def json(self, name):
        return json.loads((self.folder / name).read_text())

    def heads(self):
        return self.json("statistics.json")["heads"]

    def mean(self, field):
        return statistics.mean(head[field] for head in self.heads())

    def sparsity(self, target=0.95):
        return [next(one["sparsity"] for one in head["sparsity_at_cra"] if one["target"] == target) for head in self.heads()]

    def panel(self, figure, number):
        return self.json(figure)["panels"][number]["series"]

    def runs(self, name, field, method):
        """Mean over the heads of a run that is asked for as METHOD or METHOD:k=v,..: its parameters hold these."""
        name_of, _, parameters = method.partition(":")
        found = [run[field] for run in self.json(name)["results"]
                 if run["method"] == name_of and all(f",{one}," in f",{run['parameters']}," for one in parameters.split(",") if one)]
        assert len(found) in (40, 80), f"{name}: {len(found)} runs of {method}"
        return statistics.mean(found)

    def exact(self, name):
        """The share of questions that was answered exactly."""
        line = next(line for line in (self.folder / name).read_text().splitlines() if line.startswith("passkey"))
        return float(line.split()[4])


    def column(self, name, task, column):
        """Of the lines of a task, one after the other."""
        return [float(line.split()[column]) for line in (self.folder / name).read_text().splitlines() if line.startswith(task + " ")]


def measured_by(part):
    """The page's list of commands that a claim needs; of the others it is the first."""
    def mark(function):
        function.part = part
        return function
    return mark


def falls(values):
    return all(a > b for a, b in zip(values, values[1:]))


def layer_means(values):
    return [statistics.mean(values[i:i + 8]) for i in range(0, 80, 8)]


# Of a claim the numbers of its row, and whether it holds.
@measured_by("Keys")
def q_needle(o):
    dense, sparq, h2o, infinite = (o.exact(f"needle-{name}.txt") for name in ("dense", "sparq", "h2o", "lm-infinite"))
    return [dense, sparq, h2o, infinite], sparq >= 0.95 * dense and max(h2o, infinite) < 0.5 * dense


def q_mass(o):
    masses = [o.runs("decode.json", "cra_mean", method) for method in ("sparq:r=16,k=512,reallocate=0", "h2o:k=1024", "lm-infinite-decode:k=1024")]
    return masses, masses[0] > max(masses[1:])


@measured_by("Texts")
def q_text(o):
    bits = o.column("text-steps.txt", "prose", 6)
    return bits, bits[1] <= 1.01 * bits[0]


@measured_by("Texts")
def q_repeat(o):
    characters = o.column("repeat.txt", "repeat", 6)
    return characters, characters[1] > 0.95 * characters[0] and max(characters[2:]) < 0.5 * characters[1]


def q_oracle(o):
    masses = [o.runs("decode.json", "cra_mean", method) for method in ("sparq:r=16,k=128", "exact-top-k:k=128")]
    return masses, masses[0] >= 0.95 * masses[1]


def q_rank(o):
    masses = [o.runs("decode.json", "cra_mean", method) for method in ("sparq:r=16,k=128", "low-rank:r=16,k=128")]
    return masses, masses[0] > 1.2 * masses[1]


def q_components(o):
    found = o.panel("projections.json", 1)[0]["y"]  # by the largest, first and last components, a random and the principal subspace
    return found, found[0] > 2 * max(found[1:3]) and found[0] > found[3]


def q_outliers(o):
    several = [head["query_outliers"] for head in o.heads()]
    return [max(several), sum(one > 1 for one in several)], 10 < max(several) and sum(one > 1 for one in several) > 40


def q_bytes(o):
    factor = o.runs("decode.json", "bytes_allow", "sparq:r=16,k=128")
    return [factor], abs(factor / 6.4 - 1) < 0.02


def q_reallocation(o):
    errors = [o.runs("decode.json", "relative_error", f"sparq:r=16,k=512,reallocate={flag}") for flag in (0, 1)]
    return errors, errors[0] < errors[1]


def q_temperature(o):
    errors = o.panel("coverage.json", 1)[0]["y"]
    return errors, min(errors) == errors[3]


def q_kurtosis(o):
    above = sum(head["kurtosis_pooled"] > 0 for head in o.heads())
    own = sum(head["kurtosis_pooled"] > head["kurtosis_gaussian"] for head in o.heads())
    return [above, own], above > 40


def q_values(o):
    mean = o.mean("v_correlation")
    return [mean], mean > 0.1


def q_axes(o):
    ratios = o.panel("axes.json", 0)[0]["y"]  # along prompts, tokens, layers, heads and components
    return ratios, ratios[1] > 0.1 and ratios[1] == max(ratios) and max(ratios[2:]) < 0.05


def q_top(o):
    mean = statistics.mean(next(one["mean"] for one in head["top_k_mass"] if one["k"] == 32) for head in o.heads())
    return [mean], mean > 0.7


def q_agreement(o):
    mean = statistics.mean(next(one["mean"] for one in head["top_k_agreement"] if (one["r"], one["k"]) == (8, 32)) for head in o.heads())
    return [mean], mean > 0.6


def m_columns(o):
    mean = statistics.mean(value for row in o.panel("columns.json", 0) for value in row["y"])
    return [mean], mean > 0.9


def m_transfer(o):
    rows = [row["y"] for row in o.panel("transfer.json", 0)]
    own, other = (rows[0][0] + rows[1][1]) / 2, (rows[0][1] + rows[1][0]) / 2
    return [own, other], other < own - 0.05


def m_near(o):
    mean = o.mean("nearest_nonzero")
    return [mean], mean < 10


def m_search(o):
    heads = o.json("patterns.json")["heads"]
    found = sum(head["method"] == "vertical-slash" for head in heads)
    return [found, len(heads)], found > 0.9 * len(heads)


def m_lines(o):
    head, = o.json("lines.json")["heads"]
    return [head["slash_mass"]], head["class"] == "vertical-slash"


def more(one, other):
    """Whether `one` is the larger; None where they differ by no more than what the page's numbers may."""
    return None if abs(one - other) <= RELATIVE * abs(other) + ABSOLUTE else one > other


def m_both(o):
    masses = [o.runs("prefill.json", "cra_mean", f"vertical-slash:{budgets}") for budgets in ("n_vertical=100,n_slash=500", "n_vertical=1600,n_slash=1", "n_vertical=1,n_slash=540")]
    return masses, more(masses[0], max(masses[1:]))


def m_blocks(o):
    kinds = "vertical-slash:n_vertical=100,n_slash=500", "block-sparse:n_blocks=24"
    masses, shares = ([o.runs("prefill.json", field, kind) for kind in kinds] for field in ("cra_mean", "kept_fraction"))
    return masses + shares, masses[0] > masses[1] and shares[1] > 0.95 * shares[0]


def m_dilated(o):
    masses = [o.runs("prefill.json", "cra_mean", f"streaming-llm:n_sink=64,{budgets}") for budgets in ("n_local=512", "n_local=1,n_dilated=1024", "n_local=256,n_dilated=512")]
    return masses, masses[0] > max(masses[1:])


def m_tiles(o):
    methods = {series["name"]: series["y"] for series in o.panel("tiles.json", 0)}
    ends = [methods[f"MInference {name}"] for name in ("A-shape", "vertical-slash", "block-sparse")]
    return [one[-1] for one in ends], all(sorted(one) == one and one[-1] > one[-2] for one in ends)


@measured_by("Texts")
def m_prose(o):
    lines = [line.split() for line in (o.folder / "prose.txt").read_text().splitlines() if line.startswith("prose")]
    dense, lines_kept, streaming = (float(line[4]) for line in lines)
    return [dense, lines_kept, streaming], lines_kept - dense < 0.5 * (streaming - dense)


def m_static(o):
    masses = [o.runs("prefill.json", "cra_mean", f"{name}:n_vertical=100,n_slash=500") for name in ("vertical-slash", "static-index")]
    return masses, masses[0] > masses[1]


@measured_by("Keys")
def m_needle(o):
    found = [o.exact(f"needle-{name}.txt") for name in ("vertical-slash", "streaming-llm")]
    return found, found[0] >= 0.95 and found[0] > found[1]


@measured_by("Keys")
def m_infllm(o):
    found = [o.exact(f"needle-{name}.txt") for name in ("infllm", "streaming-llm")]
    return found, found[0] >= 0.95 and found[0] > found[1]


@measured_by("Keys")
def m_snapkv(o):
    ranked_first = o.column("needle-snapkv.txt", "passkey", 5)
    return ranked_first, ranked_first[1] >= 0.95 * ranked_first[0]


def s_uniform(o):
    layers = layer_means([head["num_effective_keys"] for head in o.heads()])
    return [layers[0], statistics.mean(layers[1:])], layers[0] > max(layers[1:])


def s_reduction(o):
    kept = {}
    for run in o.json("shards.json")["results"]:
        kept.setdefault(run["parameters"].split(",")[0], []).append(1 - run["kept_fraction"])
    left_out = [statistics.mean(kept[name]) for name in ("local_blocks=1", "local_blocks=8", "n_local=576")]
    return left_out, all(abs(here - paper) < 0.015 for here, paper in zip(left_out, (0.927, 0.875, 0.929)))


def s_shapes(o):
    kinds = sorted({head["class"] for head in o.heads()})
    return [len(kinds)], len(kinds) >= 4


def p_sparsity(o):
    mean = statistics.mean(o.sparsity())
    return [mean], mean > 0.896


def p_range(o):
    least, most, layer = min(o.sparsity()), max(o.sparsity()), o.sparsity().index(min(o.sparsity())) // 8
    return [layer, least, most], layer == 0 and least < 0.5 and most > 0.99


def p_length(o):
    kept = next(series for series in o.panel("lengths.json", 1) if series["name"].endswith("0.95"))["y"]
    return kept, falls(kept)


def p_doubling(o):
    kept = next(series for series in o.panel("lengths.json", 1) if series["name"].endswith("0.95"))["y"]
    fall = 1 - (kept[-1] / kept[0]) ** (1 / (len(kept) - 1))
    return [fall], 0.15 < fall < 0.25


def p_sampling(o):
    curves = {series["name"]: series["y"] for panel in (1,) for series in o.panel("stripes.json", panel)}
    everything, sampled = (next(y for name, y in curves.items() if name.endswith(end)) for end in ("all scores", "sampled scores"))
    losses = [everything[i] - sampled[i] for i in (0, 2, 6)]  # at 2.5, 10 and 80 % of the stripes
    return losses, max(losses) <= 0.08


def p_chunks(o):
    least = [o.runs("prefill.json", "cra_min", f"sample-attention:chunk_n={n},alpha_c=0.9,alpha_s=0.9") for n in (1, 2, 4)]
    return least, falls(least[::-1])


def p_accuracy(o):
    alphas = (0.7, 0.8, 0.9, 0.95)
    masses, errors = ([o.runs("prefill.json", field, f"sample-attention:alpha_c={a},alpha_s={a},chunk_n=1") for a in alphas] for field in ("cra_min", "relative_error"))
    return errors, falls(errors) and falls(masses[::-1])


@measured_by("Keys")
def p_needle(o):
    found = [o.exact(f"needle-{name}.txt") for name in ("sample-attention", "big-bird", "streaming-llm", "hyper-attention")]
    return found, found[0] >= 0.95 and max(found[1:]) < found[0]


CLAIMS = {name.replace("_", "-"): function for name, function in list(globals().items()) if re.match(r"[qmsp]_[a-z]+$", name)}


def rows_of(page):
    """Name, numbers (the bold ones) and verdict of every row of the tables."""
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and len(cells) >= 5:
            yield cells[0].strip("`"), [float(one) for one in re.findall(r"\*\*(-?[\d.]+)\*\*", cells[3])], cells[4]


def word(holds):
    return "undecided" if holds is None else "yes" if holds else "no"


def commands_of(page):
    """By the name of their list."""
    return {part: block.splitlines() for part, block in re.findall(r"^### (\w+)\n```sh\n(.*?)```", page, re.S | re.M)}


def part_of(function):
    return getattr(function, "part", "Traces")


def main():
    program, data, trace, page = sys.argv[1:5]
    parts = [one for one in sys.argv[5:] if not one.startswith("--")]
    text = pathlib.Path(page).read_text()
    commands = commands_of(text)
    if not parts or any(part not in commands for part in parts):
        raise SystemExit(f"name parts among {', '.join(commands)}")
    for lists in (one.removeprefix("--lists=") for one in sys.argv[5:] if one.startswith("--lists=")):
        if set(lists.split(",")) != set(commands):
            raise SystemExit(f"tests run the lists {lists}; the page has {', '.join(commands)}")
    claims = {claim: function for claim, function in CLAIMS.items() if part_of(function) in parts}
    failures = [f"{claim}: the page has no commands '{part_of(function)}'" for claim, function in CLAIMS.items() if part_of(function) not in commands]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.symlink(os.path.abspath(program), folder / "headscope")
        environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "TRACE": os.path.abspath(trace), "MODEL": os.path.join(os.path.abspath(data), "reference_model"), "HEADSCOPE_DATA_DIR": os.path.abspath(data)}
        for command in (one for part in parts for one in commands[part]):
            done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(f"{command}: exit {done.returncode}: {done.stderr[-500:]}")
        outputs = Outputs(folder)
        rows = {claim: (numbers, verdict) for claim, numbers, verdict in rows_of(text)}
        for claim, function in claims.items():
            numbers, holds = function(outputs)
            if "--print" in sys.argv:
                print(claim, ", ".join(f"{one:.4g}" for one in numbers), word(holds))
                continue
            if claim not in rows:
                failures.append(f"{claim}: the page has no row")
                continue
            said, verdict = rows[claim]
            if len(said) != len(numbers) or any(abs(a - b) > max(RELATIVE * abs(b) + ABSOLUTE, ties) for a, b, ties in zip(said, numbers, TIES.get(claim, [0] * len(said)))):
                failures.append(f"{claim}: the page says {said}, measured {[round(one, 4) for one in numbers]}")
            if verdict.split()[0] != word(holds):
                failures.append(f"{claim}: the page says '{verdict}', and whether it holds: {word(holds)}")
        if "--print" not in sys.argv:
            failures += [f"{claim}: a row that nothing measures" for claim in rows if claim not in CLAIMS]
    for failure in failures:
        print("FAILED", failure)
    print(f"{len(claims)} claims, {len(failures)} differences from the page")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
