# SPDX-License-Identifier: Apache-2.0
"""Token ids of many strings by the `tokenizers` library (0.23.3), by `sentencepiece` (0.2.3) and by `tiktoken` (0.14.0), for tests/model/tokenizer_test.cpp.

    tokenizer_cases.py MODEL_DIR OUT_DIR PROSE [STRINGS [KIND...]]

Writes for each of the tokenizers below OUT_DIR/<kind>/tokenizer.json, tokenizer.model, qwen.tiktoken or tiktoken.model, and OUT_DIR/<kind>/cases.bin: per case the length of the text (u32),
its UTF-8, the number of ids (u32), the ids (i32), of a text of at most 1,000 bytes the same for at most four ids with special tokens, and like the text that which
the library makes of the ids again. Three kinds are splits over the checkpoint's own vocabulary; the others are trained here, in the forms that models are published in. The kinds
of cross/ join every normalizer, every pre-tokenizer and every model with each other.

STRINGS: how many random strings there are for each kind, 1000 unless said otherwise. A run with kinds makes these alone. The long form, by hand:

    tokenizer_cases.py data/reference_model FOLDER data/prompts/prose.txt 20000
    HEADSCOPE_TOKENIZER_CASES=FOLDER ctest --test-dir build/release -R model_tokenizer_test
"""
import base64
import io
import itertools
import json
import os
import random
import re
import struct
import sys
import unicodedata

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # threads for a hundred short texts cost more than they bring

import later_characters
import sentencepiece
import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LATER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../model/tokenizer/later_characters.cpp")

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + REST
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + REST
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# As tiktoken's o200k_base is written in tokenizer.json, of GPT-OSS among others.
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# Kimi K2's, by tokenization_kimi.py beside its weights.
NOT_HAN = r"&&[^\p{Han}]"
KIMI = (rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{UPPER[:-1]}{NOT_HAN}]*{LOWER[:-1]}{NOT_HAN}]+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER[:-1]}{NOT_HAN}]+{LOWER[:-1]}{NOT_HAN}]*{CONTRACTIONS}?"
        rf"|\p{{N}}{{1,3}}|{REST}")
DEEPSEEK = (r"[!" + '"' + r"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^" + "\r\n" + r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[" + "\r\n" + r"]*|\s*["
            + "\r\n" + r"]+|\s+(?!\S)|\s+")

# Splits that are written for Oniguruma alone, and others that were refused once.
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
FALCON = "[0-9][0-9][0-9]"
GPT2_SHORT = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
SEED_CODER = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}" + "\r\n" + r"]+|\s*[" + "\r\n" + r"]+|\s+(?!\S)|\s+"
DIGITS_FROM_END = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"
# Han, kana, Thai from its vowels on, Lao, Khmer, Myanmar and Hangul by their blocks, somewhat as Trinity's: any such class is read.
ASIAN = ("[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f"
         "\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+")

# DeepSeek V2's letters: those that have a case in its makers' Unicode.
CASED = "".join("-".join(chr(int(code, 16)) for code in part.split("-")) for part in (
    "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 388-38A 38C 38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 "
    "10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B 1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC "
    "1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B "
    "2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF 1E900-1E943 ").split())
DEEPSEEK_V2 = ["[\r\n]", rf"\s?[{CASED}]+", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"]
DEEPSEEK_CODER = ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern) if isinstance(pattern, str) else pattern[0], behavior, invert)


