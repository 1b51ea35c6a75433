# SPDX-License-Identifier: Apache-2.0
"""Every family of families.py, recorded: the model computes the same to the last bit, and what is in the trace is what its attention computed.

The oracle is the model itself without a recorder: the probabilities that its eager attention returns, the output that goes into its output projection, and
(for positions) that one token repeated has the same keys everywhere once the turn that the trace tells of is undone.
"""
import dataclasses
import subprocess
import unittest.mock

import cases
import families
import numpy as np
import torch

import headscope
from headscope import facts as layer_facts
from headscope import interception

NUM_TOKENS = 20
OUTPUT_PROJECTIONS = ("o_proj", "out_proj", "dense", "c_proj")
# Their output is multiplied by a gate before it is projected.
GATED = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "afmoe", "hy_v4")
# Positions reach the keys by another way: learned ones are added to the tokens, a recurrence or a sink makes rows differ, a norm follows the turn.
NO_TURN = ("gpt2", "gpt2_scale_by_layer", "opt", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "gpt_oss", "mimo_v2_flash", "hunyuan_v1_dense", "lfm2", "falcon_h1", "hy_v4")
SCALED = ("llama3", "ministral3", "gemma4_text")  # RoPE's frequencies are not those of theta alone


def attention_modules(model):
    return {module.layer_idx: module for module in model.modules() if getattr(module, "layer_idx", None) is not None and "Attention" in type(module).__name__}


def watched(model, ids):
    """Output of the model without a recorder, and of each layer the probabilities [heads, rows, keys] and what is projected [rows, heads * v_head_dim]."""
    probabilities, outputs, handles = {}, {}, []
    for layer, module in attention_modules(model).items():
        handles.append(module.register_forward_hook(lambda _, __, output, layer=layer: probabilities.update({layer: output[1][0]})))
        projection = next(getattr(module, name) for name in OUTPUT_PROJECTIONS if hasattr(module, name))
        handles.append(projection.register_forward_pre_hook(lambda _, given, layer=layer: outputs.update({layer: given[0][0]})))
    with torch.no_grad():
        output = model(ids)[0]
    for handle in handles:
        handle.remove()
    return output, probabilities, outputs


