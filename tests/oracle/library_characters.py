# SPDX-License-Identifier: Apache-2.0
"""The characters that the normalizers of the tokenizers library take otherwise than utf8proc does, since their tables are of other ages, as
model/tokenizer/library_characters.cpp has them; and what these normalizers make of every character.

    library_characters.py OUT          writes into OUT for each normalizer below and every code point of CODES a text with it, normalized: a byte that says how
                                       long it is, and the text
    library_characters.py --write FILE writes that file, by libutf8proc of the host: of version 2.8, since the list has what differs from that
"""
import ctypes
import ctypes.util
import os
import sys

from range_table import source as table_source
from tokenizers import normalizers

CODES = [*range(0x80, 0xD800), *range(0xE000, 0x32000), *range(0xE0000, 0xE0200)]  # nobody has named one beyond
NORMALIZERS = [normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD(), normalizers.Lowercase(), normalizers.StripAccents(),
               normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False),
               normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)]
FORM, MARK, NO_WIDTH, CONTROL = 1, 2, 4, 8  # what a character is not: LibraryFlag in library_characters.h
STABLE, COMPAT, COMPOSE, DECOMPOSE = 2, 4, 8, 16  # of utf8proc
MN, MC, ME, CF = 6, 7, 8, 27  # its categories


def among_marks(code):
    """With marks on both sides, across which a mark moves."""
    return f"a\u0334\u0327\u0301{chr(code)}\u0345\u0327\u0301"


class Utf8proc:
    def __init__(self):
        self._library = ctypes.CDLL(ctypes.util.find_library("utf8proc"))
        self._map = self._library.utf8proc_map
        self._map.argtypes = [ctypes.c_char_p, ctypes.c_ssize_t, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int]
        self._map.restype = ctypes.c_ssize_t
        self._free = ctypes.CDLL(None).free
        self._free.argtypes = [ctypes.c_void_p]

    def mapped(self, text, options):
        utf8, out = text.encode(), ctypes.c_void_p()
        length = self._map(utf8, len(utf8), ctypes.byref(out), STABLE | options)
        result = ctypes.string_at(out, length).decode()
        self._free(out)
        return result

    def category(self, code):
        return self._library.utf8proc_category(code)

    def lower(self, code):
        return self._library.utf8proc_tolower(code)


def without(normalizer, code):
    return normalizer.normalize_str(f"x{chr(code)}x") == "xx"


def cells():
    host = Utf8proc()
    nfc, nfd, _, nfkd, lowercase, strip, bert, clean = NORMALIZERS
    flags, lower = dict.fromkeys(CODES, 0), {}
    for code in CODES:
        text, character = among_marks(code), chr(code)
        if nfd.normalize_str(text) != host.mapped(text, DECOMPOSE) or nfkd.normalize_str(text) != host.mapped(text, COMPAT | DECOMPOSE):
            flags[code] |= FORM
        parts = host.mapped(character, DECOMPOSE)
        if len(parts) > 1 and nfc.normalize_str(parts) != host.mapped(parts, COMPOSE):
            flags[ord(parts[1])] |= FORM  # which nothing else composes with: a test compares all
        category, small = host.category(code), lowercase.normalize_str(character)
        if category in (MN, MC, ME) and not without(strip, code):
            flags[code] |= MARK
        if category == MN and not without(bert, code) and nfd.normalize_str(character) == character:
            flags[code] |= NO_WIDTH
        if category == CF and not without(clean, code):
            flags[code] |= CONTROL
        if len(small) == 1 and ord(small) != host.lower(code):
            lower[code] = ord(small)
    found = []
    for code in CODES:
        if not flags[code] and code not in lower:
            continue
        small = lower.get(code, 0)
        last = found[-1] if found else None
        if last and last[1] == code - 1 and last[2] == flags[code] and bool(last[3]) == bool(small) and (not small or small - code == last[3] - last[0]):
            last[1] = code
        else:
            found.append([code, code, flags[code], small])
    return [f"{{0x{first:X}, 0x{last:X}, {flag}, 0x{small:X}}}," for first, last, flag, small in found]


def main():
    if sys.argv[1] == "--write":
        text = table_source("library_characters.py", "library_characters.h", "LibraryCharacters", "AllLibraryCharacters", cells())
        open(sys.argv[2], "w", encoding="utf-8").write(text)
        return
    os.makedirs(os.path.dirname(sys.argv[1]), exist_ok=True)
    with open(sys.argv[1], "wb") as file:
        for normalizer in NORMALIZERS:
            for code in CODES:
                utf8 = normalizer.normalize_str(among_marks(code)).encode()
                file.write(bytes([len(utf8)]) + utf8)


main()
