# SPDX-License-Identifier: Apache-2.0
"""Writes a trace while the model runs: HDF5 with SWMR, so that every flushed token is readable after a kill.

Use: create, append_tokens, append_rows, write and advance for every layer of a forward pass, flush at least once a second, finish. The objects, their
types, chunks and attributes are those of the C++ writer (data/trace), and so is what a killed writer leaves. Memory does not depend on the trace's size.
"""
import os
import weakref

import numpy as np
from h5py import h5a, h5d, h5f, h5g, h5i, h5p, h5s, h5t

from headscope import layout as trace_layout
from headscope.errors import FailedError, reason
from headscope.growing import Chunks, Growing
from headscope.layout import TENSORS
from headscope.lent import Lent

DISK_RESERVE = 8 << 20  # free space that must remain beside the data
OPEN_CHUNK_BUDGET = 512 << 20  # of open chunks that stay in memory, all datasets together
SMALL_CACHE = 1 << 20


def _text_type(size):
    kind = h5t.C_S1.copy()
    kind.set_size(max(1, size))
    kind.set_cset(h5t.CSET_UTF8)
    kind.set_strpad(h5t.STR_NULLPAD)
    return kind


def _enumeration(zero, one):
    kind = h5t.enum_create(h5t.STD_I8LE)
    kind.enum_insert(zero.encode(), 0)
    kind.enum_insert(one.encode(), 1)
    return kind


def _float_type(encoding):
    kind = h5t.IEEE_F32LE.copy()
    if encoding == "float32":
        return kind
    # The fields must lie inside the new size before the size shrinks.
    exponent = 8 if encoding == "bfloat16" else 5
    kind.set_fields(15, 15 - exponent, exponent, 0, 15 - exponent)
    kind.set_size(2)
    kind.set_ebias(127 if encoding == "bfloat16" else 15)
    return kind


def _attribute(target, name, kind, values):
    """`values`: an array whose bytes are of the type `kind`."""
    values = np.asarray(values)
    space = h5s.create(h5s.SCALAR) if values.ndim == 0 else h5s.create_simple(values.shape)
    attribute = h5a.create(target, name.encode(), kind, space)
    attribute.write(values, mtype=kind)


def _text(target, name, text):
    raw = text.encode()
    _attribute(target, name, _text_type(len(raw)), np.array(raw, f"S{max(1, len(raw))}"))


def _texts(target, name, texts):
    raw = [text.encode() for text in texts]
    width = max(len(one) for one in raw)
    _attribute(target, name, _text_type(width), np.array(raw, f"S{width}"))


def _integer(target, name, value, kind=h5t.STD_I32LE):
    _attribute(target, name, kind, np.array(value, "<i8" if kind == h5t.STD_I64LE else "<i4"))


def _group(parent, name):
    creation = h5p.create(h5p.GROUP_CREATE)
    creation.set_obj_track_times(False)
    creation.set_attr_phase_change(64, 0)
    return h5g.create(parent, name.encode(), gcpl=creation)


def _whole(parent, name, kind, space, values, unit):
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_obj_track_times(False)
    dataset = h5d.create(parent, name.encode(), kind, space, dcpl=creation)
    dataset.write(h5s.ALL, h5s.ALL, values, mtype=kind)
    _text(dataset, "units", unit)


def _numbers(parent, name, values):
    _whole(parent, name, h5t.STD_I32LE, h5s.create_simple((len(values),)), np.asarray(values, "<i4"), "1")


def open_vectors(layout):
    """Vectors that grow by one with a token, all heads of all layers: what shares the memory for open chunks."""
    return sum(spec.heads(layout.facts[slot]) for slot in range(len(layout.layers)) for name, spec in TENSORS.items() if spec.width and trace_layout.stores(layout, slot, name))


_open_writers = weakref.WeakSet()


def _disown():
    """In a forked process: what its HDF5 still writes, at its end at the latest, goes nowhere. The file is its parent's."""
    for writer in list(_open_writers):
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, writer._descriptor, inheritable=False)
        os.close(nowhere)


os.register_at_fork(after_in_child=_disown)


