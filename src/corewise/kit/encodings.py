"""Encodings of text files: UTF-8 with or without a byte-order mark, and UTF-16 with one.

What Windows writes begins with a byte-order mark: editors put one before UTF-8, PowerShell's ``>`` writes
UTF-16. Readers of files see UTF-8 without a mark.
"""

from __future__ import annotations

import codecs
import io
from typing import Protocol, TypeVar

__all__ = ["as_utf8", "opened_as_utf8"]

_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_MARK = 3  # bytes that tell


class _Peeked(Protocol):
    def peek(self, size: int, /) -> bytes: ...
    def read(self, size: int = -1, /) -> bytes: ...
    def close(self) -> None: ...


File = TypeVar("File", bound=_Peeked)


def as_utf8(content: bytes) -> bytes:
    """Return the content of a text file as UTF-8 without a byte-order mark; what is no text as it is."""
    encoding = _WIDE.get(content[:2])
    if encoding is None:
        return content.removeprefix(codecs.BOM_UTF8)
    try:
        return content[2:].decode(encoding).encode()
    except UnicodeError:
        return content


def opened_as_utf8(file: File) -> File | io.BufferedReader:
    """Return a file that was opened for reading bytes as UTF-8 without a byte-order mark."""
    try:
        head = file.peek(_MARK)[:_MARK]
        if head.startswith(codecs.BOM_UTF8):
            file.read(_MARK)
        encoding = _WIDE.get(head[:2])
        if encoding is None:
            return file
        file.read(2)
    except BaseException:
        file.close()
        raise
    return io.BufferedReader(_FromWide(file, encoding))


class _FromWide(io.RawIOBase):
    """Bytes of a UTF-16 file as UTF-8."""

    def __init__(self, file: _Peeked, encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Read some of it; what is not UTF-16 is an `OSError`, as other trouble with reading is."""
        ended = False
        while not self._ready and not ended:
            chunk = self._file.read(len(buffer))
            ended = not chunk
            try:
                self._ready = self._decoder.decode(chunk, ended).encode()
            except UnicodeError as error:
                raise OSError(f"not UTF-16 text: {error}") from None
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        """Close the file beneath, too."""
        self._file.close()
        super().close()
