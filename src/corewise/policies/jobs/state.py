"""States of single jobs: what a decision per job is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from corewise.errors import InvalidInput
from corewise.kit import checks
from corewise.kit.arrays import Floats
from corewise.kit.values import ByValue
from corewise.model.capped import Capped
from corewise.model.job_class import JobClass
from corewise.model.speedup import SpeedUp, WholeCoreTable
from corewise.model.system import System

__all__ = ["JobState", "checked_jobs", "curve_now", "limits", "phase_of", "progress_of"]

_ROUNDING = 1e-9
"""Of a size: by so much the remaining work of a job may exceed the largest one, or it may be short of where
its curve changes."""


@dataclass(frozen=True, eq=False)
class JobState(ByValue):
    """State of one job at the time of a decision.

    Parameters
    ----------
    name : str
        The name of the job; no two jobs of a decision have the same.
    job_class : str
        The name of its class.
    attained : float, optional
        The work that it has done, in units of work of one core.
    remaining : float, optional
        The work before it, where it is known; if not given, the size distribution of the class given
        `attained` says what to expect.
    held : float, optional
        The cores that it holds.
    speeds : sequence of float, optional
        Its own table s(0) = 0, s(1), s(2), … of whole cores at present, which need not be concave or rise; by
        default the curve of its class.
    min_cores : int, optional
        The fewest cores it runs on: it holds none, or at least so many. By default those of its class.
    max_cores : int, optional
        The most cores it can use; by default those of its class.
    waited : float, optional
        For how long it has held no core.

    Examples
    --------
    >>> import corewise as cw
    >>> cw.JobState("a", "one", attained=2.0, held=4).remaining is None
    True
    """

    name: str
    job_class: str
    attained: float = 0.0
    remaining: float | None = None
    held: float = 0
    speeds: Floats | None = None
    min_cores: int = 0
    max_cores: int | None = None
    waited: float = 0.0

    def __init__(  # noqa: PLR0913  # its fields, by keyword
        self,
        name: str,
        job_class: str,
        *,
        attained: float = 0.0,
        remaining: float | None = None,
        held: float = 0,
        speeds: ArrayLike | None = None,
        min_cores: int = 0,
        max_cores: int | None = None,
        waited: float = 0.0,
    ) -> None:
        for value, what in ((name, "name"), (job_class, "class")):
            if not isinstance(value, str) or not value:
                raise InvalidInput(f"the {what} of a job must be text, got {checks.shown(value)}")
        what = f"job {name!r}"
        own = {
            "name": name,
            "job_class": job_class,
            "attained": _amount(attained, f"{what}: attained work"),
            "remaining": None if remaining is None else _amount(remaining, f"{what}: remaining work"),
            "held": _amount(held, f"{what}: cores held"),
            "speeds": None if speeds is None else _table(speeds, what),
            "min_cores": checks.whole(min_cores, f"{what}: min_cores", least=0),
            "max_cores": None if max_cores is None else checks.whole(max_cores, f"{what}: max_cores"),
            "waited": _amount(waited, f"{what}: time waited"),
        }
        for field, checked in own.items():
            object.__setattr__(self, field, checked)
        if self.max_cores is not None and self.min_cores > self.max_cores:
            raise InvalidInput(f"{what}: min_cores {self.min_cores} is above max_cores {self.max_cores}")


def _amount(value: object, what: str) -> float:
    """Return a finite number that is not negative."""
    if type(value) is float and 0.0 <= value < np.inf:
        return value
    number = checks.finite(value, what)
    if number < 0.0:
        raise InvalidInput(f"{what} must not be negative, got {checks.shown(value)}")
    return number


def _table(speeds: ArrayLike, what: str) -> Floats:
    """Return a table of speeds on 0, 1, 2, … cores, read only."""
    try:
        table = np.array(speeds, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what}: speeds must be numbers, got {checks.shown(speeds)}") from None
    if table.ndim != 1 or table.size < 2:
        raise InvalidInput(
            f"{what}: speeds must be those on 0, 1, 2, … cores, two at least, got {checks.shown(speeds)}"
        )
    if not 0.0 <= table.min() <= table.max() < np.inf or table[0] != 0.0:
        wrong = table[0] if table[0] != 0.0 else table[~((table >= 0.0) & (table < np.inf))][0]
        raise InvalidInput(
            f"{what}: speeds must be finite and not negative, and zero on no core, got {wrong:g}"
        )
    table.flags.writeable = False
    return table


def checked_jobs(jobs: Iterable[JobState], system: System) -> tuple[list[JobState], list[int]]:
    """Return the jobs and the positions of their classes, if they are jobs of the system.

    Raises
    ------
    InvalidInput
        If a name is there twice, a job has more work before it than any of its class, or it needs more cores
        than there are.
    """
    if isinstance(jobs, JobState | str) or not isinstance(jobs, Iterable):
        raise InvalidInput(f"expected a list of JobState, got {checks.shown(jobs)}")
    listed = list(jobs)
    positions = {name: i for i, name in enumerate(system.names)}
    largest = [_largest(system, i) for i in range(len(positions))]
    classes = []
    for job in listed:
        if not isinstance(job, JobState):
            raise InvalidInput(f"expected a JobState, got {checks.shown(job)}")
        i = positions.get(job.job_class)
        if i is None:
            i = system.index(job.job_class)  # which raises, with the nearest name
        if job.remaining is not None and job.remaining > largest[i]:
            raise InvalidInput(
                f"job {job.name!r}: remaining work {job.remaining:g} is above the largest size of class "
                f"{job.job_class!r}, {largest[i]:g}"
            )
        if job.min_cores > system.cores:
            raise InvalidInput(
                f"job {job.name!r}: min_cores {job.min_cores} is above the {system.cores:g} cores there are"
            )
        classes.append(i)
    if len({job.name for job in listed}) < len(listed):
        twice = next(name for name, count in Counter(job.name for job in listed).items() if count > 1)
        raise InvalidInput(f"job name {twice!r} is used twice")
    return listed, classes


def _largest(system: System, i: int) -> float:
    job_class = system.classes[i]
    if job_class.size_rate is None:
        return np.inf
    return job_class.sizes.largest / job_class.size_rate * (1.0 + _ROUNDING)


def progress_of(job: JobState, job_class: JobClass) -> float:
    """Return the fraction of its work that a job has done; of its expected work if it does not say it."""
    if job.attained == 0.0:
        return 0.0
    remaining = job.remaining
    if remaining is None:
        if job_class.size_rate is None:
            return 0.0
        done = np.array([job.attained * job_class.size_rate])
        remaining = float(job_class.sizes.mean_residual(done)[0]) / job_class.size_rate
    return job.attained / (job.attained + remaining)


def phase_of(job: JobState, job_class: JobClass) -> int:
    """Return which of the curves of its class a job has at its progress."""
    if not job_class.changes_with_progress:
        return 0
    done = progress_of(job, job_class) + _ROUNDING
    return int(job_class.starts.searchsorted(done, side="right")) - 1


def curve_now(job: JobState, job_class: JobClass) -> SpeedUp:
    """Return the curve that a job without a table of its own has at its progress."""
    return job_class.curves[phase_of(job, job_class)]


def limits(
    jobs: Sequence[JobState], classes: Sequence[int], system: System, *, whole: bool
) -> tuple[list[int], list[int | None]]:
    """Return the fewest and the most cores of each job, its own or those of its class; None is no limit.

    In whole cores a job runs on one at least; else it runs on any share of a core unless it needs several.
    Where its table of speeds falls it holds no more cores than at the peak, unless it needs more.
    """
    lows, highs = [], []
    for job, i in zip(jobs, classes, strict=True):
        job_class = system.classes[i]
        low = job.min_cores or job_class.min_cores
        limit = [most for most in (job.max_cores, job_class.max_cores) if most is not None]
        if job.speeds is not None:
            limit.append(job.speeds.size - 1)
        high = min(limit) if limit else None
        if high is not None and low > high:
            raise InvalidInput(f"job {job.name!r}: min_cores {low} is above max_cores {high}")
        table = job.speeds if job.speeds is not None else _table_of(curve_now(job, job_class))
        if table is not None:
            high = max(int(table[: None if high is None else high + 1].argmax()), low, 1)
        lows.append(low if whole or low > 1 else 0)
        highs.append(high)
    return lows, highs


def _table_of(curve: SpeedUp) -> Floats | None:
    """Return the speeds of a curve that is a table of whole cores; None for any other."""
    if isinstance(curve, Capped):
        return _table_of(curve.curve)
    return np.array(curve.speeds) if isinstance(curve, WholeCoreTable) else None
