# SPDX-License-Identifier: Apache-2.0
"""Recordings beside each other, and how they begin and end: what is not whole says so, and what was flushed is there."""
import contextlib
import hashlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import unittest
import weakref
from unittest import mock

import cases
import families
import h5py
import numpy as np
import torch
import transformers
from programs import Programs
from recording_case import IDS, NUM_TOKENS, RecordingCase, values

import headscope
from headscope import growing, interception, layout, look, model_files
from headscope import pump as pump_module
from headscope.pump import Pump
from headscope.writer import TraceWriter


class Several(RecordingCase):
    """More than one recording, model or process at a time."""

    def test_two_models_in_turn(self):
        one, other = families.make("llama"), families.make("gemma2")
        wanted = self.whole(one), self.whole(other)
        paths = self.folder / f"{self.id()}-one.h5", self.folder / f"{self.id()}-other.h5"
        with torch.no_grad(), headscope.record(one, paths[0]), headscope.record(other, paths[1]):
            caches = one(IDS[:, :9], use_cache=True).past_key_values, other(IDS[:, :9], use_cache=True).past_key_values
            for model, cache in zip((one, other), caches):
                model(IDS[:, 9:], past_key_values=cache)
        for path, values_of_whole in zip(paths, wanted):
            self.assertSame(path, values_of_whole)

    def test_one_model_recorded_twice(self):
        model = families.make("llama")
        wanted = self.whole(model)
        inner = self.folder / f"{self.id()}-inner.h5"
        with torch.no_grad(), headscope.record(model, self.path), headscope.record(model, inner, layers=[1], rows="last:4"):
            model(IDS)
        self.assertNotIn("generate", vars(model))  # both watch it while they record
        self.assertSame(self.path, wanted)
        with headscope.open(inner) as trace:
            self.assertTrue(trace.complete)
            np.testing.assert_array_equal(trace.q(1, 3)[:], wanted["q 1:3"][-4:])

    def test_a_tokenizer_that_fails_is_told_to_the_caller(self):
        """Texts are made on the thread that writes."""
        model = families.make("llama")

        def fail(token):
            raise ValueError(f"no token {token}")

        words = mock.Mock(convert_ids_to_tokens=fail, spec=["convert_ids_to_tokens"])
        with self.assertRaisesRegex(ValueError, "no token"), torch.no_grad(), headscope.record(model, self.path, tokenizer=words):
            model(IDS)
        for left in self.folder.glob(f"{self.id()}*"):
            with h5py.File(left) as file:
                self.assertEqual(file.attrs["complete"], 0)

    def test_the_same_recording_is_entered_once(self):
        model = families.make("llama")
        with torch.no_grad(), headscope.record(model, self.path) as recording:
            with self.assertRefused(headscope.UsageError, "entered already"):
                recording.__enter__()
            model(IDS)
        with headscope.open(self.path) as trace:
            self.assertEqual(trace.num_tokens, NUM_TOKENS)

    def test_a_fork_neither_records_nor_touches_the_trace(self):
        model = families.make("llama")
        with torch.no_grad(), headscope.record(model, self.path) as recording:
            cache = model(IDS[:, :11], use_cache=True).past_key_values
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    model(IDS[:, :3])
                except headscope.UsageError as refused:
                    code = 0 if "process" in str(refused) else 2
                    recording.__exit__(type(refused), refused, None)
                    for stream in recording._streams:
                        stream.writer.close()  # what the end of a process does
                except BaseException:
                    code = 3
                finally:
                    os._exit(code)
            deadline = time.monotonic() + 60
            while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
                time.sleep(0.02)
            if done[0] == 0:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                self.fail("the child waits for a thread that it does not have")
            self.assertEqual(os.waitstatus_to_exitcode(done[1]), 0)
            model(IDS[:, 11:], past_key_values=cache)
        self.assertSame(self.path, self.whole(model))

    @unittest.skipIf(os.getuid() == 0 and not os.path.exists("/proc/self/status"), "root may write everywhere")
    def test_a_folder_that_takes_no_file(self):
        model = families.make("llama")
        with self.assertRefused(headscope.HeadscopeError, "/proc/self/trace.h5"), torch.no_grad():
            with headscope.record(model, "/proc/self/trace.h5"):
                model(IDS)
        model(IDS)  # as before: nothing listens any more
        self.assertEqual(len(interception._listeners), 0)


