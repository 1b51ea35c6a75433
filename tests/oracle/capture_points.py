# SPDX-License-Identifier: Apache-2.0
"""What capture records beside q, k, v and lse when asked, against transformers (5.23.0) and NumPy.

    capture_points.py HEADSCOPE MODEL_DIR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import torch
import transformers

TEXT = "The pass key is 99405. Remember it. 99405 is the pass key. The grass is green, the sky is blue, and the sun is yellow. What is the pass key?"
LAYERS, HEADS, ROWS, CHUNK, DECODE = [0, 3, 9], [1, 6, 7], 20, 16, 3


def relative_error(found, wanted):
    return np.linalg.norm(found.astype(np.float64) - wanted) / np.linalg.norm(wanted)


def turned(x, positions, theta):
    """RoPE in halves, in float64; x [rows, head_dim]."""
    half = x.shape[1] // 2
    angles = np.outer(positions, theta ** (-np.arange(half) / half))
    low, high = x[:, :half], x[:, half:]
    return np.concatenate([low * np.cos(angles) - high * np.sin(angles), high * np.cos(angles) + low * np.sin(angles)], 1)


def main():
    headscope, model_dir = sys.argv[1:3]
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "points.h5")
        command = [headscope, "capture", model_dir, "--text", TEXT, "--layers", ",".join(map(str, LAYERS)), "--heads", ",".join(map(str, HEADS)), "--rows",
                   f"last:{ROWS}", "--chunk", str(CHUNK), "--decode", str(DECODE), "--dtype", "fp32", "--quiet", "-o", str(path)]
        subprocess.run([*command, "--record", "pre-rope,value-norms,hidden-norms,value-norms-l1"], check=True, stdout=subprocess.DEVNULL)
        info = json.loads(subprocess.run([headscope, "info", str(path), "--json"], check=True, capture_output=True, text=True).stdout)
        assert info["recorded_beside"] == ["pre-rope", "value-norms", "hidden-norms", "value-norms-l1"], info["recorded_beside"]
        assert "recorded   q, k, v, lse, pre-rope, value-norms, hidden-norms, value-norms-l1\n" in subprocess.run([headscope, "info", str(path)], capture_output=True, text=True).stdout
        with h5py.File(path) as file:
            attention, ids, rows = file["attention"], file["tokens/ids"][:], file["attention/q_rows"][:]
            theta = float(file["layers"].attrs["rope_theta"][0])
            found = {name: attention[name][:] for name in ("q", "k", "v", "q_pre_rope", "k_pre_rope", "value_norms", "hidden_norms", "value_norms_l1")}
            kv_heads = list(attention["kv_heads"])
        plain = pathlib.Path(folder, "plain.h5")
        subprocess.run([*command[:-1], str(plain)], check=True, stdout=subprocess.DEVNULL)
        with h5py.File(plain) as file:
            assert not {"q_pre_rope", "k_pre_rope", "value_norms", "hidden_norms", "value_norms_l1"} & set(file["attention"]), "recorded unasked"
            for name in ("q", "k", "v"):
                np.testing.assert_array_equal(file["attention"][name][:], found[name])
        model = transformers.AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32).eval()
        with torch.no_grad():
            hidden = model(torch.tensor(ids[None].astype(np.int64)), output_hidden_states=True, use_cache=False).hidden_states
        group, dim = model.config.num_attention_heads // model.config.num_key_value_heads, found["v"].shape[3]
        worst = {"pre-rope": 0.0, "value-norms": 0.0, "hidden-norms": 0.0, "value-norms-l1": 0.0}
        for slot, layer in enumerate(LAYERS):
            output = model.model.layers[layer].self_attn.o_proj.weight.detach().double().numpy()
            norms = hidden[layer][0].double().norm(dim=-1).numpy()
            worst["hidden-norms"] = max(worst["hidden-norms"], relative_error(found["hidden_norms"][slot, 0], norms))
            for head_slot, head in enumerate(HEADS):
                worst["pre-rope"] = max(worst["pre-rope"], relative_error(found["q"][slot, head_slot], turned(found["q_pre_rope"][slot, head_slot].astype(float), rows, theta)))
                values = found["v"][slot, kv_heads.index(head // group)].astype(np.float64)
                added = values @ output[:, head * dim : (head + 1) * dim].T
                worst["value-norms"] = max(worst["value-norms"], relative_error(found["value_norms"][slot, head_slot], np.linalg.norm(added, axis=1)))
                worst["value-norms-l1"] = max(worst["value-norms-l1"], relative_error(found["value_norms_l1"][slot, head_slot], np.abs(added).sum(axis=1)))
            for kv_slot in range(len(kv_heads)):
                positions = np.arange(len(ids))
                worst["pre-rope"] = max(worst["pre-rope"], relative_error(found["k"][slot, kv_slot], turned(found["k_pre_rope"][slot, kv_slot].astype(float), positions, theta)))
        print("relative errors:", worst)
        assert max(worst.values()) < 1e-5, worst


if __name__ == "__main__":
    main()
