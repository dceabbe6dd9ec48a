r"""Replay of a log under other policies: the same jobs at the same times, with intervals.

With T_j the response time of job j in the log, and T'_j in the simulation, a policy is worth the ratio
R = ΣT'/ΣT over the jobs that count. Two things make it uncertain, and their variances add:

- *the jobs*: other jobs would have come in another month. Jobs are cut into blocks in order of arrival, and
  with e_b = Σ_b T' − R Σ_b T the variance of log R is B/(B−1) Σ e_b² / (ΣT')²;
- *the curves*: the sizes of jobs are work done on the estimated curve, and they run on it. For each set of
  likely curves both are done again, with the policy as it is, made for the estimate. It is best where the
  estimate is the truth, and so promises too much there: what is reported is the mean of log R over likely
  curves, not its value at the estimate. They lie more to the worse side: no normal distribution is assumed.

The distribution of log R is that of likely curves, widened by Student's with B − 1 degrees of freedom for
the jobs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corewise.errors import InvalidInput
from corewise.kit.arrays import Bools, Floats, Ints
from corewise.kit.report import Summarised
from corewise.model.speedup import SpeedUp
from corewise.model.system import System
from corewise.observation.sample_path import EventKind
from corewise.policies.base import BoundPolicy
from corewise.simulation.simulator import simulate
from corewise.simulation.trace import Trace
from corewise.studies.advice.logged_jobs import LoggedJobs, SizeDistribution

__all__ = ["LogReplay", "Ratio", "mean_of", "ratio_of", "response_times"]

_BLOCKS = 20
_LEAST_IN_BLOCK = 5
_STEPS = 199  # quantiles that stand for Student's distribution
_QUICK = 0.01  # of the jobs may be done within a tick of the clock; more, and cores are missing in the log
_AS_ESTIMATED = np.zeros(1)


@dataclass(frozen=True, eq=False, repr=False)
class Ratio(Summarised):
    """Ratio of two mean response times over the same jobs, and how sure it is.

    Attributes
    ----------
    at_estimate : float
        The ratio on the curves as they were estimated.
    of_jobs : float
        The variance of its logarithm from the jobs that came.
    degrees : int
        Of freedom of that.
    moves : ndarray
        By how much each set of likely curves moves its logarithm.
    """

    _repr_fields = ("value", "interval")

    at_estimate: float
    of_jobs: float
    degrees: int
    moves: Floats

    @property
    def value(self) -> float:
        """The ratio, in the mean over likely curves."""
        return self.at_estimate * math.exp(float(self.moves.mean()))

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        return self._within(self.moves)

    @property
    def interval_of_jobs(self) -> tuple[float, float]:
        """The interval if the curves were known to be as estimated."""
        return self._within(np.zeros(1))

    def _within(self, moves: Floats) -> tuple[float, float]:
        from scipy.special import stdtrit

        if not math.isfinite(self.of_jobs):
            return 0.0, math.inf
        steps = math.sqrt(self.of_jobs) * stdtrit(self.degrees, (np.arange(_STEPS) + 0.5) / _STEPS)
        low, high = np.quantile(np.add.outer(moves, steps), (0.025, 0.975))
        return self.at_estimate * math.exp(low), self.at_estimate * math.exp(min(high, 700.0))


@dataclass(frozen=True, eq=False)
class LogReplay:
    """Replay of the jobs of a log: a part of it that is run, with the sizes that jobs have on curves.

    Attributes
    ----------
    jobs : LoggedJobs
        The jobs.
    chosen : ndarray of bool
        Which of them run.
    counted : ndarray of bool
        Which of all jobs count.
    distributions : sequence
        The size distribution of each class, for what is left of jobs that are there at the end.
    seed : int
        For those draws.
    """

    jobs: LoggedJobs
    chosen: Bools
    counted: Bools
    distributions: Sequence[SizeDistribution]
    seed: int

    @classmethod
    def of(
        cls, jobs: LoggedJobs, distributions: Sequence[SizeDistribution], *, most: int, seed: int
    ) -> LogReplay:
        """Return the replay of at most so many jobs, those that came last; the first tenth only warms up."""
        chosen = np.ones(jobs.time.size, dtype=bool)
        counted = jobs.counted.copy()
        if jobs.time.size > most:
            chosen[:-most] = False
            counted[: -most + most // 10] = False
        return cls(jobs, chosen, counted, distributions, seed)

    def with_fewer(self, most: int) -> LogReplay:
        """Return the replay of at most so many jobs."""
        return LogReplay.of(self.jobs, self.distributions, most=most, seed=self.seed)

    @property
    def logged(self) -> Floats:
        """The response times that the jobs that count had in the log."""
        return self.jobs.response[self.counted]

    @property
    def most_present(self) -> int:
        """The most jobs that were in the system at once, of those that run and were seen to leave."""
        seen = self.counted
        ends = np.concatenate([self.jobs.time[seen], self.jobs.time[seen] + self.jobs.response[seen]])
        steps = np.repeat([1, -1], int(seen.sum()))
        return int(np.cumsum(steps[np.lexsort((steps, ends))]).max(initial=0))

    def run(self, system: System, policy: BoundPolicy, curves: Sequence[SpeedUp]) -> Floats:
        """Return the response times of the jobs that count, if classes have these curves."""
        sizes = self.jobs.completed(
            self.jobs.work(curves), self.distributions, np.random.default_rng(self.seed)
        )
        ran = self.chosen & (sizes > 0.0)
        at_once = self.counted & ~ran  # begun and done in one tick of the clock of the log
        waited, counted = np.count_nonzero(self.jobs.response[at_once] > 0.0), np.count_nonzero(self.counted)
        if waited > _QUICK * counted:
            raise InvalidInput(
                f"{waited} of {counted} jobs of the log are done although they never held a core"
            )
        plant = system.with_curves(dict(zip(system.names, curves, strict=True)))
        times = np.full(self.jobs.time.size, np.nan)
        times[ran] = response_times(plant, policy, self.jobs.trace(sizes, ran), self.jobs.which[ran])
        times[at_once] = 0.0
        return times[self.counted]


def response_times(system: System, policy: BoundPolicy, trace: Trace, which: Ints) -> Floats:
    """Return the response time of every job of a trace, in its order; `which` are their classes."""
    path = simulate(system, policy, jobs=trace, record=True).path
    assert path is not None
    comes = np.flatnonzero(path.event == EventKind.ARRIVAL)
    leaves = np.flatnonzero(path.event == EventKind.DEPARTURE)
    ended = np.empty(int(path.job.max()) + 1)
    ended[path.job[leaves]] = path.time[leaves]
    spent = ended[path.job[comes]] - path.time[comes]
    times = np.empty(spent.size)
    # Of several jobs of one instant any may be first, but jobs of one class keep their order.
    times[np.argsort(which, kind="stable")] = spent[np.argsort(path.job_class[comes], kind="stable")]
    return times


def ratio_of(new: Floats, old: Floats, moves: Floats = _AS_ESTIMATED) -> Ratio:
    """Return the ratio of two mean response times over the same jobs in order of arrival."""
    blocks = min(_BLOCKS, new.size // _LEAST_IN_BLOCK)
    value = float(new.sum() / old.sum())
    if blocks < 2:
        return Ratio(value, math.inf, 1, moves)
    starts = np.linspace(0, new.size, blocks, endpoint=False).astype(np.int64)
    errors = np.add.reduceat(new - value * old, starts)
    variance = blocks / (blocks - 1.0) * float(errors @ errors) / float(new.sum()) ** 2
    return Ratio(value, variance, blocks - 1, moves)


def mean_of(times: Floats, moves: Floats = _AS_ESTIMATED) -> Ratio:
    """Return a mean response time in the same form: its ratio to one for each job."""
    return ratio_of(times, np.ones(times.size), moves)
