# SPDX-License-Identifier: Apache-2.0
"""What the model is and what it is trained on: the numbers of the recipe."""

BOS, EOS = 0, 1

CONFIG = dict(vocab_size=4096, hidden_size=384, intermediate_size=1024, num_hidden_layers=10, num_attention_heads=8, num_key_value_heads=4,
              head_dim=64, rope_theta=500000.0, rms_norm_eps=1e-5, max_position_embeddings=16384)

# Until this share of the time: {sequence length: weight}.
LENGTHS = [(0.08, {512: 3, 1024: 2}), (0.33, {1024: 3, 2048: 5, 4096: 2}), (0.54, {2048: 3, 4096: 3, 8192: 4}), (1.00, {2048: 2, 8192: 2, 16384: 7})]

# Kinds of tokens and their weight in the loss when they are to be predicted: answers count more than prose, the text of tasks counts little.
WEIGHTS = dict(prose=1.0, scaffold=0.2, needle=5.0, kv=5.0, vt_trace=3.0, vt_list=5.0, vt_value=5.0, repeat_prose=1.5, repeat_random=4.0, asked=0.2)
KIND = {name: number for number, name in enumerate(WEIGHTS)}

# Share of the sequences that hold tasks; the others are plain prose.
TASK_SHARE = 0.75