def byte_level(prefix=False, regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def trained(prose, steps, normalizer=None, ignore_merges=False):
    """Byte-level BPE of a few hundred merges, with the stages given."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([prose], trainers.BpeTrainer(vocab_size=900, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return tokenizer


def with_double_space(tokenizer):
    """The same with a token of two spaces, by which one sees whether a split kept them apart."""
    spec = json.loads(tokenizer.to_str())
    spec["model"]["vocab"]["\u0120\u0120"] = len(spec["model"]["vocab"])
    spec["model"]["merges"].append(["\u0120", "\u0120"])
    return Tokenizer.from_str(json.dumps(spec))


def trained_across(steps):
    """The same, of merges that reach over the cuts of these steps: learnt without them, from a text in which characters of every kind stand side by side."""
    characters = list("0129abcXYZ '.\u00e9\u4e2d\u0301\u0661\u00b2\u00bd\uff9e\u30ab\uac00\u3099\U0001f600")
    tokenizer = trained("".join(random.Random(5).choices(characters, k=50_000)), [pre_tokenizers.Split(" ", "merged_with_next"), byte_level()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    return tokenizer


def over_characters(prose, legacy, **options):
    """The form of Llama 2 and Mistral 7B: BPE over characters, with tokens for bytes; the older files spell the mark by a normalizer."""
    options = {"fuse_unk": True, "byte_fallback": True, **options}
    marks = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    base = Tokenizer(models.BPE())
    base.normalizer = marks
    base.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    base.train_from_iterator(prose.split("\n"), trainers.BpeTrainer(vocab_size=700, show_progress=False))
    own = json.loads(base.to_str())["model"]
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, **{f"<0x{byte:02X}>": 3 + byte for byte in range(256)}}
    for text in own["vocab"]:
        vocab.setdefault(text, len(vocab))
    tokenizer = Tokenizer(models.BPE(vocab, [tuple(pair) for pair in own["merges"]], unk_token="<unk>", **options))
    if legacy:
        tokenizer.normalizer = marks
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return tokenizer


def with_byte_names(tokenizer):
    """As a trainer leaves it, which takes the names of bytes as special tokens alone."""
    tokenizer.add_special_tokens([f"<0x{byte:02X}>" for byte in range(256)])
    return tokenizer


def without_decoder(prose):
    """The first tokenizer of that library's own introduction."""
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator([prose], trainers.BpeTrainer(vocab_size=900, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    return tokenizer


# Forms without a decoder whose text headscope puts together all the same; in that library these decoders do it.
JOINED = {
    "bytes_without_decoder": decoders.ByteLevel(),
    "marks_without_decoder": decoders.Sequence([decoders.Replace("\u2581", " "), decoders.Fuse()]),
    "fallback_without_decoder": decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]),
    "suffix_without_decoder": decoders.Sequence([decoders.Replace("</w>", " "), decoders.Fuse()]),
}


def undecoded(tokenizer):
    tokenizer.decoder = None
    return tokenizer


def gemma(prose):
    """BPE over characters without a mark before the text, whose names hold line breaks and marks."""
    tokenizer = over_characters(prose, legacy=True)
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(["<bos>", "<start_of_turn>"])
    tokenizer.add_tokens([AddedToken("\n" * count, normalized=False) for count in range(1, 6)] + [AddedToken("\u2581" * count, normalized=False) for count in range(2, 6)]
                         + [AddedToken("<table>", normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", tokenizer.token_to_id("<bos>"))])
    return tokenizer


def marked(prose, byte_alphabet, **options):
    """BPE whose tokens say by a suffix that they end a word, as those of the first GPT and of CLIP do, or by a prefix that they continue one."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", **options))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True) if not byte_alphabet else normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = byte_level(regex=True) if byte_alphabet else pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.ByteLevel() if byte_alphabet else decoders.BPEDecoder(suffix="</w>")
    alphabet = pre_tokenizers.ByteLevel.alphabet() if byte_alphabet else []
    tokenizer.train_from_iterator([prose], trainers.BpeTrainer(vocab_size=1100, special_tokens=["<unk>"], initial_alphabet=alphabet, show_progress=False, **options))
    return tokenizer


def word_piece(prose, longest=100, **options):
    """BERT's form, trained on words."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=longest))
    tokenizer.normalizer = normalizers.BertNormalizer(**options)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator([prose], trainers.WordPieceTrainer(vocab_size=900, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[SEP]", "[CLS]")]
    tokenizer.post_processor = processors.BertProcessing(*ends)
    return tokenizer


def unigram(prose, pre_tokenizer, byte_fallback=False, normalizer=None):
    """The form of T5 and XLM-R, without the characters' map that those have."""
    base = Tokenizer(models.Unigram())
    base.normalizer, base.pre_tokenizer = normalizer, pre_tokenizer
    base.train_from_iterator(prose.split("\n"), trainers.UnigramTrainer(vocab_size=700, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False))
    own = json.loads(base.to_str())["model"]["vocab"]
    if byte_fallback:
        own += [[f"<0x{byte:02X}>", -20.0] for byte in range(256)]
    tokenizer = Tokenizer(models.Unigram([tuple(entry) for entry in own], unk_id=0, byte_fallback=byte_fallback))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return tokenizer


def word_level(prose):
    """Whole words alone, each of them a run of one script."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.UnicodeScripts(), pre_tokenizers.WhitespaceSplit()])
    tokenizer.train_from_iterator(prose.split("\n"), trainers.WordLevelTrainer(vocab_size=900, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return tokenizer


def bytes_by_normalizer(prose):
    """BPE over the characters that a normalizer spells bytes in, in pieces of one length."""
    return trained(prose, [pre_tokenizers.FixedLength(7)], normalizers.Sequence([normalizers.NFC(), normalizers.ByteLevel()]))


def pieces(prose, normalization, **options):
    """A tokenizer.model that the sentencepiece library trained."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(prose.split("\n")), model_writer=out, vocab_size=options.pop("vocab_size", 600),
                                             normalization_rule_name=normalization, hard_vocab_limit=False, num_threads=1, minloglevel=2, **options)
    return out.getvalue()


def character_map(model):
    """The map of characters of a tokenizer.model, as a tokenizer.json holds it."""
    def fields(message):
        at = 0

        def varint():
            nonlocal at
            value = shift = 0
            while True:
                value |= (message[at] & 127) << shift
                at, shift = at + 1, shift + 7
                if message[at - 1] < 128:
                    return value
        while at < len(message):
            key = varint()
            if key & 7 == 2:
                length = varint()
                yield key >> 3, message[at:at + length]
                at += length
            elif key & 7 == 5:
                at += 4
            else:
                varint()
    return next(part for number, message in fields(model) if number == 3 for field, part in fields(message) if field == 2)


def with_added(tokenizer):
    """Names with every flag, some of which begin and end alike."""
    tokenizer.add_special_tokens(["<|end|>", "<|endoftext|>", AddedToken("<|left|>", lstrip=True), AddedToken("<|right|>", rstrip=True),
                                  AddedToken("<|both|>", lstrip=True, rstrip=True)])
    tokenizer.add_tokens([AddedToken("word", single_word=True), AddedToken("Caf\u00c9", normalized=True), AddedToken("\ufb01n", normalized=True),
                          AddedToken("ABAB", normalized=False), AddedToken("AB", normalized=False), AddedToken("  ", normalized=False)])
    return tokenizer


LETTERS = ["\u00e9", "\u0120", "\u0120the", "\u00c3", "\u00a9", "\u010a", "\u0141", "\u00e9!", "q", "\u0120of", "<|\u00e9|>"]


def with_letters(tokenizer):
    """Names that are, as the vocabulary spells it, a byte or several: in a text they stand for themselves, and the bytes keep their tokens."""
    tokenizer.add_tokens([AddedToken(name, normalized=False) for name in LETTERS[:6]] + [AddedToken(LETTERS[6], lstrip=True, normalized=False), AddedToken(LETTERS[7], single_word=True)])
    tokenizer.add_special_tokens(LETTERS[8:])
    return tokenizer


def among_letters(seed, texts):
    """The texts with these names, and what they are as bytes, at places in them."""
    rng = random.Random(seed)
    parts = [*LETTERS, " the", " ", "\u00c3\u00a9", "\u99c1", "\n"]
    for text in texts:
        for _ in range(rng.randrange(4)):
            place = rng.randrange(len(text) + 1)
            text = text[:place] + rng.choice(parts) + text[place:]
        yield text


def later_texts(seed, count):
    """Texts of characters that a host's own tables may not know."""
    rng = random.Random(1000 + seed)
    ranges = [(first, last) for first, last, _ in later_characters.ranges_in(LATER)]  # most of their characters are of few of them
    now = ["\U0001fae8", "\U0001fa77", "\U0001fadc", *list("aZ1 .'\u00e9\u4e2d\n"), "  "]
    for _ in range(count):
        yield "".join(chr(rng.randint(*rng.choice(ranges))) if rng.random() < 0.4 else rng.choice(now) for _ in range(rng.randrange(1, 30)))


def variants(model_dir, prose):
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
    digits = pre_tokenizers.Digits
    lower = normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase(), normalizers.Strip(), normalizers.Replace("``", '"')])
    for kind, tokenizer in {
        "qwen": with_added(trained(prose, [split(QWEN2), byte_level()], normalizers.NFC())),
        "llama3_trained": with_added(trained(prose, [split(LLAMA3), byte_level()], ignore_merges=True)),
        "gpt2_prefix": with_added(trained(prose, [byte_level(prefix=True, regex=True)])),
        "tekken": trained(prose, [split(TEKKEN), byte_level()]),
        "o200k": trained(prose, [split(O200K), byte_level()], ignore_merges=True),
        "o200k_removed": with_added(trained(prose, [split(O200K, "removed", True), byte_level()])),
        "kimi": trained(prose, [split(KIMI), byte_level()], ignore_merges=True),
        "deepseek": trained(prose, [split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), split(DEEPSEEK), byte_level()]),
        "deepseek_v2": with_double_space(trained(prose, [*map(split, DEEPSEEK_V2), digits(individual_digits=True), byte_level()])),
        "deepseek_coder": trained(prose, [*map(split, DEEPSEEK_CODER), digits(individual_digits=True), byte_level()]),
        "bloom": trained(prose, [split(BLOOM), byte_level()]),
        "falcon": trained(prose, [pre_tokenizers.Punctuation("contiguous"), digits(individual_digits=False), split(FALCON), byte_level(regex=True)]),
        "falcon_own": trained_across([pre_tokenizers.Punctuation("contiguous"), byte_level(regex=True), digits(individual_digits=False), split(FALCON)]),
        "digits_of_bytes": trained_across([byte_level(regex=False), digits(individual_digits=True), split(FALCON, "removed")]),
        "gpt2_short": trained(prose, [split(GPT2_SHORT), byte_level()]),
        "cl100k": trained(prose, [split(CL100K), byte_level()]),
        "seed_coder": trained(prose, [split(SEED_CODER), byte_level()]),
        "letters": with_letters(trained(prose, [byte_level(regex=True)])),
        "letters_whole": with_letters(trained(prose, [split(LLAMA3), byte_level()], ignore_merges=True)),
        "letters_composed": with_letters(trained(prose, [split(QWEN2), byte_level()], normalizers.NFC())),
        "letters_by_normalizer": with_letters(bytes_by_normalizer(prose)),
        "digits_from_end": trained(prose, [split(DIGITS_FROM_END), split(O200K), byte_level()]),
        "scripts_by_range": trained_across([split(DIGITS_FROM_END), split(ASIAN), split(DEEPSEEK), byte_level()]),
        "scripts_by_escapes": trained_across([split(r"[\u3040-\u30FF\x{e40}-\x{E7f}\x{20000}-\x{2FFFF}\u00E9]+", "removed"), byte_level()]),
        "line_ends": trained(prose, [split(r"\s+$", "contiguous"), split(r"\s?\p{P}+"), byte_level()]),
        "nfd_digits": trained(prose, [digits(individual_digits=True), byte_level(regex=True)], normalizers.NFD()),
        "nfkc_digits": trained(prose, [digits(individual_digits=False), byte_level(prefix=True, regex=True)], normalizers.NFKC()),
        "nested": trained(prose, [pre_tokenizers.Sequence([digits(individual_digits=True), split(r"\s+")]), byte_level(regex=True)],
                          normalizers.Sequence([normalizers.Sequence([normalizers.NFC()]), normalizers.Lowercase()])),
        "nfkd_lower": with_added(trained(prose, [byte_level(regex=True)], lower)),
        "behaviors": trained(prose, [split(r"\s+", "removed"), split(["a"], "merged_with_previous"), split(["e"], "merged_with_next"),
                                     split(r"\p{N}", "contiguous"), split(["o"], "contiguous", True), byte_level()]),
        "llama2": over_characters(prose, legacy=True),
        "gemma": gemma(prose),
        "unknown": over_characters(prose, legacy=True, byte_fallback=False),
        "unknown_apart": over_characters(prose, legacy=False, byte_fallback=False, fuse_unk=False),
        "byte_names": with_byte_names(over_characters(prose, legacy=False)),
        "without_decoder": without_decoder(prose),
        "whole_pieces": over_characters(prose, legacy=False, ignore_merges=True),
        "gpt1": marked(prose, False, end_of_word_suffix="</w>"),
        "clip": marked(prose, True, end_of_word_suffix="</w>"),
        "continued": marked(prose, False, continuing_subword_prefix="##", end_of_word_suffix="</w>"),
        "xlm_roberta": unigram(prose, pre_tokenizers.Metaspace(prepend_scheme="always"), normalizer=normalizers.Sequence(
            [normalizers.Precompiled(character_map(pieces(prose, "nmt_nfkc", model_type="unigram"))), normalizers.Strip(left=False, right=True),
             normalizers.Replace(Regex(" {2,}"), "\u2581")])),
        "mistral": over_characters(prose, legacy=False),
        "word_level": with_added(word_level(prose)),
        "bytes_by_normalizer": bytes_by_normalizer(prose),
        "bert": word_piece(prose, lowercase=True),
        "bert_cased": with_added(word_piece(prose, lowercase=False, strip_accents=True)),
        "bert_whole": word_piece(prose, longest=7, clean_text=False, handle_chinese_chars=False, lowercase=True, strip_accents=False),
        "unigram": with_added(unigram(prose, pre_tokenizers.Metaspace(prepend_scheme="first"))),
        "unigram_bytes": unigram(prose, pre_tokenizers.Metaspace(prepend_scheme="always", split=False), byte_fallback=True),
        "unigram_whitespace": unigram(prose, pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation()]),
                                      normalizer=normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()])),
    }.items():
        yield kind, json.loads(tokenizer.to_str())
    yield "sentencepiece", merges_of_pieces(json.loads(over_characters(prose, legacy=True).to_str()))
    yield from ((kind, json.loads(undecoded(tokenizer).to_str())) for kind, tokenizer in {
        "bytes_without_decoder": trained(prose, [byte_level(regex=True)]),
        "marks_without_decoder": over_characters(prose, legacy=False, byte_fallback=False),
        "fallback_without_decoder": over_characters(prose, legacy=True),
        "suffix_without_decoder": marked(prose, byte_alphabet=False, end_of_word_suffix="</w>"),
    }.items())


