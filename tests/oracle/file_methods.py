#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Methods that are made of files, recomputed in NumPy: writes random files and compares what `headscope compare` says of them on recorded heads.

    file_methods.py HEADSCOPE TRACE.h5 [SEED]

The files are a FlexAttention block mask (JSON), index files (HDF5, and JSON of a trace's heads) and DuoAttention's numbers (TSV); what they keep is docs/methods.md's and
docs/bench.md's. Masks over all (row, column) pairs of the trace's first 700 tokens give kept fractions, masses and the output's error.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import h5py
import numpy as np

import analysis_oracle
from analysis_oracle import Head, check, failures

HEADS = [(4, 3), (5, 3), (8, 4)]
TOKENS, NUM_HEADS, NUM_KV_HEADS, NUM_LAYERS = 700, 8, 4, 10  # of the shipped model
STEPS = 37  # decode methods run on the last rows
ROWS, COLUMNS = np.arange(TOKENS)[:, None], np.arange(TOKENS)[None, :]


def block_mask(rng, path, heads):
    """Both kinds of blocks, of 128 rows and 64 keys; [heads or 1, tokens, tokens]."""
    rows, columns = -(-TOKENS // 128), -(-TOKENS // 64)
    partial, full = (rng.random((heads, rows, columns)) < share for share in (0.3, 0.2))
    partial[:, :, 0] |= rng.random((heads, rows)) < 0.8  # few rows without any key
    lists = lambda blocks: [[[np.flatnonzero(row).tolist() for row in head] for head in blocks]]
    counts = lambda blocks: [[[int(row.sum()) for row in head] for head in blocks]]
    padded = [[[row + [0] * (columns - len(row)) for row in head] for head in lists(partial)[0]]]  # past the count anything may stand
    path.write_text(json.dumps({"BLOCK_SIZE": [128, 64], "kv_num_blocks": counts(partial), "kv_indices": padded,
                                "full_kv_num_blocks": counts(full), "full_kv_indices": lists(full)}))
    kept = (partial | full).repeat(128, axis=1)[:, :TOKENS].repeat(64, axis=2)[:, :, :TOKENS]
    return [kept[head if heads > 1 else 0] for head in range(NUM_HEADS)]


def random_lists(rng, num_heads):
    """Runs for whole tiles of 128 rows and for halves of them, and single columns: as an index has them, and the masks."""
    tiles, runs, columns, run_count, column_count = -(-TOKENS // 128), [], [], [], []
    masks = np.zeros((num_heads, TOKENS, TOKENS), bool)
    for head in range(num_heads):
        for tile in range(tiles):
            first = 128 * tile
            number_of_runs, free = 0, np.ones(TOKENS, bool)
            for begin in sorted(rng.choice(TOKENS // 32, size=4, replace=False) * 32):
                half, length = int(rng.choice([0, 2, 4])), int(rng.integers(1, 33))
                end = min(begin + length, TOKENS)
                own = slice(first + (64 if half == 4 else 0), min(first + (64 if half == 2 else 128), TOKENS))
                if own.start >= TOKENS:
                    continue
                runs.append((begin, (end - begin) | (half | int(end > own.start + 1)) << 28))
                number_of_runs += 1
                masks[head, own, begin:end] = True
                free[begin:end] = False
            single = np.flatnonzero(free[: first + 1] & (rng.random(first + 1) < 0.05))
            columns += single.tolist()
            masks[head, first : first + 128, single] = True
            run_count.append(number_of_runs)
            column_count.append(len(single))
    begins = lambda counts: np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    return masks, {"run_begin": begins(run_count), "column_begin": begins(column_count), "run_count": np.int32(run_count), "column_count": np.int32(column_count),
                   "runs": np.array(runs, np.uint32).view(np.int32), "columns": np.int32(columns)}


SHAPE = {"num_kv_heads": NUM_KV_HEADS, "head_dim": 64, "seq_q": TOKENS, "seq_k": TOKENS, "first_position": 0, "tile_rows": 128, "mask_kind": 1, "window": 0, "num_sinks": 0}


def index_file(rng, path):
    """One layer's heads, as HDF5."""
    masks, lists = random_lists(rng, NUM_HEADS)
    with h5py.File(path, "w", libver=("v110", "v110")) as file:
        file.attrs.update({"format": np.bytes_("headscope-index"), "method": np.bytes_("given"), "recipe": np.bytes_("none"), "dtype": np.bytes_("fp32"), "seed": np.int64(0)})
        file.attrs.update({name: np.int32(value) for name, value in ({"version": 1, "batch": 1, "num_qo_heads": NUM_HEADS} | SHAPE).items()})
        for name, values in lists.items():
            file[name] = values
    return masks


def index_json(rng, path):
    """The heads of three layers in an order of their own, as JSON; {(layer, head): mask}."""
    heads = rng.permutation([(layer, head) for layer, _ in HEADS for head in range(NUM_HEADS)]).tolist()
    masks, lists = random_lists(rng, len(heads))
    members = {"format": "headscope-index", "version": 2, "method": "given", "recipe": "trace", "num_qo_heads": len(heads), "heads": heads, "not read": None} | SHAPE
    members |= {name: values.tolist() for name, values in lists.items()}
    path.write_text(json.dumps({name: members[name] for name in rng.permutation(list(members))}))
    return dict(zip(map(tuple, heads), masks, strict=True))


def duo_attention(numbers, layer, threshold=0.5, n_sink=128, n_local=256, sparsity=0, rows_together=64):
    """Of 64 rows the first one's window is all of theirs; a step is a row by itself."""
    numbers = np.clip(numbers, 0, 1)
    threshold = np.quantile(numbers, sparsity) if sparsity > 0 else threshold
    streaming = (COLUMNS < n_sink) | (ROWS // rows_together * rows_together - COLUMNS < n_local)
    everything = np.ones((TOKENS, TOKENS), bool)
    return [everything if numbers[layer, head // (NUM_HEADS // NUM_KV_HEADS)] >= threshold else streaming for head in range(NUM_HEADS)]


def compare_head(name, said, head, mask, rows):
    attended, p = head.attended[-rows:], head.p[-rows:]
    kept = mask[-rows:] & attended
    mass = np.where(kept, p, 0).sum(axis=1)
    check(f"{name}, kept fraction", said["kept_fraction"], kept.sum() / attended.sum(), 1e-9)
    check(f"{name}, CRA", [said["cra_min"], said["cra_p5"], said["cra_mean"]], [mass.min(), np.sort(mass)[-(-len(mass) // 20) - 1], mass.mean()], 1e-4, 3e-6)
    dense = p @ head.v
    output = np.where(kept, p, 0) @ head.v / np.where(kept.any(axis=1), mass, 1)[:, None]
    check(f"{name}, error of the output", said["relative_error"], np.linalg.norm(output - dense) / np.linalg.norm(dense), absolute=5e-6)


def main():
    program, trace = sys.argv[1:3]
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(2**31)
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        part, out = str(folder / "part.h5"), folder / "out.json"
        subprocess.run([program, "export", trace, "--tokens", f"0:{TOKENS}", "-o", part], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        numbers = rng.uniform(-0.2, 1.2, (NUM_LAYERS, NUM_KV_HEADS))
        (folder / "duo.tsv").write_text("".join("\t".join(map(repr, map(float, line))) + "\n" for line in numbers))
        cases = [(f"mask-file:path={folder}/{file}", lambda layer, masks=masks: masks, TOKENS) for file, masks in (
            ("heads.json", block_mask(rng, folder / "heads.json", NUM_HEADS)), ("shared.json", block_mask(rng, folder / "shared.json", 1)), ("index.h5", index_file(rng, folder / "index.h5")))]
        by_head = index_json(rng, folder / "index.json")
        cases.append((f"mask-file:path={folder}/index.json", lambda layer: {head: mask for (one, head), mask in by_head.items() if one == layer}, TOKENS))
        for parameters in ({}, {"threshold": 0.3, "n_sink": 10, "n_local": 50}, {"sparsity": 0.7, "n_sink": 1, "n_local": 2}):
            asked = "".join(f",{name}={value}" for name, value in parameters.items())
            for phase, rows, together in (("", TOKENS, 64), ("decode/", STEPS, 1)):
                masks_of = lambda layer, parameters=parameters, together=together: duo_attention(numbers, layer, rows_together=together, **parameters)
                cases.append((f"{phase}duo-attention:path={folder}/duo.tsv{asked}", masks_of, rows))
        with h5py.File(part, "r") as file:
            heads = {id: Head(file, *id) for id in HEADS}
        for method, masks, rows in cases:
            subprocess.run([program, "compare", part, "--method", method, "--decode-rows", str(STEPS), "--heads", ",".join(f"{a}:{b}" for a, b in HEADS), "--repeat", "1", "--quiet", "--force", "-o", out], check=True)
            results = json.loads(out.read_text())["results"]
            check(f"{method}, heads", [(one["layer"], one["head"]) for one in results], HEADS)
            for said in results:
                layer, number = said["layer"], said["head"]
                compare_head(f"{pathlib.Path(method).name} on {layer}:{number}", said, heads[layer, number], masks(layer)[number], rows)
    for failure in failures:
        print("FAILED", failure)
    print(f"{analysis_oracle.checks - len(failures)} of {analysis_oracle.checks} comparisons agree")
    return 1 if failures or analysis_oracle.checks == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
