# SPDX-License-Identifier: Apache-2.0
"""Reads a trace lazily: nothing is in memory but its layout until values are asked for.

What the file says is checked before it is used (untrusted.py), but libhdf5 parses it in this process: a trace of unknown origin is looked at with
`headscope info` first, which does not do that.
"""
import os

import h5py
import numpy as np
from h5py import h5s

from headscope import layout as trace_layout
from headscope import file_opening, program, trace_files, untrusted
from headscope.checksum import CHECKSUM_BYTES
from headscope.errors import BadInputError, UsageError, reason

_USUAL = {name: usual for name, _, usual, _, _ in trace_layout.INTEGER_COLUMNS} | {name: usual for name, _, usual in trace_layout.FLOAT_COLUMNS}
_NUMPY = {"float32": "<f4", "float16": "<f2", "bfloat16": "<u2"}


def open_trace(path):
    """Opens a trace of format 1 or 2, complete or still being written. Raises BadInputError where it is none."""
    return Trace(path)


class Vectors:
    """A head's vectors or numbers in the file, read when they are indexed: `view[10:20]` is float32 [10, head_dim], `view.torch()` a tensor as stored."""

    def __init__(self, trace, dataset, place, length, encoding):
        self._trace, self._dataset, self._place, self._length, self._encoding = trace, dataset, place, length, encoding
        self.shape = (length, *dataset.shape[3:]) if dataset.ndim > 3 else (length,)

    def __len__(self):
        return self._length

    def _stored(self, begin, end):
        """The bytes of the file as an array of shape [end - begin, ..]; bfloat16 as uint16."""
        return self._trace.read(self._dataset, self._place, begin, end, _NUMPY[self._encoding] if self._encoding else self._dataset.dtype)

    def __getitem__(self, chosen):
        first, rest = (chosen[0], chosen[1:]) if isinstance(chosen, tuple) else (chosen, ())
        if isinstance(first, (int, np.integer)):
            index = int(first) + (self._length if first < 0 else 0)
            if not 0 <= index < self._length:
                raise IndexError(f"{first} of {self._length}")
            return _values(self._stored(index, index + 1), self._encoding)[(0, *rest)]
        if isinstance(first, slice):
            begin, end, step = first.indices(self._length)
            if step < 1:
                raise IndexError("a step must be positive")
            return _values(self._stored(begin, max(begin, end)), self._encoding)[(slice(None, None, step), *rest)]
        return _values(self._stored(0, self._length), self._encoding)[chosen]

    def __array__(self, dtype=None, copy=None):
        values = self[:]
        return values if dtype is None else values.astype(dtype)

    def torch(self, begin=0, end=None):
        """Items begin to end as a tensor of the stored type, bfloat16 too."""
        import torch

        raw = self._stored(begin, self._length if end is None else end)
        return torch.from_numpy(raw.view(np.int16)).view(torch.bfloat16) if self._encoding == "bfloat16" else torch.from_numpy(raw)


def _values(raw, encoding):
    if encoding == "bfloat16":
        return (raw.astype(np.uint32) << 16).view(np.float32)
    return raw.astype(np.float32) if encoding == "float16" else raw


def first_to_open(path):
    """The path, or where nothing has that name a file of the trace that is called so."""
    files = [] if os.path.lexists(path) else trace_files.named_for(path)
    if len({trace_files.parse(one)[2] for one in files}) > 1:
        raise BadInputError(
            f"{path}: may be the trace of {os.path.basename(files[0])} or that of {os.path.basename(files[-1])}, which are beside it; name a file of the one that is meant"
        )
    return files[0] if files else path


def refuse_place(path, problem):
    raise BadInputError(f"{path}: {problem}; bring back the file that was written under this name, or give each file a name without numbers to open its layers alone")


def require_place(path, found, expected):
    if found is None or found[0] != expected[0]:
        refuse_place(path, "is not of the same trace as the files beside it")
    if found != expected:
        refuse_place(path, f"is file {found[1]} of {found[2]} of its trace, which its name does not say")


