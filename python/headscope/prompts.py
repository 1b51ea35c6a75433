# SPDX-License-Identifier: Apache-2.0
"""The prompts of a recording: those that begin in one pass, each with a trace of its own, and those that wait while others go on."""
import weakref

import numpy as np

from headscope import interception
from headscope.errors import UsageError

_MOST_WAITING = 16  # open files: each has memory of its own


class Stream:
    """The trace of one sequence of the batch."""

    def __init__(self, target, number):
        self.target, self.number, self.writer = target, number, None
        self.pad = self.right = 0  # columns before its first token and after its last
        self.ids = np.zeros(0, np.int64)
        self.step = 0
        self.prompt_tokens = 0
        self.generation = None  # that made the prompt's length known
        self.ended, self.padding = False, None  # within a generation that goes on with others; its tokens from there on
        self.shift = 0  # from its tokens' numbers to their positions
        self.layer_rows = {}  # recorded so far, of every layer
        # Of the pass that runs:
        self.announcement, self.announced = None, False
        self.tokens = range(0)
        self.rows = np.zeros(0, np.int32)


class Prompts:
    """Those of one pass. `number`: no others of the recording have it."""

    def __init__(self, number, streams):
        self.number, self.streams = number, streams
        self.columns = 0  # of the key axis, padding included
        self._caches = []
        self._generation, self._chosen_from = None, 0

    def mark(self, cache, recording):
        """The cache holds these prompts' tokens; another's may be as long."""
        own = interception.inner(cache)
        if all(reference() is not own for reference in self._caches):
            self._caches = [reference for reference in self._caches if reference() is not None] + [weakref.ref(own)]
        interception.mark(cache, recording, self.number)

    def go_on(self, generation, columns):
        """A pass begins, in this call of generate() or None, after which there are so many columns."""
        self.columns = columns
        if generation is self._generation:
            return
        if ended := [stream.number for stream in self.streams if stream.ended]:
            raise UsageError(f"prompt {ended[0]}: it has ended, and its batch went on with padding behind it, so it cannot be continued; record that conversation alone, or begin it anew without the cache")
        self._generation = generation
        self._chosen_from = 0 if generation is None else max(columns, generation.width)

    def until_end(self, stream, ids):
        """How many of the stream's next tokens are its own: what ended it would not be fed either, were it alone, and padding follows."""
        own = len(ids)
        if stream.ended:
            own = 0
        elif self._generation is not None and len(self.streams) > 1:  # one sequence alone ends the generation
            begin = max(0, self._chosen_from - len(stream.ids) - stream.pad)
            own = next((i for i in range(begin, own) if int(ids[i]) in self._generation.end_ids), own)
            stream.ended = own < len(ids)
            ids = ids[1:]
        for token in ids[own:]:
            if stream.padding not in (None, int(token)):
                raise UsageError(f"prompt {stream.number}: it goes on behind the token that ends it, in a batch; record it by itself")
            stream.padding = int(token)
        return own

    def let_go(self):
        self._caches = []

    def may_go_on(self, recording):
        """Whether a cache of theirs is still there. A copy counts as soon as it was used."""
        caches = [reference() for reference in self._caches]
        return any(cache is not None and interception.marked_as(cache, recording) == self.number for cache in caches)


class Waiting:
    """Prompts that others have followed and that may go on, the last to wait at the end."""

    def __init__(self, recording, files):
        self._recording, self._files, self.all = recording, files, []

    def take(self, cache):
        """The prompts whose tokens the cache holds, which wait no longer; None where they are not here."""
        number = interception.marked_as(cache, self._recording)
        found = next((prompts for prompts in self.all if prompts.number == number), None)
        if found is not None:
            self.all.remove(found)
        return found

    def ended(self):
        """Those that cannot go on, or are too many, in the order of their numbers."""
        ended = [prompts for prompts in self.all if not prompts.may_go_on(self._recording)]
        waiting = [prompts for prompts in self.all if prompts not in ended]
        while sum(len(prompts.streams) for prompts in waiting) * self._files > _MOST_WAITING:
            ended.append(waiting.pop(0))
        return sorted(ended, key=lambda prompts: prompts.number)
