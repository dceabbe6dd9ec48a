"""The record of one turn of the loop."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from corewise.estimation.changes.alarms import RETRACTED, Alarm
from corewise.estimation.estimates import Estimate, Estimates
from corewise.kit.numbers import plus_minus
from corewise.kit.report import Report, Reported, Summarised, json_values
from corewise.kit.values import ByValue
from corewise.policies.base import Policy

__all__ = ["Epoch", "Seconds", "changes_found"]


@dataclass(frozen=True, eq=False, repr=False)
class Seconds(ByValue, Summarised):
    """Wall-clock times of an epoch: running the plant, estimating, solving, and evaluating exactly."""

    _repr_fields = ("run", "estimate", "solve", "evaluate")

    run: float
    estimate: float
    solve: float
    evaluate: float

    @property
    def total(self) -> float:
        """The total."""
        return self.run + self.estimate + self.solve + self.evaluate


@dataclass(frozen=True, eq=False, repr=False)
class Epoch(ByValue, Reported):
    """Epoch of a learning loop: the estimates from its window, the policy adopted, and how good that is.

    Attributes
    ----------
    k : int
        Which epoch, from 1.
    departures : int
        Departures since the beginning.
    window : int
        Departures in this epoch's window.
    time : float
        The time observed since the beginning.
    estimates : Estimates
        What the memory says about every class. Where it says nothing, the last estimate stays, with
        ``informative=False``.
    policy : Policy
        The policy adopted at the end of this epoch.
    arrival_rates, size_rates : mapping
        The rates as they are known or estimated, by class.
    mean_jobs : float or None
        The exact mean number of jobs under that policy and the truth; None where the truth is not known or
        was not requested, infinite if the policy is unstable.
    mean_cost : float or None
        The same, each job counted by the weight of its class.
    gap : float or None
        J/J* − 1: how much more the policy costs than the best one for the truth.
    alarms : tuple of Alarm
        The changes that were found at the end of the window; none without a change detector.
    seconds : Seconds
        How long each part took.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> algorithm = cw.algorithm_1b(system, departures=500, steps=4)
    >>> *_, last = cw.learn(cw.SimulatedPlant(system, rng=7), algorithm)
    >>> last.k, last.departures, last.window
    (4, 2000, 500)
    >>> round(last.estimates["two"].value, 1), last.gap < 0.01
    (0.8, True)
    """

    _repr_fields = ("k", "departures", "mean_jobs", "gap")
    _json_fields = (
        *("k", "departures", "window", "time", "estimates=estimates.parameters", "stderr=estimates.stderrs"),
        *("interval=estimates.intervals", "informative=estimates.informative"),
        *("at_boundary=estimates.at_boundary", "arrival_rates", "size_rates", "stable", "mean_jobs"),
        *("mean_cost", "gap", "alarms"),
    )

    k: int
    departures: int
    window: int
    time: float
    estimates: Estimates
    policy: Policy
    arrival_rates: Mapping[str, float]
    size_rates: Mapping[str, float]
    mean_jobs: float | None
    mean_cost: float | None
    gap: float | None
    alarms: tuple[Alarm, ...]
    seconds: Seconds

    @property
    def stable(self) -> bool | None:
        """Whether the policy is stable; None where it was not evaluated."""
        return None if self.mean_jobs is None else math.isfinite(self.mean_jobs)

    def report(self) -> Report:
        """Return the parameters of every class, the gap to the optimum, and the changes that were found."""
        facts: list[tuple[str, object]] = [
            (name, ", ".join(_parameters(row)) if row.informative else "no information")
            for name, row in self.estimates.items()
        ]
        if self.gap is not None:
            facts.append(("above the optimum", f"{self.gap:.4%}"))
        facts += [("change", str(alarm)) for alarm in self.alarms]
        return Report(f"Epoch {self.k}, {self.departures:,} departures", facts)

    def as_mapping(self) -> dict[str, Any]:
        """Return everything but the policy and the seconds as plain values, for JSON."""
        values: dict[str, Any] = json_values(self)
        return values

    to_dict = as_mapping


def _parameters(row: Estimate) -> Iterator[str]:
    for name, value in row.parameters.items():
        yield f"{name} = {plus_minus(value, row.stderrs[name], figures=2)}"


def changes_found(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the changes in the records of epochs, each once and in the order in which they were found.

    They are as `Alarm.as_mapping` has them, but where a later alarm has said what an earlier one had found,
    both are one change: ``raised`` is when it was found, and ``named`` when it was last said what it is, None
    if it has not been yet. Retracted changes are left out.
    """
    found: dict[tuple[str, float, float], dict[str, Any]] = {}
    for alarm in (alarm for row in rows for alarm in row.get("alarms", ())):
        which = alarm["name"], alarm["departures"], alarm["statistic"]  # the same in all alarms of a change
        raised = found[which]["raised"] if which in found else alarm["raised"]
        named = None if alarm["kind"] == "speed" else alarm["raised"]
        found[which] = {**alarm, "raised": raised, "named": named}
    return [change for change in found.values() if change["kind"] != RETRACTED]
