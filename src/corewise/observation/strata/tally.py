"""Running strata of a path, stretch by stretch: jobs are followed, and only live ones remembered."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from corewise.kit.arrays import Floats
from corewise.model.job_class import JobClass
from corewise.model.speedup import SpeedUp
from corewise.model.system import System
from corewise.observation.histories import JobHistories
from corewise.observation.sample_path import SamplePath
from corewise.observation.strata import _kernels
from corewise.observation.strata.tables import OCTAVES, Strata

__all__ = ["AttainedWork", "StrataTally", "can_be_stratified"]


_STATE = 6  # numbers of a job at a node, see `corewise.observation.strata._kernels`


def can_be_stratified(family: SpeedUp) -> bool:
    """Return whether there are strata for a family: it needs one parameter, within two ends."""
    ends = [end for pair in family.bounds.values() for end in pair]
    return len(ends) == 2 and all(math.isfinite(end) for end in ends)


class AttainedWork(NamedTuple):
    """Attained work of the jobs of a class, by their numbers and at every node, and empty tables for it."""

    nothing: Strata
    states: Mapping[int, Floats]

    def plain(self) -> dict[str, Any]:
        """Return it as plain values, which JSON can hold."""
        states = [state.tolist() for state in self.states.values()]
        return {
            "unit": float(self.nothing.edges[0] / OCTAVES[0]),
            "jobs": list(self.states),
            "states": states,
        }

    @classmethod
    def of(cls, known: JobClass, plain: Mapping[str, Any]) -> AttainedWork:
        """Return what `plain` has given, for a class with a curve of the same family."""
        (bounds,) = known.speedup.bounds.values()
        states = {
            int(job): _with_so_far(np.array(state))
            for job, state in zip(plain["jobs"], plain["states"], strict=True)
        }
        return cls(Strata.empty(known.speedup.family, bounds, float(plain["unit"])), states)


class StrataTally:
    """Accumulator of the strata of a path: how far it has counted, and what the jobs there have attained.

    Parameters
    ----------
    path : SamplePath
        The record.
    system : System
        The families of the curves.
    before : sequence of AttainedWork or None, optional
        What the jobs of each class had attained when the record before this one ended, if it goes on there.
    """

    def __init__(
        self, path: SamplePath, system: System, before: Sequence[AttainedWork | None] | None = None
    ) -> None:
        self.path, self.row = path, 0
        earlier = before or [None] * len(system.classes)
        self._classes = [
            None if jobs is None else _ClassTally.of(known, jobs, last)
            for known, jobs, last in zip(system.classes, path.histories, earlier, strict=True)
        ]

    @property
    def attained(self) -> tuple[AttainedWork | None, ...]:
        """What the jobs of each class that are there have attained."""
        return tuple(None if one is None else one.attained for one in self._classes)

    def count(self, end: int) -> tuple[Strata | None, ...]:
        """Return the strata of the rows from where the tally stands to before `end`, and move there."""
        began, until = (float(self.path.time[max(row - 1, 0)]) for row in (self.row, end))
        self.row = end
        return tuple(None if one is None else one.count(began, until, end) for one in self._classes)


class _Live(NamedTuple):
    """A job that is there: its state at every node, its segment, and whether it was seen to arrive."""

    state: Floats
    segment: int
    whole: bool


class _ClassTally:
    """Accumulator of the strata of one class."""

    def __init__(
        self,
        jobs: JobHistories,
        nothing: Strata,
        speeds: tuple[Floats, Floats],
        carried: Mapping[int, Floats],
    ) -> None:
        self.jobs, self.nothing, self._speeds, self._carried = jobs, nothing, speeds, carried
        self._seen = 0  # jobs that have come
        self._live: dict[int, _Live] = {}

    @classmethod
    def of(cls, known: JobClass, jobs: JobHistories, before: AttainedWork | None) -> _ClassTally | None:
        """Return a tally that has seen nothing yet; None if the family of the curve has no strata."""
        if not can_be_stratified(known.speedup):
            return None
        ((name, bounds),) = known.speedup.bounds.items()
        if before is None:
            unit = _mean_size(known, jobs) if known.size_rate is None else 1.0 / known.size_rate
            before = AttainedWork(Strata.empty(known.speedup.family, bounds, unit), {})
        nothing, carried = before
        curves = [known.curve.with_parameters(**{name: p}) for p in nothing.nodes.tolist()]
        speeds = np.stack([curve.rate(jobs.widths) for curve in curves])
        slopes = np.stack([curve.gradient(jobs.widths)[:, 0] for curve in curves])
        return cls(jobs, nothing, (speeds, slopes), carried)

    @property
    def attained(self) -> AttainedWork:
        """What the jobs that are there have attained, if they were seen to arrive."""
        live = self._live.items()
        return AttainedWork(
            self.nothing, {int(self.jobs.number[j]): job.state for j, job in live if job.whole}
        )

    def _arrived(self, j: int) -> _Live:
        """Return a job that has come, or was there when the record began."""
        state = self._carried.get(int(self.jobs.number[j])) if self.jobs.truncated[j] else None
        whole = state is not None or not self.jobs.truncated[j]
        fresh = np.zeros((self.nothing.nodes.size, _STATE))
        return _Live(fresh if state is None else state.copy(), int(self.jobs.first[j]), whole)

    def count(self, began: float, until: float, end: int) -> Strata:
        """Return the strata of a stretch of time, up to before a row."""
        jobs, nothing = self.jobs, self.nothing
        bins, sums = np.zeros(nothing.bins.shape), np.zeros(nothing.jobs.shape)
        come = int(np.searchsorted(jobs.arrives, end))
        present = self._live | {j: self._arrived(j) for j in range(self._seen, come)}
        self._seen, self._live = come, {}
        for j, (state, at, whole) in present.items():
            gone = bool(jobs.leaves[j] < end)
            departed = gone and not jobs.cancelled[j]
            segment = _kernels.follow_job(
                *(jobs.place, jobs.start, jobs.span, at, int(jobs.last[j]), began, until, departed, whole),
                *(*self._speeds, nothing.edges, state, bins, sums),
            )
            if not gone:
                self._live[j] = _Live(state, int(segment), whole)
        return Strata(nothing.family, nothing.nodes, nothing.edges, bins, sums)


def _with_so_far(state: Floats) -> Floats:
    """Return the state of a job, with B/x as it is now if it is of an earlier version, which kept none."""
    if state.shape[1] == _STATE:
        return state
    work, slope = state[:, -2], state[:, -1]
    return np.column_stack([state, np.divide(slope, work, out=np.zeros(work.size), where=work > 0.0)])


def _mean_size(known: JobClass, jobs: JobHistories) -> float:
    """Return about how large jobs are whose size rate is not known: a power of two, on the curve as given."""
    done = float(jobs.sums(known.curve.rate(jobs.widths)).sum())
    left = int(jobs.departed.sum())
    return 2.0 ** round(math.log2(done / left)) if done > 0.0 and left else 1.0
