"""Unit labels: the unit of time behind a value or a rate, and at the head of a column or an axis."""

from __future__ import annotations

__all__ = ["rate_suffix", "time_suffix", "with_unit"]

_TIMES = ("time", "time saved", "since", "until")
_RATES = ("rate",)


def time_suffix(unit: str | None, value: float | None = None) -> str:
    """Return what stands behind a time: its unit (singular behind 1), or nothing if it is not known."""
    if not unit:
        return ""
    return f" {unit.removesuffix('s')}" if value == 1.0 else f" {unit}"


def rate_suffix(unit: str | None) -> str:
    """Return what stands behind a rate, such as " per hour", or nothing if the unit is not known."""
    return f" per {unit.removesuffix('s')}" if unit else ""


def with_unit(label: str, unit: str | None) -> str:
    """Return the head of a column or the label of an axis, with the unit if it is a time or a rate."""
    if unit and label.endswith(_RATES):
        return f"{label} ({rate_suffix(unit).strip()})"
    return f"{label} ({unit})" if unit and label.endswith(_TIMES) else label
