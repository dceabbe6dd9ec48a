"""Mean response time at a number of cores: exact where that is quick, otherwise simulated, with an interval.

Simulated means are those of `corewise.studies.means`; every number of cores begins with the same random
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from corewise.analysis.lower.bounds import lower_bound
from corewise.analysis.performance import evaluate
from corewise.analysis.tractability import Tractability
from corewise.control.improve.improved import Improved
from corewise.control.solution import solve
from corewise.errors import InvalidPolicy, NotSettled, UnstablePolicy
from corewise.kit.report import Summarised
from corewise.kit.values import ByValue
from corewise.model.system import System
from corewise.policies.base import BoundPolicy, Policy, bind, policy_named
from corewise.policies.tabular import Tabular
from corewise.studies.means import simulated_mean

__all__ = ["Point", "Responses"]

_FIRST_EVENTS = 100_000
_MOST_EVENTS = 1_600_000
_ROUNDING = 1e-9  # as far as exact answers are exact


@dataclass(frozen=True, eq=False, repr=False)
class Point(ByValue, Summarised):
    """Point of a capacity curve: the performance at a number of cores.

    Attributes
    ----------
    cores : int
        How many.
    mean_jobs, mean_response_time : float
        Under the policy; infinite if it cannot keep up, NaN if a simulation could not tell.
    interval : tuple of float
        For the mean response time: where it lies for sure if exact or not settled, with 95 % confidence if
        simulated.
    exact : bool
        Whether it was computed rather than simulated.
    """

    _repr_fields = ("cores", "mean_jobs", "mean_response_time", "exact")

    cores: int
    mean_jobs: float
    mean_response_time: float
    interval: tuple[float, float]
    exact: bool


@dataclass
class Responses:
    """Capacity curve: the mean response time of a policy against the number of cores, computed on demand.

    Parameters
    ----------
    system : System
        The classes; its own number of cores does not matter.
    policy : Policy, str or None
        A rule, made anew for each number of cores; or its name; or None for the best there is: the optimum
        where that is quick, otherwise `Improved`.
    seed : int
        Of the simulations.
    found : callable, optional
        Called whenever something was found.
    """

    system: System
    policy: Policy | str | None
    seed: int
    found: Callable[[], object] = lambda: None
    _points: dict[int, Point] = field(default_factory=dict)
    _bounds: dict[int, float] = field(default_factory=dict)
    _events: dict[int, int] = field(default_factory=dict)
    _policies: dict[int, BoundPolicy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.policy, BoundPolicy | Tabular):
            raise InvalidPolicy(
                f"policy {self.policy.name!r} is made for one number of cores: give a rule, such as Whittle()"
            )
        if isinstance(self.policy, str) and self.policy != "optimal":
            self._rule(self.with_cores(self.fewest))  # a name that is none is found out before anything else

    @cached_property
    def work(self) -> float:
        """The work that arrives per unit of time, in cores."""
        return math.fsum(job_class.work_rate for job_class in self.system.classes)

    @cached_property
    def fewest(self) -> int:
        """The fewest whole cores with which some policy keeps up."""
        needed = max(job_class.min_cores for job_class in self.system.classes)
        return max(math.floor(self.work * (1.0 + _ROUNDING)) + 1, needed)

    def name(self, cores: int) -> str:
        """Return what to call the policy on that many cores."""
        if self.policy is None:
            return "optimal" if self.at(cores).exact else self._rule(self.system).name
        return self.policy if isinstance(self.policy, str) else self.policy.name

    def is_exact(self, cores: int) -> bool:
        """Return whether that many cores were looked at, exactly."""
        return cores in self._points and self._points[cores].exact

    def leaves_open(self, cores: int, target: float) -> bool:
        """Return whether that many cores were looked at, and may or may not meet a target."""
        point = self._points.get(cores)
        return point is not None and not point.exact and point.interval[0] <= target

    def with_cores(self, cores: int) -> System:
        """Return the system on that many cores."""
        return self.system.with_cores(cores)

    def bound(self, cores: int) -> float:
        """Return a mean response time that no policy undercuts on that many cores: the optimum, if quick."""
        if cores not in self._bounds:
            system = self.with_cores(cores)
            system = system.with_classes([replace(known, weight=1.0) for known in system.classes])
            jobs = solve(system).bounds[0] if Tractability.of(system).exact else lower_bound(system)
            self._bounds[cores] = jobs / float(self.system.arrival_rates.sum())
            self.found()
        return self._bounds[cores]

    def excludes(self, cores: int, target: float) -> bool:
        """Return whether it is proved that no policy meets a target with that many cores."""
        return self.bound(cores) > target * (1.0 + _ROUNDING)

    def at(self, cores: int, *, like: int | None = None) -> Point:
        """Return the point of the curve at that many cores, as it is known by now or from a first look.

        With `like`, from a look no shorter than at that other number of cores.
        """
        length = 1 if like is None else self._events.get(like, 1)
        while cores not in self._points or self._events.get(cores, length) < length:
            self._look(cores)
        return self._points[cores]

    def meets(self, cores: int, target: float) -> bool:
        """Return whether that many cores surely meet a target; what cannot be decided does not.

        Without an exact answer at hand, a bound that says no will do; then one simulates for as long as
        the target lies within the interval.
        """
        if cores not in self._points and not self._is_computed(cores) and self.excludes(cores, target):
            return False
        point = self.at(cores)
        while not point.exact and point.interval[0] <= target < point.interval[1] and self._look(cores):
            point = self.at(cores)
        return point.interval[1] <= target * (1.0 + _ROUNDING)

    def confirmed(self, cores: int, target: float) -> bool:
        """Return whether an independent run, with new random numbers, confirms that a target is met."""
        if self.at(cores).exact:
            return True
        again = np.random.default_rng([self.seed, cores])
        self._points[cores] = self._simulated(cores, self._events[cores], again)
        self.found()
        return self.meets(cores, target)

    def _look(self, cores: int) -> bool:
        """Find out what a number of cores gives, or take a closer look; return whether there was any."""
        if self._is_computed(cores):
            self._points[cores] = self._exact(cores)
        else:
            length = 4 * self._events.get(cores, _FIRST_EVENTS // 4)
            if length > _MOST_EVENTS:
                return False
            self._events[cores] = length
            self._points[cores] = self._simulated(cores, length, np.random.default_rng(self.seed))
        self.found()
        return True

    def _is_computed(self, cores: int) -> bool:
        """Return whether answers are exact; the optimum by name always is."""
        return self.policy == "optimal" or Tractability.of(self.with_cores(cores)).exact

    def _rule(self, system: System) -> Policy:
        rule = (
            policy_named(self.policy, system) if isinstance(self.policy, str) else self.policy or Improved()
        )
        if isinstance(rule, Tabular):
            raise InvalidPolicy(
                f"policy {self.policy!r} is made for one number of cores: name a rule instead"
            )
        return rule

    def _exact(self, cores: int) -> Point:
        system = self.with_cores(cores)
        try:
            best = self.policy is None or self.policy == "optimal"
            found = solve(system).performance if best else evaluate(system, self._rule(system))
        except UnstablePolicy:
            return Point(cores, math.inf, math.inf, (math.inf, math.inf), exact=True)
        time = found.mean_response_time
        return Point(cores, found.mean_jobs, time, (time, time), exact=True)

    def _simulated(self, cores: int, events: int, rng: np.random.Generator) -> Point:
        system = self.with_cores(cores)
        if cores not in self._policies:
            self._policies[cores] = bind(self._rule(system), system)
        try:
            found = simulated_mean(system, self._policies[cores], events=events, rng=rng)
        except UnstablePolicy:
            return Point(cores, math.inf, math.inf, (math.inf, math.inf), exact=False)
        except NotSettled:
            return Point(cores, math.nan, math.nan, (self.bound(cores), math.inf), exact=False)
        rate = float(system.arrival_rates.sum())
        low, high = found.interval
        return Point(cores, found.mean_jobs, found.mean_response_time, (low / rate, high / rate), exact=False)
