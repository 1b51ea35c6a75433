# SPDX-License-Identifier: Apache-2.0
"""Datasets of a trace that grow along one axis, and how their chunks reach the file.

HDF5's own cache copies a chunk three times and sums it up on the thread that writes, slower than a disk takes it. So what is recorded of heads is put
together here, a layer's open chunks in one block, and summed up on threads beside the one that writes, from which they go to the file as they are.
"""
import collections
import concurrent.futures
import ctypes
import functools
import math
import os

import numpy as np
from h5py import h5d, h5p, h5s, h5t
from h5py._objects import phil  # what h5py calls HDF5 under

from headscope import checksum
from headscope.checksum import CHECKSUM_BYTES
from headscope.hdf5_calls import hdf5_call

_THREADS = 2
_AT_ONCE = 1 << 20  # bytes that stay near a processor until they are summed up
_FOR_THREADS = 256 << 10  # bytes: what is less is put into its place before a thread wakes up
_DEFAULT_PROPERTIES = 0  # H5P_DEFAULT
_SMALLEST_CHUNK = 16 << 10  # bytes: what less would save in memory, more chunks would cost
_SPARE_BLOCKS = 2  # new memory takes longer to be had than chunks to be put together


@functools.cache
def _threads():
    return concurrent.futures.ThreadPoolExecutor(_THREADS, "headscope-chunks")


os.register_at_fork(after_in_child=_threads.cache_clear)  # which has no such threads


@functools.cache
def _chunk_writer():
    """None where it cannot be had. Called by h5py it keeps every other thread of Python waiting for the disk, the model's among them."""
    offsets = ctypes.POINTER(ctypes.c_uint64)
    return hdf5_call(h5d, "H5Dwrite_chunk", ctypes.c_int64, ctypes.c_int64, ctypes.c_uint32, offsets, ctypes.c_size_t, ctypes.c_void_p)


class _Block:
    """The open chunks of a layer's heads, which grow together."""

    def __init__(self, chunks):
        self.chunks = chunks  # uint8 [heads, bytes and checksum]
        self.number = self.items = 0  # of each head's chunks; that are there
        self.is_written = True  # as it is


