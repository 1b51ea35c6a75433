# SPDX-License-Identifier: Apache-2.0
"""How a trace's chunks reach the file: put together and summed up here, they are to the byte what HDF5 itself would have stored."""
import tracemalloc
import unittest
from unittest import mock

import cases
import h5py
import numpy as np
from h5py import h5t

from headscope import checksum, growing
from headscope.growing import Chunks, Growing


def filled(length, heads=6, layers=3, width=8):
    return np.random.default_rng(length).integers(-(2**15), 2**15, (layers, heads, length, width)).astype("<i2")


class Sums(unittest.TestCase):
    def test_every_length_and_value(self):
        random = np.random.default_rng(1)
        for length in (2, 6, 2046, 2048, 2050, 4096, 100000, 262144, (16 << 20) + 14):
            for name, data in (("noise", random.integers(0, 256, (3, length))), ("zeros", np.zeros((3, length))), ("ones", np.full((3, length), 255)), ("one", np.eye(3, length))):
                if length > 1 << 20 and name != "ones":  # which come nearest to what the sums hold
                    continue
                chunks = np.zeros((3, length + checksum.CHECKSUM_BYTES), np.uint8)
                chunks[:, :length] = data
                checksum.seal(chunks)
                for chunk in chunks[: 1 if length > 1 << 20 else 3]:
                    with self.subTest(name, length=length):
                        self.assertEqual(chunk[length:].tobytes(), self.stored(chunk[:length])[length:])

    def stored(self, values):
        """What HDF5 makes of a chunk."""
        with h5py.File("sums", "w", driver="core", backing_store=False) as file:
            dataset = file.create_dataset("one", data=values, chunks=values.shape, fletcher32=True)
            file.flush()
            return dataset.id.read_direct_chunk((0,) * values.ndim)[1]


class Writing(cases.FolderCase):
    def written(self, values, steps, chunk_items=16, cache_bytes=1 << 20, flush_after=()):
        """The file's dataset, open, of the layers written in turn in pieces of such lengths."""
        file = h5py.File(self.folder / f"{self.id()}-{steps[0]}-{len(steps)}.h5", "w", libver=("v110", "v110"))
        self.addCleanup(file.close)
        chunks = Chunks()
        extents = (*values.shape[:2], 0, values.shape[3])
        dataset = Growing(file.id, "q", h5t.STD_I16LE, extents, 2, chunk_items, cache_bytes, chunks)
        first = 0
        for number, step in enumerate(steps):
            for layer in range(values.shape[0]):
                dataset.write((layer, 0, first, 0), np.ascontiguousarray(values[layer : layer + 1, :, first : first + step]))
            first += step
            if number in flush_after:
                dataset.write_begun()
                chunks.write()
        dataset.write_begun()
        chunks.write()
        self.assertEqual(first, values.shape[2])
        return file["q"], dataset

    def assertStored(self, dataset, values, chunk_items=16):  # noqa: N802
        """Values, and every chunk as HDF5 would have stored it."""
        np.testing.assert_array_equal(dataset[:], values)
        with h5py.File("wanted", "w", driver="core", backing_store=False, libver=("v110", "v110")) as file:
            wanted = file.create_dataset("q", data=values, maxshape=(*values.shape[:2], None, values.shape[3]), chunks=(1, 1, chunk_items, values.shape[3]), fletcher32=True)
            file.flush()
            for layer, head, chunk in np.ndindex(*values.shape[:2], -(-values.shape[2] // chunk_items)):
                place = layer, head, chunk * chunk_items, 0
                self.assertEqual(dataset.id.read_direct_chunk(place), wanted.id.read_direct_chunk(place), place)
            self.assertEqual(dataset.id.get_num_chunks(), wanted.id.get_num_chunks())

    def test_pieces_of_any_length(self):
        for steps in ((16, 16, 16), (48,), (5, 20, 1, 22), (1,) * 48, (47,)):
            with self.subTest(steps):
                values = filled(sum(steps))
                self.assertStored(self.written(values, steps)[0], values)

    def test_flushes_between(self):
        values = filled(40)
        self.assertStored(self.written(values, (3, 4, 9, 20, 4), flush_after=(0, 1, 2, 3))[0], values)

    def test_pieces_that_threads_take(self):
        values = filled(3000, heads=5, layers=2, width=128)
        with mock.patch.object(growing, "_AT_ONCE", 1):
            self.assertStored(self.written(values, (1000, 1500, 500), chunk_items=750, cache_bytes=1 << 22)[0], values, chunk_items=750)

    def test_more_open_chunks_than_memory_is_for(self):
        """What does not fit is written, and read back where it goes on."""
        values = filled(40)
        dataset, made = self.written(values, (5, 5, 10, 15, 5), cache_bytes=1)
        self.assertStored(dataset, values)
        self.assertEqual(len(made._open), 1)

    def test_open_chunks_of_all_layers_fit_their_memory(self):
        """Else every token of a generation would read and write them all."""
        values = filled(600, heads=4, layers=3, width=128)
        with mock.patch.object(Growing, "_read", side_effect=AssertionError("a chunk was put away")):
            dataset, made = self.written(values, (590, *[1] * 10), chunk_items=8192, cache_bytes=1 << 20)
        self.assertEqual(made.chunk_items, (1 << 20) // (12 * 256))
        self.assertStored(dataset, values, chunk_items=made.chunk_items)

    def test_an_ending_interpreter_has_no_threads(self):
        values = filled(3000, heads=5, layers=2, width=128)
        with mock.patch.object(growing, "_threads", side_effect=RuntimeError("can't register atexit after shutdown")):
            self.assertStored(self.written(values, (1000, 1500, 500), chunk_items=750, cache_bytes=1 << 22)[0], values, chunk_items=750)

    def test_without_a_way_around_h5py(self):
        values = filled(40)
        with mock.patch.object(growing, "_chunk_writer", lambda: None):
            self.assertStored(self.written(values, (5, 35))[0], values)

    def test_reason_of_a_failed_write(self):
        """Which HDF5 has, and the call around h5py has not."""
        with mock.patch.object(growing, "_chunk_writer", lambda: lambda *_: -1), h5py.File(self.folder / "reason.h5", "w") as file:
            dataset = Growing(file.id, "q", h5t.STD_I16LE, (1, 1, 0, 8), 2, 16, 1 << 20, Chunks())
            dataset.write((0, 0, 0, 0), np.zeros((1, 1, 4, 8), "<i2"))
            dataset.dataset.set_extent((1, 1, 0, 8))
            dataset.write_begun()
            with self.assertRaisesRegex((OSError, ValueError, RuntimeError), "[Cc]hunk|dataset"):
                dataset._chunks.write()

    def test_what_does_not_follow_is_refused(self):
        values = filled(40)
        dataset = self.written(values, (40,))[1]
        with self.assertRaisesRegex(ValueError, "item 50 cannot follow 40 items"):
            dataset.write((0, 0, 50, 0), values[:1, :, :4].copy())

    def test_memory_is_reused(self):
        """A block for each piece would be the trace's size."""
        values = filled(4096, heads=8, layers=1, width=128)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        self.written(values, (32,) * 128, chunk_items=32)
        self.assertLess(tracemalloc.get_traced_memory()[1], values.nbytes // 2)


if __name__ == "__main__":
    cases.main()
