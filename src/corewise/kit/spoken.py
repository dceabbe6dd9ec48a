"""Units of time in words: what is said beside a time, a rate, and at the head of a column or an axis."""

from __future__ import annotations

__all__ = ["labelled", "of_time", "per_time"]

_TIMES = ("time", "time saved", "since", "until")
_RATES = ("rate",)


def of_time(unit: str | None, value: float | None = None) -> str:
    """Return what stands behind a time: its unit (behind 1, of one), or nothing if not known."""
    if not unit:
        return ""
    return f" {unit.removesuffix('s')}" if value == 1.0 else f" {unit}"


def per_time(unit: str | None) -> str:
    """Return what stands behind a rate: per hour, or nothing if the unit is not known."""
    return f" per {unit.removesuffix('s')}" if unit else ""


def labelled(label: str, unit: str | None) -> str:
    """Return the head of a column or the label of an axis with its unit, if it is of a time or a rate."""
    if unit and label.endswith(_RATES):
        return f"{label} ({per_time(unit).strip()})"
    return f"{label} ({unit})" if unit and label.endswith(_TIMES) else label
