# SPDX-License-Identifier: Apache-2.0
"""A trace's writer that the pump's thread makes, so that a model's pass does not wait while a file gets its skeleton."""


class LateWriter:
    """`make`: makes the writer. open() is a job for the pump in front of all others; `made` is the writer from then on, or None where it could not be made."""

    def __init__(self, make):
        self._make, self.made = make, None

    def open(self):
        self.made = self._make()

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
