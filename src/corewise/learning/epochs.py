"""The record of one turn of the loop."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from corewise.estimation.estimates import Estimates
from corewise.policies.base import Policy

__all__ = ["Epoch", "Seconds"]


@dataclass(frozen=True)
class Seconds:
    """How long each part of an epoch took: running the plant, estimating, solving, and judging exactly."""

    run: float
    estimate: float
    solve: float
    evaluate: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.run + self.estimate + self.solve + self.evaluate


@dataclass(frozen=True, eq=False)
class Epoch:
    """What one window taught, and what was made of it.

    Attributes
    ----------
    k : int
        Which epoch, from 1.
    departures : int
        Departures since the beginning.
    window : int
        Departures in this epoch's window.
    time : float
        How long the plant has been watched since the beginning.
    estimates : Estimates
        What the memory says about every class. Where it says nothing, the last estimate stays, with
        ``informative=False``.
    policy : Policy
        The policy adopted at the end of this epoch.
    mean_jobs : float or None
        The exact mean number of jobs under that policy and the truth; None where the truth is not known or
        was not asked for, infinite if the policy cannot keep up.
    mean_cost : float or None
        The same, each job counted by the weight of its class.
    gap : float or None
        J/J* − 1: how much more the policy costs than the best one for the truth.
    seconds : Seconds
        How long each part took.
    """

    k: int
    departures: int
    window: int
    time: float
    estimates: Estimates
    policy: Policy
    mean_jobs: float | None
    mean_cost: float | None
    gap: float | None
    seconds: Seconds = field(repr=False)

    @property
    def stable(self) -> bool | None:
        """Whether the policy can keep up; None where it was not judged."""
        return None if self.mean_jobs is None else math.isfinite(self.mean_jobs)

    def __str__(self) -> str:
        """Return the epoch in a line."""
        found = "; ".join(
            ", ".join([name, *(f"{key} = {value:.6g}" for key, value in estimate.parameters.items())])
            for name, estimate in self.estimates.items()
        )
        judged = "" if self.gap is None else f"; {self.gap:.4%} above the optimum"
        return f"epoch {self.k}, {self.departures} departures: {found}{judged}"

    def as_mapping(self) -> dict[str, Any]:
        """Return everything but the policy and the seconds as plain values, for JSON."""
        found = self.estimates
        return {
            "k": self.k,
            "departures": self.departures,
            "window": self.window,
            "time": self.time,
            "estimates": {name: dict(row.parameters) for name, row in found.items()},
            "stderr": {name: dict(row.stderrs) for name, row in found.items()},
            "interval": {
                name: {p: list(ends) for p, ends in row.intervals.items()} for name, row in found.items()
            },
            "informative": {name: row.informative for name, row in found.items()},
            "at_boundary": {name: row.at_boundary for name, row in found.items()},
            "stable": self.stable,
            "mean_jobs": self.mean_jobs,
            "mean_cost": self.mean_cost,
            "gap": self.gap,
        }
