"""Results as JSON: plain values only, and nothing that is not a finite number."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from numbers import Integral, Real

__all__ = ["plain", "to_json"]


def to_json(result: Mapping[str, object], *, indent: int | None = 2) -> str:
    """Return one JSON object, in lines or in one; what is not a finite number becomes null."""
    return json.dumps(plain(result), indent=indent, allow_nan=False, ensure_ascii=False)


def plain(value: object) -> object:
    """Return a value as JSON can hold it; what is not a finite number is None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    raise TypeError(f"{value!r} has no place in JSON")
