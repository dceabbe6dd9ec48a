r"""What a log says of the curve of a class: a curve, others that are likely too, or why it cannot tell.

*Which family.* Amdahl's law, the power law and the free concave curve are compared by the Bayesian
information criterion, with the likelihood divided by the dispersion φ of sizes where that is above one
(quasi-likelihood: C. F. J. Wedderburn, Biometrika 61, 1974), or sizes that differ would pass for corners.
Likely curves are drawn: a family by its weight, then its parameter from a normal distribution on either side
of the estimate, as wide there as its interval. So means and intervals of what a policy gains allow for
families that are not known.

*Bands* are 95 % whichever family is true: they hold the interval of every family that is not excluded, not
the middle of the drawn curves. Two families that fit a log alike lie side by side, and the middle of the two
cuts off the outer end of each: of 176 curves it missed 21, all of them on the outer side.

The curve to go on with has the mean of the drawn parameters of the likeliest family, not the likeliest
parameter: policies made for the latter are far worse where it lies at the end of its range.

*Where it cannot tell.* Curves are learned from jobs whose cores were set without regard to their size. Where
jobs kept the cores they began with, the cores were most likely asked for with the job in mind. And where jobs
leave at a lower rate the more cores they hold, they were for certain: no curve falls. That is tested by
grouped rates D/W against the nearest ones that do not fall (isotonic regression).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from corewise.errors import NotConverged
from corewise.estimation.concave import FREE
from corewise.estimation.estimates import Estimate, Estimates
from corewise.estimation.free import FreeFit, sample_size
from corewise.estimation.likelihood import Likelihood
from corewise.estimation.mle import EXPONENTIAL, estimate
from corewise.kit.arrays import Floats
from corewise.kit.report import Summarised
from corewise.model.speedup import Amdahl, SpeedUp, Tabulated
from corewise.model.system import System
from corewise.observation.histories import JobHistories
from corewise.observation.sample_path import SamplePath
from corewise.observation.statistics import ClassStatistics

__all__ = [
    "ASSUMED",
    "ASSUMED_CURVE",
    "ASSUMED_RANGE",
    "FROM_LOG",
    "FROM_TABLE",
    "CurveFinding",
    "FoundCurve",
    "curves_of_log",
    "likely_curves",
    "resized_share",
    "why_not_a_curve",
]

FROM_LOG, FROM_TABLE, ASSUMED = "log", "throughput", "assumed"

ASSUMED_CURVE = Amdahl(0.9)
"""The curve that is assumed where neither the log nor a measurement tells it."""

ASSUMED_RANGE = (Amdahl(0.5), Amdahl(1.0))
"""The ends of the range of assumptions; the upper one is linear speed-up."""

_PARAMETRIC = ("amdahl", "power")
_DRAWN = 400
_QUANTILE = 1.959964  # of the normal distribution, for the ends of a 95 % interval
RIGID = 0.05  # of the jobs: if fewer changed their cores, the log is one of rigid jobs
_GROUPS = 8
_GROUP = 20.0  # departures in a group of widths
_SURE = 1e-3  # how seldom widths are said to go by size where they do not
_CONSIDERED = 0.02  # weight from which on a family is drawn from


@dataclass(frozen=True, eq=False, repr=False)
class CurveFinding(Summarised):
    """Curve of a class: where it comes from, and which others are as likely.

    Attributes
    ----------
    name : str
        The class.
    curve : SpeedUp
        The curve to go on with: the mean of likely ones.
    source : str
        ``"log"``, ``"throughput"`` (measured), or ``"assumed"``.
    reason : str
        Why the log cannot tell, or empty.
    estimate : Estimate or None
        The estimate from the log.
    likely : tuple of SpeedUp
        Curves drawn from what is likely; none if nothing is drawn.
    ends : tuple of SpeedUp
        The ends of the 95 % interval in each family that is not excluded; if assumed, of the range of
        assumptions.
    weights : mapping
        How likely each family is, by the criterion.
    """

    _repr_fields = ("name", "curve", "source")
    _json_fields = ("family=curve.family", "parameters=curve.parameters", "source", "intervals", "weights")

    name: str
    curve: SpeedUp
    source: str
    reason: str
    estimate: Estimate | None
    likely: tuple[SpeedUp, ...]
    ends: tuple[SpeedUp, ...]
    weights: Mapping[str, float]

    @property
    def informative(self) -> bool:
        """Whether the log itself says what the curve is."""
        return self.source == FROM_LOG

    @property
    def intervals(self) -> Mapping[str, tuple[float, float]] | None:
        """The intervals of its parameters; None where the log does not tell them."""
        return self.estimate.intervals if self.informative and self.estimate else None

    def band(self, cores: Floats) -> tuple[Floats, Floats]:
        """Return between which speeds the curve lies at these cores: 95 %, or the range of assumptions."""
        speeds = np.array([curve.rate(cores) for curve in (self.curve, *self.ends)])
        return speeds.min(axis=0), speeds.max(axis=0)


class FoundCurve(NamedTuple):
    """What a log says of a curve: the estimate in the likeliest family, likely curves, ends, and weights."""

    estimate: Estimate
    likely: tuple[SpeedUp, ...]
    ends: tuple[SpeedUp, ...]
    weights: dict[str, float]

    @property
    def mean(self) -> SpeedUp | None:
        """The curve with the mean of the likely parameters of its family; None without information."""
        best = self.estimate.curve
        if best is None or not best.bounds:
            return best
        own = [curve.parameters for curve in self.likely if curve.family == best.family]
        if not own:
            return best
        return best.with_parameters(**{name: float(np.mean([p[name] for p in own])) for name in best.bounds})


def curves_of_log(path: SamplePath, system: System, rng: np.random.Generator) -> dict[str, FoundCurve]:
    """Return for each class what the log says of its curve, if anything."""
    rough = {
        family: estimate(path.statistics, system, family=family, sizes=EXPONENTIAL) for family in _PARAMETRIC
    }
    by_job = estimate(path, system, family="amdahl")
    weights = {
        name: _weights(name, table, rough, by_job[name])
        for name, table in zip(system.names, path.statistics.classes, strict=True)
    }
    fine: dict[str, Estimates] = {"amdahl": by_job}
    for family in (*_PARAMETRIC[1:], FREE):
        wanted = {name: family for name in system.names if weights[name].get(family, 0.0) > _CONSIDERED}
        if wanted:
            fine[family] = estimate(path, system, family=wanted)
    found = {}
    for name in system.names:
        best = max(weights[name], key=lambda family: weights[name][family], default="amdahl")
        some = {family: fine[family][name] for family, w in weights[name].items() if w > _CONSIDERED}
        likely = likely_curves(some, weights[name], rng)
        found[name] = FoundCurve(fine[best][name], likely, _ends(some), weights[name])
    return found


def _weights(
    name: str, table: ClassStatistics, rough: Mapping[str, Estimates], by_job: Estimate
) -> dict[str, float]:
    """Return how likely each family is that the data say something about."""
    fits = {
        family: (found[name].log_likelihood, len(found[name].parameters))
        for family, found in rough.items()
        if found[name].informative
    }
    free = _free_fit(table) if fits else None
    if free is not None:
        fits[FREE] = free
    spread = max(by_job.dispersion.value, 1.0) if by_job.dispersion else 1.0
    worth = math.log(sample_size(table))
    criteria = {family: -2.0 * value / spread + count * worth for family, (value, count) in fits.items()}
    least = min(criteria.values(), default=0.0)
    shares = {family: math.exp(-0.5 * (value - least)) for family, value in criteria.items()}
    return {family: share / sum(shares.values()) for family, share in shares.items()}


def _free_fit(table: ClassStatistics) -> tuple[float, int] | None:
    """Return the likelihood of the free curve and its corners; None if it cannot be found."""
    if not np.any(table.departures[table.widths > 1.0] > 0.0):
        return None
    try:
        fit = FreeFit.of(table, None)
    except NotConverged:
        return None
    return Likelihood(table, fit.curve, None).value(np.empty(0)), fit.corners


def likely_curves(
    found: Mapping[str, Estimate], weights: Mapping[str, float], rng: np.random.Generator
) -> tuple[SpeedUp, ...]:
    """Return curves drawn from estimates in several families, each as often as it is likely."""
    drawn: list[SpeedUp] = []
    total = sum(weights[family] for family in found)
    for family, estimated in found.items():
        count = round(_DRAWN * weights[family] / total)
        drawn += _away(estimated, rng.standard_normal(count))
    return tuple(drawn[i] for i in rng.permutation(len(drawn)))


def _ends(found: Mapping[str, Estimate]) -> tuple[SpeedUp, ...]:
    """Return the curves at the ends of the 95 % interval in each family."""
    steps = np.array([-_QUANTILE, _QUANTILE])
    return tuple(curve for estimated in found.values() for curve in _away(estimated, steps))


def _away(found: Estimate, steps: Floats) -> list[SpeedUp]:
    """Return curves of the family of an estimate, as many standard errors away from it."""
    if found.curve is None:
        return []
    return _stretched(found, steps) if isinstance(found.curve, Tabulated) else _moved(found, steps)


def _moved(found: Estimate, steps: Floats) -> list[SpeedUp]:
    """Return curves with their parameter as many standard errors away."""
    assert found.curve is not None
    low, high = found.interval
    name, (least, most) = next(iter(found.curve.bounds.items()))
    reach = np.where(steps < 0.0, found.value - low, high - found.value) / _QUANTILE
    values = np.clip(found.value + steps * reach, least, most)
    return [found.curve.with_parameters(**{name: value}) for value in values.tolist()]


def _stretched(found: Estimate, steps: Floats) -> list[SpeedUp]:
    """Return free curves with what they gain over one core stretched, as the band is wide at its far end.

    The band takes sizes to be exponential: it is widened by their dispersion.
    """
    assert isinstance(found.curve, Tabulated)
    assert found.band is not None
    wider = math.sqrt(max(found.dispersion.value, 1.0)) if found.dispersion else 1.0
    z, s = found.curve.corners
    gain = float(s[-1]) - 1.0
    low, high = (float(ends[-1]) - 1.0 for ends in (found.band.low, found.band.high))
    if z.size < 2 or gain <= 0.0:
        return [found.curve] * steps.size
    steepest = (z[1] - 1.0) / (s[1] - 1.0)  # beyond it the curve would rise faster than its cores
    reach = np.where(steps < 0.0, gain - low, high - gain) / _QUANTILE * wider / gain
    factors = np.clip(1.0 + steps * np.maximum(reach, 0.0), 0.0, steepest)
    return [
        Tabulated(list(zip(z.tolist(), (1.0 + max(factor, 1e-9) * (s - 1.0)).tolist(), strict=True)))
        for factor in factors.tolist()
    ]


def why_not_a_curve(table: ClassStatistics, jobs: JobHistories, found: Estimate) -> str:
    """Return why a log cannot tell the curve of a class, or an empty text."""
    if not found.informative:
        return found.note
    if resized_share(jobs) < RIGID:
        return (
            "jobs kept the cores they began with, so wide jobs may simply be large ones: "
            "a curve needs jobs whose cores change while they run"
        )
    spread = max(found.dispersion.value, 1.0) if found.dispersion else 1.0
    if _falls(table, spread):
        return "the more cores jobs hold the slower they leave: cores look chosen by size"
    return ""


def resized_share(jobs: JobHistories) -> float:
    """Return the share of jobs that held different numbers of cores, apart from none."""
    if not jobs.first.size or not jobs.place.size:
        return 0.0
    width = jobs.widths[jobs.place]
    changes = np.append((width[1:] != width[:-1]) & (width[1:] > 0.0) & (width[:-1] > 0.0), False)
    upto = np.concatenate([[0], np.cumsum(changes)])  # changes after the segments before each
    last = np.maximum(jobs.last - 1, jobs.first)
    return float(np.mean(upto[last] > upto[jobs.first]))


def _falls(table: ClassStatistics, spread: float) -> bool:
    """Return whether jobs leave at a rate that clearly falls with the cores that they hold."""
    from scipy.special import chdtrc

    held = table.widths > 0.0
    departures, job_time = _grouped(table.departures[held], table.job_time[held])
    if departures.size < 2:
        return False
    rates, even = departures / job_time, _isotonic(departures, job_time)
    seen = departures > 0.0
    loss = 2.0 * float(departures[seen] @ np.log(rates[seen] / even[seen])) / spread
    return float(chdtrc(departures.size - 1, max(loss, 0.0))) < _SURE


def _grouped(departures: Floats, job_time: Floats) -> tuple[Floats, Floats]:
    """Return departures and job-time of groups of neighbouring widths, with enough departures in each."""
    enough = max(_GROUP, float(departures.sum()) / _GROUPS)
    groups = np.floor((np.cumsum(departures) - 0.5 * departures) / enough)
    starts = np.flatnonzero(np.diff(groups, prepend=-1.0) > 0.0)
    if not starts.size:
        return np.empty(0), np.empty(0)
    d, w = (np.add.reduceat(column, starts) for column in (departures, job_time))
    return d[w > 0.0], w[w > 0.0]


def _isotonic(departures: Floats, job_time: Floats) -> Floats:
    """Return the likeliest rates that do not fall: neighbours that violate it are pooled."""
    pools: list[list[float]] = []
    for d, w in zip(departures.tolist(), job_time.tolist(), strict=True):
        pools.append([d, w, 1.0])
        while len(pools) > 1 and pools[-2][0] * pools[-1][1] > pools[-1][0] * pools[-2][1]:
            last = pools.pop()
            pools[-1] = [a + b for a, b in zip(pools[-1], last, strict=True)]
    return np.concatenate([np.full(int(count), d / w) for d, w, count in pools])
