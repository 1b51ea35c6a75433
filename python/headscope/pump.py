# SPDX-License-Identifier: Apache-2.0
"""Carries tensors from the model to the writers on a thread of its own: through pinned buffers and a side stream from a GPU, as copies on a CPU.

What waits is bounded, so memory does not depend on the trace: whoever brings more waits until the disk has taken some. From a GPU, which makes it faster
than a disk takes it, as much may wait as a prompt of some thousand tokens has. The thread then begins when the GPU has ended a pass and whoever waited for it has
had a moment to go on, or most of the room is taken: a file's making keeps Python's interpreter to itself for milliseconds, in which the model's thread would
have nothing ready for the GPU, or its answer would be late.
"""
import atexit
import os
import queue
import threading
import time
import weakref

import numpy as np
import torch

from headscope.checksum import CHECKSUM_BYTES
from headscope.errors import FailedError
from headscope.lent import lent, room_for

_PIECE_BYTES = 8 << 20
_BUFFER_BYTES = _PIECE_BYTES + (64 << 10)  # with room behind each head's part
_SMALL_BYTES = 64 << 10  # which malloc has at hand; the pages of more would be taken from the system and given back for each piece
_WAITING_BYTES = 64 << 20
_WAITING_FROM_GPU = 1 << 30  # at most, and at most a sixteenth of the machine's memory
_BETWEEN_FLUSHES = 1.0  # seconds
_MOMENT = 0.002  # seconds
_running = weakref.WeakSet()
_RAW = {torch.bfloat16: torch.int16}  # what NumPy has no type for travels as its bytes


