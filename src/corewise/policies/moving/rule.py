r"""Rules for the whole cores of single jobs, where a move costs a pause.

A policy says how many cores each class is to hold. Which job then holds how many, and whether it is worth to
stop a job for it, is said by a *width rule*:

- *follow*: share the cores of a class equally at every event (`corewise.policies.moving.share`);
- *hold*: start with that share, or as much of it as is free, and never change it;
- *steady*: change it if the time that a job has before it changes by more than four pauses, and take back
  what jobs that wait need;
- *price*: choose the widths with the least sum of costs-to-go, see `corewise.control.priced`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from corewise.errors import InvalidPolicy
from corewise.kit.arrays import Floats, Ints
from corewise.kit.values import ByValue
from corewise.model.system import System
from corewise.policies.decisions import Decision, Refinement
from corewise.policies.moving._kernels import FOLLOW, HOLD, PRICE, STEADY, Jobs, Prices, choose_widths

__all__ = ["KINDS", "PriceTables", "WidthRule", "Widths", "job_times"]

KINDS = {"follow": FOLLOW, "hold": HOLD, "steady": STEADY, "price": PRICE}
"""The kinds of width rules, by name."""


@dataclass(frozen=True, eq=False)
class PriceTables:
    """Costs-to-go of single jobs by class, state of the box and width: what the price rule adds up.

    Attributes
    ----------
    capacity : ndarray of int
        The largest count of each class; beyond it, a state is taken for the one at the edge.
    running, paused : ndarray, shape (K, states, widths)
        Of a job that runs on a number of cores, and of one that begins a pause with them; infinite for widths
        that its class may not hold.
    waiting : ndarray, shape (K, states)
        Of a job that never held cores.
    idle : ndarray, shape (states,)
        What an idle core costs until the next event.
    """

    capacity: Ints
    running: Floats
    paused: Floats
    waiting: Floats
    idle: Floats

    def __post_init__(self) -> None:
        classes, states, widths = self.running.shape
        if (
            self.capacity.shape != (classes,)
            or np.any(self.capacity < 1)
            or states != int(np.prod(self.capacity + 1))
            or widths < 2
            or self.paused.shape != self.running.shape
            or self.waiting.shape != (classes, states)
            or self.idle.shape != (states,)
        ):
            raise InvalidPolicy("price tables do not fit each other")

    @property
    def arrays(self) -> Prices:
        """What the kernels read."""
        strides = np.append(np.cumprod((self.capacity + 1)[:0:-1])[::-1], 1).astype(np.int64)
        restart = np.ascontiguousarray(self.paused[:, :, 1:].min(axis=2))
        return self.capacity, strides, self.running, self.paused, self.waiting, restart, self.idle

    def named(self) -> Mapping[str, Floats | Ints]:
        """Return the arrays by name, to be kept."""
        names = ("capacity", "running", "paused", "waiting", "idle")
        return {name: getattr(self, name) for name in names}


_NO_TABLES = PriceTables(
    np.ones(1, dtype=np.int64), np.zeros((1, 2, 2)), np.zeros((1, 2, 2)), np.zeros((1, 2)), np.zeros(2)
)


class WidthRule(ByValue):
    """Width rule of a policy: whole cores for every job at an event.

    Parameters
    ----------
    kind : str
        One of ``"follow"``, ``"hold"``, ``"steady"`` and ``"price"``.
    pauses : ndarray
        δ of each class.
    times : ndarray, shape (K, cores + 1)
        1/(μ s(u)), how long a mean job takes on u cores; infinite on none.
    tables : PriceTables, optional
        What ``"price"`` goes by.
    """

    def __init__(self, kind: str, pauses: Floats, times: Floats, tables: PriceTables | None = None) -> None:
        if kind not in KINDS or (kind == "price") != (tables is not None):
            raise InvalidPolicy(f"unknown width rule {kind!r}, or one with the wrong tables")
        self.kind, self.pauses, self.times, self.tables = kind, pauses, times, tables
        self._prices = (tables or _NO_TABLES).arrays

    @property
    def arguments(self) -> tuple[int, Floats, Floats, Prices]:
        """What the kernels need of it."""
        return KINDS[self.kind], self.pauses, self.times, self._prices

    def widths(self, jobs: Jobs, cores: Ints, pool: int) -> Ints:
        """Return the cores that every job is to hold, the oldest first; `cores` are those of each class."""
        out = np.zeros(jobs[0].size, dtype=np.int64)
        kind, pauses, times, prices = self.arguments
        choose_widths(kind, jobs, cores, pauses, times, prices, pool, out)
        return out


@dataclass(frozen=True, eq=False)
class Widths(Refinement):
    """Decision with a width rule: which job holds how many whole cores where moves cost time.

    Attributes
    ----------
    within : Decision
        The cores of each class; where moves are free it is all there is.
    rule : WidthRule
        The whole cores of single jobs.
    """

    within: Decision
    rule: WidthRule


def job_times(system: System, cores: int) -> Floats:
    """Return 1/(μ s(u)) of each class for u = 0 … cores."""
    speeds = np.stack([known.curve.rate(np.arange(cores + 1.0)) for known in system.classes])
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / (system.size_rates[:, None] * speeds))
