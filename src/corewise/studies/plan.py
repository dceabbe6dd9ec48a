r"""Capacity planning: how many cores are enough.

With more cores the least mean response time falls, from infinity at c = Σ λ_i/μ_i to that of a pool in which
every job has all the cores it can use,

    T_∞ = Σ_i λ_i / (λ μ_i s_i(∞)),      λ = Σ_i λ_i.

So the fewest cores that meet a target are found by doubling and bisection. They are accepted only if the
target is met for sure: exactly, or by the upper end of the interval of a simulated mean, and once more by a
run of its own. And where a lower bound on the response time of all policies is above the target, no policy
would do with so many cores: that gives a least number of cores that is proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit import checks
from corewise.kit.numbers import value_with_interval
from corewise.kit.progress import Progress
from corewise.kit.renamed import warn_renamed
from corewise.kit.report import Report, Reported, Table
from corewise.kit.unit_labels import time_suffix, with_unit
from corewise.kit.values import ByValue
from corewise.model.system import System, require_system
from corewise.policies.base import Policy
from corewise.simulation.randomness import random_generator
from corewise.studies.responses import Point, Responses

__all__ = ["CapacityPlan", "least_response_time", "plan"]

_MOST_CORES = 1_000_000
_SHOWN = 12  # points of the curve, by and large
_SHOWN_SIMULATED = 5
_CROWDED = 0.95  # above this load a point takes long, and the curve is steep
_EXPECTED = 12  # looks, by and large, for the share of the work that is done


@dataclass(frozen=True, eq=False, repr=False)
class CapacityPlan(ByValue, Reported):
    """Capacity plan: the fewest cores that meet a target mean response time, and the curve around them.

    Attributes
    ----------
    system : System
        The classes, on that many cores.
    target : float
        The mean response time that was to be met.
    policy : str
        The policy under which it is.
    cores : int
        The fewest cores with which it is met for sure.
    least_cores : int
        Fewer than that are not enough under any policy, which is proved.
    undecided : tuple of int
        Numbers of cores just below `cores` that may be enough as well: the target lies within the interval of
        the longest simulation. They are on the curve.
    limit : float
        The mean response time that no number of cores undercuts.
    curve : tuple of Point
        Mean response times, in order of cores.
    seed : int or None
        Of the random numbers of the simulations, if there were any.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> plan = cw.plan(system, target=0.2, policy="equi")
    >>> plan.policy, plan.target, plan.cores
    ('equi', 0.2, 9)
    >>> plan.exact
    True
    """

    _repr_fields = ("cores", "target", "policy", "mean_response_time")
    _json_fields = (
        *("cores", "mean_response_time", "interval=point.interval", "exact=point.exact", "mean_jobs"),
        *("target", "policy", "least_cores", "undecided", "limit", "one_more_core", "curve", "unit"),
    )

    system: System
    target: float
    policy: str
    cores: int
    least_cores: int
    undecided: tuple[int, ...]
    limit: float
    curve: tuple[Point, ...]
    seed: int | None

    def __getitem__(self, cores: int) -> Point:
        """Return the point of the curve at that many cores."""
        for point in self.curve:
            if point.cores == cores:
                return point
        raise KeyError(cores)

    @property
    def unit(self) -> str | None:
        """What times are in, if the system says so."""
        return self.system.unit

    @property
    def point(self) -> Point:
        """The point of the curve at the fewest cores."""
        return self[self.cores]

    @property
    def mean_response_time(self) -> float:
        """The mean response time with them."""
        return self.point.mean_response_time

    @property
    def mean_jobs(self) -> float:
        """The mean number of jobs with them."""
        return self.point.mean_jobs

    @property
    def exact(self) -> bool:
        """Whether the answer was computed rather than simulated."""
        return self.seed is None

    @property
    def time_saved(self) -> float:
        """The marginal value of a core: what one more takes off the mean response time."""
        return self.mean_response_time - self[self.cores + 1].mean_response_time

    @property
    def time_saved_interval(self) -> tuple[float, float]:
        """The confidence interval of `time_saved`: at 95 % if it was simulated, a point if exact."""
        here, there = (0.5 * (p.interval[1] - p.interval[0]) for p in (self.point, self[self.cores + 1]))
        half = math.hypot(here, there)
        return self.time_saved - half, self.time_saved + half

    @property
    def one_more_core(self) -> dict[str, object]:
        """What one more core saves: `time_saved`, its `interval`, and `jobs_saved`."""
        return {
            "time_saved": self.time_saved,
            "interval": self.time_saved_interval,
            "jobs_saved": self.jobs_saved,
        }

    @property
    def jobs_saved(self) -> float:
        """What one more core takes off the mean number of jobs."""
        return self.mean_jobs - self[self.cores + 1].mean_jobs

    def report(self) -> Report:
        """Return the answer, the value of one more core, and the curve."""
        unit = time_suffix(self.unit)
        time = value_with_interval(self.mean_response_time, self.point.interval, 8)
        saved = value_with_interval(self.time_saved, self.time_saved_interval, 4)
        fewer = "fewer" if self.least_cores == self.cores else f"fewer than {self.least_cores}"
        maybe = "may be enough as well: the target lies within the interval of the simulation"
        facts = [
            ("fewest cores", f"{self.cores}, under policy {self.policy}"),
            ("mean response time", f"{time}{unit} with them"),
            ("mean number of jobs", f"{self.mean_jobs:.8g}"),
            ("one more core", f"saves {saved}{unit} of the response time, and {self.jobs_saved:.4g} jobs"),
            ("proved", f"{fewer} are not enough under any policy"),
            *(("undecided", f"{cores} cores {maybe}") for cores in self.undecided),
            ("limit", f"{self.limit:.8g}{unit}: no number of cores gives less"),
        ]
        header = [
            "cores",
            with_unit("mean response time", self.unit),
            "mean jobs",
            "load",
            "meets the target",
        ]
        rows = [
            (
                f"{point.cores}",
                value_with_interval(point.mean_response_time, point.interval, 6)
                + ("" if point.exact else " (simulated)"),
                f"{point.mean_jobs:.6g}",
                f"{self.system.load * self.cores / point.cores:.1%}",
                "undecided" if point.cores in self.undecided else point.interval[1] <= self.target,
            )
            for point in self.curve
        ]
        classes = "1 class" if len(self.system.classes) == 1 else f"{len(self.system.classes)} classes"
        wanted = f"{self.target:g}{time_suffix(self.unit, self.target)}"
        return Report(f"Cores for a mean response time of {wanted}: {classes}", facts, [Table(header, rows)])

    def _content(self) -> Sequence[Point]:
        return self.curve


def plan(
    system: System,
    *,
    target: float,
    policy: Policy | str | None = None,
    max_cores: int = _MOST_CORES,
    rng: np.random.Generator | int | None = None,
    progress: Progress | None = None,
    most_cores: int | None = None,
) -> CapacityPlan:
    """Plan capacity: return the fewest whole cores that meet a target mean response time.

    Exact for up to three classes, while states are few and the load is not close to one; otherwise simulated.

    Parameters
    ----------
    system : System
        The classes; its own number of cores does not matter.
    target : float
        The mean response time, over all jobs, that is to be met.
    policy : Policy or str, optional
        A rule that is made anew for each number of cores, such as ``Whittle()``, or the name of one, such as
        ``"optimal"``. By default the best there is: the optimum, or `Improved` where that takes too long.
        With weights, the optimum is that of the cost.
    max_cores : int, optional
        The largest number of cores to consider; `most_cores` is its old name.
    rng : Generator or int, optional
        The source of randomness for the simulations, if any are needed, or a seed for one.
    progress : callable, optional
        Called now and then with the share of the work that is done, as far as that is known.

    Raises
    ------
    InvalidInput
        If no number of cores meets the target, or none up to `max_cores`.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> plan = cw.plan(system, target=0.2)
    >>> plan.cores, plan.mean_response_time <= 0.2
    (9, True)
    """
    require_system(system)
    system.require_memoryless("plan")
    system.require_arrival_rates()
    system = system.regime(0.0)
    wanted = checks.positive(target, "target")
    if most_cores is not None:
        warn_renamed("most_cores", "max_cores")
        max_cores = most_cores
    most = checks.whole(max_cores, "max_cores")
    limit = least_response_time(system)
    if wanted < limit:
        raise InvalidInput(
            f"no number of cores meets a mean response time of {wanted:g}{time_suffix(system.unit, wanted)}: "
            f"with all the cores they can use, jobs take {limit:.6g}"
        )
    seed = int(random_generator(rng).integers(2**32))
    looks = 0

    def found() -> None:
        nonlocal looks
        looks += 1
        if progress:
            progress(1.0 - math.exp(-looks / _EXPECTED))

    responses = Responses(system, policy, seed, found)
    cores = _fewest(responses, wanted, most)
    responses.at(cores + 1, like=cores)
    undecided = _undecided(responses, cores, wanted)
    shown = sorted({*_around(responses, cores, most), *undecided, cores, cores + 1})
    curve = tuple(point for point in map(responses.at, shown) if math.isfinite(point.mean_response_time))
    return CapacityPlan(
        system=responses.with_cores(cores),
        target=wanted,
        policy=responses.name(cores),
        cores=cores,
        least_cores=_proved(responses, cores, wanted),
        undecided=undecided,
        limit=limit,
        curve=curve,
        seed=None if all(point.exact for point in curve) else seed,
    )


def least_response_time(system: System) -> float:
    """Return the mean response time of jobs that always have all the cores they can use."""
    rates = system.arrival_rates
    times = [1.0 / (one.known_size_rate * one.curve.top_speed) for one in system.classes]
    return float(rates @ np.array(times) / rates.sum())


def _fewest(responses: Responses, target: float, most: int) -> int:
    """Return the fewest cores that meet the target, up to `most`, by doubling and bisection."""
    first = responses.fewest
    if first > most:
        raise InvalidInput(f"{first} cores are needed to keep up at all, and max_cores is {most}")
    high = least_meeting(lambda cores: responses.meets(cores, target), first, most)
    while not (responses.meets(high, target) and responses.confirmed(high, target)):
        if high == most:
            raise InvalidInput(
                f"a mean response time of {target:g}{time_suffix(responses.system.unit, target)} is not met "
                f"with {most} cores, the most that are allowed"
            )
        high += 1
    return high


def _undecided(responses: Responses, cores: int, target: float) -> tuple[int, ...]:
    """Return the numbers of cores next below that a look left undecided."""
    low = cores
    while responses.leaves_open(low - 1, target):
        low -= 1
    return tuple(range(low, cores))


def least_meeting(meets: Callable[[int], bool], first: int, most: int) -> int:
    """Return the fewest cores from `first` on that meet something, by doubling and bisection.

    `most` if none below it do: whether it does is for the caller to see.
    """
    low, high, step = first - 1, first, 1
    while high < most and not meets(high):
        low, high, step = high, min(high + step, most), 2 * step
    return _bisected(meets, low, high) if meets(high) else high


def _bisected(meets: Callable[[int], bool], low: int, high: int) -> int:
    """Return the least number above `low` that meets something which `high` meets."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


def _proved(responses: Responses, cores: int, target: float) -> int:
    """Return a number of cores such that fewer are not enough under any policy."""
    weights = {job_class.weight for job_class in responses.system.classes}
    settled = cores == responses.fewest or responses.is_exact(cores - 1)
    if settled and len(weights) == 1 and responses.name(cores) == "optimal":
        return cores
    return _bisected(lambda c: not responses.excludes(c, target), responses.fewest - 1, cores)


def _around(responses: Responses, cores: int, most: int) -> list[int]:
    """Return some numbers of cores from the fewest to beyond the answer, closer where the curve is steep."""
    work = responses.work
    first = max(responses.fewest, math.ceil(work / _CROWDED))
    last = min(most, cores + max(3, math.ceil(0.3 * (cores - work))))
    number = _SHOWN if responses.is_exact(cores) else _SHOWN_SIMULATED
    spaced = work + np.geomspace(max(first - work, 1e-9), max(last - work, 1e-9), number)
    return [int(c) for c in np.unique(np.append(np.rint(spaced), cores - 1)) if first <= c <= last]
