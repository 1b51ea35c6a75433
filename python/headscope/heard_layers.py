# SPDX-License-Identifier: Apache-2.0
"""What the layers of a recorded pass hand over, written into the traces of its prompts.

Everything is compared with what the layers handed over before the first pass (look.py); what a trace cannot hold is refused by name.
"""
import dataclasses
import functools

import numpy as np
import torch

from headscope import facts as layer_facts
from headscope import layout, own_order, visibility
from headscope.errors import BadInputError, UsageError


@dataclasses.dataclass
class Pass:
    """One forward pass of the model: `fed` columns from column `past` on, of which those from `new` on are recorded for the first time."""

    past: int
    fed: int
    new: int
    seen: set  # recorded layers whose attention was called
    masks: dict  # what was said of the masks that came by
    columns: dict = dataclasses.field(default_factory=dict)  # of each sequence: those of its recorded rows and of its tokens, on a device

    @property
    def total(self):
        return self.past + self.fed


class HeardLayers:
    """Writes the layers of one pass at a time: what they hand over goes to the sequences' writers by the pump.

    `write_announcement(b, stream)` opens a sequence's trace and says which tokens come, before its first rows.
    """

    def __init__(self, model, look, pump, indexers, write_announcement):
        self._model, self._look, self._pump, self._indexers, self._write_announcement = model, look, pump, indexers, write_announcement
        self._pass, self._streams = None, []

    def begin_pass(self, now, streams):
        self._pass, self._streams = now, streams

    def end_pass(self):
        """Lets go of the pass, whose masks are large, and of its sequences."""
        self._pass, self._streams = None, []

    def record(self, slot, implementation, module, query, key, value, mask, options, kernels_lse, output):
        now, layer, facts = self._pass, self._look.layout.layers[slot], self._look.layout.facts[slot]
        call = layer_facts.Call.of(module, query, key, value, options)
        self._compare(self._look.by_layer[layer], call)
        query = own_order.without_factor(query, call.query_factor)
        now.seen.add(slot)
        if call.num_queries != now.fed or query.shape[0] != len(self._streams):
            raise UsageError(f"layer {layer}: it got {query.shape[0]} sequences of {call.num_queries} queries in a pass of {len(self._streams)} times {now.fed} tokens; record plain passes")
        offset = max(0, now.total - call.num_keys)
        chosen = self._indexers.chosen(layer if facts.selection_layer < 0 else facts.selection_layer)
        index = self._indexers.take_vectors(layer, facts, call.num_keys)
        for b, stream in enumerate(self._streams):
            if not stream.tokens:  # it has ended
                continue
            if not stream.announced:
                self._write_announcement(b, stream)
            keys = visibility.Keys(offset, call.num_keys, now.total, stream.pad, stream.pad + stream.tokens.stop)
            rows, columns = self._columns(b, stream, query.device)
            self._check_mask(implementation, layer, facts, mask, options, call, columns, keys, b, chosen is not None)
            # The kernel's sum has the keys that the model chose; a trace's has all.
            lse = None if kernels_lse is None or chosen is not None else self._picked(kernels_lse[b], facts, rows)
            q = self._picked(query[b].detach(), facts, rows)
            new = slice(stream.tokens.start + stream.pad - offset, stream.tokens.stop + stream.pad - offset)
            fed = slice(stream.tokens.start + stream.pad - now.past, stream.tokens.stop + stream.pad - now.past)
            pick = functools.partial(self._picked, facts=facts, rows=rows)
            self._put_points(stream, slot, facts, self._look.beside[slot].tensors(b, key[b].detach(), value[b].detach(), output, pick, new, fed))
            if index is not None:
                self._put_points(stream, slot, facts, index.tensors(b, rows - now.past, new))
            self._put(stream, slot, facts, q, key[b].detach(), value[b].detach(), new, rows, keys, b, chosen, lse)
        self._look.beside[slot].forget()

    def _columns(self, b, stream, device):
        """The columns of a sequence's recorded rows and of its tokens in this pass, int64."""
        columns = self._pass.columns
        if (b, device) not in columns:
            rows = _on_device(np.asarray(stream.rows, np.int64) + stream.pad, device)
            columns[b, device] = rows, torch.arange(stream.tokens.start, stream.tokens.stop, device=device) + stream.pad
        return columns[b, device]

    def _picked(self, values, facts, rows):
        """Recorded heads and rows of values [all query heads, fed tokens, ..]; the values themselves where these are all."""
        values = _heads(values, facts.qo_heads)
        return values if len(rows) == self._pass.fed else values[:, rows - self._pass.past]

    def _put_points(self, stream, slot, facts, tensors):
        call = self._look.by_layer[self._look.layout.layers[slot]]
        for name, values in tensors:
            spec = layout.TENSORS[name]
            if values.shape[1] == 0:
                continue
            first = stream.layer_rows.get(slot, 0) if spec.of_rows else stream.tokens.start
            values = own_order.stored(name, values, call, facts)
            self._pump.put(stream.writer.write, slot, name, first, values.to(self._look.dtype) if spec.kind == "encoding" else values)

    def _put(self, stream, slot, facts, q, key, value, new, rows, keys, b, chosen, lse):
        """One sequence's part of a layer: q [heads, rows, dim] of the recorded rows; key, value [all KV heads, columns, dim]."""
        first_token, first_row, writer = stream.tokens.start, self._first_row(stream, slot), stream.writer
        sinks = None if self._look.sinks[slot] is None else self._look.sinks[slot].detach().float().flatten()[list(facts.qo_heads)]
        latent = self._look.latents.get(self._look.layout.layers[slot])
        whole = facts if latent is None else latent.whole
        kv_heads = sorted({head // whole.group_size() for head in facts.qo_heads})
        picked = _heads(key, kv_heads)
        if lse is None:
            lse = visibility.log_sum_exp(q, picked, whole, facts.qo_heads, kv_heads, rows, keys)
        if sinks is not None:
            lse = torch.logaddexp(lse, sinks.to(lse)[:, None])
        if latent is not None:
            k = latent.keys(b, key, slice(new.start + keys.offset - self._pass.past, new.stop + keys.offset - self._pass.past), new)
            q, v = latent.queries(q, facts.qo_heads), None
        else:
            k, v = picked[:, new], _heads(value, kv_heads)[:, new]
        call = self._look.by_layer[self._look.layout.layers[slot]]
        q, k = own_order.stored("q", q, call, facts), own_order.stored("k", k, call, facts)
        for name, values in (("q", q), ("k", k), ("v", v), ("lse", lse)):
            if values is None or values.shape[1] == 0 or not layout.stores(self._look.layout, slot, name):
                continue
            first = first_row if layout.TENSORS[name].of_rows else first_token
            self._pump.put(writer.write, slot, name, first, values if name == "lse" else values.to(self._look.dtype))
        if facts.selection_sets and len(rows):
            self._pump.put(writer.write, slot, "selection", first_row, self._sets(chosen[b], rows, stream, facts)[None])
        num_tokens, num_rows = len(stream.tokens), len(stream.rows)
        self._pump.call(lambda: writer.advance(slot, num_tokens, num_rows))

    def record_cross(self, slot, module, query, key, value, mask, options):
        """A decoder's attention to the encoder's sequence, all of which every row sees; its keys come with the first pass."""
        facts, now = self._look.layout.cross_facts[slot], self._pass
        where = f"{layer_facts.name_of(self._model)}: layer {self._look.layout.cross_layers[slot]}: attention to the encoder"
        if key.shape[2] != self._look.layout.source_tokens:
            raise UsageError(f"{where}: it has {key.shape[2]} positions and was {self._look.layout.source_tokens}; record inputs of one length")
        query = own_order.without_factor(query, layer_facts.Call.of(module, query, key, value, options).query_factor)
        for b, stream in enumerate(self._streams):
            if not stream.tokens:  # it has ended
                continue
            if torch.is_tensor(mask):
                shown = mask[b if mask.shape[0] > 1 else 0]
                if not (shown if shown.dtype == torch.bool else shown == 0).all():
                    raise UsageError(f"{where}: attention_mask hides a part of it, which a trace cannot hold; give the encoder one input without padding")
            if not stream.announced:
                self._write_announcement(b, stream)
            rows, _ = self._columns(b, stream, query.device)
            q = self._picked(query[b].detach(), facts, rows)
            k, v = _heads(key[b].detach(), facts.kv_heads), _heads(value[b].detach(), facts.kv_heads)
            everything = visibility.Keys(0, key.shape[2], key.shape[2], 0, key.shape[2])
            lse = visibility.log_sum_exp(q, k, facts, facts.qo_heads, facts.kv_heads, rows, everything)
            first = self._first_row(stream, len(self._look.layout.layers) + slot)
            writer = stream.writer
            if now.new == 0:
                self._pump.put(writer.write_cross, slot, "k", 0, k.to(self._look.dtype))
                self._pump.put(writer.write_cross, slot, "v", 0, v.to(self._look.dtype))
            if len(rows):
                self._pump.put(writer.write_cross, slot, "q", first, q.to(self._look.dtype))
                self._pump.put(writer.write_cross, slot, "lse", first, lse)

    def _first_row(self, stream, slot):
        first = stream.layer_rows.get(slot, 0)
        stream.layer_rows[slot] = first + len(stream.rows)
        return first

    def _sets(self, chosen, rows, stream, facts):
        """What the model chose for each row, as tokens; rising, filled up with -1. int32 [rows, selection_ids]."""
        chosen = chosen[rows - self._pass.past].to(torch.int64)
        chosen = torch.where((chosen <= rows[:, None]) & (chosen >= stream.pad), chosen - stream.pad, layout.MAX_TOKENS).sort(-1).values
        result = torch.full((len(rows), facts.selection_ids), -1, dtype=torch.int32, device=chosen.device)
        width = min(chosen.shape[1], facts.selection_ids)
        result[:, :width] = torch.where(chosen < layout.MAX_TOKENS, chosen, -1)[:, :width].to(torch.int32)
        return result

    def _check_mask(self, implementation, layer, facts, mask, options, call, columns, keys, b, chosen_by_model):
        # A mask is one tensor for all layers of a kind.
        key = (b, facts.window, facts.chunk, keys.offset, keys.length, id(mask), implementation, options.get("sliding_window"), call.is_causal)
        if chosen_by_model or key not in self._pass.masks:
            problem = visibility.mask_problem(implementation, facts, mask, options, call.is_causal, columns, self._pass.past, keys, b, chosen_by_model)
            if problem:
                raise BadInputError(f"{layer_facts.name_of(self._model)}: layer {layer}: {problem}")
            self._pass.masks[key] = mask  # kept, so that its id stays its own

    def _compare(self, known, call):
        for name in ("num_qo_heads", "num_kv_heads", "head_dim", "v_head_dim", "dtype", "scaling", "soft_cap", "window", "refused"):
            if getattr(known, name) != getattr(call, name):
                raise BadInputError(f"{layer_facts.name_of(self._model)}: layer {call.layer}: {name} is {getattr(call, name)} and was {getattr(known, name)}; a trace holds layers that stay as they are")


def _on_device(numbers, device):
    """int64 numbers there; nobody waits for the GPU, which has the first layer before it and would then have nothing behind that."""
    if len(numbers) and numbers[-1] - numbers[0] == len(numbers) - 1:  # they rise
        return torch.arange(int(numbers[0]), int(numbers[-1]) + 1, device=device)
    numbers = torch.from_numpy(numbers)
    return numbers.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else numbers.to(device)


def _heads(values, numbers):
    """Those heads of values [heads, ..], a view where they follow each other: a list of numbers would have to go to a GPU first, behind all that it does."""
    numbers = list(numbers)
    follow = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return values[numbers[0] : numbers[0] + len(numbers)] if follow else values[numbers]
