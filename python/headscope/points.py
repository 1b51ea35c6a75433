# SPDX-License-Identifier: Apache-2.0
"""What a layer hands over beside the q, k, v and lse of its attention: the capture points of `headscope capture --record`, by hooks on the layer's modules.

Every layer of transformers has its input and its attention's output. Vectors before RoPE and before their norm are found where q and k have projections
of their own (q_proj, k_proj), the norm of W_o v where the output's projection is a matrix by itself (o_proj); a layer without is refused by name.
"""
import numpy as np
import torch

from headscope import own_order
from headscope.errors import BadInputError, UsageError
from headscope.layout import POINTS

_NORM_AFTER_ROPE = (3, 5)
_LOOKED_AT = 16  # tokens
# Points that are norms of W_o v, and which.
NORM_ORDERS = {"value-norms": 2, "value-norms-l1": 1}


def points_of(chosen):
    """Names in the order of POINTS, from None, a sequence, or a text such as "pre-rope,cache"."""
    if chosen is None or (isinstance(chosen, str) and not chosen):
        return []
    names = [part.strip() for part in chosen.split(",")] if isinstance(chosen, str) else list(chosen) if np.iterable(chosen) else [chosen]
    for name in names:
        if name not in POINTS:
            raise UsageError(f"record {name!r}: is not known; choose from {', '.join(POINTS)}")
    return [name for name in POINTS if name in names]


