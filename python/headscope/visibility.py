# SPDX-License-Identifier: Apache-2.0
"""What a row sees: whether the mask that a model used is the one that a trace can tell of, and the log-sum-exp over it.

Columns are places of the key axis that the model itself counts, padding included: the token t of a sequence with `pad` places of padding before it is
column t + pad. A key tensor begins at column `offset`, which is above 0 in a cache that forgot the oldest.
"""
import dataclasses

import torch

UNREADABLE = ("flex_attention",)  # implementations whose masks are programs
_BLOCK_SCORES = {"cpu": 1 << 22, "cuda": 1 << 26}  # scores at a time


@dataclasses.dataclass
class Keys:
    """The key axis of one attention call: columns offset to offset + length, of which those below `total` are there and pad to `end` are the sequence."""

    offset: int
    length: int
    total: int
    pad: int
    end: int


def _seen(facts, rows, keys, begin, end):
    """Whether rows (columns of the queries, int64 [n]) see the columns begin to end; bool [n, end - begin]."""
    columns = torch.arange(begin, end, device=rows.device)
    if facts.bidirectional:
        return ((columns >= keys.pad) & (columns < keys.end))[None].expand(len(rows), -1)
    first = torch.full_like(rows, keys.pad)
    if facts.window:
        first = torch.maximum(first, rows - facts.window + 1)
    if facts.chunk:
        first = torch.maximum(first, rows - (rows - keys.pad) % facts.chunk)
    return (columns[None] <= rows[:, None]) & (columns[None] >= first[:, None])


