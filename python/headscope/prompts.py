# SPDX-License-Identifier: Apache-2.0
"""The prompts of a recording: those that begin in one pass, each with a trace of its own, and those that wait while others go on."""
import weakref

import numpy as np

from headscope import interception

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
        self._caches = []

    def mark(self, cache, recording):
        """The cache holds these prompts' tokens; another's may be as long."""
        own = interception.inner(cache)
        if all(reference() is not own for reference in self._caches):
            self._caches = [reference for reference in self._caches if reference() is not None] + [weakref.ref(own)]
        interception.mark(cache, recording, self.number)

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
