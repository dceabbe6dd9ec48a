"""Files of named arrays with a description: saved policies, saved runs.

An archive is a NumPy ``.npz`` file, so that no code is ever run to read one. Its entry ``about`` is JSON and
names the format; whatever is wrong with the bytes becomes `InvalidFile`.
"""

from __future__ import annotations

import io
import json
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corewise.errors import CorewiseError, InvalidFile, InvalidInput
from corewise.kit.files import read_bytes, write_bytes

__all__ = ["read_archive", "usable", "write_archive"]

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
    try:
        text = json.dumps({"format": kind, **about})
    except (TypeError, ValueError) as error:  # a part of it comes from a plant or a caller
        raise InvalidInput(f"{path}: what is to be saved must be plain values: {error}") from None
    stream = io.BytesIO()
    content = {**arrays, "about": np.array(text)}
    np.savez_compressed(stream, allow_pickle=False, **content)
    write_bytes(path, stream.getvalue())


def read_archive(path: str | Path, kind: str, what: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the description and the arrays of an archive of that format; `what` says what it should be."""
    content = read_bytes(path)
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise InvalidFile(f"{path} is not a {what}")
    with usable(path, what):
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


@contextmanager
def usable(path: str | Path, what: str) -> Iterator[None]:
    """Turn whatever is wrong with the content of an archive into `InvalidFile`."""
    try:
        yield
    except _DAMAGE as error:
        raise InvalidFile(f"{path} is not a usable {what.removeprefix('saved ')}: {error}") from None
