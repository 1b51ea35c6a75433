# SPDX-License-Identifier: Apache-2.0
"""The characters that came after Unicode 14, which is as new as PCRE2 may be old, as model/tokenizer/later_characters.cpp has them; and what splits make of every
character there is.

    later_characters.py FILE CLASSES   compares that file with the tokenizers library, and fails where they differ; writes into CLASSES for every code point but
                                       surrogates, in their order, a u32 with a bit for each of the classes below that it is in
    later_characters.py --write FILE   writes it, by a Python of Unicode 14

For each range of them the file has an older character of as many bytes that every class of the library's takes alike. Where the library's Unicode is no newer than
PCRE2's, the table changes nothing.
"""
import os
import re
import struct
import sys
import unicodedata

from range_table import CODES, source as table_source
from tokenizers import Regex, pre_tokenizers

# Of expressions, whose engine is Oniguruma; of the library's own steps, which have tables of other ages.
CLASSES = [r"\p{L}", r"\p{N}", r"\p{P}", r"\p{S}", r"\p{M}", r"\p{Z}", r"\p{C}", r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{Lm}", r"\p{Lo}", r"\p{Han}", r"\s"]
AT_ONCE = 1024
STEPS = [pre_tokenizers.Punctuation(), pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Whitespace()]


def members(expression):
    """Code points that are in a class of the library's expressions: what a split takes out of texts of AT_ONCE of them. A class takes each character by itself."""
    step, outside = pre_tokenizers.Split(Regex(expression), "removed"), set()
    for first in range(0, len(CODES), AT_ONCE):
        some = CODES[first:first + AT_ONCE]
        for _, (begin, end) in step.pre_tokenize_str("".join(map(chr, some))):
            outside.update(some[begin:end])
    return set(CODES) - outside


def classes():
    """For every code point the classes that it is in, as bits."""
    bits = dict.fromkeys(CODES, 0)
    for number, expression in enumerate(CLASSES):
        for code in members(expression):
            bits[code] |= 1 << number
    return bits


def kinds(bits):
    """For every code point all that a split can see of it: its classes, and what the library's own steps do with it beside letters, spaces and signs."""
    def seen(step, code):
        return tuple(tuple(span for _, span in step.pre_tokenize_str(text)) for text in (f"a{chr(code)}a", f"!{chr(code)}!"))

    return lambda code: (bits[code], len(chr(code).encode()), *(seen(step, code) for step in STEPS))


def ranges(is_later, kind_of):
    """[first, last, the character that stands for them]."""
    later = [code for code in CODES if is_later(code)]
    wanted = {}
    for code in later:
        wanted.setdefault(kind_of(code), None)
    left = len(wanted)
    for code in CODES:  # the first older one of each kind
        if left == 0:
            break
        if code < 0x80 or is_later(code) or unicodedata.category(chr(code)) in ("Cn", "Co"):
            continue
        kind = kind_of(code)
        if kind in wanted and wanted[kind] is None:
            wanted[kind] = code
            left -= 1
    assert left == 0, [kind for kind, code in wanted.items() if code is None]
    found = []
    for code in later:
        stands = wanted[kind_of(code)]
        if found and found[-1][1] == code - 1 and found[-1][2] == stands:
            found[-1][1] = code
        else:
            found.append([code, code, stands])
    return found


def ranges_in(path):
    return [[int(number, 16) for number in cell] for cell in re.findall(r"\{0x([0-9A-F]+), 0x([0-9A-F]+), 0x([0-9A-F]+)\}", open(path, encoding="utf-8").read())]


def source(found):
    cells = [f"{{0x{first:X}, 0x{last:X}, 0x{stands:X}}}," for first, last, stands in found]
    return table_source("later_characters.py", "later_characters.h", "LaterCharacters", "AllLaterCharacters", cells)


def main():
    bits = classes()
    kind_of = kinds(bits)
    unassigned = 1 << CLASSES.index(r"\p{C}")
    if sys.argv[1] == "--write":
        assert unicodedata.unidata_version == "14.0.0"
        found = ranges(lambda code: unicodedata.category(chr(code)) == "Cn" and bits[code] != unassigned, kind_of)
        open(sys.argv[2], "w", encoding="utf-8").write(source(found))
        return 0
    written = ranges_in(sys.argv[1])
    assert written
    wrong = [hex(code) for first, last, stands in written for code in range(first, last + 1) if kind_of(code) != kind_of(stands)]
    if wrong:
        print(f"{sys.argv[1]}: the tokenizers library takes these for something else than what stands for them: {', '.join(wrong[:20])}", file=sys.stderr)
        return 1
    os.makedirs(os.path.dirname(sys.argv[2]), exist_ok=True)
    open(sys.argv[2], "wb").write(struct.pack(f"<{len(CODES)}I", *(bits[code] for code in CODES)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
