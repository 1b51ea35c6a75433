# SPDX-License-Identifier: Apache-2.0
"""Traces in several files: what is recorded is what one file holds, the C++ reader opens them, and what is missing or of another trace is refused."""
import errno
import json
import os
import pathlib
import shutil
import subprocess

import cases
import families
import h5py
import numpy as np
import torch

import headscope
from headscope import files_writer, layout, replacement, trace_files

IDS = torch.arange(3, 44)[None]


class _Failing:
    """Call number `stop` of those that give a file a name or take it away fails."""

    def __init__(self, stop):
        self.stop, self.count, self._known = stop, 0, {name: getattr(os, name) for name in ("link", "rename", "unlink")}

    def __enter__(self):
        for name, known in self._known.items():
            setattr(os, name, lambda *arguments, known=known: self._call(known, *arguments))

    def __exit__(self, *_):
        for name, known in self._known.items():
            setattr(os, name, known)

    def _call(self, known, *arguments):
        self.count += 1
        if self.count == self.stop:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        return known(*arguments)


def _layout_of(path):
    """A layout as of the trace at `path`."""
    with headscope.open(path) as trace:
        return layout.Layout(**trace.model, config_json="{}", layers=trace.layers, facts=[trace.facts(one) for one in trace.layers], encoding=trace.encoding, max_tokens=64)


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
                            for tensor in ("q", "lse", "q_pre_rope", "q_projection", "head_output", "value_norms", "value_norms_l1"):
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

    def test_every_fact_that_the_files_share_is_compared(self):
        """The list is the program's: each change is refused by both."""
        self.record("llama", 2, rows="every:3")
        first, second = (pathlib.Path(path) for path in trace_files.files_of(str(self.path), 2))
        kept = second.read_bytes()

        def attribute(group, name, value):
            def change(file):
                kind = np.asarray(value).dtype
                if name in file[group].attrs:
                    kind = kind if kind.kind == "S" else file[group].attrs[name].dtype
                    del file[group].attrs[name]
                file[group].attrs.create(name, value, dtype=kind)

            return change

        def number(name, place):
            def change(file):
                values = file[name][:]
                values[place] += 1
                file[name][:] = values

            return change

        def config(file):
            raw = file["model/config_json"][()]
            file["model/config_json"][...] = raw.replace(b"llama", b"Llama", 1)

        model, recording, tokens = ("facts of the model", "facts of the recording", "facts of the tokens")
        changes = [(model, attribute("model", name, np.bytes_("x" * 64 if "sha" in name else "xx"))) for name in ("name", "model_type", "weights_sha256", "tokenizer_sha256")]
        changes += [(model, config), (model, attribute("model", "head_dim", 31))]
        changes += [(recording, attribute("attention", "attention", np.bytes_("sparq"))), (recording, attribute("attention", "row_selection", np.bytes_("last:5")))]
        changes += [(recording, attribute("attention", "max_tokens", 99)), (recording, attribute("attention", "first_token", 3))]
        changes += [(tokens, attribute("tokens", "prompt_source", np.bytes_("text"))), (tokens, attribute("tokens", "task_answer", np.bytes_("forty-two")))]
        changes += [("other tokens", number(f"tokens/{name}", 5)) for name in ("ids", "step")]
        changes += [("other rows", number("attention/q_rows", -1))]
        for what, change in changes:
            second.write_bytes(kept)
            headscope.open(self.path).close()
            with h5py.File(second, "r+") as file:
                change(file)
            with self.subTest(what=what, change=change.__name__), self.assertRefused(headscope.BadInputError, "of-00002.h5", what):
                headscope.open(first)
            done = subprocess.run([cases.HEADSCOPE, "info", str(first)], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(what, done.stderr)

    def test_a_path_may_be_spelled_in_any_way(self):
        self.record("llama", 2)
        for spelled in (f"{self.room}//out.h5", f"{self.room}/./out.h5", f"{self.room}/../{self.room.name}/out.h5"):
            with self.subTest(spelled):
                self.assertTrue(headscope.open(spelled).complete)
                with self.assertRefused(headscope.UsageError, "it exists"):
                    self.record("llama", 1, spelled)
                self.record("llama", 2, spelled, overwrite=True)
                self.assertEqual(self.names(), ["out-00001-of-00002.h5", "out-00002-of-00002.h5"])

    def test_only_files_of_such_a_trace_are_replaced(self):
        self.record("llama", 2)
        notes = self.room / "out-00003-of-00004.h5"
        notes.write_text("what somebody wrote down")
        kept = {name: (self.room / name).read_bytes() for name in self.names()}
        with self.assertRefused(headscope.UsageError, "out-00003-of-00004.h5", "is not a trace that can be read", "move it away"):
            self.record("llama", 2, overwrite=True)
        shutil.copy(self.room / "out-00001-of-00002.h5", notes)
        with self.assertRefused(headscope.UsageError, "says that it is file 1 of 2"):
            self.record("llama", 2, overwrite=True)
        notes.write_text("what somebody wrote down")
        # It appears while the trace is recorded.
        notes.unlink()
        model = families.make("llama")
        with self.assertRefused(headscope.FailedError, "out-00003-of-00004.h5", "the whole new trace is", "out.partial-00001-of-00002.h5"):
            with torch.no_grad(), headscope.record(model, self.path, files=2, overwrite=True):
                model(IDS)
                notes.write_text("what somebody wrote down")
        for name, contents in kept.items():
            self.assertEqual((self.room / name).read_bytes(), contents)
        notes.unlink()
        self.assertTrue(headscope.open(self.room / "out.partial.h5").complete)

    def test_a_call_that_fails_leaves_all_names_or_none(self):
        """Each call that gives a file a name or takes it away fails once: the new trace is there, or the one before is as it was."""
        for old, new in ((2, 2), (1, 2), (2, 1)):
            made = [os.path.basename(name) for name in trace_files.files_of("out.h5", new)]
            for stop in range(1, 40):
                for entry in self.room.iterdir():
                    entry.unlink()
                self.record("llama", old)
                before = {name: (self.room / name).read_bytes() for name in self.names()}
                self.record("llama", new, self.room / "out.partial.h5")
                calls = _Failing(stop)
                with calls:
                    try:
                        replacement.replace(str(self.path), str(self.room / "out.partial.h5"), new)
                        failed = None
                    except replacement.Unreplaced as error:
                        failed = error
                if calls.count < stop:
                    self.assertGreater(stop, new)
                    break
                with self.subTest(old=old, new=new, stop=stop):
                    if failed is None or failed.stands:  # done without it, or only a second name of what was there before stayed
                        self.assertEqual([name for name in self.names() if "replaced" not in name], made)
                        self.assertEqual(sum("replaced" in name for name in self.names()), 0 if failed is None else 1, self.names())
                        continue
                    self.assertIsNone(failed.kept)
                    self.assertEqual({name: (self.room / name).read_bytes() for name in self.names() if "partial" not in name}, before)
                    self.assertTrue(headscope.open(self.room / "out.partial.h5").complete)
            else:
                self.fail("no end of calls")

    def test_all_files_are_closed_where_one_fails(self):
        self.record("llama", 1)
        writer = files_writer.FilesWriter(str(self.room / "several.h5"), _layout_of(self.path), 2)
        closed = []
        for number, one in enumerate(writer._writers):

            def close(number=number, close=one.close):
                closed.append(number)
                close()
                raise OSError(f"file {number}")

            one.close = close
        with self.assertRaises(OSError):
            writer.close()
        self.assertEqual(sorted(closed), [0, 1])

    def test_files_of_one_trace_ask_for_what_all_of_them_lack(self):
        self.record("llama", 1)
        layout_ = _layout_of(self.path)
        layout_.max_tokens = 1 << 20
        writer = files_writer.FilesWriter(str(self.room / "several.h5"), layout_, 2)
        known, free = os.statvfs, 0

        class Disk:
            f_frsize = 1

            @property
            def f_bavail(self):
                return free

        try:
            os.statvfs = lambda path: Disk()
            count = 100000
            lengths = {"tokens": count, "offsets": count + 1}
            lacking = [sum(dataset.stored_bytes(lengths.get(kind, 0)) for kind, dataset in each._growing) for each in writer._writers]
            free = max(lacking) + (8 << 20)  # enough for either alone
            self.assertGreater(sum(lacking), free)
            writer._writers[0].append_tokens(np.zeros(count), np.zeros(count), 0, [b""] * count)
            with self.assertRefused(headscope.FailedError, "several-00002-of-00002.h5", "disk is nearly full"):
                writer._writers[1].append_tokens(np.zeros(count), np.zeros(count), 0, [b""] * count)
        finally:
            os.statvfs = known
            writer.close()

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
