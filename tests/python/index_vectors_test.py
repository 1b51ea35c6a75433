# SPDX-License-Identifier: Apache-2.0
"""What an indexer chooses keys by, recorded: the queries, keys and weights that its projections make, turned as its family turns them, in whatever passes a prompt comes."""
import unittest.mock

import cases
import families
import numpy as np
import torch
from recording_case import IDS, NUM_TOKENS, RecordingCase

import headscope

THETA = 10000.0
SIZE = 4  # components that turn
# Where the components that turn begin, and whether neighbours are a pair.
TURNS = {"deepseek_v32": (0, False), "glm_moe_dsa": (0, True), "hy_v4": (4, False)}


def heard(model, ids):
    """The model's logits, and of each layer with an indexer its projections' outputs in one pass, by name."""
    outputs, handles = {}, []
    for name, module in model.named_modules():
        if ".indexer." in name:
            layer, _, part = name.removeprefix("model.layers.").partition(".self_attn.indexer.")
            handles.append(module.register_forward_hook(lambda _, __, output, place=(int(layer), part): outputs.update({place: output[0].float().numpy()})))
    with torch.no_grad():
        logits = model(ids).logits
    for handle in handles:
        handle.remove()
    return logits, outputs


def turned(name, values):
    """[.., tokens, 8] of tokens 0, 1, .. with their positions turned in."""
    first, neighbours = TURNS[name]
    part = values[..., first : first + SIZE].astype(np.float64)
    angles = np.outer(np.arange(values.shape[-2]), THETA ** (-np.arange(0, SIZE, 2) / SIZE))
    one, two = (part[..., 0::2], part[..., 1::2]) if neighbours else (part[..., : SIZE // 2], part[..., SIZE // 2 :])
    both = np.concatenate([one * np.cos(angles) - two * np.sin(angles), two * np.cos(angles) + one * np.sin(angles)], -1)
    return np.concatenate([values[..., :first], both, values[..., first + SIZE :]], -1)


def recorded(path):
    """Of each layer with an indexer its tensors, by name and layer."""
    found = {}
    with headscope.open(path) as trace:
        for layer in trace.layers:
            facts = trace.facts(layer)
            if facts.index_heads:
                for name, heads in (("index_q", facts.index_heads), ("index_k", facts.index_kv_heads), ("index_weights", facts.index_heads), ("selection", 1)):
                    found[name, layer] = np.stack([np.asarray(trace.tensor(name, layer, head)) for head in range(heads)])
    return found


class IndexVectors(RecordingCase):
    def record(self, model, *passes, path=None, **options):
        cache = None
        with torch.no_grad(), headscope.record(model, path or self.path, overwrite=True, **options):
            for ids in passes:
                cache = model(ids, past_key_values=cache, use_cache=len(passes) > 1).past_key_values
        return recorded(path or self.path)

    def assertTensors(self, found, wanted, **tolerance):  # noqa: N802
        self.assertEqual(set(found), set(wanted))
        for place, values in wanted.items():
            np.testing.assert_allclose(found[place], values, **tolerance, err_msg=str(place))

    def test_they_are_those_of_the_projections(self):
        for name in TURNS:
            with self.subTest(name):
                model = families.make(name)
                logits, outputs = heard(model, IDS)
                with torch.no_grad(), headscope.record(model, self.path, overwrite=True):
                    self.assertTrue(torch.equal(model(IDS).logits, logits))
                found = recorded(self.path)
                layers = {layer for layer, _ in outputs}
                self.assertEqual({layer for _, layer in found}, layers)
                self.assertTrue(layers)
                for layer in layers:
                    q = outputs[layer, "wq_b"].reshape(NUM_TOKENS, 2, 8).swapaxes(0, 1)
                    np.testing.assert_allclose(found["index_q", layer], turned(name, q), atol=1e-5)
                    np.testing.assert_allclose(found["index_k", layer], turned(name, outputs[layer, "k_norm"][None]), atol=1e-5)
                    scale = 2**-0.5 * (8**-0.5 if name == "hy_v4" else 1)  # which it multiplies its scores by there
                    np.testing.assert_allclose(found["index_weights", layer], scale * outputs[layer, "weights_proj"].T, rtol=1e-5, atol=1e-7)
                    self.check_choice(found, layer)

    def check_choice(self, found, layer):
        """No key that was not chosen has a greater score than one that was."""
        products = np.maximum(np.einsum("hrd,td->hrt", found["index_q", layer], found["index_k", layer][0]), 0)
        scores = (found["index_weights", layer][:, :, None] * products).sum(0)
        left_out = 0
        for row, ids in enumerate(found["selection", layer][0]):
            chosen = np.zeros(row + 1, bool)
            chosen[ids[ids >= 0]] = True
            if not chosen.all():
                left_out += 1
                self.assertLessEqual(scores[row, : row + 1][~chosen].max(), scores[row, : row + 1][chosen].min() + 1e-6)
        self.assertEqual(left_out, NUM_TOKENS - 5)

    def test_passes_with_a_cache_give_those_of_one(self):
        for name in TURNS:
            with self.subTest(name):
                model = families.make(name)
                whole = self.record(model, IDS)
                parts = self.record(model, IDS[:, :9], IDS[:, 9:15], *IDS[:, 15:].split(1, 1))
                for found in (whole, parts):
                    for place in [place for place in found if place[0] == "selection"]:
                        del found[place]  # equal scores are chosen by the pass
                self.assertTensors(parts, whole, atol=1e-5)

    def test_rows_and_layers_that_are_chosen(self):
        model = families.make("deepseek_v32")
        whole, part = self.record(model, IDS), self.record(model, IDS, rows="last:6", layers=[1], heads=[2])
        self.assertTensors(part, {("index_k", 1): whole["index_k", 1]} | {(name, 1): whole[name, 1][:, -6:] for name in ("index_q", "index_weights", "selection")})

    def test_sequences_of_a_batch_that_is_padded(self):
        model, path = families.make("glm_moe_dsa"), str(self.path).replace(".h5", "-{prompt}.h5")
        short = IDS[:, :17]
        batch = {"input_ids": torch.cat([IDS, torch.nn.functional.pad(short, (NUM_TOKENS - 17, 0))]), "attention_mask": torch.ones(2, NUM_TOKENS, dtype=torch.long)}
        batch["attention_mask"][1, : NUM_TOKENS - 17] = 0
        batch["position_ids"] = (batch["attention_mask"].cumsum(1) - 1).clamp(0)
        with torch.no_grad(), headscope.record(model, path) as recording:
            model(**batch)
        for one, ids in zip(recording.paths, (IDS, short)):
            found, alone = recorded(one), self.record(model, ids)
            del found["selection", 0], alone["selection", 0]
            self.assertTensors(found, alone, atol=1e-5)

    def test_generated_tokens(self):
        model = families.make("hy_v4")
        with torch.no_grad(), headscope.record(model, self.path):
            ids = model.generate(IDS[:, :10], max_new_tokens=6, min_new_tokens=6, do_sample=False)
        found = recorded(self.path)
        self.assertEqual(found["index_k", 0].shape, (1, 15, 8))
        again = self.record(model, ids[:, :-1])
        np.testing.assert_allclose(found["index_k", 0], again["index_k", 0], atol=1e-5)
        np.testing.assert_allclose(found["index_q", 0], again["index_q", 0], atol=1e-5)

    def test_they_are_kept_in_the_models_type(self):
        model = families.make("deepseek_v32").to(torch.bfloat16)
        _, outputs = heard(model, IDS)
        found = self.record(model, IDS)
        with headscope.open(self.path) as trace:
            self.assertEqual(trace.encoding, "bfloat16")
        still = slice(SIZE, None)  # components that do not turn
        np.testing.assert_array_equal(found["index_k", 0][0][:, still], outputs[0, "k_norm"][:, still])

    def test_two_recordings_of_a_model(self):
        model, other = families.make("deepseek_v32"), self.folder / "other.h5"
        with torch.no_grad(), headscope.record(model, self.path), headscope.record(model, other, layers=[1]):
            model(IDS)
        found, second = recorded(self.path), recorded(other)
        self.assertTensors(second, {place: values for place, values in found.items() if place[1] == 1})

    def test_nothing_listens_behind_an_indexer_that_fails(self):
        for failure in (RuntimeError, KeyboardInterrupt):
            model = families.make("deepseek_v32")
            with self.assertRaises(failure), torch.no_grad(), headscope.record(model, self.folder / f"{failure.__name__}.h5"):
                with unittest.mock.patch.object(type(model.model.layers[1].self_attn.indexer.k_norm), "forward", side_effect=failure("no")):
                    model(IDS)
            self.assertEqual(torch._C._len_torch_function_stack(), 0)

    def test_products_over_something_else_than_tokens_are_none(self):
        """Pools of keys, of which each is several tokens."""
        model = families.make("deepseek_v32")
        indexer = model.model.layers[0].self_attn.indexer
        plain = type(indexer).forward

        def pooled(*arguments, **options):
            scores = torch.matmul(torch.ones(1, 4, 2, 8), torch.ones(1, 1, 8, 1))
            torch.matmul(torch.ones(1, 4, 1, 2), scores)
            return plain(indexer, *arguments, **options)

        with unittest.mock.patch.object(indexer, "forward", pooled):
            found = self.record(model, IDS)
        self.assertEqual({layer for _, layer in found}, {1})
        with headscope.open(self.path) as trace:
            self.assertEqual((trace.facts(0).selection_sets, trace.facts(0).index_heads), (1, 0))


if __name__ == "__main__":
    cases.main()
