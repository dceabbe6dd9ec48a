"""The state of a simulation, where one run ends and another can start."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit import checks
from corewise.kit.report import Summarised
from corewise.kit.values import ByValue

__all__ = ["State"]


@dataclass(frozen=True, eq=False, repr=False)
class State(ByValue, Summarised):
    """State of a simulation: where a run ended, and where another can start.

    Attributes
    ----------
    counts : tuple of int
        The jobs of each class.
    time : float
        The clock.
    jobs : tuple of tuple of int
        Their numbers, class by class, if they were recorded; otherwise empty, and a recorded run gives new
        ones.
    named : int
        How many job numbers have been given out.
    remaining, attained : tuple of tuple of float
        The work that each job still has to get and has got, class by class, if sizes are not exponential;
        empty if it is unknown: then all of them begin anew.
    next_arrivals : tuple of float
        When the next job of each class comes, if it is known already.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, "equi", departures=20_000, rng=7)
    >>> state = run.state
    >>> len(state.counts), round(state.time) == round(run.time)
    (2, True)
    >>> cw.simulate(system, "equi", departures=10, rng=8, start=state).state.time > state.time
    True
    """

    _repr_fields = ("counts", "time")

    counts: tuple[int, ...]
    time: float = 0.0
    jobs: tuple[tuple[int, ...], ...] = ()
    named: int = 0
    remaining: tuple[tuple[float, ...], ...] = ()
    attained: tuple[tuple[float, ...], ...] = ()
    next_arrivals: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        counts = tuple(checks.whole(n, "jobs of a state", least=0) for n in self.counts)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "time", checks.finite(self.time, "time of a state"))
        for what, rows in (
            ("job numbers", self.jobs),
            ("remaining work", self.remaining),
            ("attained work", self.attained),
        ):
            if rows and tuple(len(row) for row in rows) != counts:
                raise InvalidInput(
                    f"a state with {list(counts)} jobs cannot have the {what} {checks.shown(rows)}"
                )
        if bool(self.remaining) != bool(self.attained):
            raise InvalidInput("a state has both the remaining and the attained work of its jobs, or neither")
        for row in (*self.remaining, *self.attained):
            for work in row:
                checks.within(work, 0.0, math.inf, "work of a job in a state")
        if self.next_arrivals and len(self.next_arrivals) != len(counts):
            raise InvalidInput(
                f"a state of {len(counts)} classes cannot have the next arrivals {self.next_arrivals!r}"
            )

    def with_names(self) -> State:
        """Return the state with a number for every job."""
        if self.jobs or not any(self.counts):
            return self
        edges = np.cumsum([self.named, *self.counts]).tolist()
        jobs = tuple(tuple(range(a, b)) for a, b in pairwise(edges))
        return replace(self, jobs=jobs, named=edges[-1])
