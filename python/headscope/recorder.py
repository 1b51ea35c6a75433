# SPDX-License-Identifier: Apache-2.0
"""Records the attention heads of a running model of transformers.

    with headscope.record(model, "out.h5", layers=[0, 5], heads="0-3", rows="last:64"):
        model(input_ids)                       # or in chunks with a cache, or model.generate(input_ids)

What is recorded is what the model's own attention got (interception.py), so the model computes what it would compute alone. Before the first forward pass
one of two tokens, without a cache, tells every layer's shapes (look.py); everything the layers hand over later is compared with it, and what a trace
cannot hold is refused by name.
"""
import contextlib
import dataclasses
import functools
import inspect
import itertools
import os

import numpy as np
import torch

from headscope import arguments as given_as
from headscope import interception, model_files, trace_files
from headscope.errors import HeadscopeError, UsageError
from headscope.files_writer import new_writer
from headscope.generation import Generation
from headscope.heard_layers import HeardLayers, Pass
from headscope.index_vectors import Indexers
from headscope.late_writer import LateWriter
from headscope.look import Look
from headscope.points import points_of
from headscope.prompts import Prompts, Stream, Waiting
from headscope.pump import Pump
from headscope.selection import Rows, numbers
from headscope.target import Target
from headscope.token_text import TokenText

_numbers = itertools.count()
_EMBEDDED = "inputs_embeds, without token ids"  # the source of a prompt whose ids, all 0, say nothing


def record(
    model, path, *, layers=None, heads=None, kv_heads=None, rows="all", points=None, tokenizer=None, prompt_tokens=None, max_tokens=None, latent=False, prompt_source="", task_answer="",
    overwrite=False, files=1,
):
    """A context in which the forward passes of `model` are recorded into the trace `path`.

    layers, heads: numbers of the model, a sequence or a text such as "0-3,7"; None: all. heads are query heads, of every layer.
    kv_heads: in place of heads: KV heads, with all query heads of each.
    rows: query rows of the prompt to record: all, last:N, every:N, random:N, random:N:SEED, or ranges A:B,C:D of rows A to B-1. Those of decoded tokens are all
        recorded.
    points: what else to record, a sequence or a text such as "pre-rope,cache": pre-rope, value-norms, hidden-norms, projection, cache, residual, head-outputs,
        value-norms-l1.
    tokenizer: gives the trace the tokens' texts.
    prompt_tokens: length of the prompt; needed only where it comes in several passes, not by generate(), and rows is last:N or random:N.
    max_tokens: how many tokens the prompt and what is decoded will have at most; it also sizes the file's chunks.
    latent: MLA alone: record the compressed keys (one KV head of kv_lora_rank + qk_rope_head_dim, whose first part is v) and the queries that meet them.
    overwrite: replace an existing trace, when the new one is complete.
    files: how many files hold the trace, each some of its layers: out-00001-of-00004.h5 and so on, any one of which opens the whole.

    Several prompts, one after the other or in a batch padded on one side, make a trace each: `path` then has "{prompt}" in it, for their numbers from 0 on.
    The trace is complete when the context ends; where it ends by an exception it is left as it stands and says that it is not complete.

    Raises UsageError, BadInputError, FailedError: one sentence that names what is wrong and the remedy.
    """
    return Recording(model, path, layers, heads, rows, points, tokenizer, prompt_tokens, max_tokens, latent, prompt_source, task_answer, overwrite, files, kv_heads)


