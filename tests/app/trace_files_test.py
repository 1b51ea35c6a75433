# SPDX-License-Identifier: Apache-2.0
"""Traces in several files on the real binary: capture, info, export, batches, and h5py on each file.

    trace_files_test.py HEADSCOPE DATA_DIR
"""
import csv
import json
import os
import pathlib
import shutil
import tempfile
import unittest

import h5py
import numpy

import command_line
from command_line import MODEL, run

TEXT = "The quick brown fox jumps over the lazy dog again and again."


class Files(unittest.TestCase):
    def setUp(self):
        self._scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._scratch.name)
        self.addCleanup(self._scratch.cleanup)

    def names(self):
        return sorted(os.listdir(self.folder))

    def test_h5py_reads_each_file_and_headscope_the_whole(self):
        run("capture", MODEL, "--text", TEXT, "-o", self.folder / "one.h5", "--quiet")
        printed = run("capture", MODEL, "--text", TEXT, "-o", self.folder / "out.h5", "--files", 3, "--quiet").stdout
        files = [self.folder / f"out-0000{number}-of-00003.h5" for number in (1, 2, 3)]
        self.assertEqual(printed.strip(), str(files[0]))
        found, sets = {}, set()
        for number, path in enumerate(files, 1):
            with h5py.File(path, "r") as file:
                self.assertEqual((file.attrs["format"], file.attrs["version"], bool(file.attrs["complete"])), (b"headscope-trace", 2, True))
                self.assertEqual((file.attrs["file_number"], file.attrs["file_count"]), (number, 3))
                sets.add(file.attrs["file_set"])
                for i, layer in enumerate(file["attention/layers"][:]):
                    found[int(layer)] = {name: file["attention"][name][i] for name in ("q", "k", "v", "lse")}
        self.assertEqual(len(sets), 1)
        with h5py.File(self.folder / "one.h5", "r") as file:
            self.assertEqual(sorted(found), list(file["attention/layers"][:]))
            for layer, tensors in found.items():
                for name, values in tensors.items():
                    numpy.testing.assert_array_equal(values, file["attention"][name][layer])
            self.assertNotIn("file_set", file.attrs)
        of_one = json.loads(run("info", "--json", self.folder / "one.h5").stdout)
        for name in [*files, self.folder / "out.h5"]:
            info = json.loads(run("info", "--json", name).stdout)
            self.assertEqual(info["files"], [str(path) for path in files])
            self.assertEqual(info["bytes"], sum(path.stat().st_size for path in files))
            for key in ("layers", "num_tokens", "num_rows", "facts", "recorded", "complete"):
                self.assertEqual(info[key], of_one[key], key)
        self.assertIn(" in 3 files, complete", run("info", files[1]).stdout)
        for name in ("one", "out"):
            run("analyze", self.folder / f"{name}.h5", "--heads", "7:*", "-o", self.folder / f"{name}.csv", "--quiet")
        one, out = (list(csv.DictReader((self.folder / f"{name}.csv").read_text().splitlines())) for name in ("one", "out"))
        for row in one + out:
            del row["trace"], row["written_at"]  # of what was asked for, and when
        self.assertEqual(one, out)

    def test_export_joins_and_splits(self):
        run("capture", MODEL, "--text", TEXT, "-o", self.folder / "out.h5", "--files", 4, "--quiet")
        run("export", self.folder / "out-00003-of-00004.h5", "-o", self.folder / "one.h5", "--quiet")
        run("export", self.folder / "one.h5", "--files", 2, "-o", self.folder / "two.h5", "--quiet")
        run("export", self.folder / "two.h5", "-o", self.folder / "again.h5", "--quiet")
        self.assertEqual((self.folder / "one.h5").read_bytes(), (self.folder / "again.h5").read_bytes())
        refused = run("export", self.folder / "one.h5", "-o", self.folder / "two.h5", "--quiet", code=2)
        self.assertIn("two-00001-of-00002.h5: it exists", refused.stderr)
        refused = run("export", self.folder / "two.h5", "-o", self.folder / "two.h5", "--force", "--quiet", code=2)
        self.assertIn("which this command reads", refused.stderr)
        run("export", self.folder / "one.h5", "--files", 3, "-o", self.folder / "two.h5", "--force", "--quiet")
        self.assertEqual([name for name in self.names() if name.startswith("two")], [f"two-0000{number}-of-00003.h5" for number in (1, 2, 3)])
        self.assertIn("--files", run("export", self.folder / "one.h5", "--files", 2, "-o", self.folder / "t.csv", code=2).stderr)
        self.assertIn("1 to 1;", run("export", self.folder / "one.h5", "--layers", 3, "--files", 2, "-o", self.folder / "t.h5", code=2).stderr)
        self.assertFalse([name for name in self.names() if name.startswith((".", "t."))])

    def test_what_is_missing_or_there_already_is_said(self):
        run("capture", MODEL, "--text", TEXT, "-o", self.folder / "out.h5", "--files", 2, "--quiet")
        for files in (1, 2, 3):
            self.assertIn("out-00001-of-00002.h5: exists already", run("capture", MODEL, "--text", TEXT, "-o", self.folder / "out.h5", "--files", files, code=2).stderr)
        os.rename(self.folder / "out-00002-of-00002.h5", self.folder / "alone.h5")
        self.assertIn("out-00002-of-00002.h5: is missing", run("info", self.folder / "out.h5", code=3).stderr)
        self.assertEqual(json.loads(run("info", "--json", self.folder / "alone.h5").stdout)["layers"], [1, 3, 5, 7, 9])
        refused = run("capture", MODEL, "--text", TEXT, "-o", self.folder / "new.h5", "--layers", "0-2", "--files", 4, code=2)
        self.assertIn("--files 4: ", refused.stderr)
        self.assertIn("1 to 3", refused.stderr)
        self.assertIn("in 2 files", run("capture", MODEL, "--text", TEXT, "-o", self.folder / "new.h5", "--files", 2, "--dry-run").stdout)
        self.assertEqual(self.names(), ["alone.h5", "out-00001-of-00002.h5"])

    def test_force_replaces_files_of_such_a_trace_only(self):
        run("capture", MODEL, "--text", TEXT, "-o", self.folder / "one.h5", "--quiet")
        run("export", self.folder / "one.h5", "--files", 2, "-o", self.folder / "other.h5", "--quiet")
        run("export", self.folder / "one.h5", "--files", 3, "-o", self.folder / "out.h5", "--quiet")

        def refused(name, why):
            before = {name: (self.folder / name).read_bytes() for name in self.names()}
            for command in (("export", self.folder / "one.h5"), ("capture", MODEL, "--text", TEXT)):
                for files in (2, 3):
                    done = run(*command, "-o", self.folder / "out.h5", "--files", files, "--force", "--quiet", code=2)
                    self.assertIn(f"{name}: ", done.stderr)
                    self.assertIn(why, done.stderr)
                    self.assertIn("move it away", done.stderr)
            self.assertEqual({name: (self.folder / name).read_bytes() for name in self.names()}, before)

        notes = self.folder / "out-00005-of-00007.h5"
        notes.write_text("what somebody wrote down")
        refused(notes.name, "is not a trace that can be read")
        shutil.copy(self.folder / "one.h5", notes)
        refused(notes.name, "does not say that it is one of the files of a trace")
        shutil.copy(self.folder / "out-00001-of-00003.h5", notes)
        refused(notes.name, "says that it is file 1 of 3 of its trace")
        notes.unlink()
        shutil.copy(self.folder / "other-00001-of-00002.h5", self.folder / "out-00001-of-00002.h5")
        run("export", self.folder / "one.h5", "--files", 2, "-o", self.folder / "again.h5", "--quiet")
        shutil.copy(self.folder / "again-00002-of-00002.h5", self.folder / "out-00002-of-00002.h5")
        refused("out-00002-of-00002.h5", "is not of the same trace as out-00001-of-00002.h5")
        (self.folder / "out-00002-of-00002.h5").unlink()
        (self.folder / "out.h5").write_text("what somebody wrote down")
        refused("out.h5", "is not a trace that can be read")
        (self.folder / "out.h5").unlink()
        run("export", self.folder / "one.h5", "--files", 4, "-o", self.folder / "out.h5", "--force", "--quiet")
        self.assertEqual([name for name in self.names() if name.startswith("out")], [f"out-0000{number}-of-00004.h5" for number in (1, 2, 3, 4)])

    def test_a_dry_run_counts_traces_where_there_are_several(self):
        planned = run("capture", MODEL, "--text", TEXT, "-o", self.folder / "out.h5", "--files", 3, "--dry-run").stdout
        self.assertIn("out.h5: ", planned)
        self.assertIn(" in 3 files", planned)
        self.assertNotIn("together", planned)
        self.assertNotIn("files      1", planned)
        (self.folder / "prompts.jsonl").write_text('{"tokens": [5, 6, 7]}\n{"tokens": [8, 9]}\n')
        planned = run("capture", MODEL, "--prompts", self.folder / "prompts.jsonl", "-o", self.folder / "many", "--dry-run").stdout
        self.assertIn("traces     2, ", planned)

    def test_a_copy_of_a_file_is_a_trace_to_tune_on_once(self):
        run("capture", MODEL, "--text", TEXT, "-o", self.folder / "out.h5", "--files", 2, "--quiet")
        copied = self.folder / "elsewhere.h5"
        shutil.copy(self.folder / "out-00002-of-00002.h5", copied)
        said = run("tune", self.folder / "out.h5", copied, "--method", "streaming-llm", "--target", "cra=0.9", "--quiet", code=2).stderr
        self.assertIn("elsewhere.h5: it is given twice", said)

    def test_a_plan_and_a_batch_name_the_number(self):
        (self.folder / "plan.json").write_text('{"format": "headscope-record-1", "layers": [2, 5], "files": 2}')
        (self.folder / "prompts.jsonl").write_text('{"tokens": [5, 6, 7]}\n{"tokens": [8, 9], "name": "b"}\n')
        batch = ("capture", MODEL, "--prompts", self.folder / "prompts.jsonl", "-o", self.folder / "many", "--record-plan", self.folder / "plan.json", "--quiet")
        run(*batch)
        manifest = json.loads((self.folder / "many/manifest.json").read_text())
        self.assertEqual(manifest["options"]["files"], 2)
        for capture, name in zip(manifest["captures"], ("prompt-1", "b")):
            paths = [self.folder / "many" / f"{name}-0000{number}-of-00002.h5" for number in (1, 2)]
            self.assertEqual(capture["file"], paths[0].name)
            self.assertEqual(capture["bytes"], sum(path.stat().st_size for path in paths))
        kept = (self.folder / "many/prompt-1-00001-of-00002.h5").stat().st_mtime_ns
        (self.folder / "many/b-00002-of-00002.h5").unlink()
        run(*batch, "--resume")
        self.assertEqual((self.folder / "many/prompt-1-00001-of-00002.h5").stat().st_mtime_ns, kept)
        self.assertEqual(json.loads(run("info", "--json", self.folder / "many/b.h5").stdout)["num_tokens"], 2)
        self.assertIn("was made with other options", run(*batch, "--files", 1, "--resume", code=2).stderr)


if __name__ == "__main__":
    command_line.main()
