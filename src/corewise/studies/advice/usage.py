"""Usage of a pool by a log: jobs, cores held over time, widths, waiting times and sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats
from corewise.kit.report import Summarised
from corewise.observation.histories import JobHistories
from corewise.observation.sample_path import SamplePath
from corewise.studies.advice.logged_jobs import LoggedJobs

__all__ = ["ClassUsage", "Usage"]

_BINS = 60
_PARTS = (0.1, 0.5, 0.9)


@dataclass(frozen=True, repr=False)
class ClassUsage(Summarised):
    """Usage by one class.

    Attributes
    ----------
    name : str
        The class.
    jobs, done, failed, unfinished : int
        How many jobs there were, came and were done, left undone, and were there at the end.
    mean_response_time : float
        The mean time from arrival to end of those that were done; NaN if none was.
    percentile_95 : float
        What 95 % of them stayed below.
    mean_waiting_time : float
        How long a job held no cores, on average over all.
    widths : tuple of float
        The cores that a job held in the middle, and in all but the lowest and highest tenth, of its time.
    mean_size : float
        The work of a job on its curve, which is its time on one core.
    cv2 : float
        The squared coefficient of variation of the work of jobs that were done.
    """

    _repr_fields = ("name", "jobs", "mean_response_time")

    name: str
    jobs: int
    done: int
    failed: int
    unfinished: int
    mean_response_time: float
    percentile_95: float
    mean_waiting_time: float
    widths: tuple[float, float, float]
    mean_size: float
    cv2: float


@dataclass(frozen=True, eq=False, repr=False)
class Usage(Summarised):
    """Usage by all classes.

    Attributes
    ----------
    start, end : float
        When the log opens and closes.
    cores : float
        The cores of the pool.
    classes : tuple of ClassUsage
        By class.
    times : ndarray
        The ends of stretches of time.
    held : ndarray
        The mean cores that each class held in each stretch, shape (K, stretches).
    """

    _repr_fields = ("start", "end", "cores")

    start: float
    end: float
    cores: float
    classes: tuple[ClassUsage, ...]
    times: Floats
    held: Floats

    @property
    def jobs(self) -> int:
        """How many jobs there were."""
        return sum(row.jobs for row in self.classes)

    @property
    def utilisation(self) -> float:
        """The mean share of the cores that were held."""
        return float(self.held.sum(axis=0).mean() / self.cores)

    @classmethod
    def of(cls, path: SamplePath, jobs: LoggedJobs, work: Floats) -> Usage:
        """Return what was observed; `work` is what jobs did on their curves."""
        edges = np.linspace(path.start, path.end, _BINS + 1)
        held = np.stack([_held_between(history, edges) for history in jobs.histories])
        rows = tuple(_class_usage(jobs, work, i) for i in range(len(path.names)))
        return cls(path.start, path.end, path.pool, rows, edges, held)


def _class_usage(jobs: LoggedJobs, work: Floats, i: int) -> ClassUsage:
    own = jobs.which == i
    done = own & jobs.counted
    spent, sizes = jobs.response[done], work[done]
    mean = float(sizes.mean()) if sizes.size else np.nan
    return ClassUsage(
        jobs.names[i],
        int(own.sum()),
        int(done.sum()),
        int((own & jobs.failed).sum()),
        int((own & jobs.unfinished).sum()),
        float(spent.mean()) if spent.size else np.nan,
        float(np.percentile(spent, 95)) if spent.size else np.nan,
        float(jobs.waiting[own].mean()) if own.any() else np.nan,
        _widths(jobs.histories[i]),
        mean,
        float(sizes.var() / mean**2) if sizes.size and mean > 0.0 else np.nan,
    )


def _widths(jobs: JobHistories) -> tuple[float, float, float]:
    """Return percentiles of the cores that a job held, weighted by the time that jobs held them."""
    present = _present(jobs)
    time = np.bincount(jobs.place, weights=jobs.span * present, minlength=jobs.widths.size)
    upto = np.cumsum(np.where(jobs.widths > 0.0, time, 0.0))
    if not upto.size or upto[-1] <= 0.0:
        return (np.nan,) * 3
    low, middle, high = (float(jobs.widths[np.searchsorted(upto, part * upto[-1])]) for part in _PARTS)
    return low, middle, high


def _present(jobs: JobHistories) -> Floats:
    """Return how many jobs each segment belongs to."""
    steps = np.zeros(jobs.place.size + 1)
    np.add.at(steps, jobs.first, 1.0)
    np.add.at(steps, jobs.last, -1.0)
    return np.asarray(np.cumsum(steps)[:-1])


def _held_between(jobs: JobHistories, edges: Floats) -> Floats:
    """Return the mean cores that the jobs of a class held between edges of time."""
    rate = jobs.widths[jobs.place] * _present(jobs) if jobs.place.size else np.empty(0)
    ends = np.concatenate([jobs.start, jobs.start + jobs.span])
    steps = np.concatenate([rate, -rate])
    order = np.argsort(ends, kind="stable")
    ends, level = ends[order], np.cumsum(steps[order])
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(ends))]) if ends.size else np.zeros(1)
    if not ends.size:
        return np.zeros(edges.size - 1)
    return np.asarray(np.diff(np.interp(edges, ends, area)) / np.diff(edges))