class LayerPoints:
    """Of one layer: sets the facts, listens to the modules, and gives the tensors of a pass when its attention is done."""

    def __init__(self, model, module, facts, points, hidden_size, where, handles):
        """handles: of hooks, to which this one's are added as they are registered, so that a refusal leaves none behind."""
        self._module, self._facts, self._points, self._where = module, facts, points, where
        self._hidden = self._made = None
        self._compared = self._turned = False
        self.handles = handles
        self._given = None
        for name in points:
            setattr(facts, POINTS[name], 1)
        if "residual" in points:
            facts.hidden_size = hidden_size
        if "head-outputs" in points and facts.output_gate:
            self._refuse("head-outputs", "its output is gated between attention and projection")
        if "head-outputs" in points and isinstance(getattr(module, "o_proj", None), torch.nn.Module):
            self.handles.append(module.o_proj.register_forward_pre_hook(torch.compiler.disable(self._on_output_projection)))
        if "residual" in points or "hidden-norms" in points:
            layer = next((one for one in model.modules() if any(child is module for child in one.children())), None)
            if layer is None:
                self._refuse("residual" if "residual" in points else "hidden-norms", "no module has its attention as a part")
            self.handles.append(layer.register_forward_pre_hook(self._on_layer, with_kwargs=True))
        for point in filter(NORM_ORDERS.get, points):
            self._output = getattr(module, "o_proj", None)
            if not isinstance(self._output, torch.nn.Linear) or self._output.in_features != facts.num_qo_heads * facts.v_head_dim:
                self._refuse(point, "it has no matrix o_proj over the outputs of its heads")
            if self._output.weight.dtype not in (torch.float32, torch.bfloat16, torch.float16):
                self._refuse(point, f"its o_proj is quantised ({self._output.weight.dtype})")
        if "pre-rope" in points or "projection" in points:
            for name, heads in (("q", facts.num_qo_heads), ("k", facts.num_kv_heads)):
                self._listen_to(name, heads)

    def _refuse(self, point, problem):
        raise BadInputError(f"{self._where}: {problem}, so {point} cannot be recorded from Python; leave it out, or record the model with `headscope capture`")

    def _listen_to(self, name, heads):
        facts = self._facts
        projection = getattr(self._module, f"{name}_proj", None)
        if not isinstance(projection, torch.nn.Linear) or projection.out_features != heads * facts.head_dim:
            self._refuse("projection" if "projection" in self._points else "pre-rope", f"it has no {name}_proj that makes {heads} heads of {facts.head_dim}")
        self._made = {}

        factor = own_order.key_factor(self._module) if name == "k" else 1.0

        def on_projection(module, arguments, output):
            made = _by_head(output.detach(), heads)
            self._made[f"{name}_projection"], self._made[f"{name}_pre_rope"] = made, made if factor == 1.0 else made * factor

        self.handles.append(projection.register_forward_hook(torch.compiler.disable(on_projection)))
        norm = next((getattr(self._module, f"{name}_{kind}") for kind in ("norm", "layernorm") if getattr(self._module, f"{name}_{kind}", None) is not None), None)
        if facts.norm == 1 or facts.norm in _NORM_AFTER_ROPE:
            return
        if norm is None:
            self._refuse("pre-rope", f"its norm of {name} is not found")

        def on_norm(module, arguments, output):
            if output.ndim == 3 and output.shape[-1] != heads * facts.head_dim:
                self._refuse("pre-rope", f"its norm of {name} works on tokens of all sequences together")
            self._made[f"{name}_pre_rope"] = _by_head(output.detach(), heads, arguments[0])

        self.handles.append(norm.register_forward_hook(torch.compiler.disable(on_norm)))

    @torch.compiler.disable
    def _on_layer(self, module, arguments, options):
        hidden = arguments[0] if arguments else options.get("hidden_states")
        self._hidden = hidden.detach() if torch.is_tensor(hidden) and hidden.ndim == 3 else None

    def _on_output_projection(self, module, arguments):
        """What the projection gets is what was recorded as the heads' outputs, in the first pass at least."""
        given, self._given = self._given, None
        if given is not None and not self._compared:
            self._compared = True
            if not arguments or arguments[0].numel() != given.numel() or not torch.equal(arguments[0].detach().reshape(-1).to(given.device), given.reshape(-1)):
                self._refuse("head-outputs", "something changes its output between attention and projection")

    def forget(self):
        """What a pass has made is given back when its attention is recorded."""
        self._hidden = None
        if self._made is not None:
            self._made.clear()

    def _check_turn(self, before, after):
        """A turn leaves a key as long as it is, in the first pass at least."""
        facts = self._facts
        if facts.norm in _NORM_AFTER_ROPE or facts.kv_layer >= 0 or facts.rope_attention_factor != 1.0:
            return
        before, after = (one[:, :_LOOKED_AT].double().norm(dim=-1) for one in (before, after))
        exact = 1e-3 if self._made["k_pre_rope"].dtype == torch.float32 else 3e-2
        if not ((before - after).abs() <= exact * after).all():
            self._refuse("pre-rope", "something other than a turn changes its keys between projection and attention")

    def _hidden_states(self):
        if self._hidden is None or ("residual" in self._points and self._hidden.shape[2] != self._facts.hidden_size):
            self._refuse("residual" if "residual" in self._points else "hidden-norms", "its input is no [batch, tokens, hidden_size]")
        return self._hidden

    def tensors(self, b, key, value, output, pick, new, fed):
        """name, values [heads, n] or [heads, n, width] of sequence b.

        key, value: [KV heads, columns, ..] as the cache hands them over, of which those at `new` are recorded; output: [batch, rows, query heads, v_head_dim];
        pick: recorded heads and rows of [query heads, fed tokens, ..]; fed: the recorded tokens among those fed.
        """
        facts = self._facts
        kv_heads = list(facts.kv_heads)
        if "pre-rope" in self._points:
            if not self._turned:
                self._turned = True
                self._check_turn(self._made["k_pre_rope"][b][kv_heads, fed], key[kv_heads, new])
            yield "q_pre_rope", pick(self._made["q_pre_rope"][b])
            yield "k_pre_rope", self._made["k_pre_rope"][b][kv_heads, fed]
        for point in filter(NORM_ORDERS.get, self._points):
            weight = self._output.weight.detach().float()
            group, dim = facts.group_size(), facts.v_head_dim
            added = (torch.nn.functional.linear(value[head // group, new].float(), weight[:, head * dim : (head + 1) * dim]) for head in facts.qo_heads)
            yield point.replace("-", "_"), torch.stack([one.norm(NORM_ORDERS[point], dim=-1) for one in added])
        if "hidden-norms" in self._points:
            yield "hidden_norms", self._hidden_states()[b, fed].float().norm(dim=-1)[None]
        if "projection" in self._points:
            yield "q_projection", pick(self._made["q_projection"][b])
            yield "k_projection", self._made["k_projection"][b][kv_heads, fed]
        if "cache" in self._points:
            yield "cache_k", key[kv_heads, new]
            yield "cache_v", value[kv_heads, new]
        if "residual" in self._points:
            yield "residual", self._hidden_states()[b, fed][None]
        if "head-outputs" in self._points:
            self._given = None if self._compared else output.detach()
            yield "head_output", pick(output[b].detach().transpose(0, 1))


def _by_head(values, heads, normed=None):
    """[batch, heads, tokens, dim] of what a projection or a norm made: [batch, tokens, heads * dim], or by heads before or behind the tokens.

    normed: what the norm got, a view of the projection's output: its strides tell which axis is which where both are as long.
    """
    if values.ndim == 3:
        return values.unflatten(-1, (heads, -1)).transpose(1, 2)
    if values.shape[1] != values.shape[2]:
        return values if values.shape[1] == heads else values.transpose(1, 2)
    return values if normed.stride(1) < normed.stride(2) else values.transpose(1, 2)