class TraceWriter:
    """Writes the trace `path`, which must not be there. `expected_tokens` and `expected_rows` only size chunks.

    place: of a file of a trace in several (files_writer.py): the set's name, the file's number and how many there are. open_chunk_budget: its share of the memory
    for open chunks. space: the bytes that each file is to have, by its path, of all that are written at the same time.
    """

    def __init__(self, path, layout, expected_tokens=None, expected_rows=None, place=None, open_chunk_budget=OPEN_CHUNK_BUDGET, space=None):
        if problem := trace_layout.layout_problem(layout):
            raise FailedError(f"{path}: {problem}")
        self.path, self.layout, self._set_place = os.fspath(path), layout, place
        self._open_chunk_budget, self._space = open_chunk_budget, {} if space is None else space
        self.num_tokens = self.text_bytes = 0
        self.row_positions = np.zeros(0, np.int32)
        self.layer_tokens = [0] * len(layout.layers)
        self.layer_rows = [0] * len(layout.layers)
        self.tokens_flushed = 0
        self.broken = False
        self._growing = []  # every growing dataset, and what it grows with
        self._chunks = Chunks()
        self._expected_tokens = expected_tokens or layout.max_tokens
        self._expected_rows = expected_rows or self._expected_tokens
        access = h5p.create(h5p.FILE_ACCESS)
        access.set_libver_bounds(h5f.LIBVER_V110, h5f.LIBVER_V110)
        creation = h5p.create(h5p.FILE_CREATE)
        creation.set_obj_track_times(False)
        creation.set_attr_phase_change(64, 0)
        try:
            self.file = h5f.create(self.path.encode(), h5f.ACC_EXCL, fcpl=creation, fapl=access)
        except OSError as error:
            raise FailedError(f"{path}: cannot be created ({reason(error)}); choose a writable folder") from None
        self._descriptor = self.file.get_vfd_handle()
        _open_writers.add(self)
        try:
            self._create_objects()
        except BaseException:
            _open_writers.discard(self)
            self.file.close()
            os.unlink(self.path)  # nothing is in it yet, and half a skeleton is no trace
            raise

    def _create_objects(self):
        file, layout = self.file, self.layout
        root = h5g.open(file, b"/")
        _text(root, "format", trace_layout.FORMAT_NAME)
        _integer(root, "version", self.layout.version())
        _text(root, "NX_class", "NXroot")
        _text(root, "default", "attention")
        self._boolean = _enumeration("FALSE", "TRUE")
        _attribute(root, "complete", self._boolean, np.array(0, "i1"))
        _integer(root, "tokens_flushed", 0, h5t.STD_I64LE)
        _integer(root, "rows_flushed", 0, h5t.STD_I64LE)
        if self._set_place is not None:
            name, number, count = self._set_place
            _text(root, "file_set", name)
            _integer(root, "file_number", number)
            _integer(root, "file_count", count)
        self._create_model(root)
        self.parts = trace_layout.parts_of(layout)
        self.place = {slot: (part, i) for part, slots in enumerate(self.parts) for i, slot in enumerate(slots)}
        self._create_layers(root)
        self._create_tokens(root)
        self._create_attention(root)
        self._create_cross_attention(root)
        h5f.flush(file, h5f.SCOPE_LOCAL)
        file.start_swmr_write()  # refused while an attribute is open
        self._complete, self._rows_flushed, self._tokens_flushed = (h5a.open(root, name) for name in (b"complete", b"rows_flushed", b"tokens_flushed"))

    def _create_model(self, root):
        group, layout = _group(root, "model"), self.layout
        for name in ("name", "model_type", "weights_sha256", "tokenizer_sha256"):
            _text(group, name, getattr(layout, name))
        for name in ("num_layers", "num_qo_heads", "num_kv_heads", "head_dim"):
            _integer(group, name, getattr(layout, name))
        if layout.layer_kinds:
            _attribute(group, "layer_kinds", h5t.STD_I32LE, np.asarray(layout.layer_kinds, "<i4"))
        raw = layout.config_json.encode()
        _whole(group, "config_json", _text_type(len(raw)), h5s.create(h5s.SCALAR), np.array(raw, f"S{max(1, len(raw))}"), "1")

    def _create_layers(self, root):
        group, layout = _group(root, "layers"), self.layout

        def integers(name, values):
            _attribute(group, name, h5t.STD_I32LE, np.asarray(values, "<i4"))

        integers("layer", layout.layers)
        integers("part", [self.place[slot][0] for slot in range(len(layout.layers))])
        for name, required, usual, _, _ in trace_layout.INTEGER_COLUMNS:
            values = [getattr(facts, name) for facts in layout.facts]
            if required or any(value != usual for value in values):
                integers(name, values)
        for name, required, usual in trace_layout.FLOAT_COLUMNS:
            values = np.asarray([getattr(facts, name) for facts in layout.facts], "<f4")
            if required or (values != np.float32(usual)).any():
                _attribute(group, name, h5t.IEEE_F32LE, values)
        sinks = [facts.sinks for facts in layout.facts if facts.sinks is not None]
        if not sinks:
            return
        integers("has_sinks", [facts.sinks is not None for facts in layout.facts])
        values = np.concatenate(sinks).astype("<f4")
        _whole(group, "sinks", h5t.IEEE_F32LE, h5s.create_simple(values.shape), values, "nat")

    def _grow(self, grows_with, parent, name, kind, extents, axis, chunk_items, axes, unit, cache_bytes):
        growing = Growing(parent, name, kind, extents, axis, chunk_items, cache_bytes, self._chunks)
        _texts(growing.dataset, "dimensions", axes)
        _text(growing.dataset, "units", unit)
        self._growing.append((grows_with, growing))
        return growing

    def _create_tokens(self, root):
        group, layout, most = _group(root, "tokens"), self.layout, self._expected_tokens
        _text(group, "prompt_source", layout.prompt_source)
        _text(group, "task_answer", layout.task_answer)

        def column(name, kind, expected, grows="tokens", extents=(0,), axes=("token",), unit="1"):
            chunk = trace_layout.chunk_items(kind.get_size() * 16, expected)  # 16 KiB are enough here
            return self._grow(grows, group, name, kind, extents, 0, chunk, axes, unit, SMALL_CACHE)

        self._ids = column("ids", h5t.STD_I32LE, most)
        self._phase = column("phase", _enumeration("PROMPT", "DECODE"), most)
        self._step = column("step", h5t.STD_I32LE, most)
        self._text_bytes = column("text", h5t.STD_U8LE, most * 4, "text", axes=("byte",))
        self._text_offsets = column("text_offsets", h5t.STD_I64LE, most + 1, "offsets")
        self._text_offsets.append(np.zeros(1, "<i8"))
        self._role = column("role", h5t.STD_I8LE, most) if layout.has_roles else None
        self._positions = None
        if layout.position_axes:
            self._positions = column("positions", h5t.STD_I32LE, most, extents=(0, layout.position_axes), axes=("token", "axis"), unit="token")

    def _create_attention(self, root):
        group, layout = _group(root, "attention"), self.layout
        _text(group, "NX_class", "NXdata")
        _text(group, "signal", "lse")
        _texts(group, "axes", ("layers", "qo_heads", "q_rows"))
        _text(group, "encoding", layout.encoding)
        _text(group, "capture_point", layout.capture_point)
        _text(group, "row_selection", layout.row_selection)
        _integer(group, "max_tokens", layout.max_tokens, h5t.STD_I64LE)
        _integer(group, "first_token", 0, h5t.STD_I64LE)
        scalar_chunk = trace_layout.chunk_items(32, self._expected_rows)
        vectors = open_vectors(layout)
        self._tensors = []
        for number in range(len(self.parts)):
            self._create_part(group if number == 0 else _group(group, f"part_{number}"), self.parts[number], vectors)
        self._q_rows = self._grow("rows", group, "q_rows", h5t.STD_I32LE, (0,), 0, scalar_chunk, ("row",), "token", SMALL_CACHE)

    def _create_part(self, group, slots, all_vectors):
        layout = self.layout
        facts, layers, all_layers = layout.facts[slots[0]], len(slots), len(layout.layers)
        _numbers(group, "layers", [layout.layers[slot] for slot in slots])
        _numbers(group, "qo_heads", facts.qo_heads)
        _numbers(group, "kv_heads", facts.kv_heads)
        encoded, tensors = _float_type(layout.encoding), {}
        for name, spec in TENSORS.items():
            if not trace_layout.stores(layout, slots[0], name):
                continue
            heads, items = spec.heads(facts), self._expected_rows if spec.of_rows else self._expected_tokens
            kind = {"encoding": encoded, "float32": h5t.IEEE_F32LE, "int32": h5t.STD_I32LE}[spec.kind]
            extents, axes = [layers, heads, 0], ["layer", spec.head_axis, "row" if spec.of_rows else "token"]
            chunk, cache = trace_layout.chunk_items(32, items), self._open_chunk_budget // 8 * layers // all_layers
            if spec.width:
                extents.append(spec.width(facts))
                axes.append("id" if name == "selection" else "dim")
                chunk = trace_layout.chunk_items(spec.width(facts) * trace_layout.component_bytes(spec, layout.encoding), items)
                cache = self._open_chunk_budget * heads * layers // all_vectors
            tensors[name] = self._grow("rows" if spec.of_rows else "tokens", group, name, kind, extents, 2, chunk, axes, spec.unit, cache)
        chunk = trace_layout.chunk_items(32, self._expected_rows)
        cache = self._open_chunk_budget // 8 * layers // all_layers
        tensors["lse_keys"] = self._grow("rows", group, "lse_keys", h5t.STD_I64LE, (layers, 0), 1, chunk, ("layer", "row"), "token", cache)
        self._tensors.append(tensors)

    def _create_cross_attention(self, root):
        """Layers that attend to another sequence as well, with its positions as the key axis; they are alike, and their rows are those of /attention."""
        layout = self.layout
        if not layout.cross_layers:
            return
        group, facts, layers = _group(root, "cross_attention"), layout.cross_facts[0], len(layout.cross_layers)
        for name in ("num_qo_heads", "num_kv_heads", "head_dim", "v_head_dim"):
            _attribute(group, name, h5t.STD_I32LE, np.asarray([getattr(one, name) for one in layout.cross_facts], "<i4"))
        _attribute(group, "softmax_scale", h5t.IEEE_F32LE, np.asarray([one.softmax_scale for one in layout.cross_facts], "<f4"))
        _integer(group, "source_tokens", layout.source_tokens, h5t.STD_I64LE)
        _numbers(group, "layers", layout.cross_layers)
        _numbers(group, "qo_heads", facts.qo_heads)
        _numbers(group, "kv_heads", facts.kv_heads)
        encoded = _float_type(layout.encoding)
        self._cross = {}
        for name in ("q", "k", "v", "lse"):
            spec = TENSORS[name]
            items, kind = self._expected_rows if spec.of_rows else layout.source_tokens, encoded if spec.width else h5t.IEEE_F32LE
            extents, axes = [layers, spec.heads(facts), 0], ["layer", spec.head_axis, "row" if spec.of_rows else "source_token"]
            item_bytes = 32
            if spec.width:
                extents.append(spec.width(facts))
                axes.append("dim")
                item_bytes = spec.width(facts) * kind.get_size()
            chunk = trace_layout.chunk_items(item_bytes, items)
            cache = self._open_chunk_budget // 8
            self._cross[name] = self._grow("rows" if spec.of_rows else "source", group, name, kind, extents, 2, chunk, axes, spec.unit, cache)

    def write_cross(self, slot, name, first, values):
        """As write, of a layer's attention to the other sequence; `slot` counts the layout's cross_layers."""
        values = np.ascontiguousarray(values)[None]
        offset = (slot, 0, first) + (0,) * (values.ndim - 3)
        self._guarded(lambda: self._cross[name].write(offset, values))

    def _guarded(self, action, what="what was flushed before is intact"):
        if self.broken:
            raise FailedError(f"{self.path}: the trace cannot be written any further after the earlier failure; what was flushed is intact")
        try:
            return action()
        except MemoryError as error:
            self.abandon()
            raise FailedError(f"{self.path}: memory for what waits to be written cannot be had; {what}: record fewer layers, or close other programs") from error
        except (OSError, RuntimeError, ValueError) as error:
            self.abandon()
            raise FailedError(f"{self.path}: {reason(error)}; {what}: free some disk space or choose another folder") from error

    def _require_space(self):
        """HDF5 notices a full disk only when it flushes, too late to stop cleanly. So the file's size is foreseen, every open chunk counted whole."""
        lengths = {"tokens": self.num_tokens, "rows": len(self.row_positions), "text": self.text_bytes, "offsets": self.num_tokens + 1, "source": self.layout.source_tokens}
        self._space[self.path] = sum(dataset.stored_bytes(lengths[kind]) for kind, dataset in self._growing)
        try:
            lacking = sum(max(0, wanted - os.stat(path).st_size) for path, wanted in self._space.items() if path == self.path or os.path.exists(path))
            disk = os.statvfs(self.path)
        except OSError:
            raise FailedError(f"{self.path}: vanished while it was being written; write to a folder that is not cleaned up automatically") from None
        missing, free = lacking + DISK_RESERVE, disk.f_bavail * disk.f_frsize
        if missing > free:
            raise FailedError(
                f"{self.path}: the disk is nearly full ({free >> 20} MiB free, {(missing >> 20) + 1} MiB needed); "
                "what was flushed before is intact: free some disk space or choose another folder"
            )

    def append_tokens(self, ids, phase, step, texts, positions=None, roles=None):
        """ids: int [n]; phase 0 prompt, 1 decode, int [n]; texts: the bytes of each token; positions: int [n, position_axes], roles: int [n], where the layout
        has them."""
        count = len(ids)
        if count > self.layout.max_tokens - self.num_tokens:
            raise FailedError(f"{self.path}: {self.num_tokens + count} tokens, but max_tokens is {self.layout.max_tokens}: raise it")
        offsets = self.text_bytes + np.cumsum([len(text) for text in texts], dtype="<i8")
        self.num_tokens += count
        self.text_bytes = int(offsets[-1]) if count else self.text_bytes
        self._require_space()

        def action():
            self._ids.append(np.asarray(ids, "<i4"))
            self._phase.append(np.asarray(phase, "i1"))
            self._step.append(np.full(count, step, "<i4"))
            self._text_bytes.append(np.frombuffer(b"".join(texts), "u1"))
            self._text_offsets.append(offsets)
            if self._role is not None:
                self._role.append(np.asarray(roles, "i1"))
            if self._positions is not None:
                self._positions.append(np.ascontiguousarray(positions, "<i4"))

        self._guarded(action)

    def append_rows(self, positions):
        """Token positions of the query rows that the next blocks record, the same for all layers; once a pass, after its tokens."""
        positions = np.asarray(positions, "<i4")
        last = int(self.row_positions[-1]) if len(self.row_positions) else -1
        if len(positions) and (positions[0] <= last or (np.diff(positions) <= 0).any() or positions[-1] >= self.num_tokens):
            raise FailedError(f"{self.path}: row positions {positions[0]} to {positions[-1]}: must rise, above {last} and below the {self.num_tokens} tokens so far")
        self.row_positions = np.concatenate([self.row_positions, positions])
        self._require_space()
        self._guarded(lambda: self._q_rows.append(positions))

    def write(self, slot, name, first, values):
        """A piece of a layer's tensor: `values` [heads, n] or [heads, n, width] from item `first` on, in the type of the file (bfloat16 as its two bytes)."""
        part, place = self.place[slot]
        target = self._tensors[part][name]
        lent = values if isinstance(values, Lent) else None
        values = (np.ascontiguousarray(values) if lent is None else values)[None]
        offset = (place, 0, first) + (0,) * (values.ndim - 3)
        self._guarded(lambda: target.write(offset, values, lent))

    def advance(self, slot, num_tokens, num_rows):
        """Says that a layer's next tokens and rows are written in every tensor of it."""
        first, end = self.layer_rows[slot], self.layer_rows[slot] + num_rows
        if num_rows:
            part, place = self.place[slot]
            keys = trace_layout.lse_keys(self.layout.facts[slot], self.row_positions[first:end], self.num_tokens)[None]
            self._guarded(lambda: self._tensors[part]["lse_keys"].write((place, first), keys))
        self.layer_tokens[slot] += num_tokens
        self.layer_rows[slot] = end

    def flush(self):
        """Makes everything appended so far durable against a kill, and counts it. Data first, its count second."""
        whole = min([self.num_tokens, *self.layer_tokens])
        rows = int(np.searchsorted(self.row_positions, whole))

        def action():
            for _, growing in self._growing:
                growing.write_begun()
            self._chunks.write()
            h5f.flush(self.file, h5f.SCOPE_LOCAL)
            self._rows_flushed.write(np.array(rows, "<i8"))
            self._tokens_flushed.write(np.array(whole, "<i8"))
            h5f.flush(self.file, h5f.SCOPE_LOCAL)

        self._guarded(action)
        self.tokens_flushed = whole

    def finish(self):
        """Flush, complete = TRUE, close."""
        whole = min([self.num_tokens, *self.layer_tokens])
        if whole != self.num_tokens:
            raise FailedError(f"{self.path}: only {whole} of {self.num_tokens} tokens are recorded in every layer; let every forward pass end before the trace is closed")
        self.flush()

        def action():
            self._complete.write(np.array(1, "i1"), mtype=self._boolean)
            h5f.flush(self.file, h5f.SCOPE_LOCAL)

        self._guarded(action)
        self.close()

    def close(self):
        """As if killed: what was flushed stays readable."""
        if self.broken:
            return
        self.broken = True
        self._space.pop(self.path, None)
        _open_writers.discard(self)
        for _, growing in self._growing:
            growing.dataset.close()
        self._complete = self._tokens_flushed = self._rows_flushed = None
        self._growing = []
        self._tensors = []
        self.file.close()

    def abandon(self):
        """Gives every identifier up without closing it: after a failed write HDF5's caches are unfit for anything, closing included."""
        self.broken = True
        for identifier in [self.file, self._complete, self._tokens_flushed, self._rows_flushed, *(growing.dataset for _, growing in self._growing)]:
            h5i.inc_ref(identifier)
