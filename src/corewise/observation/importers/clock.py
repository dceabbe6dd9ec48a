"""Clocks: local times of a zone as seconds since 1970, and the units that logs are written in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit.arrays import Floats
from corewise.observation.text import _kernels

__all__ = ["at_time", "shown_time", "to_utc", "zone_named"]

_STEP = 900.0  # seconds: clocks change at quarters of hours
_EPOCH = datetime(1970, 1, 1)  # local times are without a zone


def zone_named(name: str) -> ZoneInfo:
    """Return the zone of a name such as Europe/Amsterdam."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(
            f"unknown time zone {name!r}; zones are named as Europe/Amsterdam, or UTC"
        ) from None


def to_utc(local: Floats, zone: ZoneInfo, earliest: Floats | None = None) -> Floats:
    """Return local times as times of UTC.

    The hour that a clock goes through twice is taken to be the first of the two, unless that is before
    `earliest` and the second is not.
    """
    known = np.isfinite(local)
    steps, place = np.unique(np.floor(local[known] / _STEP), return_inverse=True)
    utc = np.full((2, local.size), np.nan)
    for fold in (0, 1):
        ahead = [_ahead(float(step) * _STEP, zone, fold) for step in steps.tolist()]
        utc[fold, known] = local[known] - np.array(ahead, dtype=np.float64)[place]
    if earliest is None:
        return np.asarray(utc[0])
    return np.asarray(np.where((utc[0] < earliest) & (utc[1] >= earliest), utc[1], utc[0]))


def _ahead(local: float, zone: ZoneInfo, fold: int) -> float:
    moment = (_EPOCH + timedelta(seconds=local)).replace(tzinfo=zone, fold=fold)
    offset = moment.utcoffset()
    return 0.0 if offset is None else offset.total_seconds()


def at_time(text: str, option: str) -> tuple[float, str]:
    """Return the time that an option gives, and how it was written."""
    letters = np.frombuffer(text.encode(), dtype=np.uint8)
    value, kind = _kernels.read_time(letters, 0, letters.size)
    clock = {_kernels.NUMBER: "numbers", _kernels.LOCAL: "local", _kernels.ZONED: "zoned"}.get(int(kind))
    if clock is None:
        raise InvalidInput(f"{option} must be a time such as 2026-03-01T00:00:00Z, or a number, got {text!r}")
    return float(value), clock


def shown_time(seconds: float) -> str:
    """Return a time of UTC as people write it."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