class Chunks:
    """Of a file: the blocks that are to be written. Each is, while what comes after it is put together and summed up."""

    def __init__(self):
        self._waiting = collections.deque()

    def prepare(self, num_heads, work):
        """Has work(first, end) called for all heads, on threads. It is done when this returns."""
        step = -(-num_heads // _THREADS)
        parts = []
        try:
            for first in range(0, num_heads, step):
                end = min(first + step, num_heads)
                try:
                    parts.append(_threads().submit(work, first, end))
                except RuntimeError:  # the interpreter ends, and begins no thread any more
                    work(first, end)
            self.write()
        finally:
            concurrent.futures.wait(parts)  # they read what is the caller's
        for part in parts:
            part.result()

    def add(self, dataset, place, block, then):
        """A block must stay as it is until `then` is called, by a later call."""
        self.write(all_but=1)
        self._waiting.append((dataset, place, block, then))

    def write(self, all_but=0):
        while len(self._waiting) > all_but:
            dataset, place, block, then = self._waiting.popleft()
            dataset.write_chunks(place, block)
            then()


class Growing:
    """A dataset that grows along one axis. A chunk spans one item of each axis before it and everything of those after it.

    `chunks`: of the file; cache_bytes bounds the open chunks that are kept in memory: those of all layers fit there, of smaller chunks if they must, since
    every token of a generation goes on in all of them.
    """

    def __init__(self, parent, name, kind, extents, axis, chunk_items, cache_bytes, chunks):
        self.kind, self.extents, self.axis = kind, list(extents), axis
        self.chunk_items = chunk_items
        self.item_bytes = kind.get_size() * math.prod(extents[axis + 1 :])
        self.num_heads, self._heads_of_layer = math.prod(extents[:axis]), math.prod(extents[1:axis])
        if axis > 0:
            fitting = max(cache_bytes // (self.num_heads * self.item_bytes), _SMALLEST_CHUNK // self.item_bytes, 1)
            chunk_items = self.chunk_items = min(chunk_items, fitting)
        chunk = [1] * axis + [chunk_items] + list(extents[axis + 1 :])
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_obj_track_times(False)
        creation.set_chunk(tuple(chunk))
        creation.set_fletcher32()
        creation.set_attr_phase_change(64, 0)
        self._chunk_bytes, self._cache_bytes = chunk_items * self.item_bytes, cache_bytes
        self._chunks = chunks
        # Of each layer: its open chunks, those that were written to last at the end, and how long it is. And some blocks for the next.
        self._open, self._lengths, self._spare = {}, {}, []
        access = h5p.create(h5p.DATASET_ACCESS)
        access.set_chunk_cache(37, 2 * self._chunk_bytes, 1.0)
        limits = list(extents)
        limits[axis] = h5s.UNLIMITED
        space = h5s.create_simple(tuple(extents), tuple(limits))
        self.dataset = h5d.create(parent, name.encode(), kind, space, dcpl=creation, dapl=access)

    def length(self):
        return self.extents[self.axis]

    def write(self, offset, values, lent=None):
        """Writes `values`, bytes of the dataset's own type and contiguous, at `offset`, and grows where it must. What is of heads goes on where it ended, and may be
        `lent`, each head's items contiguous."""
        end = offset[self.axis] + values.shape[self.axis]
        if end > self.length():
            self.extents[self.axis] = end
            self.dataset.set_extent(tuple(self.extents))
        if self.axis > 0:
            self._continue(offset[0], offset[self.axis], values, lent)
            return
        space = self.dataset.get_space()
        space.select_hyperslab(tuple(offset), values.shape)
        self.dataset.write(h5s.create_simple(values.shape), space, values, mtype=self.kind)

    def append(self, values):
        if len(values):
            self.write((self.length(),) + (0,) * (values.ndim - 1), values)

    def _continue(self, place, first, values, lent):
        if first != self._lengths.get(place, 0):
            raise ValueError(f"item {first} cannot follow {self._lengths.get(place, 0)} items")
        length = values.shape[self.axis]
        if lent is not None and length == self.chunk_items and first % length == 0 and self._fits(lent):
            self._keep_lent(place, first, lent)
            return
        raw = values.reshape(self._heads_of_layer, -1).view(np.uint8)
        done = 0
        while done < length:
            block = self._block(place, *divmod(first + done, self.chunk_items))
            taken = min(length - done, self.chunk_items - block.items)
            self._put(block, raw[:, done * self.item_bytes : (done + taken) * self.item_bytes])
            block.items += taken
            block.is_written = False
            done += taken
            if block.items == self.chunk_items:
                self._chunks.add(self, place, block, functools.partial(self._keep, self._open.pop(place)))
        self._lengths[place] = first + length
        while len(self._open) > 1 and len(self._open) * self._heads_of_layer * self._chunk_bytes > self._cache_bytes:
            self._put_away(next(iter(self._open)))

    def _fits(self, lent):
        return lent.room is not None and lent.room.shape == (self._heads_of_layer, self._chunk_bytes + CHECKSUM_BYTES)

    def _keep_lent(self, place, first, lent):
        """What fills a chunk of each head is written from where it is."""
        block = _Block(lent.room)
        block.number, block.items, block.is_written = first // self.chunk_items, self.chunk_items, False
        lent.kept = True
        step = max(1, _AT_ONCE // self._chunk_bytes)

        def work(begin, end):
            for head in range(begin, end, step):
                checksum.seal(block.chunks[head : min(head + step, end)])

        self._chunks.prepare(self._heads_of_layer, work)
        self._chunks.add(self, place, block, lent.give_back)
        self._lengths[place] = first + self.chunk_items

    def _put(self, block, raw):
        """The next items into each chunk, which is summed up where they fill it."""
        begin = block.items * self.item_bytes
        end = begin + raw.shape[1]

        def work(first, last):
            step = max(1, _AT_ONCE // self._chunk_bytes)
            for head in range(first, last, step):
                chunks = block.chunks[head : min(head + step, last)]
                chunks[:, begin:end] = raw[head : min(head + step, last)]
                if end == self._chunk_bytes:
                    checksum.seal(chunks)

        if raw.size < _FOR_THREADS:
            work(0, len(raw))
        else:
            self._chunks.prepare(len(raw), work)

    def _block(self, place, number, items):
        """The layer's open chunks, of which so many items are there."""
        block = self._open.pop(place, None)
        if block is None:
            block = self._spare.pop() if self._spare else _Block(np.empty((self._heads_of_layer, self._chunk_bytes + CHECKSUM_BYTES), np.uint8))
            block.number, block.items, block.is_written = number, items, True
            if items:
                block.chunks[:, : items * self.item_bytes] = self._read(place, number * self.chunk_items, items)
        self._open[place] = block
        return block

    def _put_away(self, place):
        block = self._open.pop(place)
        if block.is_written:
            self._keep(block)
        else:
            self._hand_over(place, block, functools.partial(self._keep, block))

    def _read(self, place, first, items):
        """What was put away, uint8 [heads, bytes]."""
        self._chunks.write()
        offset, count = [place] + [0] * (len(self.extents) - 1), [1, *self.extents[1:]]
        offset[self.axis], count[self.axis] = first, items
        raw = np.empty((self._heads_of_layer, items * self.item_bytes), np.uint8)
        space = self.dataset.get_space()
        space.select_hyperslab(tuple(offset), tuple(count))
        self.dataset.read(h5s.create_simple(tuple(count)), space, raw, mtype=self.kind)
        return raw

    def _keep(self, block):
        if len(self._spare) < _SPARE_BLOCKS:
            self._spare.append(block)

    def write_begun(self):
        """Hands over the chunks that are begun; Chunks.write writes them."""
        for place, block in self._open.items():
            if not block.is_written:
                self._hand_over(place, block, functools.partial(setattr, block, "is_written", True))

    def _hand_over(self, place, block, then):
        # What is not there yet is read as zeros, as of a chunk that HDF5 began.
        block.chunks[:, block.items * self.item_bytes : self._chunk_bytes] = 0
        self._chunks.prepare(self._heads_of_layer, lambda first, last: checksum.seal(block.chunks[first:last]))
        self._chunks.add(self, place, block, then)

    def write_chunks(self, place, block):
        """Writes a layer's block, summed up."""
        offset = [place] + [0] * (len(self.extents) - 1)
        offset[self.axis] = block.number * self.chunk_items
        stored = (ctypes.c_uint64 * len(offset))(*offset)
        function, (num_heads, size) = _chunk_writer(), block.chunks.shape
        for head in range(num_heads):
            if self.axis > 1:
                offset[1] = stored[1] = head
            written = False
            if function is not None:
                with phil:
                    written = function(self.dataset.id, _DEFAULT_PROPERTIES, 0, stored, size, block.chunks.ctypes.data + head * size) >= 0
            if not written:  # h5py says why
                self.dataset.write_direct_chunk(tuple(offset), block.chunks[head])

    def stored_bytes(self, length):
        chunks = -(-length // self.chunk_items)
        return self.num_heads * chunks * (self.chunk_items * self.item_bytes + CHECKSUM_BYTES)
