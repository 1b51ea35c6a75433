# SPDX-License-Identifier: Apache-2.0
"""A trace's writer that the pump's thread makes, so that a model's pass does not wait while a file gets its skeleton."""
import threading


class LateWriter:
    """`make`: makes the writer, after what it has to wait for (`wait`). open() is a job for the pump in front of all others; `made` is the writer from then on, or
    None where it could not be made."""

    def __init__(self, wait, make):
        self._wait, self._make, self.made = wait, make, None
        self._lock, self._unwanted = threading.Lock(), False

    def open(self):
        waited = self._wait(lambda: self._unwanted)
        with self._lock:
            if not self._unwanted:
                self.made = self._make(waited)

    def give_up(self):
        """Nothing is made from now on; what is made already stays. Returns `made`."""
        self._unwanted = True
        with self._lock:
            return self.made

    def append_tokens(self, *arguments):
        self.made.append_tokens(*arguments)

    def append_rows(self, *arguments):
        self.made.append_rows(*arguments)

    def write(self, *arguments):
        self.made.write(*arguments)

    def write_cross(self, *arguments):
        self.made.write_cross(*arguments)

    def advance(self, *arguments):
        self.made.advance(*arguments)

    def flush(self):
        self.made.flush()

    def finish(self):
        self.made.finish()
