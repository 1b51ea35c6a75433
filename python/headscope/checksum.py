# SPDX-License-Identifier: Apache-2.0
"""The checksum behind every chunk of a trace, HDF5's filter 3 (Fletcher-32), of many chunks at once."""
import numpy as np

CHECKSUM_BYTES = 4
_ROW = 1024  # words: NumPy sums rows and columns of so many fastest, and a sum fits 32 bits


def _modulo(sums):
    """In ones' complement: what is divisible, and not zero, is all ones."""
    return np.where(sums > 0, (sums - 1) % 65535 + 1, 0)


def _fletcher32(words):
    """Of each row of uint16 [chunks, n]: uint32 [chunks]."""
    count = words.shape[1]
    whole = count // _ROW
    # Word i weighs count - i in the second sum: first all that its row weighs, less what it is behind the row's first. NumPy sums fast along an axis,
    # and slowly by weights.
    rows = words[:, : whole * _ROW].reshape(len(words), whole, _ROW)
    of_rows = rows.sum(2, dtype=np.uint32).astype(np.int64)
    of_columns = rows.sum(1, dtype=np.uint32 if whole <= 65536 else np.int64).astype(np.int64)
    rest = words[:, whole * _ROW :].astype(np.int64)
    plain = of_rows.sum(1) + rest.sum(1)
    weighted = of_rows @ (count - _ROW * np.arange(whole)) - of_columns @ np.arange(_ROW) + rest @ np.arange(rest.shape[1], 0, -1)
    # HDF5 reads the words with the upper byte first. Modulo 2^16 - 1 the bytes change places when a number is multiplied by 2^8.
    first, second = (_modulo(_modulo(sums) * 256) for sums in (plain, weighted))
    return (second << 16 | first).astype("<u4")


def seal(chunks):
    """Writes each chunk's checksum behind it. `chunks`: uint8 [chunks, bytes + 4], of an even number of bytes; best some that fit a processor's cache."""
    chunks[:, -CHECKSUM_BYTES:].view("<u4")[:, 0] = _fletcher32(chunks[:, :-CHECKSUM_BYTES].view("<u2"))
