r"""Service levels: response times to meet by class and percentile, and the fewest cores that meet them all.

A mean over all jobs has an exact answer for a few classes (`corewise.studies.plan`); a percentile has none.
So jobs are drawn once from the laws of the system and run on every number of cores looked at: what differs is
then due to the cores. A statistic is that of all jobs that count, and its interval comes from its values in
twenty blocks of jobs in order of arrival (batch means; Student's quantile). The first tenth only fills the
system.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit import checks
from corewise.kit.arrays import Floats, Ints
from corewise.kit.numbers import value_with_interval
from corewise.kit.progress import Progress
from corewise.kit.report import Report, Reported, Summarised, Table
from corewise.kit.unit_labels import time_suffix
from corewise.kit.values import ByValue
from corewise.model.system import System, require_system
from corewise.policies.base import bind
from corewise.simulation.randomness import random_generator
from corewise.simulation.trace import Trace
from corewise.studies.advice.logged_jobs import LoggedJobs
from corewise.studies.advice.replay import response_times
from corewise.studies.plan import least_meeting

__all__ = ["Attained", "Level", "LevelPlan", "ServiceLevels", "parse_level", "plan_levels"]

_JOBS = 100_000
_BLOCKS = 20
_LEAST = 20  # jobs of a class in a block, for a statistic of it to have an interval
_EXPECTED = 20.0  # numbers of cores looked at, by and large
_FORM = re.compile(r"(?P<what>mean|p(?P<percent>\d+(\.\d+)?))(:(?P<name>[^=]+))?=(?P<most>.+)")


@dataclass(frozen=True, eq=False, repr=False)
class Level(ByValue, Summarised):
    """Service level: a statistic of response times that is to be at most so much.

    Attributes
    ----------
    percent : float or None
        The percentile; None for the mean.
    name : str or None
        The class; None for all jobs.
    most : float
        What it is to be at most.
    """

    _repr_fields = ("statistic", "most")

    percent: float | None
    name: str | None
    most: float

    @property
    def statistic(self) -> str:
        """What is to be met, in the form in which it is given."""
        what = "mean" if self.percent is None else f"p{self.percent:g}"
        return what if self.name is None else f"{what}:{self.name}"

    def of(self, times: Floats) -> float:
        """Return the statistic of response times; NaN of none."""
        if not times.size:
            return math.nan
        return float(times.mean() if self.percent is None else np.percentile(times, self.percent))


def parse_level(text: str) -> Level:
    """Return the service level that a text is: ``5``, ``mean:NAME=5``, ``p95=5`` or ``p95:NAME=5``."""
    found = _FORM.fullmatch(text.strip())
    value = text if found is None else found["most"]
    try:
        most = checks.positive(float(value), "a target")
    except ValueError:
        raise InvalidInput(f"a target is a number, mean:NAME=T or p95:NAME=T, got {text!r}") from None
    if found is None:
        return Level(None, None, most)
    percent = None if found["percent"] is None else float(found["percent"])
    if percent is not None and not 0.0 < percent < 100.0:
        raise InvalidInput(f"a percentile lies between 0 and 100, got {text!r}")
    return Level(percent, found["name"] and found["name"].strip(), most)


@dataclass(frozen=True, eq=False, repr=False)
class Attained(ByValue, Summarised):
    """What a number of cores attains of one service level.

    Attributes
    ----------
    level : Level
        What was to be met.
    value : float
        The statistic.
    interval : tuple of float
        Its 95 % interval.
    """

    _repr_fields = ("level", "value", "interval", "met")
    _json_fields = ("statistic=level.statistic", "target=level.most", "value", "interval", "met")

    level: Level
    value: float
    interval: tuple[float, float]

    @property
    def met(self) -> bool:
        """Whether it is met for sure."""
        return self.interval[1] <= self.level.most

    def _in_words(self) -> str:
        return value_with_interval(self.value, self.interval, 4)

    def _values(self) -> Mapping[str, object]:
        target = {"statistic": self.level.statistic, "most": self.level.most}
        return {**target, "value": self.value, "interval": self.interval, "met": self.met}


@dataclass(frozen=True, eq=False, repr=False)
class ServiceLevels(ByValue, Summarised):
    """What a number of cores attains of all service levels, and its price.

    Attributes
    ----------
    cores : int
        How many.
    attained : tuple of Attained
        What they attain.
    price : float or None
        What they cost per unit of time.
    """

    _repr_fields = ("cores", "met", "price")
    _json_fields = ("cores", "price", "met", "targets=attained")

    cores: int
    attained: tuple[Attained, ...]
    price: float | None

    @property
    def met(self) -> bool:
        """Whether all are met for sure."""
        return all(row.met for row in self.attained)

    def _content(self) -> list[dict[str, object]]:
        """Return one row for each service level."""
        return [{"cores": self.cores, "price": self.price, **one._values()} for one in self.attained]


@dataclass(frozen=True, eq=False, repr=False)
class LevelPlan(ByValue, Reported):
    """Plan for service levels: the fewest cores that meet them all, and what others attain.

    Attributes
    ----------
    policy : str
        The policy, made anew for each number of cores.
    cores : int or None
        The fewest, among those asked for if there are any; None if none of those do.
    curve : tuple of ServiceLevels
        All numbers of cores looked at.
    logged : tuple of Attained
        What a log attained, if one is given.
    unit : str or None
        What times are in, if the system says so.
    """

    _repr_fields = ("policy", "cores", "curve")
    _json_fields = ("cores", "policy", "curve", "log=logged", "unit")

    policy: str
    cores: int | None
    curve: tuple[ServiceLevels, ...]
    logged: tuple[Attained, ...]
    unit: str | None = None

    def report(self) -> Report:
        """Return the answer, what a log attained, and what each number of cores attains."""
        answer = "none of those asked for is enough" if self.cores is None else f"{self.cores}"
        suffix, inside = time_suffix(self.unit), f" ({self.unit})" if self.unit else ""
        levels = [one.level for one in self.curve[0].attained]
        priced = self.curve[0].price is not None
        facts = [
            ("fewest cores", f"{answer}, under policy {self.policy}"),
            *(("log", f"{one.level.statistic} {one._in_words()}{suffix} in the log") for one in self.logged),
        ]
        header = ["cores", *(f"{level.statistic}{inside}" for level in levels)]
        header += [*(["price"] if priced else []), "meets them"]
        rows = [
            [
                f"{row.cores}",
                *(one._in_words() for one in row.attained),
                *([f"{row.price:.6g}"] if priced else []),
                row.met,
            ]
            for row in self.curve
        ]
        wanted = ", ".join(
            f"{level.statistic} at most {level.most:g}{time_suffix(self.unit, level.most)}"
            for level in levels
        )
        return Report(f"Cores for {wanted}", facts, [Table(header, rows)])

    def _content(self) -> list[dict[str, object]]:
        """Return one row for each number of cores and service level."""
        return [line for row in self.curve for line in row._content()]


def plan_levels(  # noqa: PLR0913  # what is wanted, of what, and at which price
    system: System,
    levels: Sequence[Level],
    *,
    policy: str = "whittle",
    cores: Sequence[int] | None = None,
    price: float | None = None,
    logged: LoggedJobs | None = None,
    max_cores: int = 100_000,
    rng: np.random.Generator | int | None = None,
    progress: Progress | None = None,
) -> LevelPlan:
    """Return the fewest cores that meet service levels, by simulation.

    Parameters
    ----------
    system : System
        The classes, with sizes of any law; its own number of cores does not matter.
    levels : sequence of Level
        What is to be met, all together.
    policy : str, optional
        The name of a rule, made anew for each number of cores.
    cores : sequence of int, optional
        The numbers of cores to look at; by default the fewest that do are searched for.
    price : float, optional
        What a core costs per unit of time.
    logged : LoggedJobs, optional
        The jobs of a log: what is attained today.
    max_cores : int, optional
        The largest number of cores to consider.
    rng : Generator or int, optional
        For the jobs, the same on every number of cores.
    progress : callable, optional
        Called now and then with the share of the work that is done.
    """
    require_system(system)
    _require_levels(levels, system)
    cost = None if price is None else checks.positive(price, "price")
    work = math.fsum(job_class.work_rate for job_class in system.classes)
    least = max(math.floor(work) + 1, *(job_class.min_cores for job_class in system.classes))
    trace, which = _drawn(system, random_generator(rng))
    seen: dict[int, ServiceLevels] = {}

    def look(count: int) -> ServiceLevels:
        if count < least:
            none = tuple(Attained(level, math.inf, (math.inf, math.inf)) for level in levels)
            seen[count] = ServiceLevels(count, none, None if cost is None else cost * count)
        if count not in seen:
            plant = system.with_cores(count)
            times = response_times(plant, bind(policy, plant), trace, which)
            rows = tuple(_attained(level, times, which, system) for level in levels)
            seen[count] = ServiceLevels(count, rows, None if cost is None else cost * count)
            if progress is not None:
                progress(1.0 - math.exp(-len(seen) / _EXPECTED))
        return seen[count]

    if cores is not None:
        asked = sorted({int(checks.within(count, 1, max_cores, "cores")) for count in cores})
        if asked[-1] < least:
            raise InvalidInput(f"{asked[-1]} cores cannot keep up: the work that comes takes {work:.4g}")
        enough = [count for count in asked if look(count).met]
        best = enough[0] if enough else None
    else:
        best = least_meeting(lambda count: look(count).met, least, max_cores)
        if not look(best).met:
            raise InvalidInput(f"the targets are not met with {best:,} cores, the most that are considered")
        look(best + 1)
    today = tuple(_of_log(level, logged) for level in levels) if logged is not None else ()
    return LevelPlan(policy, best, tuple(seen[count] for count in sorted(seen)), today, system.unit)


def _require_levels(levels: Sequence[Level], system: System) -> None:
    """Raise an error if there are no service levels, or one of a class that the system does not have."""
    if not levels:
        raise InvalidInput("a plan needs a target")
    for level in levels:
        if level.name is not None:
            system.index(level.name)


def _drawn(system: System, rng: np.random.Generator) -> tuple[Trace, Ints]:
    """Return jobs drawn from the laws of a system, and their classes."""
    rates = system.arrival_rates
    lasts = _JOBS / float(rates.sum())
    times, which, sizes = [], [], []
    for i, known in enumerate(system.classes):
        count = math.ceil(lasts * rates[i] + 6.0 * math.sqrt(lasts * rates[i]) + 20.0)
        at = np.cumsum(known.arrivals.draw(rng, count)) / rates[i]
        at = at[at <= lasts]
        times.append(at)
        which.append(np.full(at.size, i))
        sizes.append(known.sizes.draw(rng, at.size) / known.known_size_rate)
    order = np.argsort(np.concatenate(times), kind="stable")
    classes = np.concatenate(which)[order].astype(np.int64)
    names = np.array(system.names, dtype=object)[classes].tolist()
    return Trace(np.concatenate(times)[order], names, np.concatenate(sizes)[order]), classes


def _attained(level: Level, times: Floats, which: Ints, system: System) -> Attained:
    """Return a statistic with its interval from blocks; without one if a block has too few jobs."""
    filled = slice(times.size // 10, None)
    own, counted = which[filled], times[filled]
    chosen = np.full(own.size, True) if level.name is None else own == system.index(level.name)
    return _with_interval(level, counted[chosen])


def _with_interval(level: Level, times: Floats) -> Attained:
    from scipy.special import stdtrit

    value = level.of(times)
    if times.size < _BLOCKS * _LEAST:
        return Attained(level, value, (0.0, math.inf))
    parts = np.array([level.of(part) for part in np.array_split(times, _BLOCKS)])
    reach = float(stdtrit(_BLOCKS - 1, 0.975)) * float(parts.std(ddof=1)) / math.sqrt(_BLOCKS)
    return Attained(level, value, (max(value - reach, 0.0), value + reach))


def _of_log(level: Level, jobs: LoggedJobs) -> Attained:
    """Return what was attained in a log."""
    chosen = jobs.counted
    if level.name is not None:
        chosen = chosen & (jobs.which == jobs.names.index(level.name))
    return _with_interval(level, jobs.response[chosen])
