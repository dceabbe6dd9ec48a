"""Clocks: local times of a zone as seconds since 1970, and how times are written in a file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit.arrays import Floats
from corewise.observation.text import _kernels
from corewise.observation.text.fields import Fields, Kinds, times

__all__ = ["TimeFormat", "at_time", "shown_time", "to_utc", "zone_named"]

_STEP = 900.0  # seconds: clocks change at quarters of hours
_EPOCH = datetime(1970, 1, 1)  # local times are without a zone
_SCALES = {"seconds": 1.0, "milliseconds": 1e-3, "microseconds": 1e-6, "nanoseconds": 1e-9}
_SOME_TIME = datetime(2026, 3, 29, 13, 5, 7, tzinfo=UTC)


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


@dataclass(frozen=True)
class TimeFormat:
    """Format of the times of a file: a pattern such as ``%d.%m.%Y %H:%M``, or the unit of its numbers.

    Attributes
    ----------
    text : str
        A pattern of `datetime.datetime.strptime`, or one of seconds, milliseconds, microseconds, nanoseconds;
        empty for seconds and dates as ISO 8601 writes them.
    """

    text: str = ""

    def __post_init__(self) -> None:
        if not self.text or self.text in _SCALES:
            return
        try:
            if "%" not in self.text:
                raise ValueError
            datetime.strptime(_SOME_TIME.strftime(self.text), self.text)
        except ValueError:
            raise InvalidInput(
                f"the time format must be a pattern such as '%d.%m.%Y %H:%M:%S', or one of "
                f"{', '.join(_SCALES)}, got {self.text!r}"
            ) from None

    @property
    def scale(self) -> float | None:
        """How long the unit of numbers is in seconds; None if it is not said."""
        return _SCALES.get(self.text)

    def times(self, fields: Fields, name: str) -> tuple[Floats, Kinds]:
        """Return a column of times in seconds, NaN where there is none, and what each field is."""
        values, kinds = times(fields, name)
        if not self.text or self.scale is not None:
            return values, kinds
        known: dict[str, tuple[float, int]] = {}
        for row in np.flatnonzero(kinds != _kernels.MISSING).tolist():
            text = fields.shown(name, row)
            if text not in known:
                known[text] = self.read(text)
            values[row], kinds[row] = known[text]
        return values, kinds

    def read(self, text: str) -> tuple[float, int]:
        """Return the time that a text says by the pattern, in seconds, and what kind of field it is."""
        try:
            moment = datetime.strptime(text, self.text)
        except ValueError:
            return np.nan, _kernels.BAD
        if moment.tzinfo is None:
            return (moment - _EPOCH).total_seconds(), _kernels.LOCAL
        return moment.timestamp(), _kernels.ZONED


def at_time(text: str, option: str, written: TimeFormat) -> tuple[float, str]:
    """Return the time that an option gives, written as in the file or by ISO 8601, and which clock it is."""
    letters = np.frombuffer(text.encode(), dtype=np.uint8)
    value, kind = written.read(text) if "%" in written.text else (np.nan, _kernels.BAD)
    if kind == _kernels.BAD:
        value, kind = _kernels.read_time(letters, 0, letters.size)
    clock = {_kernels.NUMBER: "numbers", _kernels.LOCAL: "local", _kernels.ZONED: "zoned"}.get(int(kind))
    if clock is None:
        raise InvalidInput(f"{option} must be a time such as 2026-03-01T00:00:00Z, or a number, got {text!r}")
    return float(value), clock


def shown_time(seconds: float) -> str:
    """Return a time of UTC as people write it; as a number where the calendar has ended."""
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OverflowError:
        return f"{seconds:.15g} seconds after 1970"