def sentencepiece_file(own):
    """The same tokenizer as a tokenizer.model: scores that fall with the rank of the merge that makes a piece."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "corpus"))
    import model_seeds
    vocab = sorted(own["model"]["vocab"], key=own["model"]["vocab"].get)
    rank = {}
    for number, pair in enumerate(own["model"]["merges"]):
        rank.setdefault("".join(pair), number)
    kinds = {"<unk>": 2, "<s>": 3, "</s>": 3}
    pieces = [(text, 0 if kinds.get(text) else -float(rank.get(text, 1e6)), kinds.get(text, 6 if text.startswith("<0x") else 1)) for text in vocab]
    return model_seeds.sentencepiece(2, pieces, True)


def merges_of_pieces(own):
    """Every way to make a piece of two others, in the order of the pieces: what a tokenizer.model means, as a tokenizer.json."""
    rank = {}
    for number, pair in enumerate(own["model"]["merges"]):
        rank.setdefault("".join(pair), number)
    vocab = own["model"]["vocab"]
    ways = [(rank[text], cut, text) for text in rank for cut in range(1, len(text)) if text[:cut] in vocab and text[cut:] in vocab]
    own["model"]["merges"] = [[text[:cut], text[cut:]] for _, cut, text in sorted(ways)]
    return own


def library_models(prose):
    """Tokenizers of the sentencepiece library; all but the last three join white space."""
    yield "pieces_bpe", pieces(prose, "nmt_nfkc", model_type="bpe", user_defined_symbols=["word", "ABAB", "AB", "\n"])
    yield "pieces_bpe_bytes", pieces(prose, "nfkc", model_type="bpe", byte_fallback=True, vocab_size=900)
    yield "pieces_unigram", pieces(prose, "nmt_nfkc_cf", model_type="unigram", user_defined_symbols=["word"])
    yield "pieces_unigram_bytes", pieces(prose, "nmt_nfkc", model_type="unigram", byte_fallback=True, vocab_size=900, add_dummy_prefix=False)
    yield "pieces_llama", pieces(prose, "identity", model_type="bpe", byte_fallback=True, vocab_size=900, remove_extra_whitespaces=False, split_digits=True)
    yield "pieces_chatglm", pieces(prose, "identity", model_type="bpe", byte_fallback=True, vocab_size=900, remove_extra_whitespaces=False)
    yield "pieces_gemma", pieces(prose, "identity", model_type="bpe", byte_fallback=True, vocab_size=900, remove_extra_whitespaces=False, add_dummy_prefix=False,
                                 user_defined_symbols=["\u2581" * count for count in range(2, 6)] + ["\n", "\n\n", "<table>"])


def llama_names(version):
    """The 256 names of Meta's release 3, or of 3.1 and later, in the order of their ids."""
    def reserved(first, end):
        return [f"<|reserved_special_token_{number}|>" for number in range(first, end)]
    if version == "3":
        return ["<|begin_of_text|>", "<|end_of_text|>", *reserved(0, 4), "<|start_header_id|>", "<|end_header_id|>", *reserved(4, 5), "<|eot_id|>", *reserved(5, 251)]
    return ["<|begin_of_text|>", "<|end_of_text|>", *reserved(0, 2), "<|finetune_right_pad_id|>", *reserved(2, 3), "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>",
            "<|eot_id|>", "<|python_tag|>", *reserved(3, 248)]


