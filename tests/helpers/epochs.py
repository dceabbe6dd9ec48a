"""Epochs of a run of the loop as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def row(
    k: int,
    departures: int,
    found: dict[str, dict[str, Any]],
    gap: float | None = None,
    silent: Sequence[str] = (),
) -> dict[str, Any]:
    """Return an epoch as plain values; `found` has (value, low, high) for each parameter.

    It says nothing about the classes that are `silent`.
    """
    return {
        "k": k,
        "departures": departures,
        "time": 10.0 * k,
        "estimates": {name: {p: at[0] for p, at in one.items()} for name, one in found.items()},
        "interval": {name: {p: list(at[1:]) for p, at in one.items()} for name, one in found.items()},
        "informative": {name: name not in silent for name in found},
        "gap": gap,
    }


def two(first: float, second: float) -> dict[str, dict[str, Any]]:
    return {
        "one": {"p": (first, first - 0.1, first + 0.2)},
        "two": {"p": (second, second - 0.05, second + 0.05)},
    }


def alarm(name: str, kind: str, at: float, raised: int, statistic: float = 20.0) -> dict[str, Any]:
    """Return an alarm as plain values."""
    return {
        "name": name,
        "kind": kind,
        "raised": raised,
        "departures": at,
        "interval": [at - 30.0, at + 20.0],
        "time": 0.1 * at,
        "time_interval": [0.1 * at - 3.0, 0.1 * at + 2.0],
        "before": {"p": 0.3},
        "after": {"p": 0.1 + 0.001 * raised},
        "statistic": statistic,
        "threshold": 15.0,
        "between": 1e8,
    }


def alarming(*alarms: dict[str, Any]) -> list[dict[str, Any]]:
    """Return epochs of 100 departures with these alarms in them."""
    last = 1 + max((one["raised"] for one in alarms), default=0) // 100
    rows = [row(k, 100 * k, two(0.3, 0.7)) for k in range(1, last + 1)]
    return [{**at, "alarms": [one for one in alarms if one["raised"] == at["departures"]]} for at in rows]
