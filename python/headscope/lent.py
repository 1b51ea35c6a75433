# SPDX-License-Identifier: Apache-2.0
"""Memory that a writer may keep for a while, instead of a copy of what is in it."""
import numpy as np

from headscope.checksum import CHECKSUM_BYTES


class Lent(np.ndarray):
    """Values [heads, n, ..] in memory that is used again, with room for a checksum behind each head's.

    room: the same memory, uint8 [heads, bytes + CHECKSUM_BYTES]. A writer that keeps it sets `kept`, and calls give_back() when it needs it no more; else it is given
    back when the writer returns.
    """

    room = give_back = None
    kept = False


def room_for(shape, item_bytes):
    """Heads, and bytes of each with the room behind them, for values of that shape; None where their type does not fit beside such room."""
    size = item_bytes
    for extent in shape[1:]:
        size *= extent
    return None if (size + CHECKSUM_BYTES) % item_bytes else (shape[0], size + CHECKSUM_BYTES)


def lent(values, room, give_back):
    array = values.view(Lent)
    array.room, array.give_back = room, give_back
    return array