def ranked(prose):
    """Lists of tokens by rank: (kind, file, bytes, names that its tokenizer_config.json gives or None, tiktoken's tokenizer, names before a prompt)."""
    glm = ["<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"]
    qwen = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{number}|>" for number in range(205))]
    begin, start = ["<|begin_of_text|>"], ["[gMASK]", "<sop>"]
    # Names of some of the 256 ids behind the tokens; those between them have names by their number.
    kimi = {0: "[BOS]", 1: "[EOS]", 2: "<|im_end|>", 3: "<|im_user|>", 9: "[EOT]", 11: "<|tool_calls_section_begin|>", 254: "[UNK]", 255: "[PAD]"}
    for kind, pattern, names, beside, before in (("ranked_llama3", LLAMA3, llama_names("3"), False, begin), ("ranked_llama31", LLAMA3, llama_names("3.1"), False, begin),
                                                 ("ranked_llama_names", LLAMA3, ["<|eot_id|>", *begin], True, begin), ("ranked_glm", LLAMA3, glm, False, start),
                                                 ("ranked_glm_names", LLAMA3, [*glm, "<|begin_of_image|>"], True, start), ("ranked_qwen", QWEN2, qwen, False, []),
                                                 ("ranked_kimi", KIMI, kimi, True, [])):
        own = json.loads(trained(prose, [split(pattern), byte_level()]).to_str())["model"]["vocab"]
        letters = {letter: byte for byte, letter in enumerate(bytes_to_unicode())}
        ranks = {bytes(letters[letter] for letter in text): rank for text, rank in own.items()}
        special = {name: len(ranks) + number for number, name in (names.items() if isinstance(names, dict) else enumerate(names))}
        beside = special if beside else None
        if names is kimi:
            special = special | {f"<|reserved_token_{id}|>": id for id in range(len(ranks), len(ranks) + 256) if id not in special.values()}
        lines = b"".join(base64.b64encode(text) + b" %d\n" % rank for text, rank in ranks.items())
        yield (kind, {"ranked_qwen": "qwen.tiktoken", "ranked_kimi": "tiktoken.model"}.get(kind, "tokenizer.model"), lines, beside,
               tiktoken.Encoding(kind, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special), before)


