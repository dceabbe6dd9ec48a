"""The write-ahead log of an SQLite database, frame by frame: what a cut anywhere in it must leave.

The format, from sqlite.org/fileformat2.html: a header of 32 bytes, its page size at offset 8; then frames of
24 bytes and a page. The second number of a frame's header is not zero in the last frame of a transaction.
"""

from __future__ import annotations

import struct

__all__ = ["commits"]

_HEADER, _FRAME = 32, 24


def commits(wal: bytes) -> list[int]:
    """Return the offset behind every transaction."""
    (page,) = struct.unpack_from(">I", wal, 8)
    size = _FRAME + page
    last = (len(wal) - _HEADER) // size
    ends = [_HEADER + size * (k + 1) for k in range(last)]
    return [end for end in ends if struct.unpack_from(">I", wal, end - size + 4)[0]]
