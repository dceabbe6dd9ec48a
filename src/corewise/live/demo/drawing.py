"""What a figure of a demonstration shows."""

from __future__ import annotations

import numpy as np

from corewise.kit.arrays import Floats
from corewise.live.demo.outcome import ALL, Demonstration, Moment
from corewise.plots.contest import Contest

__all__ = ["as_contest"]

_UNKNOWN = (np.nan, np.nan, np.nan)


def as_contest(found: Demonstration) -> Contest:
    """Return how a demonstration went: what was learned when, and what it was worth."""
    looks = [moment for moment in found.history if moment.corewise is not None]
    names = found.truth.names
    shown = [*names, ALL]
    return Contest(
        np.array([moment.elapsed for moment in looks]),
        {name: _estimates(looks, i) for i, name in enumerate(names)},
        {name: found.truth[name].speedup.parameters["p"] for name in names},
        {name: np.array([moment.so_far[name].gain for moment in looks]) for name in shown},
        {name: (found.comparisons[name].equi, found.comparisons[name].corewise) for name in shown},
        found.adopted,
    )


def _estimates(looks: list[Moment], i: int) -> Floats:
    """Return the parameter of a class and the ends of its interval at each look."""
    rows = []
    for moment in looks:
        learned = None if moment.corewise is None else moment.corewise.classes[i].learned
        known = learned is not None and learned.informative
        rows.append((learned.parameters["p"], *learned.intervals["p"]) if learned and known else _UNKNOWN)
    return np.array(rows)
