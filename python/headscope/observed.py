# SPDX-License-Identifier: Apache-2.0
"""What a layer's modules do around its attention, seen in one pass: whether its output is gated before it is projected, which of q's components are turned by
position, and whether its norm follows that.

Families' names would tell it only of those that somebody has looked at.
"""
import torch

_OUTPUT_PROJECTIONS = ("o_proj", "out_proj", "dense", "c_proj", "wo", "Wo")
_QUERY_PROJECTIONS = ("q_proj", "q_b_proj", "query", "wq")
QUERY_NORMS = ("q_norm", "q_layernorm", "query_layernorm", "qk_norm", "q_b_norm")
_NO_GATE, _EACH_HEAD, _EACH_COMPONENT = 0, 1, 2


class Observer:
    """Listens to the modules of a model while it runs its first tokens."""

    def __init__(self, model):
        self._projected, self._normed, self._to_norm, self._queries, self._handles = {}, {}, {}, {}, []
        for module in model.modules():
            for name, child in module.named_children():
                if name in _OUTPUT_PROJECTIONS:
                    self._handles.append(child.register_forward_pre_hook(torch.compiler.disable(lambda _, given, key=id(module): self._on_projection(key, given))))
                elif name in QUERY_NORMS:
                    self._handles.append(child.register_forward_hook(torch.compiler.disable(lambda _, given, made, key=id(module): self._on_norm(key, given, made))))
                elif name in _QUERY_PROJECTIONS:
                    self._handles.append(child.register_forward_hook(torch.compiler.disable(lambda _, given, made, key=id(module): self._on_query(key, made))))

    def _on_projection(self, key, given):
        if given and torch.is_tensor(given[0]):
            self._projected[key] = given[0].detach()

    def _on_norm(self, key, given, made):
        if torch.is_tensor(made) and key not in self._normed:  # the first is q's where one module norms q and k
            self._normed[key] = made.detach().clone()  # what comes behind may turn it in its place
            if given and torch.is_tensor(given[0]):
                self._to_norm[key] = given[0].detach().clone()

    def _on_query(self, key, made):
        if torch.is_tensor(made):
            self._queries[key] = made.detach().clone()

    def stop(self):
        for handle in self._handles:
            handle.remove()

    def output_gate(self, module, output):
        """0 none, 1 a factor for each head, 2 for each component; None: the output's projection was not found, or gets something else.

        output: of the attention, [batch, rows, heads, v_head_dim].
        """
        given = self._projected.get(id(module))
        if given is None or output is None or given.numel() != output.numel():
            return None
        one = output.detach().double().cpu()
        other = given.reshape(output.shape).double().cpu()
        if torch.equal(one, other):
            return _NO_GATE
        told = one.abs() > 1e-3 * one.abs().max()
        if not told.any() or not other.isfinite().all():
            return None
        exact = 1e-4 if output.dtype == torch.float32 else 3e-2
        factor = torch.where(told, other / torch.where(told, one, 1), torch.nan)
        heads = factor.nanmean(-1, keepdim=True)
        # A norm over all heads divides a row by one number and multiplies each component by one that is the same in all rows: no gate.
        if factor.shape[1] > 1 and _constant(factor[0, 1] / factor[0, 0], exact):
            return _NO_GATE
        return _EACH_HEAD if _constant(factor / heads, exact) else _EACH_COMPONENT

    def turned(self, module, query):
        """Which of q's components are turned by position, as far as it shows, bool [head_dim]; None where it does not show whether any is.

        query: [batch, heads, rows, head_dim], whose first row's turn is none. A turn by the least frequencies is lost in rounding.
        """
        made, normed = self._queries.get(id(module)), self._normed.get(id(module))
        if normed is None:
            return _turn_between(made, query)
        found = _turn_between(normed, query)
        if found is not None and not found.any():  # unless the norm gets what is turned
            given = self._to_norm.get(id(module))
            found = next((_turn_between(made, one) for one in _as_queries(given, query)), None)
        return found

    def norm_follows_turn(self, module, query):
        """Whether the norm's output is what attention gets; None where there is no such norm, or it was not called.

        query: of a layer that turns; as turned.
        """
        forms = _as_queries(self._normed.get(id(module)), query)
        return any(torch.equal(form[:, :, 1:], query[:, :, 1:]) for form in forms) if forms else None


def _as_queries(values, query):
    """What may be meant by values as [batch, heads, rows, head_dim], in the type of `query`: with as many rows as heads it does not show which axis is which."""
    if values is None or values.numel() != query.numel():
        return []
    by_rows = query.transpose(1, 2).shape
    forms = [values.reshape(by_rows).transpose(1, 2)] if values.ndim < 4 or values.shape == by_rows else []
    if values.shape == query.shape:
        forms.append(values)
    return [form.to(query.device, query.dtype) for form in forms] or [values.reshape(by_rows).transpose(1, 2).to(query.device, query.dtype)]


def _turn_between(before, after):
    """Components of `after` [batch, heads, rows, head_dim] that are turned against `before` in any row but the first; None where that one differs, too.

    A factor for each row, as some layers have in place of a turn, is none.
    """
    for form in _as_queries(before, after):
        if _proportional(form, after):
            return torch.zeros(after.shape[-1], dtype=torch.bool)
        if torch.equal(form[:, :, :1], after[:, :, :1]):
            return (form != after)[:, :, 1:].flatten(0, 2).any(0).cpu()
    return None


def _proportional(one, other):
    """Whether each vector of `other` is the one of `one` times a number."""
    exact = 1e-5 if other.dtype == torch.float32 else 1e-2
    one, other = one.double(), other.double()
    factor = (one * other).sum(-1, keepdim=True) / (one * one).sum(-1, keepdim=True).clamp_min(1e-300)
    return bool(((other - factor * one).abs().amax(-1) <= exact * other.abs().amax(-1)).all())


def _constant(ratio, exact):
    """Whether all numbers are the same one, those that are not known left out."""
    known = ratio[ratio.isfinite()]
    return known.numel() > 0 and bool((known - known.median()).abs().max() <= exact * known.median().abs())
