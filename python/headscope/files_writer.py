# SPDX-License-Identifier: Apache-2.0
"""Writes a trace into several files, as TraceWriter writes one: the same calls, each handed to the file of its layer, or to all.

One thread writes them all, since h5py lets one thread at a time into HDF5: several files come out as `headscope capture --files` makes them, and no sooner than one.
"""
import contextlib
import dataclasses
import os
import secrets

from headscope import trace_files
from headscope.writer import OPEN_CHUNK_BUDGET, TraceWriter, open_vectors


def new_writer(path, layout, count, expected_tokens=None, expected_rows=None):
    """The writer of a trace in `count` files."""
    if count == 1:
        return TraceWriter(path, layout, expected_tokens, expected_rows)
    return FilesWriter(path, layout, count, expected_tokens, expected_rows)


class FilesWriter:
    """`expected_tokens` and `expected_rows` as TraceWriter's. Attention to another sequence is in the first file."""

    def __init__(self, path, layout, count, expected_tokens=None, expected_rows=None):
        tokens = expected_tokens or layout.max_tokens
        dealt = trace_files.deal(layout, count, tokens, expected_rows or tokens)
        name, space, vectors = secrets.token_hex(16), {}, open_vectors(layout)
        self._writers, self._place = [], {}
        try:
            for number, slots in enumerate(dealt, 1):
                crossing = {} if number == 1 else {"cross_layers": [], "cross_facts": [], "source_tokens": 0}
                of_file = dataclasses.replace(layout, layers=[layout.layers[slot] for slot in slots], facts=[layout.facts[slot] for slot in slots], **crossing)
                budget = OPEN_CHUNK_BUDGET * open_vectors(of_file) // vectors  # its heads' share: each has an open chunk
                writer = TraceWriter(trace_files.file_path(path, number, count), of_file, expected_tokens, expected_rows, (name, number, count), budget, space)
                self._writers.append(writer)
                self._place |= {slot: (self._writers[-1], i) for i, slot in enumerate(slots)}
        except BaseException:
            with contextlib.ExitStack() as each:
                for writer in self._writers:
                    each.callback(os.unlink, writer.path)
                    each.callback(writer.close)
            raise

    @property
    def tokens_flushed(self):
        return min(writer.tokens_flushed for writer in self._writers)

    def append_tokens(self, *arguments, **options):
        for writer in self._writers:
            writer.append_tokens(*arguments, **options)

    def append_rows(self, positions):
        for writer in self._writers:
            writer.append_rows(positions)

    def write(self, slot, name, first, values):
        writer, place = self._place[slot]
        writer.write(place, name, first, values)

    def write_cross(self, slot, name, first, values):
        self._writers[0].write_cross(slot, name, first, values)

    def advance(self, slot, num_tokens, num_rows):
        writer, place = self._place[slot]
        writer.advance(place, num_tokens, num_rows)

    def flush(self):
        for writer in self._writers:
            writer.flush()

    def finish(self):
        for writer in self._writers:
            writer.finish()

    def close(self):
        """All of them, also where one of them fails."""
        with contextlib.ExitStack() as each:
            for writer in self._writers:
                each.callback(writer.close)
