"""Outcomes of policies and numbers of cores on the jobs of a log, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from corewise.kit.arrays import Floats
from corewise.kit.numbers import rounded
from corewise.kit.report import Summarised
from corewise.model.speedup import SpeedUp
from corewise.model.system import System
from corewise.policies.base import BoundPolicy, bind
from corewise.studies.advice.curves import ASSUMED, CurveFinding
from corewise.studies.advice.replay import LogReplay, mean_of, ratio_of

__all__ = ["CoresNeeded", "LogSimulations", "PolicyOutcome", "percent"]

_DRAWS = 120  # sets of likely curves
_MOST_DRAWN_JOBS = 3_000
_LIKE = "whittle"  # whose uncertainty by curves stands for that of a policy per job, which takes far longer
_LABELS = {"log": "as it was", "equi": "EQUI", "whittle": "Whittle", "optimal": "the optimum"}
_MOST_TIMES = 4  # the cores there are, when looking for enough of them


@dataclass(frozen=True, repr=False)
class PolicyOutcome(Summarised):
    """PolicyOutcome of a policy on the jobs of a log.

    Attributes
    ----------
    name : str
        The policy; ``"log"`` for what was in force.
    mean : float
        The mean response time of the jobs that count.
    interval : tuple of float
        Its 95 % interval as a long-run mean; of the log without the uncertainty of curves, which it has not.
    gain : float
        By what share it is below that of the log.
    gain_interval : tuple of float
        Its 95 % interval, for the same jobs under both, curves included.
    gain_interval_of_jobs : tuple of float
        The interval if the curves were known.
    gains_at_ends : tuple of float
        The gain at either end of the range of assumptions on curves; empty if nothing was assumed.
    by_class : tuple of float
        The mean response time of each class.
    """

    _repr_fields = ("name", "mean", "gain")
    _json_fields = ("name", "mean_response_time=mean", "interval", "gain", "gain_interval", "gains_at_ends")

    name: str
    mean: float
    interval: tuple[float, float]
    gain: float
    gain_interval: tuple[float, float]
    gain_interval_of_jobs: tuple[float, float]
    gains_at_ends: tuple[float, ...]
    by_class: tuple[float, ...]

    @property
    def label(self) -> str:
        """What to call it to people."""
        return _LABELS.get(self.name, self.name)

    def _cells(self) -> list[str]:
        """Return the row of a table: the mean and its interval, the gain and its interval."""
        gains = ["", ""]
        if self.name != "log":
            gains = [percent(self.gain), "–".join(map(percent, self.gain_interval))]
        return [self.label, rounded(self.mean), "–".join(map(rounded, self.interval)), *gains]


def percent(share: float) -> str:
    """Return a share in per cent, without the sign of a zero."""
    return f"{round(share, 3) + 0.0:.1%}"


@dataclass(frozen=True, repr=False)
class CoresNeeded(Summarised):
    """Cores that meet the mean response time of the log, under a policy, on its jobs.

    Attributes
    ----------
    policy : str
        The policy, made anew for each number of cores.
    target : float
        The mean response time to meet.
    cores : int or None
        The fewest that meet it: where curves are assumed, on every curve of the range of assumptions, and
        not fewer than were busy on average. None if not even several times those there are do, or if there
        is no answer.
    interval : tuple of int or None
        The fewest that may, and the fewest that do for sure (95 %); where curves are assumed, the fewest on
        the most favourable and on the least favourable curve. None for what is not known.
    one_more : float
        What one more core than there are takes off the mean response time; NaN if there is no answer.
    one_more_interval : tuple of float
        Its 95 % interval, or its range where curves are assumed.
    curve : tuple of tuple
        Cores looked at, the mean with them, and the ends of the interval of its ratio to the target; none if
        there is no answer.
    """

    _repr_fields = ("cores", "interval", "one_more")

    policy: str
    target: float
    cores: int | None
    interval: tuple[int | None, int | None]
    one_more: float
    one_more_interval: tuple[float, float]
    curve: tuple[tuple[int, float, float, float], ...]

    @classmethod
    def unanswered(cls, policy: str, target: float) -> CoresNeeded:
        """Return that there is no answer."""
        return cls(policy, target, None, (None, None), math.nan, (math.nan, math.nan), ())

    @property
    def one_more_core(self) -> dict[str, object]:
        """What one more core saves: `time_saved` and its `interval`."""
        return {"time_saved": self.one_more, "interval": self.one_more_interval}

    @property
    def answered(self) -> bool:
        """Whether there is an answer."""
        return bool(self.curve)

    @property
    def most_tried(self) -> int:
        """The most cores that were looked at."""
        return max(cores for cores, *_ in self.curve)

    @property
    def label(self) -> str:
        """What to call the policy to people."""
        return _LABELS.get(self.policy, self.policy)


@dataclass
class LogSimulations:
    """Simulations of the jobs of a log, made when they are asked for."""

    system: System
    replay: LogReplay
    findings: Sequence[CurveFinding]
    _on_cores: dict[tuple[str, int], Floats] = field(default_factory=dict)
    _at_ends: dict[tuple[str, int], tuple[float, float]] = field(default_factory=dict)
    _on_curves: dict[tuple[str, float], Floats] = field(default_factory=dict)

    @property
    def curves(self) -> list[SpeedUp]:
        """The curves to go on with."""
        return [finding.curve for finding in self.findings]

    @property
    def sets(self) -> list[list[SpeedUp]]:
        """Sets of likely curves, the curve itself where nothing is drawn."""
        drawn = [
            finding.likely if finding.informative and finding.likely else (finding.curve,)
            for finding in self.findings
        ]
        if all(len(curves) == 1 for curves in drawn):
            return []
        return [[curves[k % len(curves)] for curves in drawn] for k in range(_DRAWS)]

    @property
    def extremes(self) -> list[list[SpeedUp]]:
        """The ends of the range of assumptions, for all classes of which the curve is assumed together."""
        if all(finding.source != ASSUMED for finding in self.findings):
            return []
        return [
            [finding.ends[k] if finding.source == ASSUMED else finding.curve for finding in self.findings]
            for k in (0, 1)
        ]

    def of_log(self) -> PolicyOutcome:
        """Return what was achieved in the log."""
        times = self.replay.logged
        mean = mean_of(times)
        return PolicyOutcome(
            "log", mean.value, mean.interval, 0.0, (0.0, 0.0), (0.0, 0.0), (), self._by_class(times)
        )

    def of(self, name: str, policy: BoundPolicy) -> PolicyOutcome:
        """Return what a policy would have achieved."""
        times = self.replay.run(self.system, policy, self.curves)
        moves = _moves(self._sums(name, policy))
        ratio = ratio_of(times, self.replay.logged, moves)
        mean = mean_of(times, moves)
        extremes = [self.replay.run(self.system, policy, curves).sum() for curves in self.extremes]
        gains = [ratio.value, *(ratio.value * float(end / times.sum()) for end in extremes)]
        within, low, high = ratio.interval, min(gains) / ratio.value, max(gains) / ratio.value
        return PolicyOutcome(
            name,
            mean.value,
            (mean.interval[0] * low, mean.interval[1] * high),
            1.0 - ratio.value,
            (1.0 - within[1] * high, 1.0 - within[0] * low),
            _gains(ratio.interval_of_jobs),
            tuple(1.0 - ratio for ratio in gains[1:]),
            self._by_class(times),
        )

    def cores_needed(self, policy: str, target: float, busy: float) -> CoresNeeded:
        """Return how many cores meet a mean response time, and what one more than there are is worth.

        Where curves are assumed, a number below the mean number of busy cores rests on how badly jobs are
        assumed to scale, and is not returned.
        """
        here = math.floor(self.system.cores)
        moves = _moves(self._sums(policy, self._policy(policy, here)))

        def ratio(cores: int) -> tuple[float, float, float]:
            found = ratio_of(self._times(policy, cores), self.replay.logged, moves)
            low, high = self._factors(policy, cores)
            return found.interval[0] * low, found.value, found.interval[1] * high

        def meets(k: int) -> Callable[[int], bool]:
            return lambda cores: ratio(cores)[k] <= 1.0

        def meets_on_every_curve(cores: int) -> bool:
            return ratio(cores)[1] * self._factors(policy, cores)[1] <= 1.0

        may, surely = _fewest(here, meets(0)), _fewest(here, meets(2))
        fewest = _fewest(here, meets_on_every_curve)
        if self.extremes:
            least = math.ceil(busy)
            may = may if may is not None and may >= least else None
            fewest, surely = (None if found is None else max(found, least) for found in (fewest, surely))
        one_more, interval = self._one_more(policy, here)
        looked = {cores: ratio(cores) for name, cores in sorted(self._on_cores) if name == policy}
        return CoresNeeded(
            policy,
            target,
            fewest,
            (may, surely),
            one_more,
            interval,
            tuple(
                (cores, value * target, low * target, high * target)
                for cores, (low, value, high) in looked.items()
            ),
        )

    def _one_more(self, policy: str, here: int) -> tuple[float, tuple[float, float]]:
        """Return what one more core takes off the mean response time, and its interval."""
        now, then = (self._sums(policy, self._policy(policy, cores)) for cores in (here, here + 1))
        more = ratio_of(self._times(policy, here + 1), self._times(policy, here), _moves(then / now))
        mean = float(self._times(policy, here).mean())
        low, high = more.interval
        saved = [mean * (1.0 - end) for end in (high, low)]
        for curves in self.extremes:
            slow, fast = (self._run(policy, cores, curves).mean() for cores in (here, here + 1))
            saved.append(float(slow - fast))
        return mean * (1.0 - more.value), (min(saved), max(saved))

    def _factors(self, policy: str, cores: int) -> tuple[float, float]:
        """Return by which factors the ends of the range of assumptions move the mean on so many cores."""
        if (policy, cores) not in self._at_ends:
            here = float(self._times(policy, cores).sum())
            ends = [float(self._run(policy, cores, curves).sum()) / here for curves in self.extremes]
            self._at_ends[policy, cores] = min([1.0, *ends]), max([1.0, *ends])
        return self._at_ends[policy, cores]

    def _policy(self, name: str, cores: int) -> BoundPolicy:
        return bind(name, replace(self.system, cores=cores).as_memoryless())

    def _times(self, policy: str, cores: int) -> Floats:
        if (policy, cores) not in self._on_cores:
            self._on_cores[policy, cores] = self._run(policy, cores, self.curves)
        return self._on_cores[policy, cores]

    def _run(self, policy: str, cores: int, curves: Sequence[SpeedUp]) -> Floats:
        system = replace(self.system, cores=cores)
        return self.replay.run(system, self._policy(policy, cores), curves)

    def _by_class(self, times: Floats) -> tuple[float, ...]:
        which = self.replay.jobs.which[self.replay.counted]
        counts = np.bincount(which, minlength=len(self.findings))
        sums = np.bincount(which, weights=times, minlength=len(self.findings))
        return tuple(np.divide(sums, counts, out=np.full(sums.size, np.nan), where=counts > 0).tolist())

    def _sums(self, name: str, policy: BoundPolicy) -> Floats:
        """Return the sum of response times on the curves as estimated, and on each set of likely ones."""
        cores = policy.system.cores
        if not policy.by_counts:
            return self._sums(_LIKE, self._policy(_LIKE, math.floor(cores)))
        if (name, cores) not in self._on_curves:
            fewer = self.replay.with_fewer(_MOST_DRAWN_JOBS)
            system = replace(self.system, cores=cores)
            sums = [fewer.run(system, policy, curves).sum() for curves in (self.curves, *self.sets)]
            self._on_curves[name, cores] = np.array(sums)
        return self._on_curves[name, cores]


def _moves(sums: Floats) -> Floats:
    """Return by how much likely curves move the logarithm of what stands first."""
    return np.log(sums[1:] / sums[0]) if sums.size > 1 else np.zeros(1)


def _gains(ratios: tuple[float, float]) -> tuple[float, float]:
    return 1.0 - ratios[1], 1.0 - ratios[0]


def _fewest(here: int, enough: Callable[[int], bool]) -> int | None:
    """Return the fewest cores that are enough, by bisection; None if several times as many are not."""
    low, high = 0, here
    while not enough(high):
        low, high = high, 2 * high
        if high > _MOST_TIMES * here:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
