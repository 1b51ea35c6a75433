"""Token ids of many strings by the `tokenizers` library, for tests/capture/tokenizer_test.cpp.

    tokenizer_cases.py MODEL_DIR OUT_DIR PROSE

Writes OUT_DIR/<kind>/tokenizer.json for three splits over the checkpoint's vocabulary (its own; GPT-2's; Llama 3's with ignore_merges) and
OUT_DIR/cases.json: [{"tokenizer", "text" (hex of UTF-8), "ids", "ids_special"}].
"""
import json
import os
import random
import sys
import unicodedata

from tokenizers import Tokenizer

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def variants(model_dir):
    own = json.load(open(os.path.join(model_dir, "tokenizer.json")))
    yield "own", own
    gpt2 = json.loads(json.dumps(own))
    gpt2["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    gpt2["post_processor"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    yield "gpt2", gpt2
    llama3 = json.loads(json.dumps(own))
    llama3["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = LLAMA3
    llama3["model"]["ignore_merges"] = True
    llama3["model"]["merges"] = [" ".join(pair) for pair in llama3["model"]["merges"]]
    yield "llama3", llama3


def texts():
    rng = random.Random(20240607)
    # Characters that have existed since Unicode 14, so that libraries of different ages agree on their classes.
    assigned = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    yield from ["", " ", "  ", "\n", "\r\n", "\t\t x", "a", " a", "a ", "Hello, world!", "I'm you'LL they'Ve 'S 't", "don'\u017f K\u212a",
                "1", "12345678901", "3.14159e-10", "a1b22c333d4444", "x = y\n\n\n  z", "tab\tand\vvertical\fform", "\u00a0\u2003\u3000\u1680\u0085\u180ex \u200b y",
                "<s>", "</s>x<s> <s", "<<s>>", "na\u00efve caf\u00e9 cafe\u0301", "\u4f60\u597d\u4e16\u754c \u3053\u3093\u306b\u3061\u306f \uc548\ub155",
                "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0928\u092e\u0938\u094d\u0924\u0947 \u0645\u0631\u062d\u0628\u0627", "\u2167 \u00bd \u0664\u0665 \u00b2",
                " " * 1000, "\n" * 1000, "a" * 5000, " x" * 500, "=" * 777 + "\r\n", "\x00\x01\x7f\ufeff\ufffd"]
    for _ in range(300):
        yield "".join(rng.choice(assigned) for _ in range(rng.randrange(1, 40)))
    mix = list(" \t\n\r\v\f\u0085\u00a0\u2028\u3000'sStTdD.,!?<>/=0129abcXYZ\u00e9\u4e2d\u0301\u0661\U0001f600\u017f\u212a")
    for _ in range(600):
        yield "".join(rng.choice(mix) for _ in range(rng.randrange(1, 60)))
    for _ in range(100):
        yield bytes(rng.randrange(256) for _ in range(rng.randrange(1, 60))).decode("utf-8", "replace")


def main():
    model_dir, out_dir, prose = sys.argv[1:4]
    cases = []
    long_text = (open(prose, encoding="utf-8").read() * 3)[:400_000]
    for kind, spec in variants(model_dir):
        folder = os.path.join(out_dir, kind)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "tokenizer.json")
        json.dump(spec, open(path, "w"))
        tokenizer = Tokenizer.from_file(path)
        for text in [*texts(), long_text]:
            cases.append({"tokenizer": kind, "text": text.encode().hex(), "ids": tokenizer.encode(text, add_special_tokens=False).ids,
                          "ids_special": tokenizer.encode(text, add_special_tokens=True).ids[:4]})
    json.dump(cases, open(os.path.join(out_dir, "cases.json"), "w"))


main()
