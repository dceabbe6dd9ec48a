"""Algorithms: a schedule, a memory, and what to do with the estimates. The paper's, and one that adapts.

Paper: Algorithms 1, 1a and 1b.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from corewise.control.solution import Solution, solve
from corewise.errors import InvalidInput
from corewise.estimation.changes.detector import LEAST_CHECKS, ChangeDetector
from corewise.estimation.mle import ANY, require_sizes
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.report import Summarised
from corewise.learning.memories import Everything, Latest, Memory, SinceChange, Watchful
from corewise.learning.schedules import Constant, Growing, Schedule
from corewise.model.speedup import SpeedUp
from corewise.model.system import System, require_system
from corewise.policies.base import BoundPolicy, Policy, bind, checked_policy
from corewise.policies.equi import Equi
from corewise.policies.tabular import Tabular

__all__ = [
    "ALGORITHMS",
    "FIRST_WINDOW",
    "Algorithm",
    "adaptive",
    "algorithm_1a",
    "algorithm_1b",
    "first_curve",
    "live_algorithm",
]

FIRST_WINDOW = 50
"""Departures in the first window of a live pool, if nothing else is given."""

_DEPARTURES = 200
_BETWEEN_ALARMS = 1e7
_INERTIA = 0.1


@dataclass(frozen=True, eq=False, repr=False)
class Algorithm(Summarised):
    """Learning algorithm: a schedule of windows, a memory, and a rule from estimates to a policy.

    Parameters
    ----------
    name : str
        What to call it.
    system : System
        What is known: cores, classes, arrival and size rates, weights, and the *family* of each curve. The
        parameters of the curves and their changes are not kept, so they cannot leak. Rates may be None: they
        are then estimated along with the curves.
    schedule : Schedule
        The departures of each window.
    memory : Memory
        What the estimates are made from.
    steps : int or None
        How many windows; None for as many as the plant yields.
    policy : Policy, optional
        The rule that is bound to the estimates, such as ``Whittle()``. By default the exact optimum.
    first : Policy or mapping, optional
        The first policy; by default EQUI. Curves by class name, such as ``{"one": Amdahl(0.2)}``, are a first
        guess instead: the first policy is then the one that the algorithm would adopt for them.
    inertia : float, optional
        A new policy is made only when some estimate has moved by more than so many of its standard errors
        since the last one was. What a policy loses by estimates that are off is of second order in their
        error, so a tenth costs a hundredth of what is lost anyway.
    sizes : str, optional
        ``"any"``: no size distribution is assumed where the plant tells jobs apart; or ``"exponential"``, the
        paper's. See `estimate`.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> algorithm = cw.Algorithm(
    ...     "growing windows",
    ...     system,
    ...     schedule=cw.schedules.Growing(100, power=1.0),
    ...     memory=cw.memories.Everything(),
    ...     steps=3,
    ...     policy=cw.Whittle(),
    ... )
    >>> [epoch.departures for epoch in cw.learn(cw.SimulatedPlant(system, rng=7), algorithm)]
    [100, 300, 600]
    """

    name: str
    system: System
    schedule: Schedule
    memory: Memory
    steps: int | None = None
    policy: Policy | None = None
    first: Policy | Mapping[str, SpeedUp] | None = None
    inertia: float = 0.0
    sizes: str = ANY

    def __post_init__(self) -> None:
        require_system(self.system)
        if self.knows_rates:
            self.system.require_stable()
            self.system.require_scale()
        guessed = [replace(known, speedup=first_curve(known.speedup)) for known in self.system.classes]
        object.__setattr__(self, "system", self.system.with_classes(guessed))
        if isinstance(self.schedule, type) or not isinstance(self.schedule, Schedule):
            raise InvalidInput(f"schedule must be one such as Constant(100), got {self.schedule!r}")
        if isinstance(self.memory, type) or not isinstance(self.memory, Memory):
            raise InvalidInput(f"memory must be one such as Latest(), got {self.memory!r}")
        if self.steps is not None:
            object.__setattr__(self, "steps", checks.whole(self.steps, "steps"))
        object.__setattr__(self, "policy", _checked(self.policy, self.system))
        object.__setattr__(self, "inertia", checks.within(self.inertia, 0.0, math.inf, "inertia"))
        require_sizes(self.sizes)
        self.schedule.window(1 if self.steps is None else self.steps)  # the longest must be possible
        if isinstance(self.first, Mapping):
            self._require_families(self.first)
        else:
            object.__setattr__(self, "first", _checked(self.first, self.system))

    @cached_property
    def knows_rates(self) -> bool:
        """Whether the arrival and size rates of all classes are known."""
        return not np.any(np.isnan([*self.system.arrival_rates, *self.system.size_rates]))

    @cached_property
    def watches(self) -> bool:
        """Whether the memory has a change detector."""
        return isinstance(self.memory, Watchful)  # slow, for a protocol: asked once

    def _require_families(self, curves: Mapping[str, SpeedUp]) -> None:
        if not self.knows_rates:
            raise InvalidInput("first: a policy for curves needs all rates, name a policy instead")
        self.system.with_curves(curves)
        for name, curve in curves.items():
            known = self.system[name].speedup
            if type(curve) is not type(known):
                raise InvalidInput(
                    f"first: class {name!r} has a curve of the family {known.family}, not {curve!r}"
                )

    def __str__(self) -> str:
        """Return the algorithm in a line."""
        rule = "the optimum" if self.policy is None else self.policy.name
        steps = "" if self.steps is None else f", {self.steps} windows"
        return f"Algorithm {self.name}: {self.schedule}{steps}, then {rule} at the estimates"

    def beginning(self) -> tuple[System, Policy]:
        """Return the system as it is first guessed, and the first policy."""
        if isinstance(self.first, Mapping):
            guess = self.system.with_curves(self.first)
            return guess, self.best_policy(guess)
        return self.system, Equi() if self.first is None else self.first

    def solve(
        self, system: System, warm_start: Floats | None = None, *, whole_cores: bool = False
    ) -> Solution | BoundPolicy:
        """Return what to adopt for a plug-in system: the algorithm's rule bound to it, or its optimum."""
        if self.policy is not None:
            return bind(self.policy, system)
        return solve(system.as_memoryless(), start=warm_start, whole_cores=whole_cores)

    def best_policy(self, system: System, *, whole_cores: bool = False) -> Tabular | BoundPolicy:
        """Return the policy to adopt for a plug-in system."""
        solved = self.solve(system, whole_cores=whole_cores)
        return solved.policy if isinstance(solved, Solution) else solved

    def _summary(self) -> Mapping[str, object]:
        rule = "optimal" if self.policy is None else self.policy.name
        known = {"classes": tuple(self.system.names), "steps": self.steps, "policy": rule}
        return {"name": self.name, **known}


