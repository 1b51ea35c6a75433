# SPDX-License-Identifier: Apache-2.0
"""Writes prose.txt again from Debian 12 packages: nine documents that were held out of the reference model's training.

    make_prose.py [--packages DIR_OF_DEBS] --out FILE
"""
import argparse
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "reference_model"))
import prepare_corpus
from recipe import extraction
from recipe.sources import SOURCES, wanted

DOCUMENTS = [("sqlite3-doc", "whynotgit.html"), ("sword-comm-tdavid", "ot.czs:83"), ("sqlite3-doc", "withoutrowid.html"),
             ("sword-text-web", "nt.bzs:13"), ("sqlite3-doc", "loadext.html"), ("sword-comm-mhcc", "ot.bzs:15"),
             ("sqlite3-doc", "fasterthanfs.html"), ("sword-text-web", "ot.bzs:93"), ("sword-text-web", "ot.bzs:94")]


def held_out_documents(package, folder):
    """{short name: text} of the package's documents that the training did not see."""
    source = next(source for source in SOURCES if source.package == package)
    _, root = prepare_corpus.fetch(package, folder)
    texts = {}
    for path in sorted(str(path) for path in pathlib.Path(root, "usr").rglob("*") if path.is_file()):
        if wanted(source, path, root):
            for name, lines in extraction.documents(source.form, path):
                if prepare_corpus.is_held_out(prepare_corpus.digest_of(name, folder)):
                    texts[os.path.basename(name)] = "\n".join(lines) + "\n"
    return texts


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--packages", help="folder that holds, or will hold, the .deb files (default: a temporary one)")
    options.add_argument("--out", required=True)
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.abspath(options.packages or scratch)
        texts = {package: held_out_documents(package, folder) for package in {package for package, _ in DOCUMENTS}}
        pathlib.Path(options.out).write_text("".join(texts[package][name] for package, name in DOCUMENTS), encoding="utf-8")


if __name__ == "__main__":
    main()
