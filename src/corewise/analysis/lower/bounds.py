r"""Lower bounds: no policy has a smaller mean cost.

- *fixed widths* (`corewise.analysis.lower.fixed_widths`): every job at the width that is cheapest for it,
  the cores within c on average. It ignores randomness, and is good where there are many jobs.
- *perfect speed-up*: if every job could use all cores at full efficiency, the pool would be one server of
  speed c, and preemptive priority in order of h_i μ_i would be optimal (the cμ rule); its cost is closed.
  It ignores curves, and is good where they are nearly straight.
- *class by class* (`corewise.analysis.lower.class_by_class`): every class exactly, the cores it shares with
  others within c on average. It is good for few cores and light load, and exact for one class.
- *core-time* (`corewise.analysis.lower.core_time`): the jobs' joint demand for cores, with how far it
  swings. It is good where few jobs hold many cores each.

The bound of fixed widths holds for any sizes and any stationary arrivals, and for curves by progress, each
part of a job at its own width; the others are for exponential sizes, Poisson arrivals and curves that stay,
and are left out elsewhere.

`lower_bound` is the largest of them, `lower_bounds` has them all. They take classes that are alike
together. Rounding is outward: no bound is above the optimum in the last digit either, if the speeds of the
curves are right to four units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from corewise.analysis.lower.class_by_class import class_by_class
from corewise.analysis.lower.core_time import core_time
from corewise.analysis.lower.fixed_widths import fixed_widths
from corewise.analysis.lower.majorants import Majorants
from corewise.kit.arrays import Floats
from corewise.kit.frozen import FrozenMapping
from corewise.kit.report import Summarised
from corewise.model.job_class import JobClass
from corewise.model.speedup import FAMILIES
from corewise.model.system import System, require_system

__all__ = ["Bounds", "lower_bound", "lower_bounds", "perfect_speedup"]


class Bounds(FrozenMapping[str, float]):
    """Lower bounds on the mean cost of any policy, by the name of what proves them.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> bounds = cw.lower_bounds(system)
    >>> bounds.best == max(bounds.values())
    True
    >>> bounds.name in bounds
    True
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name of the best bound, which is the largest."""
        return max(self, key=self.__getitem__)

    @property
    def best(self) -> float:
        """The largest of the bounds."""
        return self[self.name]

    def _summary(self) -> Mapping[str, object]:
        return {"best": self.best, "name": self.name}

    __repr__ = Summarised.__repr__

    def __str__(self) -> str:
        """Return the bounds, the best one first."""
        order = sorted(self, key=lambda name: -self[name])
        width = max(map(len, order))
        return "\n".join(
            ["No policy has a mean cost below", *(f"  {name:{width}}  {self[name]:.8g}" for name in order)]
        )


def lower_bound(system: System) -> float:
    """Return the best lower bound on the mean cost of any policy on a stable system.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> bound = cw.lower_bound(system)
    >>> bound <= cw.solve(system).mean_cost
    True
    """
    return lower_bounds(system).best


def lower_bounds(system: System) -> Bounds:
    """Return every lower bound on the mean cost, by name: four, or one if not all is exponential.

    Raises
    ------
    UnstableSystem
        If the load is one or more.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> bounds = cw.lower_bounds(system)
    >>> bounds.best == cw.lower_bound(system)
    True
    >>> sorted(bounds)
    ['class by class', 'core-time', 'fixed widths', 'perfect speed-up']
    """
    require_system(system)
    system.require_stable()
    system.require_scale()
    classes, counts = _kinds(system)
    start = fixed_widths(classes, counts, system.cores)
    majorants = Majorants.of([one.curve for one in classes], system.cores, start.widths)
    start = start.certified(classes, counts, system.cores, majorants)
    if not system.memoryless:
        return Bounds({"fixed widths": start.bound})
    shared = (classes, counts, system.cores, majorants)
    guess = start.price or classes[0].weight / system.cores
    return Bounds(
        {
            "fixed widths": start.bound,
            "perfect speed-up": perfect_speedup(system),
            "class by class": class_by_class(*shared, guess),
            "core-time": core_time(*shared, start),
        }
    )


def _kinds(system: System) -> tuple[Sequence[JobClass], Floats]:
    """Return one class of every kind, and how many there are of it."""
    kinds: dict[tuple[object, ...], list[JobClass]] = {}
    for job_class in chain.from_iterable(map(_phases, system.classes)):
        curve = job_class.curve
        # Whether two curves of a user's own are equal is not ours to know.
        same: object = curve if type(job_class.speedup) in FAMILIES.values() else id(curve)
        key = (job_class.arrival_rate, job_class.size_rate, job_class.weight, same)
        kinds.setdefault(key, []).append(job_class)
    return [alike[0] for alike in kinds.values()], np.array([float(len(a)) for a in kinds.values()])


def _phases(job_class: JobClass) -> list[JobClass]:
    """Return a class as those of the parts of its jobs' work: what each part costs at a price adds up."""
    if not job_class.changes_with_progress:
        return [job_class]
    shares = np.diff(job_class.starts, append=1.0).tolist()
    return [
        replace(job_class, size_rate=job_class.known_size_rate / share, speedup=curve)
        for share, (_, curve) in zip(shares, job_class.speedup.phases, strict=True)
    ]


def perfect_speedup(system: System) -> float:
    """Return the cost of the cμ rule on one server of speed c: M/M/1 with preemptive priorities.

    It rises with every load, so it is made from numbers that are rounded down, and divided by what is left of
    the server rounded up.
    """
    order = sorted(system.classes, key=lambda job_class: -job_class.weight * job_class.known_size_rate)
    total, busy, residual, left = 0.0, 0.0, 0.0, 1.0
    for job_class in order:
        rate = _up(system.cores * job_class.known_size_rate)
        load = _down((job_class.arrival_rate or 0.0) / rate)
        residual = _down(residual + _down(load / rate))
        before, busy = left, _down(busy + load)
        left = _up(1.0 - busy)
        response = _down(_down(1.0 / _up(rate * before)) + _down(residual / _up(before * left)))
        total = _down(total + _down(_down(job_class.weight * (job_class.arrival_rate or 0.0)) * response))
    return total


def _down(value: float) -> float:
    """Return the number below, hence one that is not above what was rounded to `value`."""
    return math.nextafter(value, -math.inf)


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)
