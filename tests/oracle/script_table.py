# SPDX-License-Identifier: Apache-2.0
"""The scripts that the tokenizers library tells characters apart by, as model/tokenizer/script_table.cpp has them.

    script_table.py FILE           compares that file with the library, and fails where they differ
    script_table.py --write FILE   writes it

The library has a table of its own, which neither Python's nor PCRE2's Unicode has to match: what it does with each character is asked here. A character that
stays with the one before it, whatever that is, is of any script; those left are in a table of ranges, the scripts numbered as they first appear.
"""
import sys

import range_table
from tokenizers import pre_tokenizers


def table():
    scripts = pre_tokenizers.UnicodeScripts()

    def pieces(text):
        return [text[begin:end] for _, (begin, end) in scripts.pre_tokenize_str(text)]

    def is_of_any(c):
        return pieces("a" + c + "\u4e00") == ["a" + c, "\u4e00"] and pieces("\u4e00" + c + "a") == ["\u4e00" + c, "a"]

    def one_script(first, second):
        return len(pieces(first + second)) == 1

    ranges, examples = [], []  # [first, last, script]; one character of each script
    for code in range_table.CODES:
        c = chr(code)
        if is_of_any(c):
            continue
        if ranges and one_script(examples[ranges[-1][2]], c):
            number = ranges[-1][2]
        else:
            number = next((i for i, example in enumerate(examples) if one_script(example, c)), len(examples))
            if number == len(examples):
                examples.append(c)
        if ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == number:
            ranges[-1][1] = code
        else:
            ranges.append([code, code, number])
    return ranges


def source(ranges):
    cells = [f"{{0x{first:X}, 0x{last:X}, {script}}}," for first, last, script in ranges]
    return range_table.source("script_table.py", "script_table.h", "ScriptRange", "ScriptRanges", cells)


def main():
    text = source(table())
    if sys.argv[1] == "--write":
        open(sys.argv[2], "w", encoding="utf-8").write(text)
        return 0
    if open(sys.argv[1], encoding="utf-8").read() == text:
        return 0
    print(f"{sys.argv[1]} is not what the tokenizers library does; script_table.py --write makes it anew", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