def turned_back(k, facts, positions):
    """Keys [tokens, head_dim] without the turn that the trace tells of, float64."""
    if facts.rope_convention == 0:
        return k
    size = facts.rope_dims or facts.head_dim
    part = k[:, facts.rope_first_dim : facts.rope_first_dim + size].astype(np.float64)
    angles = np.outer(positions, facts.rope_theta ** (-np.arange(0, size, 2) / size))
    one, two = (part[:, : size // 2], part[:, size // 2 :]) if facts.rope_convention == 1 else (part[:, 0::2], part[:, 1::2])
    back = np.concatenate([one * np.cos(angles) + two * np.sin(angles), two * np.cos(angles) - one * np.sin(angles)], 1)
    rest = np.delete(k.astype(np.float64), np.s_[facts.rope_first_dim : facts.rope_first_dim + size], 1)
    return np.concatenate([back, rest], 1)


class Families(cases.FolderCase):
    def check(self, name):
        torch.manual_seed(3)
        ids = torch.randint(3, families.VOCABULARY, (1, NUM_TOKENS))
        model = families.make(name)
        output, probabilities, outputs = watched(model, ids)
        path = self.folder / f"{name}.h5"
        with torch.no_grad(), headscope.record(model, path):
            self.assertTrue(torch.equal(model(ids)[0], output), "the recorder changed the model's output")
        with headscope.open(path) as trace:
            self.assertTrue(trace.complete)
            self.assertEqual(trace.layers, sorted(probabilities))
            for layer in trace.layers:
                self.check_layer(name, trace, layer, probabilities[layer].numpy(), outputs[layer].numpy())
        with torch.no_grad():
            again = families.make(name, "sdpa") if "softcap" not in str(families.FAMILIES[name]) and name != "gpt_oss" and "mimo" not in name and name != "hy_v4" else None
            if again is not None:
                plain = again(ids)[0]
                with headscope.record(again, self.folder / f"{name}-sdpa.h5"):
                    self.assertTrue(torch.equal(again(ids)[0], plain), "the recorder changed the output of sdpa")
        if name not in NO_TURN + SCALED:
            self.check_turn(name, model)

    def check_layer(self, name, trace, layer, probabilities, output):
        facts = trace.facts(layer)
        output = output.reshape(NUM_TOKENS, facts.num_qo_heads, facts.v_head_dim)
        for head in facts.qo_heads:
            scores = trace.scores(layer, head)
            if facts.selection_sets or facts.selection_layer >= 0:  # dense scores: what the model chose is kept
                scores = self.chosen(trace, layer, head, scores)
            np.testing.assert_allclose(scores, probabilities[head], atol=5e-6, err_msg=f"layer {layer} head {head}")
            if name not in GATED:
                value = trace.v(layer, head // facts.group_size())[:]
                np.testing.assert_allclose(probabilities[head] @ value, output[:, head], atol=5e-6)

    def chosen(self, trace, layer, head, scores):
        facts = trace.facts(layer)
        sets = trace.tensor("selection", layer if facts.selection_layer < 0 else facts.selection_layer, 0)[:]
        kept = np.zeros_like(scores)
        for row, one in enumerate(sets):
            ids = one[one >= 0]
            self.assertEqual(len(ids), min(facts.selection_ids or 5, row + 1))
            kept[row, ids] = scores[row, ids]
        self.assertTrue((kept.sum(1) < 0.999).any(), "the sets leave nothing out")
        sink = 0 if facts.sinks is None else np.exp(facts.sinks[head] - trace.lse(layer, head)[:])
        return kept / (kept.sum(1) + sink)[:, None]

    def check_turn(self, name, model):
        path = self.folder / f"{name}-same.h5"
        with torch.no_grad(), headscope.record(model, path):
            model(torch.full((1, NUM_TOKENS), 7))
        with headscope.open(path) as trace:
            for layer in trace.layers:
                facts = trace.facts(layer)
                k = trace.k(layer, 0)[:]
                if facts.rope_convention:
                    self.assertGreater(np.abs(k - k[0]).max(), 0.01)
                back = turned_back(k, facts, np.arange(NUM_TOKENS))
                np.testing.assert_allclose(back, np.broadcast_to(back[0], back.shape), atol=2e-4, err_msg=f"layer {layer}")


for _name in families.FAMILIES:
    setattr(Families, f"test_{_name}", lambda self, name=_name: self.check(name))


class Facts(cases.FolderCase):
    """What single families say of their layers, as their papers and configurations have it."""

    WANTED = {
        "mistral": dict(window=[7, 7]),
        "qwen2": dict(window=[0, 5]),
        "gemma2": dict(window=[6, 0], soft_cap=[5.0, 5.0], softmax_scale=[0.25, 0.25]),
        "gemma3_text": dict(window=[6, 0], norm=[2, 2], rope_theta=[1e4, 1e6]),
        "glm4": dict(rope_convention=[2, 2], rope_dims=[4, 4]),
        "gpt2_scale_by_layer": dict(rope_convention=[0, 0], softmax_scale=[8**-0.5, 8**-0.5 / 2]),
        "olmo2": dict(norm=[4, 4]),
        "smollm3": dict(rope_convention=[1, 0]),
        "cohere2": dict(rope_convention=[2, 0], window=[6, 0]),
        "exaone4": dict(rope_convention=[1, 0], window=[6, 0]),
        "granite": dict(softmax_scale=[0.3, 0.3]),
        "llama4_text": dict(chunk=[8, 0], rope_convention=[2, 0], norm=[3, 1]),
        "deepseek_v3": dict(head_dim=[12, 12], v_head_dim=[10, 10], rope_first_dim=[8, 8], rope_dims=[4, 4]),
        "mimo_v2_flash": dict(head_dim=[12, 12], v_head_dim=[8, 8], window=[6, 0]),
        "qwen3_next": dict(output_gate=[2], rope_dims=[2]),
        "qwen3_5_text": dict(output_gate=[2], rope_dims=[4]),
        "qwen3_5_moe_text": dict(output_gate=[2], rope_dims=[4]),
        "afmoe": dict(norm=[2, 2], output_gate=[2, 2], window=[6, 0], rope_convention=[1, 0]),
        "minimax_m2": dict(norm=[4, 4], rope_dims=[4, 4]),
        "gemma3n_text": dict(kv_layer=[-1, -1, 0, 1], softmax_scale=[1.0] * 4),
        "nanochat": dict(norm=[3, 3], rope_convention=[1, 1]),
        "hunyuan_v1_dense_alpha": dict(rope_theta=[1e4 * 50 ** (8 / 6)] * 2, rope_convention=[1, 1]),
        "hy_v4": dict(head_dim=[12, 12], v_head_dim=[10, 10], rope_first_dim=[8, 8], rope_dims=[4, 4], output_gate=[2, 2], selection_sets=[1, 0], selection_layer=[-1, 0]),
        "glm_moe_dsa": dict(selection_sets=[1, 0], selection_ids=[5, 0], selection_layer=[-1, 0]),
    }

    def test_facts_of_layers(self):
        self.assertEqual(cases.transformers.__version__, families.VERSION, "look at the families again and raise VERSION")
        for name, wanted in self.WANTED.items():
            with self.subTest(name):
                model, path = families.make(name), self.folder / f"{name}.h5"
                with torch.no_grad(), headscope.record(model, path):
                    model(torch.arange(3, 15)[None])
                with headscope.open(path) as trace:
                    for field, values in wanted.items():
                        np.testing.assert_allclose([getattr(trace.facts(layer), field) for layer in trace.layers], values, rtol=1e-6, err_msg=field)
                    sinks = [trace.facts(layer).sinks is not None for layer in trace.layers]
                    self.assertEqual(sinks, [True, False] if name == "mimo_v2_flash" else [name == "hy_v4"] * len(sinks))
                    self.assertEqual(cases_kinds(path), {"llama4_text": [2, 0], **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), [3, 0])}.get(name, [int(trace.facts(layer).window > 0) for layer in trace.layers]))


    def test_what_turns_is_seen_and_not_known_by_name(self):
        """Layers without RoPE were said to have it, and components that stand still to turn."""
        wanted = {
            "beam": dict(rope_convention=[1, 0], rope_theta=[1e4, 0], norm=[2, 2]),
            "cohere2": dict(rope_convention=[2, 0]),
            "deepseek_v4": dict(rope_convention=[2, 2], rope_first_dim=[12, 12], rope_dims=[4, 4], rope_theta=[1e4, 1.6e5], norm=[2, 2]),
            "exaone4": dict(rope_convention=[1, 0]),
            "flint": dict(rope_convention=[1, 0], norm=[2, 2]),
            "granite_swa": dict(rope_convention=[1, 0], rope_theta=[5e5, 0]),
            "hunyuan_v1_dense": dict(rope_convention=[1, 1], norm=[3, 3]),
            "smollm3": dict(rope_convention=[1, 0]),
        }
        with unittest.mock.patch.object(layer_facts, "FAMILIES", {"cohere2": layer_facts.Family(interleaved=True)}):
            for name, fields in wanted.items():
                more = dict(layer_types=["sliding_attention", "heavily_compressed_attention"]) if name == "deepseek_v4" else {}
                with self.subTest(name):
                    for field, values in fields.items():
                        self.assertEqual(self.recorded_facts(families.make(name, **more), f"{name}-turned", field), values, field)

    def test_vectors_before_rope_of_a_layer_without(self):
        """They were those before the norm, since it was taken for one behind RoPE."""
        for name in ("flint", "granite_swa"):
            model, path = families.make(name), self.folder / f"{name}-before.h5"
            with torch.no_grad(), headscope.record(model, path, points="pre-rope"):
                model(torch.arange(3, 15)[None])
            with headscope.open(path) as trace:
                np.testing.assert_array_equal(trace.tensor("q_pre_rope", 1, 2)[:], trace.q(1, 2)[:])
                self.assertGreater(np.abs(trace.tensor("q_pre_rope", 0, 2)[:] - trace.q(0, 2)[:]).max(), 0.01)

    def test_vectors_before_rope_are_those_that_turn(self):
        """Falcon H1's lacked the factor on its keys, and nanochat turns the other way than a trace said."""
        for name in ("falcon_h1", "nanochat", "llama", "glm4", "qwen3", "gemma3_text", "minimax_m2"):
            model, path = families.make(name), self.folder / f"{name}-turn.h5"
            with self.subTest(name), torch.no_grad(), headscope.record(model, path, points="pre-rope,projection,cache"):
                model(torch.arange(3, 15)[None])
            with headscope.open(path) as trace:
                for layer in trace.layers:
                    facts, layer_module = trace.facts(layer), attention_modules(model)[layer]
                    for q_or_k, given in (("q", trace.q(layer, 1)[:]), ("k", trace.k(layer, 1)[:]), ("k", trace.tensor("cache_k", layer, 1)[:])):
                        before, back = trace.tensor(f"{q_or_k}_pre_rope", layer, 1)[:], turned_back(given, facts, np.arange(12))
                        if facts.rope_convention == 2:  # turned_back gives the first of all pairs first
                            size = facts.rope_dims or facts.head_dim
                            before = np.concatenate([before[:, 0:size:2], before[:, 1:size:2], before[:, size:]], 1)
                        if facts.norm == 3:  # without weights, so it turns with its vector
                            before = getattr(layer_module, f"{q_or_k}_norm")(torch.from_numpy(before)).numpy()
                        np.testing.assert_allclose(back, before, atol=2e-5, err_msg=f"{name} layer {layer} {q_or_k}")

    def test_keys_that_something_else_changes_are_not_those_before_rope(self):
        model, path = families.make("llama"), self.folder / "changed.h5"
        with self.assertRefused(headscope.BadInputError, "layer 1", "pre-rope", "other than a turn"), torch.no_grad():
            with headscope.record(model, path, points="pre-rope"):
                model.model.layers[1].self_attn.k_proj.register_forward_hook(lambda _, given, made: made * 0.9)  # after the recorder's
                model(torch.arange(3, 15)[None])

    def test_positions_of_keys_that_stand_for_several_tokens_are_not_the_tokens(self):
        """The last that was heard counted, and ended in an IndexError."""
        model, path = families.make("deepseek_v4", num_hidden_layers=3), self.folder / "compressed.h5"
        with torch.no_grad(), headscope.record(model, path):
            model(torch.arange(3, 15)[None])
        with self.assertRefused(headscope.BadInputError, "deepseek_v4", "layer 0", "more than its tokens"), torch.no_grad():
            with headscope.record(model, self.folder / "compressed-long.h5"):
                model(torch.arange(160)[None] % 90 + 3)

    def test_gates_and_places_of_norms_are_seen_and_not_known_by_name(self):
        nameless = {name: dataclasses.replace(family, output_gate=0, norm_after_rope=False) for name, family in layer_facts.FAMILIES.items()}
        for name, field, wanted in (("qwen3_next", "output_gate", [2]), ("llama4_text", "norm", [3, 1]), ("hunyuan_v1_dense", "norm", [3, 3]), ("qwen3", "norm", [2, 2]), ("olmo2", "norm", [4, 4])):
            with self.subTest(name), unittest.mock.patch.object(layer_facts, "FAMILIES", nameless):
                self.assertEqual(self.recorded_facts(families.make(name), f"{name}-seen", field), wanted)

    def test_a_gate_is_told_from_what_is_none(self):
        """What stands between attention and projection, by a hook: a factor for each head, for each component, and a norm, which is none."""
        def each_head(given):
            return given.unflatten(-1, (4, 8)) * torch.sigmoid(given.unflatten(-1, (4, 8)).sum(-1, keepdim=True))

        def each_component(given):
            return given * torch.sigmoid(given * 3)

        def norm(given):
            return given / given.norm(dim=-1, keepdim=True) * torch.linspace(0.5, 2, 32)

        for change, wanted in ((each_head, 1), (each_component, 2), (norm, 0), (lambda given: given, 0)):
            model = families.make("llama")
            for layer in model.model.layers:
                layer.self_attn.o_proj.register_forward_pre_hook(lambda _, given, change=change: (change(given[0]).reshape(given[0].shape),))
            self.assertEqual(self.recorded_facts(model, f"gate-{change.__name__}", "output_gate"), [wanted] * 2)

    def recorded_facts(self, model, name, field):
        path = self.folder / f"{name}.h5"
        with torch.no_grad(), headscope.record(model, path, overwrite=True):
            model(torch.arange(3, 15)[None])
        with headscope.open(path) as trace:
            return [getattr(trace.facts(layer), field) for layer in trace.layers]


def cases_kinds(path):
    import h5py

    with h5py.File(path) as file:
        return list(file["model"].attrs["layer_kinds"])


ENCODER = dict(vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, attn_implementation="eager")


class Encoders(cases.FolderCase):
    """Rows that see what comes after them: format 3, which `headscope` refuses by its version."""

    def test_encoders(self):
        ids = torch.arange(3, 23)[None]
        for model_type in ("bert", "roberta", "distilbert", "electra"):
            with self.subTest(model_type):
                more = dict(dim=32, n_heads=4, n_layers=2, hidden_dim=48, attn_implementation="eager", vocab_size=97) if model_type == "distilbert" else ENCODER
                torch.manual_seed(5)
                model = cases.transformers.AutoModel.from_config(cases.transformers.AutoConfig.for_model(model_type, **more)).eval()
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter.add_(torch.randn_like(parameter) * 0.2)
                path, seen = self.folder / f"{model_type}-{{prompt}}.h5", []
                interception.add(listener := lambda *given: seen.append(given[2:5]))
                with torch.no_grad():
                    output = model(ids)[0]
                interception.remove(listener)
                mask = torch.ones(2, 20, dtype=torch.int64)
                mask[1, 13:] = 0
                with torch.no_grad(), headscope.record(model, path, rows="every:2") as recording:
                    self.assertTrue(torch.equal(model(ids)[0], output))
                    model(torch.cat([ids, ids]), attention_mask=mask)
                with headscope.open(recording.paths[0]) as trace, headscope.open(recording.paths[1]) as again, headscope.open(recording.paths[2]) as short:
                    self.assertEqual((trace.version, trace.layers, short.num_tokens), (3, [0, 1], 13))
                    for layer, (query, key, value) in zip(trace.layers, seen):
                        wanted = torch.softmax(query[0] @ key[0].transpose(1, 2) * 8**-0.5, -1)[:, ::2].numpy()
                        for head in range(4):
                            # fp32 products of scores up to 10, summed in another order
                            np.testing.assert_allclose(trace.scores(layer, head), wanted[head], atol=5e-6)
                            np.testing.assert_allclose(again.scores(layer, head), wanted[head], atol=1e-5)
                            np.testing.assert_array_equal(trace.v(layer, head)[:], value[0, head].numpy())
                            np.testing.assert_allclose(short.scores(layer, head).sum(1), 1, atol=1e-5)
                done = subprocess.run([cases.HEADSCOPE, "analyze", recording.paths[0]], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stdout), (3, ""))
                self.assertIn("causal attention", done.stderr)