def bytes_to_unicode():
    """The character that stands for each byte in a byte-level vocabulary: those that can be seen for themselves, the others from U+0100 on."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in seen else chr(next(others)) for byte in range(256)]


def stage(name, chosen):
    """A normalizer or pre-tokenizer as a tokenizer.json says it."""
    if chosen is None:
        return None
    tokenizer = Tokenizer(models.BPE())
    setattr(tokenizer, name, chosen)
    return json.loads(tokenizer.to_str())[name]


def cross(prose):
    """Every normalizer with every pre-tokenizer and every model, as texts of tokenizer.json."""
    small = prose[:20_000]
    in_bytes = trained(small, [byte_level(regex=True)])
    bases = {"bytes": json.loads(in_bytes.to_str()), "characters": json.loads(over_characters(small, legacy=True).to_str()),
             "unknown": json.loads(over_characters(small, legacy=True, byte_fallback=False, fuse_unk=False).to_str()),
             "words": json.loads(word_piece(small, lowercase=True).to_str()), "unigram": json.loads(unigram(small, pre_tokenizers.Metaspace()).to_str()),
             "level": json.loads(word_level(small).to_str())}
    blob = character_map(pieces(small, "nmt_nfkc", model_type="unigram", vocab_size=400))
    normalizers_of = {"none": None, "nfc": normalizers.NFC(), "nfd": normalizers.NFD(), "nfkc": normalizers.NFKC(), "nfkd": normalizers.NFKD(), "nmt": normalizers.Nmt(),
                      "lower": normalizers.Lowercase(), "strip": normalizers.Strip(), "left": normalizers.Strip(left=True, right=False), "accents": normalizers.StripAccents(),
                      "bert": normalizers.BertNormalizer(), "replace": normalizers.Replace("a", "\u00e4"), "spaces": normalizers.Replace(Regex(" {2,}"), "\u2581"),
                      "alphabet": normalizers.ByteLevel(), "prepend": normalizers.Prepend("\u2581"), "map": normalizers.Precompiled(blob),
                      "several": normalizers.Sequence([normalizers.Precompiled(blob), normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "\u2581")])}
    metaspace = pre_tokenizers.Metaspace
    steps_of = {"none": None, "bert": pre_tokenizers.BertPreTokenizer(), "space": pre_tokenizers.Whitespace(), "white": pre_tokenizers.WhitespaceSplit(),
                "punctuation": pre_tokenizers.Punctuation(), "contiguous": pre_tokenizers.Punctuation("contiguous"), "digits": pre_tokenizers.Digits(True),
                "numbers": pre_tokenizers.Digits(False), "delimiter": pre_tokenizers.CharDelimiterSplit("a"), "always": metaspace(prepend_scheme="always"),
                "first": metaspace(prepend_scheme="first"), "never": metaspace(prepend_scheme="never"), "whole": metaspace(prepend_scheme="first", split=False),
                "isolated": split(LLAMA3), "removed": split([" "], "removed"), "previous": split([" "], "merged_with_previous"), "next": split(r"\s+", "merged_with_next"),
                "scripts": pre_tokenizers.UnicodeScripts(), "fixed": pre_tokenizers.FixedLength(3), "inverted": split(r"\p{N}", "contiguous", True),
                "several": pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace(prepend_scheme="always")])}
    def in_bytes_of(step):
        return byte_level(prefix=True, regex=True) if step is None else pre_tokenizers.Sequence([step, byte_level()])

    normalizers_of = {name: stage("normalizer", one) for name, one in normalizers_of.items()}
    steps_in_bytes = {name: stage("pre_tokenizer", in_bytes_of(one)) for name, one in steps_of.items()}
    steps_of = {name: stage("pre_tokenizer", one) for name, one in steps_of.items()}
    for model, base in bases.items():
        vocabulary = json.dumps(base.pop("model"))  # most of each file, and the same one in 357
        for normal, normalizer in normalizers_of.items():
            for step, pre_tokenizer in (steps_in_bytes if model == "bytes" else steps_of).items():
                spec = json.dumps(base | {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer})
                yield f"cross/{model}-{normal}-{step}", f'{spec[:-1]}, "model": {vocabulary}}}'


def texts(seed, assigned, strings):
    rng = random.Random(seed)
    yield from ["", " ", "  ", "\n", "\r\n", "\t\t x", "a", " a", "a ", "Hello, world!", "I'm you'LL they'Ve 'S 't", "don'\u017f K\u212a",
                "1", "12345678901", "3.14159e-10", "a1b22c333d4444", "x = y\n\n\n  z", "tab\tand\vvertical\fform", "\u00a0\u2003\u3000\u1680\u0085\u180ex \u200b y",
                "<s>", "</s>x<s> <s", "<<s>>", "na\u00efve caf\u00e9 cafe\u0301", "\u4f60\u597d\u4e16\u754c \u3053\u3093\u306b\u3061\u306f \uc548\ub155",
                "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0928\u092e\u0938\u094d\u0924\u0947 \u0645\u0631\u062d\u0628\u0627", "\u2167 \u00bd \u0664\u0665 \u00b2",
                " " * 1000, "\n" * 1000, "a" * 5000, " x" * 500, "=" * 777 + "\r\n", "\x00\x01\x7f\ufeff\ufffd", "\u1100\u1161\u11a8\u11a8 \u1112\u1161\u11ab \uac00\u11a8",
                "\u1e9b\u0323 \u212b \u2126 \u0344 \ufb01 \ufdfa \uff9e\u30ab\uff9e \u0130I\u0307 \u03a3\u03c2", "a\u0315\u0300\u05ae\u0300b", "e\u0301" * 5000, "\u0301" * 300 + "a",
                "word sword words word_ _word word\u0301 w word", "ABABAB ABAABAB AABAB", "a  <|left|>  <|right|>  <|both|>  b", "<|endoftext|><|end|>oftext|><|endof",
                "  <|left|><|left|>  x<|right|>   <|left|>   y", "caf\u00c9 Cafe\u0301 CAF\u00c9 fin \ufb01n \ufb01\ufb01n", "``quoted`` `x"]
    for _ in range(strings // 3):
        yield "".join(rng.choices(assigned, k=rng.randrange(1, 40)))
    mix = list(" \t\n\r\v\f\u0085\u00a0\u2028\u3000'sStTdD.,!?<>/=0129abcXYZ\u00e9\u4e2d\u0301\u0661\U0001f600\u017f\u212a\u0323\u1161\u11a8\uac00\ufb01\u30ab\u3099\uff9e\u0308_`")
    names = ["<s>", "</s>", "<|end|>", "<|endoftext|>", "<|left|>", "<|right|>", "<|both|>", "word", "Caf\u00c9", "Cafe\u0301", "ABAB", "AB", "  ", "\u2581", "<0x41>"]
    shares = list(itertools.accumulate([0.9 / len(mix)] * len(mix) + [0.1 / len(names)] * len(names)))  # a tenth are names
    for _ in range(strings * 9 // 15):
        yield "".join(rng.choices(mix + names, cum_weights=shares, k=rng.randrange(1, 60)))
    for _ in range(strings // 15):
        text = rng.randbytes(rng.randrange(1, 60)).decode("utf-8", "replace")
        yield "".join(character if unicodedata.ucd_3_2_0.category(character) != "Cn" else "\ufffd" for character in text)


def slices(text):
    """Parts of 400,000 characters, each ended early where more than 25,000 characters of white space, or of others, follow each other: as the programs
    of Llama 3 and Kimi K2 do before they call tiktoken."""
    if len(text) <= 25_000:
        yield text
        return
    for part in (text[first:first + 400_000] for first in range(0, len(text), 400_000)):
        begin = 0
        for run in re.finditer(r"\s+|\S+", part):
            for cut in range(run.start() + 25_000, run.end(), 25_000):
                yield part[begin:cut]
                begin = cut
        yield part[begin:]


def long_runs(name, prose):
    """Texts that such programs take apart: runs at the limit and past it, white space of every kind, a name across a cut, and more than one part."""
    letters = re.sub(r"\s", "", prose * 2)[:60_000]
    yield from ["a" * 25_000, "a" * 25_001, "a" * 50_001, " " * 25_001 + "x", "\n" * 25_001, letters, "\u4f60" * 26_000, "\u3000" * 25_003 + "x",
                (" \x1c\u0085" * 9_000)[:26_000] + "x", "x " + letters[:24_999] + " " + letters[:25_002], "ab" * 12_497 + name + "ab" * 9, "ab" * 12_499 + name + "ab" * 9]
    # The second part begins within a word and within a run, which begins anew there.
    words = (prose * 9)[:399_990]
    yield from [words + "unbroken" * 4, words + "x" * 26_000, words[:380_000] + "y" * 46_000]


def numbers(values):
    return struct.pack(f"<I{len(values)}i", len(values), *values)


def text_of(utf8):
    return struct.pack("<I", len(utf8)) + utf8


def write_cases(folder, strings, encode, with_special, decode):
    """`encode(texts)`, `with_special(ids)` and `decode(ids)` are the library's; what encode makes of a text may be more than its ids."""
    with open(os.path.join(folder, "cases.bin"), "wb") as file:
        for text, encoded in zip(strings, encode(strings), strict=True):
            utf8, ids = text.encode(), getattr(encoded, "ids", encoded)
            special = numbers(with_special(encoded)[:4]) if len(utf8) <= 1000 else b""
            file.write(text_of(utf8) + numbers(ids) + special + text_of(decode(ids).encode()))


