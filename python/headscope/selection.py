# SPDX-License-Identifier: Apache-2.0
"""Which layers, heads and query rows are recorded."""
import operator
import re

import numpy as np

from headscope.errors import UsageError


def numbers(chosen, what):
    """Rising numbers from None (all), a number, a sequence, or a text such as "0-3,7"; None for all."""
    if chosen is None or (isinstance(chosen, str) and not chosen):
        return None
    if isinstance(chosen, bytes):
        raise UsageError(f'{what} {chosen!r}: must be a text, such as "0-1,7", or numbers; decode it')
    if isinstance(chosen, str):
        found = []
        for part in chosen.split(","):
            match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip())
            if not match or (match[2] and int(match[2]) < int(match[1])):
                raise UsageError(f"{what} {chosen!r}: {part!r} is neither a number nor a range such as 0-3")
            found += range(int(match[1]), int(match[2] or match[1]) + 1)
        return sorted(set(found))
    try:
        return sorted({_number(one) for one in (chosen if np.iterable(chosen) else [chosen])})
    except TypeError:
        raise UsageError(f'{what} {chosen!r}: must be whole numbers, such as [0, 1, 7], or a text such as "0-1,7"') from None


def _number(one):
    """True and False are numbers to Python, and nobody means them as such: a mask of layers would be layers 0 and 1."""
    if isinstance(one, (bool, np.bool_)):
        raise TypeError
    return int(one) if isinstance(one, str) and one.isdecimal() else operator.index(one)


def chosen_of(wanted, available, what):
    """The wanted numbers, all of which must be available; None: all of them."""
    if wanted is None:
        return list(available)
    for number in wanted:
        if number not in available:
            raise UsageError(f"{what}s {wanted}: the model has no {what} {number} to record; choose from {list(available)}")
    if not wanted:
        raise UsageError(f"{what}s: none is chosen; choose from {list(available)}")
    return wanted


class _Random:
    """SplitMix64, as base/random.h has it, so that both recorders draw the same rows."""

    def __init__(self, seed):
        self._state = seed

    def below(self, bound):
        most = 2**64 - 1
        limit = most - most % bound
        while True:
            self._state = self._state + 0x9E3779B97F4A7C15 & most
            z = self._state
            z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & most
            z = (z ^ z >> 27) * 0x94D049BB133111EB & most
            z ^= z >> 31
            if z < limit:
                return z % bound


class Rows:
    """The prompt's query rows: all, last:N, every:N, random:N, random:N:SEED or ranges A:B,C:D; those of decoded tokens are all kept."""

    def __init__(self, text):
        match = re.fullmatch(r"all|(last|every):([1-9]\d{0,8})|(random):([1-9]\d{0,8})(?::(\d{1,19}))?|(\d{1,9}:\d{1,9}(?:,\d{1,9}:\d{1,9})*)", str(text))
        if not match:
            raise UsageError(f'rows "{text}": it must be all, last:N, every:N, random:N or random:N:SEED with N at least 1, or ranges such as 0:16,100:200')
        self.text, self.kind, self.count = text, match[1] or match[3] or ("ranges" if match[6] else "all"), int(match[2] or match[4] or 0)
        self._seed, self._drawn, self._drawn_of = int(match[5] or 1), None, None
        self._ranges = [tuple(map(int, part.split(":"))) for part in match[6].split(",")] if match[6] else []
        if any(end <= begin for begin, end in self._ranges):
            raise UsageError(f'rows "{text}": a range A:B holds the rows A to B-1, so B must be above A')

    def needs_prompt_length(self):
        """Whether a token can be told only when the prompt's length is known."""
        return self.kind in ("last", "random")

    def _random(self, prompt_tokens):
        """Floyd's way: each draw is of one row more, and a row that is there already stands for the new one."""
        if self._drawn_of != prompt_tokens:
            random, drawn = _Random(self._seed), set()
            for bound in range(prompt_tokens - min(self.count, prompt_tokens), prompt_tokens):
                row = random.below(bound + 1)
                drawn.add(bound if row in drawn else row)
            self._drawn, self._drawn_of = np.array(sorted(drawn), np.int32), prompt_tokens
        return self._drawn

    def keep(self, first, end, prompt_tokens):
        """Of the tokens first to end those whose query rows are kept, int32."""
        tokens = np.arange(first, end, dtype=np.int32)
        if self.kind == "all":
            return tokens
        if self.kind == "last":
            wanted = tokens >= prompt_tokens - self.count
        elif self.kind == "every":
            wanted = tokens % self.count == 0
        elif self.kind == "random":
            wanted = np.isin(tokens, self._random(prompt_tokens))
        else:
            wanted = np.zeros(len(tokens), bool)
            for begin, range_end in self._ranges:
                wanted |= (tokens >= begin) & (tokens < range_end)
        return tokens[wanted | (tokens >= prompt_tokens)]

    def expected(self, prompt_tokens, others):
        """How many rows of a prompt and of that many decoded tokens."""
        return len(self.keep(0, prompt_tokens, prompt_tokens)) + others
