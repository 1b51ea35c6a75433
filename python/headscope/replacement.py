# SPDX-License-Identifier: Apache-2.0
"""A new trace in the place of what has its name, as `headscope capture --force` puts it there: which files may go, and how the new ones take their names, all or none."""
import errno
import os

from headscope import file_opening, trace_files
from headscope.errors import BadInputError

_NAME_MAX = 255


class Unreplaced(Exception):
    """`file` could not be had, for the reason `error`. What was there before is there again or, where that failed as well, has the name `kept`.

    Where the new trace `stands` all the same, `file` is of the one before, and could not be removed.
    """

    def __init__(self, file, error, kept=None, stands=False):
        super().__init__(file)
        self.file, self.error, self.kept, self.stands = file, error, kept, stands


def files_under(path):
    """What stands under the names of the trace `path`: its files, and last that name itself."""
    return trace_files.named_for(path) + ([path] if os.path.lexists(path) else [])


def find_foreign(path, count):
    """The first of files_under that a trace of `count` files must not replace, and why; None where all may go.

    A file with a number goes where it says itself that it is this one of so many, and of the same trace as the others of so many. The name itself goes whatever
    it is where the new trace is in one file, and else where it is a trace.
    """
    sets = {}
    for file in files_under(path):
        if file == path and count == 1:
            continue
        try:
            with file_opening.open_file(file) as opened:
                trace_files.require_format(file, opened.attrs)
                place = trace_files.place_of(file, opened.attrs)
        except (OSError, RuntimeError, KeyError, ValueError, TypeError, BadInputError):
            return file, "is not a trace that can be read"
        if file == path:
            continue
        _, number, of = trace_files.parse(file)
        if place is None:
            return file, "does not say that it is one of the files of a trace"
        if place[1:] != (number, of):
            return file, f"says that it is file {place[1]} of {place[2]} of its trace"
        name, first = sets.setdefault(of, (place[0], file))
        if name != place[0]:
            return file, f"is not of the same trace as {os.path.basename(first)}"
    return None


def free_name(path, mark, count):
    """DIR/NAME.MARK.EXT, or the first of DIR/NAME.MARK-2.EXT, .. under which nothing is; NAME is cut short where the whole would be longer than a name may be."""
    stem, extension = os.path.splitext(os.path.basename(path))
    number = 1
    while True:
        end = f".{mark}{'' if number == 1 else f'-{number}'}{extension}"
        behind = len(trace_files.file_path(end, count, count))
        candidate = os.path.join(os.path.dirname(path), stem.encode()[: _NAME_MAX - behind].decode(errors="ignore") + end)
        if not files_under(candidate):
            return candidate
        number += 1


def _rename_to_free(old, new):
    """In one step; FileExistsError where `new` is there."""
    try:
        os.link(old, new)
    except FileExistsError:
        raise
    except OSError:  # a file system without second names
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        os.rename(old, new)
        return
    try:
        os.unlink(old)
    except OSError:
        os.unlink(new)
        raise


class _Renaming:
    def __init__(self, path, new_path, count):
        self.path, self.aside = path, None
        self.new, self.names = trace_files.files_of(new_path, count), trace_files.files_of(path, count)
        self.old, self.taken = [], 0  # of the old: name, name aside, whether it has that alone

    def run(self):
        there = files_under(self.path)
        if there == [self.path] == self.names:  # one step, which the system makes whole
            self._guarded(self.path, os.rename, self.new[0], self.path)
            return
        if there:
            self.aside = free_name(self.path, "replaced", trace_files.MOST_FILES)
        for file in there:
            self._guarded(file, self._put_aside, file)
        stay = {name for name, _, moved in self.old if not moved}
        for new, name in zip(self.new, self.names):
            self._guarded(name, os.rename if name in stay else _rename_to_free, new, name)
            self.taken += 1
        for name in sorted(stay - set(self.names)):
            self._guarded(name, os.unlink, name)
        left = None
        for _, aside, _ in self.old:
            try:
                os.unlink(aside)
            except OSError as error:
                left = Unreplaced(aside, error.strerror, stands=True)
        if left:
            raise left

    def _guarded(self, file, action, *arguments):
        try:
            action(*arguments)
        except OSError as error:
            raise Unreplaced(file, error.strerror, self._take_back()) from None

    def _put_aside(self, file):
        """A second name for the same file: under the first one it stays until the new one takes that, in one step."""
        parsed = None if file == self.path else trace_files.parse(file)
        aside = trace_files.file_path(self.aside, *parsed[1:]) if parsed else self.aside
        moved = False
        try:
            os.link(file, aside)
        except FileExistsError:
            raise
        except OSError:
            moved = True
            _rename_to_free(file, aside)
        self.old.append((file, aside, moved))

    def _take_back(self):
        kept = None
        for new, name in zip(self.new[: self.taken], self.names):
            try:
                _rename_to_free(name, new)
            except OSError:
                kept = self.aside
        for name, aside, moved in self.old:
            gone = moved or not os.path.lexists(name)
            try:
                if gone:
                    _rename_to_free(aside, name)
                else:
                    os.unlink(aside)
            except OSError:
                kept = self.aside if gone else kept
        return kept


def replace(path, new_path, count):
    """Renames the `count` files of a whole, closed trace from names for `new_path` to those for `path`; what was there before goes. Raises Unreplaced.

    A kill at any moment leaves what was there before whole, under its own names or under NAME.replaced.
    """
    _Renaming(path, new_path, count).run()