def _waiting_from_gpu():
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(_WAITING_BYTES, min(_WAITING_FROM_GPU, memory // 16))


def _pinned_buffers(size):
    """Of so many bytes as many as the system gives, and not less than what waits from a CPU. Each holds a full piece from there as well, with its room behind each head's
    part: a model may lie on both."""
    while True:
        try:
            return torch.empty(size // _BUFFER_BYTES * _BUFFER_BYTES, dtype=torch.uint8, pin_memory=True).split(_BUFFER_BYTES)
        except RuntimeError as error:
            if size <= _WAITING_BYTES:
                raise FailedError(f"pinned memory for copies from the GPU, {size >> 20} MiB, cannot be had ({str(error).splitlines()[0]}); close other programs") from error
            size = max(_WAITING_BYTES, size // 2)


def _contiguous_copy(values):
    """By eight bytes at a time where rows begin at such places: of numbers of two bytes, in another order, a GPU copies a quarter of the bytes a second."""
    try:
        return values.view(torch.int64).clone(memory_format=torch.contiguous_format).view(values.dtype)
    except RuntimeError:
        return values.clone(memory_format=torch.contiguous_format)


def _array(values):
    return values.view(_RAW.get(values.dtype, values.dtype)).numpy()


@atexit.register
def _stop_all():
    """A thread that is in HDF5 while the interpreter ends holds a lock that the interpreter waits for, or is torn down in the middle of a write."""
    for pump in list(_running):
        pump.stop()


class Pump:
    """from_gpu: the model is on a GPU; the pinned memory for all that may wait is then taken at once, which takes longer than a pass that waits for it."""

    def __init__(self, from_gpu=False):
        self._jobs = queue.SimpleQueue()
        self._error = None
        self._side, self._buffers, self._pins = {}, queue.SimpleQueue(), from_gpu
        pieces = _WAITING_BYTES // _PIECE_BYTES
        if from_gpu:
            buffers = _pinned_buffers(_waiting_from_gpu())
            for buffer in buffers:
                self._buffers.put(buffer)
            pieces = len(buffers)
        self._room = threading.Semaphore(pieces)
        self._most_held = pieces * 7 // 8 if from_gpu else 0  # jobs that wait for a pass to end before the thread begins
        self._begun = threading.Event()
        self._ends = ()  # events of GPUs, behind what the last pass has them do
        self._flushed = {}
        self._thread = threading.Thread(target=self._work, name="headscope-writer", daemon=True)
        self._thread.start()
        _running.add(self)

    def call(self, action):
        """Has the thread call `action` after everything brought before. Raises what an earlier job failed with."""
        self._raise()
        self._jobs.put((action, 0))

    def put(self, write, slot, name, first, values):
        """Brings a piece of a layer's tensor, [heads, n] or [heads, n, width] on any device, for write(slot, name, first, array); it may change after this."""
        step = max(1, _PIECE_BYTES // max(1, values.element_size() * values[:, :1].numel()))
        for begin in range(0, values.shape[1], step):
            piece = values[:, begin : begin + step]
            self._raise()
            if self._jobs.qsize() >= self._most_held:
                self._begun.set()
            self._room.acquire()
            take = self._from_gpu(piece) if piece.is_cuda else self._from_cpu(piece)
            self._jobs.put((lambda take=take, begin=begin: take(lambda array: write(slot, name, first + begin, array)), 1))

    def flush(self, writer, now=False):
        """Has the writer flush, at most once a second unless `now`. A pass has ended."""
        self.call(lambda: self._flush(writer, now))
        self._ends = tuple(self._end_of_work(device) for device in self._side)
        self._begun.set()

    @staticmethod
    def _end_of_work(device):
        event = torch.cuda.Event(blocking=True)
        event.record(torch.cuda.current_stream(device))
        return event

    def _flush(self, writer, now):
        if now or time.monotonic() - self._flushed.get(id(writer), 0.0) >= _BETWEEN_FLUSHES:
            writer.flush()
            self._flushed[id(writer)] = time.monotonic()

    def drain(self):
        """Waits until everything is written."""
        done = threading.Event()
        self._jobs.put((done.set, -1))
        self._begun.set()
        done.wait()
        self._raise()

    def stop(self):
        """Ends the thread; what still waits is written first unless something failed. Raises nothing."""
        self._jobs.put((None, 0))
        self._begun.set()
        self._thread.join()
        self._buffers = queue.SimpleQueue()  # a recording is kept for its paths, and this memory with it

    def _from_cpu(self, piece):
        if piece.numel() * piece.element_size() < _SMALL_BYTES:
            copy = piece.detach().to(copy=True, memory_format=torch.contiguous_format)
            return lambda write: write(_array(copy))
        extents = room_for(piece.shape, piece.element_size())
        if extents is None:
            buffer, target = self._buffer_for(piece)
            room = None
        else:
            buffer = self._buffer_of(extents[0] * extents[1])
            room = buffer[: extents[0] * extents[1]].view(extents)
            target = room[:, :-CHECKSUM_BYTES].view(piece.dtype).view(piece.shape)
        # By NumPy: OpenMP's threads, which copy for LibTorch, would spin behind each copy and keep the cores from what puts chunks together.
        np.copyto(_array(target), _array(piece.detach()))

        def take(write):
            array = lent(_array(target), None if room is None else room.numpy(), lambda: self._buffers.put(buffer))
            write(array)
            if not array.kept:
                array.give_back()

        return take

    def _from_gpu(self, piece):
        if piece.device not in self._side:
            self._side[piece.device] = torch.cuda.Stream(piece.device)
        side = self._side[piece.device]
        # The model's own stream goes on while the side stream carries, and a cache that is written in place would change what is carried.
        piece = _contiguous_copy(piece.detach())
        side.wait_stream(torch.cuda.current_stream(piece.device))
        buffer, target = self._buffer_for(piece)
        with torch.cuda.stream(side):
            target.copy_(piece, non_blocking=True)
            event = side.record_event()
        piece.record_stream(side)

        def take(write):
            event.synchronize()
            write(_array(target))
            self._buffers.put(buffer)

        return take

    def _buffer_for(self, piece):
        """A buffer, and the room in it that the piece takes, of its type and shape."""
        size = piece.numel() * piece.element_size()
        buffer = self._buffer_of(size)
        return buffer, buffer[:size].view(piece.dtype).view(piece.shape)

    def _buffer_of(self, size):
        try:
            buffer = self._buffers.get_nowait()
        except queue.Empty:
            buffer = None
        if buffer is None or buffer.numel() < size:  # a single row of very many heads is more than a piece
            buffer = torch.empty(max(size, _BUFFER_BYTES), dtype=torch.uint8, pin_memory=self._pins)
        return buffer

    def _work(self):
        while True:
            job, room = self._jobs.get()
            self._begun.wait()
            self._let_the_pass_end()
            if job is None:
                return
            try:
                if self._error is None or room < 0:
                    job()
            except BaseException as error:  # told to whoever records
                self._error = error
            finally:
                if room > 0:
                    self._room.release()
                if self._most_held and self._jobs.empty():
                    self._begun.clear()
                    if not self._jobs.empty():  # whoever brought it may have set the event before it was cleared
                        self._begun.set()

    def _let_the_pass_end(self):
        ends, self._ends = self._ends, ()
        try:
            for end in ends:
                end.synchronize()
        except BaseException as error:  # told to whoever records, as what a job fails with
            self._error = self._error or error
        if ends and self._jobs.qsize() < self._most_held:
            time.sleep(_MOMENT)

    def _raise(self):
        if self._error is not None:
            raise self._error
