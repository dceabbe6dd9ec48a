"""The grid of a sweep: what it is asked to do, as single trials.

Every combination of a system, its cores and load, a policy, an algorithm and a seed is one `Trial`. Its
*key* says in words what it is, and its random numbers come from the seed of the sweep and its key alone:
whatever is added to a sweep, and whichever worker runs it, a trial gives the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

import numpy as np

from corewise.kit.report import Summarised
from corewise.kit.values import ByValue
from corewise.model.system import System
from corewise.policies.base import Policy

__all__ = ["SweepPlan", "Trial"]


@dataclass(frozen=True)
class Trial:
    """Trial of a sweep: one run, with everything that the worker which runs it needs.

    Attributes
    ----------
    sweep_seed : int
        The seed of the whole sweep.
    kind : str
        ``simulate``, ``evaluate`` or ``learn``.
    name : str
        What the sweep calls the system.
    system : System
        The system itself, with the cores and at the load below.
    policy : str
        What the sweep calls the policy: of a ``learn``, the one to adopt at the estimates.
    cores, load : float or None
        What of the named system is varied, if it is.
    algorithm, departures, steps, power, between_alarms, test_departures
        What the sweep says of them; None where it does not.
    seed : int or None
        Which of the otherwise equal trials; None where nothing is random.
    gap : bool or None
        Whether to say how far from the optimum it is; None where the optimum can be had.
    exact : bool
        Whether an exact mean is insisted on, however long it takes.
    whole, known_sizes : bool
        Of a ``simulate``: whether every job holds whole cores, and whether policies see the work before it.
    rule : Policy or None
        The policy, but for one that takes a computation: that is left to the worker that runs the trial.
    """

    sweep_seed: int
    kind: str
    name: str
    system: System = field(repr=False)
    policy: str
    cores: float | None = None
    load: float | None = None
    algorithm: str | None = None
    departures: int | None = None
    steps: int | None = None
    power: float | None = None
    between_alarms: float | None = None
    test_departures: int | None = None
    seed: int | None = None
    gap: bool | None = None
    exact: bool = False
    whole: bool = False
    known_sizes: bool = False
    rule: Policy | None = field(default=None, repr=False, compare=False)

    @cached_property
    def key(self) -> str:
        """What this trial is, in words; different from those of all others of the sweep."""
        said = {
            "system": self.name,
            "cores": self.cores,
            "load": self.load,
            "policy": self.policy,
            "algorithm": self.algorithm,
            "departures": self.departures,
            "steps": self.steps,
            "power": self.power,
            "between_alarms": self.between_alarms,
            "test_departures": self.test_departures,
            "whole": "true" if self.whole else None,
            "known_sizes": "true" if self.known_sizes else None,
            "seed": self.seed,
        }
        words = (f"{what}={_as_text(value)}" for what, value in said.items() if value is not None)
        return " ".join([self.kind, *words])

    def random_generator(self) -> np.random.Generator:
        """Return a new source of the random numbers of this trial."""
        words = np.frombuffer(sha256(self.key.encode()).digest(), dtype="<u4")
        return np.random.default_rng([self.sweep_seed, *words.tolist()])


@dataclass(frozen=True, eq=False, repr=False)
class SweepPlan(ByValue, Summarised):
    """Plan of a sweep: the grid of all its trials.

    Attributes
    ----------
    name : str
        The file it comes from, or what else to call it.
    seed : int
        Where all random numbers come from.
    trials : tuple of Trial
        What is to be done, in the order of the file.
    fingerprint : str
        Differs whenever rows could: from another trial, system, saved policy or seed, or from a version of
        corewise that gives other numbers.
    """

    _repr_fields = ("name", "seed", "trials")
    _exported = ("name", "seed", "fingerprint")

    name: str
    seed: int
    trials: tuple[Trial, ...]
    fingerprint: str

    def _content(self) -> list[dict[str, str]]:
        return [{"key": trial.key} for trial in self.trials]


def _as_text(value: object) -> str:
    """Return a value as text; a number that is whole, without a point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