def algorithm_1a(
    system: System,
    *,
    departures: int = _DEPARTURES,
    steps: int | None = None,
    power: float = 0.75,
    growth: Callable[[int], float] | None = None,
    policy: Policy | str | None = None,
    first: Policy | str | Mapping[str, SpeedUp] | None = None,
    sizes: str = ANY,
) -> Algorithm:
    """Return Algorithm 1a: growing windows, estimates from the latest of them.

    Parameters
    ----------
    system : System
        What is known; see `Algorithm`.
    departures : int, optional
        The departures in the first window.
    steps : int or None, optional
        How many windows; None for as many as the plant yields.
    power, growth : float, callable
        Window k has ⌈departures · k^power⌉ departures, or ⌈departures · growth(k)⌉.
    policy, first, sizes
        See `Algorithm`.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> algorithm = cw.algorithm_1a(system, departures=200, steps=3)
    >>> [epoch.departures for epoch in cw.learn(cw.SimulatedPlant(system, rng=7), algorithm)]
    [200, 537, 993]
    """
    schedule, rules = Growing(departures, power, growth), _rules(system, policy, first)
    return Algorithm("1a", system, schedule, Latest(), steps, *rules, sizes=sizes)


def algorithm_1b(
    system: System,
    *,
    departures: int = _DEPARTURES,
    steps: int | None = None,
    power: float = 0.0,
    policy: Policy | str | None = None,
    first: Policy | str | Mapping[str, SpeedUp] | None = None,
    sizes: str = ANY,
) -> Algorithm:
    """Return Algorithm 1b: windows of `departures` each, estimates from all of them.

    Parameters are those of `algorithm_1a`; with a `power` above zero the windows grow.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> algorithm = cw.algorithm_1b(system, departures=200, steps=3)
    >>> [epoch.departures for epoch in cw.learn(cw.SimulatedPlant(system, rng=7), algorithm)]
    [200, 400, 600]
    """
    schedule: Schedule = Growing(departures, power) if checks.finite(power, "power") else Constant(departures)
    return Algorithm("1b", system, schedule, Everything(), steps, *_rules(system, policy, first), sizes=sizes)


