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

`lower_bound` is the largest of them, `lower_bounds` has them all. They take classes that are alike
together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from corewise.analysis.lower.class_by_class import class_by_class
from corewise.analysis.lower.core_time import core_time
from corewise.analysis.lower.fixed_widths import fixed_widths
from corewise.analysis.lower.majorants import Majorants
from corewise.kit.arrays import Floats
from corewise.kit.display import Shown
from corewise.kit.frozen import FrozenMapping
from corewise.model.speedup import FAMILIES
from corewise.model.system import JobClass, System, require_system

__all__ = ["Bounds", "lower_bound", "lower_bounds"]


class Bounds(FrozenMapping[float]):
    """Lower bounds on the mean cost of any policy, by the name of what proves them."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name of the best bound, which is the largest."""
        return max(self, key=self.__getitem__)

    @property
    def best(self) -> float:
        """The largest of the bounds."""
        return self[self.name]

    def _facts(self) -> Mapping[str, object]:
        return {"best": self.best, "name": self.name}

    __repr__ = Shown.__repr__

    def __str__(self) -> str:
        """Return the bounds, the best one first."""
        order = sorted(self, key=lambda name: -self[name])
        width = max(map(len, order))
        return "\n".join(
            ["No policy has a mean cost below", *(f"  {name:{width}}  {self[name]:.8g}" for name in order)]
        )


def lower_bound(system: System) -> float:
    """Return the best lower bound on the mean cost of any policy on a stable system."""
    return lower_bounds(system).best


def lower_bounds(system: System) -> Bounds:
    """Return every lower bound on the mean cost, by name.

    Raises
    ------
    UnstableSystem
        If the load is one or more.
    """
    require_system(system)
    system.require_stable()
    system.require_scale()
    classes, counts = _kinds(system)
    start = fixed_widths(classes, counts, system.cores)
    majorants = Majorants.of([job_class.speedup for job_class in classes], system.cores)
    shared = (classes, counts, system.cores, majorants)
    guess = start.price or classes[0].weight / system.cores
    return Bounds(
        {
            "fixed widths": start.bound,
            "perfect speed-up": _perfect_speedup(system),
            "class by class": class_by_class(*shared, guess),
            "core-time": core_time(*shared, start),
        }
    )


def _kinds(system: System) -> tuple[Sequence[JobClass], Floats]:
    """Return one class of every kind, and how many there are of it."""
    kinds: dict[tuple[object, ...], list[JobClass]] = {}
    for job_class in system.classes:
        curve = job_class.speedup
        # Whether two curves of a user's own are equal is not ours to know.
        same: object = curve if type(curve) in FAMILIES.values() else id(curve)
        key = (job_class.arrival_rate, job_class.size_rate, job_class.weight, same)
        kinds.setdefault(key, []).append(job_class)
    return [alike[0] for alike in kinds.values()], np.array([float(len(a)) for a in kinds.values()])


def _perfect_speedup(system: System) -> float:
    """Return the cost of the cμ rule on one server of speed c: M/M/1 with preemptive priorities."""
    order = sorted(system.classes, key=lambda job_class: -job_class.weight * job_class.size_rate)
    total, busy, residual = 0.0, 0.0, 0.0
    for job_class in order:
        rate = system.cores * job_class.size_rate
        load = job_class.work_rate / system.cores
        residual += load / rate
        response = 1.0 / rate / (1.0 - busy) + residual / ((1.0 - busy) * (1.0 - busy - load))
        busy += load
        total += job_class.weight * load * rate * response
    return total
