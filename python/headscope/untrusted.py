# SPDX-License-Identifier: Apache-2.0
"""What a trace may be made of, looked at before anything in it is read: nothing in a file leads to another file, and no number in it sizes memory.

libhdf5 itself still parses the file in this process; `headscope info` keeps it in one without rights.
"""
import h5py
import numpy as np
from h5py import h5d, h5l, h5t, h5z

from headscope import layout
from headscope.errors import BadInputError

_MAX_MEMBERS, _MAX_DEPTH, _MAX_RANK = 4096, 4, 6  # of a group, of groups, of a dataset
_MAX_ATTRIBUTE_BYTES = 1 << 16
_FILTERS = (h5z.FILTER_FLETCHER32, h5z.FILTER_SHUFFLE, h5z.FILTER_DEFLATE)
_TYPES = (h5t.INTEGER, h5t.FLOAT, h5t.ENUM, h5t.STRING)
# Compressed zeros are read up to this, however small their file is.
_FREE_BYTES, _MOST_TIMES_STORED = 1 << 30, 1000
_REMEDY = "look at it with `headscope info`, or capture it again"


def refuse(path, what, problem):
    raise BadInputError(f"{path}: {what}: {problem}; {_REMEDY}")


def check_objects(path, file):
    """Every group, dataset and attribute: links that lead elsewhere, types, filters and storage that no trace has."""
    _check_group(path, file["/"], 0, set())


def _check_group(path, group, depth, met):
    where = group.name or "/"
    if depth > _MAX_DEPTH or len(group.id) > _MAX_MEMBERS:
        refuse(path, where, "there are more groups or members than a trace has")
    _check_attributes(path, group)
    for name in group.id:
        member = f"{where.rstrip('/')}/{name.decode(errors='replace')}"
        if group.id.links.get_info(name).type != h5l.TYPE_HARD:
            refuse(path, member, "is a link to another place, which a trace does not have")
        one = group[name]
        address = h5py.h5o.get_info(one.id).addr
        if address in met:
            refuse(path, member, "is a second name of an object, which a trace does not have")
        met.add(address)
        if isinstance(one, h5py.Group):
            _check_group(path, one, depth + 1, met)
        elif isinstance(one, h5py.Dataset):
            _check_dataset(path, member, one)
        else:
            refuse(path, member, "is neither a group nor a dataset")


def _check_type(path, where, kind):
    if kind.get_class() not in _TYPES or (kind.get_class() == h5t.STRING and kind.is_variable_str()):
        refuse(path, where, "has a type that a trace does not have")


def _check_attributes(path, one):
    if len(one.attrs) > _MAX_MEMBERS:
        refuse(path, one.name, "has more attributes than a trace")
    for number in range(len(one.attrs)):
        attribute = h5py.h5a.open(one.id, index=number)
        where = f"{one.name}@{attribute.name.decode(errors='replace')}"
        kind = attribute.get_type()
        if kind.get_class() in (h5t.VLEN, h5t.REFERENCE, h5t.COMPOUND) and attribute.name in (b"DIMENSION_LIST", b"REFERENCE_LIST"):
            continue  # of dimension scales; nobody reads them
        _check_type(path, where, kind)
        if attribute.get_storage_size() > _MAX_ATTRIBUTE_BYTES:
            refuse(path, where, "is larger than an attribute of a trace")


def _check_dataset(path, where, one):
    _check_type(path, where, one.id.get_type())
    _check_attributes(path, one)
    made = one.id.get_create_plist()
    if made.get_external_count() > 0 or made.get_layout() == h5d.VIRTUAL:
        refuse(path, where, "keeps its numbers in another file")
    if any(made.get_filter(number)[0] not in _FILTERS for number in range(made.get_nfilters())):
        refuse(path, where, "has a filter that a trace does not have")
    if one.ndim > _MAX_RANK or any(extent > layout.MAX_TOKENS for extent in one.shape):
        refuse(path, where, f"has an extent beyond any trace: {list(one.shape)}")


def check_read(path, dataset, place, begin, end, kind):
    """Before items begin to end of the axis behind `place` are read into memory."""
    axis = len(place)
    inside = dataset.ndim > axis and end <= dataset.shape[axis] and all(0 <= index < extent for index, extent in zip(place, dataset.shape))
    if not inside or begin < 0:
        refuse(path, dataset.name, f"has the extents {list(dataset.shape)}, and the file counts on more")
    stored = np.dtype(kind).itemsize
    if dataset.id.get_type().get_size() != stored:
        refuse(path, dataset.name, "is not of the type that the file says")
    size = (end - begin) * int(np.prod(dataset.shape[axis + 1 :], dtype=object)) * stored
    if size > _FREE_BYTES and size > _MOST_TIMES_STORED * dataset.id.get_storage_size():
        refuse(path, dataset.name, f"unpacks to {size} bytes, far more than are stored")


def check_count(path, where, count, most):
    if not 0 <= count <= most:
        refuse(path, where, f"is {count}, and must be 0 to {most}")


def check_facts(path, layer, facts):
    """A layer's facts against the format's limits, and against each other."""
    where = f"layer {layer}"
    for name, _, _, least, most in layout.INTEGER_COLUMNS:
        if hasattr(facts, name) and not least <= getattr(facts, name) <= most:
            refuse(path, f"{where}: {name}", f"is {getattr(facts, name)}, and must be {least} to {most}")
    if facts.num_qo_heads % facts.num_kv_heads:
        refuse(path, where, f"{facts.num_kv_heads} KV heads do not divide {facts.num_qo_heads} query heads")
    for name, heads, most in (("qo_heads", facts.qo_heads, facts.num_qo_heads), ("kv_heads", facts.kv_heads, facts.num_kv_heads)):
        if list(heads) != sorted(set(heads)) or not heads or heads[0] < 0 or heads[-1] >= most:
            refuse(path, f"{where}: {name}", f"are not rising numbers of {most} heads")
    if facts.kv_layer >= layer:  # which need not be recorded
        refuse(path, f"{where}: kv_layer", f"is {facts.kv_layer}, and must be an earlier layer or -1")