def require_there(paths, opened):
    for path in paths:
        if not os.path.exists(path):
            name = os.path.basename(opened)
            raise BadInputError(
                f"{path}: is missing: {name} is one of the {len(paths)} files of a trace; put all of them into one folder, or give {name} a name without numbers to open its layers alone"
            )


class Trace:
    """A trace, in one file or in several, which any one of them opens: `layers`, `facts(layer)`, `tokens`, `rows`; `q`, `k`, `v`, `lse` of a head; `scores` of any tile; `analyze` and `compare` by the program."""

    def __init__(self, path):
        self._open(first_to_open(os.fspath(path)))
        place, name = self._set_place, trace_files.parse(self.path)
        self.paths, self._others = [self.path], []
        if place is None or name is None:  # by a name of its own a file is an ordinary trace of its layers
            return
        try:
            require_place(self.path, place, (place[0], *name[1:]))
            self.paths = trace_files.files_of(name[0], place[2])
            if place[1] != 1:  # the first one is the trace's, and holds what is not of a layer
                self.close()
                require_there(self.paths, self.path)
                self._open(self.paths[0])
                require_place(self.path, self._set_place, (place[0], 1, place[2]))
            self._join(place)
        except BaseException:
            self.close()
            raise

    def _open(self, path):
        self.path, self._others = path, []
        try:
            self._file = file_opening.open_file(self.path)
        except (OSError, RuntimeError) as error:
            raise BadInputError(f"{self.path}: cannot be opened as HDF5 ({reason(error)}); open a file that headscope wrote") from None
        try:
            self._read_layout()
        except (KeyError, ValueError, TypeError, IndexError, OverflowError, OSError, RuntimeError) as error:  # what h5py says of files that lack a part
            self.close()
            untrusted.refuse(self.path, "its layout", f"is damaged or not a trace's ({str(error).splitlines()[0] if str(error) else type(error).__name__})")
        except BaseException:
            self.close()
            raise

    def _join(self, place):
        """Adds the layers of the trace's other files, which are found by their names."""
        require_there(self.paths, self.path)
        for number, path in enumerate(self.paths[1:], 2):
            other = Trace.__new__(Trace)
            other._open(path)
            self._others.append(other)
            require_place(path, other._set_place, (place[0], number, place[2]))
        files = [self, *self._others]
        tokens = min(one.num_tokens for one in files)
        if all(one.complete for one in files) and any(one.num_tokens != tokens for one in files):
            refuse_place(self.path, "and the files beside it are complete with different numbers of tokens")
        for one in files[1:]:
            self._require_same_trace(one, tokens)
        seen = {}
        for one in files:
            if repeated := set(one._facts) & set(seen):
                refuse_place(one.path, f"holds layer {min(repeated)}, which {os.path.basename(seen[min(repeated)])} holds as well")
            seen |= dict.fromkeys(one._facts, one.path)
        complete, rows = all(one.complete for one in files), self.rows[self.rows < tokens]
        self._owners = {layer: one for one in files for layer in one._facts}
        self._facts = {layer: owner._facts[layer] for layer, owner in sorted(self._owners.items())}
        self.layers = list(self._facts)
        for one in files:
            one.num_tokens, one.rows = tokens, rows
        self.complete = complete

    def _require_same_trace(self, other, tokens):
        """What all files of a trace have in common, as the program compares it, with the first `tokens` tokens."""
        mine, theirs = self._common_facts(), other._common_facts()
        for what, facts in mine.items():
            if facts != theirs[what]:
                refuse_place(other.path, f"has other {what} than {os.path.basename(self.path)}")
        for name in ("tokens", "phases", "steps", "roles", "positions"):
            if not np.array_equal(getattr(self, name)[:tokens], getattr(other, name)[:tokens]):
                refuse_place(other.path, f"has other tokens than {os.path.basename(self.path)}")
        if self.texts[:tokens] != other.texts[:tokens]:
            refuse_place(other.path, f"has other tokens than {os.path.basename(self.path)}")
        if not np.array_equal(other.rows[other.rows < tokens], self.rows[self.rows < tokens]):
            refuse_place(other.path, f"has other rows than {os.path.basename(self.path)}")
        scores = {score for one in (self, other) if not np.isnan(score := float(one._file["tokens"].attrs.get("answer_score", np.nan)))}
        if len(scores) > 1:
            refuse_place(other.path, f"has another score of the answer than {os.path.basename(self.path)}")

    def _common_facts(self):
        model, attention, tokens = self._file["model"], self._file["attention"].attrs, self._file["tokens"]
        kinds = tuple(int(kind) for kind in model.attrs.get("layer_kinds", ()))
        return {
            "facts of the model": (self.model, kinds, bytes(model["config_json"][()])),
            "facts of the recording": (
                self.encoding,
                self.capture_point,
                *(trace_files.decoded(attention.get(name, b"")) for name in ("attention", "row_selection")),
                int(attention["max_tokens"]),
                self.first_token,
            ),
            "facts of the tokens": (
                *(trace_files.decoded(tokens.attrs[name]) for name in ("prompt_source", "task_answer")),
                int(tokens.attrs.get("answer_tokens", 0)),
                "role" in tokens,
                tokens["positions"].shape[1] if "positions" in tokens else 0,
            ),
        }

    def _read_layout(self):
        untrusted.check_objects(self.path, self._file)
        attributes = self._file.attrs
        trace_files.require_format(self.path, attributes)
        self.version = int(attributes["version"])
        if not 1 <= self.version <= trace_layout.BIDIRECTIONAL_VERSION:
            raise BadInputError(f"{self.path}: attribute version: is {self.version}; this headscope reads versions 1 to {trace_layout.BIDIRECTIONAL_VERSION}: update it or capture again")
        # In this order, because a living writer changes them in the opposite one.
        self.complete = bool(attributes["complete"])
        self.num_tokens = int(attributes["tokens_flushed"])
        num_rows = int(attributes["rows_flushed"])
        untrusted.check_count(self.path, "attribute tokens_flushed", self.num_tokens, len(self._file["tokens/ids"]))
        group = self._file["attention"]
        untrusted.check_count(self.path, "attribute rows_flushed", num_rows, len(group["q_rows"]))
        self.encoding = trace_files.decoded(group.attrs["encoding"])
        self.capture_point = trace_files.decoded(group.attrs["capture_point"])
        self.rows = self._read_column(group["q_rows"], num_rows)
        self.rows = self.rows[self.rows < self.num_tokens]
        self._set_place = trace_files.place_of(self.path, attributes)
        self.first_token = int(group.attrs["first_token"])
        untrusted.check_count(self.path, "attribute first_token", self.first_token, trace_layout.MAX_TOKENS)
        self._read_layers(group)

    def _read_layers(self, group):
        model = self._file["model"]
        self.model = {name: trace_files.decoded(model.attrs[name]) for name in ("name", "model_type", "weights_sha256", "tokenizer_sha256")}
        self.model |= {name: int(model.attrs[name]) for name in ("num_layers", "num_qo_heads", "num_kv_heads", "head_dim")}
        if self.version == 1:
            self.layers = [int(layer) for layer in group["layers"][:]]
            rope = {"none": 0, "half": 1, "interleaved": 2}[trace_files.decoded(group.attrs["rope_convention"])]
            same = {name: self.model[name] for name in ("num_qo_heads", "num_kv_heads", "head_dim")} | {"v_head_dim": self.model["head_dim"]}
            same |= {"softmax_scale": float(group.attrs["softmax_scale"]), "soft_cap": float(group.attrs["soft_cap"]), "rope_convention": rope}
            columns = [same | {"window": int(window)} for window in group.attrs["window_per_layer"]]
            parts = [0] * len(self.layers)
        else:
            facts = self._file["layers"].attrs
            self.layers = [int(layer) for layer in facts["layer"]]
            columns = [{name: facts[name][slot].item() if name in facts else usual for name, usual in _USUAL.items()} for slot in range(len(self.layers))]
            parts = [int(part) for part in facts["part"]]
            self._read_sinks(facts, columns)
        untrusted.check_count(self.path, "recorded layers", len(self.layers), trace_layout.MAX_LAYERS)
        self._facts, self._groups, self._places, self._owners = {}, {}, {}, {}  # _owners: of the layers of several files
        for slot, layer in enumerate(self.layers):
            part = group if parts[slot] == 0 else group[f"part_{parts[slot]}"]
            heads = {name: tuple(int(head) for head in part[name][:]) for name in ("qo_heads", "kv_heads")}
            self._facts[layer] = trace_layout.LayerFacts(**columns[slot], **heads)
            untrusted.check_facts(self.path, layer, self._facts[layer])
            self._groups[layer], self._places[layer] = part, parts[:slot].count(parts[slot])

    def _read_sinks(self, facts, columns):
        begin = 0
        for slot, column in enumerate(columns):
            if "has_sinks" in facts and facts["has_sinks"][slot]:
                column["sinks"] = self._file["layers/sinks"][begin : begin + column["num_qo_heads"]]
                begin += column["num_qo_heads"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for one in [self, *self._others]:
            one._file.close()

    def _require_open(self):
        if not self._file:
            raise UsageError(f"{self.path}: the trace is closed; read it inside its with block, or open it again")

    def __repr__(self):
        state = "complete" if self.complete else "not complete"
        return f"<trace of {self.model['name'] or self.model['model_type']}: {len(self.layers)} layers, {self.num_tokens} tokens, {len(self.rows)} query rows, {state}>"

    def read(self, dataset, place, begin, end, kind):
        """Items begin to end of the growing axis, at `place` on those before it, in the file's own type, which is called `kind` here.

        A kill can hit the rewriting of the last chunk: what counts in it is there, but its checksum may be another version's. It is not looked at then.
        """
        self._require_open()
        untrusted.check_read(self.path, dataset, place, begin, end, kind)
        tail = dataset.shape[len(place) + 1 :]
        values = np.empty((max(0, end - begin), *tail), kind)
        if end <= begin:
            return values
        space = dataset.id.get_space()
        space.select_hyperslab((*place, begin, *(0 for _ in tail)), (1,) * len(place) + values.shape)
        try:
            dataset.id.read(h5s.create_simple(values.shape), space, values, mtype=dataset.id.get_type())
            return values
        except OSError as error:
            items = dataset.chunks[len(place)]
            first = (end - 1) // items * items
            if self.complete:
                raise BadInputError(f"{self.path}: {dataset.name}: {reason(error)}; the file is damaged: capture it again") from None
            _, raw = dataset.id.read_direct_chunk((*place, first, *(0 for _ in tail)))
            last = np.frombuffer(raw[:-CHECKSUM_BYTES], kind).reshape(items, *tail)
            whole = self.read(dataset, place, begin, first, kind) if begin < first else values[:0]
            return np.concatenate([whole, last[max(0, begin - first) : end - first]])

    def _read_column(self, dataset, count):
        return self.read(dataset, (), 0, count, dataset.dtype)

    @property
    def tokens(self):
        """Token ids, int32 [num_tokens]."""
        return self._read_column(self._file["tokens/ids"], self.num_tokens)

    @property
    def phases(self):
        """0 for a token of the prompt, 1 for a decoded one, int8 [num_tokens]."""
        return self._read_column(self._file["tokens/phase"], self.num_tokens)

    @property
    def steps(self):
        """The forward pass that made each token, int32 [num_tokens]."""
        return self._read_column(self._file["tokens/step"], self.num_tokens)

    @property
    def roles(self):
        """What each token stands for (docs/trace_format.md), int8 [num_tokens]; 0, text, where the trace does not say."""
        if "tokens/role" in self._file:
            return self._read_column(self._file["tokens/role"], self.num_tokens)
        return np.zeros(self.num_tokens, np.int8)

    @property
    def positions(self):
        """What RoPE turned each token by, int32 [num_tokens, 1 to 3]."""
        if "tokens/positions" in self._file:
            return self._read_column(self._file["tokens/positions"], self.num_tokens)
        return self.first_token + np.arange(self.num_tokens, dtype=np.int32)[:, None]

    @property
    def texts(self):
        """The bytes of each token; a token may be a part of a UTF-8 sequence."""
        offsets = self._read_column(self._file["tokens/text_offsets"], self.num_tokens + 1)
        if offsets[0] != 0 or (np.diff(offsets) < 0).any():
            untrusted.refuse(self.path, "/tokens/text_offsets", "do not rise from 0 on")
        raw = self._read_column(self._file["tokens/text"], int(offsets[-1])).tobytes()
        return [raw[begin:end] for begin, end in zip(offsets, offsets[1:])]

    def facts(self, layer):
        """What the trace says of a recorded layer (headscope.layout.LayerFacts)."""
        if layer not in self._facts:
            raise UsageError(f"{self.path}: layer {layer}: is not recorded; choose from {self.layers}")
        return self._facts[layer]

    def tensor(self, name, layer, head):
        """A head's part of any tensor of docs/trace_format.md, lazily; `head` is the model's number of it (a set's or 0 where it has none)."""
        self._require_open()
        facts = self.facts(layer)
        spec = trace_layout.TENSORS.get(name)
        if spec is None:
            raise UsageError(f"tensor {name!r}: is not known; choose from {', '.join(trace_layout.TENSORS)}")
        if (owner := self._owners.get(layer, self)) is not self:
            return owner.tensor(name, layer, head)
        source = layer
        group = self._groups[layer]
        if name in ("k", "v") and name not in group and facts.kv_layer in self._groups:
            source = facts.kv_layer
            group = self._groups[source]
        if name == "v" and facts.v_is_k:
            return _First(self.tensor("k", layer, head), facts.v_head_dim)
        if name not in group:
            raise UsageError(f"{self.path}: {name} of layer {layer}: is not recorded; record it, or choose another tensor")
        numbers = {"qo_head": facts.qo_heads, "kv_head": facts.kv_heads}.get(spec.head_axis, range(group[name].shape[1]))
        if head not in numbers:
            raise UsageError(f"{self.path}: {spec.head_axis} {head} of layer {layer}: is not recorded; choose from {list(numbers)}")
        place = (self._places[source], list(numbers).index(head))
        return Vectors(self, group[name], place, len(self.rows) if spec.of_rows else self.num_tokens, self.encoding if spec.kind == "encoding" else None)

    def q(self, layer, head):
        """Queries of a query head, [rows, head_dim]."""
        return self.tensor("q", layer, head)

    def k(self, layer, kv_head):
        """Keys of a KV head, [num_tokens, head_dim]."""
        return self.tensor("k", layer, kv_head)

    def v(self, layer, kv_head):
        """Values of a KV head, [num_tokens, v_head_dim]."""
        return self.tensor("v", layer, kv_head)

    def lse(self, layer, head):
        """Log-sum-exp of a query head's rows, natural logarithm, [rows]."""
        return self.tensor("lse", layer, head)

    def scores(self, layer, head, rows=slice(None), columns=slice(None), log=False):
        """Attention probabilities of a tile, float32 [rows, columns]: `rows` are numbers of recorded query rows, `columns` tokens, both slices.

        Where a row does not see a column it is 0; with `log` it is the score minus the row's log-sum-exp, and -inf there. Memory: the tile.
        """
        facts = self.facts(layer)
        rows, columns = _part(rows, len(self.rows), "rows"), _part(columns, self.num_tokens, "columns")
        q = self.q(layer, head)[rows.start : rows.stop : rows.step]
        k = self.k(layer, head // facts.group_size())[columns.start : columns.stop : columns.step]
        scores = facts.softmax_scale * (q @ k.T)
        if facts.soft_cap > 0:
            scores = facts.soft_cap * np.tanh(scores / facts.soft_cap)
        scores -= self.lse(layer, head)[rows.start : rows.stop : rows.step, None]
        if facts.bidirectional:
            return scores if log else np.exp(scores)
        at, keys = self.rows[rows.start : rows.stop : rows.step].astype(np.int64), np.arange(columns.start, columns.stop, columns.step)
        begin = np.maximum(0, facts.first_seen(at + self.first_token) - self.first_token)
        scores[(keys[None] > at[:, None]) | (keys[None] < begin[:, None])] = -np.inf
        return scores if log else np.exp(scores)

    @property
    def cross_layers(self):
        """Layers whose rows also attend to another sequence, as a decoder's to its encoder's."""
        return [int(layer) for layer in self._file["cross_attention/layers"][:]] if "cross_attention" in self._file else []

    def cross_tensor(self, name, layer, head):
        """q, k, v or lse of a head's attention to the other sequence, lazily; k and v have its positions, q and lse the rows of this one."""
        self._require_open()
        if name not in ("q", "k", "v", "lse"):
            raise UsageError(f"tensor {name!r}: is not recorded of attention to another sequence; choose from q, k, v, lse")
        if layer not in self.cross_layers:
            raise UsageError(f"{self.path}: layer {layer}: its attention to another sequence is not recorded; choose from {self.cross_layers}")
        group, spec = self._file["cross_attention"], trace_layout.TENSORS[name]
        heads = [int(one) for one in group["qo_heads" if spec.head_axis == "qo_head" else "kv_heads"][:]]
        if head not in heads:
            raise UsageError(f"{self.path}: {spec.head_axis} {head} of layer {layer}: is not recorded; choose from {heads}")
        length = len(self.rows) if spec.of_rows else int(group.attrs["source_tokens"])
        return Vectors(self, group[name], (self.cross_layers.index(layer), heads.index(head)), length, self.encoding if spec.width else None)

    def cross_scores(self, layer, head, rows=slice(None), columns=slice(None)):
        """Attention probabilities to the other sequence, float32 [rows, columns]; as scores."""
        slot = self.cross_layers.index(layer) if layer in self.cross_layers else 0
        attributes = self._file["cross_attention"].attrs if self.cross_layers else {}
        group = int(attributes["num_qo_heads"][slot]) // int(attributes["num_kv_heads"][slot]) if self.cross_layers else 1
        for part, what in ((rows, "rows"), (columns, "columns")):
            _part(part, 0, what)
        q, k, lse = (self.cross_tensor(name, layer, one) for name, one in (("q", head), ("k", head // group), ("lse", head)))
        return np.exp(float(attributes["softmax_scale"][slot]) * (q[rows] @ k[columns].T) - lse[rows][:, None])

    def analyze(self, heads="", **options):
        """The statistics of `headscope analyze`: a list with a dict for each head. `heads` as for --heads ("4:3,2:*"); options as `max_rows=64`."""
        return program.results("analyze", self.path, heads=heads, **options)["heads"]

    def compare(self, *methods, heads="", **options):
        """The results of `headscope compare`, a list with a dict for each head and method: `trace.compare("streaming-llm:n_local=64", "sparq", heads="3:*")`."""
        if not methods:
            raise UsageError("compare: no method is given; `headscope methods` lists them")
        return program.results("compare", self.path, method=list(methods), heads=heads, **options)["results"]


def _part(chosen, length, what):
    """The numbers of a slice, as a range."""
    if not isinstance(chosen, slice) or (chosen.step is not None and chosen.step < 1):
        one = f", such as slice({chosen}, {chosen + 1}) for one of them" if isinstance(chosen, int) else ", such as slice(0, 64)"
        raise UsageError(f"{what} {chosen!r}: must be a slice that rises; give it{one}")
    return range(length)[chosen]


class _First:
    """The first components of a head's vectors."""

    def __init__(self, vectors, width):
        self._vectors, self._width, self.shape = vectors, width, (len(vectors), width)

    def __len__(self):
        return len(self._vectors)

    def __getitem__(self, chosen):
        first, rest = (chosen[0], chosen[1:]) if isinstance(chosen, tuple) else (chosen, ())
        values = self._vectors[first][..., : self._width]
        return values[(slice(None), *rest)] if rest else values

    def __array__(self, dtype=None, copy=None):
        return self[:] if dtype is None else self[:].astype(dtype)

    def torch(self, begin=0, end=None):
        return self._vectors.torch(begin, end)[..., : self._width]
