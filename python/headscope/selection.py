# SPDX-License-Identifier: Apache-2.0
"""Which layers, heads and query rows are recorded."""
import re

import numpy as np

from headscope.errors import UsageError


def numbers(chosen, what):
    """Rising numbers from None (all), a sequence, or a text such as "0-3,7"; None for all."""
    if chosen is None or chosen == "":
        return None
    if isinstance(chosen, str):
        found = []
        for part in chosen.split(","):
            match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip())
            if not match or (match[2] and int(match[2]) < int(match[1])):
                raise UsageError(f"{what} {chosen!r}: {part!r} is neither a number nor a range such as 0-3")
            found += range(int(match[1]), int(match[2] or match[1]) + 1)
        return sorted(set(found))
    return sorted({int(number) for number in chosen})


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


class Rows:
    """all, last:N or every:N of the prompt's query rows; those of decoded tokens are all kept."""

    def __init__(self, text):
        match = re.fullmatch(r"all|(last|every):([1-9]\d{0,8})", text)
        if not match:
            raise UsageError(f'rows "{text}": it must be all, last:N or every:N with N at least 1')
        self.text, self.kind, self.count = text, match[1] or "all", int(match[2] or 0)

    def keep(self, first, end, prompt_tokens):
        """Of the tokens first to end those whose query rows are kept, int32."""
        tokens = np.arange(first, end, dtype=np.int32)
        if self.kind == "all":
            return tokens
        wanted = tokens >= prompt_tokens - self.count if self.kind == "last" else tokens % self.count == 0
        return tokens[wanted | (tokens >= prompt_tokens)]

    def expected(self, prompt_tokens, others):
        """How many rows of a prompt and of that many decoded tokens."""
        return len(self.keep(0, prompt_tokens, prompt_tokens)) + others
