"""Units of time: what the times and rates of a system or a log are in."""

from __future__ import annotations

from corewise.errors import InvalidInput, nearest

__all__ = ["UNITS", "require_seconds", "require_unit"]

UNITS = {"milliseconds": 1e-3, "seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0}
"""The units by name, in seconds."""


def require_unit(name: object) -> str:
    """Return the unit of that name; `InvalidInput` names the nearest if there is none."""
    if not isinstance(name, str) or name not in UNITS:
        raise InvalidInput(f"unknown unit of time {name!r}{nearest(str(name), list(UNITS))}")
    return name


def require_seconds(unit: str | None) -> None:
    """Raise `InvalidInput` if the rates of a live pool, whose clock is in seconds, are in another unit."""
    if unit not in (None, "seconds"):
        raise InvalidInput(f"the clock of a live pool is in seconds: write rates per second, not in {unit}")