class Recording:
    """See record. `paths`: the traces that are complete; `left`: what became of the others, a sentence's part each."""

    def __init__(self, model, path, layers, heads, rows, points, tokenizer, prompt_tokens, max_tokens, latent, prompt_source, task_answer, overwrite, files=1, kv_heads=None):
        self._model, self._path, self._overwrite, self._files = model, given_as.path(path), overwrite, files
        trace_files.check_count(files)
        layers, heads, kv_heads, self._rows = numbers(layers, "layers"), numbers(heads, "heads"), numbers(kv_heads, "kv_heads"), Rows(rows)
        if heads is not None and kv_heads is not None:
            raise UsageError("heads, kv_heads: each says which heads are recorded; give one of them")
        self._text = TokenText(given_as.tokenizer(tokenizer))
        self._prompt_tokens, self._max_tokens = given_as.count(prompt_tokens, "prompt_tokens"), given_as.count(max_tokens, "max_tokens")
        points = points_of(points)
        if latent and points:
            raise UsageError(f"latent: it is recorded without other capture points; leave out {', '.join(points)}")
        self._look = Look(
            model, layers=layers, heads=heads, kv_heads=kv_heads, rows=self._rows, points=points, max_tokens=self._max_tokens, latent=latent,
            prompt_source=given_as.text(prompt_source, "prompt_source"), task_answer=given_as.text(task_answer, "task_answer"),
        )  # fmt: skip
        self.left, self._done = [], {}  # a complete trace by its prompt's number
        self._number = next(_numbers)
        self._prompts, self._waiting, self._num_prompts = Prompts(0, []), Waiting(self._number, files), 0
        self._in_turn = False  # some went on after others had begun
        self._pass = None
        self._handles, self._listens, self._indexers, self._heard = [], False, None, None
        self._pump = self._watched = None
        self._positions = None
        self._failed = None
        self._generation = None  # the innermost call of generate() that runs
        self._process = None  # that records; None: not entered yet

    @property
    def paths(self):
        return [self._done[number] for number in sorted(self._done)]

    @property
    def _streams(self):
        return self._prompts.streams

    def __enter__(self):
        if self._process is not None:
            raise UsageError(f"{self._path}: this recording was entered already; make one with headscope.record for each with block")
        given_as.require_model(self._model)
        self._first_target = None if "{prompt}" in self._path else Target(self._path, self._overwrite, self._files)  # refused before anything is computed
        self._process = os.getpid()
        try:
            self._begin()
        except BaseException:
            self._take_back()
            if self._pump is not None:
                self._pump.stop()
            if self._first_target is not None:
                self._first_target.release()
            raise
        return self

    def _begin(self):
        with contextlib.suppress(OSError):  # said where they are needed
            model_files.begin_hashes(self._model)
        self._pump = Pump(any(parameter.is_cuda for parameter in self._model.parameters()))
        self._watch_generation()
        interception.add(self._on_attention)
        self._listens = True
        self._handles.append(self._model.register_forward_pre_hook(self._begin_pass, with_kwargs=True))
        self._handles.append(self._model.register_forward_hook(self._end_pass))
        for module in self._model.modules():
            kind = type(module).__name__
            if "RotaryEmbedding" in kind and "Vision" not in kind:
                self._handles.append(module.register_forward_pre_hook(self._on_rotary, with_kwargs=True))
        self._indexers = Indexers(self._model, self._look)
        self._heard = HeardLayers(self._model, self._look, self._pump, self._indexers, self._write_announcement)
        self._look.ahead()

    def _take_back(self):
        """The model and transformers are as they were."""
        if self._listens:
            interception.remove(self._on_attention)
            self._listens = False
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._indexers is not None:
            self._indexers.take_back()
        self._look.take_back()
        self._unwatch_generation()

    def __exit__(self, kind, error, _):
        self._take_back()
        if os.getpid() != self._process:  # a fork, which has the file's descriptors but no thread that writes
            return False
        try:
            if self._failed is not None and error is None:  # somebody caught it on its way here
                raise self._failed
            if error is None:
                self._finish_all()
                if not self.paths:
                    raise UsageError(f"{self._path}: the model was not called, so there is no trace; call it inside the with block")
            elif self._failed not in (None, error):
                error.add_note(f"headscope: {self._failed}")
        except BaseException as own:
            self._leave_streams(own)
            raise
        finally:
            try:
                self._leave_streams(error)
            finally:
                self._pump.stop()
        return False

    def _watch_generation(self):
        """While the context is there, the model's generate says that it runs."""
        generate = getattr(self._model, "generate", None)
        self._generate_before, self._watched = vars(self._model).get("generate"), None
        if generate is None:
            return

        @functools.wraps(generate)
        def watched(*arguments, **options):
            before, self._generation = self._generation, Generation.of(self._model, arguments, options)
            try:
                return generate(*arguments, **options)
            finally:
                self._generation = before

        self._model.generate = self._watched = watched

    def _unwatch_generation(self):
        if self._watched is None or vars(self._model).get("generate") is not self._watched:  # another recording has wrapped it since
            return
        del self._model.generate
        if self._generate_before is not None:
            self._model.generate = self._generate_before

    # --- prompts and their files

    def _check_paths(self, count):
        several = "{prompt}" in self._path
        if not several and self._num_prompts + count > 1:
            raise UsageError(f"{self._path}: a second prompt begins, and a trace holds one; put {{prompt}} into the name, such as out-{{prompt}}.h5")

    def _new_prompts(self, count):
        before, self._prompts = self._prompts, Prompts(self._num_prompts + count, [])
        self._set_aside(before)
        self._check_paths(count)
        for number in range(self._num_prompts, self._num_prompts + count):
            target, self._first_target = self._first_target, None
            self._streams.append(Stream(target or Target(self._path.replace("{prompt}", str(number)), self._overwrite, self._files), number))
        self._num_prompts += count

    def _set_aside(self, prompts):
        """These wait if they may go on; whatever may not is finished."""
        if self._pass is not None or "{prompt}" not in self._path:  # a pass that failed is the last of its prompts
            prompts.let_go()
        self._waiting.all.append(prompts)
        self._finish_waiting(self._waiting.ended())

    def _finish_waiting(self, several):
        for prompts in several:
            self._finish(prompts)
            self._waiting.all.remove(prompts)

    def _finish_all(self):
        self._finish_waiting(list(self._waiting.all))
        self._finish(self._prompts)

    def _finish(self, prompts):
        while prompts.streams:
            stream = prompts.streams[0]
            if stream.writer is not None:
                self._pump.call(stream.writer.finish)
                self._pump.drain()
                stream.target.complete()
                self._done[stream.number] = trace_files.file_path(stream.target.path, 1, self._files)
            else:
                stream.target.leave(0, created=False)
            prompts.streams.pop(0)

    def _leave_streams(self, error=None):
        """What a killed capture would leave: whole tokens that say that the trace is not complete, or no file."""
        if self._first_target is not None:
            self._first_target.release()
        left, interrupted = [], None
        if not self._in_turn:  # what others have followed is whole
            try:
                with contextlib.suppress(Exception):
                    self._finish_waiting(list(self._waiting.all))
            except KeyboardInterrupt as error:
                interrupted = error
        for stream in [stream for prompts in (*self._waiting.all, self._prompts) for stream in prompts.streams]:
            flushed = 0
            made = None
            if stream.writer is not None:
                with contextlib.suppress(Exception):
                    self._pump.flush(stream.writer, now=True)
                try:
                    with contextlib.suppress(Exception):
                        self._pump.drain()
                except KeyboardInterrupt as error:
                    interrupted = error
                made = stream.writer.give_up()
            if made is not None:
                flushed = made.tokens_flushed
                with contextlib.suppress(HeadscopeError, OSError, RuntimeError):  # what failed first is told, and the others' files are left as well
                    made.close()
            left.append(stream.target.leave(flushed, created=made is not None))
        self._prompts, self._waiting.all = Prompts(0, []), []
        if self._heard is not None:
            self._heard.end_pass()
        self.left += left
        if left and isinstance(error, HeadscopeError) and error.args:
            error.args = (f"{error.args[0]}; {', '.join(left)}", *error.args[1:])
        elif left and error is not None:
            error.add_note(f"headscope: {', '.join(left)}")
        if interrupted is not None:
            raise interrupted

    # --- passes

    @torch.compiler.disable
    def _begin_pass(self, model, arguments, options):
        if self._look.runs() or self._look.of_another_runs():
            return
        if os.getpid() != self._process:
            raise UsageError(f"{self._path}: process {self._process} records this model, and this one was forked from it; call the model there, or load it anew")
        if self._failed is not None:
            raise self._failed
        try:
            if self._pass is not None and len(self._pass.seen) < len(self._look.layout.layers) and _cached(options.get("past_key_values")):
                raise UsageError("past_key_values: the pass before failed between two layers, so some of them lack its tokens; begin the prompt anew")
            given = inspect.signature(model.forward).bind_partial(*arguments, **options).arguments
            given = {**{name: value for name, value in given.items() if name != "kwargs"}, **given.get("kwargs", {})}
            self._start(given)
        except BaseException as error:
            self._failed = error
            raise
        return self._with_every_row(arguments, options)

    def _with_every_row(self, arguments, options):
        """The call, or None where it stays as it is. Of the layers that share an earlier one's keys, Gemma 4 runs as many last tokens as logits are asked for by
        their number, as generate() does; told by their places, it runs all. Places in the CPU's memory index a tensor of any device: where the states lie that they
        index, no parameter tells, which may be offloaded or on another GPU."""
        kept, fed = options.get("logits_to_keep"), self._pass.fed
        if type(kept) is not int or not 0 < kept < fed or all(facts.kv_layer < 0 for facts in self._look.layout.facts):
            return None
        return arguments, {**options, "logits_to_keep": torch.arange(fed - kept, fed, device="cpu")}

    def _start(self, given):
        ids, shape = self._ids_of(given)
        batch, fed = shape
        past = _cached(given.get("past_key_values"))
        if interception.mixed(given.get("past_key_values")):
            raise UsageError("past_key_values: its sequences were put in another order, as beams are; generate without beams")
        if past:
            self._take_up(given["past_key_values"])
        recorded = self._prompts.columns
        again = past == 0 and recorded and given.get("use_cache") is False and not self._look.bidirectional and self._continues_without_cache(ids, batch, fed)
        if past == 0 and not again:
            self._new_prompts(batch)
            self._begin_prompts(given, ids, batch, fed)
            recorded = 0
        elif not again and (past != recorded or batch != len(self._streams)):
            raise UsageError(
                f"past_key_values: the cache holds {past} tokens of {batch} sequences where {recorded} of {len(self._streams)} are recorded; "
                "record from the first token on, without cutting the cache and without beams"
            )
        elif past and interception.marked_as(given["past_key_values"], self._number) != self._prompts.number:
            raise UsageError("past_key_values: the cache is of another prompt than those that are recorded; finish a prompt before the next begins, or record each by itself")
        self._mark(given.get("past_key_values"))
        self._pass = Pass(past, fed, recorded, set(), {})
        self._heard.begin_pass(self._pass, self._streams)
        self._prompts.go_on(self._generation, past + fed)
        self._positions = None
        self._indexers.begin_pass()
        self._look.forget_where_changed()
        if self._look.layout is None:
            self._look.at(given)
        self._announce(ids)

    def _take_up(self, cache):
        """Prompts that wait go on by their own cache."""
        found = self._waiting.take(cache)
        if found is not None:
            before, self._prompts, self._in_turn = self._prompts, found, True
            self._set_aside(before)

    def _mark(self, cache):
        """The prompts whose tokens a cache holds are those that are recorded."""
        if cache is not None:
            self._prompts.mark(cache, self._number)

    def _ids_of(self, given):
        """Token ids int64 [batch, fed] or None, and that shape."""
        name = "decoder_input_ids" if self._model.config.is_encoder_decoder else "input_ids"
        ids = given.get(name)
        if ids is not None:
            given_as.require_ids(ids, name)
            return ids.detach().cpu().numpy().astype(np.int64), tuple(ids.shape)
        embedded = given.get("inputs_embeds")
        if embedded is None or self._model.config.is_encoder_decoder:
            raise UsageError(f"{name}: the model is called without them, and a trace holds tokens; give {name}")
        return None, tuple(embedded.shape[:2])

    def _continues_without_cache(self, ids, batch, fed):
        """Whether the whole sequence is fed again with more tokens, as generation does when it is told not to use a cache.

        Where the path has room for several prompts, a longer one that begins alike may as well be the next: then it is generate() that decides.
        """
        if ids is None or batch != len(self._streams) or ("{prompt}" in self._path and self._generation is None):
            return False
        return fed > self._prompts.columns and all(np.array_equal(ids[b, stream.pad : stream.pad + len(stream.ids)], stream.ids) for b, stream in enumerate(self._streams))

    def _begin_prompts(self, given, ids, batch, fed):
        generation = None if self._model.config.is_encoder_decoder else self._generation
        mask = given.get("decoder_attention_mask" if self._model.config.is_encoder_decoder else "attention_mask")
        if generation is not None and mask is not None and not (torch.is_tensor(mask) and mask.ndim == 2):  # a static cache's, made of that of the prompts
            mask = _seen_columns(mask, fed) if generation.mask is None else generation.mask[:, :fed]  # which generate() may have inferred itself, from pad_token_id
        for b, stream in enumerate(self._streams):
            if torch.is_tensor(mask) and mask.ndim == 2:
                shown = np.flatnonzero(mask[b * len(mask) // batch].detach().cpu().numpy())
                if len(shown) == 0 or shown[-1] - shown[0] + 1 != len(shown):
                    raise UsageError("attention_mask: it hides tokens in the middle of a sequence; pad on one side alone")
                stream.pad, stream.right = int(shown[0]), fed - 1 - int(shown[-1])
            width = fed
            if generation is not None and generation.ids is not None and generation.ids.shape[1] >= fed:
                stream.generation, width = generation, generation.ids.shape[1]
            stream.prompt_tokens = self._prompt_tokens or width - stream.pad - stream.right

    def _announce(self, ids):
        """The pass's tokens and rows, for every sequence."""
        now = self._pass
        for b, stream in enumerate(self._streams):
            first = len(stream.ids)
            right = stream.right if now.new == 0 else 0
            if now.new and stream.right:
                raise UsageError("attention_mask: a sequence that is padded on the right goes on; pad on the left")
            count = now.total - now.new - (stream.pad if now.new == 0 else 0) - right
            fed_ids = np.zeros(count, np.int64) if ids is None else ids[b, now.new - now.past + (stream.pad if now.new == 0 else 0) :][:count]
            if ids is not None:
                fed_ids = fed_ids[: self._prompts.until_end(stream, fed_ids)]
                count = len(fed_ids)
            stream.tokens = range(first, first + count)
            known = self._prompt_tokens is not None or (stream.generation is not None and stream.generation is self._generation)
            if self._rows.needs_prompt_length() and not known and now.new and count > 1:
                raise UsageError(f"rows {self._rows.text}: the prompt comes in several passes, so its end is not known; give prompt_tokens")
            phase = np.arange(first, first + count) >= stream.prompt_tokens if known else np.full(count, now.new > 0 and count == 1)
            if not known and now.new and count > 1:
                stream.prompt_tokens = first + count  # the prompt goes on
            stream.rows = self._rows.keep(first, first + count, stream.prompt_tokens)
            stream.announced = False
            stream.announcement = (fed_ids, phase.astype(np.int8), stream.step, ids is None)
            stream.step += 1
            stream.ids = np.concatenate([stream.ids, fed_ids])

    def _open(self, stream, count, embedded):
        tokens = self._max_tokens or max(self._prompt_tokens or 0, count)
        rows = self._rows.expected(stream.prompt_tokens, max(0, tokens - stream.prompt_tokens)) if self._rows.kind != "all" else tokens
        path, files, described = stream.target.writing_path, self._files, self._look.layout
        if stream.shift:
            described = dataclasses.replace(described, position_axes=1)
        if embedded:
            described = dataclasses.replace(described, prompt_source=described.prompt_source or _EMBEDDED)
        stream.writer = LateWriter(
            functools.partial(model_files.hashes, self._model), lambda hashes: new_writer(path, dataclasses.replace(described, **hashes), files, tokens, rows)
        )
        self._pump.call(stream.writer.open)

    def _write_announcement(self, b, stream):
        """Once a pass, at its first recorded attention, when the positions are known."""
        stream.announced = True
        ids, phase, step, embedded = stream.announcement
        positions = self._positions_of(b, stream)
        if stream.writer is None:
            self._open(stream, len(ids), embedded)
        writer, rows = stream.writer, stream.rows
        self._pump.call(lambda: writer.append_tokens(ids, phase, step, self._texts_of(ids, embedded), positions, self._roles_of(ids)))
        self._pump.call(lambda: writer.append_rows(rows))

    # On the pump's thread: for thousands of tokens they take milliseconds, and on the model's thread the GPU would wait for the pass to begin.
    def _texts_of(self, ids, embedded):
        return [b""] * len(ids) if embedded else [self._text[token] for token in ids.tolist()]

    def _roles_of(self, ids):
        return None if self._look.roles is None else np.array([self._look.roles.get(token, 0) for token in ids.tolist()], np.int8)

    def _positions_of(self, b, stream):
        if self._positions is None:
            return None
        now, positions = self._pass, self._positions
        columns = np.arange(stream.tokens.start, stream.tokens.stop) + stream.pad - now.past
        if positions.ndim == 3:
            return positions[-3:, b if positions.shape[1] > 1 else 0][:, columns].T
        found = positions[b if positions.shape[0] > 1 else 0][columns]
        if now.new == 0 and len(found):
            stream.shift = int(found[0])  # padding that the model counts, or a family that begins at another number
        if not np.array_equal(found, np.arange(stream.tokens.start, stream.tokens.stop) + stream.shift):
            raise UsageError("position_ids: they do not count the tokens one by one; leave them to the model, or give (attention_mask.cumsum(1) - 1).clamp(0) where it has padding")
        return found[:, None] if stream.shift else None

    @torch.compiler.disable
    def _end_pass(self, model, arguments, output):
        if self._look.runs() or self._pass is None or self._look.of_another_runs():
            return
        now, self._pass = self._pass, None
        self._heard.end_pass()
        if self._failed is not None:  # in a layer, and the model went on
            raise self._failed
        values = output.values() if isinstance(output, dict) else output if isinstance(output, tuple) else ()
        self._mark(next((one for one in values if hasattr(one, "get_seq_length")), None))  # which the model may have made
        missing = set(range(len(self._look.layout.layers))) - now.seen
        if missing:
            self._failed = UsageError(f"layer {self._look.layout.layers[min(missing)]}: its attention was not called in this pass; is the model compiled, or a layer skipped? record it as it is")
            raise self._failed
        try:
            for stream in self._streams:
                self._pump.flush(stream.writer)
        except BaseException as error:
            self._failed = error
            raise

    # --- what is heard

    @torch.compiler.disable
    def _on_rotary(self, module, arguments, options):
        positions = options.get("position_ids", arguments[1] if len(arguments) > 1 else None)
        if not torch.is_tensor(positions) or self._look.of_another_runs():
            return
        if self._look.runs():
            self._look.hear_rotary(module, positions)
        elif self._pass is not None and self._positions is None and positions.shape[-1] == self._pass.fed:  # else of keys that a layer makes of several tokens
            self._positions = positions.detach().cpu().numpy()

    def _on_attention(self, implementation, module, query, key, value, mask, options, kernels_lse, output):
        if self._look.runs():
            self._look.hear_attention(module, query, key, value, options, output)
            return
        if self._look.of_another_runs():
            return
        slot, cross_slot = self._look.slots.get(id(module)), self._look.cross_slots.get(id(module))
        if slot is None and cross_slot is None:
            return
        try:
            if self._pass is None:
                raise UsageError("a part of the model is called by itself; call the model that is recorded")
            if cross_slot is not None:
                self._heard.record_cross(cross_slot, module, query, key, value, mask, options)
                return
            self._heard.record(slot, implementation, module, query, key, value, mask, options, kernels_lse, output)
        except BaseException as error:
            self._failed = error
            raise


def _seen_columns(mask, fed):
    """Columns that any row sees, bool [sequences, fed], of a mask of rows and columns, or one for each kind of layer; None of another form.

    A token sees itself at least, and padding is seen by nobody.
    """
    seen = None
    for one in mask.values() if isinstance(mask, dict) else (mask,):
        if not torch.is_tensor(one) or one.ndim != 4:
            return None
        shown = (one if one.dtype == torch.bool else one == 0)[..., :fed].any(dim=2).any(dim=1)
        seen = shown if seen is None else seen | shown
    return seen


def _cached(cache):
    """Tokens in a cache, padding included."""
    if cache is None:
        return 0
    return int(cache.get_seq_length())
