# SPDX-License-Identifier: Apache-2.0
"""A trace in several files, each a trace of some of its layers: their names, and which layers are in which (docs/trace_format.md, "Several files")."""
import os
import re

from headscope import layout as trace_layout
from headscope import untrusted
from headscope.errors import BadInputError, UsageError

MOST_FILES = 64
ATTRIBUTES = ("file_set", "file_number", "file_count")
_NAME = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})", re.DOTALL)


def check_count(count):
    if not isinstance(count, int) or not 1 <= count <= MOST_FILES:
        raise UsageError(f"files {count}: must be a number from 1 to {MOST_FILES}")


def file_path(path, number, count):
    """DIR/out.h5 -> DIR/out-00002-of-00004.h5; of a single file the path itself."""
    stem, extension = os.path.splitext(path)
    return path if count == 1 else f"{stem}-{number:05}-of-{count:05}{extension}"


def files_of(path, count):
    return [file_path(path, number, count) for number in range(1, count + 1)]


def parse(path):
    """The trace's path, the file's number and how many there are; None where the name does not say."""
    folder, name = os.path.split(path)
    stem, extension = os.path.splitext(name)
    found = _NAME.fullmatch(stem)
    if found is None:
        return None
    number, count = int(found["number"]), int(found["count"])
    if not 2 <= count <= MOST_FILES or not 1 <= number <= count:
        return None
    return os.path.join(folder, found["stem"] + extension), number, count


def named_for(path):
    """The files in the folder whose names make them files of the trace `path`, as file_path spells them, in the order of their names."""
    folder, own = os.path.split(path)
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return []
    found = [parsed for name in sorted(names) if (parsed := parse(name)) is not None and parsed[0] == own]
    return [file_path(path, number, count) for _, number, count in found]


def require_format(path, attributes):
    if decoded(attributes.get("format", b"")) != trace_layout.FORMAT_NAME:
        raise BadInputError(f"{path}: attribute format: is not \"{trace_layout.FORMAT_NAME}\"; open a file that headscope wrote")


def place_of(path, attributes):
    """What a file says of itself: its set's name, its number, how many files there are; None of a trace in one file."""
    found = [name for name in ATTRIBUTES if name in attributes]
    if not found:
        return None
    if len(found) < len(ATTRIBUTES):
        untrusted.refuse(path, f"attribute {found[0]}", "stands without the others of its kind")
    name, number, count = decoded(attributes["file_set"]), int(attributes["file_number"]), int(attributes["file_count"])
    if len(name) != 32 or set(name) - set("0123456789abcdef"):
        untrusted.refuse(path, "attribute file_set", "must be 32 hexadecimal digits")
    if not 2 <= count <= MOST_FILES or not 1 <= number <= count:
        untrusted.refuse(path, "attribute file_number", f"file {number} of {count}: must be 1 to file_count, which must be 2 to {MOST_FILES}")
    return name, number, count


def decoded(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def _layer_bytes(layout, slot, tokens, rows):
    facts = layout.facts[slot]
    return sum(
        spec.heads(facts) * (spec.width(facts) if spec.width else 1) * trace_layout.component_bytes(spec, layout.encoding) * (rows if spec.of_rows else tokens)
        for name, spec in trace_layout.TENSORS.items()
        if trace_layout.stores(layout, slot, name)
    )


def deal(layout, count, tokens, rows):
    """The slots of each file, rising. Layers that share stored keys, or a selection, stay together; the others are dealt out, the largest first, each to the file with
    the fewest bytes, as `headscope capture` does."""
    group_of = list(range(len(layout.layers)))
    for slot, facts in enumerate(layout.facts):
        selecting = layout.layers.index(facts.selection_layer) if facts.selection_layer in layout.layers else slot
        for source in (trace_layout.key_source(layout, slot), selecting):
            old, new = group_of[slot], group_of[source]
            group_of = [new if group == old else group for group in group_of]
    groups = [[slot for slot in range(len(group_of)) if group_of[slot] == group] for group in sorted(set(group_of))]
    if not 1 <= count <= min(MOST_FILES, len(groups)):
        raise UsageError(
            f"files {count}: a file holds one layer at least, with those that share its keys and values, so these {len(layout.layers)} layers make 1 to "
            f"{min(MOST_FILES, len(groups))}; ask for as many, or fewer"
        )
    groups.sort(key=lambda group: -sum(_layer_bytes(layout, slot, tokens, rows) for slot in group))
    files, sizes = [[] for _ in range(count)], [0] * count
    for group in groups:
        least = sizes.index(min(sizes))
        files[least] += group
        sizes[least] += sum(_layer_bytes(layout, slot, tokens, rows) for slot in group)
    return [sorted(slots) for slots in files]
