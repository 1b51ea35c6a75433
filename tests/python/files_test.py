# SPDX-License-Identifier: Apache-2.0
"""Traces in several files: what is recorded is what one file holds, the C++ reader opens them, and what is missing or of another trace is refused."""
import json
import pathlib
import shutil
import subprocess

import cases
import families
import h5py
import numpy as np
import torch

import headscope
from headscope import layout, trace_files

IDS = torch.arange(3, 44)[None]


class Files(cases.FolderCase):
    def setUp(self):
        self.room = self.folder / self.id()
        self.room.mkdir()
        self.path = self.room / "out.h5"

    def record(self, name, files, path=None, **options):
        model = families.make(name)
        with torch.no_grad(), headscope.record(model, path or self.path, files=files, **options) as recording:
            model(IDS)
        return recording

    def names(self):
        return sorted(entry.name for entry in self.room.iterdir())

    def info(self, path):
        done = subprocess.run([cases.HEADSCOPE, "info", "--json", str(path)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_hold_what_one_file_holds(self):
        points = tuple(layout.POINTS)
        for name in ("llama", "gemma3_text", "qwen3"):
            with self.subTest(name):
                one, path = self.room / f"{name}-one.h5", self.room / f"{name}.h5"
                self.record(name, 1, one, points=points, rows="every:3")
                recording = self.record(name, 2, path, points=points, rows="every:3")
                files = trace_files.files_of(str(path), 2)
                self.assertEqual(recording.paths, files[:1])
                wanted = headscope.open(one)
                for opened in [path, *files]:
                    found = headscope.open(opened)
                    self.assertEqual((found.paths, found.path, found.complete), (files, files[0], True))
                    self.assertEqual((found.layers, found.num_tokens), (wanted.layers, wanted.num_tokens))
                    np.testing.assert_array_equal(found.rows, wanted.rows)
                    for layer in wanted.layers:
                        facts = wanted.facts(layer)
                        for head in facts.qo_heads:
                            for tensor in ("q", "lse", "q_pre_rope", "q_projection", "head_output", "value_norms"):
                                np.testing.assert_array_equal(found.tensor(tensor, layer, head)[:], wanted.tensor(tensor, layer, head)[:])
                            np.testing.assert_array_equal(found.scores(layer, head), wanted.scores(layer, head))
                        for head in facts.kv_heads:
                            for tensor in ("k", "v", "cache_k", "cache_v", "k_pre_rope", "k_projection"):
                                np.testing.assert_array_equal(found.tensor(tensor, layer, head)[:], wanted.tensor(tensor, layer, head)[:])
                    found.close()
                said, of_one = self.info(path), self.info(one)
                self.assertEqual(said["files"], files)
                for key in ("layers", "facts", "num_tokens", "num_rows", "complete", "recorded"):
                    self.assertEqual(said[key], of_one[key])

    def test_layers_are_where_the_program_puts_them(self):
        """The same deal: what Python splits is what `headscope export --files` splits."""
        self.record("llama", 1)
        layers = headscope.open(self.path).layers
        count = min(2, len(layers))
        self.record("llama", count, self.room / "python.h5")
        subprocess.run([cases.HEADSCOPE, "export", str(self.path), "--files", str(count), "-o", str(self.room / "program.h5"), "--quiet"], check=True)
        for number in range(1, count + 1):
            held = []
            for name in ("python.h5", "program.h5"):
                with h5py.File(trace_files.file_path(str(self.room / name), number, count), "r") as file:
                    held.append(list(file["layers"].attrs["layer"]))
            self.assertEqual(*held)

    def test_attention_to_another_sequence_is_in_the_first(self):
        sizes = dict(d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, vocab_size=97)
        torch.manual_seed(5)
        model = cases.transformers.BartForConditionalGeneration(cases.transformers.BartConfig(**sizes)).eval()
        encoder, decoder = torch.arange(3, 20)[None], torch.arange(5, 14)[None]
        for files, path in ((1, self.room / "one.h5"), (2, self.path)):
            with torch.no_grad(), headscope.record(model, path, files=files):
                model(input_ids=encoder, decoder_input_ids=decoder)
        one, several = headscope.open(self.room / "one.h5"), headscope.open(trace_files.file_path(str(self.path), 2, 2))
        self.assertEqual(one.cross_layers, several.cross_layers)
        self.assertTrue(one.cross_layers)
        for layer in one.cross_layers:
            np.testing.assert_array_equal(several.cross_scores(layer, 0), one.cross_scores(layer, 0))

    def test_no_file_of_the_trace_before_stays(self):
        self.record("llama", 2)
        with self.assertRefused(headscope.UsageError, "out-00001-of-00002.h5", "it exists"):
            self.record("llama", 1)
        self.record("llama", 1, overwrite=True)
        self.assertEqual(self.names(), ["out.h5"])
        self.record("llama", 2, overwrite=True)
        self.assertEqual(self.names(), ["out-00001-of-00002.h5", "out-00002-of-00002.h5"])
        with self.assertRefused(ZeroDivisionError, "division"):
            model = families.make("llama")
            with torch.no_grad(), headscope.record(model, self.path, files=2, overwrite=True) as recording:
                model(IDS)
                raise ZeroDivisionError("division")
        self.assertIn("out.partial-00001-of-00002.h5 and the files that go with it", recording.left[0])
        left = headscope.open(self.room / "out.partial.h5")
        self.assertEqual((left.complete, left.num_tokens), (False, IDS.shape[1]))
        self.assertTrue(headscope.open(self.path).complete)

    def test_wrong_numbers_are_refused(self):
        for files in (0, 65, "2"):
            with self.assertRefused(headscope.UsageError, "files"):
                headscope.record(families.make("llama"), self.path, files=files)
        with self.assertRefused(headscope.UsageError, "files 2", "1 to 1"):
            self.record("llama", 2, layers=[0])
        self.assertEqual(self.names(), [])

    def test_what_is_missing_or_of_another_trace_is_named(self):
        self.record("llama", 2)
        first, second = trace_files.files_of(str(self.path), 2)
        alone = self.room / "alone.h5"
        shutil.move(second, alone)
        for opened in (self.path, first):
            with self.assertRefused(headscope.BadInputError, "out-00002-of-00002.h5: is missing", "without numbers"):
                headscope.open(opened)
        self.assertEqual(headscope.open(alone).paths, [str(alone)])
        kept = alone.read_bytes()
        self.record("llama", 2, self.room / "other.h5")
        shutil.copy(self.room / "other-00002-of-00002.h5", second)
        for opened in (first, second):
            with self.assertRefused(headscope.BadInputError, "is not of the same trace"):
                headscope.open(opened)
        shutil.copy(first, second)
        with self.assertRefused(headscope.BadInputError, "is file 1 of 2"):
            headscope.open(second)
        for name, value in (("file_set", b"../../etc/passwd"), ("file_number", 3), ("file_count", 1 << 30), ("file_count", 0), ("file_set", None), ("file_count", None)):
            pathlib.Path(second).write_bytes(kept)
            with h5py.File(second, "r+") as file:
                kind = file.attrs[name].dtype if name != "file_set" else "S32"
                del file.attrs[name]
                if value is not None:
                    file.attrs.create(name, value, dtype=kind)
            with self.assertRefused(headscope.BadInputError, "file_"):
                headscope.open(first)
        pathlib.Path(second).write_bytes(kept)
        self.assertTrue(headscope.open(self.path).complete)

    def test_the_least_of_the_files_counts(self):
        self.record("llama", 2)
        first, second = trace_files.files_of(str(self.path), 2)
        with h5py.File(second, "r+") as file:
            file.attrs.modify("tokens_flushed", np.int64(7))
            file.attrs.modify("complete", file.attrs["complete"] & 0)
        for opened in (self.path, first, second):
            trace = headscope.open(opened)
            self.assertEqual((trace.complete, trace.num_tokens, len(trace.tokens), len(trace.rows)), (False, 7, 7, 7))
            for layer in trace.layers:
                self.assertEqual(len(trace.q(layer, 0)), 7)
                self.assertEqual(trace.k(layer, 0)[:].shape[0], 7)
            trace.close()


if __name__ == "__main__":
    cases.main()
