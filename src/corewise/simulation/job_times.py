r"""Response times of jobs that are followed one by one: means and percentiles, in a fixed space.

For sizes of any law E[T | X = x] is nearly proportional to x, and exactly so for one class (F. P. Kelly,
*Reversibility and Stochastic Networks*, 1979). So the *ratio* of total time to total size, times the mean,

    (ΣT / ΣX) · E[X],

estimates the mean response time of a class with less variance than the mean of T: a factor of 1.4 to 3.8 was
measured, and where their variance is infinite it still settles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from corewise.kit.arrays import Floats, Ints
from corewise.kit.frozen import FrozenMapping
from corewise.kit.report import Summarised
from corewise.kit.values import ByValue
from corewise.simulation.loops._kernels.jobs import BINS, FIRST_BIN, SHIFT, Completed

__all__ = ["PERCENTS", "ClassTimes", "JobTimes", "exact_percentiles"]

PERCENTS = (50.0, 90.0, 95.0, 99.0)
"""The percentiles that are always given."""


@dataclass(frozen=True, eq=False, repr=False)
class ClassTimes(ByValue, Summarised):
    """Response times of one class: those of the jobs that came and left.

    Attributes
    ----------
    name : str
        The class.
    jobs : float
        How many they are; a fraction if jobs were there at the start and it was not seen who left.
    mean : float
        The mean in the long run, NaN if there are none. Where sizes are not exponential it is the total time
        over the total size, times the mean size, which settles sooner than the mean of the times.
    interval : tuple of float
        A 95 % confidence interval for it by batch means; NaN if it has none: if sizes are exponential, if
        batches are not independent, or if the variance of sizes is infinite.
    sample_mean : float
        The mean of the times themselves.
    percentiles : mapping
        The median and the 90th, 95th and 99th percentile, by the percentage; empty unless jobs were followed.

    Examples
    --------
    >>> import corewise as cw
    >>> system = cw.load_system("paper:1")
    >>> run = cw.simulate(system, "equi", departures=2_000, rng=7, record=True)
    >>> times = run.response_times["one"]
    >>> times.name, round(times.mean, 2)
    ('one', 0.28)
    >>> {percent: round(value, 2) for percent, value in times.percentiles.items()}
    {50.0: 0.18, 90.0: 0.7, 95.0: 0.94, 99.0: 1.33}
    """

    _repr_fields = ("name", "jobs", "mean", "interval")
    _json_fields = ("name", "jobs", "mean", "interval", "sample_mean", "percentiles=percentile_rows")

    name: str
    jobs: float
    mean: float
    interval: tuple[float, float]
    sample_mean: float
    percentiles: Mapping[float, float]

    @property
    def percentile_rows(self) -> list[dict[str, float]]:
        """The percentiles as rows of `percent` and `value`."""
        return [{"percent": percent, "value": value} for percent, value in self.percentiles.items()]


def exact_percentiles(times: Floats | None) -> Mapping[float, float]:
    """Return the usual percentiles of response times, none if there are no times."""
    if times is None or not times.size:
        return FrozenMapping({})
    return _by_percent(np.percentile(times, PERCENTS))


def _by_percent(values: Floats) -> Mapping[float, float]:
    return FrozenMapping(dict(zip(PERCENTS, values.tolist(), strict=True)))


@dataclass
class JobTimes:
    """Response times of the jobs that came and left, of each class.

    Attributes
    ----------
    sums : ndarray, shape (3, K)
        How many they are, their total time, and their total size.
    bins : ndarray of int, shape (K, bins)
        How many took how long, in parts of an octave.
    ratios : ndarray, shape (2, K, bins)
        How many there are of a size, in parts of an octave, and the sum of their times over their sizes.
    """

    sums: Floats
    bins: Ints
    _scratch: Floats
    ratios: Floats

    @classmethod
    def none(cls, classes: int) -> JobTimes:
        """Return those of no jobs."""
        bins = np.zeros((classes, BINS), dtype=np.int64)
        return cls(np.zeros((3, classes)), bins, np.zeros(1), np.zeros((2, classes, BINS)))

    @property
    def together(self) -> JobTimes:
        """Those of all classes as one."""
        return JobTimes(
            self.sums.sum(axis=1, keepdims=True),
            self.bins.sum(axis=0, keepdims=True),
            np.zeros(1),
            self.ratios.sum(axis=1, keepdims=True),
        )

    @property
    def arrays(self) -> Completed:
        """What the kernels count in."""
        bits = self._scratch.view(np.int64)
        return Completed(self.sums, self.bins, self._scratch, self.ratios, bits)

    @property
    def left(self) -> Floats:
        """How many jobs came and left."""
        return np.asarray(self.sums[0])

    @property
    def spent(self) -> Floats:
        """Their total time."""
        return np.asarray(self.sums[1])

    @property
    def work(self) -> Floats:
        """Their total size."""
        return np.asarray(self.sums[2])

    def usual_percentiles(self, i: int) -> Mapping[float, float]:
        """Return the usual percentiles of the times of class i, none if there are no times."""
        if not self.left[i]:
            return FrozenMapping({})
        return _by_percent(self.percentiles(i, np.array(PERCENTS)))

    def percentiles(self, i: int, percents: Floats) -> Floats:
        """Return percentiles of the times of class i, to about half a per cent; NaN if there are none."""
        counts = self.bins[i]
        seen = np.flatnonzero(counts)
        if not seen.size:
            return np.full(percents.shape, np.nan)
        edges = ((np.arange(seen[0], seen[-1] + 2) + FIRST_BIN) << SHIFT).view(np.float64)
        upto = np.concatenate([[0], np.cumsum(counts[seen[0] : seen[-1] + 1])])
        return np.asarray(np.interp(percents / 100.0 * upto[-1], upto, edges))
