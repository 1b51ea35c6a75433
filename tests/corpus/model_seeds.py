# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the fuzzers of model/: a folder per fuzzer, small valid files that reach its reader's every branch.

    model_seeds.py [FOLDER]     by default the folder of this script

The files lie in the repository; tests/model/mutation_test.cpp reads them all.
"""
import base64
import json
import pathlib
import struct
import sys

SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BASE = dict(hidden_size=64, intermediate_size=96, vocab_size=100, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024)


def config(model_type, **fields):
    return json.dumps({"model_type": model_type, **BASE, **fields}).encode()


def alphabet():
    """Characters of the byte-level alphabet, by byte."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    return [chr(byte) if byte in own else chr(0x100 + others.index(byte)) for byte in range(256)]


def byte_level(**fields):
    vocab = {text: byte for byte, text in enumerate(alphabet())}
    vocab.update({"th": 256, "he": 257, "the": 258, "\u0120the": 259})
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "byte_fallback": False, "ignore_merges": False, "vocab": vocab,
                      "merges": ["t h", "h e", ["th", "e"], "\u0120 the"]}, **fields}


def tokenizers():
    added = [{"id": 260, "content": "<|end|>", "single_word": False, "lstrip": True, "rstrip": True, "normalized": False, "special": True},
             {"id": 261, "content": "caf\u00e9", "single_word": True, "lstrip": False, "rstrip": False, "normalized": True, "special": False}]
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|end|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
                "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [260], "tokens": ["<|end|>"]}}}
    yield "gpt2", byte_level()
    yield "o200k", byte_level(added_tokens=added, pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": O200K}, "behavior": "Removed", "invert": True},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]})
    yield "cuts", byte_level(added_tokens=added, pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "[\u4e00-\u9fff\\u0e40-\\x{e7f}\u00e9]+"}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}, {"type": "Digits", "individual_digits": False},
        {"type": "Split", "pattern": {"Regex": "[0-9][0-9][0-9]"}, "behavior": "Isolated", "invert": False}]})
    yield "qwen", byte_level(added_tokens=added, normalizer={"type": "NFC"}, post_processor=template, pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]})
    steps = [{"type": name} for name in ("NFD", "NFKC", "NFKD", "Lowercase")] + [
        {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Replace", "pattern": {"String": "``"}, "content": '"'}, {"type": "Prepend", "prepend": "x"}]
    splits = [{"type": "Split", "pattern": {"String": letter}, "behavior": behavior, "invert": behavior == "Contiguous"} for letter, behavior in
              zip("aeiou", ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"))]
    yield "stages", byte_level(added_tokens=added, normalizer={"type": "Sequence", "normalizers": steps}, pre_tokenizer={"type": "Sequence", "pretokenizers": [
        *splits, {"type": "Digits", "individual_digits": True}, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}]})
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, **{f"<0x{byte:02X}>": 3 + byte for byte in range(256)}, "\u2581": 259, "t": 260, "h": 261, "e": 262, "th": 263, "\u2581th": 264}
    names = [{"id": number, "content": content, "special": True} for number, content in enumerate(("<unk>", "<s>", "</s>"))]
    yield "llama2", byte_level(added_tokens=names, pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False},
                               decoder={"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
                                                                         {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
                               model={"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": vocab,
                                      "merges": ["t h", "\u2581 th"]})


    named = {"added_tokens": [{"id": number, "content": content, "special": True} for number, content in enumerate(("[UNK]", "[CLS]", "[SEP]"))]}
    yield "bert", byte_level(**named, normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
                             pre_tokenizer={"type": "BertPreTokenizer"}, decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
                             post_processor={"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
                             model={"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 5,
                                    "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "the": 3, "th": 4, "##e": 5, "cafe": 6, "1": 7, "##2": 8}})
    steps = [{"type": "Nmt"}, {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(character_map()).decode()},
             {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"}]
    yield "mapped", byte_level(added_tokens=names, normalizer={"type": "Sequence", "normalizers": steps}, pre_tokenizer={"type": "CharDelimiterSplit", "delimiter": "t"},
                               decoder={"type": "BPEDecoder", "suffix": "</w>"},
                               model={"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "end_of_word_suffix": "</w>", "continuing_subword_prefix": "##",
                                      "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2, "h": 3, "##e": 4, "##e</w>": 5, "he</w>": 6, "b": 7}, "merges": [["h", "##e</w>"]]})
    pieces = [["<unk>", 0.0], ["\u2581", -2.0], ["\u2581th", -1.5], ["e", -3.0], ["the", -2.5], ["he", -2.5], ["\u2581the", -4.0]]
    yield "unigram", byte_level(pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
                                decoder={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
                                model={"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": False})


def character_map():
    """A compiled map of one text, A, that becomes b and an accent: a double array and its texts."""
    units = [0] * 0x42
    units[0] = 1 << 10
    units[0x40] = 1 << 10 | 1 << 8 | 0x41
    units[0x41] = 1 << 31 | 2
    return struct.pack("<I66I", 4 * len(units), *units) + "x\0b\u0301\0".encode()


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """Of a protobuf message: a number, a float or bytes."""
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value) if isinstance(value, int) else varint(number << 3 | 2) + varint(len(value)) + value


def sentencepiece(kind, pieces, byte_fallback, mapped=False):
    """A tokenizer.model: pieces of a text, a score and a type. `mapped`: with a map of characters, and white space is joined."""
    out = b"".join(field(1, field(1, text.encode()) + field(2, float(score)) + field(3, kind_of_piece)) for text, score, kind_of_piece in pieces)
    return out + field(2, field(3, kind) + field(35, int(byte_fallback)) + field(40, 0) + field(41, 1) + field(42, 2)) + field(3, (field(2, character_map()) if mapped else b"") + field(3, 1)
                                                                                                                           + field(4, int(mapped)) + field(5, 1))


def sentencepieces():
    marks = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3)]
    single = [("\u2581", -9, 1), ("t", -10, 1), ("h", -11, 1), ("e", -12, 1), ("th", -1, 1), ("\u2581th", -2, 1), ("he", -3, 1), ("xy", 0, 4), ("old", 0, 5)]
    yield "bpe.model", sentencepiece(2, marks + [(f"<0x{byte:02X}>", 0, 6) for byte in range(256)] + single, True)
    yield "unigram.model", sentencepiece(1, marks + single, False)
    yield "mapped.model", sentencepiece(2, marks + single, False, mapped=True)


def ranks():
    """A list of tokens by rank: every byte, then tokens that are made of two others in one way, in two and in none."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"th", b"he", b"the", b" the", b"xyz"]
    yield "llama", "".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)).encode()
    yield "gaps", "".join(f"{base64.b64encode(token).decode()} {3 * rank + 1}\r\n\r\n" for rank, token in enumerate(tokens)).encode()


def header(tensors, size):
    return struct.pack("<q", size) + json.dumps(tensors).encode()


def seeds():
    yield "config", "llama3.json", config("llama", rope_theta=5e5, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, rope_scaling={
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 256})
    yield "config", "mistral.json", config("mistral", sliding_window=512, head_dim=32)
    yield "config", "qwen2.json", config("qwen2", use_sliding_window=True, sliding_window=512, max_window_layers=1, rope_scaling={
        "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256, "beta_fast": 16, "mscale": 1.0, "mscale_all_dim": 0.7, "truncate": False})
    yield "config", "qwen3.json", config("qwen3", head_dim=16, use_sliding_window=True, sliding_window=64, layer_types=["full_attention", "sliding_attention"],
                                         rope_parameters={"rope_type": "dynamic", "rope_theta": 1e6, "factor": 2.0, "partial_rotary_factor": 0.5})
    yield "config", "longrope.json", config("llama", rope_parameters={"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8,
                                                                      "original_max_position_embeddings": 256, "attention_factor": 1.2})
    yield "config", "gemma3.json", config("gemma3_text", head_dim=32, rope_theta=1e6, rope_local_base_freq=1e4, sliding_window=64, sliding_window_pattern=2,
                                          rope_scaling={"rope_type": "linear", "factor": 8.0}, query_pre_attn_scalar=32, final_logit_softcapping=30.0)
    yield "config", "gemma3_with_images.json", json.dumps({"model_type": "gemma3", "tie_word_embeddings": True, "vision_config": {"hidden_size": 16}, "text_config": dict(
        hidden_size=64, intermediate_size=96, num_hidden_layers=2, sliding_window=64, rope_scaling={"rope_type": "linear", "factor": 8.0})}).encode()
    yield "config", "phi3_yarn.json", config("phi3", original_max_position_embeddings=256, rope_scaling={"type": "yarn", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8})
    yield "config", "gpt_neox.json", config("gpt_neox", rotary_pct=0.25, rotary_emb_base=10000, layer_norm_eps=1e-5, use_parallel_residual=True)
    yield "config", "smollm3.json", config("smollm3", no_rope_layers=[1, 0], use_sliding_window=True, sliding_window=64)
    yield "config", "gpt2.json", json.dumps(dict(model_type="gpt2", n_embd=64, n_layer=2, n_head=4, n_positions=128, vocab_size=100, scale_attn_by_inverse_layer_idx=True)).encode()
    yield "config", "mixtral.json", config("mixtral", num_local_experts=4, num_experts_per_tok=2)
    yield "config", "gpt_oss.json", config("gpt_oss", num_local_experts=4, num_experts_per_tok=2, head_dim=16, rope_scaling={"rope_type": "yarn", "factor": 4.0},
                                           quantization_config={"quant_method": "mxfp4"}, layer_types=["sliding_attention", "full_attention"])
    yield "config", "deepseek_v3.json", config("deepseek_v3", q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, n_routed_experts=8,
                                               num_experts_per_tok=2, moe_intermediate_size=8, n_shared_experts=1, first_k_dense_replace=1, n_group=2, topk_group=1)
    yield "config", "qwen3_next.json", config("qwen3_next", head_dim=16, layer_types=["linear_attention", "full_attention"], num_experts=4, num_experts_per_tok=2,
                                              moe_intermediate_size=8, mlp_only_layers=[0])
    yield "config", "chatglm.json", json.dumps(dict(model_type="chatglm", hidden_size=64, ffn_hidden_size=96, num_layers=2, num_attention_heads=4, kv_channels=16,
                                                    padded_vocab_size=100, seq_length=128, multi_query_attention=True, multi_query_group_num=2, rope_ratio=2)).encode()
    yield "config", "qwen.json", json.dumps(dict(model_type="qwen", hidden_size=64, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4, kv_channels=16, vocab_size=100,
                                                 seq_length=128, layer_norm_epsilon=1e-6, rotary_emb_base=10000, rotary_pct=1.0, no_bias=True)).encode()
    yield "config", "exaone4.json", config("exaone4", sliding_window=64, sliding_window_pattern="LG")
    yield "config", "lfm2.json", config("lfm2", layer_types=["conv", "full_attention"], conv_L_cache=3, conv_bias=True, block_ff_dim=96, block_multiple_of=16,
                                        block_ffn_dim_multiplier=1.5, tie_embedding=True)
    yield "config", "lfm2_indices.json", config("lfm2", full_attn_idxs=[1], block_auto_adjust_ff_dim=False)
    yield "config", "gemma3n.json", json.dumps(dict(model_type="gemma3n", text_config=json.loads(config(
        "gemma3n_text", layer_types=["sliding_attention", "full_attention"], intermediate_size=[96, 64], activation_sparsity_pattern=[0.5, 0.0], num_kv_shared_layers=0,
        altup_num_inputs=2, altup_active_idx=1, altup_correct_scale=False, laurel_rank=4, hidden_size_per_layer_input=8, vocab_size_per_layer_input=100)))).encode()
    yield "config", "mimo_v2_flash.json", config("mimo_v2_flash", num_key_value_heads=1, head_dim=24, v_head_dim=16, sliding_window_size=63, swa_rope_theta=10000, n_routed_experts=4,
                                                 num_experts_per_tok=2, moe_intermediate_size=8, attention_value_scale=0.5, routed_scaling_factor=None,
                                                 hybrid_layer_pattern=[0, 1], moe_layer_freq=[0, 1], layernorm_epsilon=1e-5, swa_num_key_value_heads=2, swa_head_dim=24)
    yield "config", "deepseek_v32.json", config("deepseek_v32", q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, n_routed_experts=8,
                                                num_experts_per_tok=2, moe_intermediate_size=8, n_shared_experts=1, first_k_dense_replace=1, n_group=2, topk_group=1,
                                                layer_types=["indexed_attention"] * 2, index_topk=32, index_n_heads=4, index_head_dim=16)
    for name, data in sentencepieces():
        yield "pieces", name, data
    for name, data in ranks():
        yield "ranks", name, data
    yield "ends", "names.json", json.dumps({"add_bos_token": True, "added_tokens_decoder": {"261": {"content": "<|end|>", "special": True, "lstrip": False, "rstrip": False,
                                                                                                   "normalized": False, "single_word": True}}}).encode()
    for name, spec in tokenizers():
        text = json.dumps(spec, ensure_ascii=False, separators=(",", ":")).encode()
        yield "tokenizer", name + ".json", text
        yield "words", name, text + b"\0" + "the  cafe\u0301 <|end|> 12 \ufb01n\n``x'll  ".encode() + b"\xff\xc3"
    yield "safetensors", "tensors", header({"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
                                            "b": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]}, "c": {"dtype": "U8", "shape": [0], "data_offsets": [26, 26]}}, 26)
    yield "prompt", "words", "the cat <s> na\u00efve \u4f60\u597d 123's\r\n\t  x".encode() + b"\xff\xe2\x82"


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    for kind, name, data in seeds():
        folder = root / f"model_{kind}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