class Beginnings(RecordingCase):
    def test_what_ends_the_beginning_leaves_nothing_behind(self):
        model = families.make("llama", "sdpa")
        listeners, threads = len(interception._listeners), threading.active_count()
        hooks = [len(module._forward_pre_hooks) + len(module._forward_hooks) for module in model.modules()]
        for error in (KeyboardInterrupt, RuntimeError):
            with mock.patch.object(look.Look, "at" if error is KeyboardInterrupt else "ahead", side_effect=error):
                with self.assertRaises(error), headscope.record(model, self.path):
                    pass
            self.assertEqual((len(interception._listeners), threading.active_count()), (listeners, threads))
            self.assertEqual([len(module._forward_pre_hooks) + len(module._forward_hooks) for module in model.modules()], hooks)
            self.assertNotIn("generate", vars(model))
            self.assertFalse(self.path.exists())
        self.whole(model)

    def test_what_changes_behind_the_beginning_counts(self):
        model = families.make("gpt2", "sdpa")
        with torch.no_grad(), headscope.record(model, self.path):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                model(IDS)
        with headscope.open(self.path) as trace:
            self.assertEqual(trace.encoding, "bfloat16")
        with torch.no_grad(), headscope.record(model, self.path, points="hidden-norms", overwrite=True):
            model.to(torch.bfloat16)(IDS)
        with headscope.open(self.path) as trace:
            self.assertEqual((trace.encoding, trace.complete), ("bfloat16", True))

    def test_weights_are_hashed_once_and_anew_where_they_change(self):
        folder = self.folder / "model"
        families.make("llama", "sdpa").save_pretrained(folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        first = model_files.hashes(model)["weights_sha256"]
        self.assertEqual(first, hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())
        with mock.patch.object(model_files.hashlib, "sha256", side_effect=AssertionError("read again")):
            self.assertEqual(model_files.hashes(model)["weights_sha256"], first)
        (folder / "model.safetensors").write_bytes(b"others")
        self.assertEqual(model_files.hashes(model)["weights_sha256"], hashlib.sha256(b"others").hexdigest())

    def test_a_thread_that_cannot_be_had_is_done_without(self):
        folder = self.folder / "without-thread"
        families.make("llama", "sdpa").save_pretrained(folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        with mock.patch.object(model_files.threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
            found = model_files.hashes(model)
        self.assertEqual(found["weights_sha256"], hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())


class Ends(RecordingCase):
    """Runs that do not end as planned."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.programs = Programs(cases.SOURCE)

    @classmethod
    def tearDownClass(cls):
        cls.programs.close()
        super().tearDownClass()

    def test_failing_run_leaves_whole_tokens_and_says_so(self):
        model = families.make("llama")
        with self.assertRaises(ZeroDivisionError) as raised, torch.no_grad():
            with headscope.record(model, self.path):
                cache = model(IDS[:, :11], use_cache=True).past_key_values
                model(IDS[:, 11:15], past_key_values=cache)
                raise ZeroDivisionError
        self.assertEqual(raised.exception.__notes__, [f"headscope: the first 15 tokens are in {self.path}"])
        with headscope.open(self.path) as trace:
            self.assertFalse(trace.complete)
            self.assertEqual(trace.num_tokens, 15)
        whole = self.whole(model, IDS[:, :15])
        self.assertSame(self.path, whole)

    def test_failure_inside_a_pass_leaves_the_passes_before(self):
        model = families.make("llama")
        broken = model.model.layers[1].mlp.register_forward_pre_hook(lambda *_: 1 / 0 if self.armed else None)
        self.armed = False
        with self.assertRaises(ZeroDivisionError), torch.no_grad():
            with headscope.record(model, self.path):
                cache = model(IDS[:, :11], use_cache=True).past_key_values
                self.armed = True
                model(IDS[:, 11:15], past_key_values=cache)
        broken.remove()
        with headscope.open(self.path) as trace:
            self.assertFalse(trace.complete)
            self.assertIn(trace.num_tokens, (11, 15))  # both layers' attention had all 15
        done = subprocess.run([cases.HEADSCOPE, "info", self.path], capture_output=True, text=True, check=False)
        self.assertIn("NOT complete", done.stdout)

    def test_killed_run_leaves_a_trace_that_reads(self):
        program = self.programs.start(
            "model, cache = families.make('llama'), None\n"
            "with torch.no_grad(), headscope.record(model, argument, prompt_tokens=100000) as recording:\n"
            "    recording._pump.flush = lambda writer, now=False: recording._pump.call(writer.flush)\n"
            "    for step in range(100000):\n"
            "        cache = model(torch.full((1, 5), 3 + step % 90), past_key_values=cache, use_cache=True).past_key_values\n"
            "        print(step, flush=True)\n",
            self.path,
        )
        for _ in range(12):
            self.assertTrue(program.stdout.readline())
        with headscope.open(self.path) as trace:  # while it is written
            self.assertFalse(trace.complete)
            self.assertGreater(trace.num_tokens, 0)
            with self.assertRefused(headscope.UsageError, "a capture to it is running", str(program.pid)), torch.no_grad():
                with headscope.record(model := families.make("llama"), self.path, overwrite=True):
                    model(IDS)
        time.sleep(0.05)
        program.kill()
        with program.stdout:
            program.stdout.read()
        self.assertEqual(program.end()[0], -signal.SIGKILL)
        with headscope.open(self.path) as trace:
            tokens = trace.num_tokens
            self.assertGreaterEqual(tokens, 5)
            np.testing.assert_array_equal(trace.tokens, 3 + np.arange(tokens) // 5 % 90)
            self.assertTrue(np.isfinite(trace.lse(1, 3)[:]).all())
        done = subprocess.run([cases.HEADSCOPE, "analyze", self.path, "--heads", "1:3", "--quiet"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def ended(self, lines):
        """What a program prints that makes a model, does this and ends, which it must do by itself."""
        program = self.programs.start("import threading\nmodel, ids = families.make('llama'), torch.full((1, 600), 7)\n" + lines, self.path)
        code, errors = program.end()
        self.assertEqual(code, 0, errors)
        with program.stdout:
            return program.stdout.read()

    def test_a_thread_that_outlives_the_main_one_records_on(self):
        printed = self.ended(
            "def run():\n"
            "    threading.main_thread().join()\n"
            "    with torch.no_grad(), headscope.record(model, argument):\n"
            "        model(ids)\n"
            "    print('whole')\n"
            "threading.Thread(target=run).start()\n"
        )
        self.assertEqual(printed, "whole\n")
        with headscope.open(self.path) as trace:
            self.assertEqual((trace.complete, trace.num_tokens), (True, 600))

    def test_a_recording_left_open_ends_with_the_program(self):
        """Its thread was torn down while HDF5 wrote: the program hung or aborted."""
        for _ in range(3):
            printed = self.ended(
                "headscope.record(model, argument, overwrite=True).__enter__()\n"
                "with torch.no_grad():\n"
                "    model(ids)\n"
                "print('leaving', flush=True)\n"
            )
            self.assertEqual(printed, "leaving\n")

    def test_last_chunk_that_a_kill_tore(self):
        """The checksum of a chunk that was being rewritten may be wrong; what was flushed is read all the same, in a trace that is not complete."""
        model = families.make("llama")
        wanted = self.whole(model, IDS[:, :13])
        for complete in (False, True):
            path = self.folder / f"torn-{complete}.h5"
            with contextlib.suppress(ZeroDivisionError), torch.no_grad():
                with headscope.record(model, path, prompt_tokens=NUM_TOKENS):
                    model(IDS[:, :13])
                    1 / (1 if complete else 0)
            with h5py.File(path) as file:
                places = [file[name].id.get_chunk_info(0) for name in ("attention/k", "attention/lse", "tokens/ids")]
            with open(path, "r+b") as file:
                for place in places:
                    file.seek(place.byte_offset + place.size - 1)
                    byte = file.read(1)[0]
                    file.seek(-1, 1)
                    file.write(bytes([byte ^ 0x55]))
            if not complete:
                self.assertSame(path, wanted)
                continue
            with headscope.open(path) as trace:
                with self.assertRefused(headscope.BadInputError, "attention/k", "damaged"):
                    trace.k(0, 0)[:]
                np.testing.assert_array_equal(trace.k(1, 0)[:], wanted["k 1:0"])

    def test_full_disk_is_told_before_data_is_lost(self):
        model = families.make("llama")
        known = os.statvfs

        class Full:
            f_bavail, f_frsize = 1, 4096

        try:
            with self.assertRefused(headscope.FailedError, "disk is nearly full", "free some disk space", "the first 11 tokens are in"), torch.no_grad():
                with headscope.record(model, self.path):
                    cache = model(IDS[:, :11], use_cache=True).past_key_values
                    time.sleep(0.2)
                    os.statvfs = lambda path: Full
                    model(IDS[:, 11:], past_key_values=cache)
        finally:
            os.statvfs = known
        with headscope.open(self.path) as trace:
            self.assertEqual((trace.complete, trace.num_tokens), (False, 11))

    def test_disk_that_others_fill(self):
        """Which no look at its free space foresees; the reason was lines of addresses."""
        model = families.make("llama")
        refuse = mock.Mock(side_effect=OSError("[Errno 28] Can't write chunk data (file write failed: time = now\n, errno = 28, error message = 'No space left on device', buf = 0x7f)"))
        with self.assertRefused(headscope.FailedError, f"{self.path}: No space left on device; what was flushed before is intact", "the first 11 tokens are in"), torch.no_grad():
            with headscope.record(model, self.path) as recording:
                cache = model(IDS[:, :11], use_cache=True).past_key_values
                recording._pump.drain()
                with mock.patch.object(growing.Growing, "write_chunks", refuse):
                    model(IDS[:, 11:], past_key_values=cache)
                    recording._pump.flush(recording._streams[0].writer, now=True)
                    recording._pump.drain()
        with headscope.open(self.path) as trace:
            self.assertEqual((trace.complete, trace.num_tokens), (False, 11))


class Memory(RecordingCase):
    def test_memory_does_not_depend_on_the_trace(self):
        """What waits for a slow disk is bounded, whatever is brought."""
        size, heads, step = 64, 8, 2048
        facts = [layout.LayerFacts(heads, heads, size, size, tuple(range(heads)), tuple(range(heads)), 0.125)]
        one = layout.Layout("m", "m", "{}", 1, heads, heads, size, [0], facts, encoding="float32")
        writer, pump, waiting = TraceWriter(self.path, one, 20 * step), Pump(), []

        def slow(*given):
            waiting.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
            writer.write(*given)

        values = torch.randn(heads, step, size)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(20):
            pump.call(lambda: (writer.append_tokens([1] * step, [0] * step, 0, [b""] * step), writer.append_rows(np.arange(writer.num_tokens - step, writer.num_tokens))))
            for name in ("q", "k", "v"):
                pump.put(slow, 0, name, number * step, values)
            pump.put(slow, 0, "lse", number * step, values[:, :, 0])
            pump.call(lambda: writer.advance(0, step, step))
        pump.call(writer.finish)
        pump.drain()
        pump.stop()
        written = self.path.stat().st_size
        self.assertGreater(written, 200 << 20)
        self.assertLess((max(waiting) - before) << 10, 128 << 20)  # 64 MiB that wait, and open chunks

    def test_what_waits_is_copied_into_memory_that_is_used_again(self):
        """New memory for each piece came from the system page by page; and none is used again before it is written."""
        pump, written, pieces, most = Pump(), [], 40, pump_module._WAITING_BYTES // pump_module._PIECE_BYTES + 1
        values = torch.empty(4, 1024, 256)
        held = lambda *given: (time.sleep(0.002), written.append((given[3][:, ::97].copy(), given[3].__array_interface__["data"][0])))  # noqa: E731
        with mock.patch.object(torch, "empty", wraps=torch.empty) as made:
            for number in range(pieces):
                pump.put(held, 0, "q", 0, values.fill_(number))
        pump.drain()
        self.assertLessEqual(made.call_count, most)
        buffers = [pump._buffers.get_nowait() for _ in range(pump._buffers.qsize())]
        self.assertLessEqual({place for _, place in written}, {buffer.data_ptr() for buffer in buffers})
        for buffer in buffers:
            pump._buffers.put(buffer)
        pump.put(held, 0, "q", 0, torch.ones(1, 1, 1 + (pump_module._PIECE_BYTES >> 2)))  # a row that is more than a piece
        pump.drain()
        self.assertEqual(pump._buffers.qsize(), len(buffers))
        pump.stop()
        self.assertEqual([float(one.max()) for one, _ in written], [*range(pieces), 1])
        self.assertTrue(all((one == one.flat[0]).all() for one, _ in written))

    def test_full_pieces_from_a_cpu_fit_what_is_pinned_for_a_gpu(self):
        """Of a model that lies on both: each of them had no room for its checksums, and pinned memory anew."""
        plain, pinned, written = torch.empty, [], []

        def empty(*size, pin_memory=False, **options):  # which needs a GPU
            pinned.append(pin_memory)
            return plain(*size, **options)

        values = torch.arange(pump_module._PIECE_BYTES >> 2, dtype=torch.float32).view(4, -1, 256)
        with mock.patch.object(torch, "empty", side_effect=empty), mock.patch.object(pump_module, "_WAITING_FROM_GPU", 128 << 20):
            pump = Pump(from_gpu=True)
            for _ in range(40):
                pump.put(lambda *given: written.append((given[3].room is not None, given[3][:, ::97].copy())), 0, "q", 0, values)
            pump.drain()
        pump.stop()
        self.assertEqual(pinned, [True])
        self.assertEqual(len(written), 40)
        self.assertTrue(all(has_room and np.array_equal(piece, values[:, ::97].numpy()) for has_room, piece in written))

    def test_what_fills_chunks_is_written_from_where_it_waits(self):
        """It was copied once more; and it is used again only when it is in the file."""
        size, heads, step, passes = 64, 8, 1024, 24  # 256 KiB of fp32 a head
        facts = [layout.LayerFacts(heads, heads, size, size, tuple(range(heads)), tuple(range(heads)), 0.125)]
        one = layout.Layout("m", "m", "{}", 1, heads, heads, size, [0], facts, encoding="float32", max_tokens=passes * step)
        writer, pump = TraceWriter(self.path, one, passes * step), Pump()
        values = torch.randn(3, step, heads, size, generator=torch.Generator().manual_seed(7)).transpose(1, 2)  # whose rows do not lie together
        with mock.patch.object(growing.Growing, "_keep_lent", autospec=True, side_effect=growing.Growing._keep_lent) as kept:
            for number in range(passes):
                pump.call(lambda number=number: (writer.append_tokens([1] * step, [0] * step, 0, [b""] * step), writer.append_rows(np.arange(number * step, (number + 1) * step))))
                for name, one_of in zip("qkv", values + number):
                    pump.put(writer.write, 0, name, number * step, one_of)
                pump.put(writer.write, 0, "lse", number * step, (values[0] + number)[:, :, 0])
                pump.call(lambda: writer.advance(0, step, step))
            pump.call(writer.finish)
            pump.drain()
        self.assertEqual(kept.call_count, 3 * passes)
        self.assertLessEqual(pump._buffers.qsize(), pump_module._WAITING_BYTES // pump_module._PIECE_BYTES + 3)
        self.assertGreater(pump._buffers.qsize(), 0)
        pump.stop()
        with headscope.open(self.path) as trace:
            for name, one_of in zip("qkv", values):
                for head in (0, heads - 1):
                    found = trace.tensor(name, 0, head)[:].reshape(passes, step, size)
                    for number in range(passes):
                        np.testing.assert_array_equal(found[number], (one_of[head] + number).numpy())

    def test_memory_is_given_back_with_the_end(self):
        """Whoever keeps a recording for its paths kept what had waited, up to 64 MiB."""
        pump = Pump()
        for _ in range(4):
            pump.put(lambda *_: None, 0, "q", 0, torch.ones(4, 1024, 256))
        pump.drain()
        buffers = [pump._buffers.get_nowait() for _ in range(pump._buffers.qsize())]
        self.assertTrue(buffers)
        kept = [weakref.ref(buffer) for buffer in buffers]
        while buffers:
            pump._buffers.put(buffers.pop())
        pump.stop()
        self.assertEqual([one() for one in kept], [None] * len(kept))


class BehindAGpu(unittest.TestCase):
    """What waits for the writing thread where a model is on a GPU; the memory is plain here, which needs none."""

    def setUp(self):
        real, size = pump_module._pinned_buffers, pump_module._BUFFER_BYTES
        pump_module._pinned_buffers = lambda room: torch.empty(room // size * size, dtype=torch.uint8).split(size)
        self.addCleanup(setattr, pump_module, "_pinned_buffers", real)
        self.pump, self.done = Pump(from_gpu=True), []
        self.addCleanup(self.pump.stop)

    def settled(self):
        """What has been done, when the thread had time to do more."""
        time.sleep(0.2)
        return len(self.done)

    def bring(self, count):
        values = torch.zeros(1, 4, 8)
        for _ in range(count):
            self.pump.put(lambda *_: self.done.append(1), 0, "q", 0, values)

    def test_a_pass_is_written_when_it_has_ended(self):
        writer = mock.Mock(flush=lambda: self.done.append("flushed"))
        for passes in (1, 2):  # the thread waits anew
            self.bring(5)
            self.assertEqual(self.settled(), 6 * passes - 6)
            self.pump.flush(writer, now=True)
            self.pump.drain()
            self.assertEqual(len(self.done), 6 * passes)

    def test_a_pass_of_more_than_may_wait_is_written_beside_it(self):
        pieces = pump_module._waiting_from_gpu() // pump_module._BUFFER_BYTES
        self.bring(pieces // 2)
        self.assertEqual(self.settled(), 0)
        self.bring(2 * pieces)  # would wait for room for ever
        self.pump.drain()
        self.assertEqual(len(self.done), pieces // 2 + 2 * pieces)

    def test_what_comes_as_the_thread_goes_to_rest_is_done(self):
        """Whoever brings something sets the event, which the thread, having found nothing to do, clears a moment later."""
        cleared = self.pump._begun.clear
        came = threading.Event()

        def clear():
            if not came.is_set():
                came.set()
                self.pump._jobs.put((lambda: self.done.append(1), -1))
                self.pump._begun.set()
            cleared()

        self.pump._begun.clear = clear
        self.pump.drain()
        for _ in range(100):
            if self.done:
                break
            time.sleep(0.05)
        self.assertEqual(self.done, [1])

    def test_the_end_waits_for_nobody(self):
        self.bring(3)
        self.pump.stop()
        self.assertTrue(self.pump._buffers.empty())
        self.assertEqual(len(self.done), 3)



if __name__ == "__main__":
    cases.main()
