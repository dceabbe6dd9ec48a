"""Old spellings of names that are still accepted, each with one warning per process that says the new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from warnings import warn

from corewise.errors import InvalidInput

__all__ = ["new_names", "warn_renamed"]

_warned: set[str] = set()


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn, once per process, that a name is deprecated, and say what to write instead."""
    if old not in _warned:
        warn(f"{old} is deprecated: use {new}", DeprecationWarning, stacklevel=stacklevel)
        _warned.add(old)  # not before: where warnings are errors, each use is one


def new_names(
    given: Mapping[str, Any], renamed: Mapping[str, str], error: type[Exception] = InvalidInput
) -> dict[str, Any]:
    """Return `given` with old keys, those of `renamed`, under their new names.

    Raises
    ------
    InvalidInput
        Or `error`, if both spellings of a key are given.
    """
    entries = dict(given)
    for old in renamed.keys() & given.keys():
        new = renamed[old]
        if new in given:
            raise error(f"{old} is the old spelling of {new}, and both are given")
        warn_renamed(old, new, stacklevel=4)
        entries[new] = entries.pop(old)
    return entries