def write_library_cases(folder, strings, tokenizer):
    """Of a tokenizer.json. Special tokens come with the last stage, so the stages before it run once a text, and without places in the text."""
    write_cases(folder, strings, lambda texts: tokenizer.encode_batch_fast(texts, add_special_tokens=False),
                lambda encoded: tokenizer.post_process(encoded, None, True).ids, lambda ids: tokenizer.decode(ids, skip_special_tokens=False))


def main():
    model_dir, out_dir, prose_path = sys.argv[1:4]
    strings = int(sys.argv[4]) if len(sys.argv) > 4 else 1000
    wanted = set(sys.argv[5:])
    prose = open(prose_path, encoding="utf-8").read()
    long_text = (prose * 3)[:100_000]
    # Characters that have existed since Unicode 3.2, so that libraries of different ages agree on their classes and normal forms.
    assigned = [chr(c) for c in range(0x110000) if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs", "Co")]

    def folder_of(kind):
        folder = os.path.join(out_dir, kind)
        os.makedirs(folder, exist_ok=True)
        return folder

    for number, (kind, spec) in enumerate(variants(model_dir, prose[:60_000])):
        if wanted and kind not in wanted:
            continue
        path = os.path.join(folder_of(kind), "tokenizer.json")
        open(path, "w").write(json.dumps(spec))  # several times faster than json.dump
        if kind == "sentencepiece":
            open(os.path.join(folder_of(kind), "tokenizer.model"), "wb").write(sentencepiece_file(spec))
        tokenizer = Tokenizer.from_file(path)
        if kind in JOINED:
            tokenizer.decoder = JOINED[kind]
        made = [*texts(number, assigned, strings), long_text]
        if spec.get("normalizer") is None:  # which have a Unicode of their own
            made += later_texts(number, strings // 10)
        if kind.startswith("letters"):
            made = [*among_letters(number, made)]
        # A tokenizer.json of that kind begins anew after a name.
        chosen = [text for text in made
                  if kind != "sentencepiece" or not any(name in text for name in ("<s>", "</s>", "<unk>"))]
        write_library_cases(folder_of(kind), chosen, tokenizer)
    for number, (kind, model) in enumerate(library_models(prose[:60_000])):
        if wanted and kind not in wanted:
            continue
        chatglm = kind == "pieces_chatglm"
        if chatglm:
            with open(os.path.join(folder_of(kind), "tokenizer_config.json"), "w") as file:
                json.dump({"tokenizer_class": "ChatGLMTokenizer", "add_bos_token": False}, file)
        open(os.path.join(folder_of(kind), "tokenizer.model"), "wb").write(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        # Names that no text can spell are cut out of texts by headscope, as by transformers; that library takes them for words. Its Unigram adds scores in
        # single precision, whose rounding decides between cuts that are nearly as good behind some ten thousands of tokens.
        chosen = [text for text in [*texts(100 + number, assigned, strings), long_text[:20_000] if "unigram" in kind else long_text] if not any(name in text for name in ("<s>", "</s>", "<unk>"))]
        # tokenization_chatglm.py puts [gMASK] and sop before a text: the second and the fourth name behind the pieces.
        before = [processor.vocab_size() + 1, processor.vocab_size() + 3] if chatglm else [processor.bos_id()]
        write_cases(folder_of(kind), chosen, processor.encode, lambda ids: before + ids, processor.decode)
    for number, (kind, file, lines, beside, encoding, before) in enumerate(ranked(prose[:60_000])):
        if wanted and kind not in wanted:
            continue
        open(os.path.join(folder_of(kind), file), "wb").write(lines)
        if beside is not None:
            with open(os.path.join(folder_of(kind), "tokenizer_config.json"), "w") as config:
                json.dump({"added_tokens_decoder": {str(id): {"content": name, "special": True} for name, id in beside.items()}}, config)
        names = sorted(encoding.special_tokens_set)
        rng = random.Random(number)
        ids = [encoding.encode_single_token(name) for name in before]
        # Names in place of others, and all of them; tokenization_qwen.py looks at the normal form of the whole text.
        chosen = [re.sub(r"<\|\w+\|>", lambda _: rng.choice(names), text) for text in texts(200 + number, assigned, strings)]
        chosen += [long_text, " ".join(names), "\u0338".join(names[:20])]
        if kind != "ranked_qwen":
            chosen += later_texts(200 + number, strings // 10)
        sliced = kind.startswith("ranked_llama") or kind == "ranked_kimi"
        if sliced:
            chosen += long_runs(names[0], prose)
        form = (lambda text: unicodedata.normalize("NFC", text)) if kind == "ranked_qwen" else (lambda text: text)
        write_cases(folder_of(kind), chosen, lambda texts: ([id for part in (slices(text) if sliced else [form(text)]) for id in encoding.encode(part, allowed_special="all")] for text in texts),
                    lambda found: ids + found, encoding.decode)
    if not wanted or "cross" in wanted:
        few = [text for text in texts(1000, assigned, 60) if len(text) < 400]
        kinds = []
        for kind, spec in cross(prose):
            kinds.append(kind)
            path = os.path.join(folder_of(kind), "tokenizer.json")
            open(path, "w").write(spec)
            tokenizer = Tokenizer.from_file(path)
            write_library_cases(folder_of(kind), few, tokenizer)
        open(os.path.join(out_dir, "cross", "kinds"), "w").write("".join(kind + "\n" for kind in kinds))


main()
