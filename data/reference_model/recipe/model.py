# SPDX-License-Identifier: Apache-2.0
"""The model in plain PyTorch, with the parameter names of LlamaForCausalLM, and the Muon optimizer."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from recipe.settings import CONFIG


def rms_norm(x, weight):
    return F.rms_norm(x, (x.size(-1),), weight.to(x.dtype), CONFIG["rms_norm_eps"])


def rotate(x, cos, sin):
    """Rotary embedding of [.., heads, head_dim] in the "half" convention, in fp32."""
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


class Scale(nn.Module):
    def __init__(self, size, value=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.full((size,), value))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        hidden, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
        query, key = (CONFIG[name] * CONFIG["head_dim"] for name in ("num_attention_heads", "num_key_value_heads"))

        def linears(**shapes):
            return nn.ModuleDict({name: nn.Linear(*shape, bias=False) for name, shape in shapes.items()})
        self.input_layernorm, self.post_attention_layernorm = Scale(hidden), Scale(hidden)
        self.self_attn = linears(q_proj=(hidden, query), k_proj=(hidden, key), v_proj=(hidden, key), o_proj=(query, hidden))
        self.mlp = linears(gate_proj=(hidden, inner), up_proj=(hidden, inner), down_proj=(inner, hidden))

    def heads(self, x, cos, sin):
        """Tokens [T, hidden] to rotated q [T, heads, dim] and k [T, kv heads, dim], and v."""
        y = rms_norm(x, self.input_layernorm.weight)
        q, k, v = ((y @ self.self_attn[name].weight.to(x.dtype).T).unflatten(-1, (-1, CONFIG["head_dim"])) for name in ("q_proj", "k_proj", "v_proj"))
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def rest(self, x, attended):
        x = x + attended @ self.self_attn.o_proj.weight.to(x.dtype).T
        y = rms_norm(x, self.post_attention_layernorm.weight)
        gate, up = (y @ self.mlp[name].weight.to(x.dtype).T for name in ("gate_proj", "up_proj"))
        return x + (F.silu(gate) * up) @ self.mlp.down_proj.weight.to(x.dtype).T


class Model(nn.Module):
    """Everything but attention works on flat tokens [batch * length, ..], so that compiled code does not depend on the sequence length."""

    def __init__(self):
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(CONFIG["vocab_size"], CONFIG["hidden_size"])
        self.model.layers = nn.ModuleList(Layer() for _ in range(CONFIG["num_hidden_layers"]))
        self.model.norm = Scale(CONFIG["hidden_size"], 0.15)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                closing = name.endswith(("o_proj.weight", "down_proj.weight"))  # of residual branches: smaller the more there are
                depth = math.sqrt(2 * CONFIG["num_hidden_layers"]) if closing else 1
                nn.init.normal_(parameter, std=0.15 if "embed" in name else 0.02 / depth)

    def forward(self, ids, dtype=torch.bfloat16, watch=None):
        """Hidden states [batch * length, hidden] before the last norm. WATCH(layer, q, k, v) sees every layer's heads."""
        batch, length = ids.shape
        dim = CONFIG["head_dim"]
        frequency = CONFIG["rope_theta"] ** (-torch.arange(0, dim, 2, device=ids.device).float() / dim)
        angle = torch.outer(torch.arange(length, device=ids.device).float(), frequency).repeat(batch, 1)[:, None]
        x = self.model.embed_tokens.weight[ids.flatten()].to(dtype)
        for number, layer in enumerate(self.model.layers):
            q, k, v = layer.heads(x, angle.cos(), angle.sin())
            if watch:
                watch(number, q, k, v)
            split = [t.view(batch, length, -1, dim).transpose(1, 2) for t in (q, k, v)]
            attended = F.scaled_dot_product_attention(*split, is_causal=True, enable_gqa=True)
            x = layer.rest(x, attended.transpose(1, 2).reshape(batch * length, -1))
        return x

    def logits(self, x):
        return rms_norm(x, self.model.norm.weight) @ self.model.embed_tokens.weight.to(x.dtype).T

    def losses(self, ids, targets):
        """-log p of every target, flat."""
        return F.cross_entropy(self.logits(self(ids)).float(), targets.flatten(), reduction="none")


class Muon(torch.optim.Optimizer):
    """Momentum, then the nearest orthogonal matrix by five Newton-Schulz steps; matrices of one shape go together."""

    def __init__(self, parameters, lr, momentum=0.95, weight_decay=0.0):
        super().__init__(list(parameters), dict(lr=lr, momentum=momentum, weight_decay=weight_decay))
        by_shape = {}
        for p in self.param_groups[0]["params"]:
            by_shape.setdefault((min(p.shape), max(p.shape)), []).append(p)
        self._sets = [(ps, torch.zeros(len(ps), *shape, device=ps[0].device)) for shape, ps in by_shape.items()]

    @torch.no_grad()
    def step(self):
        group = self.param_groups[0]
        for parameters, average in self._sets:
            flip = [p.size(0) > p.size(1) for p in parameters]
            gradient = torch.stack([p.grad.T if f else p.grad for p, f in zip(parameters, flip)])
            average.lerp_(gradient, 1 - group["momentum"])
            x = gradient.lerp_(average, group["momentum"]).to(torch.bfloat16 if gradient.is_cuda else torch.float32)
            x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
            for _ in range(5):
                a = x @ x.mT
                x = torch.baddbmm(x, torch.baddbmm(a, a, a, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
            for p, f, update in zip(parameters, flip, x):
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_((update.T if f else update).float(), alpha=-group["lr"] * max(1, p.size(0) / p.size(1)) ** 0.5)
