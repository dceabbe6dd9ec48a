"""Files of named arrays with a description: saved policies, saved runs.

An archive is a NumPy ``.npz`` file, so that no code is ever run to read one. Its entry ``about`` is JSON and
names the format; whatever is wrong with the bytes becomes `InvalidFile`. How much it unpacks to is known from
its directory and from the header of each array, and looked at before anything is unpacked.
"""

from __future__ import annotations

import io
import json
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from corewise.errors import CorewiseError, InvalidFile, InvalidInput
from corewise.kit.files import read_bytes, write_bytes

__all__ = ["packed", "read_archive", "unpacked", "usable", "write_archive"]

_MOST_BYTES = 512 * 2**20  # unpacked; what is larger packed than files may be is refused before

# What reading an archive can raise when its bytes are changed at will.
_DAMAGE = (
    CorewiseError,
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def write_archive(
    path: str | Path, kind: str, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write an archive whole or not at all; `kind` is its format, such as ``corewise policy 1``."""
    write_bytes(path, packed(path, kind, about, arrays))


def packed(
    path: str | Path, kind: str, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> bytes:
    """Return the bytes of an archive, the same for the same content; `path` is what to call it."""
    try:
        text = json.dumps({"format": kind, **about})
    except (TypeError, ValueError) as error:  # a part of it comes from a plant or a caller
        raise InvalidInput(f"{path}: what is to be saved must be plain values: {error}") from None
    stream = io.BytesIO()
    content = {**arrays, "about": np.array(text)}
    _require_size(path, sum(array.nbytes for array in content.values()))
    np.savez_compressed(stream, allow_pickle=False, **content)
    return stream.getvalue()


def read_archive(path: str | Path, kind: str, what: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the description and the arrays of an archive of that format; `what` says what it should be."""
    return unpacked(path, read_bytes(path), kind, what)


def unpacked(
    path: str | Path, content: bytes, kind: str, what: str
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the description and the arrays in the bytes of an archive; `path` is what to call it."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise InvalidFile(f"{path} is not a {what}")
    with usable(path, what):
        _require_sizes(content)
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):  # NumPy hands out what it does not know as bytes
                raise InvalidFile(f"its entry {name!r} is not an array")
        about = json.loads(str(arrays.pop("about")))
        found = about["format"]
    if found != kind:
        raise InvalidFile(f"{path} has the format {found!r}, not {kind!r}")
    return about, arrays


def _require_sizes(content: bytes) -> None:
    """Refuse an archive that unpacks to more than is ever written, or to other sizes than its arrays have."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        _require_size("it", sum(entry.file_size for entry in entries))
        for entry in entries:
            with archive.open(entry) as stream:
                version = npy.read_magic(stream)
                read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, _, dtype = read(stream)
                said = stream.tell() + math.prod(shape) * dtype.itemsize
            if said != entry.file_size:
                raise InvalidFile(f"its entry {entry.filename!r} has {entry.file_size} bytes, not {said}")


def _require_size(what: object, size: int) -> None:
    if size > _MOST_BYTES:
        raise InvalidFile(f"{what} unpacks to {size / 2**20:,.0f} MiB, more than {_MOST_BYTES // 2**20}")


@contextmanager
def usable(path: str | Path, what: str) -> Iterator[None]:
    """Turn whatever is wrong with the content of an archive into `InvalidFile`."""
    try:
        yield
    except _DAMAGE as error:
        raise InvalidFile(f"{path} is not a usable {what.removeprefix('saved ')}: {error}") from None
