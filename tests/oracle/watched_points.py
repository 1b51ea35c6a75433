# SPDX-License-Identifier: Apache-2.0
"""What every capture point holds of a pass, from hooks on the modules of transformers: of each family by the names that its modules have."""
import torch
import transformers

PROJECTIONS = ("q_proj", "k_proj", "qkv_proj", "query_key_value", "c_attn", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj")
NORMS = (("q_norm", "k_norm"), ("q_layernorm", "k_layernorm"))  # before RoPE; those behind it have other names
OUTPUTS = ("o_proj", "dense", "c_proj", "out_proj")
POINTS = ("residual", "q_projection", "k_projection", "q_pre_rope", "k_pre_rope", "head_output", "value_norms", "value_norms_l1")


def by_head(rows, heads, dim):
    """[heads, n, dim] of [n, heads * more], of which each head's first are meant, of [n, heads, dim] or of [heads, n, dim]."""
    if rows.dim() == 2:
        return rows.view(rows.shape[0], heads, -1)[..., :dim].transpose(0, 1)
    return rows if rows.shape[0] == heads else rows.transpose(0, 1)


class WatchedPoints:
    """attention: the modules by their layers. Between passes take() is called with what each handed to its attention function."""

    def __init__(self, model, attention):
        self.attention, self.seen, self.taken, self.handles = attention, {layer: {} for layer in attention}, {layer: {} for layer in attention}, []
        names = {module: name for name, module in model.named_modules()}
        for layer, module in attention.items():
            one, block = self.seen[layer], model.get_submodule(names[module].rpartition(".")[0])
            for name in (*PROJECTIONS, *(norm for pair in NORMS for norm in pair)):
                if getattr(module, name, None) is not None:
                    self.handles.append(getattr(module, name).register_forward_hook(lambda _, given, output, one=one, name=name: one.update({name: output[0]})))
            # Of several hidden states the layer runs on one, which its first norm gets.
            first = block.input_layernorm if hasattr(block, "altup") else block
            self.handles.append(first.register_forward_pre_hook(
                lambda _, given, named, one=one: one.update(residual=(given[0] if given else named["hidden_states"])[0]), with_kwargs=True))
            self.handles.append(self.output(module).register_forward_pre_hook(lambda _, given, one=one: one.update(output=given[0][0])))

    def output(self, module):
        return next(getattr(module, name) for name in OUTPUTS if hasattr(module, name))

    def projected(self, layer, count, heads, groups, dim):
        """q and k before norm and RoPE, by head."""
        one, module = self.seen[layer], self.attention[layer]
        if "qkv_proj" in one:
            q, k = one["qkv_proj"][:, : heads * dim], one["qkv_proj"][:, heads * dim : (heads + groups) * dim]
        elif "query_key_value" in one:  # head by head
            all_three = one["query_key_value"].unflatten(1, (heads, 3, dim))
            q, k = all_three[:, :, 0], all_three[:, :, 1]
        elif "c_attn" in one:
            q, k, _ = one["c_attn"].chunk(3, 1)
        elif "kv_b_proj" in one:
            turned = module.qk_rope_head_dim
            own = by_head(one["kv_b_proj"].flatten(0, -2)[-count:], heads, dim - turned)  # of all tokens, where latents are what is cached
            q, k = one.get("q_b_proj", one.get("q_proj")), torch.cat([own, one["kv_a_proj_with_mqa"][:, -turned:].expand(heads, -1, -1)], 2)
        else:
            q, k = one["q_proj"], self.keys_of(layer)["k_proj"]
        return by_head(q, heads, dim), by_head(k, groups, dim)

    def keys_of(self, layer):
        """Of a layer that reads another one's keys, that one's."""
        if "k_proj" in self.seen[layer]:
            return self.seen[layer]
        kind = self.attention[layer].layer_type
        return self.seen[max(other for other in self.attention if other < layer and "k_proj" in self.seen[other] and self.attention[other].layer_type == kind)]

    def take(self, kept):
        """kept: of each layer q [heads, n, dim] of the pass, k and v [groups, tokens, ..] of all tokens so far."""
        for layer, (query, key, value) in kept.items():
            one, (heads, count, dim), groups = self.seen[layer], query.shape, key.shape[0]
            q, k = self.projected(layer, count, heads, groups, dim)
            points = {"residual": one["residual"], "q_projection": q, "k_projection": k, "q_pre_rope": q, "k_pre_rope": k}
            for of_q, of_k in NORMS:
                if of_q in one:
                    points["q_pre_rope"], points["k_pre_rope"] = by_head(one[of_q], heads, dim), by_head(self.keys_of(layer)[of_k], groups, dim)
            values, width, output = value[:, -count:].double(), value.shape[2], self.output(self.attention[layer])
            points["head_output"] = by_head(one["output"], heads, width)
            weight = output.weight.T if isinstance(output, transformers.pytorch_utils.Conv1D) else output.weight
            parts = weight.double().unflatten(1, (heads, width))
            added = torch.stack([values[head // (heads // groups)] @ parts[:, head].T for head in range(heads)])
            points["value_norms"], points["value_norms_l1"] = added.norm(dim=2), added.abs().sum(2)
            for name, tensor in points.items():
                self.taken[layer].setdefault(name, []).append(tensor.clone())

    def tensors(self):
        """By layer and point, in their order, of the tokens of all passes."""
        for handle in self.handles:
            handle.remove()
        return {layer: {name: torch.cat(points[name], 0 if name == "residual" else 1).float() for name in POINTS} for layer, points in self.taken.items()}
