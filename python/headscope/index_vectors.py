# SPDX-License-Identifier: Apache-2.0
"""What an indexer chooses keys by: the queries, keys and weights that its own products get, whatever its family turns and norms before."""
import dataclasses

import torch
from torch.overrides import TorchFunctionMode

from headscope.errors import BadInputError


@dataclasses.dataclass
class IndexVectors:
    """Of all sequences of a pass, as the products got them: in fp32 what the model has in its own type."""

    q: torch.Tensor  # [sequences, tokens, heads, dim]
    k: torch.Tensor  # [sequences, dim, keys], those of the cache before the pass's own
    weights: torch.Tensor  # [sequences, tokens, heads]

    def sizes(self):
        """Heads, components and keys."""
        return self.q.shape[2], self.q.shape[3], self.k.shape[2]

    def tensors(self, b, fed, new):
        """Names and values of one sequence's tensors: of those rows of the pass, and of those keys."""
        yield "index_q", self.q[b, fed].transpose(0, 1)
        yield "index_k", self.k[b, :, new].transpose(0, 1)[None]
        yield "index_weights", self.weights[b, fed].transpose(0, 1)


class Indexers:
    """What the indexers of a recorded model say in a pass, by layer. While the look looks at the layers, it hears it."""

    def __init__(self, model, look):
        self._look, self._running, self._handles = look, [], []
        self._chosen, self._vectors = {}, {}
        for module in [module for module in model.modules() if type(module).__name__.endswith("Indexer")]:
            # Called where the module fails, too: what was begun before it ends behind it.
            self._handles += [module.register_forward_pre_hook(self._before), module.register_forward_hook(self._after, always_call=True)]

    def take_back(self):
        for handle in self._handles:
            handle.remove()
        while self._running:  # of a call that an interrupt ended
            self._running.pop().__exit__(None, None, None)

    def begin_pass(self):
        self._chosen, self._vectors = {}, {}

    def chosen(self, layer):
        """The keys that it chose for every row [sequences, tokens, ids]; None of a layer without an indexer."""
        return self._chosen.get(layer)

    def take_vectors(self, layer, facts, num_keys):
        """What a recorded layer's own indexer chose by, which is forgotten then; None where there is none, or its products are no such."""
        if facts.index_heads == 0 or layer not in self._chosen:
            return None
        vectors = self._vectors.pop(layer, None)
        if vectors is None or vectors.sizes() != (facts.index_heads, facts.index_dim, num_keys):
            raise BadInputError(f"layer {layer}: its indexer compares something else than in the first pass; a trace holds layers that stay as they are")
        return vectors

    @torch.compiler.disable
    def _before(self, module, arguments):
        self._running.append(_Products())
        self._running[-1].__enter__()

    @torch.compiler.disable
    def _after(self, module, arguments, output):
        if not self._running:
            return
        products = self._running.pop()
        products.__exit__(None, None, None)
        chosen = output[0] if isinstance(output, tuple) else output
        if torch.is_tensor(chosen) and not chosen.is_floating_point() and getattr(module, "layer_idx", None) is not None:
            self._hear(module.layer_idx, chosen.detach(), products.vectors())

    def _hear(self, layer, chosen, vectors):
        if self._look.runs():
            self._look.hear_indexer(layer, vectors)
        elif not self._look.of_another_runs():
            self._chosen[layer] = chosen
            if layer in self._look.by_layer:
                self._vectors[layer] = vectors


class _Products(TorchFunctionMode):
    """Sees an indexer's two products: each head's q k over all keys, and the heads' weighted sum of these. It changes neither."""

    def __init__(self):
        super().__init__()
        self._q = self._k = self._scores = self._weights = None

    def vectors(self):
        return None if self._weights is None else IndexVectors(self._q.detach(), self._k.detach(), self._weights.detach())

    def __torch_function__(self, function, types, arguments=(), options=None):
        output = function(*arguments, **(options or {}))
        if function in (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__) and len(arguments) == 2:
            self._see(*arguments, output)
        return output

    def _see(self, one, other, output):
        if one.ndim != 4 or other.ndim != 4:
            return
        if self._q is None and other.shape[1] == 1:
            self._q, self._k, self._scores = one, other[:, 0], output.shape
        elif self._q is not None and other.shape == self._scores and one.shape == (*self._scores[:2], 1, self._scores[2]):
            self._weights = one[:, :, 0]
