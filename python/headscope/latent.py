# SPDX-License-Identifier: Apache-2.0
"""Multi-head latent attention as the cache has it: one KV head of compressed keys, which all query heads meet after their share of kv_b_proj.

A head's score q_nope . (W_uk c) + q_rope . k_rope equals (W_uk^T q_nope) . c + q_rope . k_rope, so the latent trace has the same log-sum-exp.
"""
import dataclasses

import torch

from headscope.errors import BadInputError


class Latent:
    """Of one layer. `whole`: the facts of its decompressed heads, `facts`: those of the trace."""

    def __init__(self, module, facts, name):
        parts = ("kv_b_proj", "kv_a_layernorm", "qk_nope_head_dim", "qk_rope_head_dim", "kv_lora_rank")
        if not all(hasattr(module, part) for part in parts):
            raise BadInputError(f"{name}: it has no latent keys (MLA with kv_b_proj); record it without latent")
        self.whole, self._module, self._compressed = facts, module, None
        rank, turning = int(module.kv_lora_rank), int(module.qk_rope_head_dim)
        self.facts = dataclasses.replace(facts, num_kv_heads=1, kv_heads=(0,), head_dim=rank + turning, v_head_dim=rank, v_is_k=1, rope_first_dim=rank, rope_dims=turning)
        self.handle = module.kv_a_layernorm.register_forward_hook(self._on_compressed)

    @torch.compiler.disable
    def _on_compressed(self, module, arguments, output):
        self._compressed = output.detach()

    def keys(self, batch, key, fed, columns):
        """[1, n, rank + rope]: of the `fed` tokens of this pass, which stand at `columns` of `key` [heads, columns, nope + rope]."""
        nope = int(self._module.qk_nope_head_dim)
        compressed = self._compressed[batch].reshape(-1, int(self._module.kv_lora_rank))[fed]
        return torch.cat([compressed, key[0, columns, nope:].to(compressed.dtype)], -1)[None]

    def queries(self, q, heads):
        """q [heads, rows, nope + rope] as what meets the compressed keys, [heads, rows, rank + rope]."""
        nope = int(self._module.qk_nope_head_dim)
        weight = self._module.kv_b_proj.weight.detach().view(self.whole.num_qo_heads, -1, int(self._module.kv_lora_rank))[list(heads), :nope]
        return torch.cat([(q[..., :nope].float() @ weight.float()).to(q.dtype), q[..., nope:]], -1)
