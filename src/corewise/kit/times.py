"""Times in words: dates of a clock of the world, seconds of a clock that starts at zero, and durations."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["in_force_since", "instant", "is_date", "spoken_duration"]

_FIRST_DATE = 1e9
"""Seconds since 1970 in September 2001: a clock that starts at zero gets there after thirty years."""

_LAST_DATE = 253402300800.0  # the year 10000, which is no date any more
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def is_date(time: float) -> bool:
    """Return whether a time is seconds since 1970, rather than since a clock was started."""
    return _FIRST_DATE <= time < _LAST_DATE


def instant(time: float, *, milliseconds: bool = False) -> str:
    """Return a time for people: date and time of day (UTC) of seconds since 1970, else plain seconds."""
    if not is_date(time):
        return f"{time:.3f} s" if milliseconds else f"{time:.1f} s"
    moment = datetime.fromtimestamp(time, UTC)
    fraction = f".{moment.microsecond // 1000:03d}" if milliseconds else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} UTC"


def in_force_since(since: float, now: float) -> str:
    """Return since when something is so, and of dates also for how long."""
    lasts = f", for {spoken_duration(max(now - since, 0.0))}" if is_date(since) else ""
    return f"since {instant(since)}{lasts}"


def spoken_duration(seconds: float) -> str:
    """Return a duration in its two largest units: 350 ms, 4.2 s, 3 min 20 s, 2 h 5 min, 12 d 3 h."""
    if seconds < 1.0:
        return f"{1e3 * seconds:.3g} ms" if seconds else "0 s"
    if seconds < 60.0:
        return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"
    left = round(seconds)
    parts: list[str] = []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(filter(None, parts[:2]))