class CrossAttention(cases.FolderCase):
    """Decoders that attend to an encoder's sequence: that has a key axis of its own."""

    SIZES = dict(d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, vocab_size=97)

    def check(self, model, given, source_tokens):
        ids = torch.arange(3, 17)[None]
        crossing = []

        def listener(_, module, query, key, value, *rest):
            if key.shape[2] == source_tokens and query.shape[2] == ids.shape[1]:
                crossing.append((query[0], key[0], value[0]))

        interception.add(listener)
        with torch.no_grad():
            output = model(**given, decoder_input_ids=ids)[0]
        interception.remove(listener)
        path = self.folder / f"{model.config.model_type}.h5"
        with torch.no_grad(), headscope.record(model, path, heads="1,3"):
            first = model(**given, decoder_input_ids=ids[:, :9], use_cache=True)
            second = model(encoder_outputs=(first.encoder_last_hidden_state,), decoder_input_ids=ids[:, 9:], past_key_values=first.past_key_values, use_cache=True)
        torch.testing.assert_close(torch.cat([first[0], second[0]], 1), output, rtol=1e-4, atol=1e-4)
        with headscope.open(path) as trace:
            self.assertEqual((trace.version, trace.layers, trace.cross_layers, trace.num_tokens), (2, [0, 1], [0, 1], 14))
            for layer in trace.cross_layers:
                query, key, value = crossing[layer]
                scale = 1.0 if model.config.model_type == "whisper" else 8**-0.5  # whisper's queries have it in them, a trace's do not
                self.assertAlmostEqual(trace.facts(layer).softmax_scale, 8**-0.5, 6)
                for head in (1, 3):
                    wanted = torch.softmax(scale * query[head] @ key[head].T, -1).numpy()
                    np.testing.assert_allclose(trace.cross_scores(layer, head), wanted, atol=1e-5)
                    np.testing.assert_allclose(trace.cross_tensor("v", layer, head)[:], value[head].numpy(), rtol=1e-5, atol=1e-6)
                    np.testing.assert_allclose(trace.scores(layer, head).sum(1), 1, atol=1e-5)
        done = subprocess.run([cases.HEADSCOPE, "analyze", path, "--heads", "1:3", "--quiet"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)  # its self-attention

    def test_whisper(self):
        more = dict(max_source_positions=15, max_target_positions=64, num_mel_bins=8, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
        torch.manual_seed(5)
        model = cases.transformers.WhisperForConditionalGeneration(cases.transformers.WhisperConfig(**self.SIZES, **more)).eval()
        self.check(model, {"input_features": torch.randn(1, 8, 30)}, 15)

    def test_bart(self):
        torch.manual_seed(5)
        model = cases.transformers.BartForConditionalGeneration(cases.transformers.BartConfig(**self.SIZES)).eval()
        self.check(model, {"input_ids": torch.arange(30, 57)[None]}, 27)


class Latents(cases.FolderCase):
    def test_latent_keys_give_the_same_probabilities(self):
        for name in ("deepseek_v2", "deepseek_v3"):
            with self.subTest(name):
                model, ids = families.make(name), torch.arange(3, 23)[None]
                output, probabilities, _ = watched(model, ids)
                path = self.folder / f"{name}.h5"
                with torch.no_grad(), headscope.record(model, path, latent=True, heads="1-3"):
                    first = model(ids[:, :12], use_cache=True)
                    model(ids[:, 12:], past_key_values=first.past_key_values)
                with headscope.open(path) as trace:
                    for layer in trace.layers:
                        facts = trace.facts(layer)
                        self.assertEqual((facts.num_kv_heads, facts.head_dim, facts.v_head_dim, facts.v_is_k), (1, 20, 16, 1))
                        np.testing.assert_array_equal(trace.v(layer, 0)[:], trace.k(layer, 0)[:, :16])
                        for head in (1, 2, 3):
                            np.testing.assert_allclose(trace.scores(layer, head), probabilities[layer][head].numpy(), atol=2e-5)

    def test_family_without_latent_keys_is_refused(self):
        with self.assertRefused(headscope.BadInputError, "llama", "latent"):
            with torch.no_grad(), headscope.record(families.make("llama"), self.folder / "no.h5", latent=True) as recording:
                recording._model(torch.arange(3, 9)[None])
        self.assertFalse((self.folder / "no.h5").exists())


if __name__ == "__main__":
    cases.main()
