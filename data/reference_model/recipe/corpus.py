# SPDX-License-Identifier: Apache-2.0
"""The token streams that prepare_corpus.py wrote, cut and joined at line starts only, so that a sequence is what the tokenizer would have made of
the whole text."""
import lzma

import numpy as np
from tokenizers import Tokenizer

from recipe.settings import BOS, KIND

LINE_FEED, SPACE = "\u010a", "\u0120"  # in the byte-level alphabet


class Corpus:
    def __init__(self, folder, part):
        self.tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")
        with lzma.open(f"{folder}/{part}.u16.xz") as file:
            self.stream = np.frombuffer(file.read(), dtype="<u2")
        names = [self.tokenizer.id_to_token(i) for i in range(self.tokenizer.get_vocab_size())]
        ends_line = np.array([name.endswith(LINE_FEED) for name in names])
        self.starts = np.flatnonzero(ends_line[self.stream[:-1]]) + 1
        self.newline = self.tokenizer.token_to_id(LINE_FEED)
        self.plain = np.array([i for i in range(2, len(names)) if LINE_FEED not in names[i]])  # for random chunks
        self.words = [name[1:] for name in names if name[:1] == SPACE and len(name) > 5 and name[1:].isalpha() and name[1:].islower()]

    def encode(self, text, answer=None, kind="scaffold", asked=None):
        """Token ids of TEXT and their kinds: KIND in the character span ANSWER, "asked" in the span ASKED, scaffold elsewhere."""
        encoded = self.tokenizer.encode(text, add_special_tokens=False)
        kinds = np.full(len(encoded.ids), KIND["scaffold"], np.uint8)
        for span, name in ((answer, kind), (asked, "asked")):
            if span:
                inside = [begin < span[1] and end > span[0] for begin, end in encoded.offsets]
                kinds[inside] = KIND[name]
        return np.array(encoded.ids, np.uint16), kinds

    def lines(self, rng, length):
        """About LENGTH tokens of prose that start and end at line starts."""
        first = self.starts[rng.integers(0, np.searchsorted(self.starts, len(self.stream) - 2 * length - 64))]
        last = self.starts[min(np.searchsorted(self.starts, first + length), len(self.starts) - 1)]
        return self.stream[first:min(last, first + 2 * length)]

    def sequence(self, rng, length, items):
        """<s>, prose and ITEMS (time, ids, kinds): LENGTH + 1 tokens and their kinds. Items stand at line starts in the order of their times;
        time 1 is the end of the sequence."""
        need = length - sum(len(ids) for _, ids, _ in items)
        end = self.starts[rng.integers(np.searchsorted(self.starts, need), len(self.starts))]
        window = self.stream[end - need:end]
        low, high = np.searchsorted(self.starts, [end - need, end], side="right")
        cuts = np.concatenate([[0], self.starts[low:high] - (end - need)])
        ids, kinds, at = [np.array([BOS], np.uint16)], [np.zeros(1, np.uint8)], 0
        for when, piece, piece_kinds in sorted(items, key=lambda item: item[0]) + [(1.0, np.zeros(0, np.uint16), np.zeros(0, np.uint8))]:
            cut = max(at, need if when >= 1 else int(cuts[int(when * len(cuts))]))
            ids += [window[at:cut], piece]
            kinds += [np.zeros(cut - at, np.uint8), piece_kinds]
            at = cut
        return np.concatenate(ids), np.concatenate(kinds)