def _row_block(facts, device, heads, length):
    return max(1, _BLOCK_SCORES.get(device.type, 1 << 24) // max(1, heads * length))


def unreadable(implementation):
    """Why an attention implementation is refused."""
    return f"attention implementation {implementation}: its masks cannot be compared with a trace's; use sdpa, eager or flash attention (attn_implementation=)"


def mask_problem(implementation, facts, mask, options, is_causal, rows, first_row, keys, batch, chosen_by_model):
    """What a trace cannot tell of the mask of one sequence in a batch; empty when it can.

    mask: None, or [batch, heads, queries, length] boolean or added to scores, or [batch, length] padding; rows: int64 [n], rising; first_row: the column of
    the first query in the mask. `chosen_by_model`: the layer also hides what the model did not choose, so the mask may show less.
    """
    flash = "flash" in implementation
    if implementation in UNREADABLE or not (mask is None or torch.is_tensor(mask)):
        return unreadable(implementation)
    if mask is None or mask.ndim == 2:
        return _unmasked_problem(flash, implementation, facts, mask, options, is_causal, rows, keys, batch)
    if mask.ndim != 4:
        return f"attention_mask of {mask.ndim} dimensions: only [batch, heads, queries, keys] can be compared with a trace's; give another mask"
    mask = mask[batch if mask.shape[0] > 1 else 0]
    for begin in range(0, len(rows), block := _row_block(facts, mask.device, mask.shape[0], mask.shape[-1])):
        some = rows[begin : begin + block]
        shown = mask[:, some - first_row]
        if shown.dtype != torch.bool:
            low = torch.finfo(shown.dtype).min / 2
            if ((shown != 0) & (shown > low)).any():
                return "attention_mask: it adds a bias to scores, which a trace cannot hold; record a model without one"
            shown = shown > low
        wanted = _seen(facts, some, keys, keys.offset, keys.offset + shown.shape[-1])
        wrong = (shown & ~wanted).any() if chosen_by_model else (shown != wanted).any()
        if shown[..., keys.total - keys.offset :].any():
            return "its keys are more than its tokens, as where some are of several together, which a trace cannot hold; record a prompt too short for that"
        if wrong:
            return "attention_mask: a row sees other keys than all before it, a window or a chunk of them, which a trace cannot hold; record one sequence without a mask of its own"
    return ""


def _after_problem(facts, flash, implementation, is_causal, num_rows):
    """Without a mask, whether the function hides what comes after a row is as the layer says."""
    causal = num_rows > 1 and is_causal and (flash or implementation != "eager")
    if facts.bidirectional:
        return "is_causal: rows do not see what comes after them, as they did before" if causal else ""
    return "" if causal or num_rows == 1 else "attention_mask None: rows see what comes after them"


def _unmasked_problem(flash, implementation, facts, mask, options, is_causal, rows, keys, batch):
    if mask is not None:  # padding, as flash attention takes it
        visible = mask[batch, -keys.length :].bool()
        columns = torch.arange(keys.offset, keys.offset + len(visible), device=visible.device)
        wanted = columns >= keys.pad
        if facts.bidirectional:
            wanted &= columns < keys.end
        if (visible & (columns < keys.end) != wanted & (columns < keys.end)).any():
            return "attention_mask: it hides tokens in the middle of the sequence, which a trace cannot hold; pad on the left alone"
    elif keys.pad:
        return "padding: the mask shows it to every row; give the model an attention_mask"
    if problem := _after_problem(facts, flash, implementation, is_causal, len(rows)):
        return problem
    if flash:
        window = options.get("sliding_window") or 0
        if window != facts.window or (facts.chunk and not _same_as_all(facts, rows, keys)):
            return f"sliding_window {window}: the layer's other calls say {facts.window}; record a model whose layers do not change"
        return ""
    whole = keys.length == keys.total - keys.offset or len(rows) > 1
    return "" if whole and _same_as_all(facts, rows, keys) else "attention_mask None: rows see more than the layer's window or chunk"


def _same_as_all(facts, rows, keys):
    """Whether the last row sees everything in the key tensor that is not after it, and with it every row before."""
    if not (facts.window or facts.chunk or facts.bidirectional):
        return keys.offset >= keys.pad  # whatever the row is, which a GPU would have to be asked for
    last = rows[-1:]
    return bool(_seen(facts, last, keys, keys.offset, keys.offset + keys.length if facts.bidirectional else int(last) + 1).all())


def log_sum_exp(q, k, facts, heads, kv_heads, rows, keys):
    """Natural log-sum-exp of recorded rows over all keys that they see, a sink not among them; float32 [heads, n].

    q: [heads, n, dim] of the rows; k: [kv heads, length, dim] of the keys' columns. Products are summed in float32. Memory: a block of scores.
    """
    group = facts.group_size()
    result = torch.empty(len(heads), len(rows), dtype=torch.float32, device=q.device)
    of_kv = [[slot for slot, head in enumerate(heads) if head // group == kv_head] for kv_head in kv_heads]
    block = _row_block(facts, q.device, max(len(slots) for slots in of_kv), k.shape[1])
    for begin in range(0, len(rows), block):
        some = rows[begin : begin + block]
        # A window leaves most of a long key axis unseen.
        low, high = keys.offset, min(keys.end if facts.bidirectional else int(some[-1]) + 1, keys.offset + k.shape[1])
        if facts.window or facts.chunk:
            low = max(low, int(some[0]) - max(facts.window, facts.chunk) + 1)
        seen = _seen(facts, some, keys, low, high)
        for kv_slot, slots in enumerate(of_kv):
            scores = _products(q[slots, begin : begin + block], k[kv_slot, low - keys.offset : high - keys.offset]).mul_(facts.softmax_scale)
            if facts.soft_cap:
                scores = scores.div_(facts.soft_cap).tanh_().mul_(facts.soft_cap)
            result[slots, begin : begin + block] = torch.logsumexp(scores.masked_fill_(~seen, -torch.inf), -1)
    return result


def _products(q, k):
    """float32 [heads, rows, keys]."""
    if q.is_cuda and q.dtype != torch.float32:  # exact products of 16 bits, summed in 32, where there are units for it
        return torch.bmm(q.contiguous(), k.T.expand(len(q), -1, -1), out_dtype=torch.float32)
    return q.float() @ k.float().T