def adaptive(  # noqa: PLR0913  # those of 1b, and how to look out for changes
    system: System,
    *,
    departures: int = _DEPARTURES,
    steps: int | None = None,
    power: float = 0.0,
    between_alarms: float = _BETWEEN_ALARMS,
    policy: Policy | str | None = None,
    first: Policy | str | Mapping[str, SpeedUp] | None = None,
    inertia: float = _INERTIA,
    sizes: str = ANY,
) -> Algorithm:
    """Return the algorithm that detects changes: estimates from all that was seen since the last.

    As accurate as Algorithm 1b while nothing changes, and quicker than 1a when something does. Where a plant
    identifies jobs, sizes that vary more than exponential ones raise no more alarms than promised.

    Parameters
    ----------
    system : System
        What is known; see `Algorithm`. Arrival and size rates may change as well.
    departures : int, optional
        The departures in a window; after each one all classes are checked.
    steps : int or None, optional
        How many windows; None for as many as the plant yields.
    between_alarms : float, optional
        Mean number of departures between false alarms (the false-alarm interval); at least a hundred windows.
    power, policy, first, inertia, sizes
        See `algorithm_1b` and `Algorithm`.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> algorithm = cw.adaptive(system, departures=200, steps=3)
    >>> [epoch.departures for epoch in cw.learn(cw.SimulatedPlant(system, rng=7), algorithm)]
    [200, 400, 600]
    """
    schedule: Schedule = Growing(departures, power) if checks.finite(power, "power") else Constant(departures)
    made = Algorithm(
        "adaptive", system, schedule, Everything(), steps, *_rules(system, policy, first), inertia, sizes
    )
    between, longest = checks.positive(between_alarms, "between_alarms"), schedule.window(made.steps or 1)
    if between < LEAST_CHECKS * longest:
        raise InvalidInput(
            f"between_alarms must be at least {LEAST_CHECKS} windows of {longest} departures, got {between:g}"
        )
    return replace(made, memory=SinceChange(ChangeDetector(made.system, between)))


def live_algorithm(system: System, departures: int = FIRST_WINDOW) -> Algorithm:
    """Return the algorithm of a live pool: `adaptive`, with short windows at first, when each says much.

    Window k has ⌈departures · √k⌉ departures.
    """
    return adaptive(system, departures=departures, power=0.5)


def _rules(
    system: System, policy: Policy | str | None, first: Policy | str | Mapping[str, SpeedUp] | None
) -> tuple[Policy | None, Policy | Mapping[str, SpeedUp] | None]:
    """Return the rule to adopt and what to begin with, where they are given by name."""
    return _checked(policy, system), first if isinstance(first, Mapping) else _checked(first, system)


def _checked(policy: Policy | str | None, system: System) -> Policy | None:
    return None if policy is None else checked_policy(policy, system)


ALGORITHMS: Mapping[str, Callable[..., Algorithm]] = {
    "1a": algorithm_1a,
    "1b": algorithm_1b,
    "adaptive": adaptive,
}
"""The algorithms by name."""


def first_curve(curve: SpeedUp) -> SpeedUp:
    """Return the curve of the same family that is assumed before anything is known: p = 0.5.

    In general every parameter is in the middle of its range, or at its end if there is but one: the Universal
    Scalability Law begins as Amdahl's with p = 0.5. A curve without parameters is known as it is.
    """
    return curve.with_parameters(**{name: _middle(*ends) for name, ends in curve.bounds.items()})


def _middle(low: float, high: float) -> float:
    if math.isfinite(low) and math.isfinite(high):
        return 0.5 * (low + high)
    return next((end for end in (low, high) if math.isfinite(end)), 0.0)
