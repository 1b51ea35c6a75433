# SPDX-License-Identifier: Apache-2.0
"""No two sources have the same name: a search, a compiler's message and an #include name one file.

usage: file_names_test.py SOURCE_FOLDER
"""

import collections
import pathlib
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path(".")
FOLDERS = ("analysis", "app", "base", "benchmarks", "capture", "data", "eval", "kernels", "model", "sparse_model", "tests", "ui")
SUFFIXES = {".cpp", ".h", ".cu", ".cuh", ".c", ".py"}


def twins(folder):
    """{name: its files} of the names that several sources below the rooms have."""
    by_name = collections.defaultdict(list)
    for room in FOLDERS:
        for path in sorted((folder / room).rglob("*")):
            if path.suffix in SUFFIXES and "__pycache__" not in path.parts:
                by_name[path.name].append(str(path.relative_to(folder)))
    return {name: files for name, files in by_name.items() if len(files) > 1}


class FileNames(unittest.TestCase):
    def test_every_source_has_a_name_of_its_own(self):
        self.assertEqual(twins(SOURCE), {})

    def test_finds_twins_and_lets_a_header_be_called_as_its_source(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for path in ("kernels/cpu/attend.cpp", "kernels/cuda/attend.cpp", "kernels/include/kernels/attend.h", "ui/CMakeLists.txt",
                         "app/CMakeLists.txt"):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text("")
            self.assertEqual(twins(folder), {"attend.cpp": ["kernels/cpu/attend.cpp", "kernels/cuda/attend.cpp"]})


if __name__ == "__main__":
    unittest.main()
