# SPDX-License-Identifier: Apache-2.0
"""What a layer's modules do around its attention, seen in one pass: whether its output is gated before it is projected, and whether q's norm follows the turn by position.

Families' names would tell it only of those that somebody has looked at.
"""
import torch

_OUTPUT_PROJECTIONS = ("o_proj", "out_proj", "dense", "c_proj", "wo", "Wo")
_QUERY_NORMS = ("q_norm", "q_layernorm", "query_layernorm", "qk_norm")
_NO_GATE, _EACH_HEAD, _EACH_COMPONENT = 0, 1, 2


class Observer:
    """Listens to the modules of a model while it runs its first tokens."""

    def __init__(self, model):
        self._projected, self._normed, self._handles = {}, {}, []
        for module in model.modules():
            for name, child in module.named_children():
                if name in _OUTPUT_PROJECTIONS:
                    self._handles.append(child.register_forward_pre_hook(torch.compiler.disable(lambda _, given, key=id(module): self._on_projection(key, given))))
                elif name in _QUERY_NORMS:
                    self._handles.append(child.register_forward_hook(torch.compiler.disable(lambda _, given, made, key=id(module): self._on_norm(key, made))))

    def _on_projection(self, key, given):
        if given and torch.is_tensor(given[0]):
            self._projected[key] = given[0].detach()

    def _on_norm(self, key, made):
        if torch.is_tensor(made):
            self._normed.setdefault(key, made.detach())  # the first is q's where one module norms q and k

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

    def norm_follows_turn(self, module, query):
        """Whether the norm's output is what attention gets; None where there is no such norm, or it was not called.

        query: [batch, heads, rows, head_dim], of a layer that turns, of which the first row is not turned.
        """
        normed = self._normed.get(id(module))
        if normed is None or normed.numel() != query.numel():
            return None
        query = query.detach()
        normed = normed.reshape(query.shape) if normed.shape == query.shape else normed.reshape(query.transpose(1, 2).shape).transpose(1, 2)
        return torch.equal(normed[:, :, 1:].to(query.device, query.dtype), query[:, :, 1:])


def _constant(ratio, exact):
    """Whether all numbers are the same one, those that are not known left out."""
    known = ratio[ratio.isfinite()]
    return known.numel() > 0 and bool((known - known.median()).abs().max() <= exact * known.median().abs())
